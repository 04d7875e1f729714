"""A fit with fixed effects.

source -> Estimated -> SlopeModel -> EffectsFitted

Least squares need one read of sums. Other losses need one for each step, from the weighted least
squares of the link of their responses. Robust errors need one more, of rows less their effects.
"""

from dataclasses import replace

from masgrad.fitting.effects.fits.asked import check_asked_for, source_of
from masgrad.fitting.effects.fits.assemble import assemble_effects
from masgrad.fitting.effects.fits.estimate import find_slopes
from masgrad.fitting.effects.results.fitted import EffectsFitted
from masgrad.fitting.fit import reading
from masgrad.fitting.task import Task, check_task
from masgrad.progress import Progress

NO_MINIMUM = "try another link, or join levels"


def fit_effects(task: Task) -> EffectsFitted:
    """Fit a model by formula with fixed effects."""
    check_asked_for(task)
    check_task(task)
    bar = Progress(None, task.options.progress, "rows")
    with reading(task, bar, NO_MINIMUM, task.is_single) as (reader, sample, _):
        reader = replace(reader, source=source_of(task, sample))
        return assemble_effects(task, reader, sample, find_slopes(task, reader, sample))

"""From a source of rows to a result: sample, frame, start, estimate, and what may go wrong."""

import time

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.formula.terms import Terms
from masgrad.data.source import Source
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting import frame as frames
from masgrad.fitting.assemble import assemble
from masgrad.fitting.correcting import Corrected
from masgrad.fitting.covariance import check_kind
from masgrad.fitting.estimate import Sample, estimate, take_sample
from masgrad.fitting.examine import explain
from masgrad.fitting.options import Options
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.fitting.result import Result
from masgrad.fitting.ridge import ridge_of
from masgrad.fitting.start import WARM, best_start, check_minimum, frame_of, head
from masgrad.fitting.threads import own_cores
from masgrad.fitting.watch import Watch
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.progress import Progress

KEEP = 1 << 15
"""Rows that are kept: the more, the fewer reads, for they show what a quadratic misses."""


def fit_source(
    model: Model,
    source: Source,
    terms: Terms | None,
    options: Options,
    frame: frames.Frame | None = None,
    prior: Quadratic | None = None,
) -> Result:
    """`fit` on a source of rows, perhaps after earlier ones whose local model is the prior."""
    began = time.perf_counter()
    problem = Problem(model, source, frame or frames.identity(1), options.threads, prior)
    canonical = problem.family is None or problem.family.canonical
    problem.informed = options.cov_type == "nonrobust" and not canonical
    check_options(problem, options)
    with own_cores(), Progress(_total(source), options.progress, "rows") as bar:
        watch = Watch(bar)
        try:
            sample, done = _estimate(problem, options, frame is None, watch)
            return assemble(problem, terms, options, sample, done, watch, began)
        except BadBlock as bad:
            raise explain(problem, bad.rows, watch.rows) from None
        except NotConvex as error:
            raise InputError(
                f"{error}: the reads ended where the mean loss has no minimum, so there is no "
                "estimate to give an interval for; try other starts, or a smaller model"
            ) from None


def check_options(problem: Problem, options: Options) -> None:
    """Options that this model or this source cannot serve."""
    check_kind(options.cov_type, problem)
    again, several = problem.source.rereadable, options.plan.passes not in (1, "auto")
    if not again and (several or options.method == "chains"):
        raise InputError(
            "an iterator can be read once, and "
            f"{'chains' if options.method == 'chains' else f'passes={options.plan.passes!r}'} "
            "needs more; give mg.Stream(function) with a function that starts it anew"
        )
    if options.method == "chains" and options.cov_type not in ("robust", "HC0"):
        raise InputError("chains have a covariance of their own; leave cov_type as it is")


def _estimate(
    problem: Problem, options: Options, new: bool, watch: Watch
) -> tuple[Sample, Corrected]:
    rng = np.random.default_rng([options.plan.seed, 0])
    single = options.plan.passes == 1 or not problem.source.rereadable
    sample = take_sample(problem.source, single, KEEP, options.memory // 8, rng)
    problem.kept, problem.whole = sample.rows, sample.whole
    if new:
        problem.frame = frame_of(problem.model, sample.rows, options.start)
    problem.ridge = ridge_of(options.penalty, problem.frame)
    _check_rows(problem, sample)
    rows = sample.rows if single or sample.whole else head(sample.rows, WARM)
    start = best_start(problem, rows, options.start, options.starts, rng)
    done = estimate(problem, options.plan, sample, start, watch)
    check_minimum(problem, done.local)
    _check_mass(problem, done.local)
    check_responses(problem)
    return sample, done


def _check_rows(problem: Problem, sample: Sample) -> None:
    """More rows than parameters, and in a small table responses that differ."""
    p = problem.model.dim(sample.rows)
    known = count_rows(sample.rows) if sample.whole else problem.source.count
    earlier = 0 if problem.prior is None else problem.prior.rows
    if known is not None and known + earlier <= p and problem.ridge.matrix is None:
        raise IdentificationError(
            f"{known + earlier} rows cannot estimate {p} parameters with intervals; more rows than "
            "parameters are needed"
        )
    check_small(problem, sample)


def check_small(problem: Problem, sample: Sample) -> None:
    """Responses of a small table: admitted by the family, and with something to estimate."""
    if sample.whole and isinstance(problem.model, GLM):
        y, family = sample.rows[1], problem.model.family
        if not (y.min() >= family.lowest and y.max() <= family.highest):
            raise BadBlock(sample.rows)
        problem.span[:] = float(y.min()), float(y.max())
        check_responses(problem)


def _check_mass(problem: Problem, local: Quadratic) -> None:
    if local.count <= len(local.point) < local.rows and problem.ridge.matrix is None:
        raise IdentificationError(
            f"weights sum to {local.count:g}, and there are {len(local.point)} parameters: weights "
            "are frequencies, the number of rows that each row stands for; multiply them"
        )


def check_responses(problem: Problem) -> None:
    """Responses that leave a family nothing to estimate."""
    if not isinstance(problem.model, GLM) or problem.prior is not None:
        return
    low, high = problem.span
    family = problem.model.family
    if family.name == "bernoulli" and low == high:
        raise InputError(f"every response is {low:g}: with a single class there is nothing to fit")
    if family.lowest == 0 and high == 0:
        raise InputError("every response is 0: the rates have no estimate but 0")


def _total(source: Source) -> int | None:
    """Rows that two reads go over, for the bar."""
    return None if source.count is None else 2 * source.count

"""What a run begins with: a field, a recorder and chains, found to fit together."""

from typing import NamedTuple

import numpy as np

from masgrad.chains import door
from masgrad.chains.footprint import check_footprint
from masgrad.chains.groups import Groups
from masgrad.chains.penalised import check_metric, check_penalty
from masgrad.chains.record import Paths, Recorder, Summaries
from masgrad.chains.trace import Ending
from masgrad.checks import check_count
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.field import Field, make_field
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.types import Rows

PATH_BYTES = 8 * 2**30


class Beginning(NamedTuple):
    """Chains that are about to run.

    Args:
        groups: the chains.
        recorder: what was recorded so far.
        ending: what the trace will hold for `mg.resume`, but for the states.
        last: the step at which the run ends.
    """

    groups: Groups
    recorder: Recorder
    ending: Ending
    last: int


def check_thin(thin: int, steps: int) -> None:
    if steps % thin:
        raise InputError(f"thin={thin} does not divide steps={steps}; the last step would be lost")


def prepare(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    rows: Rows,
    theta: np.ndarray,
    batch_size: int | None,
    *,
    replace: bool,
) -> Field:
    """The field of a run, once kernel, model and data have been found to fit together."""
    has_rows = not isinstance(data, Simulator | LeastSquaresMoments)
    known = door.known_rows(data, rows)
    check_penalty(kernel, model, len(theta))
    batch_size = door.check_batch(kernel, batch_size, len(theta), known, replace)
    door.check_drawable(kernel, data, batch_size)
    door.check_loss(model, theta, rows)
    population = door.needs_population(kernel, batch_size, known)
    if population:
        door.check_simulated_covariance(data, theta)
    check_footprint(kernel, batch_size, len(theta), theta.shape[1])
    check_metric(kernel, model, theta, rows if has_rows else data)
    if known is not None:
        door.warn_unstable(kernel, model, rows if has_rows else data)
    return make_field(model, rows if has_rows else data, batch_size, replace, population)


def note_of(kernel: Kernel, field: Field, theta: np.ndarray) -> str:
    return kernel.note(field.batch_size, len(theta)) if isinstance(kernel, Kernel) else ""


def new_recorder(keep: str, chains: int, records: int, p: int, note: str) -> Recorder:
    if keep == "summary":
        check_count("chains (for a summary over chains)", chains, 2)
        return Summaries(chains, note)
    if keep != "paths":
        raise InputError(f"keep={keep!r}; use 'paths' or 'summary'")
    size = chains * records * p * 8
    if size > PATH_BYTES:
        raise InputError(
            f"the paths would take {size / 2**30:.0f} GiB; use thin= to record fewer steps, or "
            "keep='summary'"
        )
    return Paths(chains, records, p, note)

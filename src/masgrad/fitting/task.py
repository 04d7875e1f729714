"""What a call asks for: a model, a source of rows, and options that fit both."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from masgrad.data.groupings.grouping import with_role
from masgrad.data.left_out import LeftOut
from masgrad.data.source import Arrays, Source
from masgrad.errors import InputError
from masgrad.fitting.journal.journal import NO_JOURNAL, Journal
from masgrad.fitting.options import SERIAL, Options
from masgrad.models.glm import GLM
from masgrad.models.model import Model

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms
    from masgrad.fitting.objective.clusters.clustered import Clustered
    from masgrad.fitting.objective.coordinates import Coordinates
    from masgrad.fitting.uncertainty.serial.record import Serial


@dataclass(frozen=True)
class Earlier:
    """Sums of rows that an earlier fit has read.

    Args:
        coordinates: of these sums.
        clusters: by cluster, if rows are clustered.
        serial: scores in time order, if rows depend on their neighbours.
    """

    coordinates: "Coordinates"
    clusters: "Clustered | None"
    serial: "Serial | None"


@dataclass(frozen=True)
class Task:
    """What is fitted.

    Args:
        model: the loss.
        source: the rows.
        terms: of the formula, if there is one.
        options: the keywords of the call, checked.
        earlier: what an earlier fit has kept of rows that these follow.
        left_out: which rows are left out, and where they are counted; None if none are.
        journal: of what reads have given.
    """

    model: Model
    source: Source
    terms: "Terms | None"
    options: Options
    earlier: "Earlier | None" = None
    left_out: LeftOut | None = None
    journal: Journal = NO_JOURNAL

    @property
    def is_single(self) -> bool:
        """Whether all rows but the sample are read once."""
        return self.options.passes == 1 or not self.source.rereadable

    @property
    def needs_information(self) -> bool:
        """Whether the expected H is summed: for non-robust errors of non-canonical links."""
        trusted = self.options.cov_type == "nonrobust" and isinstance(self.model, GLM)
        return trusted and not self.model.family.canonical  # pyright: ignore


def refuse_effects(terms: "Terms | None", what: str) -> None:
    """Refuse fixed effects where there is no place for them."""
    if terms is not None and terms.effects:
        raise InputError(
            f"{what} has no fixed effects; write levels as columns, C({terms.effects[0].name})"
        )


def check_task(task: Task) -> None:
    """Refuse options that this model or this source cannot serve."""
    options, again = task.options, task.source.rereadable
    _check_spread(task)
    _check_cov_type(options.cov_type, task.model, again)
    _check_serial(task)
    _check_weights_type(options)
    if options.starts is not None and isinstance(task.model, GLM):
        raise InputError(
            f"starts={options.starts} is for losses that need not be convex, such as a mixture or "
            "one of your own; a linear predictor begins at its mean response: give start= instead"
        )
    if options.starts is not None and options.start is not None:
        raise InputError(
            f"start= and starts={options.starts} are two ways to begin; give one of them: start= "
            "where to begin, starts= how many random points"
        )
    if not again and (options.passes not in (1, "auto") or options.method == "chains"):
        what = "chains" if options.method == "chains" else f"passes={options.passes!r}"
        raise InputError(
            f"an iterator can be read once, and {what} needs more; give mg.Stream(function) with a "
            "function that starts it anew"
        )
    clustered = task.source.groupings and with_role(task.source.groupings, "clusters")
    if options.method == "chains" and (options.cov_type not in ("robust", "HC0") or clustered):
        raise InputError(
            "chains have a covariance of their own; leave cov_type as it is, and clusters out"
        )


def _check_spread(task: Task) -> None:
    """Refuse what follows one row after the other where workers read shards of them."""
    if task.source.spread is None:
        return
    if task.is_single:
        raise InputError(
            "passes=1 estimates while it reads, row after row, and engine='dask' reads all shards "
            "at once; leave passes= out"
        )
    if task.options.method == "chains":
        raise InputError("method='chains' draws rows in one process; leave engine= or method= out")


def _check_cov_type(cov_type: str, model: Model, rereadable: bool) -> None:
    """Refuse a covariance that this model and these data do not have."""
    if cov_type == "nonrobust" and not model.is_likelihood:
        raise InputError(
            "cov_type='nonrobust' trusts the loss to be a negative log-likelihood, which "
            f"{type(model).__name__} need not be; use 'robust'"
        )
    if cov_type == "HC3" and not (isinstance(model, GLM) and rereadable):
        raise InputError(
            "cov_type='HC3' needs leverages: a linear predictor, and rows that can be read again; "
            "use 'HC1'"
        )


def _check_weights_type(options: Options) -> None:
    """Refuse what weights that are no frequencies do not have."""
    if options.weights_type == "probability" and options.cov_type == "nonrobust":
        raise InputError(
            "weights_type='probability' samples rows unequally, which no likelihood knows of; "
            "leave cov_type as it is: robust"
        )
    if options.weights_type != "frequency" and options.method == "chains":
        raise InputError(
            f"method='chains' draws rows by their frequency, and weights_type="
            f"{options.weights_type!r} are none; leave method out"
        )


def _check_serial(task: Task) -> None:
    """Refuse times and units that nothing uses, and serial covariances that have no rows."""
    options = task.options
    if options.cov_type not in SERIAL:
        given = {"time": options.time, "unit": options.unit, "lags": options.lags}
        for name, value in given.items():
            if value is not None:
                raise InputError(
                    f"{name}= is for cov_type='HAC' or 'DK', and cov_type is {options.cov_type!r}"
                )
        return
    if not task.source.rereadable:
        raise InputError(
            f"cov_type={options.cov_type!r} reads the rows again at the estimate, and an iterator "
            "can be read once; give mg.Stream(function) with a function that starts it anew"
        )
    known = task.terms is not None or isinstance(task.source, Arrays)
    timed = with_role(task.source.groupings, "time")
    if options.cov_type == "DK" and known and not timed:
        raise InputError("cov_type='DK' sums scores by time; give time=, a column or an array")
    if options.cov_type == "DK" and options.unit is not None:
        raise InputError(
            "cov_type='DK' sums the scores of all units of a time; leave unit= out, or use 'HAC'"
        )

"""The meat of a covariance, M in H^-1 M H^-1, of the kind that was asked for.

HC0, HC1 and non-robust errors take it, or nothing, from the last read. HC3 and errors of rows that
depend on each other need gradients at the estimate, and so one more read of the rows, or two.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.data.groupings.grouping import with_role
from masgrad.data.source import Source
from masgrad.errors import InputError
from masgrad.fitting.identification.rank import NullSpace, listed
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import CLUSTERED, SERIAL, Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.clusters.meat import ClusteredMeat, clustered_meat
from masgrad.fitting.uncertainty.kinds import restrict
from masgrad.fitting.uncertainty.leverage import leveraged_meat
from masgrad.fitting.uncertainty.serial.meat import SerialMeat, serial_meat
from masgrad.fitting.uncertainty.serial.record import Serial


@dataclass(frozen=True)
class Meat:
    """M, and what comes with it.

    Args:
        matrix: M, (p, p).
        cov_type: its kind; "HC0" for an M that is taken as it is.
        shown: the kind that it is called.
        reads: of the rows, made for it.
        notes: about it.
        df: degrees of freedom of t, if there are few; (p,) if coefficients have their own.
        clusters: what it was made of, if rows are clustered.
        undefined: mask of the coefficients whose HC3 covariance is 0/0.
        serial: its lags, if rows depend on their neighbours in time.
    """

    matrix: np.ndarray
    cov_type: str
    shown: str
    reads: int = 0
    notes: tuple[str, ...] = ()
    df: int | np.ndarray | None = None
    clusters: Clustered | None = None
    undefined: np.ndarray | None = None
    serial: Serial | None = None

    @property
    def is_dependent(self) -> bool:
        """Whether rows may depend on each other."""
        return self.shown in (*CLUSTERED, *SERIAL)


def kind_of(cov_type: str, source: Source) -> str:
    """The kind of covariance that rows with these groupings get; an error if they cannot have it.

    A stream's groupings are known once its first block is read.
    """
    _check_times(cov_type, source)
    clustered = with_role(source.groupings, "clusters")
    if clustered and cov_type == "robust":
        return "CR1"
    if cov_type in CLUSTERED and not clustered:
        raise InputError(
            f"cov_type={cov_type!r} is for rows in clusters; say which they are: clusters='firm', "
            "or an array of keys (blocks of a stream carry them: mg.Block)"
        )
    if clustered and cov_type not in CLUSTERED:
        raise InputError(
            f"cov_type={cov_type!r} has no use for clusters; leave one of them out, or use 'CR1', "
            "'CR2' or 'CR3'"
        )
    if cov_type in ("CR2", "CR3") and len(clustered) > 1:
        names = " and ".join(grouping.name for grouping in clustered)
        raise InputError(
            f"cov_type={cov_type!r} leaves one cluster out at a time, and rows are clustered by "
            f"{names}; use 'CR1', or one of the groupings"
        )
    return cov_type


def _check_times(cov_type: str, source: Source) -> None:
    """Refuse times and units of a stream's blocks that these errors have no use for."""
    takes = {"HAC": ("time", "unit"), "DK": ("time",)}.get(cov_type, ())
    for role, kinds in (("time", "'HAC' or 'DK'"), ("unit", "'HAC'")):
        if role not in takes and with_role(source.groupings, role):
            raise InputError(
                f"{role}= of a block is for cov_type={kinds}, and cov_type is {cov_type!r}; leave "
                f"{role} out of mg.Block, or give that cov_type"
            )


def find_meat(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    done: Estimate,
    *,
    local: LocalModel,
    null: NullSpace,
    options: Options,
    earlier: Clustered | Serial | None,
) -> Meat:
    """M of the kind that was asked for; HC0's, with a note, if Ctrl-C stops it."""
    kind = kind_of(options.cov_type, reader.source)
    if kind not in ("HC3", *CLUSTERED, *SERIAL):
        return Meat(local.meat, kind, kind)
    with reader.interruptible():
        if not reader.monitor.interrupted:
            if kind == "HC3":
                return _with_leverages(objective, reader, sample, local, null)
            if kind in SERIAL:
                free = len(local.point) - null.size
                before = earlier if isinstance(earlier, Serial) else None
                found = serial_meat(
                    objective, reader, sample, local, options, parameters=free, earlier=before
                )
                return _of_neighbours(kind, found)
            found = clustered_meat(
                objective,
                reader,
                sample,
                done,
                local=local,
                free=len(local.point) - null.size,
                null=null.directions,
                kind=kind,
                options=options,
                earlier=earlier if isinstance(earlier, Clustered) else None,
            )
            return _of_clusters(found, kind)
    return Meat(local.meat, "HC0", "HC0", notes=(f"{kind} was stopped: HC0 instead.",))


def _of_neighbours(kind: str, found: SerialMeat) -> Meat:
    return Meat(found.meat, "HC0", kind, found.reads, found.notes, df=found.df, serial=found.record)


def _of_clusters(found: ClusteredMeat, kind: str) -> Meat:
    return Meat(
        found.matrix, "HC0", kind, found.reads, found.notes, df=found.df, clusters=found.kept
    )


def _with_leverages(
    objective: Objective, reader: Reader, sample: Sample, local: LocalModel, null: NullSpace
) -> Meat:
    """M of HC3."""
    B = restrict(local, null.directions)[1]
    matrix, undefined = leveraged_meat(objective, reader, sample, local, B)
    notes = _on_undefined(undefined, reader.source.names)
    return Meat(matrix, "HC0", "HC3", 2, notes, undefined=undefined)


def _on_undefined(undefined: np.ndarray, names: tuple[str, ...]) -> tuple[str, ...]:
    if not undefined.any():
        return ()
    return (
        f"HC3 has no standard error (nan) for {listed(undefined, names)}: a single row determines "
        "it, with a residual of 0 and a leverage of 1; join levels, or use cov_type='nonrobust'.",
    )

"""The keywords of `fit`: name, default, meaning and check of each, in one place.

`fit` and `glm` take all of them, `penalty_path` and `Result.update` some, and the command line
reads defaults and meanings from here. `Options` holds the checked values.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from masgrad.checkpoints import SECONDS
from masgrad.checks import as_bytes, as_size, check_count, one_of, whole
from masgrad.cores import cores
from masgrad.errors import InputError, InputTypeError
from masgrad.stores.path import as_storage_options
from masgrad.stores.secrets import StorageOptions

if TYPE_CHECKING:
    from masgrad.data.groupings.given import Asked
    from masgrad.data.left_out import LeftOut

TOLERANCE = 1e-3
"""Predicted remainder, in standard errors, at which "auto" stops reading."""

CONVERGED_TOLERANCE = 1e-6
"""The same for "converge" and "newton"."""

OPEN_ENDED = ("auto", "converge", "newton")
"""Passes that are as many as the tolerance takes."""

MOST_READS = 60

METHODS = ("sandwich", "chains")
PRECISIONS = ("auto", "double")
COV_TYPES = (
    *("robust", "HC0", "HC1", "HC3", "nonrobust"),
    *("cluster", "CR1", "CR2", "CR3", "HAC", "DK"),
)
CLUSTERED = ("cluster", "CR1", "CR2", "CR3")
SERIAL = ("HAC", "DK")
SMALL_SAMPLE = ("fixest", "statsmodels", "stata", "none")
TIME_GAPS = ("value", "rank")
MISSING_ROWS = ("error", "drop")
BAD_ROWS = ("error", "skip")
ENGINES = ("local", "dask")
WEIGHTS_TYPES = ("frequency", "analytic", "probability")


def _passes(passes: Any) -> int | str:
    if isinstance(passes, str):
        if passes in OPEN_ENDED:
            return passes
        named = "'auto', 'converge', 'newton' or a number of reads"
        raise InputError(f"passes={passes!r}; {named} is needed")
    if hasattr(passes, "__len__"):
        raise InputTypeError(
            f"passes={passes!r:.40}; a number of reads is needed. Is it y? Responses are given "
            "with X, as one argument: fit(model, (X, y))"
        )
    return check_count("passes", passes, 1)


def _penalty(penalty: Any) -> Any:
    from masgrad.penalties.penalty import Penalty  # NumPy would delay `masgrad --help`

    if penalty is None or isinstance(penalty, Penalty):
        return penalty
    raise InputTypeError(
        f"penalty={penalty!r:.60}; a penalty is needed, such as mg.L1(0.1), mg.L2(0.1)"
    )


def _starts(starts: Any) -> int | None:
    return None if starts is None else check_count("starts", starts, 1)


def _cov_type(cov_type: Any) -> str:
    known = one_of("cov_type", COV_TYPES)(cov_type)
    return "CR1" if known == "cluster" else known


def _block_size(block_size: Any) -> int | None:
    return None if block_size is None else check_count("block_size", block_size, 16)


def _threads(threads: Any) -> int:
    return cores() if threads is None else check_count("threads", threads, 1)


def _engine(engine: Any) -> str | None:
    return None if engine is None else one_of("engine", ENGINES)(engine)


def _field(
    default: Any,
    meaning: str,
    check: Callable[[Any], Any] = lambda value: value,
    accepts: Any = None,
) -> Any:
    """A keyword; `accepts` is its type before the check, if that is another one."""
    return field(default=default, metadata={"meaning": meaning, "check": check, "accepts": accepts})


@dataclass(frozen=True, kw_only=True)
class Options:
    """The keywords of `fit`, checked."""

    passes: int | str = _field(
        "auto",
        '"auto" reads until the estimate is within 0.001 standard errors of the optimum of these '
        'rows, mostly twice; "converge" until it is within 1e-6; "newton" the same by damped '
        "Newton steps over all rows alone, from a safe start; a number is the most steps over "
        "reads that may be made, and 1 is an estimate from a single read; where a step went too "
        "far, up to three more compare points. HC3 reads the rows twice more and chains once more "
        "beyond that number, and a penalty is a second fit.",
        _passes,
    )
    penalty: Any = _field(
        None,
        "such as `L1(0.1)` or `L2(0.1)`: the estimate with it is `result.penalized_params`; "
        '`params` and intervals are without it. `L1("cv")` chooses lam by cross-validation, "bic" '
        'and "aic" by a criterion (`result.path`).',
        _penalty,
    )
    weights: Any = _field(
        None,
        "frequencies, (N,), or the name of a column: 2 is a row twice, 0 no row at all. Of files, "
        "and of streams for a `CustomLoss`, it is a name; other blocks of a stream are (X, y, "
        "weights, offset), either None.",
    )
    offset: Any = _field(None, "a known part of the linear predictor, (N,), or a column's name.")
    exposure: Any = _field(
        None, "(N,), or the name of a column; log(exposure) is added to the offset."
    )
    formula: str | None = _field(None, 'for tables, such as "y ~ a + b".')
    cov_type: str = _field(
        "robust",
        '"robust" (HC0; HC1 for estimates without a penalty after one; CR1 with clusters), "HC0", '
        '"HC1", "HC3"; "CR1" (or "cluster") for clusters, and for few of them "CR2", with degrees '
        'of freedom of its own, and "CR3", the jackknife; "HAC" (Newey-West) for '
        'rows in time order, or by `time` within each `unit`; "DK" (Driscoll-Kraay) by `time`; '
        '"nonrobust", which trusts the model.',
        _cov_type,
    )
    clusters: Any = _field(
        None,
        "the name of a column, an array (N,), or a list of these: rows of one cluster may depend "
        "on each other; several are combined by inclusion and exclusion.",
    )
    small_sample: str = _field(
        "fixest",
        'factors of CR1 errors: "fixest", "statsmodels", "stata" or "none".',
        one_of("small_sample", SMALL_SAMPLE),
    )
    time: Any = _field(None, 'time of each row for "HAC" and "DK": a column or an array (N,).')
    unit: Any = _field(None, 'unit of a panel for "HAC": a column or an array (N,).')
    lags: int | None = _field(
        None,
        "lags of Bartlett's kernel; by default floor(4 (T/100)^(2/9)) for T times.",
        lambda value: None if value is None else check_count("lags", value, 0),
        accepts=int | None,
    )
    time_gaps: str = _field(
        "value",
        'whether times are as far apart as their "value" says, or neighbours by "rank".',
        one_of("time_gaps", TIME_GAPS),
    )
    missing: str = _field(
        "error",
        'rows with a missing value (NaN, None, NA, null) in whatever the fit uses are an "error", '
        'or are left out and counted: "drop".',
        one_of("missing", MISSING_ROWS),
    )
    on_bad_rows: str = _field(
        "error",
        'rows of a CSV file that cannot be read are an "error", or are left out and counted, up to '
        '1 % of the rows and 10,000, and up to 5 of few rows: "skip".',
        one_of("on_bad_rows", BAD_ROWS),
    )
    weights_type: str = _field(
        "frequency",
        '"frequency": a row of weight 2 is two rows; "analytic": inverse variances; "probability": '
        "inverse probabilities of being sampled.",
        one_of("weights_type", WEIGHTS_TYPES),
    )
    method: str = _field(
        "sandwich",
        '"sandwich", or "chains": the spread of averaged MasGrad chains.',
        one_of("method", METHODS),
    )
    chains: int = _field(20, "number of chains.", whole("chains", 4))
    step_size: float = _field(
        1.0,
        "MasGrad's step in its first read, in units of 1/gamma.",
        lambda value: as_size("step_size", value),
    )
    start: Any = _field(
        None,
        "where to begin, (p,), or a pytree such as `params` of a `CustomLoss`; for linear "
        "predictors one of several points that are tried.",
    )
    at: Any = _field(
        None,
        "sums of the rows at this point, for `Result.merge`: an array, values by name, a result.",
    )
    starts: int | None = _field(
        None,
        "number of random starts for losses that need not be convex; by default 10 for mixtures "
        "and networks, and one start, 0, for a loss of one's own.",
        _starts,
        accepts=int | None,
    )
    memory: int = _field(
        "512MB", "memory for reading and keeping rows.", as_bytes, accepts=str | int
    )
    block_size: int | None = _field(
        None,
        "rows that are read and summed at a time; by default 4,096, and more of many rows.",
        _block_size,
        accepts=int | None,
    )
    threads: int = _field(
        None,
        "threads that sum over arrays; as many as there are cores by default.",
        _threads,
        accepts=int | None,
    )
    precision: str = _field(
        "auto",
        '"auto" sums H and M in single precision where standard errors stay within 1e-5 of those '
        'in double precision, which "double" asks for; estimates are in double precision always.',
        one_of("precision", PRECISIONS),
    )
    engine: str | None = _field(
        None,
        'who reads the rows: "local", this process; "dask", the workers of a cluster, from files '
        "or Dask collections; by default whoever holds them.",
        _engine,
        accepts=str | None,
    )
    client: Any = _field(None, "the `distributed.Client` of a Dask cluster.")
    scheduler: Any = _field(
        None,
        'the address of a Dask scheduler, "tcp://10.0.0.1:8786"; with neither, engine="dask" '
        "starts processes on this machine, and stops them in the end.",
        accepts=str | None,
    )
    seed: int = _field(0, "seed of the sample, of orders, starts, chains.", whole("seed", 0))
    checkpoint: Any = _field(None, "a file in which the fit is saved on its way, and at its end.")
    every: float = _field(SECONDS, "seconds between saves.")
    resume: bool = _field(False, "go on from the checkpoint, if any; another fit's is refused.")
    progress: bool | None = _field(None, "whether to show a bar; on terminals by default.")
    storage_options: StorageOptions | None = _field(
        None,
        "options of the connection to a store, for data at addresses such as "
        "'s3://bucket/part-*.parquet': a dictionary, as pandas and fsspec take it, such as "
        "{'anon': True}; it is never shown or saved.",
        as_storage_options,
        accepts=dict[str, Any] | None,
    )

    def __post_init__(self) -> None:
        for f in fields(self):
            object.__setattr__(self, f.name, f.metadata["check"](getattr(self, f.name)))

    @property
    def tolerance(self) -> float:
        """Predicted remainder, in standard errors, at which reads end."""
        return CONVERGED_TOLERANCE if self.passes in ("converge", "newton") else TOLERANCE

    @property
    def most_reads(self) -> int:
        return self.passes if isinstance(self.passes, int) else MOST_READS

    @property
    def open_ended(self) -> bool:
        """Whether as many reads are made as the tolerance takes."""
        return self.passes in OPEN_ENDED

    @property
    def by_rows(self) -> bool:
        """Whether errors are from M, the sum over rows, as it comes from the reads."""
        return self.cov_type in ("robust", "HC0", "HC1") and self.clusters is None

    @property
    def left_out(self) -> "LeftOut | None":
        """Which rows are left out; None if none are."""
        missing, bad = self.missing == "drop", self.on_bad_rows == "skip"
        if not (missing or bad):
            return None
        from masgrad.data.left_out import LeftOut  # NumPy would delay `masgrad --help`

        return LeftOut(missing, bad)

    @property
    def roles(self) -> dict[str, Any]:
        """What stands beside X and y."""
        return {"weights": self.weights, "offset": self.offset, "exposure": self.exposure}

    @property
    def groups(self) -> "tuple[Asked, ...]":
        """What rows are grouped by."""
        if self.clusters is None and self.unit is None and self.time is None:
            return ()
        from masgrad.data.groupings.given import asked  # NumPy would delay `masgrad --help`

        return asked({"clusters": self.clusters, "unit": self.unit, "time": self.time})


KEYWORDS = {f.name: f for f in fields(Options)}

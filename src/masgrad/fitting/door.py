"""`fit` and `glm`: an estimate with intervals, without a step size to choose."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.chains.progress import Progress
from masgrad.data.arrays import BLOCK, as_size, count_rows
from masgrad.data.formulas import Terms
from masgrad.data.source import Source
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting import frame as frames
from masgrad.fitting.assemble import assemble
from masgrad.fitting.correcting import Corrected
from masgrad.fitting.covariance import check_kind
from masgrad.fitting.estimate import Plan, Sample, estimate, take_sample
from masgrad.fitting.examine import explain
from masgrad.fitting.problem import BadBlock, Problem, cores, one_blas_thread
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.fitting.result import Result
from masgrad.fitting.sources import as_bytes, as_source
from masgrad.fitting.start import WARM, best_start, check_minimum, frame_of, head
from masgrad.fitting.watch import Watch
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.precision import float64

METHODS = ("sandwich", "chains")
KEEP = 1 << 15
"""Rows that are kept: the more, the fewer reads, for they show what a quadratic misses."""


@dataclass(frozen=True)
class Options:
    """The keywords of `fit`, checked."""

    plan: Plan
    cov_type: str
    method: str
    chains: int
    start: Any
    starts: int
    memory: int
    block: int
    threads: int
    progress: bool | None


@float64
def fit(
    model: Model,
    data: Any,
    passes: int | str = "auto",
    penalty: None = None,
    weights: None = None,
    *,
    formula: str | None = None,
    cov_type: str = "robust",
    method: str = "sandwich",
    chains: int = 20,
    step_size: float = 1.0,
    start: Any = None,
    starts: int = 10,
    memory: str | int = "512MB",
    block_size: int = BLOCK,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Result:
    """Minimise the mean loss over the data, with confidence intervals for theta*.

    Args:
        model: the loss: `Linear()`, `Logistic()`, `Poisson()`, `CustomLoss(fn, dim)`, ...
        data: (X, y) as arrays, memory maps or a data frame and a column; for other losses an array
            or a pytree; an iterator of such blocks, which is read once; a `Stream`; with a formula
            a data frame, or Parquet and CSV files (a path, a glob, or a list of them).
        passes: "auto" reads until the estimate is within 0.001 standard errors of the optimum of
            these rows, mostly twice; "converge" until it is within 1e-6; a number is the most
            reads that may be made, and 1 is an estimate from a single read.
        penalty: to come, with MadProx.
        weights: to come.
        formula: for tables, such as "y ~ a + b".
        cov_type: "robust" (HC0), "HC1", "HC3", or "nonrobust", which trusts the model.
        method: "sandwich", or "chains": the spread of averaged MasGrad chains.
        chains: how many of them.
        step_size: MasGrad's step in its first read, in units of 1/gamma.
        start: where to begin, (p,); zero for linear predictors.
        starts: random starts for losses with several optima.
        memory: what reading and keeping rows may take.
        block_size: rows that are read and summed at a time.
        threads: threads that sum over arrays; all cores unless told.
        seed: of the sample, the order of batches, starts and chains.
        progress: show a bar; on terminals only, unless told.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 2))
        >>> r = mg.fit(mg.Poisson(), (X, rng.poisson(np.exp(X @ [0.2, 0.4]))))
        >>> r.params.round(1), r.conf_int().round(2)
        (array([0.2, 0.4]), array([[0.16, 0.25],
               [0.38, 0.46]]))
    """
    if not isinstance(model, Model):
        hint = "mg.Logistic(), with parentheses" if callable(model) else "mg.Logistic()"
        raise InputTypeError(f"model={model!r:.60}; a model is needed, such as {hint}")
    for name, value in (("penalty", penalty), ("weights", weights)):
        if value is not None:
            raise InputError(f"{name} is not supported yet; leave it None")
    options = options_of(
        passes, cov_type, method, chains, step_size, start, starts, memory, block_size, threads,
        seed, progress,
    )  # fmt: skip
    source, terms = as_source(model, data, formula, options.memory, options.block)
    return fit_source(model, source, terms, options)


def options_of(
    passes: Any = "auto",
    cov_type: str = "robust",
    method: str = "sandwich",
    chains: int = 20,
    step_size: float = 1.0,
    start: Any = None,
    starts: int = 10,
    memory: str | int = "512MB",
    block_size: int = BLOCK,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Options:
    """The keywords of `fit`, checked."""
    return Options(
        Plan(_passes(passes), as_size("step_size", step_size), _whole("seed", seed, 0)),
        cov_type,
        _method(method),
        _whole("chains", chains, 4),
        start,
        _whole("starts", starts, 1),
        as_bytes(memory),
        _whole("block_size", block_size, 16),
        cores() if threads is None else _whole("threads", threads, 1),
        progress,
    )


@float64
def glm(formula: str, data: Any, family: str = "gaussian", **options: Any) -> Result:
    """A generalised linear model of a table, by formula.

    Args:
        formula: such as "y ~ a + b + a:b"; an intercept is there unless removed by "- 1". Numeric
            columns and products of them, so far.
        data: a pandas DataFrame, or Parquet and CSV files: a path, a glob, a directory or a list.
        family: "gaussian", "binomial" (logit link) or "poisson" (log link).
        options: the keywords of `fit`.

    Example:
        >>> import numpy as np, pandas as pd, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500)})
        >>> table["y"] = 1 + 2 * table.a + rng.normal(size=500)
        >>> mg.glm("y ~ a + b", table).params.round(1).to_dict()
        {'Intercept': 1.0, 'a': 2.0, 'b': -0.0}
    """
    if not isinstance(formula, str):
        raise InputTypeError(f"formula={formula!r:.60}; a text such as 'y ~ a + b' is needed")
    return fit(GLM(family), data, formula=formula, **options)


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
    check_options(problem, options)
    with one_blas_thread(), Progress(_total(source), options.progress, "rows") as bar:
        watch = Watch(bar, source.ordered)
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
    again, several = problem.source.again, options.plan.passes not in (1, "auto")
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
    single = options.plan.passes == 1 or not problem.source.again
    sample = take_sample(problem.source, single, KEEP, options.memory // 8, rng)
    problem.kept = sample.rows
    _check_rows(problem, sample)
    if new:
        problem.frame = frame_of(problem.model, sample.rows, options.start)
    rows = sample.rows if single or sample.whole else head(sample.rows, WARM)
    start = best_start(problem, rows, options.start, options.starts, rng)
    done = estimate(problem, options.plan, sample, start, watch)
    check_minimum(problem, done.local)
    _check_responses(problem)
    return sample, done


def _check_rows(problem: Problem, sample: Sample) -> None:
    """More rows than parameters, and in a small table responses that differ."""
    p = problem.model.dim(sample.rows)
    known = count_rows(sample.rows) if sample.whole else problem.source.count
    earlier = 0 if problem.prior is None else problem.prior.count
    if known is not None and known + earlier <= p:
        raise InputError(
            f"{known + earlier} rows cannot estimate {p} parameters with intervals; more rows than "
            "parameters are needed"
        )
    if sample.whole and isinstance(problem.model, GLM):
        y, family = sample.rows[1], problem.model.family
        if not (y.min() >= family.lowest and y.max() <= family.highest):
            raise BadBlock(sample.rows)
        problem.span[:] = float(y.min()), float(y.max())
        _check_responses(problem)


def _check_responses(problem: Problem) -> None:
    """Responses that leave a family nothing to estimate."""
    if not isinstance(problem.model, GLM) or problem.prior is not None:
        return
    low, high = problem.span
    if problem.model.family.name == "bernoulli" and low == high:
        raise InputError(f"every response is {low:g}: with a single class there is nothing to fit")
    if problem.model.family.name == "poisson" and high == 0:
        raise InputError("every count is 0: the rates have no estimate but 0")


def _total(source: Source) -> int | None:
    """Rows that two reads go over, for the bar."""
    return None if source.count is None else 2 * source.count


def _passes(passes: Any) -> int | str:
    if passes in ("auto", "converge"):
        return passes
    if isinstance(passes, str):
        raise InputError(f"passes={passes!r}; 'auto', 'converge' or a number of reads is needed")
    return _whole("passes", passes, 1)


def _method(method: str) -> str:
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; use one of {', '.join(METHODS)}")
    return method


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name}={value!r}; a whole number is needed")
    if value < least:
        raise InputError(f"{name}={value}; at least {least} is needed")
    return int(value)

"""`fit` and `glm`: an estimate with intervals, without a step size to choose."""

from typing import Any

from masgrad.checks import check_count
from masgrad.data.arrays import BLOCK
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.nonsmooth import fit_nonsmooth, penalty_path_of
from masgrad.fitting.options import options_of
from masgrad.fitting.penalised import fit_penalised
from masgrad.fitting.pipeline import fit_source
from masgrad.fitting.result import Result
from masgrad.fitting.selection import COUNT, PenaltyPath
from masgrad.fitting.sources import as_source
from masgrad.models.glm import GLM
from masgrad.models.model import Model, check_model
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import ElasticNet
from masgrad.precision import float64


@float64
def fit(
    model: Model,
    data: Any,
    passes: int | str = "auto",
    penalty: Penalty | None = None,
    weights: Any = None,
    *,
    offset: Any = None,
    exposure: Any = None,
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
            reads that may be made, and 1 is an estimate from a single read. HC3 and chains read
            the rows once more beyond that number, and a penalty is a second fit.
        penalty: such as `L1(0.1)` or `L2(0.1)`: the estimate with it is
            `result.penalized_params`; `params` and intervals are without it. `L1("cv")` chooses
            lam by cross-validation, "bic" and "aic" by a criterion (`result.path`).
        weights: frequencies, (N,), or the name of a column: 2 is a row twice, 0 no row at all.
            Of files it is a name; blocks of a stream are (X, y, weights, offset), either None.
        offset: a known part of the linear predictor, (N,), or the name of a column.
        exposure: what log(exposure) is added to the offset for, (N,), or the name of a column.
        formula: for tables, such as "y ~ a + b".
        cov_type: "robust" (HC0; after a penalty with kinks HC1), "HC0", "HC1", "HC3", or
            "nonrobust", which trusts the model.
        method: "sandwich", or "chains": the spread of averaged MasGrad chains.
        chains: how many of them.
        step_size: MasGrad's step in its first read, in units of 1/gamma.
        start: where to begin, (p,); for linear predictors one of several points that are tried.
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
    check_model(model)
    if exposure is not None and isinstance(model, GLM) and model.family.link != "log":
        raise InputError(
            f"exposure is for the log link, and this is the {model.family.link} link; give offset="
        )
    options = options_of(
        passes, cov_type, method, chains, step_size, start, starts, memory, block_size, threads,
        seed, progress, penalty,
    )  # fmt: skip
    source, terms = as_source(
        model, data, formula, options.memory, options.block,
        weights=weights, offset=offset, exposure=exposure,
    )  # fmt: skip
    if options.penalty is None:
        return fit_source(model, source, terms, options)
    smooth = isinstance(options.penalty, ElasticNet) and options.penalty.smooth
    return (fit_penalised if smooth else fit_nonsmooth)(model, source, terms, options)


@float64
def penalty_path(
    model: Model,
    data: Any,
    penalty: Penalty,
    weights: Any = None,
    *,
    count: int = COUNT,
    offset: Any = None,
    exposure: Any = None,
    formula: str | None = None,
    memory: str | int = "512MB",
    block_size: int = BLOCK,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> PenaltyPath:
    """Penalised estimates from the largest lam, at which all are 0, down to the penalty's own.

    Args:
        model: the loss.
        data: what `fit` takes, but for iterators.
        penalty: with a number, where the path ends; with "cv", "bic" or "aic" it ends once the
            criterion has risen for a while, and `lam` is the one chosen.
        weights: as in `fit`; so are offset, exposure, formula and the others.
        count: points of the path, a constant factor apart.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(500, 5))
        >>> y = X @ [2.0, 1.0, 0.0, 0.0, 0.0] + rng.normal(size=500)
        >>> path = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.2), count=4)
        >>> path.lams.round(2), path.df
        (array([2.03, 0.94, 0.43, 0.2 ]), array([0, 2, 2, 2]))
    """
    check_model(model)
    options = options_of(
        memory=memory, block_size=block_size, threads=threads, seed=seed, progress=progress,
        penalty=penalty,
    )  # fmt: skip
    if options.penalty is None:
        raise InputTypeError("penalty=None; a penalty is needed, such as mg.L1('cv')")
    source, _ = as_source(
        model, data, formula, options.memory, options.block,
        weights=weights, offset=offset, exposure=exposure,
    )  # fmt: skip
    return penalty_path_of(model, source, options, check_count("count", count, 2))


@float64
def glm(
    formula: str, data: Any, family: Any = "gaussian", link: str | None = None, **options: Any
) -> Result:
    """A generalised linear model of a table, by formula.

    Args:
        formula: such as "y ~ a + C(g) + log(b) + a:b"; an intercept is there unless removed by
            "- 1". Columns of text are categories.
        data: a table (pandas, polars, pyarrow), or Parquet and CSV files: a path, a glob, a
            directory or a list.
        family: "gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "tweedie(1.5)" or
            "negative_binomial(1.0)"; or a model such as `Tweedie(1.5)`.
        link: the canonical one unless told (log for the last two); "probit", "cloglog", ...
        options: the keywords of `fit`; weights, offset and exposure may be names of columns.

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
    return fit(_model(family, link), data, formula=formula, **options)


def _model(family: Any, link: str | None) -> GLM:
    if isinstance(family, GLM):
        return family if link is None else GLM(family.family, link)
    if callable(family):
        raise InputTypeError(f"family={family!r:.60}; a name is needed, or mg.Tweedie(1.5)")
    return GLM(family, link)

"""The programs of the benchmark, each as a user would call it.

    glum            fit without a penalty, then the robust covariance matrix
    statsmodels     GLM with HC0, to a tolerance of 1e-10
    scikit-learn    the estimate alone, without a penalty, at most 1,000 iterations
    pyfixest        feols without effects, heteroscedastic standard errors, if it is installed

Imports are inside the functions: a process that measures memory loads only what it uses.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

import masgrad as mg
from fit_problems import Arrays, Table
from fit_timing import Program

GRAM, FIT, ONE_READ, CONVERGED = "one X'X", "masgrad", "masgrad, passes=1", "masgrad, converged"
GLUM, STATSMODELS, SKLEARN = "glum", "statsmodels", "scikit-learn (estimate only)"
FEOLS = "pyfixest feols"

ITERATIONS = 1000


@dataclass(frozen=True)
class Estimate:
    """Coefficients, and their standard errors if the program gives any."""

    params: np.ndarray
    bse: np.ndarray | None = None


def distance(estimate: Estimate, exact: Estimate) -> tuple[float, float]:
    """Largest distance from the MLE in standard errors, largest relative error of those."""
    away = float(np.abs((estimate.params - exact.params) / exact.bse).max())
    if estimate.bse is None:
        return away, float("nan")
    return away, float(np.abs(estimate.bse / exact.bse - 1).max())


def programs_of(data: Arrays | Table) -> dict[str, Program]:
    """The programs that are measured in turn; `CONVERGED` gives the MLE."""
    gram, ours, glum, sklearn = (
        (array_gram, masgrad_arrays, glum_arrays, sklearn_arrays)
        if isinstance(data, Arrays)
        else (table_gram, masgrad_table, glum_table, sklearn_table)
    )
    return {
        GRAM: gram(data),
        FIT: lambda: ours(data),
        ONE_READ: lambda: ours(data, passes=1),
        CONVERGED: lambda: ours(data, passes="converge"),
        GLUM: lambda: glum(data),
        SKLEARN: lambda: sklearn(data),
    }


def as_estimate(result: mg.Result) -> Estimate:
    return Estimate(result.params, result.bse)


def masgrad_arrays(data: Arrays, **keywords: Any) -> Estimate:
    models = {"binomial": mg.Logistic, "poisson": mg.Poisson, "gaussian": mg.Linear}
    model = mg.GLM("gamma", "log") if data.family == "gamma" else models[data.family]()
    return as_estimate(mg.fit(model, (data.X, data.y), offset=data.offset, **keywords))


def masgrad_table(data: Table, **keywords: Any) -> Estimate:
    return as_estimate(mg.glm(data.formula, data.frame, family="binomial", **keywords))


def array_gram(data: Arrays) -> Program:
    return lambda: data.X.T @ data.X


def table_gram(data: Table) -> Program:
    """The matrix is made beforehand: tabmat's, of two dense columns and two categories."""
    import tabmat

    matrix = tabmat.from_pandas(data.frame.drop(columns="y"), drop_first=True)
    weights = np.ones(len(data.frame))
    return lambda: matrix.sandwich(weights)


def glum_arrays(data: Arrays) -> Estimate:
    from glum import GeneralizedLinearRegressor

    family, link = {"gaussian": ("normal", "auto"), "gamma": ("gamma", "log")}.get(
        data.family, (data.family, "auto")
    )
    model = GeneralizedLinearRegressor(family=family, link=link, alpha=0, fit_intercept=False)
    model.fit(data.X, data.y, offset=data.offset)
    V = model.covariance_matrix(data.X, data.y, offset=data.offset, robust=True)
    return Estimate(model.coef_, np.sqrt(np.diag(V)))


def glum_table(data: Table) -> Estimate:
    from glum import GeneralizedLinearRegressor

    X, y = data.frame.drop(columns="y"), data.frame["y"]
    model = GeneralizedLinearRegressor(family="binomial", alpha=0, drop_first=True).fit(X, y)
    V = model.covariance_matrix(X, y, robust=True)
    return Estimate(np.append(model.intercept_, model.coef_), np.sqrt(np.diag(V)))


def sklearn_arrays(data: Arrays) -> Estimate:
    """Poisson's offset becomes a rate with the exposure as its weight: the same equations."""
    from sklearn import linear_model as lm

    X, y = data.X, data.y
    if data.family == "gaussian":
        return Estimate(lm.LinearRegression(fit_intercept=False).fit(X, y).coef_)
    if data.family == "binomial":
        model = lm.LogisticRegression(C=np.inf, fit_intercept=False, max_iter=ITERATIONS)
        return Estimate(model.fit(X, y).coef_[0])
    kind = {"poisson": lm.PoissonRegressor, "gamma": lm.GammaRegressor}[data.family]
    model = kind(alpha=0, fit_intercept=False, max_iter=ITERATIONS)
    if data.offset is None:
        return Estimate(model.fit(X, y).coef_)
    exposure = np.exp(data.offset)
    return Estimate(model.fit(X, y / exposure, sample_weight=exposure).coef_)


def sklearn_table(data: Table) -> Estimate:
    """Levels become sparse columns, which is part of the time."""
    from scipy.sparse import hstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder

    dummies = OneHotEncoder(drop="first").fit_transform(data.frame[["g", "h"]])
    X = hstack([data.frame[["x1", "x2"]].to_numpy(), dummies], format="csr")
    model = LogisticRegression(C=np.inf, max_iter=ITERATIONS).fit(X, data.frame["y"])
    return Estimate(np.append(model.intercept_, model.coef_[0]))


def statsmodels_arrays(data: Arrays) -> Estimate:
    import statsmodels.api as sm

    families: dict[str, Callable[[], Any]] = {
        "binomial": sm.families.Binomial,
        "poisson": sm.families.Poisson,
        "gaussian": sm.families.Gaussian,
        "gamma": lambda: sm.families.Gamma(link=sm.families.links.Log()),
    }
    model = sm.GLM(data.y, data.X, family=families[data.family](), offset=data.offset)
    done = model.fit(cov_type="HC0", tol=1e-10)
    return Estimate(done.params, done.bse)


def has_feols() -> bool:
    return find_spec("pyfixest") is not None


def feols(formula: str, frame: pd.DataFrame) -> Estimate:
    import pyfixest as pf  # pyright: ignore[reportMissingImports]

    done = pf.feols(formula, data=frame, vcov="hetero")
    return Estimate(done.coef().to_numpy(), done.se().to_numpy())

"""What a fit returns: an estimate with its covariance, and no data.

The names are those of statsmodels. Beside the estimate a result keeps the local quadratic model of
all rows, p^2 numbers, so that new rows can be added to it later.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from masgrad.data.arrays import as_number
from masgrad.data.formulas import Terms
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.frame import Frame
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.sources import designs
from masgrad.inference.law import Law
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork
from masgrad.precision import float64


@dataclass(frozen=True)
class Reads:
    """How the estimate was reached.

    Args:
        reads: times that the rows were read.
        rows_per_second: rows read in all, for each second of the fit.
        correction: size of the last correction, in standard errors of the worst contrast.
        remainder: predicted distance from the optimum of these rows, in standard errors, root mean
            square over contrasts; about two standard deviations of the prediction.
        condition: condition number of H with its diagonal scaled to 1.
        drift: standard deviations by which gradients drift more than rows in random order would.
    """

    reads: int
    rows_per_second: float
    correction: float
    remainder: float
    condition: float
    drift: float = 0.0
    path: tuple = ()


class WaldTest(NamedTuple):
    """A joint test of R theta = q."""

    statistic: float
    df: int
    pvalue: float


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """An estimate of theta*, its covariance, and how it was reached.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 2))
        >>> r = mg.fit(mg.Linear(), (X, X @ [1.0, 2.0] + rng.normal(size=1000)))
        >>> r.nobs, r.conf_int().shape
        (1000, (2, 2))
        >>> bool(r.wald_test(np.eye(2), [1.0, 2.0]).pvalue > 0.01)
        True
    """

    model: Model | None
    theta: np.ndarray
    cov: np.ndarray
    nobs: int
    names: tuple[str, ...]
    cov_type: str
    how: Reads
    frame: Frame
    local: Quadratic
    free: np.ndarray
    loose: np.ndarray
    terms: Terms | None = None
    df: int | None = None
    kind: str = ""
    target: str = "theta*"
    notes: tuple[str, ...] = field(default=())
    diagnostics: Any = ()
    penalized: np.ndarray | None = None

    def _named(self, values: np.ndarray) -> Any:
        return pd.Series(values, self.names) if self.names else values

    @property
    def params(self) -> Any:
        """The estimate, (p,)."""
        return self._named(self.theta)

    @property
    def _se(self) -> np.ndarray:
        unknown = np.where(np.isfinite(self.theta), np.inf, np.nan)
        return np.where(self.loose, unknown, np.sqrt(np.diag(self.cov)))

    @property
    def bse(self) -> Any:
        """Standard errors, (p,); inf where theta is not identified."""
        return self._named(self._se)

    @property
    def zvalues(self) -> Any:
        """Estimates over their standard errors."""
        return self._named(self._z())

    def _z(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(np.isfinite(self._se), self.theta / self._se, np.nan)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of theta_j = 0."""
        return self._named(2 * self._reference().sf(np.abs(self._z())))

    def _reference(self):
        """The normal law, or Student's where the covariance came from a few chains."""
        return stats.norm if self.df is None else stats.t(self.df)

    def conf_int(self, alpha: float = 0.05) -> Any:
        """Confidence intervals for theta*, (p, 2), of level 1 - alpha each."""
        if not 0 < as_number("alpha", alpha) < 1:
            raise InputError(f"alpha={alpha}; a probability between 0 and 1 is needed")
        half = self._reference().ppf(1 - alpha / 2) * self._se
        ends = np.column_stack([self.theta - half, self.theta + half])
        return pd.DataFrame(ends, self.names, columns=[0, 1]) if self.names else ends

    def cov_params(self) -> Any:
        """Covariance of the estimate, (p, p)."""
        names, cov = list(self.names), self.cov.copy()
        cov[self.loose], cov[:, self.loose] = np.nan, np.nan
        np.fill_diagonal(cov, self._se**2)
        return pd.DataFrame(cov, names, names) if names else cov

    @property
    def law(self) -> Law:
        """The estimate's law, to sample from or to push a function through."""
        theta = np.where(np.isfinite(self.theta), self.theta, 0.0)
        note = f"{self.cov_type} covariance"
        return Law(theta, self.cov, self.target, note, self.free)  # pyright: ignore

    def wald_test(self, R: Any, q: Any = None) -> WaldTest:
        """Test R theta = q jointly; R is (k, p) or (p,), q is 0 unless given."""
        if isinstance(R, str):
            raise InputTypeError(f"R={R!r}; a matrix is needed, with a row for each contrast")
        R = np.atleast_2d(np.asarray(R, np.float64))
        if R.shape[1] != len(self.theta) or not 1 <= len(R) <= R.shape[1]:
            raise InputError(f"R has shape {R.shape}; (k, {len(self.theta)}) is needed")
        q = np.zeros(len(R)) if q is None else np.atleast_1d(np.asarray(q, np.float64))
        if q.shape != (len(R),):
            raise InputError(f"q has shape {q.shape}; ({len(R)},) is needed, one value a row of R")
        if self.free.size and (np.abs(R @ self.free) > 1e-6 * np.abs(R).max()).any():
            raise InputError("R depends on a direction of theta that is not identified")
        away = R @ self.law.mean - q
        C = R @ self.cov @ R.T
        if np.linalg.matrix_rank(C, hermitian=True) < len(R):
            raise InputError("the rows of R are linearly dependent, or fewer chains than rows")
        statistic, k = float(away @ np.linalg.solve(C, away)), len(R)
        if self.df is None:
            return WaldTest(statistic, k, float(stats.chi2.sf(statistic, k)))
        F = statistic * (self.df - k + 1) / (k * self.df)
        return WaldTest(statistic, k, float(stats.f.sf(F, k, self.df - k + 1)))

    @float64
    def predict(self, data: Any) -> Any:
        """The mean response for rows X (N, p), or for a table where there was a formula."""
        if isinstance(data, tuple):
            raise InputTypeError("predict takes X alone, not (X, y)")
        theta = np.where(np.isfinite(self.theta), self.theta, 0.0)
        if isinstance(self.model, GLM):
            mean = self.model.family.mean
            if self.terms is None:
                return mean(self._matrix(data) @ theta)
            return np.concatenate([mean(X @ theta) for X in designs(self.terms, data)])
        if isinstance(self.model, ReluNetwork):
            import jax

            X = np.asarray(data, np.float64)
            return np.asarray(jax.vmap(self.model.predict, (None, 0))(theta, X))
        raise InputTypeError(
            f"{type(self.model).__name__} has no mean response to predict; use result.law.push"
        )

    def _matrix(self, data: Any) -> np.ndarray:
        if self.names and isinstance(data, pd.DataFrame):
            missing = [name for name in self.names if name not in data.columns]
            if missing:
                raise InputError(f"the data frame has no column {missing[0]!r}")
            data = data[list(self.names)]
        X = np.asarray(data, np.float64)
        X = X.reshape(len(X), -1) if X.ndim > 2 else X
        if X.ndim != 2 or X.shape[1] != len(self.theta):
            raise InputError(f"X has shape {X.shape}; (N, {len(self.theta)}) is needed")
        return X

    def update(self, data: Any, **options: Any) -> "Result":
        """The estimate and intervals for the old rows and these new ones together."""
        from masgrad.fitting.update import update

        return update(self, data, **options)

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file, readable by `mg.load`."""
        from masgrad.fitting.storage import save

        save(self, path)

    def summary(self) -> str:
        """A table in the layout of statsmodels, and how the estimate was reached."""
        from masgrad.fitting.table import summary

        return summary(self)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{t:.4g} +- {s:.2g}" for t, s in zip(self.theta[:6], self._se, strict=False)
        )
        more = ", ..." if len(self.theta) > 6 else ""
        return f"Result({self.kind}, {self.nobs} rows: {shown}{more}; see .summary())"

"""What a fit returns: an estimate with its covariance, and no data.

The names are those of statsmodels. Beside the estimate a result keeps the local quadratic model of
all rows, p^2 numbers, so that new rows can be added to it later.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from masgrad.data.formula.terms import Terms
from masgrad.errors import InputError
from masgrad.fitting import contrasts, likelihood, markup, prediction
from masgrad.fitting.contrasts import Contrast, Region, WaldTest
from masgrad.fitting.diagnose import Diagnostics
from masgrad.fitting.frame import Frame
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.reads import Reads
from masgrad.fitting.selection import PenaltyPath
from masgrad.fitting.simultaneous import half_widths, reference
from masgrad.fitting.table import summary
from masgrad.inference.law import Law
from masgrad.models.model import Model
from masgrad.precision import float64

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        >>> bool(r.wald_test("theta[0] = 1, theta[1] = 2").pvalue > 0.01)
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
    diagnostics: Diagnostics = field(default=Diagnostics())
    penalized: np.ndarray | None = None
    path: PenaltyPath | None = None
    shifted: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The parameters' names, or theta[0], theta[1], ..."""
        return self.names or tuple(f"theta[{j}]" for j in range(len(self.theta)))

    def _named(self, values: np.ndarray) -> Any:
        return pd.Series(values, self.names) if self.names else values

    @property
    def params(self) -> Any:
        """The estimate, (p,)."""
        return self._named(self.theta)

    @property
    def penalized_params(self) -> Any:
        """The estimate with the penalty, (p,); None where there was none."""
        return None if self.penalized is None else self._named(self.penalized)

    @property
    def log_likelihood(self) -> float | None:
        """At the estimate; None where the model has none in closed form."""
        return likelihood.log_likelihood(self)

    @property
    def aic(self) -> float | None:
        """2 p - 2 log-likelihood."""
        return likelihood.criterion(self, 2.0)

    @property
    def bic(self) -> float | None:
        """p log N - 2 log-likelihood."""
        return likelihood.criterion(self, float(np.log(self.local.count)))

    @property
    def deviance(self) -> float | None:
        """Twice the log-likelihood that a mean for each row would gain, at dispersion 1."""
        return likelihood.deviance(self)

    @property
    def dispersion(self) -> float | None:
        """Pearson's X^2 / (N - p); 1 for binomial and count families."""
        return likelihood.dispersion(self)

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
        """Estimates over their standard errors; NaN where those are infinite, or 0."""
        return self._named(self._z())

    def _z(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = self.theta / self._se
        return np.where(np.isfinite(self._se) & np.isfinite(z), z, np.nan)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of theta_j = 0."""
        return self._named(2 * reference(self.df).sf(np.abs(self._z())))

    def conf_int(self, alpha: float = 0.05, method: str = "pointwise") -> Any:
        """Confidence intervals for theta*, (p, 2).

        Args:
            alpha: one minus the level.
            method: "pointwise": each alone has the level; all together: "simultaneous" (the
                quantile of max |z|, the shortest), "bonferroni", "scheffe" (for all contrasts).
        """
        half = half_widths(self._se, self.cov, self.df, alpha, method)
        ends = np.column_stack([self.theta - half, self.theta + half])
        return pd.DataFrame(ends, self.names, columns=[0, 1]) if self.names else ends

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """A row for each parameter: coef, std err, z (or t), P>|z|, lower, upper."""
        z, ends = "z" if self.df is None else "t", np.asarray(self.conf_int(alpha))
        columns = {
            "coef": self.theta,
            "std err": self._se,
            z: self._z(),
            f"P>|{z}|": np.asarray(self.pvalues),
            "lower": ends[:, 0],
            "upper": ends[:, 1],
        }
        return pd.DataFrame(columns, list(self.labels))

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

    def depends(self, R: np.ndarray) -> np.ndarray:
        """Which rows of R (k, p) depend on a direction of theta that is not identified."""
        free = np.where(self.loose[:, None], self.free, 0.0) * self.frame.scale[:, None]
        rows = R / self.frame.scale
        size = np.linalg.norm(rows, axis=1, keepdims=True) * np.linalg.norm(free, axis=0)
        return (np.abs(rows @ free) > 1e-6 * size).any(1)

    def contrast(self, R: Any, q: Any = None) -> Contrast:
        """Estimates of linear combinations of parameters, with errors, tests and intervals.

        Args:
            R: a matrix (k, p), a vector (p,), or a text over the parameters' names such as
                "a - b", "2*a + b = 1", several separated by commas or as a list.
            q: what they are tested against, (k,); 0 unless given here or in the text.

        Example:
            >>> import numpy as np, pandas as pd, masgrad as mg
            >>> table = pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6], "b": [1.0, 0, 0, 1, 0, 1]})
            >>> r = mg.glm("y ~ a + b", table.assign(y=[1.0, 2, 4, 6, 5, 8]), cov_type="HC3")
            >>> r.contrast("a - b, 2*a = 3").to_frame().round(2)[["estimate", "std err", "lower"]]
                     estimate  std err  lower
            a - b        0.38     1.47  -2.49
            2*a = 3      2.58     0.75   1.11
        """
        return contrasts.contrast(self, R, q)

    def wald_test(self, R: Any, q: Any = None) -> WaldTest:
        """Test R theta = q jointly; R and q are those of `contrast`: "a = b, c = 0"."""
        return contrasts.wald_test(self, R, q)

    def region(self, R: Any = None, level: float = 0.95) -> Region:
        """The joint region of combinations R theta* (all parameters, unless given): an ellipsoid.

        It has `centre`, `matrix` and `quantile`; `contains(values)`; for two coordinates the points
        `ellipse()` of its border.
        """
        return contrasts.region(self, R, level)

    @float64
    def predict(
        self,
        data: Any,
        interval: float | None = None,
        which: str = "mean",
        *,
        offset: Any = None,
        exposure: Any = None,
        penalized: bool = False,
    ) -> Any:
        """The mean response, (N,); with an interval a data frame: mean, se, lower, upper.

        The interval is for the mean, by the delta method: that of the linear predictor is mapped
        through the inverse link, so that its ends stay in the mean's range. Rows that depend on
        what is not identified have the whole range; rows with a missing or an infinite value have
        NaN, and a `MissingWarning` names the first.

        Args:
            data: rows X (N, p); a table or files where there was a formula, read in blocks.
            interval: its level, such as 0.95.
            which: "mean", or "linear" for the linear predictor, in a column of that name.
            offset: of these rows; columns that the fit named are taken from the table.
            exposure: likewise.
            penalized: predict by `penalized_params`, which have no interval.
        """
        if not penalized:
            return prediction.predict(self, data, interval, which, offset, exposure)
        if self.penalized is None or interval is not None:
            why = "there was no penalty" if self.penalized is None else "it has no interval"
            raise InputError(f"penalized=True: {why}; leave it out")
        shrunk = replace(self, theta=self.penalized)
        return prediction.predict(shrunk, data, None, which, offset, exposure)

    def update(self, data: Any, **options: Any) -> "Result":
        """The estimate and intervals for the old rows and these new ones together."""
        from masgrad.fitting.update import update

        return update(self, data, **options)

    def save(self, path: str | Path) -> None:
        """Write everything to a JSON file, readable by `mg.load`."""
        from masgrad.fitting.storage import save

        save(self, path)

    def summary(self, alpha: float = 0.05, width: int | None = None) -> str:
        """A table in the layout of statsmodels, and how the estimate was reached.

        Args:
            alpha: one minus the level of the intervals.
            width: columns that there are, the terminal's unless given; 80 are used, more if names
                are long.
        """
        return summary(self, alpha, width)

    def to_html(self, alpha: float = 0.05) -> str:
        """The summary as a self-contained piece of HTML."""
        return markup.html(self, alpha)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_latex(self, alpha: float = 0.05) -> str:
        """The summary as a LaTeX table, for the package booktabs."""
        return markup.latex(self, alpha)

    def plot(self, path: str | Path | None = None, alpha: float = 0.05) -> "Figure":
        """Coefficients with their intervals and, if recorded, the path of the fit.

        Args:
            path: where to save the figure: .png, .pdf, .svg.
            alpha: one minus the level of the intervals.
        """
        from masgrad.fitting.picture import plot

        return plot(self, path, alpha)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{t:.4g} +- {s:.2g}" for t, s in zip(self.theta[:6], self._se, strict=False)
        )
        more = ", ..." if len(self.theta) > 6 else ""
        return f"Result({self.kind}, {self.nobs} rows: {shown}{more}; see .summary())"

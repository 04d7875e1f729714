"""Inference from a fit: estimates, errors, tests, intervals and likelihood.

The names are those of statsmodels.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.left_out import Omitted
from masgrad.fitting.fitted import FitInfo, Fitted
from masgrad.fitting.merging.record import Merged
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.results import contrasts
from masgrad.fitting.results.constraints import places_of
from masgrad.fitting.results.contrasts import Contrast, Region, WaldTest
from masgrad.fitting.results.estimates import Coefficients, coefficients
from masgrad.fitting.results.wild.bootstrap import WildTest, wild_intervals, wild_test
from masgrad.fitting.status import Status
from masgrad.fitting.uncertainty import likelihood
from masgrad.fitting.uncertainty.diagnostics import Diagnostics
from masgrad.fitting.uncertainty.serial.fixed_b import fixed_b_intervals
from masgrad.fitting.uncertainty.serial.record import Serial
from masgrad.inference.law import Law
from masgrad.models.model import Model

if TYPE_CHECKING:
    import pandas as pd

    from masgrad.data.formula.terms import Terms


class Tested(abc.ABC):
    """What follows, in any fit, from coefficients with their errors and from sums of losses."""

    model: Model | None
    theta: np.ndarray
    names: tuple[str, ...]
    nobs: int
    cov_type: str
    fit_info: FitInfo
    local_model: LocalModel
    status: Status
    terms: "Terms | None"
    df: int | np.ndarray | None
    kind: str
    target: str
    notes: tuple[str, ...]
    diagnostics: Diagnostics
    penalized: np.ndarray | None
    clusters: Clustered | None = None
    serial: Serial | None = None
    merged: Merged | None = None
    omitted: Omitted

    @property
    def missing(self) -> dict[str, int]:
        """How many rows were left out for a missing value, by column; a row may lack several."""
        return dict(self.omitted.columns)

    @cached_property
    @abc.abstractmethod
    def coefficients(self) -> Coefficients:
        """The coefficients as one record: estimates, errors, tests, intervals."""

    @property
    @abc.abstractmethod
    def free(self) -> int:
        """Number of parameters that have an estimate."""

    @property
    @abc.abstractmethod
    def constant(self) -> int | None:
        """Index of the constant column, if there is one."""

    @property
    def absorbed(self) -> str | None:
        """Fixed effects and their number, in words; None without any."""
        return None

    @property
    def r2_within(self) -> float | None:
        """R^2 of responses less their fixed effects, of least squares; None without effects."""
        return None

    @property
    def labels(self) -> tuple[str, ...]:
        """The parameters' names, or theta[0], theta[1], ..."""
        return self.names or tuple(f"theta[{j}]" for j in range(len(self.theta)))

    @property
    def shown(self) -> np.ndarray:
        """The parameters that have a line in a summary."""
        return np.arange(len(self.theta))

    def _named(self, values: np.ndarray) -> Any:
        if not self.names:
            return values
        import pandas as pd

        if self.terms is not None:
            return pd.Series(values, self.names)
        from masgrad.fitting.results.named import named  # pandas

        return named(values, self.names)

    def _framed(self, values: np.ndarray, columns: list[Any], rows: list[str] | None = None) -> Any:
        if not self.names:
            return values
        import pandas as pd

        return pd.DataFrame(values, rows or list(self.names), columns)

    @property
    def params(self) -> Any:
        """The estimate, (p,); inf or -inf if responses are separated, NaN if that has no sign.

        If parameters have names it is a Series; `params["layer1.w"]` is an array of a pytree of
        parameters in its shape, and so it is in `bse`, `zvalues`, `pvalues`.
        """
        return self._named(self.theta)

    @property
    def penalized_params(self) -> Any:
        """The estimate with the penalty, (p,); None without one."""
        return None if self.penalized is None else self._named(self.penalized)

    @property
    def bse(self) -> Any:
        """Standard errors, (p,); inf if theta is not identified."""
        return self._named(self.coefficients.se)

    @property
    def zvalues(self) -> Any:
        """Estimates over their standard errors; NaN if those are infinite, or 0."""
        return self._named(self.coefficients.zvalues)

    @property
    def pvalues(self) -> Any:
        """Two-sided p-values of theta_j = 0."""
        return self._named(self.coefficients.pvalues)

    def conf_int(
        self,
        alpha: float = 0.05,
        method: str = "pointwise",
        *,
        draws: int = 9999,
        weights: str | None = None,
        seed: int = 0,
    ) -> Any:
        """Confidence intervals for theta*, (p, 2).

        Args:
            alpha: one minus the level.
            method: "pointwise": each alone has the level; all together: "simultaneous" (the
                quantile of max |z|, the shortest), "bonferroni", "scheffe" (for all contrasts).
                "wild", with few clusters: each alone, of the values that `wild_test` does not
                reject; ends may be infinite. "fixed-b", of HAC and DK errors: each alone, with the
                critical values of lags that are a share of the times (Kiefer & Vogelsang 2005).
            draws: of "wild", as in `wild_test`; so are `weights` and `seed`.
        """
        if method == "wild":
            ends = wild_intervals(self, alpha, draws, weights, seed)
        elif method == "fixed-b":
            of = self.coefficients
            ends = fixed_b_intervals(self.serial, of.estimate, of.se, alpha)
        else:
            ends = self.coefficients.conf_int(alpha, method)
        return self._framed(ends, [0, 1])

    def to_frame(self, alpha: float = 0.05) -> "pd.DataFrame":
        """A row for each parameter: coef, std err, z (or t), P>|z|, lower, upper."""
        return self.coefficients.to_frame(alpha, heading="coef")

    @property
    def log_likelihood(self) -> float | None:
        """At the estimate; None if the model has none in closed form."""
        return likelihood.log_likelihood(self.model, self.local_model, self.free)

    @property
    def aic(self) -> float | None:
        """2 p - 2 log-likelihood."""
        return self._criterion(2.0)

    @property
    def bic(self) -> float | None:
        """p log N - 2 log-likelihood."""
        return self._criterion(float(np.log(self.local_model.count)))

    def _criterion(self, price: float) -> float | None:
        value = self.log_likelihood
        return None if value is None else price * self.free - 2 * value

    @property
    def deviance(self) -> float | None:
        """Twice the gap between the saturated log-likelihood and this one, at dispersion 1."""
        return likelihood.deviance(self.model, self.local_model)

    @property
    def dispersion(self) -> float | None:
        """Pearson's X^2 / (N - p); 1 for binomial and count families."""
        return likelihood.dispersion(self.model, self.local_model, self.free)

    def contrast(self, R: Any, q: Any = None) -> Contrast:
        """Estimates of linear combinations of parameters, with errors, tests and intervals.

        Args:
            R: a matrix (k, p), a vector (p,), or a text over the parameters' names such as
                "a - b", "2*a + b = 1", several separated by commas or as a list.
            q: the values they are tested against, (k,); 0 unless given here or in the text.

        Example:
            >>> import numpy as np, pandas as pd, masgrad as mg
            >>> table = pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6], "b": [1.0, 0, 0, 1, 0, 1]})
            >>> r = mg.glm("y ~ a + b", table.assign(y=[1.0, 2, 4, 6, 5, 8]), cov_type="HC3")
            >>> r.contrast("a - b, 2*a = 3").to_frame().round(2)[["estimate", "std err", "lower"]]
                     estimate  std err  lower
            a - b        0.38     1.47  -2.49
            2*a = 3      2.58     0.75   1.11
        """
        return contrasts.contrast(self.coefficients, R, q)

    def wald_test(self, R: Any, q: Any = None) -> WaldTest:
        """Test R theta = q jointly; R and q are those of `contrast`: "a = b, c = 0"."""
        return contrasts.wald_test(self.coefficients, R, q)

    def wild_test(
        self,
        R: Any,
        q: Any = None,
        *,
        draws: int = 9999,
        weights: str | None = None,
        seed: int = 0,
    ) -> WildTest:
        """Test R theta = q by the wild cluster bootstrap with the null imposed, for few clusters.

        Exact draws for least squares, from the clusters' scores and Hessians; for other losses
        scores are drawn at one Newton step from the estimate. Each draw has its own CR1 error.
        Draws that tie with the data count as large as they are.

        Args:
            R: as in `contrast`: "a = 0", "a - b"; several combinations are tested jointly.
            q: the values they are tested against.
            draws: number of draws; all 2^G sign vectors are taken instead if there are 12 clusters
                or fewer, or no more vectors than draws.
            weights: "rademacher" (signs) or "webb" (six values); by default signs, and Webb's
                with up to 6 clusters.
            seed: of the draws.

        Example:
            >>> import numpy as np, masgrad as mg
            >>> rng = np.random.default_rng(0)
            >>> firm, X = np.arange(120) % 10, rng.normal(size=(120, 2))
            >>> y = X[:, 0] + rng.normal(size=10)[firm] + rng.normal(size=120)
            >>> r = mg.fit(mg.Linear(), (X, y), clusters=firm)
            >>> found = r.wild_test("theta[1] = 0")
            >>> found.draws, found.exhaustive, found.pvalue > 0.05
            (1024, True, True)
        """
        return wild_test(self, R, q, draws, weights, seed)

    def region(self, R: Any = None, level: float = 0.95) -> Region:
        """The joint region of combinations R theta* (by default all parameters): an ellipsoid.

        It has `centre`, `matrix` and `quantile`; `contains(values)`; for two coordinates the points
        `ellipse()` of its border.
        """
        return contrasts.region(self.coefficients, R, level)


@dataclass(frozen=True, repr=False, eq=False)
class Inference(Tested, Fitted):
    """The record of a fit with the numbers that follow from it."""

    @cached_property
    def coefficients(self) -> Coefficients:
        return coefficients(self)

    @property
    def free(self) -> int:
        return len(self.theta) - self.null_directions.shape[1]

    @property
    def constant(self) -> int | None:
        return self.coordinates.constant

    def cov_params(self, which: Sequence[str | int] | None = None) -> Any:
        """Covariance of the estimate, (p, p); or of some parameters, given by name or place."""
        cov = self.cov.copy()
        cov[self.not_identified], cov[:, self.not_identified] = np.nan, np.nan
        np.fill_diagonal(cov, self.coefficients.se**2)
        if which is None:
            return self._framed(cov, list(self.names))
        places = places_of(which, self.labels)
        names = [self.labels[j] for j in places]
        return self._framed(cov[np.ix_(places, places)], names, names)

    @property
    def law(self) -> Law:
        """The estimate's law, to sample from or to push a function through."""
        note = f"{self.cov_type} covariance"
        return Law(self.finite_theta, self.cov, self.target, note, self.null_directions)  # pyright: ignore

"""What `fit` returns: inference from the fit, predictions, updates, files and views."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.errors import InputError, printable
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.merging.record import Heterogeneity
from masgrad.fitting.results import prediction, row_prediction, storage
from masgrad.fitting.results.inference import Inference, Tested
from masgrad.fitting.results.saved.cells import check_cells
from masgrad.fitting.results.update import updated
from masgrad.fitting.results.views import markup
from masgrad.fitting.results.views.summary import summary
from masgrad.stores.path import as_storage_options, located
from masgrad.types import float64

if TYPE_CHECKING:  # for the annotation alone
    from matplotlib.figure import Figure


class Shown(Tested):
    """A fit as text, HTML, LaTeX and pictures."""

    def summary(self, alpha: float = 0.05, width: int | None = None) -> str:
        """A table in the layout of statsmodels, and how the estimate was reached.

        Args:
            alpha: one minus the level of the intervals.
            width: columns of the page, those of the terminal by default; 80 are used, more if names
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
        from masgrad.fitting.results.views.plots import plot  # matplotlib is heavy

        return plot(self, path, alpha)

    def __repr__(self) -> str:
        pairs = zip(self.theta[:6], self.coefficients.se, strict=False)
        shown = ", ".join(f"{t:.4g} +- {s:.2g}" for t, s in pairs)
        more = ", ..." if len(self.theta) > 6 else ""
        kind = printable(self.kind)
        name = type(self).__name__
        return f"{name}({kind}, {self.nobs} rows, {self.status}: {shown}{more}; see .summary())"


@dataclass(frozen=True, repr=False, eq=False)
class Result(Shown, Inference):
    """An estimate of theta*, its covariance, and how it was reached; it holds no data.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 2))
        >>> r = mg.fit(mg.Linear(), (X, X @ [1.0, 2.0] + rng.normal(size=1000)))
        >>> r.nobs, r.conf_int().shape, str(r.status)
        (1000, (2, 2), 'converged')
        >>> bool(r.wald_test("theta[0] = 1, theta[1] = 2").pvalue > 0.01)
        True
    """

    @classmethod
    def of(cls, fitted: Fitted) -> "Result":
        """A record of a fit, with methods."""
        return cls(**{f.name: getattr(fitted, f.name) for f in fields(fitted)})

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
        storage_options: dict[str, Any] | None = None,
    ) -> Any:
        """The mean response, (N,); with an interval a data frame: mean, se, lower, upper.

        The interval is for the mean, by the delta method: that of the linear predictor is mapped
        through the inverse link, so that its ends stay in the mean's range. Rows that depend on
        what is not identified have the whole range; rows with a missing or an infinite value have
        NaN, and a `MissingWarning` names the first.

        Args:
            data: rows X (N, p); after a formula a table or files, read in blocks. Of a `CustomLoss`
                rows as its `predict` takes them, which may be columns of a table or files; the
                prediction may be several numbers, (N, ...), and its interval is f -+ c se.
            interval: its level, such as 0.95.
            which: "mean", or "linear" for the linear predictor, in a column of that name.
            offset: of these rows; columns that the fit named are taken from the table.
            exposure: likewise.
            penalized: predict by `penalized_params`, which have no interval.
            storage_options: of the connection to a store, for files there, as in `fit`.
        """
        if penalized and (self.penalized is None or interval is not None):
            why = "there was no penalty" if self.penalized is None else "it has no interval"
            raise InputError(f"penalized=True: {why}; leave it out")
        fitted = replace(self, theta=self.penalized) if penalized else self
        data = located(data, as_storage_options(storage_options))
        if self.model is None or not self.model.takes_any_rows:
            return prediction.predict(fitted, data, interval, which, offset, exposure)
        roles = {"offset": offset, "exposure": exposure}
        kind = None if which == "mean" else which
        return row_prediction.predict_rows(fitted, data, interval, which=kind, **roles)

    def predicted_blocks(
        self, data: Any, interval: float | None, which: str
    ) -> Iterator[dict[str, np.ndarray]]:
        """The predictions of `predict` as columns, block by block: files need no more at a time."""
        return prediction.predicted_blocks(self, data, interval, which)

    def update(self, data: Any, **keywords: Any) -> "Result":
        """The estimate and intervals for the old rows and these new ones together.

        Args:
            data: new rows, in the form of the old ones.
            keywords: those of `fit`, except penalty and formula.
        """
        return Result.of(updated(self, data, keywords))

    def merge(self, *others: Fitted, repeated: str = "error") -> "Result":
        """The estimate and intervals for the rows of these results together.

        Their rows are taken to be different ones. Nothing but aggregates is needed: sums over rows,
        which results hold. What is omitted by that is in `fit_info.remainder`, in standard errors;
        where it matters, sums are taken at this result (`fit(..., at=result)`), and merged again.

        Args:
            others: results of the same model, by `fit`, `glm`, `load`, `update` or `merge`.
            repeated: "error" refuses shards whose sums are the same, "keep" takes their rows for
                different ones.

        Example:
            >>> import numpy as np, masgrad as mg
            >>> rng = np.random.default_rng(0)
            >>> X = rng.normal(size=(900, 2))
            >>> y = rng.poisson(np.exp(X @ [0.2, 0.4]))
            >>> a, b, c = (mg.fit(mg.Poisson(), (X[k::3], y[k::3])) for k in range(3))
            >>> both, whole = a.merge(b, c), mg.fit(mg.Poisson(), (X, y))
            >>> both.nobs, bool((abs(both.params - whole.params) < 0.01 * whole.bse).all())
            (900, True)
        """
        from masgrad.fitting.merging.merge import merge  # pyarrow, for merges alone

        return Result.of(merge((self, *others), repeated))

    @property
    def heterogeneity(self) -> Heterogeneity | None:
        """The test that merged shards have one theta*, with `pvalue`; None if not merged."""
        return None if self.merged is None else self.merged.heterogeneity

    def save(self, path: str | Path, *, small_cells: str = "warn") -> None:
        """Write everything to a JSON file, readable by `mg.load`.

        The file holds sums over rows, and no columns of the data. A sum over few rows can say
        much about each of them; that over a cluster of one row is its score.

        Args:
            path: the file.
            small_cells: "warn" names levels, and counts clusters, fixed effects and times, that
                fewer than 10 rows have, and rows whose scores HAC errors keep; "allow" does not.
        """
        check_cells(self, small_cells)
        storage.save(self, path)

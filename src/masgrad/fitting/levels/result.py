"""The result of a fit with very many levels: what a `Result` does, as far as L x L allows."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.levels.coefficients import LevelCoefficients
from masgrad.fitting.levels.fitted import SHOWN_LEVELS, LevelsFitted
from masgrad.fitting.levels.prediction import predicted_columns
from masgrad.fitting.results.constraints import places_of
from masgrad.fitting.results.contrasts import Region
from masgrad.fitting.results.missing import Missing
from masgrad.fitting.results.prediction import (
    check_asked,
    check_offset,
    each_prediction,
    joined_columns,
    response_of,
)
from masgrad.fitting.results.result import Shown
from masgrad.stores.path import as_storage_options, located
from masgrad.types import float64


@dataclass(frozen=True, repr=False, eq=False)
class LevelsResult(Shown, LevelsFitted):
    """An estimate of theta* in which one category has very many levels; it holds no data.

    The covariance of all parameters is not kept: `cov_params(["a", "C(g)[T.17]"])` has that of
    some, and contrasts and tests take what they need.
    """

    @classmethod
    def of(cls, fitted: LevelsFitted) -> "LevelsResult":
        """A record of a fit, with methods."""
        return cls(**{f.name: getattr(fitted, f.name) for f in fields(fitted)})

    @cached_property
    def coefficients(self) -> LevelCoefficients:
        return LevelCoefficients(
            self.theta,
            np.empty((0, 0)),
            np.zeros_like(self.theta),
            self.names,
            ~np.isfinite(self.errors),
            finite=self.finite_theta,
            errors=self.errors,
            design=self.design,
            sandwich=self.sandwich,
        )

    @property
    def free(self) -> int:
        return len(self.design.columns) + int(self.design.live.sum())

    @property
    def constant(self) -> int | None:
        return self.design.many.intercept

    @property
    def shown(self) -> np.ndarray:
        """All columns, and a few of the levels."""
        levels = self.design.many.columns
        hidden = np.arange(levels.start + SHOWN_LEVELS, levels.stop)
        return np.setdiff1d(np.arange(len(self.theta)), hidden)

    def cov_params(self, which: Sequence[str | int] | None = None) -> Any:
        """Covariance of some parameters, given by name or place; of all if `memory` allows it."""
        p = len(self.theta)
        if which is None and 8 * p * p > self.memory:
            some = [self.names[0], self.names[self.design.many.start]]
            raise InputError(
                f"the covariance of {p:,} parameters takes {8 * p * p / 2**20:,.0f} MB, more than "
                f"memory={self.memory / 2**20:,.0f}MB; ask for some of them: cov_params({some!r})"
            )
        places = list(range(p)) if which is None else places_of(which, self.names)
        names = [self.names[j] for j in places]
        out = ~np.isfinite(self.errors[places])
        cov = self.coefficients.block(_rows(places, p))
        cov[out], cov[:, out] = np.nan, np.nan
        np.fill_diagonal(cov, self.errors[places] ** 2)
        return self._framed(cov, names, names)

    def region(self, R: Any = None, level: float = 0.95) -> Region:
        """The joint region of combinations R theta*: an ellipsoid."""
        if R is None:
            raise InputError(
                f"the region of all {len(self.theta):,} parameters is not computed; give some "
                "combinations: region('a, b')"
            )
        return super().region(R, level)

    @property
    def law(self) -> Any:
        """Refused: the law of very many coefficients takes their whole covariance."""
        raise self._refused("law", "contrast([...]) and cov_params([...]) have what a few need")

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

        The arguments are those of `Result.predict`.
        """
        from masgrad.data.table_source import predictors  # pyarrow

        if penalized:
            raise InputError("penalized=True: there was no penalty; leave it out")
        check_asked(data, interval, which)
        check_offset(self, offset, exposure)
        assert self.terms is not None
        data = located(data, as_storage_options(storage_options))
        source = predictors(self.terms, data, offset, exposure)
        columns = partial(predicted_columns, self, response_of(self.model, which), interval)
        missing = Missing(self.names, self.terms)
        parts = each_prediction(source.blocks(), columns, which, missing, source.place)
        return joined_columns(parts, data, interval, which)

    def update(self, data: Any, **keywords: Any) -> Any:
        """Refused: new rows may bring new levels."""
        raise self._refused("update", "fit old and new rows together")

    def merge(self, *others: Any) -> Any:
        """Refused: sums over rows have no place for so many levels."""
        raise self._refused("merge", "group the levels")

    def save(self, path: str | Path) -> None:
        """Refused: the file would have no reader."""
        raise self._refused("save", "result.to_frame().to_parquet(path) keeps the coefficients")

    def _refused(self, what: str, instead: str) -> InputError:
        many = len(self.design.many.category.levels)
        return InputError(f"a fit with {many:,} levels has no {what}; {instead}")


def _rows(places: list[int], p: int) -> np.ndarray:
    """Rows of the identity, (k, p)."""
    R = np.zeros((len(places), p))
    R[np.arange(len(places)), places] = 1.0
    return R

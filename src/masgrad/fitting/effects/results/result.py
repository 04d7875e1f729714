"""The result of a fit with fixed effects: a result of the slopes, and the effects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.effects.results.fitted import Effects, EffectsFitted
from masgrad.fitting.effects.results.prediction import predicted, refuse_interval
from masgrad.fitting.effects.results.storage import effects_to_json
from masgrad.fitting.results import storage
from masgrad.fitting.results.prediction import check_asked, joined_columns
from masgrad.fitting.results.result import Result
from masgrad.fitting.results.saved.cells import FEWEST_ROWS, check_cells
from masgrad.stores.path import as_storage_options, located
from masgrad.types import float64


@dataclass(frozen=True, repr=False, eq=False)
class EffectsResult(Result, EffectsFitted):
    """An estimate of the slopes beside fixed effects; it holds no data.

    Example:
        >>> import numpy as np, pandas as pd, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> table = pd.DataFrame({"x": rng.normal(size=300), "firm": np.arange(300) % 30})
        >>> table["y"] = 2 * table.x + table.firm / 10 + rng.normal(size=300)
        >>> r = mg.glm("y ~ x | firm", table)
        >>> r.params.round(1).to_dict(), r.absorbed, r.fixed_effects()["firm"].shape
        ({'x': 2.0}, '30', (30,))
    """

    @property
    def free(self) -> int:
        return super().free + self.effects.parameters

    @property
    def constant(self) -> int | None:
        return None

    @property
    def absorbed(self) -> str:
        return f"{self.effects.parameters:,}"

    @property
    def r2_within(self) -> float | None:
        if self.squares_within is None:
            return None
        return 1 - self.local_model.squares / self.squares_within

    def fixed_effects(self) -> dict[str, Any]:
        """The effects of every grouping, a Series by level (the keys in ascending order).

        Of one grouping every level has its own effect, and there is no intercept beside them. Of
        several only sums are determined: in each further grouping the first level has the effect 0,
        and so has the first one of every part of the rows that shares no level of it and of the
        first grouping with the rest (a connected component). Levels that were left out have NaN.
        """
        import pandas as pd

        keys = [[g.keys.key(code) for code in range(g.size)] for g in self.effects.groupings]
        orders = [ascending(values) for values in keys]
        found = {}
        for grouping, values, levels, order in zip(
            self.effects.groupings, normalised(self.effects, orders), keys, orders, strict=True
        ):
            names = [levels[code] for code in order]
            index = (
                pd.MultiIndex.from_tuples(names, names=grouping.name.split("^"))
                if "^" in grouping.name
                else pd.Index(names, name=grouping.name)
            )
            found[grouping.name] = pd.Series(values[order], index, name=grouping.name)
        return found

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
        """The mean response, (N,), with the effects of the rows' levels.

        Rows with a level that the fit has no effect of have NaN, and a `MissingWarning` counts
        them. There are no intervals.

        Args:
            data: a table or files with the columns of the fit, those of the effects included.
            interval: refused.
            which: "mean", or "linear" for the linear predictor.
            offset: of these rows; columns that the fit named are taken from the table.
            exposure: likewise.
            penalized: refused.
            storage_options: of the connection to a store, for files there, as in `fit`.
        """
        if penalized:
            raise InputError("penalized=True: there was no penalty; leave it out")
        data = located(data, as_storage_options(storage_options))
        blocks = self.predicted_blocks(data, interval, which, offset, exposure)
        return joined_columns(blocks, data, None, which)

    def predicted_blocks(
        self,
        data: Any,
        interval: float | None,
        which: str,
        offset: Any = None,
        exposure: Any = None,
    ) -> Iterator[dict[str, np.ndarray]]:
        refuse_interval(interval)
        check_asked(data, interval, which)
        return predicted(self, data, which, offset, exposure)

    def update(self, data: Any, **keywords: Any) -> "Result":
        """Refused: new rows would move all effects."""
        raise InputError(
            "a fit with fixed effects has no update: sums by level are not kept; fit old and new "
            "rows together"
        )

    @property
    def _small_levels(self) -> tuple[str, ...]:
        """What is said of effects of few rows before they are saved."""
        pairs = zip(self.effects.groupings, self.effects.small, strict=False)
        return tuple(
            f"{count:,} fixed effects of {grouping.name} of fewer than {FEWEST_ROWS} rows, with "
            "their keys"
            for grouping, count in pairs
            if count
        )

    def save(self, path: str | Path, *, small_cells: str = "warn") -> None:
        """Write the result with its effects to exactly this path, as JSON; no data are in it."""
        check_cells(self, small_cells, self._small_levels)
        storage.save(self, path, effects=effects_to_json(self))


def ascending(keys: Sequence[Any]) -> np.ndarray:
    """The order of keys, by value if they can be compared, otherwise as text."""
    try:
        order = sorted(range(len(keys)), key=keys.__getitem__)
    except TypeError:
        order = sorted(range(len(keys)), key=lambda code: str(keys[code]))
    return np.array(order, np.intp)


def normalised(effects: Effects, orders: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The effects with a reference level in every component of each further grouping."""
    first, *others = [values.copy() for values in effects.values]
    for values, (of_first, own), order in zip(others, effects.components, orders[1:], strict=True):
        known = order[own[order] >= 0]
        _, reference = np.unique(own[known], return_index=True)
        shift = np.append(values[known[reference]], 0.0)  # of no component
        values -= shift[own]
        first += shift[of_first]
    return [first, *others]

"""A problem of the campaign fitted by masgrad, out of the container that it names."""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import masgrad as mg
from campaign_problems import Problem
from campaign_rows import Data
from masgrad.errors import MasgradError, MasgradWarning


@dataclass(frozen=True)
class Outcome:
    """What the library said.

    Args:
        theta: the estimate in the order of the design, or None.
        se: its standard errors.
        remainder: the stated distance from the optimum, in standard errors.
        status: `result.status`, or "".
        ok: whether that status is the library's "all is well".
        warnings: categories of masgrad's warnings.
        leaked: numerical warnings of other packages.
        error: the exception, "Type: message", or "".
        refused: whether it is one of masgrad's own.
        reads: passes over the rows.
        seconds: time of the fit.
    """

    theta: np.ndarray | None = None
    se: np.ndarray | None = None
    remainder: float = np.nan
    status: str = ""
    ok: bool = False
    warnings: tuple[str, ...] = ()
    leaked: str = ""
    error: str = ""
    refused: bool = False
    reads: int = 0
    seconds: float = 0.0

    @property
    def admits(self) -> bool:
        """Whether a warning or the status says that something is amiss.

        "approximate" with a stated remainder below 0.1 standard errors does not.
        """
        vague = self.status == "approximate" and self.remainder <= 0.1
        return bool(self.warnings) or not (self.ok or vague)


def attempt(problem: Problem, data: Data, folder: Path) -> Outcome:
    """Fit, and keep what was returned, warned of or raised."""
    fit = prepared(problem, data, folder)
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = _found(fit(), data)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"[:300]
            found = {"error": text, "refused": isinstance(error, MasgradError)}
    own = {w.category.__name__ for w in said if issubclass(w.category, MasgradWarning)}
    leaks = [str(w.message) for w in said if issubclass(w.category, RuntimeWarning)]
    return Outcome(
        **found,
        warnings=tuple(sorted(own)),
        leaked=leaks[0][:200] if leaks else "",
        seconds=time.perf_counter() - begun,
    )


def _found(result: Any, data: Data) -> dict[str, Any]:
    theta, se = result.params, result.bse
    if isinstance(theta, pd.Series):
        theta, se = theta.reindex(list(data.names)), se.reindex(list(data.names))
    return {
        "theta": np.asarray(theta, float), "se": np.asarray(se, float),
        "remainder": float(result.fit_info.remainder), "status": result.status.value,
        "ok": result.status.ok, "reads": int(result.fit_info.reads),
    }  # fmt: skip


# --- containers


def prepared(problem: Problem, data: Data, folder: Path) -> Any:
    """A function that fits; files are written now."""
    options: dict[str, Any] = {"passes": problem.passes, "threads": problem.threads}
    if problem.block_size:
        options["block_size"] = problem.block_size
    if problem.is_table:
        return _from_table(problem, data, folder, options)
    model = mg.GLM(problem.name, problem.link)
    if problem.container == "arrays":
        beside = {"weights": data.w, "offset": data.offset}
        return lambda: mg.fit(model, (data.X, data.y), **beside, **options)
    if problem.container == "iterator":
        return lambda: mg.fit(model, _blocks(data), **options)
    return lambda: mg.fit(model, mg.Stream(lambda: _blocks(data)), **options)


def _blocks(data: Data, size: int = 5000) -> Iterator[tuple]:
    for start in range(0, len(data.y), size):
        part = slice(start, start + size)
        w, offset = (None if v is None else v[part] for v in (data.w, data.offset))
        yield data.X[part], data.y[part], w, offset


def _from_table(problem: Problem, data: Data, folder: Path, options: dict[str, Any]) -> Any:
    formula = "y ~ " + " + ".join([*data.columns, *(["g"] if data.category is not None else [])])
    table = _table(problem, data)
    source = table.to_pandas() if problem.container == "frame" else _written(problem, table, folder)
    if data.w is not None:
        options["weights"] = "w"
    if data.offset is not None:
        options["exposure" if problem.offset == "exposure" else "offset"] = "o"
    return lambda: mg.glm(formula, source, problem.name, problem.link, **options)


def _table(problem: Problem, data: Data) -> pa.Table:
    columns: dict[str, Any] = {"y": data.y, **data.columns}
    if data.category is not None:
        columns["g"] = data.category
    if data.w is not None:
        columns["w"] = data.w
    if data.offset is not None:
        columns["o"] = np.exp(data.offset) if problem.offset == "exposure" else data.offset
    return pa.table(columns)


def _written(problem: Problem, table: pa.Table, folder: Path) -> Any:
    groups = 3 + problem.index % 9
    size = -(-table.num_rows // groups)
    match problem.container:
        case "parquet":
            pa.parquet.write_table(table, folder / "rows.parquet", row_group_size=size)
            return folder / "rows.parquet"
        case "files":
            paths = [folder / f"part-{k:02d}.parquet" for k in range(groups)]
            for k, path in enumerate(paths):
                pa.parquet.write_table(table.slice(k * size, size), path)
            return paths
        case "csv":
            pa.csv.write_csv(table, folder / "rows.csv")
            return folder / "rows.csv"
    raise ValueError(problem.container)

"""What `fit` was given, as a source of rows: arrays, tables, files, streams, simulators."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from masgrad.data.arrays import BLOCK, as_regression
from masgrad.data.formulas import Terms, parse
from masgrad.data.simulate import Simulator
from masgrad.data.source import Arrays, Source, Stream
from masgrad.data.tables import MEMORY, Files, Frame, column_names, expand
from masgrad.errors import InputError, InputTypeError
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.models.trace import TraceRegression
from masgrad.types import Rows

UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


def as_source(
    model: Model,
    data: Any,
    formula: str | None,
    memory: int,
    block: int = BLOCK,
    weights=None,
    offset=None,
    exposure=None,
) -> tuple[Source, Terms | None]:
    """A source, and the formula's terms where there is one."""
    if formula is not None or isinstance(data, str | Path) or _paths(data):
        return _table(data, formula, memory, block)
    if isinstance(data, Simulator):
        raise InputError("a Simulator has no end; say how many rows: data.stream(rows=1_000_000)")
    if isinstance(data, Source):
        if isinstance(data, Stream):
            data = Stream(data.start, data.again, block)
            data.check, data.real = _checker(model), isinstance(model, GLM)
        return data, None
    if isinstance(data, Iterator):
        once = Stream(lambda: data, again=False, block=block)
        once.check, once.real = _checker(model), isinstance(model, GLM)
        return once, None
    if isinstance(model, GLM) and not hasattr(data, "optimum"):
        rows, names = _regression(model, data)
        return Arrays(rows, names, block), None
    return Arrays(model.rows(data), (), block, real=False), None


def as_bytes(memory: str | int) -> int:
    """A size such as "512MB", or a number of bytes."""
    if isinstance(memory, str):
        text = memory.strip().upper().replace("IB", "B")
        for unit in sorted(UNITS, key=len, reverse=True):
            if text.endswith(unit):
                try:
                    memory = float(text.removesuffix(unit)) * UNITS[unit]  # pyright: ignore
                    break
                except ValueError:
                    pass
    if isinstance(memory, str | bool) or not memory >= 2**20:
        raise InputError(f"memory={memory!r}; a size of at least a megabyte is needed: '512MB'")
    return int(memory)


def _paths(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(d, str | Path) for d in data)


def _table(data: Any, formula: str | None, memory: int, block: int) -> tuple[Source, Terms]:
    if formula is None:
        raise InputError(
            f"{data!r:.80} is a file; say what is fitted: formula='y ~ a + b', or use mg.glm"
        )
    terms = parse(formula, _columns(data) if "." in formula else None)
    return table_source(data, terms, memory, block), terms


def table_source(data: Any, terms: Terms, memory: int, block: int = BLOCK) -> Source:
    """A data frame or files, seen through the terms of a formula."""
    if isinstance(data, pd.DataFrame):
        return Frame(data, terms, block=block)
    if isinstance(data, str | Path) or _paths(data):
        return Files(data, terms, memory, block=block)
    raise InputTypeError(
        f"a formula needs a pandas DataFrame or files (Parquet, CSV), got {type(data).__name__}"
    )


def designs(terms: Terms, data: Any) -> Iterator[np.ndarray]:
    """X of a table block by block; no response is needed."""
    return table_source(data, replace(terms, response=None), MEMORY).blocks()


def _columns(data: Any) -> list[str]:
    """Names that a "." in a formula stands for."""
    if isinstance(data, pd.DataFrame):
        return [str(name) for name in data.columns]
    return column_names(expand(data)[0])


def _regression(model: GLM, data: Any) -> tuple[Rows, tuple[str, ...]]:
    names: tuple[str, ...] = ()
    if isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], pd.DataFrame):
        names = tuple(map(str, data[0].columns))
        if isinstance(data[1], pd.Series) and not data[1].index.equals(data[0].index):
            raise InputError("X and y have different indexes; align them: y.loc[X.index]")
        data = _numbers(data[0]), data[1]
    X, y = as_regression(data, finite=False)
    if isinstance(model, TraceRegression):
        X = model.design(model.rows((X, y)))
    if X.ndim != 2:
        raise InputError(
            f"X has shape {X.shape}; a matrix with a row an observation is needed: X[:, None]?"
        )
    return (X, y), names


def _numbers(frame: pd.DataFrame) -> np.ndarray:
    names = list(frame.columns)
    twice = sorted({str(n) for n in names if names.count(n) > 1})
    if twice:
        raise InputError(f"X has two columns named {twice[0]!r}; rename one")
    for name in names:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            raise InputTypeError(
                f"column {name!r} is not numeric ({frame[name].dtype}); encode or drop it"
            )
    return frame.to_numpy(np.float64, na_value=np.nan)


def _checker(model: Model) -> Callable[[Rows], Rows]:
    """What each block of a stream must be; a regression's columns must not change in number."""
    if not isinstance(model, GLM):
        return model.rows
    first: tuple[int, ...] = ()

    def check(block: Rows) -> Rows:
        nonlocal first
        rows, _ = _regression(model, block)
        first = first or rows[0].shape[1:]
        if rows[0].shape[1:] != first:
            raise InputError(f"X has shape {rows[0].shape}; the first block had {first} a row")
        return rows

    return check

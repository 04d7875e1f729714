"""Files and data frames as blocks of (X, y): whatever their size, in bounded memory.

Columns arrive as views of Arrow's buffers, are cut to blocks and copied once, into the (p, n)
buffer of a block. A missing value is NaN in its block. In a random order, row groups are permuted
and whole blocks pass through a shuffle buffer.
"""

import glob
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.data.arrays import BLOCK
from masgrad.data.columns import Columns, check_columns, cut, not_numeric, shuffle
from masgrad.data.csv_files import Csv, csv_names
from masgrad.data.formulas import Terms
from masgrad.data.parquet import Parquet, parquet_names
from masgrad.data.source import Arrays, Source
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Rows

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV", ".csv.gz": "CSV"}

MEMORY = 512 * 2**20
"""Bytes that reading may take, unless told otherwise."""

HELD = 1024
"""Blocks that a shuffle buffer holds at most."""


class Files(Source):
    """Parquet or CSV files, in the order of their sorted names.

    Example:
        >>> source = Files("part-*.parquet", parse("y ~ a + b"))  # doctest: +SKIP
        >>> X, y = next(source.blocks())  # doctest: +SKIP
    """

    ordered = True

    def __init__(self, paths: Any, terms: Terms, memory: int = MEMORY, block: int = BLOCK):
        self.paths, self.terms, self.names = expand(paths), terms, terms.names
        self.memory, self.block = memory, block
        medium = Parquet if kind(self.paths[0]) == "Parquet" else Csv
        self.medium = medium(self.paths, terms.columns, memory)
        self.count = self.medium.count

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        blocks = (as_block(self.terms, c) for c in cut(self.medium.batches(rng), self.block))
        return blocks if rng is None else shuffle(blocks, self._held(), rng)

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        """From row groups in a random order, without filling a shuffle buffer."""
        return (as_block(self.terms, c) for c in cut(self.medium.batches(rng), self.block))

    def _held(self) -> int:
        """Blocks of a shuffle buffer that takes an eighth of the memory."""
        size = 8 * self.block * (len(self.names) + 1)
        return min(max(self.memory // 8 // size, 1), HELD)

    def place(self, row: int) -> str:
        for path, count in zip(self.paths, self.medium.counts, strict=True):
            if count is None or row < count:
                return f"row {row} of {path}"
            row -= count
        return f"row {row} after {self.paths[-1]}"


class Frame(Source):
    """A pandas data frame; columns of NumPy's own types are not copied."""

    def __init__(self, frame: "pd.DataFrame", terms: Terms, block: int = BLOCK):
        self.terms, self.names, self.block = terms, terms.names, block
        check_columns("the data frame", terms.columns, list(frame.columns))
        if not len(frame):
            raise InputError("the data frame has no rows; at least one observation is needed")
        self.arrays = Arrays({name: _from_frame(frame, name) for name in terms.columns}, (), block)
        self.count = len(frame)

    def blocks(self, rng: np.random.Generator | None = None) -> Generator[Rows]:
        return (as_block(self.terms, columns) for columns in self.arrays.blocks(rng))

    def first_blocks(self, rng: np.random.Generator) -> Generator[Rows]:
        return self.blocks(rng)


def _from_frame(frame: "pd.DataFrame", name: str) -> np.ndarray:
    column = frame[name]
    if column.dtype.kind not in "fiub":
        raise not_numeric("the data frame", name, column.dtype)
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.to_numpy(np.float64, na_value=np.nan)


def as_block(terms: Terms, columns: Columns) -> Rows:
    """(X, y), or X if there is no response; y is a copy, since a view would keep a row group."""
    X = terms.matrix(columns)
    return X if terms.response is None else (X, np.array(columns[terms.response], np.float64))


def expand(data: Any) -> list[Path]:
    """Existing files of one kind, sorted: from a path, a pattern, a directory or a list of them."""
    listed = data if isinstance(data, Sequence) and not isinstance(data, str | bytes) else [data]
    paths = sorted({path for item in listed for path in _expand(item)})
    kinds = {kind(path) for path in paths}
    if len(kinds) != 1:
        said = " and ".join(sorted(kinds)) or "no file"
        raise InputError(f"{data!r:.80} names {said}; files of one kind are needed")
    return paths


def _expand(item: Any) -> list[Path]:
    if not isinstance(item, str | os.PathLike):
        raise InputTypeError(f"a path or a pattern is needed, got {item!r:.80}")
    path = Path(item)
    if path.is_dir():
        return [child for child in path.iterdir() if child.is_file() and _is_table(child.name)]
    if path.exists():
        return [path]
    matches = [match for match in glob.glob(str(item), recursive=True) if os.path.exists(match)]
    if not matches:
        raise FileNotFoundError(f"{item}: no such file, and no file that matches it")
    return [path for match in matches for path in _expand(match)]


def _is_table(name: str) -> bool:
    """Whether a file of a directory is meant: writers begin names of passing files with . or _."""
    return name.lower().endswith(tuple(SUFFIXES)) and not name.startswith((".", "_"))


def kind(path: Path) -> str:
    for suffix, name in SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return name
    raise InputError(f"{path}: a file that ends in {', '.join(SUFFIXES)} is needed")


def column_names(path: Path) -> list[str]:
    """All columns of a file: what "." of a formula stands for, besides the response."""
    return csv_names(path) if kind(path) == "CSV" else parquet_names(path)

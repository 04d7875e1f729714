"""Files and data frames as blocks of (X, y): whatever their size, in bounded memory.

Parquet goes through Arrow's dataset scanner, whose threads read ahead while the caller computes;
CSV through its streaming reader. Columns arrive as views of Arrow's buffers, are cut to blocks and
copied once, into the (p, n) buffer of a block. Every file's columns are checked before any is read.
A missing value is NaN in its block. In a random order, row groups are permuted and whole blocks
pass through a shuffle buffer.
"""

import glob
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, dataset, fs

from masgrad.data.arrays import BLOCK
from masgrad.data.formulas import Terms
from masgrad.data.source import Arrays, Source, ahead
from masgrad.errors import InputError, InputTypeError, MemoryWarning
from masgrad.types import Rows

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, np.ndarray]

SUFFIXES = {".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV", ".csv.gz": "CSV"}

MEMORY = 512 * 2**20
"""Bytes that reading may take, unless told otherwise."""

BATCH = 1 << 16
"""Rows of an Arrow batch: smaller ones cost the scanner more than they save."""

HELD = 1024
"""Blocks that a shuffle buffer holds at most."""

LOCAL = fs.LocalFileSystem()

# pre_buffer would hold the whole file; buffered streams took a quarter less time than whole chunks.
FORMAT = dataset.ParquetFileFormat(
    default_fragment_scan_options=dataset.ParquetFragmentScanOptions(
        pre_buffer=False,
        use_buffered_stream=True,
        buffer_size=1 << 18,
        page_checksum_verification=True,
    )
)


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

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[Rows]:
        blocks = (as_block(self.terms, c) for c in cut(self.medium.batches(rng), self.block))
        return blocks if rng is None else shuffle(blocks, self._held(), rng)

    def _held(self) -> int:
        """Blocks of a shuffle buffer that takes a quarter of the memory."""
        size = 8 * self.block * (len(self.names) + 1)
        return min(max(self.memory // 4 // size, 1), HELD)

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

    def blocks(self, rng: np.random.Generator | None = None) -> Iterator[Rows]:
        return (as_block(self.terms, columns) for columns in self.arrays.blocks(rng))


def _from_frame(frame: "pd.DataFrame", name: str) -> np.ndarray:
    column = frame[name]
    if column.dtype.kind not in "fiub":
        raise not_numeric("the data frame", name, column.dtype)
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    return column.to_numpy(np.float64, na_value=np.nan)


class Parquet:
    """Batches of columns from Parquet files of one set of columns."""

    def __init__(self, paths: list[Path], columns: tuple[str, ...], memory: int):
        self.fragments = [FORMAT.make_fragment(str(path.absolute()), LOCAL) for path in paths]
        for path, fragment in zip(paths, self.fragments, strict=True):
            _check_parquet(path, fragment, columns)
        self.counts: list[int] = [fragment.metadata.num_rows for fragment in self.fragments]
        self.count = sum(self.counts)
        if not self.count:
            raise no_rows(paths)
        self.schema = pa.schema([(name, self._type(name)) for name in columns])
        self._check_memory(memory)

    def _type(self, name: str) -> pa.DataType:
        """The type that all files share, or float64, to which Arrow casts the others."""
        types = {fragment.physical_schema.field(name).type for fragment in self.fragments}
        plain = len(types) == 1 and not pa.types.is_decimal(next(iter(types)))
        return types.pop() if plain else pa.float64()

    def _check_memory(self, memory: int) -> None:
        """Arrow decodes a row group whole, and the next one while its batches are read."""
        groups = [(g.num_rows, f.path) for f in self.fragments for g in f.row_groups]
        rows, path = max(groups)
        fits = memory // (16 * len(self.schema))
        if rows > fits:
            warnings.warn(
                f"{path} has a row group of {rows} rows, and reading two at a time takes more than "
                f"memory={memory}; write it with row_group_size={fits} at most, or grant more",
                MemoryWarning,
                stacklevel=4,
            )

    def batches(self, rng: np.random.Generator | None) -> Iterator[Columns]:
        pieces = self.fragments if rng is None else self._row_groups(rng)
        rows = dataset.FileSystemDataset(pieces, self.schema, FORMAT, LOCAL)
        scanner = rows.scanner(batch_size=BATCH, batch_readahead=1, fragment_readahead=1)
        try:
            for batch in scanner.to_batches():
                yield as_columns(batch)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._culprit()} cannot be read: {error}") from error

    def _row_groups(self, rng: np.random.Generator) -> list:
        groups = [(f, g.id) for f in self.fragments for g in f.row_groups]
        order = rng.permutation(len(groups))
        return [f.subset(row_group_ids=[g]) for f, g in (groups[i] for i in order)]

    def _culprit(self) -> str:
        """The first file that fails on its own: the scanner, which reads ahead, does not say."""
        for fragment in self.fragments:
            try:
                for _ in fragment.scanner(schema=self.schema, batch_readahead=1).to_batches():
                    pass
            except (pa.ArrowException, OSError):
                return fragment.path
        return "one of the files"


def _check_parquet(path: Path, fragment: Any, columns: tuple[str, ...]) -> None:
    try:
        schema = fragment.physical_schema
    except (PermissionError, FileNotFoundError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from error
    check_columns(str(path), columns, schema.names)
    for name in columns:
        kind = schema.field(name).type
        if not (_is_plain(kind) or pa.types.is_decimal(kind)):
            raise not_numeric(str(path), name, kind)


def _is_plain(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


class Csv:
    """Batches of columns from CSV files with a header; rows are counted while they are read."""

    count = None

    def __init__(self, paths: list[Path], columns: tuple[str, ...], memory: int):
        self.paths, self.columns = paths, columns
        self.counts: list[int | None] = [None] * len(paths)
        self.headers = [_header(path) for path in paths]
        for path, header in zip(paths, self.headers, strict=True):
            check_columns(str(path), columns, header.names)
        if not sum(self._has_rows(k) for k in range(len(paths))):  # a sum, since it looks at all
            raise no_rows(paths)

    def _has_rows(self, k: int) -> bool:
        return any(len(batch) for batch in self._read(k, first=True))

    def batches(self, rng: np.random.Generator | None) -> Iterator[Columns]:
        """In order, always, and by another thread: Arrow's own do not number the rows."""
        return ahead(self._batches())

    def _batches(self) -> Iterator[Columns]:
        for k in range(len(self.paths)):
            rows = 0
            for batch in self._read(k):
                rows += len(batch)
                yield as_columns(batch)
            self.counts[k] = rows

    def _read(self, k: int, first: bool = False) -> Iterator[pa.RecordBatch]:
        """The batches of a file, or the first of them."""
        header = self.headers[k]
        types = {c: _csv_type(header.field(c).type) for c in self.columns}
        try:
            for batch in _open_csv(self.paths[k], types):
                yield batch
                if first:
                    return
        except (pa.ArrowException, OSError) as error:
            raise _csv_error(self.paths[k], header.names, error) from None


def _open_csv(path: Path, types: dict[str, pa.DataType]) -> csv.CSVStreamingReader:
    return csv.open_csv(
        str(path),
        read_options=csv.ReadOptions(use_threads=False),
        convert_options=csv.ConvertOptions(include_columns=list(types), column_types=types),
    )


def _header(path: Path) -> pa.Schema:
    """Names of all columns, and what their first values look like."""
    try:
        return _open_csv(path, {}).schema
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _csv_error(path, [], error) from None


def _csv_type(kind: pa.DataType) -> pa.DataType:
    return kind if pa.types.is_boolean(kind) else pa.float64()


def _csv_error(path: Path, header: list[str], error: Exception) -> Exception:
    """Arrow's complaint with our names: it counts rows from 1, and the header is one."""
    text = str(error)
    bad = re.search(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", text, re.DOTALL)
    if bad:
        where = f"{bad[3]!r:.80} at row {int(bad[2]) - 2}"
        return not_numeric(str(path), header[int(bad[1])], where)
    if "Empty CSV file" in text:
        return no_rows([path])
    text = re.sub(r"Row #(\d+)", lambda row: f"row {int(row[1]) - 2}", text)
    return InputError(f"{path} cannot be read as CSV: {text:.200}")


def as_columns(batch: pa.RecordBatch) -> Columns:
    """NumPy views of Arrow's columns; copies where there are nulls, which become NaN, and bools."""
    return {name: _as_numpy(batch.column(name)) for name in batch.schema.names}


def _as_numpy(column: pa.Array) -> np.ndarray:
    column = column.cast(pa.float64()) if pa.types.is_boolean(column.type) else column
    return column.to_numpy(zero_copy_only=False)


def as_block(terms: Terms, columns: Columns) -> Rows:
    """(X, y), or X if there is no response; y is a copy, since a view would keep a row group."""
    X = terms.matrix(columns)
    return X if terms.response is None else (X, np.array(columns[terms.response], np.float64))


def cut(batches: Iterable[Columns], size: int) -> Iterator[Columns]:
    """The same rows, `size` at a time: blocks do not depend on how the file was written."""
    held: list[Columns] = []
    lacking = size
    for batch in batches:
        start, length = 0, len(next(iter(batch.values())))
        while length - start >= lacking:
            yield _join([*held, _slice(batch, start, start + lacking)])
            start, held, lacking = start + lacking, [], size
        if start < length:
            held.append(_slice(batch, start, length))
            lacking -= length - start
    if held:
        yield _join(held)


def _slice(columns: Columns, start: int, stop: int) -> Columns:
    return {name: column[start:stop] for name, column in columns.items()}


def _join(pieces: list[Columns]) -> Columns:
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def shuffle(blocks: Iterable[Rows], size: int, rng: np.random.Generator) -> Iterator[Rows]:
    """The blocks in a random order, at most `size` of them held."""
    held = []
    for block in blocks:
        if len(held) < size:
            held.append(block)
        else:
            chosen = int(rng.integers(size))
            out, held[chosen] = held[chosen], block
            yield out
    for chosen in rng.permutation(len(held)):
        yield held[chosen]


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
    if kind(path) == "CSV":
        return _header(path).names
    fragment = FORMAT.make_fragment(str(path.absolute()), LOCAL)
    _check_parquet(path, fragment, ())
    return fragment.physical_schema.names


def check_columns(where: str, needed: Iterable[str], present: list[str]) -> None:
    for name in needed:
        if name not in present:
            said = ", ".join(map(str, present[:20])) + (", ..." if len(present) > 20 else "")
            raise InputError(f"{where} has no column {name!r}; it has {said}")
        if present.count(name) > 1:
            raise InputError(f"{where} has two columns {name!r}; rename one of them")


def not_numeric(where: str, name: str, kind: Any) -> InputTypeError:
    return InputTypeError(
        f"{where}: column {name!r} is not numeric ({kind}); leave it out, or encode it"
    )


def no_rows(paths: list[Path]) -> InputError:
    said = str(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return InputError(f"{said}: no rows; at least one observation is needed")

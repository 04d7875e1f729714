"""What a table is given as: paths of files, a pattern or a directory, or an object of some library.

Files are of this machine or of a store. Nothing here imports the library that reads the table.
"""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from masgrad.errors import InputError, InputTypeError
from masgrad.stores.listing import listed
from masgrad.stores.path import AnyPath, StorePath, is_path, located
from masgrad.types import is_from

PARQUET, CSV, ARROW = (".parquet", ".pq"), (".csv", ".csv.gz"), (".arrow", ".feather")
SUFFIXES = (
    dict.fromkeys(PARQUET, "Parquet") | dict.fromkeys(CSV, "CSV") | dict.fromkeys(ARROW, "Arrow")
)

STORE = re.compile(r"[a-z][a-z0-9]+:/[^/]")
"""What is left of s3:// in a `Path`."""


def expand(data: Any) -> list[AnyPath]:
    """Existing files of one kind: a path, a pattern, a directory, or a list of them in its order.

    The files of a pattern or a directory are sorted; a file that is listed twice is read twice.
    """
    data = located(data)
    items = data if isinstance(data, Sequence) and not isinstance(data, str | bytes) else [data]
    paths = [path for item in items for path in sorted(set(_expand(item)))]
    kinds = {kind(path) for path in paths}
    if len(kinds) != 1:
        said = " and ".join(sorted(kinds)) or "no file"
        raise InputError(f"{data!r:.80} names {said}; files of one kind are needed")
    return paths


def _expand(item: Any) -> Sequence[AnyPath]:
    if isinstance(item, StorePath):
        return listed(item, _is_table)
    if not is_path(item):
        raise InputTypeError(f"a path or a pattern is needed, got {item!r:.80}")
    if not os.fspath(item):
        raise InputError("the path is empty; a file, a pattern or a folder is needed ('.' is this)")
    item = os.path.expanduser(item)
    path = Path(item)
    if path.is_dir():
        found = [child for child in path.iterdir() if child.is_file() and _is_table(child.name)]
        if not found:
            raise InputError(
                f"{path} holds no Parquet, Arrow or CSV file; of a folder with folders in it give "
                "a pattern, 'folder/**/*.parquet', or a pyarrow dataset, which knows partitions"
            )
        return found
    if path.exists():
        return [path]
    matches = [match for match in glob.glob(str(item), recursive=True) if os.path.exists(match)]
    if not matches:
        hint = "; the address of a store is given as text" if STORE.match(item) else ""
        raise FileNotFoundError(f"{item}: no such file, and no file that matches it{hint}")
    return [path for match in matches for path in _expand(match)]


def _is_table(name: str) -> bool:
    """Whether a file of a directory is a table; names of temporary files begin with . or _."""
    return name.lower().endswith(tuple(SUFFIXES)) and not name.startswith((".", "_"))


def kind(path: AnyPath) -> str:
    for suffix, name in SUFFIXES.items():
        if path.name.lower().endswith(suffix):
            return name
    raise InputError(f"{path}: a file that ends in {', '.join(SUFFIXES)} is needed")


def is_paths(data: Any) -> bool:
    """Whether data names files."""
    items = data if isinstance(data, list) else [data]
    return bool(items) and all(map(is_path, items))


def is_csv(data: Any) -> bool:
    """Whether data names CSV files."""
    return is_paths(data) and kind(expand(data)[0]) == "CSV"


def is_pandas(data: Any) -> bool:
    """Whether this is a data frame of pandas, which is imported for such data alone."""
    return is_from("pandas", data, "DataFrame")


def is_frame(data: Any) -> bool:
    """Whether this is a data frame; dictionaries of columns do not count."""
    if is_pandas(data) or is_from("pyarrow", data, "Table", "RecordBatch"):
        return True
    if not hasattr(type(data), "columns") or is_from("dask.dataframe", data, "DataFrame"):
        return False
    import narwhals as nw

    return isinstance(nw.from_native(data, pass_through=True), nw.DataFrame | nw.LazyFrame)


def is_dataset(data: Any) -> bool:
    """Whether this is a dataset of pyarrow."""
    return is_from("pyarrow.dataset", data, "Dataset")


def column_names(path: AnyPath) -> list[str]:
    """The columns of a file that "." in a formula stands for, including the response."""
    if kind(path) == "CSV":
        from masgrad.data.tables.text.csv import csv_names

        return csv_names(path)
    if kind(path) == "Arrow":
        from masgrad.data.tables.ipc import ipc_names

        return ipc_names(path)
    from masgrad.data.tables.parquet import parquet_names

    return parquet_names(path)

"""Tables on disk: CSV and Parquet, as a response and numeric columns."""

from pathlib import Path

import numpy as np
import pandas as pd

from masgrad.errors import InputError, InputTypeError

READERS = {".csv": pd.read_csv, ".parquet": pd.read_parquet, ".pq": pd.read_parquet}


def read_table(path: Path | str) -> pd.DataFrame:
    """A whole file as a data frame; a missing one stays FileNotFoundError."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: a file that ends in {', '.join(READERS)} is needed")
    try:
        return reader(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as {path.suffix}: {error}") from error


def as_design(
    table: pd.DataFrame, response: str, columns: list[str] | None = None, intercept: bool = True
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """X, y and the names of X's columns: all but the response unless named, and a constant."""
    names = [c for c in table.columns if c != response] if columns is None else list(columns)
    if response in names or len(set(names)) < len(names):
        raise InputError(f"columns {names} name the response {response!r}, or a column twice")
    if not len(table):
        raise InputError("the file has no rows")
    for name in (response, *names):
        if name not in table.columns:
            raise InputError(
                f"no column {name!r}; the file has {', '.join(map(str, table.columns))}"
            )
        if not pd.api.types.is_numeric_dtype(table[name]):
            raise InputTypeError(
                f"column {name!r} is not numeric ({table[name].dtype}); leave it out, or encode it"
            )
    for name in (response, *names):
        missing = np.asarray(table[name].isna())
        if missing.any():
            raise InputError(
                f"column {name!r} has no value at row {int(missing.argmax())} ({missing.sum()} "
                "rows in all); drop or impute those rows first"
            )
    constant = [name for name in names if np.ptp(table[name].to_numpy(np.float64)) == 0]
    if intercept and constant:
        raise InputError(
            f"column {constant[0]!r} is constant, as the intercept is; leave it out, or use "
            "--no-intercept"
        )
    if not names and not intercept:
        raise InputError("there is no column besides the response")
    X = table[names].to_numpy(np.float64)
    if intercept:
        X, names = np.column_stack([np.ones(len(X)), X]), ["Intercept", *names]
    return X, table[response].to_numpy(np.float64), names

"""The data of the panels' benchmark: workers in firms, and keys of clusters.

Everything is drawn from the seed that is given. y = x'b + a[worker] + f[firm] + e, and the columns
depend on the worker. The designs differ in which firms a worker meets:

    easy    any firm, at random
    hard    firms of about the worker's own rank: both are sorted by their effects
    chains  one firm; a worker in twenty moves once, to the next firm
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

WORKERS, FIRMS, COLUMNS = 20_000, 1_000, 8
REACH = 0.02
"""Standard deviation, in shares of all firms, of a firm's rank about the worker's."""

MOVERS = 0.05
"""Share of the workers of chains who move."""

NAMES = [f"x{j}" for j in range(COLUMNS)]
FORMULA = f"y ~ {' + '.join(NAMES)} | worker + firm"
FILE_PARTS = 10


def easy(rng: np.random.Generator, worker: np.ndarray) -> np.ndarray:
    return rng.integers(0, FIRMS, len(worker))


def hard(rng: np.random.Generator, worker: np.ndarray) -> np.ndarray:
    rank = worker / WORKERS + REACH * rng.standard_normal(len(worker))
    return np.clip(rank * FIRMS, 0, FIRMS - 1).astype(np.int64)


def chains(rng: np.random.Generator, worker: np.ndarray) -> np.ndarray:
    own = worker * FIRMS // WORKERS
    later = (rng.random(WORKERS) < MOVERS)[worker] & (rng.random(len(worker)) < 0.5)
    return np.minimum(own + later, FIRMS - 1)


DESIGNS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "easy": easy,
    "hard": hard,
    "chains": chains,
}


def panel(design: str, rows: int, seed: int, family: str = "gaussian") -> pd.DataFrame:
    """Workers and firms with their responses, or counts with a mean of about 1."""
    rng = np.random.default_rng([seed, list(DESIGNS).index(design)])
    worker = rng.integers(0, WORKERS, rows)
    firm = DESIGNS[design](rng, worker)
    a, f = (np.sort(rng.standard_normal(size)) for size in (WORKERS, FIRMS))
    X = rng.standard_normal((rows, COLUMNS)) + 0.5 * a[worker, None]
    b = np.linspace(0.1, 0.8, COLUMNS)
    if family == "poisson":
        t = X @ (b / 8) + (a[worker] + f[firm]) / 2
        y = rng.poisson(np.exp(t - t.max() / 4)).astype(float)
    else:
        y = X @ b + a[worker] + f[firm] + rng.standard_normal(rows)
    return pd.DataFrame(X, columns=NAMES).assign(y=y, worker=worker, firm=firm)


def write_panel(path: str, design: str, rows: int, seed: int) -> None:
    """A Parquet file of such a panel, whose parts have the same levels."""
    writer = None
    for part in range(FILE_PARTS):
        frame = panel(design, rows // FILE_PARTS, seed + 1000 * part)
        table = pa.Table.from_pandas(frame, preserve_index=False)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def independent(rows: int, columns: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """An intercept and independent columns, and the responses of a logit and a linear model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    X[:, 0] = 1.0
    t = X @ np.linspace(-0.2, 0.2, columns)
    logit = (rng.random(rows) < 1 / (1 + np.exp(-t))).astype(float)
    return X, {"logit": logit, "linear": t + rng.standard_normal(rows)}


def keys_of_clusters(kind: str, rows: int, clusters: int, seed: int) -> np.ndarray:
    """Keys of about so many clusters: whole numbers, sorted or shuffled, or text."""
    keys = np.random.default_rng([seed, clusters]).integers(0, clusters, rows)
    if kind == "sorted":
        return np.sort(keys)
    return keys if kind == "shuffled" else np.array([f"firm{key:07d}" for key in keys], object)

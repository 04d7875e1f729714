"""The data of the benchmark: six problems in memory, a Parquet file, a simulated stream.

Everything is drawn from the seed that is given. Matrices are in C order and their first column is
the intercept; the others are autoregressive: columns j and k have the correlation rho^|j - k|.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter

import masgrad as mg

LEVELS = {"g": 50, "h": 200}
PARQUET_COLUMNS = 20
PARQUET_PARTS = 10


@dataclass(frozen=True)
class Arrays:
    """A generalised linear model of arrays in memory."""

    family: str
    X: np.ndarray
    y: np.ndarray
    offset: np.ndarray | None = None

    def first(self, rows: int) -> "Arrays":
        """The same problem with the first rows alone."""
        offset = None if self.offset is None else self.offset[:rows]
        return Arrays(self.family, self.X[:rows], self.y[:rows], offset)


@dataclass(frozen=True)
class Table:
    """A logistic model of a data frame with two numeric columns and two categories."""

    frame: pd.DataFrame
    formula: str = "y ~ x1 + x2 + C(g) + C(h)"


def design(rng: np.random.Generator, rows: int, columns: int, rho: float) -> np.ndarray:
    """An intercept and autoregressive columns of variance 1."""
    innovation = np.sqrt(1 - rho**2)
    Z = rng.standard_normal((rows, columns - 1))
    Z[:, 0] /= innovation
    X = np.ones((rows, columns))
    X[:, 1:] = lfilter([innovation], [1, -rho], Z, axis=1)
    return X


def bernoulli(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return (rng.random(len(t)) < 1 / (1 + np.exp(-t))).astype(float)


def logistic(rng: np.random.Generator, rows: int, columns: int, signal: float) -> Arrays:
    """Coefficients are uniform on +-0.3 times the signal."""
    X = design(rng, rows, columns, 0.9)
    theta = signal * rng.uniform(-0.3, 0.3, columns)
    return Arrays("binomial", X, bernoulli(rng, X @ theta))


def poisson(rng: np.random.Generator, rows: int) -> Arrays:
    """Counts with a mean of about 1 and exposures between 0.5 and 2."""
    X = design(rng, rows, 20, 0.5)
    offset = np.log(rng.uniform(0.5, 2, rows))
    t = offset + X @ rng.uniform(-0.2, 0.2, 20)
    return Arrays("poisson", X, rng.poisson(np.exp(t)).astype(float), offset)


def gamma(rng: np.random.Generator, rows: int) -> Arrays:
    """Responses of shape 2 with a logarithmic link."""
    X = design(rng, rows, 20, 0.5)
    mean = np.exp(X @ rng.uniform(-0.2, 0.2, 20))
    return Arrays("gamma", X, rng.gamma(2.0, mean / 2))


def linear(rng: np.random.Generator, rows: int, columns: int) -> Arrays:
    """Errors whose standard deviation, 0.5 + |x_1|, differs between rows."""
    X = design(rng, rows, columns, 0.9)
    errors = (0.5 + np.abs(X[:, 1])) * rng.standard_normal(rows)
    return Arrays("gaussian", X, X @ rng.uniform(-0.3, 0.3, columns) + errors)


def categories(rng: np.random.Generator, rows: int) -> Table:
    """Frequencies of levels follow Zipf's law: the rarest of 200 has one row in 1,200."""
    X = rng.standard_normal((rows, 2))
    t = X @ [0.3, -0.2]
    frame = pd.DataFrame({"x1": X[:, 0], "x2": X[:, 1]})
    for name, count in LEVELS.items():
        frequencies = rng.permutation(1 / np.arange(1, count + 1))
        codes = rng.choice(count, rows, p=frequencies / frequencies.sum())
        t += rng.uniform(-0.5, 0.5, count)[codes]
        labels = [f"{name}{level:03d}" for level in range(count)]
        frame[name] = pd.Categorical.from_codes(codes, labels)
    return Table(frame.assign(y=bernoulli(rng, t)))


@dataclass(frozen=True)
class Problem:
    title: str
    draw: Callable[[np.random.Generator, int], Arrays | Table]


PROBLEMS = {
    "weak": Problem("logistic, weak signal, p = 50", lambda rng, N: logistic(rng, N, 50, 0.3)),
    "strong": Problem("logistic, strong signal, p = 50", lambda rng, N: logistic(rng, N, 50, 1.0)),
    "poisson": Problem("Poisson with offset, p = 20", poisson),
    "gamma": Problem("Gamma, logarithmic link, p = 20", gamma),
    "linear": Problem("linear, p = 200", lambda rng, N: linear(rng, N, 200)),
    "categories": Problem("logistic, categories of 50 and 200 levels", categories),
}


def draw(name: str, rows: int, seed: int) -> Arrays | Table:
    """One of the six problems; its random numbers depend on the seed and the name alone."""
    rng = np.random.default_rng([seed, list(PROBLEMS).index(name)])
    return PROBLEMS[name].draw(rng, rows)


def numeric_frame(X: np.ndarray, y: np.ndarray) -> tuple[pd.DataFrame, str]:
    """A data frame of the columns but the intercept, and the formula that restores the model."""
    names = [f"x{j}" for j in range(1, X.shape[1])]
    return pd.DataFrame(X[:, 1:], columns=names).assign(y=y), "y ~ " + " + ".join(names)


def parquet_formula() -> str:
    return "y ~ " + " + ".join(f"x{j}" for j in range(1, PARQUET_COLUMNS + 1))


def write_parquet(path: str, rows: int, seed: int) -> None:
    """A logistic problem of independent columns, written in parts."""
    rng = np.random.default_rng(seed)
    theta = np.linspace(0, 0.3, PARQUET_COLUMNS)
    names = [*(f"x{j}" for j in range(1, PARQUET_COLUMNS + 1)), "y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(PARQUET_PARTS):
            X = rng.standard_normal((rows // PARQUET_PARTS, PARQUET_COLUMNS))
            y = bernoulli(rng, 0.2 + X @ theta)
            writer.write_table(pa.table([*X.T, y], schema=schema))


def simulated_stream(rows: int, seed: int) -> mg.Stream:
    """A logistic problem of 5 columns whose rows are drawn as they are read."""
    theta = jnp.array([0.5, -0.5, 0.2, 0.0, 0.1])

    def sample(key, n):
        draw, flip = jax.random.split(key)
        x = jax.random.normal(draw, (n, 5))
        return x, (jax.random.uniform(flip, (n,)) < jax.nn.sigmoid(x @ theta)) * 1.0

    return mg.Simulator(sample).stream(rows, seed=seed)

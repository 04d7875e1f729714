"""What may be done to the data without a change of the fit, and what changes it in a known way.

A change maps rows to rows for which theta = A theta' + b, so that cov = A cov' A'. Up to 32,768
rows fits are iterated to rounding and must agree to a millionth of a standard error; beyond that
they must agree to within the remainders that both state.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masgrad as mg

PAIRS = [
    ("gaussian", "identity"), ("gaussian", "log"), ("binomial", "logit"), ("binomial", "probit"),
    ("binomial", "cloglog"), ("poisson", "log"), ("poisson", "identity"), ("poisson", "sqrt"),
    ("gamma", "log"), ("gamma", "inverse"), ("inverse_gaussian", "log"), ("tweedie", "log"),
    ("negative_binomial", "log"),
]  # fmt: skip
SYMMETRIC = [("binomial", "logit"), ("binomial", "probit")]

ROUNDING = 1e-6
"""Largest difference of two fits to rounding, in standard errors, and relative of errors."""

MANY = 40_000
"""Rows of the block path."""


@dataclass(frozen=True)
class Rows:
    """Rows of a regression with an intercept in column 0, and how they are to be fitted."""

    pair: tuple[str, str]
    X: np.ndarray
    y: np.ndarray
    w: np.ndarray | None = None
    offset: np.ndarray | None = None
    container: str = "arrays"
    options: dict[str, Any] = field(default_factory=dict)

    def take(self, index: np.ndarray) -> "Rows":
        w, offset = (None if v is None else v[index] for v in (self.w, self.offset))
        return replace(self, X=self.X[index], y=self.y[index], w=w, offset=offset)


def rows_of(pair: tuple[str, str], n: int, columns: int, seed: int) -> Rows:
    """Rows with means inside the link's domain: normal columns, and a dummy last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [np.ones(n), np.clip(rng.normal(size=(n, columns)), -2.5, 2.5), rng.random(n) < 0.3]
    )
    family, link = pair
    t = 1.5 + X[:, 1:] @ rng.uniform(-0.35, 0.35, columns + 1) / columns**0.5
    t = t - 1.5 if family == "binomial" else t
    mean = np.asarray(mg.GLM(family, link).family.mean(t))
    y = {
        "gaussian": lambda: mean + 0.5 * rng.normal(size=n),
        "binomial": lambda: (rng.random(n) < mean).astype(float),
        "gamma": lambda: rng.gamma(2.0, mean / 2),
        "inverse_gaussian": lambda: rng.wald(mean, 8.0),
    }.get(family, lambda: rng.poisson(mean).astype(float))()
    return Rows(pair, X, y)


# --- fits out of each container


def fit(rows: Rows) -> mg.Result:
    """The fit, with columns in the order of X."""
    model = mg.GLM(*rows.pair)
    if rows.container == "arrays":
        beside = {"weights": rows.w, "offset": rows.offset}
        return mg.fit(model, (rows.X, rows.y), **beside, **rows.options)
    if rows.container == "stream":
        return mg.fit(model, mg.Stream(lambda: blocks(rows)), **rows.options)
    if rows.container == "frame":
        return by_formula(rows, frame_of(rows))
    with tempfile.TemporaryDirectory() as folder:
        return by_formula(rows, files_of(rows, Path(folder)))


def blocks(rows: Rows, size: int = 333):
    for start in range(0, len(rows.y), size):
        part = rows.take(np.arange(start, min(start + size, len(rows.y))))
        yield part.X, part.y, part.w, part.offset


def frame_of(rows: Rows) -> pd.DataFrame:
    frame = pd.DataFrame(rows.X[:, 1:], columns=[f"x{j}" for j in range(1, rows.X.shape[1])])
    beside = {"y": rows.y, "w": rows.w, "o": rows.offset}
    return frame.assign(**{k: v for k, v in beside.items() if v is not None})


def files_of(rows: Rows, folder: Path) -> Any:
    table = pa.Table.from_pandas(frame_of(rows))
    if rows.container == "csv":
        table.to_pandas().to_csv(folder / "rows.csv", index=False)
        return folder / "rows.csv"
    size = -(-table.num_rows // 3)
    for k in range(3):
        part = table.slice(k * size, size)
        pa.parquet.write_table(part, folder / f"{k}.parquet", row_group_size=size // 2)
    return [folder / f"{k}.parquet" for k in range(3)]


def by_formula(rows: Rows, data: Any) -> mg.Result:
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(1, rows.X.shape[1]))
    beside = {"weights": rows.w if rows.w is None else "w"}
    beside["offset"] = rows.offset if rows.offset is None else "o"
    return mg.glm(formula, data, *rows.pair, **beside, **rows.options)


# --- changes: rows, and A and b of theta = A theta' + b


Change = Callable[[Rows, np.random.Generator], tuple[Rows, Any, Any]]


def units(rows, rng):
    scale = np.concatenate([[1.0], 10 ** rng.uniform(-6, 6, rows.X.shape[1] - 1)])
    return replace(rows, X=rows.X * scale), np.diag(scale), 0.0


def shift(rows, rng):
    by = rng.uniform(-300, 300, rows.X.shape[1] - 1)
    A = np.eye(rows.X.shape[1])
    A[0, 1:] = by
    return replace(rows, X=rows.X + np.concatenate([[0.0], by])), A, 0.0


def order_of_rows(rows, rng):
    return rows.take(rng.permutation(len(rows.y))), 1.0, 0.0


def sorted_rows(rows, rng):
    return rows.take(np.argsort(rows.X[:, 1])), 1.0, 0.0


def order_of_columns(rows, rng):
    p = rows.X.shape[1]
    order = rng.permutation(p)
    return replace(rows, X=rows.X[:, order]), np.eye(p)[:, order], 0.0


def blocks_of(rows, rng):
    options = {"block_size": int(rng.integers(50, 3000)), "threads": int(rng.integers(1, 3))}
    return replace(rows, options=options), 1.0, 0.0


def moved_by_an_offset(rows, rng):
    by, p = rng.uniform(0.1, 0.6), rows.X.shape[1]
    offset = np.full(len(rows.y), by) if rows.offset is None else rows.offset + by
    return replace(rows, offset=offset), 1.0, by * np.eye(p)[0]


def flipped(rows, rng):
    return replace(rows, y=1 - rows.y), -1.0, 0.0


CHANGES: list[Change] = [
    units, shift, order_of_rows, order_of_columns, blocks_of, moved_by_an_offset,
]  # fmt: skip


def counted_and_repeated(rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows of weight 0 to 2, and the same rows left out, once and twice."""
    often = rng.integers(0, 3, len(rows.y))
    many = np.repeat(np.arange(len(rows.y)), often)
    return replace(rows, w=often.astype(float)), rows.take(many)


def same(one: mg.Result, other: mg.Result, A: Any, b: Any, most: float, rtol: float) -> None:
    """theta = A theta' + b and cov = A cov' A', in standard errors."""
    A = A * np.eye(len(one.theta)) if np.ndim(A) == 0 else A
    se = np.sqrt(np.diag(one.cov))
    assert np.abs((A @ other.theta + b - one.theta) / se).max() <= most
    np.testing.assert_allclose(np.sqrt(np.diag(A @ other.cov @ A.T)), se, rtol=rtol)


def agree(one: Rows, other: Rows, A: Any = 1.0, b: Any = 0.0) -> None:
    a, c = fit(one), fit(other)
    if len(one.y) < MANY:
        return same(a, c, A, b, ROUNDING, ROUNDING)
    stated = a.fit_info.remainder + c.fit_info.remainder
    return same(a, c, A, b, np.sqrt(len(a.theta)) * stated + ROUNDING, 0.01)


PROBLEMS = st.builds(
    rows_of, st.sampled_from(PAIRS), st.integers(200, 2000), st.integers(1, 3), st.integers(0, 99)
)
SEEDS = st.integers(0, 99)
FEW = settings(derandomize=True, max_examples=10, deadline=None)


# --- properties of small fits


@pytest.mark.parametrize("change", CHANGES)
@FEW
@given(PROBLEMS, SEEDS)
def test_a_change_of_the_rows_changes_the_fit_accordingly(change, rows, seed):
    agree(rows, *change(rows, np.random.default_rng(seed)))


@FEW
@given(PROBLEMS, SEEDS)
def test_weight_two_is_a_row_twice_and_zero_none(rows, seed):
    agree(*counted_and_repeated(rows, np.random.default_rng(seed)))


@FEW
@given(PROBLEMS, SEEDS)
def test_weight_zero_is_a_dropped_row(rows, seed):
    keep = np.random.default_rng(seed).random(len(rows.y)) < 0.7
    agree(replace(rows, w=keep.astype(float)), rows.take(np.flatnonzero(keep)))


@FEW
@given(
    PROBLEMS, st.sampled_from(["frame", "parquet", "csv", "stream"]), st.booleans(), st.booleans()
)
def test_containers_hold_the_same_rows(rows, container, weighted, offset):
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, len(rows.y)).astype(float) if weighted else None
    o = rng.uniform(0, 0.3, len(rows.y)) if offset else None
    rows = replace(rows, w=w, offset=o)
    agree(rows, replace(rows, container=container))


@FEW
@given(st.sampled_from(SYMMETRIC), st.integers(200, 2000), st.integers(1, 3), st.integers(0, 99))
def test_other_class_other_sign(pair, n, columns, seed):
    rows = rows_of(pair, n, columns, seed)
    agree(rows, *flipped(rows, None))


# --- the same through the block path


@pytest.mark.parametrize("pair", [("poisson", "log"), ("gamma", "inverse"), ("binomial", "probit")])
@pytest.mark.parametrize("change", [*CHANGES, sorted_rows])
def test_a_change_of_many_rows_stays_within_the_remainder(change, pair, rng):
    rows = rows_of(pair, MANY, 2, 5)
    agree(rows, *change(rows, rng))


@pytest.mark.parametrize("container", ["frame", "parquet", "csv", "stream"])
def test_containers_of_many_rows_agree(container, rng):
    rows = rows_of(("poisson", "log"), MANY, 2, 6)
    rows = replace(rows, w=rng.integers(1, 4, MANY).astype(float))
    agree(rows, replace(rows, container=container))


@pytest.mark.parametrize("pair", SYMMETRIC)
def test_other_class_other_sign_of_many_rows(pair):
    rows = rows_of(pair, MANY, 2, 7)
    agree(rows, *flipped(rows, None))


def test_weights_of_many_rows_count_them(rng):
    rows = rows_of(("gamma", "log"), 2 * MANY, 2, 8)
    agree(*counted_and_repeated(rows, rng))

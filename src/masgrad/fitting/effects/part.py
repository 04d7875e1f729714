"""Sums by level over a part of the rows.

The columns, the responses and 1 stand side by side, Z = [X - centre, z, 1], so that one sparse
product D'W Z gives all sums by level. A part costs least with some 100,000 rows (`PART_ROWS`), or
with as many rows as there are levels: its tables hold the levels that it meets, and its pairs of
levels are those of its rows.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np

from masgrad.data.designs.coded import CodedDesign
from masgrad.data.designs.group_sums import sums, sums_of_rows
from masgrad.data.designs.structured import Structured
from masgrad.fitting.effects.pairs import Pairs
from masgrad.fitting.effects.tables import EffectSums, LevelTable

PART_ROWS = 1 << 17
"""Rows of which a part is best made."""

PART_BYTES = 1 << 25
"""Size of the columns of a longer part, which very many levels ask for."""

PIECE_PRODUCTS, PIECE_ROWS = 500_000, (512, 4096)
"""Products, and the fewest and the most rows, of a piece that stays in a core's cache."""

LEVELS_BY_ROW = 0.25
"""Levels for each row of a part beyond which its table holds only those that it meets."""


def part_of(
    X: np.ndarray | Structured,
    codes: np.ndarray,
    w: np.ndarray | None = None,
    z: np.ndarray | None = None,
    *,
    score: np.ndarray | None = None,
    centre: np.ndarray | None = None,
) -> EffectSums:
    """Sums over the rows of a part.

    Args:
        X: columns, (n, p).
        codes: of the levels, (n, K), int32, counted from 0.
        w: weights, (n,); None for 1.
        z: working responses, (n,).
        score: w z, (n,), in place of z: less the gradient by row, for a Newton step.
        centre: taken from the columns, (p,); of a structured design nothing can be taken.
    """
    every = [np.ascontiguousarray(column) for column in codes.T]
    response = _Response(z, score, w)
    if isinstance(X, Structured):
        assert centre is None
        products, tables = _structured_sums(X, every, w, response)
    else:
        products, tables = _dense_sums(X, every, w, response, centre)
    pairs = (Pairs(every[k], every[m], w) for k, m in combinations(range(len(every)), 2))
    return EffectSums(products, tables, tuple(pairs))


class _Response(NamedTuple):
    """z, or w z with w; neither for 0."""

    z: np.ndarray | None
    score: np.ndarray | None
    w: np.ndarray | None

    @property
    def column(self) -> np.ndarray | float:
        return 0.0 if self.z is None else self.z

    def fill_products(self, products: np.ndarray, beside: np.ndarray) -> None:
        """Write what w z has with the columns [X, 1], `beside`, and with z."""
        s, w = self.score, self.w
        if s is None:
            return
        products[-2, :-2] = products[:-2, -2] = beside[:-1]
        products[-2, -1] = products[-1, -2] = beside[-1]
        z = s if w is None else np.divide(s, w, out=np.zeros(len(s)), where=w > 0)
        products[-2, -2] = np.dot(s, z)

    def fill_levels(self, table: np.ndarray, codes: np.ndarray) -> None:
        """Write the sums of w z by level."""
        if self.score is not None:
            table[:, -2] = np.bincount(codes, self.score, len(table))


def _dense_sums(
    X: np.ndarray,
    every: list[np.ndarray],
    w: np.ndarray | None,
    response: _Response,
    centre: np.ndarray | None,
) -> tuple[np.ndarray, tuple[LevelTable, ...]]:
    from scipy import sparse  # heavy, and for fixed effects alone

    Z, products = _beside(X, w, response.column, centre)
    once = np.ones(len(Z)) if w is None else w
    starts = np.arange(len(Z) + 1, dtype=np.int32)
    if response.score is not None:
        response.fill_products(products, np.delete(np.dot(response.score, Z), -2))
    tables = []
    for codes in every:
        levels, place, size = met_levels(codes)
        by_level = sparse.csc_array((once, place, starts), shape=(size, len(Z))) @ Z
        response.fill_levels(by_level, place)
        tables.append(LevelTable(levels, np.bincount(place, minlength=size), by_level))
    return products, tuple(tables)


def _beside(
    X: np.ndarray,
    w: np.ndarray | None,
    z: np.ndarray | float,
    centre: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Z = [X - centre, z, 1] and Z'WZ, in pieces that stay in a core's cache."""
    n, q = X.shape[0], X.shape[1] + 2
    size = int(np.clip(PIECE_PRODUCTS // q**2, *PIECE_ROWS))
    Z, products, weighted = np.empty((n, q)), np.zeros((q, q)), np.empty((size, q))
    origin, every = 0.0 if centre is None else centre, np.broadcast_to(z, n)
    for start in range(0, n, size):
        piece = slice(start, start + size)
        part = Z[piece]
        np.subtract(X[piece], origin, out=part[:, :-2])
        part[:, -2], part[:, -1] = every[piece], 1.0
        by = part if w is None else weighted[: len(part)]
        if w is not None:
            np.multiply(part, w[piece, None], out=by)
        products += np.dot(by.T, part)
    return Z, products


def met_levels(codes: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, int]:
    """Levels that these rows meet (None for all), their codes among them, and their number."""
    size = int(codes.max(initial=-1)) + 1
    if size <= LEVELS_BY_ROW * len(codes):
        return None, codes, size
    seen = np.zeros(size, bool)
    seen[codes] = True
    levels = np.flatnonzero(seen)
    place = np.zeros(size, np.int32)
    place[levels] = np.arange(len(levels), dtype=np.int32)
    return levels, place.take(codes, mode="clip"), len(levels)  # take frees the GIL


def _structured_sums(
    X: Structured, every: list[np.ndarray], w: np.ndarray | None, response: _Response
) -> tuple[np.ndarray, tuple[LevelTable, ...]]:
    once = np.ones(len(X)) if w is None else w
    Z = np.stack([np.broadcast_to(response.column, len(X)), np.ones(len(X))], 1)
    beside = np.stack([X.left(once * Z[:, 0]), X.left(once)], 1)
    products = np.block([[X.gram(once), beside], [beside.T, np.dot((once[:, None] * Z).T, Z)]])
    if response.score is not None:
        response.fill_products(products, np.append(X.left(response.score), response.score.sum()))
    tables = []
    for codes in every:
        levels, place, size = met_levels(codes)
        own = [sums(place, size, once * column) for column in Z.T]
        by_level = np.column_stack([_sums_by(X, place, size, once), *own])
        response.fill_levels(by_level, place)
        tables.append(LevelTable(levels, np.bincount(place, minlength=size), by_level))
    return products, tuple(tables)


def _sums_by(X: Structured, codes: np.ndarray, size: int, w: np.ndarray) -> np.ndarray:
    """D'WX, (size, p)."""
    if isinstance(X, CodedDesign):
        return X.sums_by(codes, size, w)
    return sums_of_rows(codes, size, w, X.dense())

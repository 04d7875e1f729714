"""Sums by cluster over one block: scores D'diag(l') X, and Hessians of the rows of each cluster.

Scores cost an addition for each row and column. Hessians are products of the rows of one cluster
if a block holds some of each, and sums of the products of all pairs of columns if not.
"""

from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import count_rows, is_finite
from masgrad.data.designs.group_sums import sums, sums_of_rows
from masgrad.data.designs.structured import Structured
from masgrad.data.regression import observations, weight_of
from masgrad.fitting.objective.clusters.sums import packed
from masgrad.fitting.objective.objective import BadBlock, Objective
from masgrad.models.glm import add_offset
from masgrad.types import Rows

DENSE_CODES = 4
"""Codes for each row of a block up to which sums have a place for every code."""

ROWS_EACH = 24
"""Rows of a cluster in a block that make a matrix product worth its call."""

CALL_PRODUCTS = 200
"""Products of columns, summed by cluster, that take as long as the call of a matrix product."""

RADIX_CODES = 1 << 16
"""Codes up to which rows are sorted by 16 bits, in a twentieth of the time."""

ROW_PRODUCT_BYTES = 1 << 25
"""Size of the products of columns of rows that are formed at a time."""

PRODUCT_BYTES = 1 << 20
"""Size of the matrices that are formed at a time: they stay in a core's cache."""


class BlockSums(NamedTuple):
    """Sums over the rows of a block, of the clusters with these codes.

    Args:
        codes: of m clusters; a slice if they are those from 0 on.
        scores: (m, p).
        weights: (m,).
        rows: (m,).
        hessians: upper triangles, (m, p(p+1)/2), or None.
    """

    codes: np.ndarray | slice
    scores: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    hessians: np.ndarray | None


class RowTerms(NamedTuple):
    """What each row of a block adds, before sums are transformed to phi.

    Of a linear predictor X is the design, slopes are l' and curvatures l'' of each row, times its
    weight; of other losses X are the gradients, and curvatures are Hessians (n, p, p).
    """

    X: np.ndarray | Structured
    slope: np.ndarray
    curvature: np.ndarray | None
    weight: np.ndarray | None


def row_terms(objective: Objective, at: np.ndarray, rows: Rows, hessians: bool) -> RowTerms:
    """The terms of the rows of a block; `at` is theta or phi, as `Objective.argument` says."""
    a = weight_of(rows)
    each = np.ones(count_rows(rows)) if a is None else a
    if objective.family is None:
        model, bare = objective.model, observations(rows)
        G = model.row_gradients(at, bare)
        H = each[:, None, None] * model.row_hessians(at, bare) if hessians else None
        return _finite(RowTerms(G, each, H, a), rows)
    inner = objective.transformed(rows)
    t = add_offset(inner[0] @ at, rows)
    with np.errstate(all="ignore"):
        r, w = objective.family.slope_and_curvature(t, rows[1])
    return _finite(RowTerms(inner[0], each * r, each * w if hessians else None, a), rows)


def _finite(terms: RowTerms, rows: Rows) -> RowTerms:
    """The terms; `BadBlock` if a slope or a gradient is not finite."""
    if not (is_finite(terms.slope) and is_finite(terms.X)):
        raise BadBlock(rows)
    return terms


def block_sums(terms: RowTerms, codes: np.ndarray, size: int) -> BlockSums:
    """Sums of the terms by cluster; `size` is the number of codes that are known."""
    n = len(codes)
    chosen: np.ndarray | slice = slice(0, size)
    if size > DENSE_CODES * n:
        chosen, codes = np.unique(codes, return_inverse=True)
        size = len(chosen)
    rows = np.bincount(codes, minlength=size)
    return BlockSums(
        chosen,
        _scores(terms, codes, size),
        rows.astype(np.float64) if terms.weight is None else sums(codes, size, terms.weight),
        rows,
        None if terms.curvature is None else _hessians(terms, codes, size),
    )


def _scores(terms: RowTerms, codes: np.ndarray, size: int) -> np.ndarray:
    """D'diag(slope) X, (size, p)."""
    X, slope = terms.X, terms.slope
    by_structure = isinstance(X, Structured)
    return X.sums_by(codes, size, slope) if by_structure else sums_of_rows(codes, size, slope, X)


def _hessians(terms: RowTerms, codes: np.ndarray, size: int) -> np.ndarray:
    """Sums of the rows' Hessians, upper triangles (size, p(p+1)/2)."""
    X, w = terms.X, terms.curvature
    assert w is not None
    if w.ndim == 3:
        return sums_of_rows(codes, size, np.ones(len(w)), packed(w))
    X = np.asarray(X)
    i, j = np.triu_indices(X.shape[1])
    if len(codes) * len(i) >= CALL_PRODUCTS * size:
        return _products_of_clusters(X, w, codes, size)
    total, some = np.zeros((size, len(i))), max(1, ROW_PRODUCT_BYTES // (8 * len(i)))
    for start in range(0, len(codes), some):
        part = slice(start, start + some)
        total += sums_of_rows(codes[part], size, w[part], X[part][:, i] * X[part][:, j])
    return total


def _products_of_clusters(X: np.ndarray, w: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
    """X_g' diag(w) X_g for each cluster, its rows brought together."""
    short = codes.astype(np.uint16) if size <= RADIX_CODES else codes
    order = np.argsort(short, kind="stable")
    Z, v = X.take(order, axis=0), w.take(order)[:, None]
    if v.min() >= 0:  # a product with itself takes half the time
        Z *= np.sqrt(v)
        left = Z
    else:
        left, Z = Z, v * Z
    ends = np.cumsum(np.bincount(codes, minlength=size)).tolist()
    p, start = X.shape[1], 0
    total, some = np.zeros((size, p * (p + 1) // 2)), max(1, PRODUCT_BYTES // (8 * p * p))
    for first in range(0, size, some):
        each = np.zeros((min(some, size - first), p, p))
        for k, end in enumerate(ends[first : first + some]):
            if end > start:
                np.dot(left[start:end].T, Z[start:end], out=each[k])
            start = end
        total[first : first + some] = packed(each)
    return total

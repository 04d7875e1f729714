"""Symmetric matrices of sums over rows, kept as upper triangles while they are added."""

import numpy as np

from masgrad.types import Array, Matrices


def row_products(XT: Array) -> Array:
    """x_i x_j for i <= j of every row, (p(p+1)/2, rows), from X' (p, rows)."""
    i, j = np.triu_indices(len(XT))
    return XT[i] * XT[j]


def from_triangle(flat: Array, p: int) -> Matrices:
    """(p(p+1)/2, ...) upper triangles to symmetric matrices (p, p, ...)."""
    place = np.zeros((p, p), int)
    place[np.triu_indices(p)] = np.arange(len(flat))
    return flat[np.maximum(place, place.T)]

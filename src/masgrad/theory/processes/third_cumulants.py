"""The squared norm of the tensor of third cumulants, |kappa_3|^2, from standardised rows u_i.

It is E (u . u')^3 for two independent rows, and the mean of (u_i . u_j)^3 over i != j estimates it
without bias if b and V are known. For rows standardised by their own mean and covariance that mean
has a bias also where kappa_3 = 0, -(1/m) mean(6 |u|^4 - 3 (p + 2) |u|^2), which is -3 p (p + 2) / m
for Gaussian rows (Mardia's statistic without its diagonal). It is removed; what remains is of order
|kappa_3|^2 / m (exponential rows: -3 % at m = 2000).

Sums over all pairs are those of the tensor, sum_ij (u_i . u_j)^3 = |sum_i u_i u_i u_i|^2. Whichever
takes less work is computed: half of p^3 numbers, or the matrix of all pairs in blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

BLOCK_NUMBERS, FEWEST_ROWS = 1 << 17, 256
"""Numbers in a block of products, which stay in cache, and the fewest rows of one: thinner matrix
products are slow."""


class Contraction(NamedTuple):
    """The empirical tensor kappa = mean of u u u, contracted.

    Args:
        cubes: kappa applied to (u_i, u_i, u_i), the mean over all j of (u_i . u_j)^3: (m,).
        square: the matrix of sums over c, d of kappa_acd kappa_bcd, (p, p).
    """

    cubes: np.ndarray
    square: np.ndarray


class SquaredCumulant(NamedTuple):
    """An estimate of |kappa_3|^2, and the influence of each row on it, (m,)."""

    value: float
    influence: np.ndarray


def squared_cumulant(U: np.ndarray, own_moments: bool) -> SquaredCumulant:
    """Estimate |kappa_3|^2 from rows u_i of mean 0 and covariance I, (m, p).

    `own_moments` says that they were standardised by their own mean and covariance.
    """
    m, p = U.shape
    found = by_tensor(U) if p * p < m else by_pairs(U)
    squares = (U**2).sum(1)
    value = (m * found.cubes.mean() - (squares**3).mean()) / (m - 1)
    influence = found.cubes
    if own_moments:
        value += (6 * squares**2 - 3 * (p + 2) * squares).mean() / m
        moved = U @ (3 * squares @ U / m) + 1.5 * ((U @ found.square) * U).sum(1)
        influence = influence - moved  # through the mean, and through the covariance
    return SquaredCumulant(float(value), 2 * (influence - influence.mean()))


def by_tensor(U: np.ndarray) -> Contraction:
    """From the tensor's entries with i <= j, of which those with i < j count twice: O(m p^3)."""
    m, p = U.shape
    low, high = np.triu_indices(p)
    twice = np.where(low == high, 1.0, 2.0)

    def products() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        columns = (np.ascontiguousarray(block.T) for block in _blocks(U, len(low)))
        return ((a, a[low] * a[high]) for a in columns)

    kappa = np.zeros((len(low), p))
    for a, ij in products():
        kappa += ij @ a.T / m
    weighted = kappa.T * twice
    cubes = [((weighted @ ij) * a).sum(0) for a, ij in products()]
    return Contraction(np.concatenate(cubes), weighted @ kappa)


def by_pairs(U: np.ndarray) -> Contraction:
    """From all pairs of rows, in O(m^2 p), a block of them at a time."""
    m, p = U.shape
    cubes, square = [], np.zeros((p, p))
    for block in _blocks(U, m):
        products = block @ U.T
        squares = products**2
        cubes.append(np.einsum("ij,ij->i", squares, products) / m)
        square += block.T @ (squares @ U) / m**2
    return Contraction(np.concatenate(cubes), square)


def _blocks(U: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Rows in blocks, for products of `width` numbers a row."""
    step = max(FEWEST_ROWS, BLOCK_NUMBERS // width)
    return (U[start : start + step] for start in range(0, len(U), step))

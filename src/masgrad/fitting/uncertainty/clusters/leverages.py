"""Leverages of clusters: their shares in the information of all rows.

With H = sum of H_g = C C' over the directions that the data determine, and L = C^-T, so that
H^-1 = L L', cluster g has the symmetric p x p matrix

    E_g = L' H_g L,    eigenvalues between 0 and 1 for convex losses,    sum over g = I.

For least squares its eigenvalues other than 0 are those of the block X_g H^-1 X_g' of the hat
matrix, with rows times the root of their weight. An eigenvalue of 1 is a direction that only the
rows of g determine: leaving them out loses it. Functions of E_g serve the estimate without g:

    (H - H_g)^-1 = L (I - E_g)^-1 L'            (I - H_g H^-1)^-1/2 = C (I - E_g)^-1/2 L'

Powers are those of Moore and Penrose: directions of eigenvalue 1 are left out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.sums import ClusterSums

LOST = 1e-8
"""1 - eigenvalue of E_g up to which leaving the cluster out loses the direction."""


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues and eigenvectors of E_g, for some clusters.

    Args:
        chosen: places of the clusters.
        values: (g, r).
        vectors: (g, r, r), in columns.
    """

    chosen: slice
    values: np.ndarray
    vectors: np.ndarray

    @property
    def lost(self) -> np.ndarray:
        """Mask of the directions that only the cluster determines, (g, r)."""
        return 1.0 - self.values <= LOST

    def left(self, power: float) -> np.ndarray:
        """Eigenvalues of (I - E_g)^power, (g, r)."""
        left = np.where(self.lost, 1.0, 1.0 - self.values)
        return np.where(self.lost, 0.0, left**power)


@dataclass(frozen=True)
class Leverages:
    """E_g of every cluster of a grouping.

    Args:
        sums: scores and Hessians of the clusters.
        root: L with H^-1 = L L', (p, r).
        factor: C with H = C C', (p, r).
    """

    sums: ClusterSums
    root: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, kept: Clustered) -> "Leverages | None":
        """Those of the only grouping; None if Hessians were not kept, or H is not definite."""
        sums = kept.alone
        if sums is None:
            return None
        H = kept.basis.T @ sums.information @ kept.basis
        try:
            C = cholesky(H, lower=True)
        except np.linalg.LinAlgError:
            return None
        L = solve_triangular(C, np.eye(len(C)), lower=True, trans=1)
        return cls(sums, kept.basis @ L, kept.basis @ C)

    @property
    def scores(self) -> np.ndarray:
        """L's_g, (G, r)."""
        return self.sums.scores @ self.root

    def each(self) -> Iterator[Spectra]:
        """The spectra of some clusters at a time."""
        for chosen, H in self.sums.each_hessian():
            values, vectors = np.linalg.eigh(self.root.T @ H @ self.root)
            yield Spectra(chosen, values, vectors)

    def shares(self, A: np.ndarray) -> np.ndarray:
        """Shares of the clusters in the information about combinations A phi, (G, k), A (k, p).

        c'H^-1 H_g H^-1 c over c'H^-1 c: the partial leverages, whose sum over g is 1.
        """
        towards = self.root @ (self.root.T @ A.T)
        total = np.einsum("pk,pk->k", A.T, towards)
        found = np.empty((self.sums.count, len(A)))
        for chosen, H in self.sums.each_hessian():
            found[chosen] = np.einsum("gpk,pk->gk", H @ towards, towards)
        return found / np.where(total > 0, total, np.inf)

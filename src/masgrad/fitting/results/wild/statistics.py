"""Statistics of the wild cluster bootstrap, from scores and Hessians of clusters.

The estimate under the null A phi = a is a Newton step away, with e = A phi_hat - a, B = H^-1:

    phi~ - phi_hat = -K e,    K = B A'(A B A')^-1,        s~_g = s_g - H_g K e

A draw v has the scores v_g s~_g at phi~, the estimate phi* = phi~ - B sum v_g s~_g, and at phi* the
scores s*_g = v_g s~_g + H_g (phi* - phi~). Of these only combinations are needed,

    A (phi* - phi~) = -sum v_g a_g,    A B s*_g = v_g a_g - W_g sum v_h s~_h,
    a_g = A B s~_g,    W_g = A B H_g B,

which are linear in v and in e; each draw is divided by its own CR1 covariance, the sum over g of
A B s*_g s*_g'B A' (a factor is common to all draws and the data, and matters for nothing). That is
exact for least squares (MacKinnon, Nielsen & Webb 2023, "fast algorithm"), and the score bootstrap
of Kline & Santos (2012) for other losses. The draw of all ones has the statistic of the data.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.results.wild.draws import Draws
from masgrad.fitting.uncertainty.clusters.leverages import Leverages

NO_SCORE = 1e-20
"""Squared scores along a combination, relative to all, below which they are rounding."""

TIE = 1e-9
"""Relative distance of statistics up to which they are one number."""


@dataclass(frozen=True)
class Linear:
    """What statistics of k combinations are made of.

    Args:
        scores: s_g at the estimate, (G, p), with the sum 0.
        moved: H_g K, (G, p, k).
        towards: B A', (p, k).
        weights: W_g, (G, k, p).
    """

    scores: np.ndarray
    moved: np.ndarray
    towards: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, leverages: Leverages, A: np.ndarray) -> "Linear":
        """For the combinations A phi, A (k, p)."""
        sums, root = leverages.sums, leverages.root
        towards = root @ (root.T @ A.T)
        K = towards @ np.linalg.inv(A @ towards)
        left = root @ (root.T @ sums.scores.sum(0))
        scores, G, (p, k) = sums.scores.copy(), sums.count, towards.shape
        moved, weights = np.empty((G, p, k)), np.empty((G, k, p))
        for chosen, H in sums.each_hessian():
            scores[chosen] -= H @ left
            moved[chosen] = H @ K
            weights[chosen] = np.swapaxes(H @ towards, 1, 2) @ root @ root.T
        return cls(scores, moved, towards, weights)

    @property
    def covariance(self) -> np.ndarray:
        """That of A phi_hat, without a factor, (k, k)."""
        a = self.scores @ self.towards
        return a.T @ a

    @property
    def has_variance(self) -> bool:
        """Whether the clusters' scores show a sampling error of each combination."""
        left = np.square(np.einsum("gp,pk->gk", self.scores, self.towards)).sum(0)
        size = np.square(np.linalg.norm(self.scores, axis=1)).sum()
        size = size * np.square(self.towards).sum(0)
        return bool((left > NO_SCORE * size).all()) and self._is_regular

    @property
    def _is_regular(self) -> bool:
        scale = np.sqrt(np.diag(self.covariance))
        correlation = self.covariance / np.outer(scale, scale)
        return int(np.linalg.matrix_rank(correlation, hermitian=True)) == len(scale)

    def wald(self, e: np.ndarray) -> float:
        """The Wald statistic of the data at the distance e from the null."""
        return float(e @ np.linalg.solve(self.covariance, e))

    def under(self, e: np.ndarray) -> "Null":
        """The scores at the estimate under the null."""
        scores = self.scores - self.moved @ e
        return Null(scores, scores @ self.towards, self.weights)


@dataclass(frozen=True)
class Null:
    """Scores under the null: s~_g (G, p), a_g (G, k), and W_g (G, k, p)."""

    scores: np.ndarray
    along: np.ndarray
    weights: np.ndarray

    def distances(self, v: np.ndarray) -> np.ndarray:
        """A (phi* - phi~) of the draws v (G, b), (k, b)."""
        return -self.along.T @ v

    def terms(self, v: np.ndarray) -> np.ndarray:
        """A B s*_g of the draws v (G, b), (k, G, b)."""
        total = self.scores.T @ v
        pairs = zip(self.along.T, np.swapaxes(self.weights, 0, 1), strict=True)
        return np.stack([a[:, None] * v - W @ total for a, W in pairs])


def signed_statistics(null: Null, draws: Draws) -> np.ndarray:
    """t* of one combination, without the factor, (draws,)."""
    parts = []
    for v in draws.parts():
        parts.append(_ratio(null.distances(v)[0], np.square(null.terms(v)[0]).sum(0)))
    return np.concatenate(parts)


def _ratio(distance: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Distances over the roots of variances; 0 / 0 is no distance at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(distance / np.sqrt(variance), nan=0.0, posinf=np.inf, neginf=-np.inf)


def wald_statistics(null: Null, draws: Draws) -> np.ndarray:
    """W* of several combinations, without the factor, (draws,)."""
    parts = []
    for v in draws.parts():
        d, z = null.distances(v).T, null.terms(v)
        cov = np.einsum("jgb,lgb->bjl", z, z)
        parts.append((d * (np.linalg.pinv(cov, hermitian=True) @ d[:, :, None])[:, :, 0]).sum(1))
    return np.concatenate(parts)


def share_beyond(statistics: np.ndarray, observed: float) -> float:
    """The share of draws whose statistics are as large as that of the data, ties included."""
    return float((statistics >= observed - TIE * abs(observed)).mean())

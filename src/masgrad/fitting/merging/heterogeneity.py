"""Whether shards have one theta*: a test of their scores at the merged estimate.

With g_k the score of shard k there, M_k the uncentred sum of its squared gradients (of clusters, if
rows are clustered) and H_k its Hessian, shards with one theta* have, at theta* + d,

    g_k ~ N(H_k d, M_k),      Q = min over d of sum over k (g_k - H_k d)' M_k^-1 (g_k - H_k d)

chi-squared with as many degrees of freedom as the shards have coefficients together, less those of
the merged result. It is Cochran's Q, up to terms that vanish, as scores: an estimate of each shard
is not needed, so that shards that lack or separate a level take part. With uncentred M_k the mean
of Q is its degrees of freedom however small the shards are, as far as gradients are symmetric;
variances estimated about each shard's own mean would make Q too large by about p / n_k.
"""

from collections.abc import Sequence

import numpy as np

from masgrad.fitting.merging.record import Heterogeneity
from masgrad.fitting.objective.local_model import LocalModel

SEEN = 1e-10
"""Eigenvalue of M_k, scaled to a unit diagonal, above which the shard has noise along it."""

NOTHING = 1e-12
"""Share of the largest diagonal entry of M_k up to which another is rounding: the shard's columns
have one size in its coordinates, and one that is constant there has none."""


def heterogeneity(
    parts: Sequence[LocalModel], turns: Sequence[np.ndarray], meats: Sequence[np.ndarray]
) -> Heterogeneity:
    """The test, of shards at the merged estimate in their own coordinates.

    Args:
        parts: their local models there.
        turns: T_k from united coordinates to theirs, (p_k, p).
        meats: M_k, (p_k, p_k).
    """
    scores, designs, df = [], [], 0
    for part, T, M in zip(parts, turns, meats, strict=True):
        half = _inverse_root(M)
        scores.append(half @ part.gradient)
        designs.append(half @ part.hessian @ T)
        df += len(half)
    g, D = np.concatenate(scores), np.vstack(designs)
    size = np.linalg.norm(D, axis=0)
    D = D / np.where(size > 0, size, 1.0)
    d, _, rank, _ = np.linalg.lstsq(D, g)
    ends = np.cumsum([len(s) for s in scores])[:-1]
    shares = np.array([float(r @ r) for r in np.split(g - D @ d, ends)])
    return Heterogeneity(float(shares.sum()), int(df - rank), shares)


def _inverse_root(M: np.ndarray) -> np.ndarray:
    """R with R'R the pseudo-inverse of M, a row for each direction in which the shard has noise."""
    diagonal = np.diag(M)
    axes = np.flatnonzero(diagonal > NOTHING * diagonal.max(initial=0.0))
    size = np.sqrt(diagonal[axes])
    values, Q = np.linalg.eigh(M[np.ix_(axes, axes)] / np.outer(size, size))
    seen = values > SEEN
    root = np.zeros((int(seen.sum()), len(M)))
    root[:, axes] = (Q[:, seen] / np.sqrt(values[seen])).T / size
    return root

"""Clustered covariances: the meat, its small-sample factors, and degrees of freedom.

    CR1:  H^-1 (sum over ways of +- c sum_g s_g s_g') H^-1

The ways are single groupings, with a plus, and combinations of them, by inclusion and exclusion. c
is, with N observations, K parameters and G clusters,

    fixest       (N - 1) / (N - K) x G / (G - 1), G the smallest number of clusters of a grouping
    statsmodels  the same with the G of each way
    stata        as fixest for least squares; G / (G - 1) for other models
    none         1

t has G - 1 degrees of freedom, G the smallest number of clusters of a grouping; CR2 has its own
(`degrees.py`).
"""

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.objective.clusters.clustered import Clustered
from masgrad.fitting.objective.clusters.sums import ClusterWay


def factor_of(kept: Clustered, way: ClusterWay, least_squares: bool) -> float:
    """c, for one way."""
    N, K, convention = kept.nobs, kept.parameters, kept.small_sample
    if convention == "none":
        return 1.0
    G = way.sums.count if convention == "statsmodels" else kept.fewest
    return G / (G - 1) * (1.0 if convention == "stata" and not least_squares else _rows(N, K))


def _rows(N: float, K: int) -> float:
    """(N - 1) / (N - K)."""
    if N <= K:
        raise InputError(
            f"{N:g} rows for {K} parameters leave no degrees of freedom for clustered errors; give "
            "small_sample='none', or more rows"
        )
    return (N - 1) / (N - K)


def meat_of(kept: Clustered, least_squares: bool) -> np.ndarray:
    """The sum over ways of the clusters' squared scores, (p, p)."""
    return sum(
        (way.sign * factor_of(kept, way, least_squares) * way.sums.meat for way in kept.ways),
        np.zeros_like(kept.bread),
    )


def check_clusters(kept: Clustered) -> None:
    """Refuse a single cluster."""
    for way in kept.single:
        if way.sums.count < 2:
            raise InputError(
                f"{way.names[0]} has one cluster, {way.keys[0]!r}: rows that all depend on each "
                "other show no sampling error; group by something with more clusters"
            )


def positive_part(cov: np.ndarray) -> tuple[np.ndarray, bool]:
    """The covariance with negative eigenvalues set to 0, and whether there were any."""
    values, Q = np.linalg.eigh(cov)
    if values[0] >= -1e-14 * max(values[-1], 0.0):
        return cov, False
    return (Q * np.maximum(values, 0.0)) @ Q.T, True

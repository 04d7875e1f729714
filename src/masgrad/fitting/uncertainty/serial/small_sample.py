"""Factors for small samples of serial covariances, and degrees of freedom.

N rows (the sum of frequencies), K parameters, T times (rows in order; rows of the longest unit):

                     HAC                   HAC within units      DK
    "fixest"         (N-1)/(N-K) T/(T-1)   (N-1)/(N-K) T/(T-1)   (N-1)/(N-K) T/(T-1)
    "statsmodels"    1                     N/(N-K)               (N-1)/(N-K) T/(T-1)
    "stata"          N/(N-K)               N/(N-K)               1
    "none"           1                     1                     1

These are what pyfixest 0.60 does for vcov="NW" and "DK", what statsmodels does by default for
cov_type="HAC", "hac-panel" and "hac-groupsum", and Stata's newey and xtscc. Quantiles are those of
t: T - 1 for DK and "fixest", N - K for "stata"; normal otherwise.
"""

from typing import NamedTuple

from masgrad.errors import InputError


class Sizes(NamedTuple):
    """N, K and T."""

    rows: float
    parameters: int
    times: int


def small_sample(kind: str, convention: str, sizes: Sizes) -> tuple[float, int | None]:
    """The factor and the degrees of freedom; the kind is "HAC", "panel" or "DK"."""
    N, K, T = sizes
    factor = 1.0
    if convention == "fixest" or (convention, kind) == ("statsmodels", "DK"):
        factor = (N - 1) / _left(N, K, convention) * T / (T - 1)
    elif (convention, kind) in (("statsmodels", "panel"), ("stata", "HAC"), ("stata", "panel")):
        factor = N / _left(N, K, convention)
    if kind == "DK" or convention == "fixest":
        return factor, T - 1
    return factor, int(N - K) if convention == "stata" else None


def _left(N: float, K: int, convention: str) -> float:
    if K >= N:
        raise InputError(
            f"small_sample={convention!r} divides by N - K, and N = {N:g}, K = {K}; use 'none'"
        )
    return N - K

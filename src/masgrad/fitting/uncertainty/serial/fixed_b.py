"""Critical values of HAC t statistics whose lags are a fixed share b = (L + 1) / T of the times.

As T grows with b fixed, a t statistic with Bartlett's kernel tends to W(1) / sqrt(Q_b), with B the
Brownian bridge of W, of which W(1) is independent (Kiefer & Vogelsang 2005):

    Q_b = (2 / b) (integral over [0, 1] of B(r)^2 - integral over [0, 1 - b] of B(r) B(r + b))

Q_b is a sum of lambda_k Z_k^2 over independent normal Z, with lambda the eigenvalues of the centred
kernel, and P(|t| > c) = P(Z_0^2 - c^2 sum_k lambda_k Z_k^2 > 0) is Imhof's integral (1961): nothing
is simulated. The kernel is cut into STEPS; as b tends to 0 the value tends to the normal one.
"""

from functools import lru_cache

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.uncertainty.serial.record import Serial

STEPS = 300
"""Points of the grid on which the kernel stands."""

SMALL_B = 0.05
"""Below it, values lie on the parabola through those at 0, SMALL_B and 2 SMALL_B."""

NODES = 200
"""Of the trapezoidal rule for Imhof's integral."""


def fixed_b_quantile(level: float, b: float) -> float:
    """The value that |t| stays below with probability `level`; b = (L + 1) / T.

    Example:
        >>> [round(fixed_b_quantile(0.95, b), 2) for b in (0.0, 0.1, 0.5)]
        [1.96, 2.23, 3.47]
    """
    if not 0 < level < 1:
        raise InputError(f"level={level:g}; a probability between 0 and 1 is needed, such as 0.95")
    if not 0 <= b <= 1:
        raise InputError(f"b={b:g}; the share (lags + 1) / T of the times is needed, at most 1")
    if b >= SMALL_B:
        return _quantile(level, b)
    from scipy.special import ndtri

    ends = float(ndtri((1 + level) / 2)), _quantile(level, SMALL_B), _quantile(level, 2 * SMALL_B)
    return float(np.polyval(np.polyfit([0.0, SMALL_B, 2 * SMALL_B], ends, 2), b))


def fixed_b_intervals(
    record: Serial | None, estimate: np.ndarray, se: np.ndarray, alpha: float
) -> np.ndarray:
    """Intervals (p, 2) of estimates with serial errors, with b = (L + 1) / T of their fit."""
    if record is None:
        raise InputError(
            "method='fixed-b' is for errors with lags; fit with cov_type='HAC' or 'DK' first"
        )
    if record.b is None:
        raise InputError(
            "fixed-b values are for rows in time order, or sums by time; these errors have lags "
            "within units: use method='pointwise'"
        )
    half = fixed_b_quantile(1 - alpha, record.b) * se
    middle = np.where(np.isinf(half), 0.0, estimate)
    return np.column_stack([middle - half, middle + half])


@lru_cache(maxsize=64)
def _quantile(level: float, b: float) -> float:
    from scipy.optimize import brentq

    weights = _eigenvalues(b)

    def excess(c: float) -> float:
        return _positive(np.append(1.0, -(c**2) * weights)) - (1 - level)

    return float(brentq(excess, 1e-2, 1e3, xtol=1e-9))  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=8)
def _eigenvalues(b: float) -> np.ndarray:
    """lambda: those of the centred kernel (1 - |r - s| / b)_+ on a grid."""
    apart = np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS))) / STEPS
    K = np.maximum(1 - apart / b, 0.0)
    K = K - K.mean(0)
    K = K - K.mean(1, keepdims=True)
    values = np.linalg.eigvalsh((K + K.T) / 2) / STEPS
    return values[values > 1e-12]


def _positive(weights: np.ndarray) -> float:
    """P(sum_k weights_k Z_k^2 > 0) for independent normal Z (Imhof 1961)."""
    # With u = exp(v) the integrand is smooth on the whole line; it falls as u^(-n/2).
    v = np.linspace(-20.0, 20.0, NODES) - np.log(np.abs(weights).max())
    terms = np.outer(np.exp(v), weights)
    angle = np.arctan(terms).sum(1) / 2
    size = np.log1p(np.square(terms)).sum(1) / 4
    return float(0.5 + np.sin(angle) @ np.exp(-size) * (v[1] - v[0]) / np.pi)

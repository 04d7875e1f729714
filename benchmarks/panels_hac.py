"""Coverage of HAC intervals: a regression on one column, AR(0.5) in the column and the errors.

    python benchmarks/panels_hac.py --replications 4000     # prints a Markdown table

Interval ends are those of `mg.fit(..., cov_type="HAC")`: many series at a time with the same sums
over windows, which a few fits through the front door confirm to rounding. Shares are given with
their Monte-Carlo errors; 1,000 fits of 10,000 rows by the door alone would take as long as all.
"""

import argparse

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

import masgrad as mg
from masgrad.fitting.uncertainty.serial.fixed_b import fixed_b_quantile

RHO, SLOPE, BURN_IN = 0.5, 1.0, 50
SIZES = (200, 1000, 10_000)
ENTRIES = 4_000_000
"""Rows of all series that are simulated at a time."""


def autoregressive(rng: np.random.Generator, series: int, T: int) -> np.ndarray:
    """Stationary AR(1) series, (series, T)."""
    from scipy.signal import lfilter

    noise = rng.standard_normal((series, T + BURN_IN))
    return lfilter([1.0], [1.0, -RHO], noise, axis=1)[:, BURN_IN:]


def rule(T: int) -> int:
    """The automatic number of lags."""
    return int(4 * (T / 100) ** (2 / 9))


def errors_of(x: np.ndarray, y: np.ndarray, lags: int) -> tuple[np.ndarray, np.ndarray]:
    """Slopes of y on a constant and x, and their HAC standard errors, a series a row.

    The slope's error needs the sums over windows of the scores of the centred column alone.
    """
    T = x.shape[1]
    z = x - x.mean(1, keepdims=True)
    slopes = (z * y).sum(1) / np.square(z).sum(1)
    residuals = y - y.mean(1, keepdims=True) - slopes[:, None] * z
    sums = np.cumsum(np.pad(z * residuals, ((0, 0), (lags + 1, lags))), 1)
    windows = sums[:, lags + 1 :] - sums[:, : -lags - 1]
    meat = np.square(windows).sum(1) / (lags + 1) * T / (T - 2)
    return slopes, np.sqrt(meat) / np.square(z).sum(1)


def check(x: np.ndarray, y: np.ndarray, lags: int, slope: float, error: float) -> None:
    """Compare one series with the fit."""
    X = np.column_stack([np.ones(len(x)), x])
    r = mg.fit(mg.Linear(), (X, y), cov_type="HAC", lags=lags, passes="converge")
    np.testing.assert_allclose([r.params[1], r.bse[1]], [slope, error], rtol=1e-6)


def coverage(T: int, lags: int, replications: int, confirmed: int) -> dict[str, float]:
    """Shares of intervals at 95 % that cover the slope, by their critical values."""
    rng, some = np.random.default_rng([T, lags]), max(1, ENTRIES // T)
    values = {
        "normal": float(norm.ppf(0.975)),
        "t(T - 1)": float(student.ppf(0.975, T - 1)),
        "fixed-b": fixed_b_quantile(0.95, (lags + 1) / T),
    }
    covered = dict.fromkeys(values, 0)
    for start in range(0, replications, some):
        n = min(some, replications - start)
        x = autoregressive(rng, n, T)
        y = SLOPE * x + autoregressive(rng, n, T)
        slopes, errors = errors_of(x, y, lags)
        for k in range(min(confirmed if start == 0 else 0, n)):
            check(x[k], y[k], lags, slopes[k], errors[k])
        t = np.abs(slopes - SLOPE) / errors
        for name, value in values.items():
            covered[name] += int((t < value).sum())
    return {name: count / replications for name, count in covered.items()}


def table(replications: int, confirmed: int) -> list[str]:
    """The lines of the table."""
    lines = [
        "| T | lags | normal | t(T - 1) | fixed-b | Monte-Carlo error |",
        "|---|---|---|---|---|---|",
    ]
    error = 100 * np.sqrt(0.05 * 0.95 / replications)
    for T in SIZES:
        for lags, name in ((rule(T), f"{rule(T)} (automatic)"), (T // 10, f"{T // 10} (T / 10)")):
            found = coverage(T, lags, replications, confirmed)
            shares = " | ".join(f"{100 * share:.2f} %" for share in found.values())
            lines.append(f"| {T:,} | {name} | {shares} | {error:.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=4000)
    parser.add_argument("--confirmed", type=int, default=5, help="series of each row that are fit")
    arguments = parser.parse_args()
    print(*table(arguments.replications, arguments.confirmed), sep="\n")


if __name__ == "__main__":
    main()

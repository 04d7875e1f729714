"""Whether chains have forgotten where they began: split-Rhat, effective sample size, burn-in.

All of draws (K, T): K chains of T iterates of one coordinate. Gelman et al. (2013), Geyer (1992).
"""

import numpy as np


def split_rhat(draws: np.ndarray) -> float:
    """Spread between half chains against that within them: 1 where all tell the same story."""
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within = parts.var(1, ddof=1).mean()
    between = parts.mean(1).var(ddof=1)
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0 else float("nan")


def effective_size(draws: np.ndarray) -> float:
    """Independent draws that would tell the mean as well.

    K T over 1 + 2 sum of autocorrelations, summed while neighbouring pairs are positive.
    """
    K, T = draws.shape
    away = draws - draws.mean(1, keepdims=True)
    power = np.abs(np.fft.rfft(away, 2 * T)) ** 2
    cov = np.fft.irfft(power, 2 * T)[:, :T].mean(0) / T
    between = draws.mean(1).var(ddof=1) if K > 1 else 0.0
    total = cov[0] + between
    if total <= 0:
        return float("nan")
    rho = 1 - (cov[0] * T / (T - 1) - cov * T / (T - 1)) / total
    pairs = rho[: T - T % 2].reshape(-1, 2).sum(1)
    first = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    return float(K * T / max(2 * pairs[:first].sum() - 1, 1 / np.log10(K * T + 10)))


def burn_in(draws: np.ndarray) -> int:
    """Steps until the spread over chains has come to that of the second half, to sampling error."""
    K, T = draws.shape
    spread = draws.var(0, ddof=1)
    level = spread[T // 2 :].mean()
    low = level * (1 - 2 * np.sqrt(2 / max(K - 1, 1)))
    reached = spread >= max(low, 0.25 * level)
    return int(np.argmax(reached)) if reached.any() else T

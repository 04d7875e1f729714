"""How fast a process comes to its optimum, and when it has settled.

floor            mean log error over the last steps of a run
decay            slope of the mean log error while the error is above twice its floor
time constants   steps until a coordinate's mean has covered 1 - 1/e of its way
settled          the step from which mean and spread stay near those at stationarity
"""

import numpy as np


def log_error(error: np.ndarray) -> np.ndarray:
    """Mean over chains of the log error, (records,), from errors (chains, records)."""
    return np.log(error).mean(0)


def floor(log_errors: np.ndarray, last: int) -> float:
    """Level of the log error over the last records."""
    return float(log_errors[-last:].mean())


def reaches(log_errors: np.ndarray, level: float) -> int:
    """First record at or below a level; the number of records where there is none."""
    below = log_errors <= level
    return int(below.argmax()) if below.any() else len(below)


def decay(log_errors: np.ndarray, level: float) -> float:
    """Rate of decrease by least squares up to the first record below twice the floor.

    At least three records enter; a start next to its floor says little.
    """
    end = max(3, reaches(log_errors, level + np.log(2)) + 1)
    shown = log_errors[:end]
    return float(-np.polyfit(np.arange(len(shown)), shown, 1)[0])


def time_constants(mean: np.ndarray, target: np.ndarray) -> np.ndarray:
    """First record at which each coordinate of `mean` (records, p) is within 1/e of its way."""
    away = np.abs(mean - target)
    near = away <= away[0] / np.e
    return np.where(near.any(0), near.argmax(0), len(mean))


def settled(
    theta: np.ndarray, last: slice, hold: int, mean_band: float = 0.4, sd_band: float = 0.3
) -> np.ndarray:
    """First record from which each coordinate stays near stationarity, (p,).

    Near: its mean over chains is within `mean_band` standard deviations, and its standard deviation
    within a share `sd_band`, of those over the records `last`. It stays when that holds for `hold`
    records; over many more, chance alone would interrupt it.
    """
    mean, sd = theta.mean(0), theta.std(0, ddof=1)
    mean_inf, sd_inf = mean[last].mean(0), np.sqrt((sd[last] ** 2).mean(0))
    near = (np.abs(mean - mean_inf) < mean_band * sd_inf) & (np.abs(sd / sd_inf - 1) <= sd_band)
    stays = np.lib.stride_tricks.sliding_window_view(near, hold, axis=0).all(-1)
    return np.where(stays.any(0), stays.argmax(0), len(near))

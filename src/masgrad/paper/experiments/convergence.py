"""How fast a process comes to its optimum, and when it has settled.

    floor            mean log error over the last steps of a run
    slope            of the mean log error while the error is above twice its floor; below 0
    time constants   steps until a coordinate's mean has covered 1 - 1/e of its way
    settled          the step from which mean and spread stay near those at stationarity

Steps that are never reached are None.
"""

import numpy as np

Steps = list[int | None]


def log_error(error: np.ndarray) -> np.ndarray:
    """Mean over chains of the log error, (records,), from errors (chains, records)."""
    return np.log(error).mean(0)


def floor(log_errors: np.ndarray, last: int) -> float:
    """Level of the log error over the last records."""
    return float(log_errors[-last:].mean())


def reaches(log_errors: np.ndarray, level: float) -> int | None:
    """First record at or below a level."""
    return _first((log_errors <= level)[:, None])[0]


def slope(log_errors: np.ndarray, level: float) -> float:
    """By least squares up to the first record below twice the floor, whose log is `level`.

    At least three records enter; a start next to its floor says little.
    """
    end = reaches(log_errors, level + np.log(2))
    shown = log_errors if end is None else log_errors[: max(3, end + 1)]
    return float(np.polyfit(np.arange(len(shown)), shown, 1)[0])


def time_constants(mean: np.ndarray, target: np.ndarray) -> Steps:
    """First record at which each coordinate of `mean` (records, p) is within 1/e of its way."""
    away = np.abs(mean - target)
    return _first(away <= away[0] / np.e)


def unevenness(times: Steps) -> float | None:
    """Slowest over fastest of several time constants."""
    known = [t for t in times if t is not None]
    return max(known) / max(min(known), 1) if len(known) == len(times) > 0 else None


def settled(
    theta: np.ndarray, last: slice, hold: int, mean_band: float = 0.4, sd_band: float = 0.3
) -> Steps:
    """First record from which each coordinate stays near stationarity.

    Near: its mean over chains is within `mean_band` standard deviations, and its standard deviation
    within a share `sd_band`, of those over the records `last`. It stays when that holds for `hold`
    records; over many more, chance alone would interrupt it. A coordinate that enters only when
    `last` has begun, or whose mean still moves by as much between the halves of `last`, has not
    settled.
    """
    mean, sd = theta.mean(0), theta.std(0, ddof=1)
    mean_inf, sd_inf = mean[last].mean(0), np.sqrt((sd[last] ** 2).mean(0))
    near = (np.abs(mean - mean_inf) < mean_band * sd_inf) & (np.abs(sd / sd_inf - 1) <= sd_band)
    windows = np.lib.stride_tricks.sliding_window_view(near, hold, axis=0)
    stays = np.asarray(windows.all(-1))
    first, second = (half.mean(0) for half in np.array_split(mean[last], 2))
    moving = np.abs(first - second) > mean_band * sd_inf
    return _first(stays[: last.start] & ~moving)


def latest(steps: Steps) -> int | None:
    """The last of several steps; None if one is never reached."""
    known = [s for s in steps if s is not None]
    return max(known) if len(known) == len(steps) else None


def or_never(steps: float | None) -> float:
    """A number of steps to compare: what was never reached took for ever."""
    return np.inf if steps is None else steps


def _first(holds: np.ndarray) -> Steps:
    """First record at which each column holds."""
    return [int(column.argmax()) if column.any() else None for column in holds.T]

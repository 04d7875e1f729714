"""Recorders take chunks of records, (records, p, K), off the engine and keep what is wanted.

One that continues an earlier run begins with what that run has recorded.
"""

import abc
from typing import Any

import numpy as np

from masgrad.chains.trace import SUMMARY_LEVELS, Ending, Summary, Trace, covariance
from masgrad.types import Array


class Recorder(abc.ABC):
    """Receives records in order and detects chains that diverge."""

    def __init__(self, chains: int, note: str = ""):
        self.chains, self.note = chains, note
        self.steps: list[int] = []
        self.diverged: dict[int, int] = {}

    def add(self, steps: np.ndarray, paths: np.ndarray) -> None:
        """Add the paths (records, p, K) at these steps."""
        lost: Array = ~np.isfinite(paths).all(1)
        for chain in np.flatnonzero(lost.any(0)):
            self.diverged.setdefault(int(chain), int(steps[np.argmax(lost[:, chain])]))
        self.keep(paths, lost)
        self.steps.extend(int(s) for s in steps)

    @abc.abstractmethod
    def keep(self, paths: np.ndarray, lost: np.ndarray) -> None: ...

    def snapshot(self) -> dict[str, Any]:
        """What was recorded, for a checkpoint."""
        return {"steps": np.array(self.steps), "diverged": self.diverged, **self.kept()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over what a checkpoint has recorded, and nothing else."""
        self.steps = [int(s) for s in saved["steps"]]
        self.diverged = saved["diverged"]
        self.take(saved)

    @abc.abstractmethod
    def kept(self) -> dict[str, np.ndarray]: ...

    @abc.abstractmethod
    def take(self, kept: dict[str, np.ndarray]) -> None: ...

    @abc.abstractmethod
    def result(self, floored: np.ndarray, ending: Ending) -> Trace | Summary: ...


class Paths(Recorder):
    """Keeps all paths."""

    def __init__(self, chains: int, records: int, p: int, note: str = ""):
        super().__init__(chains, note)
        self.theta = np.empty((chains, records, p))

    def keep(self, paths: np.ndarray, lost: np.ndarray) -> None:
        filled = len(self.steps)
        self.theta[:, filled : filled + len(paths)] = np.moveaxis(paths, -1, 0)

    def kept(self) -> dict[str, np.ndarray]:
        return {"theta": self.theta[:, : len(self.steps)]}

    def take(self, kept: dict[str, np.ndarray]) -> None:
        self.theta[:, : len(self.steps)] = kept["theta"]

    def result(self, floored: np.ndarray, ending: Ending) -> Trace:
        theta = self.theta[:, : len(self.steps)]
        return Trace(theta, np.array(self.steps), self.diverged, floored, self.note, ending)


class Summaries(Recorder):
    """Keeps mean, covariance and quantiles over the chains that are finite at each record."""

    def __init__(self, chains: int, note: str = ""):
        super().__init__(chains, note)
        self.means: list[np.ndarray] = []
        self.covs: list[np.ndarray] = []
        self.quantiles: list[np.ndarray] = []
        self.last = np.empty(0)

    def begin(self, earlier: Summary) -> None:
        """Take over what an earlier run has summarised."""
        self.steps = [int(s) for s in earlier.steps]
        self.diverged = dict(earlier.diverged)
        self.means, self.covs, self.last = [earlier.means], [earlier.covs], earlier.final
        self.quantiles = [np.concatenate([earlier.quantiles[level] for level in SUMMARY_LEVELS])]

    def keep(self, paths: np.ndarray, lost: np.ndarray) -> None:
        self.last = paths[-1].T
        if not self.diverged:
            return self._summarise(paths)
        gone = np.zeros(self.chains, bool)
        for record, missing in zip(paths, lost, strict=True):
            gone |= missing
            self._summarise(record[None][..., ~gone])
        return None

    def kept(self) -> dict[str, np.ndarray]:
        means, covs = np.concatenate(self.means), np.concatenate(self.covs)
        bands = np.concatenate(self.quantiles, axis=1)
        return {"means": means, "covs": covs, "quantiles": bands, "last": self.last}

    def take(self, kept: dict[str, np.ndarray]) -> None:
        self.means, self.covs = [kept["means"]], [kept["covs"]]
        self.quantiles, self.last = [kept["quantiles"]], kept["last"]

    def _summarise(self, paths: np.ndarray) -> None:
        tails = [(1 + sign * level) / 2 for level in SUMMARY_LEVELS for sign in (-1, 1)]
        if paths.shape[-1] < 2:  # too few are left for a spread; the warning has said so
            paths = np.full((*paths.shape[:-1], 2), np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            self.means.append(paths.mean(-1))
            self.covs.append(covariance(paths))
            self.quantiles.append(np.quantile(paths, tails, axis=-1))

    def result(self, floored: np.ndarray, ending: Ending) -> Summary:
        kept = self.kept()
        bands = kept["quantiles"]
        return Summary(
            np.array(self.steps),
            self.last,
            kept["means"],
            kept["covs"],
            {level: bands[2 * i : 2 * i + 2] for i, level in enumerate(SUMMARY_LEVELS)},
            self.diverged,
            floored,
            self.note,
            ending,
        )

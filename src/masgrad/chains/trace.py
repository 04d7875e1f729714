"""What a run leaves: all recorded paths (`Trace`), or their summary at each recorded step.

The spread over chains is the sampling distribution of the *iterate* theta_t, the paper's object. It
is not a confidence interval for theta*: that one comes from averaging and the sandwich.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masgrad.errors import InputError

SUMMARY_LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Ending:
    """Where a run stopped, all that `mg.resume` needs to go on besides kernel, model and data.

    Args:
        states: of each group of chains: step number, theta and memory, as NumPy arrays.
        seed: of the run; step t of group i draws with fold_in(fold_in(seed, i), t).
        batch_size: n, or None for all rows.
        replace: whether the rows of a batch are drawn with replacement.
        thin: steps for each record.
    """

    states: list[Any]
    seed: int
    batch_size: int | None
    replace: bool
    thin: int


@dataclass(frozen=True)
class Trace:
    """Paths of all chains.

    Args:
        theta: (chains, records, p); without thinning a record is a step, theta0 included.
        steps: step number of each record.
        diverged: {chain: step} for chains that diverged, with the step at which that was detected;
            averages exclude them.
        floored: for each chain, the steps at which a singular covariance met the floor.
        note: how V was regularised, which is part of the iterates' law.
        ending: for `mg.resume`.
    """

    theta: np.ndarray
    steps: np.ndarray
    diverged: dict[int, int] = field(default_factory=dict)
    floored: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    note: str = ""
    ending: Ending | None = None

    def __repr__(self) -> str:
        return _describe("Trace", self.theta.shape[0], self.steps, self.diverged, self.note)

    @property
    def final(self) -> np.ndarray:
        """The last theta of each chain, (chains, p); to go on from there, use `mg.resume`."""
        return self.theta[:, -1]

    def finite(self) -> np.ndarray:
        """Paths of the chains that stayed finite."""
        keep = np.setdiff1d(np.arange(len(self.theta)), list(self.diverged))
        if not keep.size:
            raise InputError(
                "every chain left the finite numbers; use a smaller step_size, or a start closer "
                "to the optimum"
            )
        return self.theta[keep] if self.diverged else self.theta

    def mean(self) -> np.ndarray:
        """Mean over chains at each record, (records, p)."""
        return self.finite().mean(0)

    def cov(self) -> np.ndarray:
        """Covariance over chains at each record, (records, p, p)."""
        return covariance(np.moveaxis(self.finite(), 0, -1))

    def distance(self, theta: np.ndarray) -> np.ndarray:
        """l2 distance to a point, of the chains that stayed finite: (chains, records)."""
        if np.shape(theta) != self.theta.shape[2:]:
            raise InputError(
                f"a point of shape {np.shape(theta)}; {self.theta.shape[2:]} is needed"
            )
        return np.linalg.norm(self.finite() - theta, axis=-1)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central quantiles of the iterate over chains: (lower, upper), each (records, p).

        The spread of the iterate at each step, *not* a confidence interval for theta*.

        Paper: numerical experiments - the 95 % band over 100 chains at each step
        """
        check_level(level)
        tail = (1 - level) / 2
        lower, upper = np.quantile(self.finite(), [tail, 1 - tail], axis=0)
        return lower, upper


@dataclass(frozen=True)
class Summary:
    """Mean, covariance and central quantiles over chains at each record, without the paths.

    A diverged chain counts up to the record before its divergence was seen; where fewer than two
    chains are left, a record is NaN.
    """

    steps: np.ndarray
    final: np.ndarray
    means: np.ndarray
    covs: np.ndarray
    quantiles: dict[float, np.ndarray]
    diverged: dict[int, int]
    floored: np.ndarray
    note: str = ""
    ending: Ending | None = None

    def __repr__(self) -> str:
        return _describe("Summary", len(self.final), self.steps, self.diverged, self.note)

    def mean(self) -> np.ndarray:
        """Mean over chains at each record, (records, p)."""
        return self.means

    def cov(self) -> np.ndarray:
        """Covariance over chains at each record, (records, p, p)."""
        return self.covs

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central quantiles of the iterate, at one of the levels a summary keeps."""
        check_level(level)
        if level not in self.quantiles:
            raise InputError(f"level={level}; a summary keeps {SUMMARY_LEVELS}: or keep='paths'")
        lower, upper = self.quantiles[level]
        return lower, upper


def _describe(
    kind: str, chains: int, steps: np.ndarray, diverged: dict[int, int], note: str
) -> str:
    lost = f", {len(diverged)} diverged" if diverged else ""
    note = f" ({note})" if note else ""
    return f"{kind} of {chains} chains, {len(steps)} records to step {steps[-1]}{lost}{note}"


def check_level(level: float) -> None:
    if not isinstance(level, float | int) or not 0 < level < 1:
        raise InputError(f"level={level}; a probability between 0 and 1 is needed, such as 0.95")


def covariance(paths: np.ndarray) -> np.ndarray:
    """Covariance over the last axis of (records, p, K), divisor K - 1: (records, p, p)."""
    K = paths.shape[-1]
    if K < 2:
        raise InputError(f"{K} finite chains have no covariance over chains; at least 2 are needed")
    centred = paths - paths.mean(-1, keepdims=True)
    return centred @ np.swapaxes(centred, 1, 2) / (K - 1)

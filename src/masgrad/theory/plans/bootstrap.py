"""The bootstrap regime: batches from a table of N rows, with a step so short that beta > N."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Bootstrap:
    """The paper's condition eta < n/N, which makes beta = 2n / eta larger than 2N.

    The iterate's covariance is about (1/beta) F^-1/2 and the ERM's F^-1/N: where F is near the
    identity the condition says that the chain sits closer to the ERM than the ERM to theta*. In
    other units compare `stationary_law(...).sd` with the sandwich, as `masgrad plan FILE` does.

    Args:
        rows: N.
        batch_size: n.
        step_size: eta.
    """

    rows: int
    batch_size: int
    step_size: float

    @property
    def holds(self) -> bool:
        return self.step_size < self.longest_step

    @property
    def longest_step(self) -> float:
        """n / N."""
        return self.batch_size / self.rows

    @property
    def smallest_batch(self) -> int:
        """The smallest n for which this step is short enough: n > eta N."""
        return math.floor(self.step_size * self.rows) + 1

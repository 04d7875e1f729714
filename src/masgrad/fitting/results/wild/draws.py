"""Weights of the wild bootstrap: a number for each cluster, of mean 0 and variance 1.

- "rademacher": signs. Up to 12 clusters, or if that takes no more draws than were asked for, all
  2^G vectors of signs are taken once each, and nothing is random.
- "webb": one of six values, +-sqrt(1/2), +-1, +-sqrt(3/2) (Webb 2014). With G clusters signs have
  2^(G - 1) different statistics at most, as v and -v have the same; up to 6 clusters these are 32
  or fewer, and Webb's weights are the default.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from masgrad.checks import check_count
from masgrad.errors import InputError

WEIGHTS = ("rademacher", "webb")
ALL_SIGNS = 12
"""Clusters up to which all vectors of signs are taken."""

VERY_FEW = 6
"""Clusters up to which Webb's weights are the default."""

FEWEST_DRAWS = 99
SIX_POINTS = np.sqrt([0.5, 1.0, 1.5])
ENTRIES = 1 << 20
"""Weights that are drawn at a time."""


@dataclass(frozen=True)
class Draws:
    """Vectors of weights for the clusters.

    Args:
        kind: one of `WEIGHTS`.
        clusters: G.
        count: number of vectors.
        exhaustive: whether they are all vectors of signs.
        seed: of the vectors otherwise.
    """

    kind: str
    clusters: int
    count: int
    exhaustive: bool
    seed: int

    @classmethod
    def of(cls, clusters: int, draws: int, weights: str | None, seed: int) -> "Draws":
        """The draws that were asked for."""
        draws, seed = check_count("draws", draws, FEWEST_DRAWS), check_count("seed", seed, 0)
        if weights not in (None, *WEIGHTS):
            raise InputError(f"weights={weights!r} is not known; use one of {', '.join(WEIGHTS)}")
        kind = weights or ("webb" if clusters <= VERY_FEW else "rademacher")
        every = kind == "rademacher" and (
            clusters <= ALL_SIGNS or clusters <= np.log2(max(draws, 1))
        )
        return cls(kind, clusters, 2**clusters if every else draws, every, seed)

    def parts(self) -> Iterator[np.ndarray]:
        """The vectors in columns, (G, b), some at a time."""
        rng, some = np.random.default_rng(self.seed), max(1, ENTRIES // self.clusters)
        for start in range(0, self.count, some):
            size = min(some, self.count - start)
            yield self._signs(start, size) if self.exhaustive else self._drawn(rng, size)

    def _signs(self, start: int, size: int) -> np.ndarray:
        """Vectors of signs, by the binary digits of their number."""
        number = np.arange(start, start + size)
        return 1.0 - 2.0 * (number >> np.arange(self.clusters)[:, None] & 1)

    def _drawn(self, rng: np.random.Generator, size: int) -> np.ndarray:
        signs = 1.0 - 2.0 * rng.integers(0, 2, (size, self.clusters)).T
        if self.kind == "rademacher":
            return signs
        return signs * SIX_POINTS[rng.integers(0, 3, (size, self.clusters))].T

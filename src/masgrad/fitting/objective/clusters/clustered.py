"""What a clustered covariance was made of: a result keeps it for tests, updates and files."""

from dataclasses import dataclass, replace

import numpy as np

from masgrad.fitting.objective.clusters.sums import ClusterSums, ClusterWay, packed


@dataclass(frozen=True)
class Clustered:
    """Sums by cluster at the estimate, and the convention of their factors.

    Args:
        ways: single groupings first, then combinations.
        small_sample: the convention of the factors.
        bread: H of all rows at the estimate, (p, p), in phi.
        nobs: number of observations.
        parameters: K of the factor (N - 1) / (N - K).
        basis: of the directions of phi that the data determine, (p, r), orthonormal.
        outside: fixed effects whose levels lie in several clusters, by name.
    """

    ways: tuple[ClusterWay, ...]
    small_sample: str
    bread: np.ndarray
    nobs: float
    parameters: int
    basis: np.ndarray
    outside: tuple[str, ...] = ()

    @property
    def single(self) -> tuple[ClusterWay, ...]:
        """The groupings one by one."""
        return tuple(way for way in self.ways if len(way.names) == 1)

    @property
    def fewest(self) -> int:
        """The number of clusters of the grouping that has fewest."""
        return min(way.sums.count for way in self.single)

    @property
    def alone(self) -> ClusterSums | None:
        """The sums with Hessians of the only grouping; None if there are more, or no Hessians."""
        sums = self.ways[0].sums
        return sums if len(self.ways) == 1 and sums.hessians is not None else None

    @property
    def in_words(self) -> str:
        """The groupings with their numbers of clusters."""
        return ", ".join(f"{way.names[0]} ({way.sums.count:,})" for way in self.single)

    def in_coordinates(self, T: np.ndarray) -> "Clustered":
        """The same sums where phi = T phi', in phi'."""
        ways = tuple(
            replace(way, sums=transformed(way.sums, T, np.linalg.solve(T, way.sums.point)))
            for way in self.ways
        )
        basis = np.linalg.qr(np.linalg.solve(T, self.basis))[0]
        return replace(self, ways=ways, bread=T.T @ self.bread @ T, basis=basis)


def transformed(sums: ClusterSums, T: np.ndarray, point: np.ndarray) -> ClusterSums:
    """Sums at phi = T point, in the coordinates of the point; T is (p, p')."""
    H = sums.hessians
    if H is not None:
        p = T.shape[1]
        H = np.empty((len(H), p * (p + 1) // 2))
        for chosen, each in sums.each_hessian():
            H[chosen] = packed(T.T @ each @ T)
    return replace(sums, point=point, scores=sums.scores @ T, hessians=H)

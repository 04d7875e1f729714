"""Sums by cluster in a single read: scores of each segment, moved to a common point.

Segments are summed at running estimates, and the clusters' Hessians move their scores from one to
the next. Where these take too much memory each cluster has its share of the segment's own, and a
note says so (`uncertainty/clusters/notes.py`).
"""

from collections.abc import Iterable

import numpy as np

from masgrad.data.groupings.grouping import with_role
from masgrad.data.source import Source
from masgrad.fitting.objective.clusters.reading import hessians_fit, ways_over
from masgrad.fitting.objective.clusters.sums import ClusterWay
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.options import CLUSTERED, Options
from masgrad.types import Rows


class RunningClusters:
    """Sums by cluster over the segments that were read so far.

    Args:
        objective: the loss.
        source: of the rows, whose groupings are known by now.
        options: the kind of covariance, and the memory.

    Attributes:
        ways: the sums, at the point of the last segment; () if no errors are clustered.
    """

    def __init__(self, objective: Objective, source: Source, options: Options):
        self.objective, self.source, self.memory = objective, source, options.memory
        self.wanted = options.cov_type in ("robust", *CLUSTERED) and bool(
            with_role(source.groupings, "clusters")
        )
        self.ways: tuple[ClusterWay, ...] = ()
        self.hessian = np.zeros((0, 0))

    def add(self, rows: Iterable[Rows], phi: np.ndarray, hessian: np.ndarray) -> None:
        """Add a segment, summed at phi, where the Hessian of its rows is this."""
        if not self.wanted:
            return
        largest = max((way.sums.count for way in self.ways), default=0)
        kept = hessians_fit(largest, len(phi), self.memory)
        new = ways_over(self.objective, self.source.groupings, rows, phi, kept)
        if self.ways:
            pairs = zip(self.ways, new, strict=True)
            new = tuple(old.at(phi, self.hessian).plus(way) for old, way in pairs)
            hessian = self.hessian + hessian
        self.ways, self.hessian = new, hessian

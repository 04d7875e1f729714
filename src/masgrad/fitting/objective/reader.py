"""Reads of the data: sums over the rows of a source, block by block.

Every read is a total: each block gives a part, and parts are added in the order of their blocks.
`Passes` says how blocks are passed over.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.data.source import Arrays
from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import H_AND_M, Objective, Parts, response_range
from masgrad.fitting.objective.passes import Passes
from masgrad.fitting.objective.totals import (
    ALL_BLOCKS,
    LONG_BLOCKS,
    Addition,
    BlockSums,
    Cut,
    summer,
    these,
)
from masgrad.fitting.sources import Sample
from masgrad.models.glm import GLM
from masgrad.types import Rows


@dataclass(frozen=True)
class Reader(Passes):
    """Reads of a source."""

    def read(self, objective: Objective, phi: np.ndarray, parts: Parts = H_AND_M) -> LocalModel:
        """The local model of all rows at phi."""
        workers = self.workers(objective, self.source.count)
        cut = ALL_BLOCKS if objective.coordinates.transforms_rows else LONG_BLOCKS
        total = self._sum(objective, phi, parts, workers, cut)
        self.monitor.check_length(total.rows)
        return total

    def read_sample(
        self, objective: Objective, phi: np.ndarray, sample: Sample, parts: Parts = H_AND_M
    ) -> LocalModel:
        """The local model of all rows at phi, from a sample that is complete."""
        assert sample.complete
        return self._sum(objective, phi, parts, 1, these(blocks(sample.rows)))

    def read_slices(
        self, objective: Objective, phi: np.ndarray, starts: Any, parts: Parts = H_AND_M
    ) -> LocalModel:
        """The local model of the blocks of an array that begin at these rows."""
        source = self.source
        assert isinstance(source, Arrays)
        workers = self.workers(objective, len(starts) * source.block)
        return self._sum(objective, phi, parts, workers, these(starts, source.made))

    def read_blocks(
        self,
        objective: Objective,
        phi: np.ndarray,
        pieces: Iterable[Rows],
        expected_rows: int | None,
        parts: Parts = H_AND_M,
    ) -> LocalModel:
        """The local model of these blocks, about `expected_rows` rows in all."""
        workers = self.workers(objective, expected_rows)
        return self._sum(objective, phi, parts, workers, these(pieces))

    def falls(
        self, objective: Objective, sample: Sample, phi: np.ndarray, points: np.ndarray
    ) -> np.ndarray:
        """By how much the loss of all rows falls from phi to each of the points, (K, p).

        After Ctrl-C nothing is known, and no point is lower.
        """

        def work(rows: Rows) -> np.ndarray:
            return objective.falls(phi, points, rows)

        fall = None
        with self.interruptible():
            if sample.complete:
                fall = np.sum([work(rows) for rows in blocks(sample.rows)], 0)
            else:
                fall = self.total(work, Addition(np.add))
        return np.full(len(points), -np.inf) if self.monitor.interrupted or fall is None else fall

    def design_moment(self, objective: Objective, sample: Sample) -> np.ndarray:
        """E[x x'] in phi, over all rows if they can be read again."""
        squares = Objective(GLM("gaussian"), objective.coordinates)
        zero, parts = np.zeros(objective.model.dim(sample.rows)), Parts(meat=False)
        if sample.complete or not self.source.rereadable:
            total = squares.local_model(zero, sample.rows, parts)
        else:
            with self.unobserved() as quiet:
                total = quiet.read(squares, zero, parts)
        return total.hessian / total.count

    def workers(self, objective: Objective, rows: int | None) -> int:
        """Number of threads that sum over this many rows."""
        return self.threads_for(rows) if objective.linear else 1

    def every_row(self, sample: Sample) -> Cut | None:
        """All rows again, as a cut; None if they cannot be read again."""
        if sample.complete:
            return these(blocks(sample.rows))
        return ALL_BLOCKS if self.source.rereadable else None

    def see_sample(self, sample: Sample, linear: bool) -> None:
        """Take note of the pilot rows: their number, and the range of their responses."""
        self.monitor.pilot_rows = count_rows(sample.rows)
        if linear:
            self.monitor.see_responses(*response_range(sample.rows))

    def _sum(
        self, objective: Objective, phi: np.ndarray, parts: Parts, workers: int, cut: Cut
    ) -> LocalModel:
        """The local model of blocks; on Ctrl-C, of those read so far."""
        total = self.total(
            summer(objective, phi, parts),
            Addition(BlockSums.plus),
            workers,
            cut,
            see=self._see,
            whole=False,
        )
        if total is None and self.monitor.interrupted:
            raise KeyboardInterrupt
        if total is None:
            raise InputError("the data hold no rows; at least one observation is needed")
        local = objective.from_raw_sums(phi, total.sums, total.weight, total.rows)
        return replace(local, constants=total.constants)

    def _see(self, block: BlockSums) -> None:
        self.monitor.see_gradient(block.rows, block.weight, block.sums.gradient)
        if block.range is not None:
            self.monitor.see_responses(*block.range)

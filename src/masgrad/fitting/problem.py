"""A model over a source of rows, seen in a frame: sums over one read of the data.

Blocks of linear predictors are summed by threads, each with single-threaded BLAS: blocks that stay
in a core's cache beat one product over all rows. Sums of other losses belong to XLA's threads.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from masgrad.data.arrays import blocks, count_rows
from masgrad.data.regression import design_effect, total_weight, weight_of, with_design
from masgrad.data.source import Arrays, Source
from masgrad.errors import InputError
from masgrad.fitting.frame import Frame
from masgrad.fitting.quadratic import Quadratic, plus
from masgrad.fitting.ridge import Ridge
from masgrad.fitting.threads import half, in_order
from masgrad.models.glm import GLM, information_sum, linear_sums
from masgrad.models.model import Model, RowSums
from masgrad.types import Rows

MANY = 50
"""Rows that must share in a column for a sample to speak for it."""

THREAD_ROWS = 50_000
"""Fewer rows are summed by one thread: starting others would take as long."""


@dataclass
class Problem:
    """What is minimised: the mean loss of a model over a source, as a function of phi.

    Args:
        model: the loss.
        source: the rows.
        frame: the coordinates phi.
        threads: that sum over arrays.
        prior: the local model of rows that an earlier fit has read.
        kept: the rows of the warm-up, once they are taken.
        whole: whether these are all rows.
        curvature: largest entry of H where the fit began.
        notes: what the result should say.
        stop: set by Ctrl-C: what has been read by then is what the result is about.
        span: the range of the responses seen so far, for checks that need all of them.
        length: rows of the first read that came to its end, to which later ones are held.
        one_step: whether the estimate is one step from a penalised optimum, and no optimum itself.
    """

    model: Model
    source: Source
    frame: Frame
    threads: int = 1
    prior: Quadratic | None = None
    kept: Rows | None = None
    whole: bool = False
    curvature: float = 0.0
    ridge: Ridge = field(default_factory=Ridge)
    tally: bool = True
    informed: bool = False
    path: list[tuple[str, np.ndarray]] = field(default_factory=list)
    discarded: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    notes: list[str] = field(default_factory=list)
    span: list[float] = field(default_factory=lambda: [np.inf, -np.inf])
    length: int | None = None
    one_step: bool = False

    def __post_init__(self):
        self.lock = threading.Lock()
        self.family = self.model.family if isinstance(self.model, GLM) else None

    @property
    def linear(self) -> bool:
        return self.family is not None

    @property
    def dispersed(self) -> bool:
        return self.family is not None and self.family.dispersed

    @property
    def separable(self) -> bool:
        return self.family is not None and self.family.separable

    @property
    def bounded(self) -> bool:
        """Whether some linear predictors have no mean."""
        return self.family is not None and bool(np.isfinite(self.family.domain).any())

    def block_sums(
        self, phi: np.ndarray, rows: Rows, hessian: bool = True, meat: bool = True
    ) -> RowSums:
        """Sums over one block, in phi."""
        sums = self._finish(self._raw_sums(self._argument(phi), rows, hessian, meat))
        return self.ridge.add(sums, phi, total_weight(rows))

    def losses(self, phi: np.ndarray, rows: Rows) -> np.ndarray:
        """The loss of every row of a sample, times its frequency."""
        at, a = self._argument(phi), weight_of(rows)
        parts = [self.model.row_losses(at, self._framed(block)) for block in blocks(rows)]
        loss = np.concatenate(parts) + self.ridge.value(phi)
        return loss if a is None else a * loss

    def missed(self, phi: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum over rows of the gradient that their quadratic at phi misses a step away."""
        total = np.zeros_like(phi)
        for block in blocks(rows):
            total += self.model.missed_gradient(
                self._argument(phi), self._argument(step), self._framed(block)
            )
        return total if self.frame.far else total @ self.frame.matrix

    def features(self, rows: Rows) -> np.ndarray:
        """A regression's rows x as rows of the coordinates phi."""
        X = rows[0]
        return self.frame.design(X) if self.frame.far else X @ self.frame.matrix

    def predictors(self, phi: np.ndarray, rows: Rows) -> np.ndarray:
        """A regression's linear predictors, offsets aside: `features` times phi, without them."""
        return self._framed(rows)[0] @ self._argument(phi)

    def quadratic(self, phi: np.ndarray, rows: Rows, meat: bool = True) -> Quadratic:
        """The local model of rows in memory."""
        at, total = self._argument(phi), None
        for block in blocks(rows):
            sums = self._raw_sums(at, block, True, meat)
            total = sums if total is None else add(total, sums)
        assert total is not None
        return self._quadratic(phi, total, total_weight(rows), count_rows(rows))

    def read(
        self, phi: np.ndarray, watch=None, hessian: bool = True, meat: bool = True
    ) -> Quadratic:
        """The local model of all rows at phi; `watch` sees each block's count and gradient.

        Of H and M those are summed that are asked for; the other is NaN.
        """
        parts = hessian, meat
        if isinstance(self.source, Arrays):
            return self.read_slices(phi, self.source.starts, watch, parts)
        lanes = self.lanes(self.source.count)
        return self.read_blocks(phi, self.source.blocks(), watch, lanes, parts=parts)

    def read_slices(
        self,
        phi: np.ndarray,
        starts: Sequence[int] | np.ndarray,
        watch=None,
        parts: tuple[bool, bool] = (True, True),
    ) -> Quadratic:
        """The local model of the blocks of an array that begin at these rows."""
        source = self.source
        assert isinstance(source, Arrays)
        lanes = self.lanes(len(starts) * source.block)
        return self.read_blocks(phi, starts, watch, lanes, source.at, parts)

    def every_row(self) -> Iterable[Rows] | None:
        """All rows again, block by block; None where they are gone."""
        if self.whole:
            return blocks(self.kept)
        return self.source.blocks() if self.source.rereadable else None

    def lanes(self, rows: int | None) -> int:
        """Threads that sum over so many rows: XLA has threads of its own."""
        if not self.linear or (rows is not None and rows < THREAD_ROWS):
            return 1
        return self.threads if isinstance(self.source, Arrays) else half(self.threads)

    def read_blocks(
        self,
        phi: np.ndarray,
        pieces: Iterable[Any],
        watch=None,
        threads: int = 1,
        make: Callable[[Any], Rows] = lambda rows: rows,
        parts: tuple[bool, bool] = (True, True),
    ) -> Quadratic:
        """The local model of these blocks at phi; on Ctrl-C, of those that were read.

        Args:
            phi: the point.
            pieces: blocks, or what `make` makes them of.
            watch: sees each block's count and gradient.
            threads: that make blocks and sum over them.
            make: a block of a piece.
            parts: whether H, and whether M, is summed.
        """
        at, total, constants = self._argument(phi), None, np.zeros(2)
        count, seen = 0.0, 0

        def work(piece: Any) -> tuple[int, float, RowSums, np.ndarray | float]:
            rows = make(piece)
            known = self.constants(rows) if self.tally else 0.0
            return count_rows(rows), total_weight(rows), self._raw_sums(at, rows, *parts), known

        try:
            for n, m, sums, known in in_order(work, pieces, threads):
                total = sums if total is None else add(total, sums)
                count, seen, constants = count + m, seen + n, constants + known
                if watch is not None:
                    watch(n, m, sums.gradient)
                if self.stop.is_set():
                    break
        except KeyboardInterrupt:
            self.stop.set()
        if total is None and self.stop.is_set():
            raise KeyboardInterrupt
        if total is None:
            raise InputError("the data hold no rows; at least one observation is needed")
        return replace(self._quadratic(phi, total, count, seen), constants=constants)

    def _quadratic(self, phi: np.ndarray, sums: RowSums, count: float, rows: int) -> Quadratic:
        return Quadratic.of(count, phi, self.ridge.add(self._finish(sums), phi, count), rows)

    def constants(self, rows: Rows) -> np.ndarray:
        """What y alone adds to the deviance and to the likelihood."""
        if self.family is None:
            return np.zeros(2)
        y, a = rows[1], weight_of(rows)
        with np.errstate(all="ignore"):
            parts = self.family.saturated(y), self.family.base(y)
        return np.array([part.sum() if a is None else a @ part for part in parts])

    @cached_property
    def spread(self) -> bool:
        """Whether every column of the kept rows is carried by many of them, not by a few."""
        if self.family is None or self.kept is None:
            return True
        squares = np.square(self.features(self.kept))
        carried = squares.sum(0) ** 2 / np.maximum(np.square(squares).sum(0), 1e-300)
        return bool(carried.min() >= min(MANY, 0.1 * len(squares)))

    @cached_property
    def design_effect(self) -> float:
        """How much noisier sums are than those of rows that all have weight 1."""
        return 1.0 if self.kept is None else design_effect(self.kept)

    def noise(self, total: Quadratic) -> np.ndarray:
        """Variance of a sum of gradients a unit of weight, in the coordinates of blocks."""
        meat = self.design_effect * total.meat / total.count
        if self.frame.far:
            return meat
        back = np.linalg.inv(self.frame.matrix)
        return back.T @ meat @ back

    def _argument(self, phi: np.ndarray) -> np.ndarray:
        return phi if self.frame.far else self.frame.theta(phi)

    def _framed(self, rows: Rows) -> Rows:
        return with_design(rows, self.frame.design(rows[0])) if self.frame.far else rows

    def _finish(self, sums: RowSums) -> RowSums:
        return sums if self.frame.far else self.frame.sums(sums)

    def _raw_sums(self, at: np.ndarray, rows: Rows, hessian: bool, meat: bool) -> RowSums:
        framed = self._framed(rows)
        if self.family is not None:
            sums = linear_sums(self.family, framed, at, hessian, meat)
            if self.informed and hessian:
                sums = sums._replace(information=information_sum(self.family, framed, at))
        else:
            sums = self.model.row_sums(at, framed, hessian, meat)
        self._check(rows, sums)
        return sums

    def _check(self, rows: Rows, sums: RowSums) -> None:
        """A cheap look at a block; what is wrong with it is found by a slower one."""
        with np.errstate(over="ignore", invalid="ignore"):
            total = sums.gradient.sum() + sums.squares
            total += sum(m.sum() for m in (sums.hessian, sums.meat) if m is not None) + sums.loss
        fine = np.isfinite(total)
        if self.family is not None:
            low, high = float(rows[1].min()), float(rows[1].max())
            fine = fine and low >= self.family.lowest and high <= self.family.highest
            with self.lock:
                self.span[:] = min(self.span[0], low), max(self.span[1], high)
        if not fine:
            raise BadBlock(rows)


def add(a: RowSums, b: RowSums) -> RowSums:
    """Sums over two blocks at one point, both with the same parts."""
    return RowSums(
        a.gradient + b.gradient,
        plus(a.hessian, b.hessian),
        plus(a.meat, b.meat),
        a.squares + b.squares,
        np.maximum(a.peak, b.peak),
        a.loss + b.loss,
        plus(a.information, b.information),
    )


class BadBlock(Exception):
    """A block whose sums are not finite, or whose responses the model does not admit."""

    def __init__(self, rows: Rows):
        self.rows = rows

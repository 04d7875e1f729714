"""One read only: local quadratic models at a running estimate, summed.

The first rows are kept and fitted. Every later stretch of rows, each as long as all before it, is
summed at the optimum of what came before, so that few rows meet a poor pilot; at the end the kept
rows are taken at the estimate itself. What the quadratics miss is then measured on the kept rows,
stretch by stretch, and subtracted.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import chain

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays
from masgrad.fitting.carry import carry
from masgrad.fitting.correcting import Corrected, third_order, with_prior
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

Stretch = Callable[[np.ndarray, int], Quadratic | None]
"""The next so many rows, summed at a point; None where there are no more."""


def single_read(problem: Problem, start: Quadratic, kept: Rows, stretch: Stretch) -> Corrected:
    """The estimate from rows that are seen once; `start` is the local model of the kept ones."""
    seen = with_prior(problem)
    total = reduce(Quadratic.merge, seen, start)
    phi = total.point + total.newton()
    while not problem.stop.is_set() and (part := stretch(phi, total.count)) is not None:
        seen.append(part)
        total = total.merge(part)
        phi = total.point + total.newton()
    total = reduce(Quadratic.merge, seen, problem.quadratic(phi, kept))
    phi = total.point + total.newton()
    extra, left = third_order(problem, total, seen, phi, kept)
    phi = phi + extra
    tension = _tension(problem.quadratic(phi, kept))
    moved = total.errors(phi - start.point)
    return Corrected(carry(problem, total, seen, phi, kept), 1, moved, left, tension)


def _tension(kept: Quadratic) -> float:
    """How the kept rows' gradient at the estimate compares with its noise, in its own deviations.

    It is about chi-squared if the kept rows are like the others. They pull away where the order of
    rows is not random, or where responses are separated and no row is ever content.
    """
    free = len(kept.point)
    return float((kept.errors(kept.solve(kept.gradient)) ** 2 - free) / np.sqrt(2.0 * free))


def stretches_of_array(problem: Problem, starts: np.ndarray, watch) -> Stretch:
    """Stretches over blocks of an array that begin at these rows."""
    source, begin = problem.source, 0
    assert isinstance(source, Arrays)

    def stretch(phi: np.ndarray, rows: int) -> Quadratic | None:
        nonlocal begin
        end = begin + max(1, round(rows / source.block))
        part, begin = starts[begin:end], end
        return problem.read_slices(phi, part, watch) if len(part) else None

    return stretch


def stretches_of_blocks(problem: Problem, blocks: Iterator[Rows], watch) -> Stretch:
    """Stretches over blocks as they come."""

    def stretch(phi: np.ndarray, rows: int) -> Quadratic | None:
        first = next(blocks, None)
        if first is None:
            return None
        others = _up_to(blocks, rows - count_rows(first))
        return problem.read_blocks(phi, chain([first], others), watch)

    return stretch


def _up_to(blocks: Iterable[Rows], rows: int) -> Iterator[Rows]:
    blocks = iter(blocks)
    while rows > 0:
        block = next(blocks, None)
        if block is None:
            return
        rows -= count_rows(block)
        yield block

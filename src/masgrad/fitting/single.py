"""One read only: local quadratic models at a running estimate, summed.

The first rows are kept and fitted. Every later stretch of rows, each as long as all before it, is
summed at the optimum of what came before, so that few rows meet a poor pilot; at the end the kept
rows are taken at the estimate itself. What the quadratics miss is then measured on the kept rows,
stretch by stretch, and subtracted.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import chain

import numpy as np

from masgrad.data.arrays import count_rows
from masgrad.data.source import Arrays, up_to
from masgrad.fitting.ahead import look_ahead
from masgrad.fitting.alike import tension
from masgrad.fitting.carry import carry
from masgrad.fitting.correcting import Corrected, with_prior
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import Quadratic
from masgrad.types import Rows

Stretch = Callable[[np.ndarray, int], Quadratic | None]
"""The next so many rows, summed at a point; None where there are no more."""


def single_read(problem: Problem, start: Quadratic, kept: Rows, stretch: Stretch) -> Corrected:
    """The estimate from rows that are seen once; `start` is the local model of the kept ones."""
    seen: list[Quadratic] = []
    total = reduce(Quadratic.merge, with_prior(problem), start)
    phi = total.point + total.newton()
    problem.path.append((f"first {total.rows:,} rows", phi))
    while not problem.stop.is_set() and (part := stretch(phi, total.rows)) is not None:
        seen.append(part)
        total = total.merge(part)
        phi = total.point + total.newton()
        problem.path.append((f"{total.rows:,} rows", phi))
    total = reduce(Quadratic.merge, [*seen, *with_prior(problem)], problem.quadratic(phi, kept))
    phi = total.point + total.newton()
    ahead = look_ahead(problem, [*seen, *with_prior(problem)], total, phi, kept)
    phi = phi + ahead.extra
    pull = tension(problem.quadratic(phi, kept), problem.design_effect)
    moved = total.errors(phi - start.point)
    felt = max((q.felt(phi - q.point, problem.dispersed) for q in seen), default=0.0)
    local = carry(problem, total, ahead.parts, phi, kept)
    local = replace(local, constants=local.constants + problem.constants(kept))
    left = ahead.left if ahead.trusted else total.typical(phi - start.point)
    return Corrected(local, 1, moved, left, pull, felt)


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
        others = up_to(blocks, rows - count_rows(first))
        return problem.read_blocks(phi, chain([first], others), watch, problem.lanes(rows))

    return stretch

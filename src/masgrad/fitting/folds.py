"""Rows split for a path: all of them, and for cross-validation each fold and its complement.

A row's fold is drawn by the number of its block, so that every read splits the rows alike.
"""

from dataclasses import replace
from functools import reduce

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.regression import mass
from masgrad.errors import InputError
from masgrad.fitting.estimate import Sample
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem, add
from masgrad.fitting.proximal import is_quadratic
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.fitting.selection import FOLDS, InMemory, Split, Sums, walk
from masgrad.fitting.threads import in_order
from masgrad.fitting.watch import Watch
from masgrad.models.model import RowSums
from masgrad.types import Rows


def split(
    problem: Problem, lens: Lens, sample: Sample, criterion: str, seed: int, watch: Watch
) -> Split:
    """What a path is made of: sums for least squares, rows in memory, or local models."""
    folds = FOLDS if criterion == "cv" else 1
    if sample.whole and not is_quadratic(problem):
        return _in_memory(problem, sample.rows, folds, seed)
    psi = np.zeros(len(lens.unit))
    if not is_quadratic(problem):
        psi = _pilot(problem, lens, sample, criterion, folds, seed)
    return _from_sums(problem, lens.phi(psi), folds, seed, watch)


def _pilot(
    problem: Problem, lens: Lens, sample: Sample, criterion: str, folds: int, seed: int
) -> np.ndarray:
    """Where the local models are taken: what the criterion would choose of the kept rows alone.

    Its lam is that of fewer rows; the best one falls with their number like a square root.
    """
    kept = _in_memory(problem, sample.rows, folds, seed)
    path, psis = walk(lens, kept, criterion, problem.family)
    rows = problem.source.count or problem.length or mass(sample.rows)
    lam = path.lam * np.sqrt(mass(sample.rows) / max(rows, mass(sample.rows)))
    return kept.whole.optimum(lens.with_lam(lam), psis[path.chosen])


def _in_memory(problem: Problem, rows: Rows, folds: int, seed: int) -> Split:
    whole = InMemory(problem, rows)
    if folds == 1:
        return Split(whole)
    fold = _assigned(count_rows(rows), folds, seed, 0)
    return Split(
        whole,
        tuple(
            (InMemory(problem, _where(rows, fold != f)), InMemory(problem, _where(rows, fold == f)))
            for f in range(folds)
        ),
    )


def _from_sums(problem: Problem, phi: np.ndarray, folds: int, seed: int, watch: Watch) -> Split:
    """Local models of all folds at one point, from one read."""
    parts = _read(scoring(problem), phi, folds, seed, watch)
    total, squared = reduce(Quadratic.merge, parts), is_quadratic(problem)
    pairs = tuple((Sums(_minus(total, part), squared), Sums(part, squared)) for part in parts)
    return Split(Sums(total, squared), pairs if folds > 1 else ())


def _read(
    problem: Problem, phi: np.ndarray, folds: int, seed: int, watch: Watch
) -> list[Quadratic]:
    sums: list[RowSums | None] = [None] * folds
    counts = np.zeros(folds)

    def work(numbered: tuple[int, Rows]) -> list[tuple[float, RowSums] | None]:
        number, rows = numbered
        fold = _assigned(count_rows(rows), folds, seed, number)
        mine = [_where(rows, fold == f) if folds > 1 else rows for f in range(folds)]
        return [
            (mass(part), problem.block_sums(phi, part, meat=False)) if count_rows(part) else None
            for part in mine
        ]

    watch.restart()
    blocks = enumerate(problem.source.blocks())
    for done in in_order(work, blocks, problem.lanes(problem.source.count)):
        for f, part in enumerate(done):
            if part is not None:
                counts[f] += part[0]
                sums[f] = part[1] if sums[f] is None else add(sums[f], part[1])  # pyright: ignore
        watch.tick(sum(int(part[0]) for part in done if part is not None))
    if any(part is None for part in sums):
        raise InputError(f"there are too few rows for {folds} folds; give lam as a number")
    return [
        Quadratic.of(count, phi, part, int(count))  # pyright: ignore
        for count, part in zip(counts, sums, strict=True)
    ]


def _minus(total: Quadratic, part: Quadratic) -> Quadratic:
    """The local model of the other rows."""
    return replace(
        total,
        count=total.count - part.count,
        gradient=total.gradient - part.gradient,
        hessian=total.hessian - part.hessian,
        loss=total.loss - part.loss,
        squares=total.squares - part.squares,
    )


def _assigned(rows: int, folds: int, seed: int, number: int) -> np.ndarray:
    return np.random.default_rng([seed, 7, number]).integers(0, folds, rows)


def _where(rows: Rows, mask: np.ndarray) -> Rows:
    return pick(lambda a: a[mask], rows)

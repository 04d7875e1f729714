"""Rows split for a path: all of them, and for cross-validation each fold and its complement.

A row's fold is drawn by the number of its block, so that every read splits the rows alike.
"""

from dataclasses import replace
from functools import reduce

import numpy as np

from masgrad.data.arrays import count_rows, pick
from masgrad.data.regression import total_weight
from masgrad.errors import InputError
from masgrad.fitting.estimate import Plan, Sample
from masgrad.fitting.lens import Lens
from masgrad.fitting.parts import AllRows, InMemory, Split, Sums
from masgrad.fitting.problem import Problem, add
from masgrad.fitting.proximal import is_quadratic, origin
from masgrad.fitting.quadratic import Quadratic
from masgrad.fitting.scoring import scoring
from masgrad.fitting.selection import FOLDS, walk
from masgrad.fitting.threads import in_order
from masgrad.fitting.watch import Watch
from masgrad.models.model import RowSums
from masgrad.types import Rows

AROUND = 30.0
"""A path of local models begins at so many times the lam at which they were taken."""


def split(
    problem: Problem, lens: Lens, sample: Sample, criterion: str, plan: Plan, watch: Watch
) -> Split:
    """What a path is made of.

    Least squares: the sums of every fold, from one read. Other losses: the rows, if all are kept.
    If not, reads for every point; and where a criterion would need those of every fold, local
    models of the folds at what the criterion chooses of the kept rows.
    """
    folds = FOLDS if criterion == "cv" else 1
    if is_quadratic(problem):
        return _from_sums(problem, origin(problem, sample.rows), folds, plan.seed, watch)
    if sample.whole:
        return _in_memory(problem, sample.rows, folds, plan.seed)
    if not criterion:
        return Split(AllRows(problem, sample, plan, watch))
    lam, psi = _pilot(problem, lens, sample, criterion, folds, plan.seed)
    parts = _from_sums(problem, lens.phi(psi), folds, plan.seed, watch)
    return replace(parts, top=lam * AROUND)


def _pilot(
    problem: Problem, lens: Lens, sample: Sample, criterion: str, folds: int, seed: int
) -> tuple[float, np.ndarray]:
    """Where the local models are taken: what the criterion would choose of the kept rows alone.

    Its lam is that of fewer rows; the best one falls with their number like a square root.
    """
    kept = _in_memory(problem, sample.rows, folds, seed)
    path, psis = walk(lens, kept, criterion, problem.family)
    if path.stopped:
        raise KeyboardInterrupt
    n = count_rows(sample.rows)
    lam = path.lam * np.sqrt(n / max(problem.source.count or n, n))
    return lam, kept.whole.optimum(lens.with_lam(lam), psis[path.chosen])[0]


def _in_memory(problem: Problem, rows: Rows, folds: int, seed: int) -> Split:
    whole = InMemory(problem, rows)
    if folds == 1:
        return Split(whole)
    fold = _assigned(count_rows(rows), folds, seed, 0)
    if len(np.unique(fold)) < folds:
        raise _too_few(folds)
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
    counts, seen = np.zeros(folds), np.zeros(folds, int)

    def work(numbered: tuple[int, Rows]) -> list[tuple[int, float, RowSums] | None]:
        number, rows = numbered
        fold = _assigned(count_rows(rows), folds, seed, number)
        mine = [_where(rows, fold == f) if folds > 1 else rows for f in range(folds)]
        return [
            (count_rows(part), total_weight(part), problem.block_sums(phi, part, meat=False))
            if count_rows(part)
            else None
            for part in mine
        ]

    watch.restart()
    parts = problem.every_row()
    assert parts is not None
    try:
        for done in in_order(work, enumerate(parts), problem.lanes(problem.source.count)):
            for f, part in enumerate(done):
                if part is not None:
                    seen[f], counts[f] = seen[f] + part[0], counts[f] + part[1]
                    sums[f] = part[2] if sums[f] is None else add(sums[f], part[2])  # type: ignore
            watch.tick(sum(part[0] for part in done if part is not None))
    except KeyboardInterrupt:
        problem.stop.set()
    if any(part is None for part in sums):
        if problem.stop.is_set():
            raise KeyboardInterrupt
        raise _too_few(folds)
    return [
        Quadratic.of(count, phi, part, int(rows))  # pyright: ignore
        for count, rows, part in zip(counts, seen, sums, strict=True)
    ]


def _too_few(folds: int) -> InputError:
    return InputError(f"there are too few rows for {folds} folds; give lam as a number")


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

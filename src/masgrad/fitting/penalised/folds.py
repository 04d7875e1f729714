"""Rows split for a path: all of them, and for cross-validation each fold and its complement.

The fold of a row is drawn by the number of its block, so that every read splits the rows alike.
"""

from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from masgrad.data.arrays import blocks, count_rows, pick
from masgrad.data.regression import total_weight
from masgrad.errors import InputError
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective, Parts
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import ALL_BLOCKS, Addition, Numbered, numbered, these
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.proximal_newton import centre, is_quadratic
from masgrad.fitting.penalised.parts import AllRows, InMemory, Split, Sums
from masgrad.fitting.penalised.path import FOLDS, Criterion, walk
from masgrad.fitting.sources import Sample
from masgrad.models.model import RowSums, add
from masgrad.types import Rows

SPLITMIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
"""The increment and the factors of SplitMix64 (Steele, Lea and Flood 2014), a hash of counters."""

LAM_RANGE = 30.0
"""A path of local models begins at this many times the lam at which they were taken."""


def split(
    objective: Objective,
    reader: Reader,
    sample: Sample,
    space: PenaltyCoordinates,
    criterion: Criterion,
    options: Options,
) -> Split:
    """The sets of rows along a path.

    Least squares: the sums of every fold, from one read. Other losses: the rows, if all are kept.
    If not, reads for every point; and if a criterion would need those of every fold, local models
    of the folds at what the criterion chooses from the pilot rows.
    """
    folds = FOLDS if criterion.name == "cv" else 1
    if is_quadratic(objective):
        phi = centre(objective, sample.rows)
        return _from_sums(objective, reader, sample, phi, folds, options.seed)
    if sample.complete:
        return _in_memory(objective, sample.rows, folds, options.seed)
    if not criterion.name:
        return Split(AllRows(objective, reader, sample, options))
    kept = _in_memory(objective, sample.rows, folds, options.seed)
    lam, psi = _pilot_choice(reader.source.count, space, criterion, kept)
    parts = _from_sums(objective, reader, sample, space.phi(psi), folds, options.seed)
    return replace(parts, top=lam * LAM_RANGE)


def _pilot_choice(
    rows: int | None, space: PenaltyCoordinates, criterion: Criterion, kept: Split
) -> tuple[float, np.ndarray]:
    """What the criterion would choose from the pilot rows: lam for all rows, and psi there.

    The best lam falls with the number of rows like a square root.
    """
    path, psis = walk(space, kept, criterion)
    if path.stopped:
        raise KeyboardInterrupt
    assert isinstance(kept.whole, InMemory)
    n = count_rows(kept.whole.rows)
    lam = path.lam * np.sqrt(n / max(rows or n, n))
    return lam, kept.whole.optimum(space.with_lam(lam), psis[path.chosen])[0]


def _in_memory(objective: Objective, rows: Rows, folds: int, seed: int) -> Split:
    whole = InMemory(objective, rows)
    if folds == 1:
        return Split(whole)
    fold = fold_of_rows(count_rows(rows), folds, seed, 0)
    if len(np.unique(fold)) < folds:
        raise _too_few(folds)
    pairs = (
        tuple(InMemory(objective, _where(rows, mask)) for mask in (fold != f, fold == f))
        for f in range(folds)
    )
    return Split(whole, tuple(pairs))  # pyright: ignore


def _from_sums(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray, folds: int, seed: int
) -> Split:
    """Local models of all folds at one point, from one read."""
    parts = _read_folds(objective.scoring(), reader, sample, phi, folds, seed)
    total, squared = reduce(LocalModel.merge, parts), is_quadratic(objective)
    pairs = tuple((Sums(_minus(total, part), squared), Sums(part, squared)) for part in parts)
    return Split(Sums(total, squared), pairs if folds > 1 else ())


class _Fold(NamedTuple):
    """Sums over the rows of one fold."""

    rows: int
    weight: float
    sums: RowSums
    constants: np.ndarray

    def plus(self, other: "_Fold") -> "_Fold":
        sums = add(self.sums, other.sums)
        constants = self.constants + other.constants
        return _Fold(self.rows + other.rows, self.weight + other.weight, sums, constants)


def _read_folds(
    objective: Objective, reader: Reader, sample: Sample, phi: np.ndarray, folds: int, seed: int
) -> list[LocalModel]:
    def of_fold(rows: Rows) -> _Fold | None:
        if not count_rows(rows):
            return None
        known = objective.constants(rows) if is_quadratic(objective) else np.zeros(2)
        sums = objective.block_sums(phi, rows, Parts(meat=False))
        return _Fold(count_rows(rows), total_weight(rows), sums, known)

    def work(block: Numbered) -> list[_Fold | None]:
        rows = block.rows
        fold = fold_of_rows(count_rows(rows), folds, seed, block.begin)
        return [of_fold(_where(rows, fold == f) if folds > 1 else rows) for f in range(folds)]

    reader.restart()
    workers = reader.workers(objective, reader.source.count)
    cut = numbered(these(blocks(sample.rows)) if sample.complete else ALL_BLOCKS)
    found = reader.total(work, Addition(_both), workers, cut, whole=False)
    if found is None or any(fold is None for fold in found):
        if reader.monitor.interrupted:
            raise KeyboardInterrupt
        raise _too_few(folds)
    return [
        replace(LocalModel.of(f.weight, phi, f.sums, f.rows), constants=f.constants) for f in found
    ]


def _both(a: list[_Fold | None], b: list[_Fold | None]) -> list[_Fold | None]:
    return [
        (mine or other) if mine is None or other is None else mine.plus(other)
        for mine, other in zip(a, b, strict=True)
    ]


def _too_few(folds: int) -> InputError:
    return InputError(f"there are too few rows for {folds} folds; give lam as a number")


def _minus(total: LocalModel, part: LocalModel) -> LocalModel:
    """The local model of the other rows."""
    return replace(
        total,
        count=total.count - part.count,
        gradient=total.gradient - part.gradient,
        hessian=total.hessian - part.hessian,
        loss=total.loss - part.loss,
        squares=total.squares - part.squares,
        constants=total.constants - part.constants,
    )


def fold_of_rows(rows: int, folds: int, seed: int, begin: int) -> np.ndarray:
    """The fold of each row, by a hash of its number among all rows: wherever blocks are cut."""
    key = np.random.SeedSequence([seed, 7]).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):
        z = key + np.arange(begin, begin + rows, dtype=np.uint64) * SPLITMIX[0]
        for shift, factor in zip((30, 27), SPLITMIX[1:], strict=True):
            z = (z ^ (z >> np.uint64(shift))) * factor
        return ((z ^ (z >> np.uint64(31))) % np.uint64(folds)).astype(np.intp)


def _where(rows: Rows, mask: np.ndarray) -> Rows:
    return pick(lambda a: a[mask], rows)

"""Separation: directions along which the likelihood rises for ever, found and verified.

A row is at its boundary if its loss falls for ever one way: y = 0 (s = -1), and y = 1 of a binomial
response (s = 1). Every other row is interior. If the loss is convex in the linear predictor, the
likelihood has no maximum exactly if there is a recession direction d with

    s_i x_i'd >= 0 at the boundary,  > 0 for some of these rows,  x_i'd = 0 for interior rows

(Albert & Anderson 1984; Correia, Guimaraes & Zylkin 2019). Rows with x_i'd > 0 are separated: their
loss and gradient vanish in the limit, and the others are fitted without them, as long as those have
a recession direction of their own. Two certificates end the search.

- An optimum exists: the Newton step of some point leaves every residual its sign (`rank.py`), or
  some rows of full rank have no recession direction; more rows only remove directions.
- The rows are separated: the signs of s_i x_i'd were verified on all rows in one read. A row is on
  the border if |x_i'd| <= 1e-9 |x_i| |d|, so that no unit, order or block matters.

Candidates are, in this order, the step of a Newton path, on the null space of the rows that it does
not carry to their boundary; a linear program over the rows that matter, below a size; and the
iterative rectifier, least squares of the positive part of the last fit. Each takes a bounded number
of reads. If none ends with a certificate, separation is undecided.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from masgrad.data.arrays import pick
from masgrad.fitting.identification.boundary import (
    Block,
    Guess,
    Verified,
    block_of,
    furthest,
    square,
)
from masgrad.fitting.identification.program import (
    LARGEST_PROGRAM,
    PROGRAMS,
    maximal_direction,
    of_length_one,
)
from masgrad.fitting.identification.rank import (
    BORDER,
    Separation,
    advances,
    empty_columns,
    has_optimum,
    sides,
)
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition, Cut
from masgrad.fitting.sources import Sample
from masgrad.models.gram import ZERO_EIGENVALUE, null_basis, scaled_spectrum
from masgrad.types import Rows

CARRIED = 0.5
"""Share of a row's own Newton step beyond which a path carries it to its boundary."""

CLEARLY = 1e-3
"""Cosine between a row and a candidate beyond which the row may be separated."""

FIRST_ROWS = 2000
"""Rows of the first program."""

RECTIFIER_STEPS, RECTIFIER_TRIALS = 12, 3
"""Least-squares fits of the rectifier before a trial, and the number of trials."""

POLISHINGS = 3
"""Projections of one candidate on the null space of the rows that it leaves on the border."""


def exists(local: LocalModel) -> Separation:
    """An optimum exists."""
    none = np.empty((len(local.point), 0))
    return Separation(False, none, none)


def undecided(local: LocalModel) -> Separation:
    """No certificate: directions without information have no estimate, whatever the reason."""
    return Separation(None, np.empty((len(local.point), 0)), local.null_directions)


@dataclass(frozen=True)
class Search:
    """A search over all rows of a reader, from the local model of all rows at a point."""

    objective: Objective
    reader: Reader
    sample: Sample
    local: LocalModel

    def decide(self) -> Separation:
        if has_optimum(self.objective, self.local, self._holds):
            return exists(self.local)
        fixed = self.fixed.shape[1]
        if fixed and has_optimum(self.objective, self.local, self._holds, fixed):
            return exists(self.local)
        if not self.interior.shape[1]:
            return exists(self.local)
        for candidate in (self._from_path, self._from_programs, self._from_rectifier):
            found = candidate()
            if found is not None:
                return found
        return undecided(self.local)

    @cached_property
    def empty(self) -> np.ndarray:
        """Indices of the columns that are 0 in every row; collinear columns are an error."""
        if (known := known_separation(self.reader)) is not None:
            return known.empty
        gram = self._gram(lambda block: np.zeros(len(block.s), bool))
        return empty_columns(self.objective.coordinates, gram, self.reader.source.names)

    @cached_property
    def fixed(self) -> np.ndarray:
        """Directions that no row knows: empty columns, and those of rows that are left out."""
        axes, known = self._axes, known_separation(self.reader)
        return axes if known is None else np.column_stack([axes, known.null])

    @property
    def _axes(self) -> np.ndarray:
        return np.eye(len(self.local.point))[:, self.empty]

    @cached_property
    def interior(self) -> np.ndarray:
        """Basis of the directions along which no interior row moves, (p, k)."""
        return null_basis(self._gram(lambda block: block.s != 0), self.fixed)

    # Reads.

    def _every(self) -> Cut:
        cut = self.reader.every_row(self.sample)
        assert cut is not None
        return cut

    def _holds(self, test: Callable[[Rows], bool]) -> bool:
        return self.reader.holds(test, self._every())

    def _total(self, of: Callable[[Block], Any], plus: Callable[[Any, Any], Any] = np.add) -> Any:
        """What blocks of rows give, added."""
        objective = self.objective
        with self.reader.unobserved() as quiet:
            add = Addition(plus)
            return quiet.total(lambda rows: of(block_of(objective, rows)), add, cut=self._every())

    def _gram(self, guess: Guess) -> np.ndarray:
        """Sum of x x' over the rows that are not guessed to be separated, scaled to length 1."""
        return self._total(lambda block: square(block.U[~guess(block)]))

    def _verify(self, d: np.ndarray) -> Verified:
        """Which rows are on the wrong side of d, and the Gram matrix of those on its border."""

        def of(block: Block) -> Verified:
            along = block.U @ d
            off = np.abs(along) > BORDER
            right = off & (block.s * along > 0)
            signs = np.where(block.s == 0, -np.sign(along), block.s)
            wrong = furthest((signs[:, None] * block.U)[off & ~right], d)
            return Verified(wrong, int(right.sum()), int((~off).sum()), square(block.U[~off]))

        return self._total(of, partial(Verified.plus, d=d))

    def _accepted(self, d: np.ndarray) -> Separation | Verified:
        """The separation along d, if every row is on its side."""
        d = d / np.linalg.norm(d)
        seen = self._verify(d)
        if len(seen.wrong) or not seen.separated:
            return seen
        known, null = known_separation(self.reader), null_basis(seen.gram, self._axes)
        recession = d[:, None] if known is None else np.column_stack([known.recession, d])
        null = self._refined(null, d, seen.gram)
        return Separation(True, recession, null, self.empty, seen.border)

    def _refined(self, null: np.ndarray, d: np.ndarray, gram: np.ndarray) -> np.ndarray:
        """The null space, corrected by products of rows with it, which keep more digits."""

        def of(block: Block) -> np.ndarray:
            U = block.U[np.abs(block.U @ d) <= BORDER]
            return U.T @ (U @ null)

        total = self._total(of)
        size, values, Q = scaled_spectrum(gram)
        keep = values > ZERO_EIGENVALUE
        along = (Q[:, keep].T @ (total / size[:, None])) / values[keep][:, None]
        return np.linalg.qr(null - Q[:, keep] @ along / size[:, None])[0]

    # Candidates.

    def _polished(self, d: np.ndarray, guess: Guess) -> Separation | None:
        """d on the null space of the rows that are not guessed, then of those it leaves behind."""
        for _ in range(POLISHINGS):
            null = null_basis(self._gram(guess), self.fixed)
            d = null @ (null.T @ d)
            if not d.any():
                return None
            found = self._accepted(d)
            if isinstance(found, Separation):
                return found
            guess = _carried_by(d)
        return None

    def _from_path(self) -> Separation | None:
        """The Newton step, and the point that the path has reached."""
        phi, step = self.local.point, self.local.newton()
        d = self.interior @ (self.interior.T @ phi)
        found = self._accepted(d) if d.any() else None
        if isinstance(found, Separation):
            return found
        return self._polished(step, _carried_by_step(self.objective, phi, step))

    def _from_programs(self) -> Separation | None:
        """Linear programs over the rows that matter, until none is on the wrong side."""
        k = self.interior.shape[1]
        most = LARGEST_PROGRAM // k
        if most < 2 * k:
            return None
        chosen = self._working_set(min(most, FIRST_ROWS))
        for _ in range(PROGRAMS):
            c = None if len(chosen) > most else maximal_direction(chosen)
            if c is None or self.reader.monitor.interrupted:
                return None
            if not c.any():
                free = null_basis(chosen.T @ chosen, np.empty((k, 0)))
                if not free.shape[1]:  # rows of full rank without a recession direction
                    return exists(self.local)
                c = free[:, 0]
            found = self._accepted(self.interior @ c)
            if isinstance(found, Separation):
                return found
            chosen = np.concatenate([chosen, of_length_one(found.wrong @ self.interior)])
        return None

    def _working_set(self, most: int) -> np.ndarray:
        """Pilot rows at their boundary with the smallest margins, in the interior's directions."""
        objective, rows = self.objective, self.sample.rows
        s = sides(objective, rows)
        margins = np.where(s == 0, np.inf, s * objective.predictors(self.local.point, rows))
        first = np.argsort(margins, kind="stable")[: min(most, np.count_nonzero(s))]
        signed = s[first, None] * objective.features(pick(lambda a: a[first], rows))
        return of_length_one(signed @ self.interior)

    def _from_rectifier(self) -> Separation | None:
        """Least squares of the positive part of the last fit, beginning with 1 for every row."""
        gram = self.interior.T @ self._gram(lambda block: block.s == 0) @ self.interior
        inverse, c = np.linalg.pinv(gram, rcond=ZERO_EIGENVALUE, hermitian=True), None
        for _ in range(RECTIFIER_TRIALS):
            for _ in range(RECTIFIER_STEPS):
                c = inverse @ self._rectified(c)
            assert c is not None
            d = self.interior @ c
            if self.reader.monitor.interrupted or not d.any():
                return None
            found = self._polished(d, _carried_by(d))
            if found is not None:
                return found
        return None

    def _rectified(self, c: np.ndarray | None) -> np.ndarray:
        """Sum of z max(z'c, 0) over the rows at their boundary; of z alone at first."""
        d = None if c is None else self.interior @ c

        def of(block: Block) -> np.ndarray:
            part = 1.0 if d is None else np.maximum(block.s * (block.U @ d), 0.0)
            return (block.s * part) @ block.U

        return self.interior.T @ self._total(of)


def known_separation(reader: Reader) -> Separation | None:
    """The separation of rows that the reader leaves out already."""
    return getattr(reader.source, "separation", None)


def _carried_by_step(objective: Objective, phi: np.ndarray, step: np.ndarray) -> Guess:
    return lambda block: advances(objective, phi, step, block.rows) > CARRIED


def _carried_by(d: np.ndarray) -> Guess:
    """Rows that are clearly on their side of d."""
    least = CLEARLY * np.linalg.norm(d)
    return lambda block: block.s * (block.U @ d) > least

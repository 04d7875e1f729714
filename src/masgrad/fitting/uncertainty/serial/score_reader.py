"""Scores of all rows at an estimate, block by block."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.groupings.grouping import Grouping, places_of_role
from masgrad.data.regression import groups_of
from masgrad.data.source import Arrays
from masgrad.errors import InputError
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.serial.scores import scores_of
from masgrad.types import Rows

Done = TypeVar("Done")

Codes = Callable[[Rows], np.ndarray]
"""The codes of rows in a grouping."""


@dataclass(frozen=True)
class ScoreReader:
    """Reads the scores of all rows at an estimate."""

    objective: Objective
    reader: Reader
    sample: Sample
    point: np.ndarray
    options: Options

    def total(self, part: Callable[[np.ndarray], Any], then: Callable[[Any, Any], Any]) -> Any:
        """`part` of the scores of each block, in their order, one joined to the next."""
        objective, point = self.objective, self.point

        def work(rows: Rows) -> Any:
            return part(scores_of(objective, point, rows))

        workers = self.reader.workers(self.objective, self.reader.source.count)
        return self.reader.total(work, Addition(then), workers)

    def gathered(
        self,
        part: Callable[[np.ndarray, Rows], Done],
        take: Callable[[Any, Done], None],
        state: Any,
        *,
        ordered: bool,
    ) -> Any:
        """The state, once it has taken `part` of the scores and rows of each block."""
        objective, point = self.objective, self.point

        def work(rows: Rows) -> Done:
            return part(scores_of(objective, point, rows), rows)

        return self.gathered_rows(work, take, state, ordered=ordered)

    def gathered_rows(
        self,
        work: Callable[[Rows], Done],
        take: Callable[[Any, Done], None],
        state: Any,
        *,
        ordered: bool,
    ) -> Any:
        """The state, once it has taken `work` on the rows of each block."""
        if self.sample.complete and not ordered:
            for rows in blocks(self.sample.rows):
                take(state, work(rows))
            return state
        workers = self.reader.workers(self.objective, self.reader.source.count)
        return self.reader.gathered(work, take, state, workers)

    def reads(self, ordered: bool) -> int:
        """Reads of rows that are not in memory."""
        held = isinstance(self.reader.source, Arrays) or not ordered
        return 0 if self.sample.complete and held else 1

    def grouping(self, role: str) -> tuple[Grouping, Codes] | None:
        """The grouping with a role, and the codes of rows in it."""
        groupings = self.reader.source.groupings
        places = places_of_role(groupings, role)
        if len(places) > 1:
            raise InputError(
                f"{role} has {len(places)} columns; one is needed, or one of combinations: 'a^b'"
            )
        return (groupings[places[0]], partial(_column, places[0])) if places else None


def _column(column: int, rows: Rows) -> np.ndarray:
    codes = groups_of(rows)
    assert codes is not None
    return codes[:, column]

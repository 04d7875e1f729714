"""Whether every read gives the same number of rows.

A function that starts a stream may go on where it stopped instead of starting anew; an estimate
from reads of different rows would be about none of them. Only reads that came to their end are
compared: the first, of which some rows are kept, and MasGrad's may stop early.
"""

from collections.abc import Iterator

from masgrad.data.arrays import count_rows
from masgrad.errors import InputError
from masgrad.fitting.problem import Problem
from masgrad.types import Rows


class Counted(Iterator[Rows]):
    """The same blocks; how many rows they held, and whether they came to an end."""

    def __init__(self, blocks: Iterator[Rows]):
        self.blocks, self.rows, self.ended = blocks, 0, False

    def __next__(self) -> Rows:
        try:
            block = next(self.blocks)
        except StopIteration:
            self.ended = True
            raise
        self.rows += count_rows(block)
        return block


def check_length(problem: Problem, rows: int) -> None:
    """Reject a complete read of another length than an earlier one."""
    if problem.stop.is_set():  # then the read is not complete
        return
    kept = 0 if problem.kept is None else count_rows(problem.kept)
    if problem.length is None:
        problem.length = rows
    if rows != problem.length:
        raise _differ(f"{problem.length:,}", rows)
    if rows < kept:
        raise _differ(f"at least {kept:,}", rows)


def _differ(before: str, rows: int) -> InputError:
    return InputError(
        f"one read of the data gave {before} rows and a later one {rows:,}: every read must give "
        "the same rows; a function given to mg.Stream starts them anew at each call"
    )

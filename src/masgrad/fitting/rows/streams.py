"""What rows of regressions and of other losses have in common: streams, and what is refused."""

from collections.abc import Callable, Sequence
from typing import Any

from masgrad.data.arrays import BLOCK
from masgrad.data.groupings.grouping import Grouping
from masgrad.data.left_out import LeftOut, Tally
from masgrad.data.source import Source
from masgrad.data.stream import Stream
from masgrad.errors import InputError
from masgrad.types import Rows

NO_WEIGHT = "every weight is 0; at least one row of positive weight is needed"


def stream_of(
    data: Any,
    check: Callable[[Rows, Tally], Rows | None],
    block: int | None,
    *,
    real: bool,
    groupings: Sequence[Grouping] = (),
    left_out: LeftOut | None = None,
) -> Source:
    """A stream, whose blocks are checked; other sources as they are.

    Args:
        data: a source or an iterator, which is read once.
        check: makes checked rows of a block, and counts those that are left out.
        block: rows of a block.
        real: whether integers are converted to floats.
        groupings: those that `check` finds in the first block.
        left_out: where they are counted, if any are.
    """
    if isinstance(data, Source) and not isinstance(data, Stream):
        return data
    start, again = (
        (data.start, data.rereadable) if isinstance(data, Stream) else (lambda: data, False)
    )
    size = block or BLOCK
    about = {"real": real, "groupings": groupings, "left_out": left_out}
    return Stream(start, again, size, check=check, **about)


def is_a_file(data: Any) -> InputError:
    """The error for files of which it is not said what is fitted."""
    return InputError(
        f"{data!r:.80} is a file; say what is fitted: formula='y ~ a + b', or use mg.glm"
    )

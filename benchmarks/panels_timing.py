"""Wall and processor times of programs that run in turn."""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fit_timing import LONG

ROUNDS = 3


class Times(NamedTuple):
    """The shortest seconds of several runs: by the wall's clock, and of all processors."""

    wall: float = float("inf")
    processor: float = float("inf")

    def over(self, other: "Times") -> tuple[float, float]:
        """Both ratios."""
        return self.wall / other.wall, self.processor / other.processor


def clocked(program: Callable[[], Any]) -> tuple[Times, Any]:
    """The times of one run, and its result."""
    began = time.perf_counter(), time.process_time()
    out = program()
    return Times(time.perf_counter() - began[0], time.process_time() - began[1]), out


def in_rounds(
    programs: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS
) -> tuple[dict[str, Times], dict[str, Any]]:
    """The best times of each program, and its last result; long ones run once."""
    best, out = dict.fromkeys(programs, Times()), {}
    for k in range(rounds):
        for name, program in programs.items():
            if k == 0 or best[name].wall <= LONG:
                took, out[name] = clocked(program)
                best[name] = Times(*map(min, best[name], took))
    return best, out

"""Times of programs measured in turn, and the peak memory of a process.

Ratios compare programs that ran one after another in one process, since the speed of a machine
changes from minute to minute.
"""

import pathlib
import time
from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]

LONG = 15.0
"""Seconds above which a program runs once: caches matter little to it."""


def seconds(program: Program) -> tuple[float, Any]:
    """The time of one run and its result."""
    began = time.perf_counter()
    out = program()
    return time.perf_counter() - began, out


def best_of(program: Program, rounds: int) -> tuple[float, Any]:
    """The shortest time of several runs, fewer if they are long, and the last result."""
    best, out = seconds(program)
    for _ in range(rounds - 1):
        if best > LONG:
            break
        took, out = seconds(program)
        best = min(best, took)
    return best, out


def in_turn(
    programs: dict[str, Program], turns: int = 1
) -> tuple[dict[str, float], dict[str, Any]]:
    """The best time of each program, and its last result.

    A turn is two runs of one program: the first meets caches, freed memory and spinning threads
    as the program before has left them.
    """
    best, out = dict.fromkeys(programs, float("inf")), {}
    for _ in range(turns):
        for name, program in programs.items():
            took, out[name] = best_of(program, 2)
            best[name] = min(best[name], took)
    return best, out


def peak_memory() -> float:
    """Gigabytes; getrusage would count the process that started this one."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 2**20

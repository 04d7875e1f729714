"""The keywords of `fit`, checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.checks import as_size
from masgrad.cores import cores
from masgrad.data.arrays import BLOCK
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.estimate import Plan
from masgrad.fitting.sources import as_bytes
from masgrad.penalties.penalty import Penalty

METHODS = ("sandwich", "chains")


@dataclass(frozen=True)
class Options:
    """The keywords of `fit`, checked."""

    plan: Plan
    cov_type: str
    method: str
    chains: int
    start: Any
    starts: int
    memory: int
    block: int
    threads: int
    progress: bool | None
    penalty: Penalty | None


def options_of(
    passes: Any = "auto",
    cov_type: str = "robust",
    method: str = "sandwich",
    chains: int = 20,
    step_size: float = 1.0,
    start: Any = None,
    starts: int = 10,
    memory: str | int = "512MB",
    block_size: int = BLOCK,
    threads: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    penalty: Penalty | None = None,
) -> Options:
    """The keywords of `fit`, checked."""
    return Options(
        Plan(_passes(passes), as_size("step_size", step_size), _whole("seed", seed, 0)),
        cov_type,
        _method(method),
        _whole("chains", chains, 4),
        start,
        _whole("starts", starts, 1),
        as_bytes(memory),
        _whole("block_size", block_size, 16),
        cores() if threads is None else _whole("threads", threads, 1),
        progress,
        _penalty(penalty),
    )


def _passes(passes: Any) -> int | str:
    if passes in ("auto", "converge"):
        return passes
    if isinstance(passes, str):
        raise InputError(f"passes={passes!r}; 'auto', 'converge' or a number of reads is needed")
    return _whole("passes", passes, 1)


def _method(method: str) -> str:
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; use one of {', '.join(METHODS)}")
    return method


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name}={value!r}; a whole number is needed")
    if value < least:
        raise InputError(f"{name}={value}; at least {least} is needed")
    return int(value)


def _penalty(penalty: Any) -> Penalty | None:
    if penalty is None or isinstance(penalty, Penalty):
        return penalty
    raise InputTypeError(
        f"penalty={penalty!r:.60}; a penalty is needed, such as mg.L1(0.1), mg.L2(0.1)"
    )

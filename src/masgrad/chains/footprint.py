"""What one step of a run holds in memory, estimated before it starts."""

from typing import Any

from masgrad.chains.engine.crew import threads
from masgrad.chains.groups import group_size
from masgrad.errors import InputError
from masgrad.kernels.adjustment import InverseHistory, RootAdjustment
from masgrad.kernels.fixed import FirstRoot
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.running import RunningRoot

STEP_BYTES = 6 * 2**30
MATRICES_PER_STEP = 3
"""Matrices that a step holds at once: the covariance, its factor and the result."""


def check_footprint(kernel: Any, n: int | None, p: int, chains: int) -> None:
    """Refuse a step whose p x p matrices, or n x p factors, would not fit."""
    if not isinstance(kernel, Kernel):
        return
    together = min(chains, group_size(chains) * threads(kernel, p))
    square, factor = _holds(kernel, n, p)
    numbers = MATRICES_PER_STEP * together * (p * p * square + (n or 0) * p * factor)
    numbers += chains * p * p * square * _matrices_kept(kernel)
    if 8 * numbers <= STEP_BYTES:
        return
    what = f"{p} x {p} covariances" if square else f"{n} x {p} gradients"
    remedy = (
        "a batch_size with covariance='batch', root='low_rank' or 'diagonal', and a ridge"
        if square
        else "a smaller batch_size"
    )
    raise InputError(
        f"a step would hold {what} for {together} chains at a time, about "
        f"{8 * numbers / 2**30:.0f} GiB; use {remedy}, or fewer chains"
    )


def _holds(kernel: Kernel, n: int | None, p: int) -> tuple[bool, bool]:
    """Whether a step forms a p x p matrix, and an n x p factor, for each chain."""
    adjustment = kernel.adjustment
    part = adjustment.batch_part(n, p) if n is not None else "cov"
    needs = adjustment.needs_population or adjustment.needs_first
    if kernel.gradient.needs_population or needs:
        return True, False
    if isinstance(adjustment, RootAdjustment):
        return part == "cov" or adjustment.kind == "rank_one", part == "factor"
    return isinstance(adjustment, InverseHistory) and not adjustment.diagonal, False


def _matrices_kept(kernel: Kernel) -> int:
    """The number of p x p matrices that each chain stores between steps."""
    adjustment = kernel.adjustment
    if isinstance(adjustment, RunningRoot):
        return 1 if adjustment.root_every == 1 else 3  # the average; V and its inverse
    if isinstance(adjustment, FirstRoot):
        return 2
    return int(isinstance(adjustment, InverseHistory))

"""What one step of a run holds in memory, estimated before it starts."""

from typing import Any

from masgrad.chains.groups import available_cores, group_size
from masgrad.errors import InputError
from masgrad.kernels.adjustment import InverseHistory, RootAdjustment
from masgrad.kernels.kernel import Kernel

STEP_BYTES = 6 * 2**30
COPIES = 3
"""A step holds a matrix, its factor and what it becomes."""


def check_footprint(kernel: Any, n: int | None, p: int, chains: int) -> None:
    """Refuse a step whose p x p matrices, or n x p factors, would not fit."""
    if not isinstance(kernel, Kernel):
        return
    together = min(chains, group_size(chains) * available_cores())
    square = _holds_square(kernel, n, p)
    numbers = COPIES * (p * p if square else (n or 0) * p) * together
    if 8 * numbers <= STEP_BYTES:
        return
    what = f"{p} x {p} covariances" if square else f"{n} x {p} gradients"
    remedy = (
        "covariance='batch' with root='low_rank' or 'diagonal' and a ridge"
        if square
        else "a smaller batch_size"
    )
    raise InputError(
        f"a step would hold {what} of {together} chains at a time, about {8 * numbers / 2**30:.0f} "
        f"GiB; use fewer chains, or {remedy}"
    )


def _holds_square(kernel: Kernel, n: int | None, p: int) -> bool:
    """Whether a step forms a p x p matrix for each chain."""
    adjustment = kernel.adjustment
    if kernel.gradient.needs_population or adjustment.needs_population:
        return True
    if isinstance(adjustment, InverseHistory):
        return not adjustment.diagonal
    if not isinstance(adjustment, RootAdjustment):
        return False
    return n is None or adjustment.batch_part(n, p) == "cov"

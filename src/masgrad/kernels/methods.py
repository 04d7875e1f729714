"""The processes of the paper by name: each fills the slots of one kernel."""

from typing import Literal

import numpy as np

from masgrad.covariance.choose import check_factor_ridge, check_kind, check_ridge
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.adjustment import (
    BatchRoot,
    Identity,
    InverseFisher,
    InverseHistory,
    PopulationRoot,
    RunningRoot,
)
from masgrad.kernels.kernel import Kernel
from masgrad.types import RootKind, StepSize

ROOTS = {"population": PopulationRoot, "batch": BatchRoot, "running": RunningRoot}


def sgd(step_size: StepSize) -> Kernel:
    """Stochastic gradient descent: theta' = theta - eta g.

    Paper: SGD - the mini-batch update without adjustment

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.sgd(lambda t: 0.5 / (1 + t) ** 0.6)   # a schedule of the step number
    """
    return Kernel(_step_size(step_size), Identity())


def masgrad(
    step_size: StepSize,
    covariance: Literal["population", "batch", "running"] = "population",
    root: RootKind = "symmetric",
    ridge: float = 0.0,
) -> Kernel:
    """Moment-adjusted stochastic gradient descent: theta' = theta - eta V(theta)^-1 g.

    Paper: MasGrad - theta' = theta - eta V(theta)^-1 times the mini-batch gradient
    Paper: preconditioning - without noise a constant V is preconditioning by A^2 = V^-1

    Args:
        step_size: a float, or a schedule of the step number from 0, written with jax.numpy.
        covariance: where V comes from: all rows at each chain's own theta, the batches before
            this one, or this very batch (the plug-in, which shifts the target by O(1/n)).
        root: "symmetric", the theorems' root, which "auto" computes by the fastest way, "products"
            without eigenvalues and "low_rank" from fewer rows than parameters; "diagonal" drops the
            correlations; "rank_one" is the paper's recursion over a batch, a rotated root.
        ridge: added to Sigma. A batch of n <= p rows needs one: it sets the step's length.

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.masgrad(0.2)
    """
    if covariance not in ROOTS:
        raise InputError(f"covariance={covariance!r} is not known; use one of {sorted(ROOTS)}")
    ridge = check_ridge(ridge)
    if check_kind(root) == "rank_one" and covariance != "batch":
        raise InputError(
            f"root='rank_one' is a recursion over a batch's gradients, and covariance="
            f"{covariance!r} keeps none; use covariance='batch'"
        )
    if covariance == "batch":
        check_factor_ridge(root, ridge)
    adjustment = ROOTS[covariance](kind=root, ridge=np.asarray(ridge))
    return Kernel(_step_size(step_size), adjustment)


def natural_gradient(step_size: StepSize) -> Kernel:
    """Natural gradient: theta' = theta - eta I(theta)^-1 g with the uncentred I = E[g g'].

    Paper: natural gradient - the baseline of information geometry
    """
    return Kernel(_step_size(step_size), InverseFisher())


def adagrad(step_size: StepSize, diagonal: bool = True) -> Kernel:
    """AdaGrad: theta' = theta - eta G_t^-1/2 g with G_t the sum of g g', this step's included.

    Paper: AdaGrad - the whole history G_t or its diagonal
    """
    return Kernel(_step_size(step_size), InverseHistory(bool(diagonal)))


def _step_size(step_size: StepSize) -> StepSize:
    """A schedule as it is; a number as a NumPy array, which jit traces and x64 does not cut."""
    if callable(step_size):
        return step_size
    if isinstance(step_size, bool | str) or step_size is None:
        raise InputTypeError(
            f"step_size={step_size!r}; a number, or a function of the step number, is needed"
        )
    value = np.asarray(step_size, np.float64)
    if value.ndim or not np.isfinite(value) or value <= 0:
        raise InputError(f"step_size={step_size!r}; one finite number > 0 is needed")
    return value  # type: ignore[return-value]

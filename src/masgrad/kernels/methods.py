"""The processes of the paper by name: each fills the slots of one kernel."""

from typing import Literal

import numpy as np

from masgrad.covariance.root import check_kind
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
        root: the symmetric root of the theorems, its diagonal, or low rank plus ridge.
        ridge: added to Sigma.

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.masgrad(0.2)
    """
    if covariance not in ROOTS:
        raise InputError(f"covariance={covariance!r} is not known; use one of {sorted(ROOTS)}")
    ridge = float(ridge)
    if not (np.isfinite(ridge) and ridge >= 0):
        raise InputError(f"ridge={ridge}; it is added to Sigma: a finite number >= 0 is needed")
    if check_kind(root) == "low_rank" and covariance == "batch" and ridge == 0:
        raise InputError("root='low_rank' of a batch needs ridge > 0: it is V^2 outside its span")
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

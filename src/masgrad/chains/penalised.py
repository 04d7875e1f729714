"""What `run` and the laws check of kernels with a penalty."""

from typing import Any

import numpy as np

from masgrad.covariance.choose import make_root
from masgrad.errors import InputError
from masgrad.kernels.adjustment import PopulationRoot
from masgrad.kernels.fixed import FirstRoot, GivenRoot
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.moment_function import moment_function
from masgrad.models.model import Model
from masgrad.penalties.fits import check_fits


def check_smooth(kernel: Any) -> None:
    """Refuse a penalised kernel: laws linearise the update, and a proximal map has kinks."""
    if isinstance(kernel, Kernel) and kernel.prox.penalty is not None:
        raise InputError(
            f"a kernel with the penalty {kernel.prox.penalty} has kinks, where its update has no "
            "derivative: no law or bound is known; run its chains, or take the kernel without it"
        )


def check_penalty(kernel: Any, model: Model, p: int) -> None:
    """Check that the penalty fits the model's parameters."""
    penalty = getattr(getattr(kernel, "prox", None), "penalty", None)
    if penalty is not None:
        check_fits(penalty, model, p)


def check_metric(kernel: Any, model: Model, theta: np.ndarray, data: Any) -> None:
    """Check that V, the metric of a penalised kernel, is not singular at the starts."""
    if not isinstance(kernel, Kernel) or kernel.prox.penalty is None:
        return
    adjustment = kernel.adjustment
    if isinstance(adjustment, GivenRoot):
        p = len(adjustment.root.matrix())
        if p != len(theta):
            raise InputError(f"covariance has shape ({p}, {p}), and theta {len(theta)} parameters")
    if not isinstance(adjustment, PopulationRoot | FirstRoot):
        return
    singular = make_root(adjustment.kind, moment_function(model, data)(theta[:, 0], ("cov",)).cov,
                         float(adjustment.ridge)).floored  # fmt: skip
    if singular:
        raise InputError(
            f"V is singular at theta0: the gradients do not vary in {singular} of {len(theta)} "
            "directions, and |x|_V is no metric; give a ridge > 0, or drop redundant columns"
        )

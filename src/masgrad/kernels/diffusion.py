"""A kernel's discretised Langevin diffusion: the same update with a Gaussian gradient.

    SGD               xi' = xi - eta b + sqrt(2 eta / beta) V z
    MasGrad           xi' = xi - eta V^-1 b + sqrt(2 eta / beta) z
    natural gradient  xi' = xi - eta I^-1 b + sqrt(2 eta / beta) I^-1 V z
    AdaGrad           the Gaussian gradient enters both theta and G

with beta = 2n / eta; sqrt(2 eta / beta) = eta / sqrt(n). SGLD, whose isotropic noise is added to a
sampled step and has a beta of its own, is `mg.sgld`; its diffusion has both noises.
"""

import dataclasses

from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.adjustment import BatchRoot
from masgrad.kernels.gradient import Gaussian
from masgrad.kernels.kernel import Kernel


def diffusion(kernel: Kernel) -> Kernel:
    """The discretised Langevin diffusion of a kernel; run it with the same batch size.

    Paper: discretised diffusion - noise V g for SGD, isotropic for MasGrad, beta = 2n / eta

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.diffusion(mg.masgrad(0.2))
    """
    if not isinstance(kernel, Kernel):
        raise InputTypeError(f"diffusion needs a kernel such as mg.masgrad(0.2), got {kernel!r}")
    if isinstance(kernel.adjustment, BatchRoot):
        raise InputError(
            "covariance='batch' has no diffusion with beta = 2n / eta: V_hat and the gradient come "
            "from the same rows, so V_hat^-1 b_hat is a self-normalised sum, neither isotropic nor "
            "centred at V^-1 b; use covariance='population' or 'running'"
        )
    return dataclasses.replace(kernel, gradient=Gaussian())

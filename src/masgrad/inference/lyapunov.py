"""The stationary law of a chain near an optimum: a discrete Lyapunov equation.

    S = (I - eta A H) S (I - eta A H)' + (eta^2 / n) A Sigma A'

For MasGrad A = V^-1, so A Sigma A' = I; SGLD adds (2 eta / beta) I. It is the covariance of the
*iterate*, to leading order in eta / n, and holds for the data chain and its diffusion alike. In a
well-specified model it is about (eta / 2n) F^-1/2, not the F^-1 / N of an estimate.
"""

import warnings

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from masgrad.chains.door import sample_rows
from masgrad.chains.penalised import check_smooth
from masgrad.checks import check_count
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import Moments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError, StationarityWarning
from masgrad.inference.law import Law
from masgrad.kernels.adjustment import Identity, InverseHistory
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.moment_function import moment_function
from masgrad.kernels.stability import Linearised, linearise
from masgrad.models.model import Model, check_model
from masgrad.types import Array, Rows, float64


@float64
def stationary_law(
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta: Array,
    kernel: Kernel,
    batch_size: int,
) -> Law:
    """Where a chain of this kernel fluctuates around the optimum theta, once it has arrived.

    Paper: stationary law - the linearised diffusion is Ornstein-Uhlenbeck near an optimum

    Args:
        model: the loss.
        data: the rows that the chain draws from, with replacement; or a `Simulator`, or
            `LeastSquaresMoments`.
        theta: an optimum of the mean loss over these rows.
        kernel: `sgd`, `masgrad`, `sgld`, `natural_gradient` or a diffusion of one, with a constant
            step.
        batch_size: n.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.array([-1.0, 1.0])
        >>> law = mg.stationary_law(mg.GaussianMixture(1, 1.0), z, [0.0], mg.sgd(0.1), 10)
        >>> law.target
        'iterate'
    """
    if not isinstance(kernel, Kernel):
        raise InputTypeError(f"kernel={kernel!r}; a kernel such as mg.masgrad(0.2) is needed")
    check_smooth(kernel)
    check_count("batch_size", batch_size)
    if callable(kernel.step_size):
        raise InputError("a step-size schedule has no stationary law; use a constant step")
    eta = float(kernel.step_size)
    check_model(model)
    m = moment_function(model, data)(model.theta(theta, sample_rows(model, data)))
    check_noise(kernel, m)
    linear = linearise(kernel, m)
    _check_contraction(linear, eta)
    identity = np.eye(len(m.mean))
    noise = eta**2 / batch_size * linear.noise + kernel.noise.variance(eta) * identity
    S = solve_discrete_lyapunov(identity - eta * linear.drift, noise)
    said = kernel.note(batch_size, len(m.mean))
    note = "leading order in eta/n" + (f"; {said}" if said else "")
    law = Law(np.asarray(theta, float), (S + S.T) / 2, "iterate", note)
    _warn_off_optimum(m.mean, m.hessian, law)
    return law


def check_noise(kernel: Kernel, m: Moments) -> None:
    """Sigma, where the kernel inverts it without a ridge, is more than rounding."""
    A = kernel.adjustment
    if isinstance(A, Identity | InverseHistory) or getattr(A, "ridge", 0.0) > 0:
        return
    rounding = 1e-12 * np.abs(np.diag(m.hessian)) * (1 + np.abs(m.theta))
    if np.all(np.sqrt(np.diag(m.cov)) <= rounding):
        raise InputError(
            f"V vanishes at theta = {m.theta}: the rows have no noise there (a perfect fit), and "
            "V^-1 b has no derivative; use mg.sgd, or mg.masgrad(..., ridge=)"
        )


def _check_contraction(linear: Linearised, eta: float) -> None:
    """I - eta A H contracts in every direction."""
    size = np.abs(np.linalg.eigvals(linear.drift))
    if size.min() <= 1e-9 * size.max():
        raise InputError(
            "H or Sigma is singular at this theta: the loss does not identify every direction, and "
            "a chain has no stationary law; drop redundant columns, or pass ridge="
        )
    if linear.longest_step() == 0:
        raise InputError("A H has a negative eigenvalue: this theta is no minimum of the mean loss")
    if linear.radius(eta) >= 1:
        raise InputError(
            f"step_size={eta:g} makes I - eta A H unstable at this theta (spectral radius "
            f"{linear.radius(eta):.3g}); use a step below {linear.longest_step():.3g}"
        )


def _warn_off_optimum(b: np.ndarray, H: np.ndarray, law: Law) -> None:
    """A Newton step that is long beside the law's spread means that theta is not the optimum."""
    distance = np.abs(np.linalg.solve(H, b)) / np.maximum(law.sd, np.finfo(float).tiny)
    if distance.max() > 0.1:
        warnings.warn(
            f"theta is about {distance.max():.2g} standard deviations of the law away from a "
            "stationary point of the mean loss; give the optimum of these rows",
            StationarityWarning,
            stacklevel=4,
        )

"""The vector field h = A b of an update over a region: Lipschitz, bounded, monotone, a gradient?

The appendix's bounds ask for the first two, and its convex cases for a field that is the gradient
of a convex function. V^-1 b in general is not a gradient: its Jacobian is not symmetric, and `curl`
says by how much.
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from masgrad.chains import door
from masgrad.chains.penalised import check_smooth
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.derivative import derivative, flatten, state_size
from masgrad.kernels.field import Field, make_field
from masgrad.kernels.kernel import Kernel
from masgrad.models.model import Model
from masgrad.theory.curvature.regions import as_points
from masgrad.theory.processes.bounds import (
    convex_expansion,
    smooth_expansion,
    strongly_convex_expansion,
)
from masgrad.types import Array, Rows, float64

LARGEST_ASYMMETRY = 1e-6
"""Largest relative asymmetry of the Jacobian of a field that counts as a gradient."""
POINTS_AT_A_TIME = 64
"""Number of points differentiated at a time."""


@dataclass(frozen=True)
class Smoothness:
    """Constants of h = A b over the points of a region; on the region between them, estimates.

    Args:
        lipschitz: largest norm of the Jacobian, l.
        bound: largest |h|, M.
        convexity: smallest eigenvalue of the Jacobian's symmetric part.
        curl: largest norm of J - J', relative to the Lipschitz constant: 0 for a gradient.
        points: number of points examined.
    """

    lipschitz: float
    bound: float
    convexity: float
    curl: float
    points: int

    def expansion(self, step_size: float) -> float:
        """delta of the best of the three cases that these constants allow.

        A field with a curl, or without convexity, gets the first, 1 + eta l.
        """
        if self.lipschitz == 0:
            return 1.0
        flat = self.convexity >= -LARGEST_ASYMMETRY * self.lipschitz
        if self.curl > LARGEST_ASYMMETRY or not flat or step_size > 2 / self.lipschitz:
            return smooth_expansion(self.lipschitz, step_size)
        alpha = min(self.convexity, self.lipschitz)
        if alpha <= LARGEST_ASYMMETRY * self.lipschitz or step_size > 2 / (alpha + self.lipschitz):
            return convex_expansion(self.lipschitz, step_size)
        return strongly_convex_expansion(alpha, self.lipschitz, step_size)


@float64
def smoothness(
    kernel: Kernel, model: Model, data: Rows | Simulator | LeastSquaresMoments, region: Array
) -> Smoothness:
    """Lipschitz constant, bound, convexity and curl of an update's field over a region.

    Paper: Lipschitz, boundedness, expansiveness - constants of h = V^-1 b, with dV, and its curl

    Args:
        kernel: `masgrad`, `sgd` or `natural_gradient`; its step size does not matter.
        model: the loss.
        data: rows, a `Simulator`, or `LeastSquaresMoments`.
        region: points (m, p).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.random.default_rng(0).normal(size=(50, 2))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 2)
        >>> s = mg.theory.smoothness(mg.sgd(0.1), model, z, mg.theory.ball([0.0, 0.0], 1.0))
        >>> round(s.lipschitz, 6), s.curl < 1e-6, round(s.expansion(0.5), 6)
        (1.0, True, 0.75)
    """
    h, jacobians = field_and_jacobian(kernel, model, data, region)
    sizes = np.linalg.norm(jacobians, 2, axis=(1, 2))
    odd = np.linalg.norm(jacobians - jacobians.swapaxes(1, 2), 2, axis=(1, 2))
    even = np.linalg.eigvalsh((jacobians + jacobians.swapaxes(1, 2)) / 2)
    lipschitz = float(sizes.max())
    return Smoothness(
        lipschitz,
        float(np.linalg.norm(h, axis=1).max()),
        float(even.min()),
        float(odd.max() / lipschitz) if lipschitz else 0.0,
        len(h),
    )


@float64
def field_and_jacobian(
    kernel: Kernel, model: Model, data: Rows | Simulator | LeastSquaresMoments, region: Array
) -> tuple[np.ndarray, np.ndarray]:
    """h = A b and its Jacobian, dA included, at each point: (m, p) and (m, p, p).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.random.default_rng(0).normal(size=(50, 2))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 2)
        >>> h, J = mg.theory.field_and_jacobian(mg.sgd(0.1), model, z, [[1.0, 0.0]])
        >>> bool(np.allclose(h, [[1.0, 0.0]] - z.mean(0)) and np.allclose(J, np.eye(2)))
        True
    """
    field = memoryless_field(kernel, model, data)
    rows, points = door.sample_rows(model, data), as_points("region", region)
    points = door.starts(model, points, rows, len(points))
    unit = dataclasses.replace(kernel, step_size=1.0)
    count = points.shape[1]
    padded = np.pad(
        points, ((0, 0), (0, -count % POINTS_AT_A_TIME)), mode="edge"
    )  # compiled for one size
    pieces = [
        _differentiate(unit, field, padded[:, s : s + POINTS_AT_A_TIME])
        for s in range(0, count, POINTS_AT_A_TIME)
    ]
    h, J, floored = (np.concatenate(parts, -1)[..., :count] for parts in zip(*pieces, strict=True))
    if floored.any():
        raise InputError(
            f"V is singular at point {int(floored.argmax())} of the region: the gradient has no "
            "noise in some direction there, and V^-1 b no derivative; drop redundant columns, or "
            "use mg.masgrad(..., ridge=)"
        )
    if not (np.isfinite(h).all() and np.isfinite(J).all()):
        raise InputError("the field is not finite on this region; take a smaller one")
    return h.T, np.moveaxis(J, -1, 0)


def memoryless_field(
    kernel: Kernel, model: Model, data: Rows | Simulator | LeastSquaresMoments
) -> Field:
    """The checked field of a kernel whose A depends on theta alone."""
    door.check_objects(kernel, model)
    rows = door.sample_rows(model, data)
    p = model.dim(rows)
    check_smooth(kernel)
    if not isinstance(kernel, Kernel) or kernel.adjustment.batch_part(2, p) is not None:
        raise InputError("A must be a function of theta: use covariance='population', or mg.sgd")
    if state_size(kernel, p) != p:
        raise InputError("an adjustment with a memory (AdaGrad) has no vector field h(theta)")
    if isinstance(data, Simulator):
        door.check_simulated_covariance(data, np.zeros((p, 1)))
    else:
        door.needs_population(kernel, None, door.known_rows(data, rows))
    return make_field(model, data, 1)


@eqx.filter_jit
def _differentiate(kernel: Kernel, field: Field, theta: Array) -> tuple[Array, Array, Array]:
    at = derivative(kernel, kernel.init(jnp.asarray(theta)), field)
    eye = jnp.eye(len(theta))[:, :, None]
    return theta - flatten(at.state), eye - at.by_state, at.state.floored

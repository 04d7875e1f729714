"""What `run` checks before it starts: an error now is kinder than a NaN later."""

from typing import Any

import jax
import numpy as np

from masgrad.chains.trace import Summary, Trace
from masgrad.checks import check_count
from masgrad.covariance.choose import check_batch_ridge, check_covariance, make_root
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import Moments, row_moments
from masgrad.data.arrays import BLOCK, blocks, count_rows
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError, StepSizeWarning, say
from masgrad.kernels.adjustment import (
    BatchRoot,
    Identity,
    InverseHistory,
)
from masgrad.kernels.fixed import FirstRoot
from masgrad.kernels.gradient import Gaussian
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.running import RunningRoot
from masgrad.kernels.stability import linearise, minimise
from masgrad.models.glm import GLM
from masgrad.models.model import Model, check_model
from masgrad.types import Array, Rows

ROUNDED_AWAY = 1e-12
"""Size of a negative step that is the rounding error of 0: 0.1 (1 - t / 10) at t = 10."""
STABILITY_DIM = 500
STABILITY_ROWS = 4096
OTHER_STARTS = 100
OTHER_ROWS = 64


def check_schedule(kernel: Any, steps: int, first: int = 0) -> None:
    """Check that a schedule is traceable and not negative at the first and the last step.

    It may be 0 there: a warm-up begins with a step of 0, and a decay may end with one.
    """
    schedule = getattr(kernel, "step_size", None)
    if not callable(schedule):
        return
    ends = first, first + steps - 1
    try:
        values = [np.asarray(jax.jit(schedule)(t)) for t in ends]
    except Exception as error:
        raise InputError(
            f"the step-size schedule cannot be traced by JAX: {type(error).__name__}: {error}; "
            "write it with jax.numpy, as a function of the step number"
        ) from error
    for t, value in zip(ends, values, strict=True):
        if value.ndim or not (np.isfinite(value) and value >= -ROUNDED_AWAY):
            raise InputError(
                f"the step-size schedule gives {value} at step {t}; one finite number >= 0 is "
                "needed"
            )


def check_objects(kernel: Any, model: Any) -> None:
    """Check the types of kernel and model."""
    if not (hasattr(kernel, "init") and hasattr(kernel, "step")):
        raise InputTypeError(f"kernel={kernel!r}; a kernel such as mg.masgrad(0.2) is needed")
    check_model(model)


def sample_rows(model: Model, data: Rows | Simulator | LeastSquaresMoments) -> Rows:
    """Checked rows: all of a table, a few from a simulator, a row of zeros for moments."""
    if isinstance(data, LeastSquaresMoments):
        if not (
            isinstance(model, GLM) and model.family.name == "gaussian" and model.family.canonical
        ):
            raise InputTypeError(f"LeastSquaresMoments are those of mg.Linear(), not of {model!r}")
        if not data.count:
            raise InputError("these LeastSquaresMoments hold no rows yet; give some to update")
        return np.zeros((1, data.dim)), np.zeros(1)
    if isinstance(data, Simulator):
        rows = model.rows(data.check())
        _check_moments(data, model.dim(rows))
        return rows
    return model.rows(data)


def known_rows(data: Any, rows: Rows) -> int | None:
    """The number of rows; None for a simulator."""
    if isinstance(data, Simulator):
        return None
    return data.count if isinstance(data, LeastSquaresMoments) else count_rows(rows)


def _check_moments(data: Simulator, p: int) -> None:
    """Check that a simulator's moments are b (p,) and Sigma (p, p)."""
    if data.moments is None:
        return
    try:
        shapes = [a.shape for a in jax.eval_shape(data.moments, np.zeros(p))]
    except Exception as error:
        raise InputError(f"moments(theta) fails at theta of shape ({p},): {error}") from error
    if shapes != [(p,), (p, p)]:
        raise InputError(f"moments(theta) gives shapes {shapes}; b ({p},) and Sigma ({p}, {p})")


def check_simulated_covariance(data: Any, theta: np.ndarray) -> None:
    """Check that a simulator's Sigma is a covariance at the first start."""
    if not isinstance(data, Simulator) or data.moments is None:
        return
    _, cov = data.moments(theta[:, 0])
    check_covariance(np.asarray(cov, np.float64), symmetry=1e-6)  # it may be made of float32
    make_root("symmetric", np.asarray(cov, np.float64))


def starts(model: Model, theta0: Array, rows: Rows, chains: int) -> np.ndarray:
    """theta0 as (p, K), from one start for all chains or one per chain."""
    if isinstance(theta0, Trace | Summary):
        raise InputTypeError(
            "theta0 is what a run returned; mg.run(..., start_from=trace) or mg.resume(trace, ...) "
            "continues it, and trace.final are its last points"
        )
    p = model.dim(rows)
    try:
        theta = np.asarray(model.vector(theta0))
        theta = theta.astype(
            np.float64, casting="same_kind" if theta.dtype.kind == "c" else "unsafe"
        )
    except (TypeError, ValueError):
        raise InputTypeError(f"theta0={theta0!r}; an array of real numbers is needed") from None
    if theta.shape == (p,):
        theta = np.broadcast_to(theta, (chains, p))
    if theta.shape != (chains, p):
        raise InputError(
            f"theta0 has shape {np.shape(theta0)}; this model and data need ({p},), or "
            f"({chains}, {p}) for one start a chain"
        )
    if not np.isfinite(theta).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(theta0)))[0])
        raise InputError(
            f"theta0 is {np.asarray(theta0)[where]} at {where}; start at a finite point"
        )
    return np.ascontiguousarray(theta.T)


def check_batch(
    kernel: Kernel, n: int | None, p: int, rows: int | None, replace: bool
) -> int | None:
    """Check the batch size against kernel and data; `rows` is None for a simulator."""
    if n is None:
        if rows is None:
            raise InputError("batch_size=None means all rows, and a simulator has no end of them")
        if getattr(getattr(kernel, "adjustment", None), "kind", None) == "rank_one":
            raise InputError("root='rank_one' absorbs a batch's gradients; give a batch_size")
        return None
    n = check_count("batch_size", n)
    if not replace and rows is not None and n > rows:
        raise InputError(
            f"batch_size={n} without replacement from {rows} rows; use at most {rows}, or "
            "replace=True"
        )
    _check_batch_covariance(kernel, n, p)
    return n


def _check_batch_covariance(kernel: Kernel, n: int, p: int) -> None:
    adjustment = getattr(kernel, "adjustment", None)
    if not isinstance(adjustment, BatchRoot | RunningRoot):
        return
    check_count("batch_size (for a covariance from batches)", n, 2)
    check_batch_ridge(adjustment.kind, n, p, float(adjustment.ridge))


def check_loss(model: Model, theta: np.ndarray, rows: Rows) -> None:
    """Check that loss and gradient are finite: the first start on all rows, others on a few."""
    starts = np.unique(theta.T, axis=0)[:OTHER_STARTS]
    few = jax.tree.map(lambda a: a[:OTHER_ROWS], rows)
    for number, block in enumerate(blocks(rows)):
        _check_finite(model, theta[:, 0], block, number * BLOCK)
    for start in starts if len(starts) > 1 else ():
        _check_finite(model, start, few, 0)


def _check_finite(model: Model, theta: np.ndarray, rows: Rows, first: int) -> None:
    losses, gradients = model.row_losses(theta, rows), model.row_gradients(theta, rows)
    for name, values in (("loss", losses), ("gradient", gradients)):
        finite = np.isfinite(values.reshape(len(values), -1)).all(1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InputError(
                f"the {name} is {values[row]} at theta0 for row {first + row}; start where it is "
                "finite, or change the loss or the row"
            )


def needs_population(kernel: Any, n: int | None, rows: int | None) -> bool:
    """Whether a kernel needs b and Sigma over all rows; Sigma needs at least two rows."""
    if not isinstance(kernel, Kernel):
        return True
    adjustment = kernel.adjustment
    covariance = adjustment.needs_population or adjustment.needs_first
    covariance = covariance or kernel.gradient.needs_population
    if covariance and rows is not None and rows < 2:
        raise InputError("one row has no covariance; give at least 2 rows, or use mg.sgd")
    return covariance or n is None


def check_drawable(kernel: Any, data: Any, n: int | None) -> None:
    """Refuse to draw batches from moments, which allow only full-batch steps and diffusions."""
    if not isinstance(data, LeastSquaresMoments) or n is None:
        return
    if not (isinstance(kernel, Kernel) and isinstance(kernel.gradient, Gaussian)):
        raise InputError(
            "LeastSquaresMoments hold no rows to draw batches from; use batch_size=None, or "
            "mg.diffusion(kernel), or give the rows"
        )


def warn_unstable(kernel: Kernel, model: Model, data: Rows | LeastSquaresMoments) -> None:
    """Warn of a constant step that is unstable at the optimum of a linear model."""
    if not isinstance(model, GLM) or not isinstance(kernel, Kernel) or callable(kernel.step_size):
        return
    if isinstance(kernel.adjustment, BatchRoot | FirstRoot | InverseHistory):
        return
    known = _at_optimum(model, data)
    if known is None:
        return
    moments, away = known
    if not isinstance(kernel.adjustment, Identity) and _noise_free(moments, away):
        return  # V^-1 is not defined at the optimum: the run reports the floor where it meets one
    linear = linearise(kernel, moments)
    eta = float(kernel.step_size)  # type: ignore[arg-type]
    radius = linear.radius(eta)
    if radius > 1 + 1e-9:
        say(
            StepSizeWarning,
            f"step_size={eta:g} makes I - eta A H unstable at the optimum (spectral radius "
            f"{radius:.3g}); use a step below {linear.longest_step():.3g}",
        )


def _at_optimum(model: GLM, data: Rows | LeastSquaresMoments) -> tuple[Moments, Moments] | None:
    """Moments at the optimum and at 0 of a thinned table; None if there is no optimum."""
    if isinstance(data, LeastSquaresMoments):
        zero = np.zeros(data.dim)
        return data.moments(data.optimum()), data.moments(zero)
    if model.dim(data) > STABILITY_DIM or count_rows(data) < 2:
        return None
    stride = -(-count_rows(data) // STABILITY_ROWS)
    rows = jax.tree.map(lambda a: a[::stride], data)
    optimum = minimise(model, rows)
    if optimum is None:
        return None
    return row_moments(model, optimum, rows), row_moments(model, 0.0 * optimum, rows, ("cov",))


def _noise_free(moments: Moments, away: Moments) -> bool:
    """Whether Sigma is singular or only rounding error at the optimum (a perfect fit)."""
    vanishes = np.trace(moments.cov) <= 1e-16 * np.trace(away.cov)
    return bool(vanishes or make_root("symmetric", moments.cov).floored)

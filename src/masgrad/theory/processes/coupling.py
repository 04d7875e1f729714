"""A discretised diffusion and a finely stepped, almost continuous one on the same Brownian path.

This is the coupling of the proof of Lemma "Wasserstein": the distance of the coupled end points
bounds the Wasserstein-2 distance of their laws from above, without the noise floor of a comparison
of independent samples.
"""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.chains import door
from masgrad.checks import check_count, check_seed
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError
from masgrad.kernels.derivative import pushed_step
from masgrad.kernels.field import Field
from masgrad.kernels.kernel import Kernel, State
from masgrad.models.model import Model
from masgrad.progress import Progress
from masgrad.theory.processes.smoothness import memoryless_field
from masgrad.types import Array, Rows, float64


@dataclass(frozen=True)
class Coupled:
    """End points of the discretised process and of the fine one, chain by chain: (chains, p)."""

    coarse: np.ndarray
    fine: np.ndarray

    @property
    def distance(self) -> float:
        """Root mean square of |coarse - fine|: at least the Wasserstein-2 distance."""
        return float(np.sqrt(((self.coarse - self.fine) ** 2).sum(1).mean()))


@float64
def coupled(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    theta0: Array,
    steps: int,
    batch_size: int,
    *,
    substeps: int = 16,
    chains: int = 1000,
    seed: int = 0,
) -> Coupled:
    """Run a kernel's diffusion beside one with `substeps` times as many steps on the same path.

    Paper: Lemma A.1 Wasserstein - the coupling of its proof, simulated

    Both have the inverse temperature beta = 2n / eta. The fine process is itself discretised: for
    MasGrad, whose noise is additive, its own distance to continuous time is about 1/substeps of
    what is measured. The lemma is about MasGrad; SGD and natural gradient have a noise that depends
    on theta, for which nothing is proved.

    Args:
        kernel: `masgrad`, `sgd` or `natural_gradient` with a constant step.
        model: the loss.
        data: rows, a `Simulator`, or `LeastSquaresMoments`.
        theta0: the start, (p,).
        steps: k, of the discretised process.
        batch_size: n.
        substeps: fine steps for each of them.
        chains: number of independent pairs.
        seed: the same seed, chains and substeps give the same paths.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> z = np.random.default_rng(0).normal(size=(50, 1))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 1)
        >>> pair = mg.theory.coupled(mg.masgrad(0.1), model, z, [1.0], steps=10, batch_size=10)
        >>> pair.distance < 0.05
        True
    """
    field = memoryless_field(kernel, model, data)
    if callable(kernel.step_size):
        raise InputError("a step-size schedule has no diffusion in continuous time; use a constant")
    if kernel.noise.note:
        raise InputError(
            f"{kernel.noise.note}: its beta is not 2n / eta; couple mg.sgd or mg.masgrad instead"
        )
    steps, n = check_count("steps", steps), check_count("batch_size", batch_size)
    substeps = check_count("substeps", substeps, 2)
    chains, seed = check_count("chains", chains), check_seed(seed)
    theta = jnp.asarray(door.starts(model, theta0, door.sample_rows(model, data), chains))
    fine = dataclasses.replace(kernel, step_size=np.asarray(kernel.step_size) / substeps)
    kernels = kernel, fine
    states = kernel.init(theta), fine.init(theta)
    with Progress(steps) as bar:
        for k in range(steps):
            key = jax.random.fold_in(jax.random.key(seed), k)
            states = _advance(kernels, field, states, key, np.asarray(n), substeps)
            jax.block_until_ready(states[1].theta)
            bar.update(k + 1)
    ends = Coupled(*(np.asarray(s.theta.T) for s in states))
    if not np.isfinite(ends.distance):
        raise InputError("the processes leave the finite numbers; use a smaller step_size")
    return ends


@eqx.filter_jit
def _advance(
    kernels: tuple[Kernel, Kernel],
    field: Field,
    states: tuple[State, State],
    key: Array,
    n: Array | int,
    substeps: int,
) -> tuple[State, State]:
    """One coarse step, and the fine steps whose increments sum to the coarse one."""
    (kernel, fine), (coarse, state) = kernels, states
    z = jax.random.normal(key, (substeps, *state.theta.shape)) / jnp.sqrt(n)
    whole = z.sum(0) / np.sqrt(substeps)
    part = lambda s, push: (pushed_step(fine, s, field, np.sqrt(substeps) * push), None)  # noqa: E731
    return pushed_step(kernel, coarse, field, whole), jax.lax.scan(part, state, z)[0]

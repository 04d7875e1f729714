"""What the rotation of the rank-one root does, which the paper does not ask.

H_n of the recursion whitens as well as the symmetric inverse root, but it is turned by a rotation
that depends on the order of the gradients. Two parts: the angle and the loss of descent over
batches, against the ridge that the recursion starts from; and a chain with either root.

Batches have n = 200 Gaussian gradients whose covariance has condition number 100 and norm 1. The
paper's start H_0 = I is the ridge 1 / (n - 1).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.chains.run import run
from masgrad.chains.trace import Trace
from masgrad.covariance.rank_one import rank_one_inverse_root
from masgrad.covariance.rotation import rotation
from masgrad.errors import MasgradError
from masgrad.kernels.methods import masgrad
from masgrad.kernels.stability import minimise
from masgrad.models.glm import Linear

N, BATCH, ETA, CHAINS, STEPS = 2000, 200, 0.1, 100, 300
PAPER_RIDGE, SMALL_RIDGE = 1.0 / (BATCH - 1), 1e-8
DIMS, RIDGES = (4, 20, 50), np.sort([*10.0 ** np.arange(-8, 0), PAPER_RIDGE])


@dataclass(frozen=True)
class RotationExperiment:
    """Angles and descents (dims, ridges, batches), and chains by (root, ridge)."""

    angle: np.ndarray
    descent: np.ndarray
    chains: dict[tuple[str, float], Trace]
    optimum: np.ndarray


def rotation_experiment(
    seed: int = 0,
    batches: int = 40,
    steps: int = STEPS,
    report: Callable[[str], None] = lambda name: None,
) -> RotationExperiment:
    """Measure the rotation over batches, and run chains with the symmetric and the rotated root.

    Paper: Proposition 6.2 Iterative rank-one updates - measured: angle, descent, effect on a chain
    """
    rng = np.random.default_rng(seed)
    angle, descent = np.empty((2, len(DIMS), len(RIDGES), batches))
    for i, p in enumerate(DIMS):
        for j, ridge in enumerate(RIDGES):
            for k in range(batches):
                angle[i, j, k], descent[i, j, k] = _measure(rng, p, ridge)
        report(f"p = {p}")
    optimum, chains = _chains(rng, seed, steps, report)
    return RotationExperiment(angle, descent, chains, optimum)


def _measure(rng: np.random.Generator, p: int, ridge: float) -> tuple[float, float]:
    """Angle and descent of one batch's H_n."""
    G = rng.normal(size=(BATCH, p)) * np.logspace(0, -1, p)
    H = rank_one_inverse_root(G - G.mean(0), initial=(BATCH - 1) * ridge)
    turned = rotation(H)
    return turned.angle, turned.descent


def _chains(
    rng: np.random.Generator, seed: int, steps: int, report: Callable[[str], None]
) -> tuple[np.ndarray, dict[tuple[str, float], Trace]]:
    """The optimum of an ill-conditioned linear regression, and chains towards it."""
    p, model = DIMS[0], Linear()
    X = rng.normal(size=(N, p)) * np.logspace(0, -1, p)
    data = X, X.sum(1) + rng.normal(size=N)
    optimum = minimise(model, data)
    if optimum is None:
        raise MasgradError(f"the rows of seed {seed} have no optimum")
    out = {}
    for ridge in (PAPER_RIDGE, SMALL_RIDGE):
        for root in ("symmetric", "rank_one"):
            kernel = masgrad(ETA, "batch", root, ridge)
            out[root, ridge] = run(kernel, model, data, np.zeros(p), steps, BATCH, CHAINS, seed)
            report(f"{root}, ridge {ridge:.0e}")
    return optimum, out

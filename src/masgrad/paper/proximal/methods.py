"""The methods of the proximal experiment, run without noise from one start: paths and seconds.

    MadProx                  w' = prox_{eta,V}(w - eta V^-1 b)    V^2 = sigma^2 H, eta = 1 / gamma
    MadProx, diagonal V      the same                             V^2 = sigma^2 diag(H)
    proximal gradient        the same                             V = I
    FISTA                    proximal gradient with momentum (Beck & Teboulle), not restarted
    sub-gradient             w' = w - eta_t (b + z), z at w       eta_t shrinking: see `Decay`
    sub-gradient, dense V    w' = w - eta V^-1 (b + z)            V and eta as MadProx's

V is that of a fixed design, the proposition's case; its scale sigma cancels against eta.
"""

import time
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.linalg import eigh

from masgrad.chains.groups import Groups
from masgrad.chains.run import run
from masgrad.covariance.choose import make_root
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.root import Root
from masgrad.kernels.field import Field, make_field
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.methods import madprox, subgradient
from masgrad.kernels.momentum import Accelerated, fista
from masgrad.paper.proximal.problems import Penalised
from masgrad.penalties.metric import prox_in_metric
from masgrad.theory.plans.planning import prox_steps
from masgrad.types import Array, RootKind, Rows, float64

ACCURACY, EARLY = 1e-6, 1e-3
"""Shares of the gap at the start."""
METRICS = {"madprox": "symmetric", "diagonal": "diagonal", "proximal_gradient": None}
NAMES = {
    "madprox": "MadProx",
    "diagonal": "MadProx, diagonal V",
    "proximal_gradient": "proximal gradient",
    "fista": "FISTA",
    "subgradient": "sub-gradient",
    "explicit": "sub-gradient, dense V",
}
FISTA_STEPS = 60
"""In units of sqrt(kappa)."""
TIMED = 200
"""Steps that are timed at most: of a longer run on a busy machine the least time is no longer
that of an idle one, and short runs would look fast."""


@dataclass(frozen=True)
class Metric:
    """V, or None for I; and the extremes of V^-1/2 H V^-1/2."""

    root: Root | None
    alpha: float
    gamma: float

    @property
    def kappa(self) -> float:
        return self.gamma / self.alpha

    def steps(self, problem: Penalised, share: float) -> int:
        """The proposition's T for a share of the gap at the start."""
        away = problem.start - problem.optimum
        V = np.eye(len(away)) if self.root is None else self.root.matrix()
        epsilon = share * float(problem.gap(problem.start[None])[0])
        return prox_steps(self.alpha, self.gamma, epsilon, float(np.sqrt(away @ V @ away)))


@dataclass(frozen=True)
class Decay:
    """The step min(1/gamma, 2 / (alpha (t + 2))): as long as it can be, then strong convexity's.

    Equal numbers make equal schedules, so that other seeds compile nothing again.
    """

    alpha: float
    gamma: float

    def __call__(self, t: Array) -> Array:
        return jnp.minimum(1 / self.gamma, 2 / (self.alpha * (t + 2)))


def metric(H: np.ndarray, cov: np.ndarray, kind: RootKind | None) -> Metric:
    """V of a covariance, and the condition of H in it."""
    root = None if kind is None else make_root(kind, cov)
    V = np.eye(len(H)) if root is None else root.matrix()
    values = eigh(H, V, eigvals_only=True)
    return Metric(root, float(values[0]), float(values[-1]))


def metrics(problem: Penalised) -> dict[str, Metric]:
    """The V of each proximal method: sigma = 1."""
    return {name: metric(problem.H, problem.H, kind) for name, kind in METRICS.items()}


def methods(
    problem: Penalised, found: dict[str, Metric]
) -> dict[str, tuple[Kernel | Accelerated, int]]:
    """A kernel and a number of steps each; proximal ones take the proposition's T."""
    H, h = problem.H, problem.penalty
    dense, diagonal, plain = (found[name] for name in METRICS)
    T = {name: m.steps(problem, ACCURACY) for name, m in found.items()}
    decay = Decay(plain.alpha, plain.gamma)
    momentum = int(FISTA_STEPS * np.sqrt(plain.kappa))
    return {
        "madprox": (madprox(1 / dense.gamma, h, H), T["madprox"]),
        "diagonal": (madprox(1 / diagonal.gamma, h, H, "diagonal"), T["diagonal"]),
        "proximal_gradient": (madprox(1 / plain.gamma, h, "identity"), T["proximal_gradient"]),
        "fista": (fista(1 / plain.gamma, h), momentum),
        "subgradient": (subgradient(decay, h, "identity"), T["proximal_gradient"]),
        "explicit": (subgradient(1 / dense.gamma, h, H), T["madprox"]),
    }


def path(problem: Penalised, kernel: Kernel | Accelerated, steps: int) -> np.ndarray:
    """w_0, ..., w_T, (T + 1, p)."""
    ran = run(kernel, problem.model, problem.rows, problem.start, steps, None, 1, progress=False)  # type: ignore[arg-type]
    return ran.theta[0]  # type: ignore[union-attr]


@float64
def step_seconds(
    problem: Penalised,
    data: Rows | LeastSquaresMoments,
    timed: dict[str, tuple[Kernel | Accelerated, int]],
    repeats: int,
) -> dict[str, float]:
    """Seconds a step, the least of several: methods in turns, compiled before, no door checks."""
    field, least = make_field(problem.model, data, None), dict.fromkeys(timed, np.inf)
    for _ in range(repeats):
        for key, (kernel, steps) in timed.items():
            least[key] = min(least[key], _seconds(problem, kernel, field, steps) / steps)
    return least


def _seconds(problem: Penalised, kernel: Kernel | Accelerated, field: Field, steps: int) -> float:
    groups = Groups(kernel, field, problem.start[:, None], 1, 0)  # type: ignore[arg-type]
    started = time.perf_counter()
    for done in range(0, steps, groups.most_records):
        groups.advance(min(groups.most_records, steps - done))
    passed = time.perf_counter() - started
    groups.close()
    return passed


def inner_steps(problem: Penalised, found: Metric, steps: np.ndarray) -> np.ndarray:
    """How many steps the inner problem took at each step of a path, by solving them again."""
    if found.root is None:
        return np.zeros(len(steps) - 1)
    before = steps[:-1].T
    b = problem.H @ before - problem.c[:, None]
    after = before - found.root.solve(b) / found.gamma
    return np.asarray(
        prox_in_metric(problem.penalty, found.root, 1 / found.gamma, after, before).steps
    )


def first_below(gaps: np.ndarray, share: float) -> int | None:
    """First step whose gap is at most a share of the first one's."""
    below = gaps <= share * gaps[0]
    return int(below.argmax()) if below.any() else None

"""Plans: how many steps and rows the theorems ask for, given their constants.

    strongly convex   T = (gamma/alpha) log(2 gap / eps),                  n = 4 p C / (alpha eps)
    non-convex        T = C (2 gamma gap + C p delta^2) / eps^2,           n = T / delta^2

with eta = 1/gamma, gap = L(theta_0) - min L, C = max ||V|| and beta = 2n / eta. The convex n is the
statement's, four times what its proof needs. The non-convex T is the corrected proof's: the
statement's, (2 gamma gap + p delta^2) max(C, 1) / eps^2, is too small for C > 1 (PAPER.md, Errata 5
and 6). alpha, gamma and C are those of a region (`conditioning`), and a plan holds as long as the
chain stays in it.
"""

import math
from dataclasses import dataclass

import numpy as np

from masgrad.checks import as_number, as_size, check_count
from masgrad.errors import InputError
from masgrad.theory.plans.bootstrap import Bootstrap
from masgrad.types import Array

ANY_STEP = "Theorem 1 (chain close to its diffusion) holds for any step size; 1/gamma is for speed"
MARGINAL = "the last iterate's law is as close to its diffusion's as the paths' laws: C sqrt(T/n)"
NO_CONSTANT = (
    "sqrt(T/n) is a rate; the theorem leaves its constant open (to leading order it is that of "
    "theory.tv_constant), and on a table TV is 1"
)
WORST = "plans are worst cases over the region, and the orders p/eps ... leave constants out"
REGION = "alpha, gamma and max ||V|| are of a region: the plan holds while the chain stays in it"


@dataclass(frozen=True, repr=False)
class Plan:
    """The part common to all plans.

    Args:
        steps: T.
        batch_size: n.
        step_size: eta = 1 / gamma.
        epsilon: the accuracy that is planned for.
        dim: p.
        notes: what the theorem assumes and leaves open, a sentence each.
    """

    steps: int
    batch_size: int
    step_size: float
    epsilon: float
    dim: int
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={self.epsilon:.4g}: steps={self.steps}, "
            f"batch_size={self.batch_size}, step_size={self.step_size:.4g}, beta={self.beta:.4g}, "
            f"samples={self.samples})"
        )

    @property
    def beta(self) -> float:
        """Inverse temperature 2n / eta."""
        return 2 * self.batch_size / self.step_size

    @property
    def samples(self) -> int:
        """Rows drawn in all, n T."""
        return self.batch_size * self.steps

    @property
    def tv_rate(self) -> float:
        """sqrt(T / n): the rate of Theorem 1, without its constant."""
        return math.sqrt(self.steps / self.batch_size)

    def bootstrap(self, rows: int) -> Bootstrap:
        """The paper's condition for a chain on a table of `rows` rows.

        Paper: bootstrap regime - eta < n/N, so that beta > N
        """
        return Bootstrap(check_count("rows", rows, 2), self.batch_size, self.step_size)


@dataclass(frozen=True, repr=False)
class ConvexPlan(Plan):
    """The plan of the strongly convex theorem; `risk(t)` is its bound on the way.

    Args:
        batch_size_proved: p C / (alpha eps), a quarter of n: what the proof needs.
        alpha, gamma, gap, v_max: the constants it was made from.
    """

    batch_size_proved: int
    alpha: float
    gamma: float
    gap: float
    v_max: float

    def risk(self, t: Array) -> np.ndarray:
        """The bound on E L(xi_t) - min L: (1 - alpha/gamma)^t gap + C (gamma/alpha) p / beta.

        Paper: risk bound - decay of the gap plus the noise floor of temperature 1/beta
        """
        kept = (1 - self.alpha / self.gamma) ** np.asarray(t, float)
        return kept * self.gap + self.v_max * self.gamma / self.alpha * self.dim / self.beta

    @property
    def erm_samples(self) -> float:
        """p / eps: the order of rows with which an ERM is within epsilon of the minimum.

        Paper: sample complexity - p/eps for the ERM beside the n T of a plan
        """
        return self.dim / self.epsilon

    @property
    def order(self) -> float:
        """(p / eps) log(1 / eps), the order of n T; p / eps at least, where eps is not small.

        Paper: sample complexity - (p/eps) log(1/eps) for a strongly convex landscape
        """
        return self.dim / self.epsilon * max(1.0, math.log(1 / self.epsilon))


@dataclass(frozen=True, repr=False)
class NonConvexPlan(Plan):
    """The plan that the non-convex theorem's corrected proof supports; `gradient(t)` is its bound.

    Args:
        steps_stated: the theorem's own T, (2 gamma gap + p delta^2) max(C, 1) / eps^2.
        batch_size_stated: steps_stated / delta^2.
        delta: the wanted order of the total variation distance to the diffusion.
        gamma, gap, v_max: the constants it was made from.
    """

    steps_stated: int
    batch_size_stated: int
    delta: float
    gamma: float
    gap: float
    v_max: float

    def gradient(self, t: Array) -> np.ndarray:
        """Bound on E min over t steps of ||grad L||, with this plan's n."""
        noise = self.v_max * self.dim / self.batch_size
        return np.sqrt(self.v_max * (2 * self.gamma * self.gap / np.asarray(t, float) + noise))

    @property
    def order(self) -> float:
        """eps^-4 delta^-2, the order of n T.

        Paper: sample complexity - eps^-4 delta^-2 for a non-convex landscape
        """
        return self.epsilon**-4 * self.delta**-2


def plan_convex(
    alpha: float, gamma: float, gap: float, epsilon: float, dim: int, v_max: float
) -> ConvexPlan:
    """Steps and batch size with which MasGrad's expected risk is within epsilon of the minimum.

    Paper: Theorem 4.1 MasGrad: strongly convex - T, n, eta and beta as stated

    Args:
        alpha: smallest eigenvalue of V(w)^-1/2 H(v) V(w)^-1/2 over the region, positive.
        gamma: the largest.
        gap: L(theta_0) - min L.
        epsilon: wanted accuracy of the risk.
        dim: p.
        v_max: max ||V|| over the region.

    Example:
        >>> import masgrad as mg
        >>> plan = mg.theory.plan_convex(0.5, 2.0, gap=1.0, epsilon=0.1, dim=4, v_max=1.5)
        >>> plan.steps, plan.batch_size, plan.step_size, plan.samples, plan.beta
        (12, 480, 0.5, 5760, 1920.0)
        >>> bool(plan.risk(plan.steps) <= 0.1)
        True
    """
    gamma, alpha = _gamma(gamma), as_number("alpha", alpha)
    if alpha <= 0:
        raise InputError(
            f"alpha={alpha:g}: the theorem assumes a strongly convex landscape, alpha > 0; take a "
            "region on which H is positive definite, or use plan_nonconvex"
        )
    alpha = as_size("alpha", alpha)
    if alpha > gamma:
        raise InputError(
            f"alpha={alpha:g} exceeds gamma={gamma:g}: they are the smallest and the largest "
            "eigenvalue over one region"
        )
    gap, epsilon, dim, v_max = _shared(gap, epsilon, dim, v_max)
    steps = gamma / alpha * math.log(2 * gap / epsilon) if 2 * gap > epsilon else 0.0
    needed = dim * v_max / (alpha * epsilon)
    return ConvexPlan(
        _whole(steps), _whole(4 * needed), 1 / gamma, epsilon, dim,
        (WORST, REGION, ANY_STEP, MARGINAL, NO_CONSTANT),
        _whole(needed), alpha, gamma, gap, v_max,
    )  # fmt: skip


def plan_nonconvex(
    gamma: float, gap: float, epsilon: float, delta: float, dim: int, v_max: float
) -> NonConvexPlan:
    """Steps and batch size with which MasGrad meets a gradient of norm epsilon on its way.

    Paper: Theorem 5.1 MasGrad: non-convex - T and n of the corrected proof, beside those stated

    For v_max > 1 the theorem's own T can be too small: with V = 4 I, p = 400, gamma = delta = 1, a
    gradient of norm 30 at the start and epsilon = 20 its 7 steps leave an expected smallest norm of
    28.8; the 19 of the corrected proof leave 17.2.

    Args:
        gamma: largest eigenvalue of V(w)^-1/2 H(v) V(w)^-1/2 over the region.
        gap: L(theta_0) - min L.
        epsilon: wanted norm of the gradient.
        delta: wanted order of the total variation distance to the diffusion, in (0, 1].
        dim: p.
        v_max: max ||V|| over the region.

    Example:
        >>> import masgrad as mg
        >>> plan = mg.theory.plan_nonconvex(2.0, gap=1.0, epsilon=0.5, delta=0.5, dim=4, v_max=2.0)
        >>> plan.steps, plan.batch_size, plan.steps_stated
        (48, 192, 40)
    """
    gamma, delta = _gamma(gamma), as_number("delta", delta)
    if not 0 < delta <= 1:
        raise InputError(f"delta={delta:g}: a distance in total variation, in (0, 1], is needed")
    delta = as_size("delta", delta)
    gap, epsilon, dim, v_max = _shared(gap, epsilon, dim, v_max)
    start, noise = 2 * gamma * gap, dim * delta**2
    steps = _whole(v_max * (start + v_max * noise) / epsilon**2)
    stated = _whole((start + noise) * max(v_max, 1.0) / epsilon**2)
    return NonConvexPlan(
        steps, _whole(steps / delta**2), 1 / gamma, epsilon, dim,
        (WORST, REGION, ANY_STEP, MARGINAL, NO_CONSTANT),
        stated, _whole(stated / delta**2), delta, gamma, gap, v_max,
    )  # fmt: skip


def prox_steps(alpha: float, gamma: float, epsilon: float, distance: float) -> int:
    """Steps of MadProx with a fixed V after which the penalised loss is within epsilon.

    Paper: Proposition 4.1 Moment-adjusted proximal - T from alpha, gamma and ||w_0 - w*||_V

    Args:
        alpha: smallest eigenvalue of V^-1/2 H(v) V^-1/2, positive.
        gamma: the largest.
        epsilon: wanted accuracy.
        distance: ||w_0 - w*||_V.

    Example:
        >>> import masgrad as mg
        >>> mg.theory.prox_steps(0.1, 1.0, 0.01, 2.0)  # 10 log(0.1 / 0.02 * 4 + 1)
        31
    """
    gamma, alpha = _gamma(gamma), as_number("alpha", alpha)
    if not 0 < alpha <= gamma:
        raise InputError(f"alpha={alpha:g}: the proposition assumes 0 < alpha <= gamma={gamma:g}")
    alpha, epsilon = as_size("alpha", alpha), as_size("epsilon", epsilon)
    distance = as_size("distance", distance, zero=True)
    return _whole(gamma / alpha * math.log1p(alpha / (2 * epsilon) * distance**2))


def _gamma(gamma: float) -> float:
    gamma = as_number("gamma", gamma)
    if gamma <= 0:
        raise InputError(
            f"gamma={gamma:g}: the theorems assume gamma > 0, the largest eigenvalue of "
            "V^-1/2 H V^-1/2 over the region"
        )
    return as_size("gamma", gamma)


def _shared(gap: float, epsilon: float, dim: int, v_max: float) -> tuple[float, float, int, float]:
    """Check the constants that both theorems use."""
    gap, epsilon = as_size("gap", gap, zero=True), as_size("epsilon", epsilon)
    if as_number("v_max", v_max) <= 0:
        raise InputError(f"v_max={v_max:g}: the theorems assume V positive definite, max ||V|| > 0")
    v_max = as_size("v_max", v_max)
    return gap, epsilon, check_count("dim", dim), v_max


def _whole(x: float) -> int:
    """The smallest integer >= x, up to rounding error."""
    return math.ceil(x * (1 - 1e-12))

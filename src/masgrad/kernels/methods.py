"""The processes of the paper by name: each fills the slots of one kernel."""

import dataclasses
from typing import Any, Literal

import numpy as np

from masgrad.checks import as_size, check_count
from masgrad.covariance.choose import (
    check_covariance,
    check_factor_ridge,
    check_kind,
    check_ridge,
)
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.adjustment import (
    Adjustment,
    BatchRoot,
    Identity,
    InverseFisher,
    InverseHistory,
    PopulationRoot,
)
from masgrad.kernels.fixed import FirstRoot, GivenRoot
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.noise import Isotropic
from masgrad.kernels.prox import Explicit, Implicit
from masgrad.kernels.running import RunningRoot
from masgrad.penalties.metric import ACCURACY
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import Box
from masgrad.types import RootKind, StepSize

ROOTS = {"population": PopulationRoot, "batch": BatchRoot, "running": RunningRoot}
METRICS = {**ROOTS, "fixed": FirstRoot}
NOT_METRICS = {
    "rank_one": "is rotated, and |x|_V needs a symmetric V",
    "low_rank": "exists to form no p x p matrix, which |x|_V takes",
}


def sgd(step_size: StepSize) -> Kernel:
    """Stochastic gradient descent: theta' = theta - eta g.

    Paper: SGD - the mini-batch update without adjustment

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.sgd(lambda t: 0.5 / (1 + t) ** 0.6)   # a schedule of the step number
    """
    return Kernel(as_step_size(step_size), Identity())


def sgld(step_size: StepSize, beta: float) -> Kernel:
    """Stochastic gradient Langevin dynamics: theta' = theta - eta g + sqrt(2 eta / beta) z.

    Paper: SGLD - Gaussian noise with a beta of its own, added to each step of SGD

    The inverse temperature `beta` is chosen, whereas SGD's and MasGrad's own noise has
    beta = 2n / eta. For a small step the law is Gibbs', exp(-beta L); with L the mean loss over N
    rows, beta = N is the posterior under a flat prior. A mini-batch adds its own noise, of variance
    eta^2 Sigma / n, which is below 2 eta / beta where eta < 2n / (beta ||Sigma||); with
    batch_size=None there is none (the unadjusted Langevin algorithm).

    Args:
        step_size: a float, or a schedule of the step number from 0, written with jax.numpy.
        beta: the inverse temperature; large for little noise.

    Example:
        >>> import masgrad as mg
        >>> mg.sgld(0.01, beta=500)
        Kernel(step_size=0.01, Identity, Sampled, Gaussian noise at beta = 500 added)
    """
    return Kernel(
        as_step_size(step_size), Identity(), noise=Isotropic(np.asarray(as_size("beta", beta)))
    )


def masgrad(
    step_size: StepSize,
    covariance: Literal["population", "batch", "running"] = "population",
    root: RootKind = "symmetric",
    ridge: float = 0.0,
    *,
    root_every: int = 1,
) -> Kernel:
    """Moment-adjusted stochastic gradient descent: theta' = theta - eta V(theta)^-1 g.

    Paper: MasGrad - theta' = theta - eta V(theta)^-1 times the mini-batch gradient
    Paper: preconditioning - without noise a constant V is preconditioning by A^2 = V^-1

    Args:
        step_size: a float, or a schedule of the step number from 0, written with jax.numpy.
        covariance: where V comes from: all rows at each chain's own theta, the batches before
            this one, or this very batch (the plug-in, which shifts the target by O(1/n)).
        root: "symmetric", the theorems' root, which "auto" computes by the fastest way, "products"
            without eigenvalues and "low_rank" from fewer rows than parameters; "diagonal" drops the
            correlations; "rank_one" is the paper's recursion over a batch, a rotated root.
        ridge: added to Sigma. A batch of n <= p rows needs one: it sets the step's length.
        root_every: k, with covariance="running": the root of V is taken at every k-th step (and at
            steps 1, 2, 4, ... below k) and V lags by k - 1 steps at most; the average behind it has
            every batch. At k = 10 a step of p = 20 takes a fifth (n = 25) or a quarter (n = 50) of
            its time, and the law of the iterates changes, less so the larger n: at n = 50 a
            variance by 0.5 %, a mean by 0.07 standard deviations (docs/theory.md).

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.masgrad(0.2)
    """
    adjustment = _adjustment(ROOTS, covariance, root, ridge)
    return Kernel(as_step_size(step_size), _every(adjustment, root_every))


def madprox(
    step_size: StepSize,
    penalty: Penalty,
    covariance: Any = "population",
    root: RootKind = "symmetric",
    ridge: float = 0.0,
    accuracy: float = ACCURACY,
    *,
    root_every: int = 1,
) -> Kernel:
    """Moment-adjusted proximal gradient: theta' = prox_{eta,V}(theta - eta V^-1 g).

    Paper: MadProx - the gradient step and the penalty's proximal map, both in the V metric

    Args:
        step_size: a float, or a schedule of the step number from 0; the proposition's is 1 / gamma.
        penalty: `L1`, `ElasticNet`, `GroupLasso`, `Nuclear`, `Box`, ...
        covariance: where V comes from: "population", "running" or "batch", as in `masgrad`;
            "fixed": all rows at theta0, once (the proposition's case); a covariance (p, p) that is
            known; "identity": V = I, which is the proximal gradient method (ISTA).
        root: "symmetric" (or "auto", "products", which compute the same), or "diagonal": then the
            proximal maps of L1, elastic net and bounds have a closed form, and no sqrt(kappa) is
            promised.
        ridge: added to Sigma.
        accuracy: of the inner problem where there is no closed form: the root of its duality gap
            as a share of the outer step's length in the V metric.
        root_every: as in `masgrad`; the gradient and the metric have the same lagged V.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X = np.eye(2).repeat(50, axis=0) * 10.0
        >>> y = X @ [1.0, 0.01] + np.tile([1.0, -1.0], 50)
        >>> kernel = mg.madprox(0.1, mg.L1(1.0), covariance="fixed")
        >>> mg.run(kernel, mg.Linear(), (X, y), np.zeros(2), 60, None, 1).final.round(3)
        array([[0.978, 0.   ]])
    """
    metric = _metric(covariance, root, ridge)
    prox = Implicit(as_penalty(penalty), as_size("accuracy", accuracy))
    return Kernel(as_step_size(step_size), _every(metric, root_every), prox=prox)


def subgradient(
    step_size: StepSize,
    penalty: Penalty,
    covariance: Any = "population",
    root: RootKind = "symmetric",
    ridge: float = 0.0,
    *,
    root_every: int = 1,
) -> Kernel:
    """The explicit step: theta' = theta - eta V^-1 (g + z), z in the subdifferential at theta.

    The baseline of `madprox`, whose arguments it takes. Its steps overshoot the kinks: with a
    constant step it ends in a neighbourhood, and no coefficient is exactly 0.

    Example:
        >>> import masgrad as mg
        >>> kernel = mg.subgradient(lambda t: 0.1 / (1 + t) ** 0.5, mg.L1(0.1), "identity")
    """
    if isinstance(penalty, Box):
        raise InputError(
            "bounds have no subgradient outside of them that would lead back: an explicit step "
            "leaves them; use mg.madprox, whose steps end inside"
        )
    metric = _metric(covariance, root, ridge)
    prox = Explicit(as_penalty(penalty))
    return Kernel(as_step_size(step_size), _every(metric, root_every), prox=prox)


def natural_gradient(step_size: StepSize) -> Kernel:
    """Natural gradient: theta' = theta - eta I(theta)^-1 g with the uncentred I = E[g g'].

    Paper: natural gradient - the baseline of information geometry
    """
    return Kernel(as_step_size(step_size), InverseFisher())


def adagrad(step_size: StepSize, diagonal: bool = True) -> Kernel:
    """AdaGrad: theta' = theta - eta G_t^-1/2 g with G_t the sum of g g', this step's included.

    Paper: AdaGrad - the whole history G_t or its diagonal
    """
    return Kernel(as_step_size(step_size), InverseHistory(bool(diagonal)))


def as_penalty(penalty: Any) -> Penalty:
    if not isinstance(penalty, Penalty):
        raise InputTypeError(f"penalty={penalty!r:.60}; a penalty is needed, such as mg.L1(0.1)")
    penalty.solved()
    return penalty


def _metric(covariance: Any, root: RootKind, ridge: float) -> Adjustment:
    """The adjustment of a proximal step, whose V is also its metric."""
    if check_kind(root) in NOT_METRICS:
        raise InputError(f"root={root!r} {NOT_METRICS[root]}; use 'symmetric' or 'diagonal'")
    if isinstance(covariance, str) and covariance == "identity":
        if check_ridge(ridge) > 0:
            raise InputError("covariance='identity' has V = I, to which no ridge is added")
        return Identity()
    if isinstance(covariance, str):
        if covariance not in METRICS:
            raise InputError(
                f"covariance={covariance!r} is not known; use one of {sorted(METRICS)}, "
                "'identity', or a matrix (p, p)"
            )
        return _adjustment(METRICS, covariance, root, ridge)
    try:
        cov = np.asarray(covariance, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"covariance={covariance!r:.60}; a matrix (p, p) is needed, or one of "
            f"{sorted(METRICS)}, 'identity'"
        ) from None
    check_covariance(cov)
    made = GivenRoot.of(root, cov, check_ridge(ridge))
    if made.root.floored:
        raise InputError(
            f"the covariance is singular in {made.root.floored} of {len(cov)} directions, and V "
            "has no inverse there; give a ridge > 0, or drop redundant columns"
        )
    return made


def _adjustment(
    known: dict[str, type], covariance: str, root: RootKind, ridge: float
) -> Adjustment:
    """The adjustment for the requested covariance and root."""
    if covariance not in known:
        raise InputError(f"covariance={covariance!r} is not known; use one of {sorted(known)}")
    ridge = check_ridge(ridge)
    if check_kind(root) == "rank_one" and covariance != "batch":
        raise InputError(
            f"root='rank_one' is a recursion over a batch's gradients, and covariance="
            f"{covariance!r} keeps none; use covariance='batch'"
        )
    if covariance == "batch":
        check_factor_ridge(root, ridge)
    return known[covariance](kind=root, ridge=np.asarray(ridge))


def _every(adjustment: Adjustment, root_every: int) -> Adjustment:
    """The adjustment with the root of V taken every so many steps."""
    if check_count("root_every", root_every) == 1:
        return adjustment
    if not isinstance(adjustment, RunningRoot):
        raise InputError(
            f"root_every={root_every} is for covariance='running', whose V changes little from one "
            "step to the next; every other V is that of its own step, or the same at all of them"
        )
    return dataclasses.replace(adjustment, root_every=int(root_every))


def as_step_size(step_size: StepSize) -> StepSize:
    """A schedule unchanged; a number as a float64 NumPy array, which jit traces."""
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

"""The appendix's bounds between a discretised diffusion and the continuous-time one.

    dtheta = -h(theta) dt + sqrt(2 / beta) dB,    h = V^-1 b,    discretised with step eta, k times

    W2 <= (2 l^2 M^2 eta^4 / 3 + 2 l^2 p eta^3 / beta)^1/2  sum_{i < k} delta^i
    KL <= (l^2 M^2 beta eta^3 / 6 + l^2 p eta^2 / 2) k

for h l-Lipschitz, M-bounded and x - eta h(x) delta-expansive. The first proof uses M only through
the mean of |h|^2 along the continuous process, so that sup_t (E |h(theta_t)|^2)^1/2 may stand for
it: a strongly convex field on all of R^p is not bounded, and its case would be empty otherwise. The
second needs it under the law that the entropy is taken under, which is again the continuous one
(the printed proof has the discretised one, and so bounds the entropy in the other direction;
PAPER.md, Erratum 22).
"""

import math
from dataclasses import dataclass

from masgrad.checks import as_size, check_count
from masgrad.errors import InputError


def wasserstein_bound(
    lipschitz: float,
    bound: float,
    beta: float,
    step_size: float,
    dim: int,
    steps: int,
    expansion: float,
) -> float:
    """Wasserstein-2 distance between discretised and continuous diffusion after `steps` steps.

    Paper: Lemma A.1 Wasserstein - the bound, with the expansiveness of the update

    Args:
        lipschitz: l of h = V^-1 b.
        bound: M, the largest |h|, or the root of its largest mean square along the process.
        beta: 2n / eta.
        step_size: eta.
        dim: p.
        steps: k.
        expansion: delta, from `smooth_expansion`, `convex_expansion` or
            `strongly_convex_expansion`.

    Example:
        >>> import masgrad as mg
        >>> round(mg.theory.wasserstein_bound(1.0, 1.0, 200.0, 0.1, 1, 10, 1.0), 6)
        0.08756
    """
    l2, M2, beta, eta, p, k = _checked(lipschitz, bound, beta, step_size, dim, steps)
    delta = as_size("expansion", expansion, zero=True)
    local = math.sqrt(2 * l2 * M2 * eta**4 / 3 + 2 * l2 * p * eta**3 / beta)
    return local * _geometric(delta, k)


def entropy_bound(
    lipschitz: float, bound: float, beta: float, step_size: float, dim: int, steps: int
) -> float:
    """Relative entropy of the continuous process with respect to the discretised one, as paths.

    Paper: Lemma A.2 Relative entropy - the bound by Girsanov's formula

    Args:
        lipschitz, bound, beta, step_size, dim, steps: as in `wasserstein_bound`.

    Example:
        >>> import masgrad as mg
        >>> round(mg.theory.entropy_bound(1.0, 1.0, 200.0, 0.1, 1, 10), 6)
        0.383333
    """
    l2, M2, beta, eta, p, k = _checked(lipschitz, bound, beta, step_size, dim, steps)
    return (l2 * M2 * beta * eta**3 / 6 + l2 * p * eta**2 / 2) * k


def smooth_expansion(lipschitz: float, step_size: float) -> float:
    """delta = 1 + eta l, for any l-Lipschitz field.

    Paper: expansiveness - smooth, convex and strongly convex fields

    Example:
        >>> import masgrad as mg
        >>> mg.theory.smooth_expansion(2.0, 0.1)
        1.2
    """
    return 1 + as_size("step_size", step_size) * as_size("lipschitz", lipschitz)


def convex_expansion(lipschitz: float, step_size: float) -> float:
    """delta = 1, for the gradient of a convex function with eta <= 2 / l.

    Paper: expansiveness - smooth, convex and strongly convex fields
    """
    l, eta = as_size("lipschitz", lipschitz), as_size("step_size", step_size)  # noqa: E741
    if eta > 2 / l:
        raise InputError(f"step_size={eta:g}: the convex case assumes eta <= 2 / l = {2 / l:.3g}")
    return 1.0


def strongly_convex_expansion(alpha: float, lipschitz: float, step_size: float) -> float:
    """delta = 1 - eta alpha l / (alpha + l), for the gradient of an alpha-strongly convex function.

    It needs a field that *is* a gradient; V^-1 b in general is not: see `smoothness(...).curl`.

    Paper: expansiveness - smooth, convex and strongly convex fields

    Example:
        >>> import masgrad as mg
        >>> mg.theory.strongly_convex_expansion(1.0, 1.0, 0.5)
        0.75
    """
    a, l, eta = (  # noqa: E741
        as_size(name, x)
        for name, x in (("alpha", alpha), ("lipschitz", lipschitz), ("step_size", step_size))
    )
    if a > l:
        raise InputError(f"alpha={a:g} exceeds lipschitz={l:g}: a field cannot be steeper than l")
    if eta > 2 / (a + l):
        raise InputError(
            f"step_size={eta:g}: the strongly convex case assumes eta <= 2 / (alpha + l) = "
            f"{2 / (a + l):.3g}"
        )
    return 1 - eta * a * l / (a + l)


@dataclass(frozen=True)
class TotalVariationRate:
    """Theorem 1's rate sqrt(T / n), which comes without its constant (`tv_constant` has it).

    Args:
        value: sqrt(T / n).
        assumptions: (A.1), (A.2), and why a table of rows fails the first.
    """

    value: float
    assumptions: tuple[str, ...] = (
        "(A.1) the standardised gradient V^-1 (g - b) has a bounded relative entropy to N(0, I), "
        "uniformly in theta: its law has a density",
        "(A.2) it has finite moments of order 4 + delta, uniformly in theta",
        "rows drawn from a table violate (A.1): the chain lives on finitely many points, its "
        "diffusion has a density, and their total variation distance is 1 whatever n; there KS "
        "and W2 are what can be small (see closeness_rate)",
    )


def tv_rate(steps: int, batch_size: int) -> TotalVariationRate:
    """The rate at which a chain's law approaches its diffusion's: sqrt(T / n), for any step size.

    Paper: Theorem 3.1 Non-asymptotic bound for inference - the rate, with its assumptions

    Example:
        >>> import masgrad as mg
        >>> mg.theory.tv_rate(steps=100, batch_size=2500).value
        0.2
    """
    return TotalVariationRate(
        math.sqrt(check_count("steps", steps) / check_count("batch_size", batch_size))
    )


def _checked(lipschitz, bound, beta, step_size, dim, steps):
    """Check the arguments; return l^2, M^2, beta, eta, p and k."""
    return (
        as_size("lipschitz", lipschitz, zero=True) ** 2,
        as_size("bound", bound, zero=True) ** 2,
        as_size("beta", beta),
        as_size("step_size", step_size),
        check_count("dim", dim),
        check_count("steps", steps, 0),
    )


def _geometric(delta: float, k: int) -> float:
    """Sum of delta^i over i < k; infinite where it overflows."""
    if delta == 1 or delta == 0:
        return float(k) if delta else float(k > 0)
    exponent = k * math.log1p(delta - 1)
    return math.expm1(exponent) / (delta - 1) if exponent < 700 else math.inf

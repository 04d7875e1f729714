"""The proximal map in the metric of a matrix V, and how well it was solved.

    prox_{eta,V}(w) = argmin_u |u - w|_V^2 / 2 + eta h(u),        |x|_V^2 = x'V x

Closed form where V is diagonal and h a sum over coordinates. Else accelerated proximal steps with a
diagonal D >= V in its place, whose own proximal maps are plain ones, restarted where they overshoot
(O'Donoghue & Candes), from a warm start. A step from y to u brings z in the subdifferential of h at
u with it, and with the defect e of the implicit equation

    e = u - (w - eta V^-1 z)            |e|_V^2 / 2  =  the duality gap at (u, z)

so that the certificate costs one solve with V. Chains are solved together, each until its own gap
is below a share of its own outer progress |u - before|_V^2 / 2.
"""

from typing import NamedTuple

import numpy as np

from masgrad.covariance.root import DiagonalRoot, Root, times
from masgrad.penalties.penalty import Penalty, columns
from masgrad.types import Array, loop, namespace, repeat

ACCURACY = 1e-4
"""Relative accuracy of an inner problem: |e|_V over the outer progress |u - before|_V."""

MOST_ROUNDS = 500
"""Largest number of rounds of STEPS_PER_ROUND inner steps; then `ok` is False."""

STEPS_PER_ROUND = 8
ROUNDING_ERROR = 16 * np.finfo(float).eps


class Solved(NamedTuple):
    """u, z in the subdifferential of h at u, |e|_V, inner steps, and whether it converged."""

    u: Array
    z: Array
    defect: Array
    steps: Array
    ok: Array


def prox_in_metric(
    penalty: Penalty,
    root: Root | None,
    eta: Array | float,
    w: Array,
    before: Array,
    accuracy: float = ACCURACY,
) -> Solved:
    """prox_{eta,V}(w) for a vector (p,), or one per chain (p, K); V = I if root is None.

    Paper: moment-adjusted proximal function - the proximal map of h in the V metric

    Args:
        penalty: h.
        root: V.
        eta: the step size.
        w: the point after the gradient step.
        before: the point before the gradient step: the warm start, and the origin of progress.
        accuracy: the largest |e|_V relative to |u - before|_V.
    """
    if root is None:
        return _exact(penalty, eta, 1.0, w)
    if isinstance(root, DiagonalRoot) and penalty.separable:
        return _exact(penalty, eta, columns(root.values**0.5, w), w)
    return _solve(penalty, root, eta, w, before, accuracy)


def _exact(penalty: Penalty, eta: Array | float, v: Array | float, w: Array) -> Solved:
    xp = namespace(w)
    u = penalty.prox(w, eta / v)
    none = xp.zeros(w.shape[1:])
    return Solved(u, v * (w - u) / eta, none, none, xp.ones(w.shape[1:], bool))


class _State(NamedTuple):
    """An iterate u with V u, the extrapolated point y with V y, and the last step's diagnostics."""

    u: Array
    Vu: Array
    y: Array
    Vy: Array
    momentum: Array
    z: Array
    defect: Array
    steps: Array
    done: Array


def _solve(
    penalty: Penalty, root: Root, eta: Array | float, w: Array, before: Array, accuracy: float
) -> Solved:
    xp, V = namespace(w), root.matrix()
    D, Vw = _majorant(V, penalty, w), times(V, w)

    def step(s: _State) -> _State:
        u = penalty.prox(s.y - (s.Vy - Vw) / D, eta / D)
        Vu = times(V, u)
        back = (D * (s.y - u) * (u - s.u)).sum(0) > 0
        momentum = xp.where(back, 1.0, (1.0 + xp.sqrt(1.0 + 4.0 * s.momentum**2)) / 2.0)
        push = xp.where(back, 0.0, (s.momentum - 1.0) / momentum)
        z = (D * (s.y - u) - (s.Vy - Vw)) / eta
        y, Vy = u + push * (u - s.u), Vu + push * (Vu - s.Vu)
        return s._replace(u=u, Vu=Vu, y=y, Vy=Vy, momentum=momentum, z=z)

    def judged(s: _State) -> _State:
        r = s.Vu - Vw + eta * s.z
        gap = xp.maximum((r * root.solve(r)).sum(0), 0.0)
        moved = s.u - before
        progress = (moved * times(V, moved)).sum(0)
        exact = (r**2).sum(0) <= ((ROUNDING_ERROR * D * (abs(s.u) + abs(w))) ** 2).sum(0)
        done = (gap <= accuracy**2 * progress) | exact | ~xp.isfinite(gap)
        return s._replace(defect=xp.sqrt(gap), done=done)

    def rounds(s: _State) -> _State:
        new = judged(repeat(STEPS_PER_ROUND, step, s)._replace(steps=s.steps + STEPS_PER_ROUND))
        keep = lambda old, fresh: xp.where(s.done, old, fresh)  # noqa: E731
        return _State(*map(keep, s, new))

    none = xp.zeros(w.shape[1:])
    Vb = times(V, before)
    start = _State(
        before, Vb, before, Vb, none + 1.0, xp.zeros_like(w), none + np.inf, none, none > 0
    )
    end = loop(
        lambda s: (~s.done).any() & (s.steps.max() < MOST_ROUNDS * STEPS_PER_ROUND), rounds, start
    )
    return Solved(end.u, end.z, end.defect, end.steps, end.done)


def _majorant(V: Array, penalty: Penalty, w: Array) -> Array:
    """A diagonal D with D - V positive semidefinite, in whose metric the penalty's prox is plain.

    With V's diagonal scaled to 1, its absolute row sums dominate it.
    """
    xp = namespace(V)
    size = xp.sqrt(xp.einsum("ii...->i...", V))
    return penalty.common(columns(size * (abs(V) / size[None]).sum(1), w))

"""Adjustments whose V never changes, the case of the proposition on MadProx.

FirstRoot   A = V(theta_0)^-1, V from all rows where a chain begins
GivenRoot   A = V^-1 with V the root of a covariance that is known beforehand
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.covariance.choose import held_root
from masgrad.covariance.moments import Moments
from masgrad.covariance.root import Root
from masgrad.errors import InputError
from masgrad.kernels.adjustment import Adjusted, Adjustment, RootAdjustment
from masgrad.kernels.field import Estimate
from masgrad.kernels.gradient import Point
from masgrad.types import RootKind, Vectors


class FirstRoot(RootAdjustment):
    """A = V(theta_0)^-1 with V from all rows at the chain's start, constant over steps.

    Paper: Proposition 4.1 Moment-adjusted proximal - the case of a V that does not depend on theta
    """

    needs_population = False
    needs_first = True

    def init(self, theta: Vectors) -> Any:
        p, K = theta.shape
        unit = jnp.broadcast_to(jnp.eye(p)[:, :, None], (p, p, K))
        return held_root(self.kind, unit, self.ridge), jnp.asarray(0)

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        V, t = memory

        def first() -> Root:
            return held_root(self.kind, point.field.moments(point.theta).cov, self.ridge)

        V = jax.lax.cond(t == 0, first, lambda: V)
        return Adjusted(V.solve(drawn.mean), (V, t + 1), V)

    def matrix(self, moments: Moments) -> np.ndarray:
        raise InputError(
            "covariance='fixed' takes V where a chain begins, which a law at other moments does "
            "not know; give the covariance itself: covariance=mg.moments(...).cov"
        )


class GivenRoot(Adjustment):
    """A = V^-1 with V the root of a given covariance, shared by all chains."""

    root: Root
    said: str = eqx.field(static=True)

    needs_population = False

    @classmethod
    def of(cls, kind: RootKind, cov: np.ndarray, ridge: float) -> "GivenRoot":
        return cls(
            held_root(kind, cov, np.asarray(ridge)), f"V V' = a given covariance + {ridge:g} I"
        )

    @property
    def spectral(self) -> bool:
        return False

    def note(self, n: int | None, p: int) -> str:
        del n, p
        return self.said

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        return Adjusted(self.root.solve(drawn.mean), memory, self.root)

    def matrix(self, moments: Moments) -> np.ndarray:
        return self.root.solve(np.eye(len(moments.mean)))

"""The adjustment slot: the matrix A(theta) that multiplies the gradient.

    Identity          A = I                              SGD
    PopulationRoot    A = V^-1 = Sigma^-1/2              MasGrad
    BatchRoot         the same with V from this batch    MasGrad's plug-in
    InverseFisher     A = (E g g')^-1                    natural gradient
    InverseHistory    A = (sum of past g g')^-1/2        AdaGrad

An adjustment is stateful: `init(theta)` makes its memory, `update` sees the step's point and drawn
gradient and returns the adjusted gradient, the new memory, and the root that it used.
`matrix(moments)` is A at known moments, for laws and stability on the host. `fixed.py` has those
whose V never changes, `running.py` the one whose V comes from past batches.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from masgrad.covariance.choose import factor_root, make_root, wants_factor
from masgrad.covariance.eigen import spectrum
from masgrad.covariance.moments import Moments
from masgrad.covariance.root import EIGENVALUE_FLOOR, Root, SymmetricRoot
from masgrad.errors import InputError
from masgrad.kernels.field import Estimate
from masgrad.kernels.gradient import Point
from masgrad.types import Array, Matrices, RootKind, Vectors


class Adjusted(eqx.Module):
    """An adjusted gradient A g, the memory for the next step, and V if A = V^-1."""

    direction: Vectors
    memory: Any
    root: Root | None = None

    @property
    def floored(self) -> Array | int:
        """For each chain, the number of directions raised to the root's floor."""
        return 0 if self.root is None else self.root.floored


class Adjustment(eqx.Module):
    """The rule by which a step rescales its gradient."""

    needs_population: ClassVar[bool]
    needs_first: ClassVar[bool] = False
    """Whether the first step alone needs the population's covariance."""

    @property
    def spectral(self) -> bool:
        """Whether the adjustment computes eigenvalues."""
        return True

    def batch_part(self, n: int, p: int) -> str | None:
        """The statistic needed of n drawn gradients besides the mean: "cov", "factor" or none."""
        del n, p

    def note(self, n: int | None, p: int) -> str:
        """A remark on A for the law of the iterates; n is None for all rows."""
        del n, p
        return ""

    def init(self, theta: Vectors) -> Any:
        """The memory before the first step, for theta (p, K)."""
        del theta

    @abc.abstractmethod
    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        """Adjust the drawn gradient."""

    @abc.abstractmethod
    def matrix(self, moments: Moments) -> np.ndarray:
        """A (p, p) for these population moments, once the memory is stationary."""


class Identity(Adjustment):
    """A = I."""

    needs_population = False

    @property
    def spectral(self) -> bool:
        return False

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        return Adjusted(drawn.mean, memory)

    def matrix(self, moments: Moments) -> np.ndarray:
        return np.eye(len(moments.mean))


class RootAdjustment(Adjustment):
    """A = V^-1 with V V' = Sigma + ridge I, V of a kind that `covariance.choose` knows."""

    kind: RootKind = eqx.field(static=True)
    ridge: Array

    @property
    def spectral(self) -> bool:
        return self.kind not in ("diagonal", "rank_one")

    def note(self, n: int | None, p: int) -> str:
        del n, p
        sigma = "diag(Sigma)" if self.kind == "diagonal" else "Sigma"
        return f"V V' = {sigma} + {float(self.ridge):g} I" if self.ridge > 0 else ""


class PopulationRoot(RootAdjustment):
    """A = V(theta)^-1 with V from all rows, at each chain's own theta.

    Paper: MasGrad - the gradient adjusted by the inverse root of its covariance
    """

    needs_population = True

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        V = point.root(self.kind, self.ridge)
        return Adjusted(V.solve(drawn.mean), memory, V)

    def matrix(self, moments: Moments) -> np.ndarray:
        return make_root(self.kind, moments.cov, self.ridge).solve(np.eye(len(moments.mean)))


class BatchRoot(RootAdjustment):
    """A = V_hat^-1 with V_hat from the very rows that gave the gradient (the paper's plug-in).

    It solves E[V_hat^-1 b_hat] = 0, which is shifted from b = 0 by O(1/n) whatever the step.

    Paper: plug-in direction - V_hat^-1 b_hat from one mini-batch
    """

    needs_population = False

    def note(self, n: int | None, p: int) -> str:
        note = super().note(n, p)
        if n is None or n > p or self.kind == "diagonal":
            return note
        return f"{note}; with batches of {n} for {p} parameters the ridge sets the step"

    def batch_part(self, n: int, p: int) -> str:
        return "factor" if wants_factor(self.kind, n, p) else "cov"

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        if drawn.factor is None:
            V = make_root(self.kind, drawn.cov, self.ridge)
        else:
            V = factor_root(self.kind, drawn.factor, self.ridge)
        return Adjusted(V.solve(drawn.mean), memory, V)

    def matrix(self, moments: Moments) -> np.ndarray:
        raise InputError(
            "covariance='batch' has no A(theta): V_hat is random and correlated with the gradient; "
            "use covariance='population' or 'running' for laws and stability"
        )


class InverseFisher(Adjustment):
    """A = I(theta)^-1 with the uncentred I = E[g g'] over all rows.

    Paper: natural gradient - steepest descent in the Fisher metric
    """

    needs_population = True

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        V = SymmetricRoot.of(point.field.fisher(point.population))
        return Adjusted(V.power(drawn.mean, -1.0), memory, V)

    def matrix(self, moments: Moments) -> np.ndarray:
        return SymmetricRoot.of(moments.fisher).power(np.eye(len(moments.mean)), -1.0)


class InverseHistory(Adjustment):
    """A = G_t^-1/2 with G_t the sum of g g' up to and including this step's gradient.

    Paper: AdaGrad - the history of gradients, whole or its diagonal
    """

    diagonal: bool = eqx.field(static=True)

    needs_population = False

    @property
    def spectral(self) -> bool:
        return not self.diagonal

    def init(self, theta: Vectors) -> Any:
        p, K = theta.shape
        return jnp.zeros((p, K) if self.diagonal else (p, p, K))

    def update(self, memory: Any, point: Point, drawn: Estimate) -> Adjusted:
        g = drawn.mean
        if self.diagonal:
            G = memory + g * g
            return Adjusted(jnp.where(G > 0, g / jnp.sqrt(jnp.where(G > 0, G, 1.0)), 0.0), G)
        G = memory + g[:, None] * g[None]
        return Adjusted(_pseudo_inverse_root(G, g), G)

    def matrix(self, moments: Moments) -> np.ndarray:
        raise InputError("AdaGrad's step shrinks with its history: it has no stationary A")


def _pseudo_inverse_root(G: Matrices, g: Vectors) -> Vectors:
    """G^-1/2 g in the span of G, which has rank t after t steps and contains g."""
    values, vectors = spectrum(G)
    keep = values > EIGENVALUE_FLOOR * values.max(0)
    scale = jnp.where(keep, 1.0 / jnp.sqrt(jnp.where(keep, values, 1.0)), 0.0)
    return (vectors * (scale * (vectors * g[:, None]).sum(0))[None]).sum(1)

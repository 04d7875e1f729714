"""V from past batches: an average of their covariances that forgets, and its root now and then.

    V_bar_{t+1}^2 = V_bar_t^2 + w_t (Sigma_hat_t - V_bar_t^2),    w_t = max(1 / (t + 1), forget)
    theta_{t+1}   = theta_t - eta V^-1 g_t,                       V = V_bar_s with s <= t

The average costs a product at each step, its root an eigenproblem. `root_every` = k takes the root
at the steps s = 0, 1, 2, 4, 8, ... below k and at the multiples of k, and uses it until the next:
k = 1 is s = t. Drift and noise of a step have the same V, so that the process is MasGrad with a V
that lags by k - 1 steps at most. The powers of two matter at the start, where V_bar is a mean of t
covariances: one batch of few more than p rows would otherwise rule the first k steps.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.covariance.choose import held_root, make_root
from masgrad.covariance.moments import Moments
from masgrad.covariance.root import DiagonalRoot, Root
from masgrad.kernels.adjustment import Adjusted, PopulationRoot, RootAdjustment
from masgrad.kernels.field import Estimate
from masgrad.kernels.gradient import Point
from masgrad.types import Array, Vectors


class Past(eqx.Module):
    """V_bar^2 (p, p, K), or its diagonal (p, K), the number of batches, and the root in use."""

    cov: Array
    t: Array
    root: Root | None


class RunningRoot(RootAdjustment):
    """A = V^-1 with V the root of an average of the covariances of the batches *before* this one.

    The average forgets: weight max(1 / (t + 1), `forget`) goes to the newest batch. The first step
    has no past and uses its own batch. The root is of the average at this step, or, with
    `root_every` = k > 1, at one of the last k.
    """

    forget: float = eqx.field(static=True, default=0.05)
    root_every: int = eqx.field(static=True, default=1)

    needs_population = False

    def batch_part(self, n: int, p: int) -> str:
        return "factor" if self.kind == "diagonal" else "cov"

    def note(self, n: int | None, p: int) -> str:
        lag = f"a root of V V' every {self.root_every} steps" if self.root_every > 1 else ""
        return "; ".join(part for part in (super().note(n, p), lag) if part)

    def init(self, theta: Vectors) -> Past:
        p, K = theta.shape
        cov = jnp.zeros((p, K) if self.kind == "diagonal" else (p, p, K))
        held = self._root(cov) if self.root_every > 1 else None  # the first step replaces it
        return Past(cov, jnp.asarray(0), held)

    def update(self, memory: Past, point: Point, drawn: Estimate) -> Adjusted:
        t, fresh = memory.t, self._second_moment(drawn)
        past = jnp.where(t == 0, fresh, memory.cov)
        V = self._root(past) if memory.root is None else self._lagged(past, t, memory.root)
        weight = jnp.maximum(1.0 / (t + 1), self.forget)
        newest = past + weight * (fresh - past)
        held = V if self.root_every > 1 else None
        return Adjusted(V.solve(drawn.mean), Past(newest, t + 1, held), V)

    def _second_moment(self, drawn: Estimate) -> Array:
        """The batch's covariance, or only its variances for a diagonal root."""
        if self.kind != "diagonal":
            return drawn.cov
        if drawn.factor is None:
            return jnp.einsum("iik->ik", drawn.cov)
        return (drawn.factor**2).sum(0)

    def _lagged(self, past: Array, t: Array, root: Root) -> Root:
        """The root in use, renewed where it is due: t is one for all chains, a true branch."""
        doubling = (t < self.root_every) & (t & (t - 1) == 0)
        due = doubling | (t % self.root_every == 0)
        return jax.lax.cond(due, lambda: self._root(past), lambda: root)

    def _root(self, past: Array) -> Root:
        if self.kind == "diagonal":
            return DiagonalRoot.of_variances(past, self.ridge)
        make = make_root if self.root_every == 1 else held_root
        return make(self.kind, past, self.ridge)

    def matrix(self, moments: Moments) -> np.ndarray:
        return PopulationRoot(kind=self.kind, ridge=self.ridge).matrix(moments)

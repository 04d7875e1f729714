"""Data that never run out: fresh rows from a simulator, at every step of every chain.

Here assumption (A.1) of Theorem "Non-asymptotic bound for inference" can hold, which rows drawn
from a finite table violate; rates between a chain and its diffusion are shown on simulators.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from masgrad.errors import InputError
from masgrad.types import Array, Rows


class Simulator(eqx.Module):
    """Independent rows from `sample(key, n)`, JAX-traceable, leaves of shape (n, ...).

    The population's b(theta) and Sigma(theta), which V and diffusions need, come from
    `moments(theta) -> (b, Sigma)` where they are known, else from `reference` rows drawn once.

    Example:
        >>> normal = Simulator(lambda key, n: jax.random.normal(key, (n, 2)))
    """

    sample: Callable[[Array, int], Rows]
    moments: Callable[[Array], tuple[Array, Array]] | None = None
    reference: int = eqx.field(default=100_000, static=True)

    def __check_init__(self):
        if self.reference < 2:
            raise InputError(f"reference={self.reference}; at least 2 rows make a covariance")

    def draw(self, key: Array, n: int, chains: int) -> Rows:
        """`n` fresh rows for each chain, leaves of shape (n, K, ...)."""
        rows = self.sample(key, n * chains)
        return jax.tree.map(lambda a: a.reshape(n, chains, *a.shape[1:]), rows)

    def reference_rows(self) -> Rows:
        """The rows that stand for the population where `moments` is not given."""
        return jax.tree.map(np.asarray, self.sample(jax.random.key(0), self.reference))

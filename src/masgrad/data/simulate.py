"""Data that never run out: fresh rows from a simulator, at every step of every chain.

Here assumption (A.1) of Theorem "Non-asymptotic bound for inference" can hold, which rows drawn
from a finite table violate; rates between a chain and its diffusion are shown on simulators.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import numpy as np

from masgrad.data.stream import Stream
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array, Rows, float64


class Simulator(eqx.Module):
    """Independent rows from `sample(key, n)`, JAX-traceable, leaves of shape (n, ...).

    The population's b(theta) and Sigma(theta), which V and diffusions need, come from
    `moments(theta) -> (b, Sigma)` if known, otherwise from `reference` rows drawn once.

    Example:
        >>> normal = Simulator(lambda key, n: jax.random.normal(key, (n, 2)))
    """

    sample: Callable[[Array, int], Rows]
    moments: Callable[[Array], tuple[Array, Array]] | None = None
    reference: int = eqx.field(default=100_000, static=True)

    def __check_init__(self):
        if not callable(self.sample):
            raise InputTypeError(f"Simulator needs a function of (key, n), got {self.sample!r}")
        if self.reference < 2:
            raise InputError(f"reference={self.reference}; at least 2 rows make a covariance")

    def draw(self, key: Array, n: int, chains: int) -> Rows:
        """`n` fresh rows for each chain, leaves of shape (n, K, ...)."""
        rows = self.sample(key, n * chains)
        return jax.tree.map(lambda a: a.reshape(n, chains, *a.shape[1:]), rows)

    def stream(self, rows: int, seed: int = 0, block: int = 1 << 16) -> Stream:
        """A stream of `rows` simulated rows for `fit`; every read gives the same rows."""
        key = np.asarray(seed, np.uint32)
        draw = jax.jit(self.sample, static_argnums=1)

        @float64
        def take(i: int) -> Rows:
            made = draw(jax.random.fold_in(jax.random.key(key), i), block)
            return jax.tree.map(lambda a: np.asarray(a)[: rows - i * block], made)

        return Stream(lambda: (take(i) for i in range(-(-rows // block))))

    def check(self, n: int = 64) -> Rows:
        """`n` rows, after checking that the sampler can be traced and uses its key."""
        try:
            draw = jax.jit(lambda key: self.sample(key, n))
            rows, others = (jax.tree.map(np.asarray, draw(jax.random.key(i))) for i in (1, 2))
        except Exception as error:
            raise InputError(
                f"sample(key, n) cannot be traced by JAX: {type(error).__name__}: {error}; write "
                "it with jax.numpy and jax.random"
            ) from error
        leaves, others = jax.tree.leaves(rows), jax.tree.leaves(others)
        if any(np.ndim(a) == 0 or len(a) != n for a in leaves):
            shapes = [np.shape(a) for a in leaves]
            raise InputError(
                f"sample(key, {n}) gave arrays of shape {shapes}; axis 0 must be {n} rows"
            )
        if all(np.array_equal(a, b) for a, b in zip(leaves, others, strict=True)):
            raise InputError(
                "sample(key, n) gave the same rows for two keys; take all randomness from the key, "
                "with jax.random (NumPy's would be drawn once and repeated at every step)"
            )
        return rows

    def reference_rows(self) -> Rows:
        """The rows that represent the population if `moments` is not given."""
        return jax.tree.map(np.asarray, self.sample(jax.random.key(0), self.reference))

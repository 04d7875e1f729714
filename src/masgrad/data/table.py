"""Rows as a compiled chain sees them: packed once, then drawn from and summed over.

Rows are padded to a capacity that many N share, and the true count is a traced number, so that
another N of the same capacity does not compile again. Padding repeats a real row and carries weight
0: a loss that is finite on the data stays finite on the padding.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from masgrad.data.arrays import count_rows, pad
from masgrad.types import Array, Rows


def capacity(count: int) -> int:
    """A padded length that many counts share: powers of two, then eighths of an octave.

    Only storage is rounded up; work follows the count (see `Table.number_of_blocks`).
    """
    octave = max(512, 1 << (count - 1).bit_length())
    if octave <= 1 << 16:
        return octave
    grain = octave // 16
    return -(-count // grain) * grain


class Table(eqx.Module):
    """Rows that a compiled chain draws from and sums over."""

    rows: Rows
    count: Array

    @classmethod
    def pack(cls, rows: Rows) -> "Table":
        count = count_rows(rows)
        return cls(pad(rows, capacity(count)), np.asarray(count))

    @property
    def capacity(self) -> int:
        return count_rows(self.rows)

    def draw(self, key: Array, n: int, chains: int, replace: bool = True) -> Rows:
        """`n` rows for each chain, leaves of shape (n, K, ...)."""
        if replace:
            index = self._with_replacement(key, n, chains)
        else:
            index = self._without_replacement(key, n, chains)
        return jax.tree.map(lambda a: a[index], self.rows)

    def _with_replacement(self, key: Array, n: int, chains: int) -> Array:
        """Row numbers (n, K). Up to 2^16 rows each takes half of a 64-bit word, which makes rows
        equally likely to within 2^-16 of 1/N; whole words took an eighth of a small step's time."""
        if self.capacity > 1 << 16:
            return jnp.floor(jax.random.uniform(key, (n, chains)) * self.count).astype(int)
        words = jax.random.bits(key, (-(-n // 2), chains), np.uint64)
        halves = jnp.concatenate([words >> 32, words & 0xFFFFFFFF])[:n]
        return ((halves * self.count.astype(np.uint64)) >> 32).astype(int)

    def _without_replacement(self, key: Array, n: int, chains: int) -> Array:
        """Row numbers (n, K) that differ within a chain.

        Small batches by Floyd's algorithm, O(n^2) for each chain; large ones by sorting all rows.
        """
        if n * n > self.capacity:
            real = jnp.arange(self.capacity) < self.count
            priority = jax.random.uniform(key, (chains, self.capacity))
            return jax.lax.top_k(jnp.where(real, priority, -1.0), n)[1].T
        uniform = jax.random.uniform(key, (n, chains))

        def choose(i, index):
            last = self.count - n + i
            row = jnp.floor(uniform[i] * (last + 1)).astype(int)
            return index.at[i].set(jnp.where((index == row).any(0), last, row))

        return jax.lax.fori_loop(0, n, choose, jnp.full((n, chains), -1))

    def number_of_blocks(self, size: int) -> Array:
        return (self.count + size - 1) // size

    def block(
        self, index: Array | int, size: int, features: Rows, axis: int = 0
    ) -> tuple[Rows, Array]:
        """One block of `features`, which a model prepared from the rows, and its weights."""
        start = index * size
        take = lambda a: jax.lax.dynamic_slice_in_dim(a, start, size, axis)  # noqa: E731
        weight = (start + jnp.arange(size) < self.count).astype(float)
        return jax.tree.map(take, features), weight

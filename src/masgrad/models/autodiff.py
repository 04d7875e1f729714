"""Models by automatic differentiation: `loss(theta, z)` of one row is all that they need to write.

Blocks of rows are padded to a power of two, so that a function is compiled for a few lengths only.
Sums count each row by its weight, as those of linear predictors do.
"""

from functools import partial

import jax
import numpy as np

from masgrad.data.arrays import BLOCK, count_rows, pad
from masgrad.data.regression import observations, weight_of
from masgrad.models.model import Model, RowSums, Sums
from masgrad.types import Array, Matrices, Rows, Vectors


class AutodiffModel(Model):
    """A model whose derivatives JAX finds; a subclass has `loss`, `dim`, and `rows` for checks."""

    def row_losses(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        return _on_block(_losses, self, theta, rows)

    def row_gradients(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        return _on_block(_gradients, self, theta, rows)

    def hessian_sum(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of the rows' Hessians, (p, p)."""
        padded = pad(observations(rows), block_length(rows))
        return np.asarray(_hessian(self, theta, padded, _weights(rows)))

    def row_hessians(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """The Hessian of every row's loss, (n, p, p)."""
        return _on_block(_hessians, self, theta, rows)

    def row_sums(
        self,
        theta: np.ndarray,
        rows: Rows,
        hessian: bool = True,
        meat: bool = True,
        *,
        squared: bool = False,
    ) -> RowSums:
        """Sums over a block of losses, gradients and, on request, Hessians and outer products."""
        padded = pad(observations(rows), block_length(rows))
        if hessian:
            each, H = _with_hessian(self, theta, padded, _weights(rows))
        else:
            each, H = _losses_and_gradients(self, theta, padded), None
        return _summed(each, None if H is None else np.asarray(H), rows, meat, squared=squared)

    def row_sums_at(
        self, points: np.ndarray, rows: Rows, *, squared: bool = False
    ) -> list[RowSums]:
        """All sums over a block, at each of some points, (K, p), in one compiled call."""
        padded = pad(observations(rows), block_length(rows))
        (values, G), H = _with_hessian_at(self, points, padded, _weights(rows))
        each = zip(np.asarray(values), np.asarray(G), np.asarray(H), strict=True)
        return [_summed((v, g), h, rows, squared=squared) for v, g, h in each]

    def missed_gradient(self, theta: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of g(theta + step) - g(theta) - H step, the error of the quadratic model."""
        change = self.row_gradients(theta + step, rows) - self.row_gradients(theta, rows)
        a = weight_of(rows)
        total = change.sum(0) if a is None else a @ change
        return total - self.hessian_sum(theta, rows) @ step

    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        """Sums over rows that all chains share: theta (p, K) -> (p, K) and (p, p, K).

        Weights are 1 for a row and 0 for padding.
        """

        def one_chain(t):
            G = jax.vmap(jax.grad(self.loss), (None, 0))(t, features)
            return Sums(weight @ G, (weight[:, None] * G).T @ G if outer else None)

        return jax.vmap(one_chain, 1, -1)(theta)

    def centred_outer(
        self, theta: Vectors, features: Rows, weight: Array, centre: Vectors
    ) -> Matrices:
        """Sum of (g - centre)(g - centre)' over shared rows, without cancellation."""

        def one_chain(t, c):
            G = jax.vmap(jax.grad(self.loss), (None, 0))(t, features) - c
            return (weight[:, None] * G).T @ G

        return jax.vmap(one_chain, (1, 1), -1)(theta, centre)

    def paired_gradients(self, theta: Vectors, rows: Rows) -> Array:
        """Gradients of rows (n, K, ...) drawn separately for each chain: (n, p, K)."""
        of_rows = jax.vmap(jax.grad(self.loss), (None, 0))
        return jax.vmap(of_rows, (1, 1), -1)(theta, rows)


def block_length(rows: Rows) -> int:
    """The next power of two, to which blocks are padded to avoid recompilation."""
    return min(BLOCK, max(64, 1 << (count_rows(rows) - 1).bit_length()))


def _weights(rows: Rows) -> np.ndarray:
    """The rows' weights, and 0 for the padding of their block."""
    weight, a = np.zeros(block_length(rows)), weight_of(rows)
    weight[: count_rows(rows)] = 1.0 if a is None else a
    return weight


def _summed(
    each: tuple[Array, Array],
    H: np.ndarray | None,
    rows: Rows,
    meat: bool = True,
    *,
    squared: bool = False,
) -> RowSums:
    """Sums over a block, from losses and gradients of its padded rows."""
    values, G = (np.asarray(part)[: count_rows(rows)] for part in each)
    a = weight_of(rows)
    if a is None:
        return RowSums(G.sum(0), H, G.T @ G if meat else None, loss=float(values.sum()))
    M = G.T @ ((a * a if squared else a)[:, None] * G) if meat else None
    return RowSums(a @ G, H, M, loss=float(a @ values))


def _on_block(compiled, model: Model, theta: np.ndarray, rows: Rows) -> np.ndarray:
    padded = pad(observations(rows), block_length(rows))
    return np.asarray(compiled(model, theta, padded))[: count_rows(rows)]


@partial(jax.jit, static_argnums=0)
def _losses(model: Model, theta: Array, rows: Rows) -> Array:
    return jax.vmap(model.loss, (None, 0))(theta, rows)


@partial(jax.jit, static_argnums=0)
def _gradients(model: Model, theta: Array, rows: Rows) -> Array:
    return jax.vmap(jax.grad(model.loss), (None, 0))(theta, rows)


@partial(jax.jit, static_argnums=0)
def _hessians(model: Model, theta: Array, rows: Rows) -> Array:
    return jax.vmap(jax.hessian(model.loss), (None, 0))(theta, rows)


@partial(jax.jit, static_argnums=0)
def _losses_and_gradients(model: Model, theta: Array, rows: Rows) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(model.loss), (None, 0))(theta, rows)


@partial(jax.jit, static_argnums=0)
def _with_hessian(model: Model, theta: Array, rows: Rows, weight: Array):
    return _losses_and_gradients(model, theta, rows), _hessian(model, theta, rows, weight)


@partial(jax.jit, static_argnums=0)
def _with_hessian_at(model: Model, points: Array, rows: Rows, weight: Array):
    return jax.lax.map(lambda theta: _with_hessian(model, theta, rows, weight), points)


@partial(jax.jit, static_argnums=0)
def _hessian(model: Model, theta: Array, rows: Rows, weight: Array) -> Array:
    def total(t):
        return weight @ jax.vmap(model.loss, (None, 0))(t, rows)

    return jax.hessian(total)(theta)

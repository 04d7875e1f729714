"""A model is a loss for one observation; everything else follows by automatic differentiation.

A new model needs `loss(theta, z)` and `dim(rows)`, and `rows(data)` to check its data. The public
methods (`risk`, `gradients`) take whole data sets and return NumPy. The engine's are traced:
`shared_sums` adds gradients and their outer products over rows that all chains share, and
`paired_gradients` gives the gradients of rows drawn separately for each chain.
"""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np

from masgrad.data.arrays import BLOCK, as_rows, blocks, count_rows, pad
from masgrad.errors import InputError, InputTypeError
from masgrad.precision import float64
from masgrad.types import Array, Matrices, Rows, Vectors


class Sums(NamedTuple):
    """Weighted sums over rows; the chain axis, if any, is last."""

    gradient: Vectors
    outer: Matrices | None


class RowSums(NamedTuple):
    """Sums over rows at one theta, in NumPy, for a local quadratic model and its noise.

    Args:
        gradient: sum of g, (p,).
        hessian: sum of the rows' Hessians, (p, p), or None.
        meat: sum of g g', (p, p), or None.
        squares: sum of squared residuals, over their variance where its scale is to be estimated;
            0 where there is no linear predictor.
        max_weighted_x: largest |x| of each column times the root of the row's curvature, (p,); 0
            without a linear predictor. It bounds the weighted change of any predictor in a step.
        loss: sum of the rows' losses.
        information: sum of the rows' expected Hessians, (p, p), where it was asked for.
    """

    gradient: np.ndarray
    hessian: np.ndarray | None
    meat: np.ndarray | None
    squares: float = 0.0
    max_weighted_x: np.ndarray | float = 0.0
    loss: float = 0.0
    information: np.ndarray | None = None


class Model(eqx.Module):
    """The loss of one observation, `loss(theta, z)`, with z one row of the data.

    Attributes:
        row_axis: axis of the rows in what `prepare` returns.
        several_optima: whether the loss is known to have several, so that results are local.
        is_likelihood: whether the loss is a negative log-likelihood, which non-robust errors need.
    """

    row_axis: ClassVar[int] = 0
    several_optima: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False

    @abc.abstractmethod
    def loss(self, theta: Array, z: Rows) -> Array:
        """The loss of one row: a scalar."""

    @abc.abstractmethod
    def dim(self, rows: Rows) -> int:
        """The number of parameters p for these rows."""

    @property
    def in_words(self) -> str:
        """The model as summaries name it."""
        return type(self).__name__

    def rows(self, data: Rows) -> Rows:
        """Data as checked NumPy rows; models with requirements of their own override it."""
        return as_rows(data)

    def theta(self, theta: Array, rows: Rows) -> np.ndarray:
        """One parameter vector, checked against the rows."""
        p = self.dim(rows)
        vector = np.asarray(theta, dtype=np.float64)
        if vector.shape != (p,):
            raise InputError(f"theta has shape {vector.shape}; this model and data need ({p},)")
        if not np.isfinite(vector).all():
            raise InputError(f"theta is {vector[~np.isfinite(vector)][0]} at a coordinate")
        return vector

    def random_theta(self, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """A random start, (p,), for a loss with several optima: standard normal."""
        return rng.normal(size=self.dim(rows))

    # What a user asks of a whole data set.

    @float64
    def risk(self, theta: Array, data: Rows) -> float:
        """Mean loss over the data, L(theta).

        Paper: population landscape L - the mean loss, here over the rows at hand
        """
        rows = self.rows(data)
        theta = self.theta(theta, rows)
        return sum(self.row_losses(theta, b).sum() for b in blocks(rows)) / count_rows(rows)

    @float64
    def gradients(self, theta: Array, data: Rows) -> np.ndarray:
        """Gradient of every row's loss, (N, p)."""
        rows = self.rows(data)
        theta = self.theta(theta, rows)
        return np.concatenate([self.row_gradients(theta, b) for b in blocks(rows)])

    # Host methods on checked blocks; linear predictors override them with NumPy, and with the
    # offsets that rows carry; their sums count rows by weight, their values of single rows do not.

    def row_losses(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        return _on_block(_losses, self, theta, rows)

    def row_gradients(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        return _on_block(_gradients, self, theta, rows)

    def hessian_sum(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of the rows' Hessians, (p, p)."""
        length = _block_length(rows)
        weight = (np.arange(length) < count_rows(rows)).astype(float)
        return np.asarray(_hessian(self, theta, pad(rows, length), weight))

    def row_sums(
        self, theta: np.ndarray, rows: Rows, hessian: bool = True, meat: bool = True
    ) -> RowSums:
        """Sums over a block of losses, gradients and, on request, Hessians and outer products."""
        padded, n = pad(rows, _block_length(rows)), count_rows(rows)
        values, G = (np.asarray(a)[:n] for a in _losses_and_gradients(self, theta, padded))
        H = self.hessian_sum(theta, rows) if hessian else None
        return RowSums(G.sum(0), H, G.T @ G if meat else None, loss=float(values.sum()))

    def missed_gradient(self, theta: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of g(theta + step) - g(theta) - H step, the error of the quadratic model."""
        change = self.row_gradients(theta + step, rows) - self.row_gradients(theta, rows)
        return change.sum(0) - self.hessian_sum(theta, rows) @ step

    # Traced methods of the engine.

    def prepare(self, rows: Rows) -> Rows:
        """Precompute from the rows what `shared_sums` needs, once per run; rows on `row_axis`."""
        return rows

    def row_size(self, rows: Rows) -> int:
        """The memory of `shared_sums` per row and chain, in numbers; it sets the block size."""
        return 2 * self.dim(rows)

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


def check_model(model: Any) -> None:
    """Refuse an object that is not a model, such as a class or a name."""
    if not isinstance(model, Model):
        hint = "mg.Logistic(), with parentheses" if callable(model) else "mg.Logistic()"
        raise InputTypeError(f"model={model!r:.60}; a model is needed, such as {hint}")


def _block_length(rows: Rows) -> int:
    """The next power of two, to which blocks are padded to avoid recompilation."""
    return min(BLOCK, max(64, 1 << (count_rows(rows) - 1).bit_length()))


def _on_block(compiled, model: Model, theta: np.ndarray, rows: Rows) -> np.ndarray:
    padded = pad(rows, _block_length(rows))
    return np.asarray(compiled(model, theta, padded))[: count_rows(rows)]


@eqx.filter_jit
def _losses(model: Model, theta: Array, rows: Rows) -> Array:
    return jax.vmap(model.loss, (None, 0))(theta, rows)


@eqx.filter_jit
def _gradients(model: Model, theta: Array, rows: Rows) -> Array:
    return jax.vmap(jax.grad(model.loss), (None, 0))(theta, rows)


@eqx.filter_jit
def _losses_and_gradients(model: Model, theta: Array, rows: Rows) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(model.loss), (None, 0))(theta, rows)


@eqx.filter_jit
def _hessian(model: Model, theta: Array, rows: Rows, weight: Array) -> Array:
    def total(t):
        return weight @ jax.vmap(model.loss, (None, 0))(t, rows)

    return jax.hessian(total)(theta)

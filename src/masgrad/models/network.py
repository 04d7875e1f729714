"""The paper's two-layer ReLU network, with a fixed constant in each layer or without."""

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax.nn import relu

from masgrad.checks import as_number
from masgrad.data.arrays import as_regression
from masgrad.errors import InputError
from masgrad.models.autodiff import AutodiffModel
from masgrad.models.model import Sums
from masgrad.models.triangle import from_triangle, row_products
from masgrad.types import Array, Matrices, Rows, Vectors


@dataclass(frozen=True)
class ReluNetwork(AutodiffModel):
    """Loss 1/2 (y - f(x))^2 with f(x) = relu(c + W2 relu(c + W1 x)) over rows (x, y).

    theta = [W1.ravel(), W2.ravel()] with W1 (hidden, inputs) and W2 (1, hidden). At a kink the
    gradient is JAX's: that of relu at 0 is 0.

    c = 1 is the network of the paper's experiment; c = 0 that of its main text, which a unit's
    weights W1 times s and W2 over s leave as it is, for any s > 0: its weights are not identified
    one by one, and Sigma and H are singular along that direction.

    Paper: shallow neural network - square loss, with a constant a layer (experiment) or without

    Args:
        inputs: length of x.
        hidden: number of hidden units.
        constant: c.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> plain = mg.ReluNetwork(2, 1, constant=0.0)
        >>> row = np.array([[1.0, 1.0]]), np.array([3.0])
        >>> [float(plain.risk(theta, row)) for theta in ([1.0, 1.0, 1.5], [2.0, 2.0, 0.75])]
        [0.0, 0.0]
    """

    row_axis: ClassVar[int] = 1
    several_optima: ClassVar[bool] = True
    has_kinks: ClassVar[bool] = True

    inputs: int
    hidden: int
    constant: float = 1.0

    def __post_init__(self):
        if self.inputs < 1 or self.hidden < 1:
            raise InputError(f"ReluNetwork({self.inputs}, {self.hidden}): sizes must be >= 1")
        self._set(constant=as_number("constant", self.constant))

    def rows(self, data: Rows) -> Rows:
        X, y = as_regression(data)
        if X.ndim != 2 or X.shape[1] != self.inputs:
            raise InputError(
                f"X has shape {X.shape}; ReluNetwork({self.inputs}, {self.hidden}) needs "
                f"(N, {self.inputs})"
            )
        return X, y

    def dim(self, rows: Rows) -> int:
        return self.hidden * (self.inputs + 1)

    def units(self, rows: Rows) -> np.ndarray:
        """The hidden units: a row of W1 and an entry of W2 each."""
        first = np.arange(self.hidden * self.inputs).reshape(self.hidden, self.inputs)
        return np.column_stack([first, first.size + np.arange(self.hidden)])

    def predict(self, theta: Array, x: Array) -> Array:
        """f(x) for one row."""
        split = self.hidden * self.inputs
        W1 = theta[:split].reshape(self.hidden, self.inputs)
        return relu(self.constant + theta[split:] @ relu(self.constant + W1 @ x))

    def loss(self, theta: Array, z: Rows) -> Array:
        x, y = z
        return 0.5 * jnp.square(y - self.predict(theta, x))

    # With a constant in front of x a hidden unit that is on is linear in x, so that sums over rows
    # are products of matrices: r and r^2, where units are on, by the rows' x and x x'.

    def prepare(self, rows: Rows) -> Rows:
        """(1, X)', y and the upper triangles of its outer products, rows last."""
        X, y = rows
        XT = jnp.concatenate([jnp.ones((1, len(y))), jnp.asarray(X).T])
        return XT, jnp.asarray(y)[None], row_products(XT)

    def row_size(self, rows: Rows) -> int:
        """One number per hidden unit and per pair of units, for residuals where they are active."""
        return self.hidden * (self.hidden + 3) // 2

    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        XT, y, products = features
        W1, W2 = self._weights(theta)
        pre = [sum(x[:, None] * w for x, w in zip(XT, W, strict=True)) for W in W1]
        on = [h > 0 for h in pre]
        out = self.constant + sum(w * relu(h) for w, h in zip(W2, pre, strict=True))
        r = jnp.where(out > 0, weight[:, None] * (out - y[0][:, None]), 0.0)
        first = jnp.stack([XT @ jnp.where(o, r, 0.0) for o in on])
        gradient = jnp.concatenate([_flat(W2[:, None] * first[:, 1:]), (W1 * first).sum(1)])
        if not outer:
            return Sums(gradient, None)
        pairs = zip(*np.triu_indices(len(on)), strict=True)
        both = [products @ jnp.where(on[a] & on[b], r * r, 0.0) for a, b in pairs]
        M = from_triangle(jnp.stack(both), len(on))  # (hidden, hidden, products, K)
        M = jnp.moveaxis(from_triangle(jnp.moveaxis(M, 2, 0), len(XT)), (0, 1), (2, 3))
        return Sums(gradient, _outer(W1, W2, M))

    def centred_outer(
        self, theta: Vectors, features: Rows, weight: Array, centre: Vectors
    ) -> Matrices:
        XT, y, _ = features
        return super().centred_outer(theta, (XT[1:].T, y[0]), weight, centre)

    def _weights(self, theta: Vectors) -> tuple[Array, Vectors]:
        """(c, W1) as (hidden, 1 + inputs, K), and W2 (hidden, K)."""
        split, K = self.hidden * self.inputs, theta.shape[1]
        W1 = theta[:split].reshape(self.hidden, self.inputs, K)
        c = jnp.full((self.hidden, 1, K), self.constant)
        return jnp.concatenate([c, W1], axis=1), theta[split:]


def _flat(W: Array) -> Vectors:
    """(hidden, inputs, K) as the parameters W1, (hidden inputs, K)."""
    return W.reshape(-1, W.shape[-1])


def _outer(W1: Array, W2: Vectors, M: Array) -> Matrices:
    """Sum of g g' from M[a, b] = sum of r^2 x x' over rows at which units a and b are on.

    The gradient of a row is r W2_a x for W1_a and r W1_a'x for W2_a.
    """
    (hidden, _, K), inputs = W1.shape, W1.shape[1] - 1
    MW = jnp.einsum("abxyk,byk->abxk", M, W1)
    scaled = W2[:, None, None, None] * W2[None, :, None, None] * M[:, :, 1:, 1:]
    first = scaled.transpose(0, 2, 1, 3, 4).reshape(hidden * inputs, hidden * inputs, K)
    cross = (W2[:, None, None] * MW[:, :, 1:]).transpose(0, 2, 1, 3).reshape(-1, hidden, K)
    second = jnp.einsum("axk,abxk->abk", W1, MW)
    top = jnp.concatenate([first, cross], 1)
    return jnp.concatenate([top, jnp.concatenate([cross.transpose(1, 0, 2), second], 1)])

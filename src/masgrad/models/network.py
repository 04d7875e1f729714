"""A two-layer ReLU network with the paper's fixed constants, which break its scale invariance."""

import equinox as eqx
import jax.numpy as jnp
from jax.nn import relu

from masgrad.data.arrays import as_regression
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Array, Rows


class ReluNetwork(Model):
    """Loss 1/2 (y - f(x))^2 with f(x) = relu(1 + W2 relu(1 + W1 x)) over rows (x, y).

    theta = [W1.ravel(), W2.ravel()] with W1 (hidden, inputs) and W2 (1, hidden). At a kink the
    gradient is JAX's: that of relu at 0 is 0.

    Paper: shallow neural network - square loss, one non-programmable constant a layer
    """

    inputs: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)

    def __check_init__(self):
        if self.inputs < 1 or self.hidden < 1:
            raise InputError(f"ReluNetwork({self.inputs}, {self.hidden}): sizes must be >= 1")

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

    def predict(self, theta: Array, x: Array) -> Array:
        """f(x) for one row."""
        split = self.hidden * self.inputs
        W1 = theta[:split].reshape(self.hidden, self.inputs)
        return relu(1.0 + theta[split:] @ relu(1.0 + W1 @ x))

    def loss(self, theta: Array, z: Rows) -> Array:
        x, y = z
        return 0.5 * jnp.square(y - self.predict(theta, x))

"""Trace regression: a matrix parameter, <X, W>, with squared loss; a linear model of vec(X)."""

from dataclasses import dataclass

from masgrad.data.arrays import as_regression
from masgrad.errors import InputError
from masgrad.models.glm import GLM, add_offset
from masgrad.types import Array, Rows


@dataclass(frozen=True)
class TraceRegression(GLM):
    """Loss 1/2 (<X, W> - y)^2 over rows (X, y) with X (rows, cols); theta = W.ravel().

    Paper: trace regression - the smooth part of the low-rank example
    """

    height: int
    width: int

    def __init__(self, rows: int, cols: int):
        if rows < 1 or cols < 1:
            raise InputError(f"TraceRegression({rows}, {cols}): both sizes must be at least 1")
        super().__init__("gaussian")
        self._set(height=rows, width=cols)

    def rows(self, data: Rows) -> Rows:
        X, y = as_regression(data)
        if X.shape[1:] != (self.height, self.width):
            raise InputError(
                f"X has shape {X.shape}; TraceRegression({self.height}, {self.width}) needs "
                f"(N, {self.height}, {self.width})"
            )
        return X, y

    def dim(self, rows: Rows) -> int:
        return self.height * self.width

    def design(self, rows: Rows) -> Array:
        return rows[0].reshape(*rows[1].shape, -1)

    def loss(self, theta: Array, z: Rows) -> Array:
        X, y = z
        return 0.5 * (X.ravel() @ theta - y) ** 2

    def row_losses(self, theta: Array, rows: Rows) -> Array:
        return 0.5 * (add_offset(self.design(rows) @ theta, rows) - rows[1]) ** 2

"""A model is a loss for one observation, with the sums over rows that fits and chains ask for.

The public methods (`risk`, `gradients`) take whole data sets and return NumPy. The engine's are
traced: `shared_sums` adds gradients and their outer products over rows that all chains share, and
`paired_gradients` gives the gradients of rows drawn separately for each chain.

A model is a frozen record of plain values, a constant of the programs that JAX compiles. A linear
predictor has closed forms for all of it (`glm.py`), and its fits run without JAX. Any other loss
has them by automatic differentiation (`autodiff.py`).
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from masgrad.data.arrays import as_rows, blocks, count_rows
from masgrad.errors import InputError, InputTypeError
from masgrad.types import Array, Matrices, Rows, Vectors, float64


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


def add(a: RowSums, b: RowSums) -> RowSums:
    """Sums over two blocks at one point, both with the same parts."""
    return RowSums(
        a.gradient + b.gradient,
        plus(a.hessian, b.hessian),
        plus(a.meat, b.meat),
        a.squares + b.squares,
        np.maximum(a.max_weighted_x, b.max_weighted_x),
        a.loss + b.loss,
        plus(a.information, b.information),
    )


def plus(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """The sum, or None if either is missing."""
    return None if a is None or b is None else a + b


def padded_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of two vectors, the shorter one followed by zeros."""
    size = max(len(a), len(b))
    return np.pad(a, (0, size - len(a))) + np.pad(b, (0, size - len(b)))


class Model(abc.ABC):
    """The loss of one observation, `loss(theta, z)`, with z one row of the data.

    Attributes:
        row_axis: axis of the rows in what `prepare` returns.
        several_optima: whether the loss is known to have several, so that results are local.
        has_kinks: whether the loss is known to have kinks, so that the gradient of a mean over rows
            jumps and may vanish nowhere.
        is_likelihood: whether the loss is a negative log-likelihood, which non-robust errors need.
        takes_any_rows: whether rows are any pytree, such as the columns of a table, and may carry
            weights.
    """

    row_axis: ClassVar[int] = 0
    several_optima: ClassVar[bool] = False
    has_kinks: ClassVar[bool] = False
    is_likelihood: ClassVar[bool] = False
    takes_any_rows: ClassVar[bool] = False

    def _set(self, **values: Any) -> None:
        """Fill the record in, for an `__init__` that checks or converts what it is given."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

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

    def columns(self, names: Sequence[str]) -> Sequence[str] | None:
        """The columns that the loss needs of a table with these; None for all that are numbers."""
        return None

    def names_of(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the parameters, or (): those of the columns of X, unless a model has its own."""
        return columns

    def vector(self, theta: Any) -> Any:
        """theta as a vector; a model whose parameters are no vector overrides it."""
        return theta

    def initial_theta(self, rows: Rows) -> np.ndarray:
        """Where a fit begins unless told otherwise, (p,)."""
        return np.zeros(self.dim(rows))

    def theta(self, theta: Any, rows: Rows) -> np.ndarray:
        """One parameter vector, checked against the rows."""
        p, given = self.dim(rows), self.vector(theta)
        try:
            vector = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputTypeError(f"theta={theta!r:.60}; {p} numbers are needed ({error})") from None
        if vector.shape != (p,):
            raise InputError(f"theta has shape {vector.shape}; this model and data need ({p},)")
        if not np.isfinite(vector).all():
            raise InputError(f"theta is {vector[~np.isfinite(vector)][0]} at a coordinate")
        return vector

    def random_theta(self, rows: Rows, rng: np.random.Generator) -> np.ndarray:
        """A random start, (p,), for a loss with several optima: standard normal."""
        return rng.normal(size=self.dim(rows))

    def units(self, rows: Rows) -> np.ndarray | None:
        """Indices of the parameters of units that may change places, (units, k); None without."""
        return None

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

    # Host methods on checked blocks, NumPy in and out. Linear predictors add the offsets that rows
    # carry; their sums count rows by weight, their values of single rows do not.

    @abc.abstractmethod
    def row_losses(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """The loss of every row, (n,)."""

    @abc.abstractmethod
    def row_gradients(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """The gradient of every row's loss, (n, p)."""

    @abc.abstractmethod
    def hessian_sum(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of the rows' Hessians, (p, p)."""

    def row_hessians(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """The Hessian of every row's loss, (n, p, p); linear predictors have no need of them."""
        raise NotImplementedError

    @abc.abstractmethod
    def row_sums(
        self,
        theta: np.ndarray,
        rows: Rows,
        hessian: bool = True,
        meat: bool = True,
        *,
        squared: bool = False,
    ) -> RowSums:
        """Sums over a block of losses, gradients and, on request, Hessians and outer products.

        The latter count a row by its weight, or by the square of it (`squared`).
        """

    def row_sums_at(
        self, points: np.ndarray, rows: Rows, *, squared: bool = False
    ) -> list[RowSums]:
        """All sums over a block, at each of some points, (K, p)."""
        return [self.row_sums(theta, rows, squared=squared) for theta in points]

    @abc.abstractmethod
    def missed_gradient(self, theta: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        """Sum of g(theta + step) - g(theta) - H step, the error of the quadratic model."""

    # Traced methods of the engine.

    def prepare(self, rows: Rows) -> Rows:
        """Precompute from the rows what `shared_sums` needs, once per run; rows on `row_axis`."""
        return rows

    def row_size(self, rows: Rows) -> int:
        """The memory of `shared_sums` per row and chain, in numbers; it sets the block size."""
        return 2 * self.dim(rows)

    @abc.abstractmethod
    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        """Sums over rows that all chains share: theta (p, K) -> (p, K) and (p, p, K).

        Weights are 1 for a row and 0 for padding.
        """

    @abc.abstractmethod
    def centred_outer(
        self, theta: Vectors, features: Rows, weight: Array, centre: Vectors
    ) -> Matrices:
        """Sum of (g - centre)(g - centre)' over shared rows, without cancellation."""

    @abc.abstractmethod
    def paired_gradients(self, theta: Vectors, rows: Rows) -> Array:
        """Gradients of rows (n, K, ...) drawn separately for each chain: (n, p, K)."""


def check_model(model: Any) -> None:
    """Refuse an object that is not a model, such as a class or a name."""
    if not isinstance(model, Model):
        hint = "mg.Logistic(), with parentheses" if callable(model) else "mg.Logistic()"
        raise InputTypeError(f"model={model!r:.60}; a model is needed, such as {hint}")

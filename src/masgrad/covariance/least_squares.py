"""Online least squares: rows are read once, and b, Sigma and H follow at any theta.

Rows become sums of fourth powers (`fourth_moments`); theta enters afterwards (`population`). Small
blocks wait in a buffer, so that one row at a time costs little and the first frame is a good one.
"""

import functools
import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from masgrad.checks import as_number
from masgrad.covariance.fourth_moments import Frame, Tally
from masgrad.covariance.moments import Moments
from masgrad.covariance.population import Population, gradient_mean, mean_and_cov, outward
from masgrad.covariance.symmetric_tensor import size, square
from masgrad.data.arrays import as_regression, blocks
from masgrad.errors import InputError, InputTypeError, PrecisionWarning
from masgrad.types import Array

BUFFER_ROWS = 1024
"""Rows buffered before they are summed: enough to choose a frame."""
SLICE_NUMBERS = 2**20
"""Size of the pair products of the rows summed at a time, in numbers."""
LARGEST_LOSS_OF_DIGITS = 1e-8
"""Largest relative error of Sigma without a warning."""
LARGEST_NUMBER = 1e70
"""Largest number whose fourth power can be summed without overflow."""


@dataclass(frozen=True, eq=False, repr=False)
class LeastSquaresMoments:
    """Moments of the least-squares gradient at any theta, from rows that are read once.

    Paper: online least squares - moments at any theta from one pass, the cross term symmetrised

    The memory is constant, C(p + 5, 4) numbers (1.2 MB at p = 40) and up to 1024 rows that wait to
    be summed, and rows may come in blocks of any size and from several shards. The paper's
    covariance has the cross term -2 Cov(x x'theta, x y), which is not symmetric; Cov(g) has this
    matrix and its transpose, once each.

    The results are those of `moments(Linear(), theta, (X, y))` to 1e-9 whatever the offsets and
    units of the columns and however small the noise, but not whatever the rows: sums of fourth
    powers lose digits to columns that are collinear (to 1e-5 and less) and to a row that is 1e4
    times as long as the others. Where cancellation is estimated to leave fewer than 8 digits of
    Sigma there is a `PrecisionWarning`. The error of `optimum` is of order 1e-16 times the squared
    condition number of the centred, scaled columns, as in normal equations.

    Args:
        dim: p, the number of columns of X.
        memory: largest size in bytes of the sums.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X, y = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0.0, 1.0, 5.0])
        >>> rows = mg.LeastSquaresMoments(2).update(X[:1], y[:1]).update(X[1:], y[1:])
        >>> rows
        LeastSquaresMoments(dim=2, count=3, 72 bytes held)
        >>> rows.mean([0.0, 0.0]), rows.optimum().round(12)
        (array([-2.        , -3.66666667]), array([-0.5,  2.5]))
        >>> bool(np.allclose(rows.cov([1.0, 1.0]), mg.moments(mg.Linear(), [1.0, 1.0], (X, y)).cov))
        True
    """

    dim: int
    memory: int = 2**30
    _tally: Tally | None = field(default=None, kw_only=True)
    _pending: tuple[tuple[np.ndarray, np.ndarray], ...] = field(default=(), kw_only=True)
    _waiting: int = field(default=0, kw_only=True)

    def __post_init__(self):
        whole = isinstance(self.dim, int | np.integer) and not isinstance(self.dim, bool)
        if not whole or self.dim < 1:
            raise InputError(f"dim={self.dim!r}; a whole number of columns, at least 1, is needed")
        as_number("memory", self.memory)
        object.__setattr__(self, "dim", int(self.dim))
        _check_memory(f"the sums for dim={self.dim}", size(self.dim + 2, 4), self.memory)

    def __repr__(self) -> str:
        held = sum(a.nbytes for rows in self._pending for a in rows)
        tallies = {self._tally, self.__dict__.get("_total")} - {None}
        held += sum(t.packed.nbytes for t in tallies)
        return f"LeastSquaresMoments(dim={self.dim}, count={self.count}, {held:,} bytes held)"

    @property
    def count(self) -> int:
        """Number of rows."""
        return self._waiting + (self._tally.count if self._tally else 0)

    def update(self, X: Array, y: Array) -> "LeastSquaresMoments":
        """The moments with the rows of X (m, dim) and y (m,) added; m may be 0."""
        X, y = self._checked(X, y)
        if not len(y):
            return self
        enough = BUFFER_ROWS - self._waiting
        if len(y) < enough:
            pending = (*self._pending, (X.copy(), y.copy()))
            return replace(self, _pending=pending, _waiting=self._waiting + len(y))
        whole = len(y) - (len(y) - enough) % BUFFER_ROWS
        tally = _summed(self._tally, self._joined((X[:enough], y[:enough])))
        tally = _summed(tally, (X[enough:whole], y[enough:whole]))
        rest = X[whole:].copy(), y[whole:].copy()
        return replace(self, _tally=tally, _pending=(rest,), _waiting=len(y) - whole)

    def merge(self, other: "LeastSquaresMoments") -> "LeastSquaresMoments":
        """The moments of both sets of rows; shards can be merged in any order."""
        if not isinstance(other, LeastSquaresMoments):
            raise InputTypeError(
                f"a LeastSquaresMoments merges with another one, got {type(other).__name__}; "
                "give rows to update"
            )
        if other.dim != self.dim:
            raise InputError(f"cannot merge moments of {self.dim} and {other.dim} parameters")
        both = self._tally and other._tally and self._tally.merge(other._tally)
        merged = replace(self, _tally=both or self._tally or other._tally)
        return merged.update(*other._joined())

    def mean(self, theta: Array) -> np.ndarray:
        """b, the mean gradient at theta, (p,)."""
        theta, tally = self._theta(theta), self._total
        S = tally.second[square(self.dim + 2)] / tally.count
        with np.errstate(over="ignore", invalid="ignore"):
            s, f = tally.frame.residual(theta)
            b = gradient_mean(tally.frame.centre, s, S[0, 1:-1], S[:-1, 1:] @ f)
        return _finite("mean", b)

    def cov(self, theta: Array) -> np.ndarray:
        """Sigma, the covariance of the gradient at theta with divisor N - 1, (p, p)."""
        return self.moments(theta).cov

    @property
    def hessian(self) -> np.ndarray:
        """H = E[x x'], (p, p): the same at every theta."""
        tally = self._total
        return outward(tally.frame.centre, tally.second[square(self.dim + 1)] / tally.count)

    def moments(self, theta: Array) -> Moments:
        """b, Sigma and H at theta, as the record that `masgrad.moments` returns."""
        theta, tally = self._theta(theta), self._total
        with np.errstate(over="ignore", invalid="ignore"):
            s, f = tally.frame.residual(theta)
            b, scatter = mean_and_cov(tally.frame.centre, s, *tally.powers(f))
            _warn_of_lost_digits(tally.cancellation(s, f), scatter.diagonal())
        scatter = _finite("cov", scatter) * tally.count
        return Moments(tally.count, _finite("mean", b), scatter, self.hessian, theta)

    def optimum(self) -> np.ndarray:
        """The least-squares estimate, (p,), of minimum norm if it is not unique."""
        return self._total.optimum()

    def population(self) -> Population:
        """theta -> (b, Sigma) for JAX: traced, and many chains in one matrix product."""
        tally = self._total
        if tally.count < 2:
            raise InputError("one row has no covariance; at least 2 rows are needed")
        _check_memory(f"a population of dim={self.dim}", size(self.dim + 1, 2) ** 2, self.memory)
        return Population.of(tally)

    @functools.cached_property
    def _total(self) -> Tally:
        """The sums over all rows, buffered ones included."""
        total = _summed(self._tally, self._joined())
        if total is None:
            raise InputError("no rows yet; give at least one to update")
        return total

    def _joined(self, *more: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        rows = [(np.empty((0, self.dim)), np.empty(0)), *self._pending, *more]
        return np.concatenate([X for X, _ in rows]), np.concatenate([y for _, y in rows])

    def _checked(self, X: Array, y: Array) -> tuple[np.ndarray, np.ndarray]:
        if getattr(X, "shape", None) == (0, self.dim) and getattr(y, "shape", None) == (0,):
            return np.empty((0, self.dim)), np.empty(0)
        X, y = as_regression((X, y))
        if X.shape[1:] != (self.dim,):
            raise InputError(f"X has shape {X.shape}; rows of {self.dim} columns are needed")
        largest = max(X.max(), -X.min(), y.max(), -y.min())
        if largest > LARGEST_NUMBER:
            raise InputError(
                f"the rows reach {largest:.1e}, and their fourth powers cannot be summed; rescale "
                f"the data to numbers below {LARGEST_NUMBER:.0e}"
            )
        for j, size_j in enumerate(np.abs(np.column_stack([X, y])).max(0)):
            if 0 < size_j < 1 / LARGEST_NUMBER:
                name = "y" if j == self.dim else f"column {j} of X"
                raise InputError(
                    f"{name} is at most {size_j:.1e}, and its fourth powers vanish; rescale it"
                )
        return X, y

    def _theta(self, theta: Array) -> np.ndarray:
        try:
            vector = np.array(theta, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputTypeError(f"theta={theta!r:.80}; an array of numbers is needed") from None
        if vector.shape != (self.dim,):
            raise InputError(f"theta has shape {vector.shape}; these moments need ({self.dim},)")
        if not np.isfinite(vector).all():
            raise InputError(f"theta is {vector[~np.isfinite(vector)][0]} at a coordinate")
        return vector


def _summed(tally: Tally | None, rows: tuple[np.ndarray, np.ndarray]) -> Tally | None:
    """Add these rows to the tally, slice by slice."""
    X, y = rows
    if not len(y):
        return tally
    tally = tally or Tally.empty(Frame.of(X, y))
    for X_slice, y_slice in blocks((X, y), max(256, SLICE_NUMBERS // size(tally.frame.d, 2))):
        tally = tally.add(X_slice, y_slice)
    return tally


def _warn_of_lost_digits(terms: np.ndarray, variances: np.ndarray) -> None:
    """Warn if the squared terms (p,) cancel to a variance with few correct digits."""
    lost = np.finfo(float).eps * terms / np.maximum(variances, np.finfo(float).tiny)
    if lost.max() > LARGEST_LOSS_OF_DIGITS:
        warnings.warn(
            f"cancellation leaves Sigma an error of about {lost.max():.0e} at this theta: columns "
            "are collinear, or rows far from all others; drop them, or use mg.moments on the rows",
            PrecisionWarning,
            stacklevel=4,
        )


def _finite(name: str, value: np.ndarray) -> np.ndarray:
    if not np.isfinite(value).all():
        raise InputError(
            f"the gradient's {name} is not finite at this theta; rescale the data, or move theta "
            "to where the loss is finite"
        )
    return value


def _check_memory(what: str, numbers: int, memory: int) -> None:
    if 8 * numbers > memory:
        raise InputError(
            f"{what} would take {8 * numbers / 2**30:.3g} GiB, and memory allows "
            f"{memory / 2**30:.3g} GiB; give LeastSquaresMoments memory={8 * numbers}, or use "
            "mg.moments, which reads the rows again at each theta, or a diagonal root"
        )

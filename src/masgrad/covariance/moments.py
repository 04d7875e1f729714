"""Moments of the gradient over rows: count, mean b, covariance Sigma, Hessian H.

Accumulated block by block and merged: each record holds its own centre (the mean) and the scatter
about it, so that merging adds no large numbers that cancel (Chan, Golub & LeVeque). A merge is
associative to rounding: any partition of the rows, in any grouping, gives the same moments.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from masgrad.covariance.choose import check_covariance, check_ridge, make_root
from masgrad.covariance.root import LowRankRoot, Root, check_sign
from masgrad.data.arrays import blocks, count_rows
from masgrad.errors import InputError
from masgrad.models.model import Model
from masgrad.types import Array, Part, RootKind, Rows, float64

PARTS: tuple[Part, ...] = ("mean", "cov", "hessian")


@dataclass(frozen=True)
class Moments:
    """Moments of the gradient at one theta; parts that were not requested are None.

    Args:
        count: number of rows.
        mean: b, (p,).
        scatter: sum of (g - b)(g - b)', (p, p), or None.
        hessian: H, the mean Hessian of the loss, (p, p), or None.
        theta: the point of evaluation, (p,), or None; `merge` refuses two that differ.
    """

    count: int
    mean: np.ndarray
    scatter: Array = None
    hessian: Array = None
    theta: Array = None

    @property
    def cov(self) -> np.ndarray:
        """Sigma with divisor n - 1.

        Paper: statistical estimation - sample mean and covariance of the gradient
        """
        if self.scatter is None:
            raise InputError("these moments were computed without 'cov'; ask for that part")
        if self.count < 2:
            raise InputError("one row has no covariance; at least 2 rows are needed")
        return self.scatter / (self.count - 1)

    @property
    def fisher(self) -> np.ndarray:
        """Uncentred second moment E[g g'], divisor n.

        Paper: Fisher information I - the metric of the natural gradient
        """
        return self.cov * ((self.count - 1) / self.count) + np.outer(self.mean, self.mean)

    @property
    def sandwich(self) -> np.ndarray:
        """H^-1 E[g g'] H^-1: the covariance of sqrt(N) (ERM - theta*), with theta at the ERM.

        Paper: asymptotic normality of the ERM - the sandwich, meat uncentred (HC0)
        """
        if self.hessian is None:
            raise InputError("these moments were computed without 'hessian'; ask for that part")
        size = np.sqrt(np.abs(np.diag(self.hessian)))
        if (
            not (size > 0).all()
            or np.linalg.eigvalsh(self.hessian / np.outer(size, size))[0] < 1e-12
        ):
            raise InputError(
                "H is not positive definite at this theta: it is no strict minimum of the mean "
                "loss, and an estimate there has no asymptotic law; move theta, or drop columns"
            )
        half = np.linalg.solve(self.hessian, self.fisher)
        return np.linalg.solve(self.hessian, half.T)

    def merge(self, other: "Moments") -> "Moments":
        """The moments of both sets of rows together."""
        if self.mean.shape != other.mean.shape:
            raise InputError(
                f"cannot merge moments of {len(self.mean)} and {len(other.mean)} parameters"
            )
        if _both(self.theta, other.theta, np.array_equal) is False:
            raise InputError("cannot merge moments taken at two thetas; compute both at one")
        count = self.count + other.count
        share = other.count / count
        step = other.mean - self.mean
        return Moments(
            count,
            self.mean + share * step,
            _both(
                self.scatter, other.scatter, lambda a, b: _merge_scatter(a, b, step, count, self)
            ),
            _both(self.hessian, other.hessian, lambda a, b: a + share * (b - a)),
            self.theta if self.theta is not None else other.theta,
        )

    def root(
        self, kind: RootKind = "symmetric", ridge: float = 0.0, rank: int | None = None
    ) -> Root:
        """V with V V' = Sigma + ridge I; `floored` counts eigenvalues raised to the floor.

        "low_rank" keeps the `rank` leading directions of Sigma, by default all of them.

        Example:
            >>> import numpy as np, masgrad as mg
            >>> rng = np.random.default_rng(0)
            >>> data = rng.normal(size=(100, 2)), rng.normal(size=100)
            >>> m = mg.moments(mg.Linear(), np.zeros(2), data)
            >>> V = m.root()
            >>> bool(np.allclose(V.matrix() @ V.matrix(), m.cov))
            True
        """
        ridge = check_ridge(ridge)
        check_covariance(self.cov)
        if kind == "products":  # it sees no eigenvalues
            check_sign(np.linalg.eigvalsh(self.cov))
        if kind == "low_rank" and rank is not None:
            return LowRankRoot.of(self.cov, ridge, rank)
        return make_root(kind, self.cov, ridge)


def _both(a, b, combine):
    """Combine a part that both sides have; None if either lacks it."""
    return None if a is None or b is None else combine(a, b)


def _merge_scatter(a, b, step, count, left):
    return a + b + np.outer(step, step) * (left.count * (count - left.count) / count)


@float64
def moments(
    model: Model, theta: Array, data: Rows, parts: Part | Sequence[Part] = PARTS
) -> Moments:
    """Moments of the model's gradient at theta over all rows of the data.

    Paper: definitions b, V, H - population gradient, covariance and Hessian

    Args:
        model: the loss.
        theta: parameter vector, (p,).
        data: (X, y) for regressions, else an array or pytree; axis 0 is observations.
        parts: which of "mean", "cov" and "hessian" to compute; the mean always is.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> m = mg.moments(mg.Linear(), [0.0], (np.ones((4, 1)), np.arange(4.0)))
        >>> m.count, m.mean, m.cov, m.hessian
        (4, array([-1.5]), array([[1.66666667]]), array([[1.]]))
    """
    parts = (parts,) if isinstance(parts, str) else parts
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise InputError(f"parts={tuple(parts)}: {sorted(unknown)} not among {PARTS}")
    rows = model.rows(data)
    return row_moments(model, model.theta(theta, rows), rows, parts)


def row_moments(
    model: Model, theta: np.ndarray, rows: Rows, parts: Sequence[Part] = PARTS
) -> Moments:
    """`moments` of checked rows."""
    pieces = (_block_moments(model, theta, block, parts) for block in blocks(rows))
    total = functools.reduce(Moments.merge, pieces)
    for name, value in (("mean", total.mean), ("cov", total.scatter), ("hessian", total.hessian)):
        if value is not None and not np.isfinite(value).all():
            raise InputError(
                f"the gradient's {name} is not finite at this theta; rescale the data, or move "
                "theta to where the loss is finite"
            )
    return total


def _block_moments(model: Model, theta: np.ndarray, rows: Rows, parts: Sequence[Part]) -> Moments:
    count = count_rows(rows)
    G = model.row_gradients(theta, rows)
    mean = G.mean(0)
    scatter = None
    with np.errstate(over="ignore", invalid="ignore"):
        if "cov" in parts:
            G = G - mean
            scatter = G.T @ G
        hessian = model.hessian_sum(theta, rows) / count if "hessian" in parts else None
    return Moments(count, mean, scatter, hessian, theta)

"""Penalties of whole groups and matrices: group lasso and nuclear norm.

Both shrink a length by soft thresholding: that of a group of coefficients, or of each singular
direction of a matrix. They have no closed form in the metric of a V that is not a multiple of I,
diagonal or not: `metric.py` solves for it.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from masgrad.errors import InputError, InputTypeError
from masgrad.penalties.penalty import Scaled, as_weights, check_length, traced
from masgrad.types import Array, namespace


@traced
@dataclass(frozen=True, eq=False, repr=False)
class GroupLasso(Scaled):
    """lam sum_g w_g |theta_g|: whole groups of coefficients are 0 together.

    Args:
        lam: its size, a number >= 0; in `fit` also "cv", "bic" or "aic".
        groups: a whole number for each coefficient, (p,), equal within a group; -1 for none, a
            coefficient that is not penalised.
        weights: w, one for each group in the order of their numbers; by default the square root
            of the group's size.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> h = mg.GroupLasso(1.0, [0, 0, 1], weights=[1.0, 1.0])
        >>> h.prox(np.array([3.0, 4.0, 0.5]), 1.0)
        array([2.4, 3.2, 0. ])
    """

    groups: Any
    weights: Any = None
    member: np.ndarray = field(init=False)
    """(groups, p): 1 where a coefficient belongs to a group."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            labels = np.asarray(self.groups)
        except ValueError:  # lists of different lengths, such as the members of each group
            labels = np.empty(0)
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputTypeError(
                f"groups={self.groups!r:.60}; a whole number for each coefficient is needed, such "
                "as [0, 0, 1, 1, 1]"
            )
        known = np.unique(labels[labels >= 0])
        member, given = (labels == known[:, None]).astype(float), as_weights(self.weights)
        weights = np.sqrt(member.sum(1)) if given is None else given
        if len(weights) != len(known):
            raise InputError(
                f"weights of GroupLasso has length {len(weights)}, and {len(known)} groups need "
                "one number each"
            )
        for name, value in (("groups", labels), ("weights", weights), ("member", member)):
            object.__setattr__(self, name, value)

    @property
    def said(self) -> str:
        return f", {len(self.member)} groups"

    def value(self, theta: Array) -> Array:
        w = self.weights if theta.ndim == 1 else self.weights[:, None]
        return self.lam * (w * self._lengths(theta)).sum(0)

    def prox(self, theta: Array, t: Array | float) -> Array:
        """The proximal map; t is a number (per chain), or one per coefficient, equal in a group."""
        xp, length = namespace(theta), self._lengths(theta)
        w = self.weights if theta.ndim == 1 else self.weights[:, None]
        if np.ndim(t) == theta.ndim > 0:
            t = self._largest(xp.broadcast_to(t, theta.shape))
        keep = xp.maximum(length - t * self.lam * w, 0.0) / xp.where(length > 0, length, 1.0)
        return theta * (1.0 - self.member.T @ (1.0 - keep))

    def common(self, D: Array) -> Array:
        alone = 1.0 - self.member.sum(0)
        alone = alone if D.ndim == 1 else alone[:, None]
        return self.member.T @ self._largest(D) + alone * D

    def _largest(self, D: Array) -> Array:
        """The largest value in each group."""
        member = self.member if D.ndim == 1 else self.member[:, :, None]
        return (member * D[None]).max(1)

    def subgradient(self, theta: Array) -> Array:
        xp, length = namespace(theta), self._lengths(theta)
        w = self.weights if theta.ndim == 1 else self.weights[:, None]
        return self.lam * theta * (self.member.T @ (w / xp.where(length > 0, length, 1.0)))

    def _lengths(self, theta: Array) -> Array:
        return namespace(theta).sqrt(self.member @ theta**2)

    def ratios(self, gradient: np.ndarray) -> np.ndarray:
        return self._lengths(gradient)[self.weights > 0] / self.weights[self.weights > 0]

    def check(self, p: int, shape: tuple[int, int] | None = None) -> None:
        check_length("groups of GroupLasso", self.member.shape[1], p)

    def without(self, k: int, p: int) -> "GroupLasso":
        labels = self.groups.copy()
        labels[k] = -1
        kept = np.isin(np.unique(self.groups[self.groups >= 0]), labels)  # a group of k alone goes
        return replace(self, groups=labels, weights=self.weights[kept])


@traced
@dataclass(frozen=True, eq=False, repr=False)
class Nuclear(Scaled):
    """lam times the sum of the singular values of theta as a matrix: low rank.

    Args:
        lam: its size, a number >= 0; in `fit` also "cv", "bic" or "aic".
        shape: (rows, cols) of the matrix W, theta = W.ravel().

    Example:
        >>> import numpy as np, masgrad as mg
        >>> mg.Nuclear(1.0, (2, 2)).prox(np.array([3.0, 0.0, 0.0, 0.5]), 1.0)
        array([2., 0., 0., 0.])
    """

    shape: tuple[int, int] = field(metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.shape
        whole = isinstance(shape, tuple | list) and len(shape) == 2
        if not whole or not all(isinstance(n, int | np.integer) and n >= 1 for n in shape):
            raise InputTypeError(f"shape={shape!r}; (rows, cols) of the matrix is needed")
        object.__setattr__(self, "shape", (int(shape[0]), int(shape[1])))

    @property
    def said(self) -> str:
        return f", {self.shape}"

    def value(self, theta: Array) -> Array:
        return self.lam * self._svd(theta)[1].sum(-1)

    def prox(self, theta: Array, t: Array | float) -> Array:
        U, s, Vh = self._svd(theta)
        xp = namespace(theta)
        least = xp.asarray(t * self.lam)[..., None] if np.ndim(t) else t * self.lam
        return self._back(U, xp.maximum(s - least, 0.0), Vh, theta)

    def subgradient(self, theta: Array) -> Array:
        U, s, Vh = self._svd(theta)
        along = namespace(theta).where(s > 1e-12 * s.max(-1, keepdims=True), 1.0, 0.0)
        return self.lam * self._back(U, along, Vh, theta)

    def _svd(self, theta: Array) -> tuple[Array, Array, Array]:
        xp = namespace(theta)
        W = xp.moveaxis(theta, 0, -1).reshape(*theta.shape[1:], *self.shape)
        return xp.linalg.svd(W, full_matrices=False)

    def _back(self, U: Array, s: Array, Vh: Array, theta: Array) -> Array:
        W = (U * s[..., None, :]) @ Vh
        return namespace(theta).moveaxis(W.reshape(*theta.shape[1:], -1), -1, 0)

    def rank(self, theta: np.ndarray) -> int:
        """The numerical rank of W: its singular values above rounding."""
        s = self._svd(theta)[1]
        return int((s > 1e-9 * max(float(s.max()), 1e-300)).sum())

    def left(self, theta: np.ndarray) -> str:
        return f"rank {self.rank(theta)} as a matrix of {self.shape[0]} x {self.shape[1]}"

    def freedom(self, theta: np.ndarray) -> int:
        """r (rows + cols - r), the dimension of matrices of rank r."""
        r = self.rank(theta)
        return r * (sum(self.shape) - r)

    def ratios(self, gradient: np.ndarray) -> np.ndarray:
        return np.linalg.svd(gradient.reshape(self.shape), compute_uv=False)

    def common(self, D: Array) -> Array:
        return D.max(0)

    def check(self, p: int, shape: tuple[int, int] | None = None) -> None:
        rows, cols = self.shape
        if rows * cols != p:
            raise InputError(
                f"Nuclear(lam, ({rows}, {cols})) is for a matrix of {rows * cols} numbers, and "
                f"theta has {p}: {rows} x {cols} must be {p}"
            )
        if shape is not None and tuple(shape) != self.shape:
            raise InputError(
                f"Nuclear has the shape ({rows}, {cols}), and this model's matrix "
                f"({shape[0]}, {shape[1]}); give them the same shape"
            )

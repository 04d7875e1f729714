"""Coordinates for nearly collinear columns, from the triangular factor of all rows.

A sum of squares loses twice as many digits as the columns' condition number has: powers of one
variable up to the tenth have a condition number of 4e9, and no digit of X'X is left. Their factor R
of X = Q R has lost half as many. It is computed block by block,

    [ R ; block ] = Q R',

and the fit runs in phi = R theta, where the rows x' R^-1 are orthonormal up to rounding. Sums over
such rows are well conditioned; they are added, merged and updated as all others are. Earlier rows,
of which H is left, enter as a first block whose cross-product is H.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from masgrad.data.designs.structured import Structured
from masgrad.fitting.objective.accurate import accurate_product
from masgrad.fitting.objective.coordinates import (
    LARGEST_GRAM_CONDITION,
    Coordinates,
    against_constant,
    of_scale,
    reflected,
)
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.third_order import ThirdOrder
from masgrad.fitting.objective.totals import Addition, Cut
from masgrad.fitting.sources import Sample
from masgrad.models.gram import is_empty
from masgrad.types import Rows

ROUNDING_UNITS = 4096
"""Singular value of unit columns that is 0 up to rounding, in units of the columns' rounding."""


def orthonormal(found: Coordinates, reader: Reader, sample: Sample, rows: Cut) -> Coordinates:
    """Coordinates in which the columns of these rows are orthonormal.

    Columns that cannot be told apart keep the coordinates that were found: their collinearity is
    for the fit to report.
    """
    binary, nothing = _with_binary_scales(found), np.empty((0, len(found.scale)))
    R = _triangular_factor(binary.centred, reader, rows, nothing, found.constant)
    inverse = _inverse(R, found.constant, _rounding(found, sample.rows[0]))
    return found if inverse is None else _preconditioned(binary, inverse)


def orthonormal_with_earlier(
    found: Coordinates, earlier: LocalModel, reader: Reader, rows: Cut
) -> tuple[Coordinates, LocalModel]:
    """The same for earlier rows and these together, and the earlier rows' model in them."""
    size, values, Q = earlier.spectrum
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * Q.T * size
    R = _triangular_factor(found.design, reader, rows, root, found.constant)
    inverse = _inverse(R, found.constant, np.finfo(np.float64).eps)
    if inverse is None:
        return found, earlier
    return _preconditioned(found, inverse), in_coordinates(earlier, inverse)


def in_coordinates(local: LocalModel, A: np.ndarray) -> LocalModel:
    """The same model as a function of A^-1 phi."""
    H = A.T @ local.hessian @ A
    largest = np.sqrt(np.maximum(np.diag(H), 0.0))  # no row has more than all of them
    return replace(
        local,
        point=np.linalg.solve(A, local.point),
        gradient=local.gradient @ A,
        hessian=H,
        meat=A.T @ local.meat @ A,
        max_weighted_x=np.minimum(local.max_weighted_x @ np.abs(A), largest),
        information=None if local.information is None else A.T @ local.information @ A,
        third=None if local.third is None else _third_in_coordinates(local.third, A),
    )


def _third_in_coordinates(third: ThirdOrder, A: np.ndarray) -> ThirdOrder:
    """The third-order terms; sizes in the metric of H do not change."""
    return replace(
        third,
        hessian=_all_axes(third.hessian, A),
        meat=_all_axes(third.meat, A),
        meat_bend=_all_axes(third.meat_bend, A),
        squares=third.squares @ A,
        centre=np.linalg.solve(A, third.centre),
    )


def _all_axes(T: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A tensor with every axis multiplied by A."""
    for _ in range(T.ndim):
        T = np.moveaxis(T, 0, -1) @ A
    return T


def _rounding(coordinates: Coordinates, X: np.ndarray | Structured) -> float:
    """Relative rounding of the entries of a column, in its standard deviations.

    It is that of single precision if X has fractions and all its entries fit into that; entries
    of coded columns are exact.
    """
    X = X.written[1] if isinstance(X, Structured) else X
    shift = np.abs(coordinates.centre / coordinates.scale).max()
    with np.errstate(over="ignore"):
        single = (X.astype(np.float32) == X).all() and (np.rint(X) != X).any()
    unit = np.finfo(np.float32 if single else np.float64).eps
    return float(unit * max(1.0, shift))


def _triangular_factor(
    design: Callable[[np.ndarray], np.ndarray],
    reader: Reader,
    rows: Cut,
    first: np.ndarray,
    constant: int | None,
) -> np.ndarray:
    """R of a first block and of the designs of these rows; a constant column is put first."""
    order = _constant_first(first.shape[1], constant)
    none = _Factor(np.empty((0, len(order))), 0)

    def work(block: Rows) -> _Factor:
        U = design(block[0])[:, order]
        return _Factor(U, len(U))

    with reader.unobserved() as quiet:
        found = quiet.total(work, Addition(_Factor.plus, lambda: none), cut=rows, whole=False)
    R, count = found or none
    return _factor(first[:, order], R) / np.sqrt(max(count, 1))


class _Factor(NamedTuple):
    """R of some rows, or the rows themselves, and their number."""

    R: np.ndarray
    rows: int

    def plus(self, later: "_Factor") -> "_Factor":
        return _Factor(_factor(self.R, later.R), self.rows + later.rows)


def _factor(first: np.ndarray, then: np.ndarray) -> np.ndarray:
    """The triangular factor of two blocks together."""
    return np.asarray(np.linalg.qr(np.vstack([first, then]), mode="r"))


def _inverse(R: np.ndarray, constant: int | None, rounding: float) -> np.ndarray | None:
    """R^-1 in the order of the columns; None if that is of no use, or R is singular to rounding.

    A constant column keeps its value, and an empty one remains as it is.
    """
    if not np.isfinite(R).all() or len(R) < R.shape[1]:
        return None
    empty = np.flatnonzero(is_empty(R.T @ R))
    R = R / (1.0 if constant is None else R[0, 0])
    R[:, empty] = R[empty] = 0.0
    R[empty, empty] = 1.0
    values = np.linalg.svd(R / np.linalg.norm(R, axis=0), compute_uv=False)
    useful = values[0] ** 2 > LARGEST_GRAM_CONDITION * values[-1] ** 2
    if not useful or values[-1] <= ROUNDING_UNITS * rounding * values[0]:
        return None
    order, inverse = _constant_first(len(R), constant), np.zeros_like(R)
    inverse[np.ix_(order, order)] = np.linalg.solve(R, np.eye(len(R)))
    return inverse


def _constant_first(p: int, constant: int | None) -> np.ndarray:
    """The order of columns in which the constant one is the first."""
    return np.array(sorted(range(p), key=lambda j: j != constant))


def _with_binary_scales(found: Coordinates) -> Coordinates:
    """Coordinates whose scales are powers of 2, by which columns are divided without error."""
    scale = np.exp2(np.round(np.log2(np.abs(found.scale))))
    if found.constant is not None:
        value = found.scale[found.constant]
        centre = np.where(np.arange(len(scale)) == found.constant, value, found.centre)
        return against_constant(centre, scale, found.constant, True)
    return reflected(found.centre, scale) if found.centre.any() else of_scale(scale)


def _preconditioned(found: Coordinates, inverse: np.ndarray) -> Coordinates:
    """Coordinates in which rows are multiplied by `inverse` as well."""
    before, matrix = found.preconditioner, accurate_product(found.matrix, inverse)
    both = inverse if before is None else accurate_product(before, inverse)
    return replace(found, matrix=matrix, transforms_rows=True, preconditioner=both)

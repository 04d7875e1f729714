"""A quadratic penalty, as a part of every row's loss: l(phi) + phi' P phi / 2.

So all sums stay sums over rows, and the meat is that of penalised gradients: at the penalised
optimum, where the mean gradient is -P phi, it is the gradients' covariance.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.frame import Frame
from masgrad.models.model import RowSums
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import ElasticNet


@dataclass(frozen=True)
class Ridge:
    """P, (p, p), or None for no penalty."""

    matrix: np.ndarray | None = None

    def value(self, phi: np.ndarray) -> float:
        """The penalty of one row."""
        return 0.0 if self.matrix is None else float(phi @ self.matrix @ phi) / 2

    def slope(self, phi: np.ndarray) -> np.ndarray | float:
        """Its gradient; for several phi as columns, theirs."""
        return 0.0 if self.matrix is None else self.matrix @ phi

    def add(self, s: RowSums, phi: np.ndarray, count: float) -> RowSums:
        """Sums over rows that stand for `count` observations, penalised."""
        if self.matrix is None:
            return s
        a = self.matrix @ phi
        H = None if s.hessian is None else s.hessian + count * self.matrix
        cross = np.outer(s.gradient, a)
        M = None if s.meat is None else s.meat + cross + cross.T + count * np.outer(a, a)
        extra = count * self.value(phi)
        return s._replace(
            gradient=s.gradient + count * a,
            hessian=H,
            meat=M,
            loss=s.loss + extra,
            squares=s.squares + 2 * extra,
        )


def ridge_of(penalty: Penalty | None, frame: Frame) -> Ridge:
    """lam |theta|^2 / 2 in phi, without the coefficient of a constant column."""
    if penalty is None:
        return Ridge()
    assert isinstance(penalty, ElasticNet) and penalty.smooth
    penalty.check(len(frame.matrix))
    each = np.ones(len(frame.matrix)) if penalty.weights is None else penalty.weights.copy()
    if frame.constant is not None:
        each[frame.constant] = 0.0
    return Ridge(penalty.lam * frame.matrix.T @ (each[:, None] * frame.matrix))

"""One shard's sums seen from united coordinates: phi_k = T phi, with theta_k = A_k theta.

The local model moves in the shard's own coordinates, in which its H is well scaled, and is brought
to united ones afterwards: G -> T'G, H -> T'H T, and so on. Directions of phi that the shard's rows
do not see, such as a level that it lacks, have sums of 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from masgrad.fitting.fitted import Fitted
from masgrad.fitting.later_rows import COLUMNS_OF_MEAT
from masgrad.fitting.merging.layout import Layout
from masgrad.fitting.objective.coordinates import Coordinates, against_constant, of_scale
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.third_order import ThirdOrder


@dataclass(frozen=True)
class Shard:
    """The sums of one shard.

    Args:
        fitted: the record of its fit.
        turn: T, (p_k, p).
    """

    fitted: Fitted
    turn: np.ndarray

    @property
    def local(self) -> LocalModel:
        """The local model as it was summed, in the shard's coordinates."""
        return self.fitted.local_model

    def step(self, phi: np.ndarray) -> np.ndarray:
        """From where the shard was expanded to phi, in its own coordinates."""
        return self.turn @ phi - self.local.point

    def at(self, phi: np.ndarray) -> LocalModel:
        """The local model expanded at phi, in the shard's coordinates."""
        return self.local.at(self.turn @ phi)

    def united(self, local: LocalModel, phi: np.ndarray) -> LocalModel:
        """A local model of this shard at phi, in united coordinates, without third order."""
        T = self.turn
        largest = np.abs(T).T @ np.broadcast_to(local.max_weighted_x, len(T))
        return LocalModel(
            local.count,
            phi,
            local.gradient @ T,
            T.T @ local.hessian @ T,
            T.T @ local.meat @ T,
            local.squares,
            largest,
            local.loss,
            local.rows,
            local.constants,
            None if local.information is None else T.T @ local.information @ T,
        )

    def third(self, local: LocalModel, phi: np.ndarray) -> ThirdOrder:
        """The terms of third order of a local model at phi, in united coordinates."""
        third, T = local.third, self.turn
        assert third is not None
        return replace(
            third,
            hessian=_turned(third.hessian, T),
            meat=_turned(third.meat, T),
            meat_bend=_turned_bend(local, third.meat_bend, T),
            squares=third.squares @ T,
            centre=phi + np.linalg.lstsq(T, third.centre - local.point)[0],
        )


def _turned(a: np.ndarray, T: np.ndarray) -> np.ndarray:
    """A tensor of third order in united coordinates."""
    return np.einsum("abc,ai,bj,ck->ijk", a, T, T, T, optimize=True)


def _turned_bend(local: LocalModel, bend: np.ndarray, T: np.ndarray) -> np.ndarray:
    """That of fourth order, or its mean where all of it takes too much room."""
    if bend.ndim == 4 and T.shape[1] <= COLUMNS_OF_MEAT:
        return np.einsum("abcd,ai,bj,ck,dl->ijkl", bend, T, T, T, T, optimize=True)
    return T.T @ (_mean_bend(local, bend) if bend.ndim == 4 else bend) @ T


def _mean_bend(local: LocalModel, bend: np.ndarray) -> np.ndarray:
    """The mean of `meat_bend` over directions of length 1."""
    p = len(local.point)
    inverse = local.solve(np.eye(p)) * local.count
    return np.einsum("abcd,cd->ab", bend, inverse) / p


def shards_of(results: Sequence[Fitted], layout: Layout) -> tuple[tuple[Shard, ...], Coordinates]:
    """The shards, and the coordinates in which they are united."""
    both = united_coordinates(results, layout)
    turns = (
        np.linalg.solve(r.coordinates.matrix, A @ both.matrix)
        for r, A in zip(results, layout.maps, strict=True)
    )
    return tuple(Shard(r, T) for r, T in zip(results, turns, strict=True)), both


def united_coordinates(results: Sequence[Fitted], layout: Layout) -> Coordinates:
    """Those of the largest shard that has the columns of all together, or else means of theirs."""
    constant = _constant(results, layout)
    pairs = list(zip(results, layout.maps, strict=True))
    same = [r for r, A in pairs if _is_identity(A) and r.coordinates.constant == constant]
    if same:
        return max(same, key=lambda r: r.local_model.rows).coordinates
    weight, centre, size = np.zeros((3, layout.size))
    for r, A in pairs:
        i, j = _shared(A)
        weight[j] += r.local_model.rows
        centre[j] += r.local_model.rows * r.coordinates.centre[i]
        size[j] += r.local_model.rows * np.log(np.abs(r.coordinates.scale[i]))
    weight = np.where(weight > 0, weight, 1.0)  # a column that no shard has as it is: 0 and 1
    c, s = centre / weight, np.exp(size / weight)
    if constant is None:
        return of_scale(s)
    c[constant] = s[constant]  # the scale of a constant column is its value
    return against_constant(c, s, constant, any(r.coordinates.transforms_rows for r in results))


def _is_identity(A: np.ndarray) -> bool:
    return A.shape[0] == A.shape[1] and np.array_equal(A, np.eye(len(A)))


def _shared(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which columns of the shard, i, are united columns j as they are."""
    j = np.flatnonzero((A != 0).sum(0) == 1)
    i = np.abs(A[:, j]).argmax(0)
    return i, j


def _constant(results: Sequence[Fitted], layout: Layout) -> int | None:
    """The index of the united column that is constant in every shard; None without one."""
    common = set(range(layout.size))
    for r, A in zip(results, layout.maps, strict=True):
        i, j = _shared(A)
        k = r.coordinates.constant
        common &= set() if k is None else set(j[(i == k) & (A[k, j] == 1)].tolist())
    return min(common, default=None)

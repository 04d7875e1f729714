"""b and Sigma of the least-squares gradient x (x'theta - y) at a theta, from moments of the rows.

In a frame where x = c + u and x'theta - y = s + t, t linear in the row (see `fourth_moments`), the
gradient is (c + u)(s + t). With w = (1, u) and C = [c, I], so that x = C w,

    b = C E[w t] + s E[x]
    Sigma = C Cov(w t) C' + s (C Cov(w t, u) + its transpose) + s^2 Cov(u)

and all of it follows from E[w w' t^k], k = 0, 1, 2: sums over rows into which theta enters later.
"""

import equinox as eqx
import numpy as np

from masgrad.covariance.fourth_moments import Frame, Tally
from masgrad.covariance.symmetric_tensor import pair_matrix, pairs, square
from masgrad.types import Array, namespace


class Population(eqx.Module):
    """The function theta -> (b, Sigma) over the rows read, in JAX or NumPy.

    Args:
        frame: the coordinates of the sums.
        zeroth: E[w w'], (p + 1, p + 1).
        first: E[w_i w_j e_k] with a row for each pair i <= j and e = (u, r).
        second: E[w_i w_j e_k e_h] with a column for each pair k <= h, doubled where k < h.
        count: number of rows.
    """

    frame: Frame
    zeroth: Array
    first: Array
    second: Array
    count: Array

    @classmethod
    def of(cls, tally: Tally) -> "Population":
        d = tally.frame.d
        zeroth = tally.second[square(d - 1)] / tally.count
        i, j = pairs(d - 1)
        first = pair_matrix(tally.packed, (i, j), (np.zeros(d - 1, int), np.arange(1, d)))
        second = pair_matrix(tally.packed, (i, j), (i + 1, j + 1))
        second *= np.where(i == j, 1.0, 2.0) / tally.count
        return cls(tally.frame, zeroth, first / tally.count, second, np.asarray(tally.count))

    def __call__(self, theta: Array) -> tuple[Array, Array]:
        s, f = self.frame.residual(theta)
        i, j = pairs(len(f))
        once, twice = self.first @ f, self.second @ (f[i] * f[j])
        w = square(len(f))
        b, cov = mean_and_cov(self.frame.centre, s, self.zeroth, once[w], twice[w])
        return b, cov * (self.count / (self.count - 1))


def gradient_mean(c: Array, s: Array, u: Array, wt: Array) -> Array:
    """b from E[u] and E[w t]."""
    return s * (c + u) + c * wt[0] + wt[1:]


def mean_and_cov(
    c: Array, s: Array, zeroth: Array, once: Array, twice: Array
) -> tuple[Array, Array]:
    """b, and Sigma with divisor N, from E[w w' t^k]."""
    outer = namespace(once).outer
    u, wt = zeroth[0, 1:], once[0]
    cov_wt_u = once[:, 1:] - outer(wt, u)
    cross = s * (cov_wt_u[1:] + outer(c, cov_wt_u[0]))
    cov = outward(c, twice - outer(wt, wt)) + 2 * cross + s**2 * (zeroth[1:, 1:] - outer(u, u))
    return gradient_mean(c, s, u, wt), (cov + cov.T) / 2


def outward(c: Array, M: Array) -> Array:
    """C M C' with C = [c, I]."""
    outer = namespace(M).outer
    side = outer(c, M[0, 1:] + M[0, 0] * c / 2)
    return M[1:, 1:] + side + side.T

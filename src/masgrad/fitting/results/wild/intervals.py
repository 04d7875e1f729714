"""Intervals by inverting the wild bootstrap's test: the values of one combination that it accepts.

At the distance e from the estimate, t* of a draw has a numerator and a variance that are
polynomials of e, whose five coefficients are sums over the clusters. They are taken once, with the
same draws for all e, and the test at another e costs a few products for each draw. For large e the
statistic of the data grows with e, and that of a draw tends to a limit, unless its residuals are
those of the data, v = 1 or v = -1: if such draws have a larger share than alpha, the interval has
no end.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.results.wild.draws import Draws
from masgrad.fitting.results.wild.statistics import TIE, Linear, Null

HALVINGS = 50
DOUBLINGS = 60

NO_VARIANCE = 1e-12
"""Variance of a draw, relative to the largest, below which it is rounding."""


@dataclass(frozen=True)
class Curves:
    """t* of each draw as a function of e: (d0 - e d1) / sqrt(m0 - 2 e m1 + e^2 m2).

    Args:
        d: d0 and d1, (2, draws).
        m: m0, m1 and m2, (3, draws).
        variance: of the estimate, without a factor.
    """

    d: np.ndarray
    m: np.ndarray
    variance: float

    @classmethod
    def of(cls, linear: Linear, draws: Draws) -> "Curves":
        """Those of one combination."""
        here = linear.under(np.zeros(1))
        step = Null(linear.moved[:, :, 0], linear.moved[:, :, 0] @ linear.towards, linear.weights)
        parts = []
        for v in draws.parts():
            x, y = here.terms(v)[0], step.terms(v)[0]
            m = [(x * x).sum(0), (x * y).sum(0), (y * y).sum(0)]
            parts.append(np.stack([here.distances(v)[0], step.distances(v)[0], *m]))
        found = np.concatenate(parts, 1)
        return cls(found[:2], found[2:], float(linear.covariance[0, 0]))

    def pvalue(self, e: float) -> float:
        """The two-sided p-value of the value at the distance e from the estimate."""
        distance = np.square(self.d[0] - e * self.d[1])
        m = np.maximum(self.m[0] - 2 * e * self.m[1] + e * e * self.m[2], 0.0)
        return float((distance * self.variance >= e * e * m * (1 - TIE)).mean())

    @property
    def limit(self) -> float:
        """The p-value of values that are infinitely far away."""
        return float((self.m[2] <= NO_VARIANCE * self.m[2].max()).mean())

    def end(self, alpha: float, sign: int) -> float:
        """The distance, in one direction, up to which values have p-values above alpha."""
        if self.limit > alpha:
            return np.inf
        inside, outside = 0.0, float(np.sqrt(self.variance))
        for _ in range(DOUBLINGS):
            if self.pvalue(sign * outside) <= alpha:
                break
            inside, outside = outside, 2 * outside
        else:
            return np.inf
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            if self.pvalue(sign * middle) <= alpha:
                outside = middle
            else:
                inside = middle
        return inside

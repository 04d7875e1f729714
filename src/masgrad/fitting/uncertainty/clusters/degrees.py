"""Degrees of freedom of CR2 errors: Bell & McCaffrey (2002), and for several combinations at once.

If errors are independent and the model's variances are right, the CR2 variance of c'phi is a
quadratic form in them, a sum over clusters of squares a_g^2 with the covariances

    P_gh = (g = h) d_g - q_g'q_h,    d_g = y'F E F y,    q_g = E F y,    y = L'c, F = (I - E_g)^-1/2

in the terms of `leverages.py`. Satterthwaite's chi-squared of the same mean and variance has

    df = (tr P)^2 / sum over g, h of P_gh^2,

in O(G r^2) without the G x G matrix, since sum (q_g'q_h)^2 = |sum q_g q_g'|^2.

Of k combinations at once the Wald statistic W has the law of Hotelling's T^2 with eta degrees of
freedom (Tipton & Pustejovsky 2015, "HTZ"): W (eta - k + 1) / (k eta) is F with k and eta - k + 1.
With combinations scaled so that their covariances D under the model have the mean I,

    eta = k (k + 1) / sum over s, t of Var D_st,    Var D_st = sum P^ss P^tt + P^st P^ts,

sums of entries over g, h. One combination has eta = df.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.fitting.uncertainty.clusters.leverages import Leverages, Spectra

ENTRIES = 1 << 22
"""Numbers of a sum that are formed at a time."""


@dataclass(frozen=True)
class BellMcCaffrey:
    """The degrees of freedom of CR2 errors of combinations of phi.

    Args:
        leverages: of the clusters.
    """

    leverages: Leverages

    def of(self, A: np.ndarray) -> np.ndarray:
        """Those of each row of A phi, (k,), A (k, p); NaN without any variance."""
        r = self.leverages.root.shape[1]
        some = max(1, ENTRIES // max(r * r, 1))
        parts = [self._some(A[s : s + some]) for s in range(0, len(A), some)]
        return np.concatenate([np.zeros(0), *parts])

    def _some(self, A: np.ndarray) -> np.ndarray:
        Y, r = (A @ self.leverages.root).T, self.leverages.root.shape[1]
        trace, squares = np.zeros(len(A)), np.zeros(len(A))
        outer = np.zeros((len(A), r, r))
        for part in self.leverages.each():
            for cut in _pieces(part, len(A)):
                d, q = _terms(cut, Y)
                size = np.square(q).sum(1)
                trace += (d - size).sum(0)
                squares += (d * d - 2 * d * size).sum(0)
                Q = np.moveaxis(q, 2, 0)
                outer += np.swapaxes(Q, 1, 2) @ Q
        squares += np.square(outer).sum((1, 2))
        known = (trace > 0) & (squares > 0)
        return np.where(known, trace**2 / np.where(known, squares, 1.0), np.nan)

    def joint(self, A: np.ndarray) -> float:
        """eta of all rows of A phi together, A (k, p); NaN if they have no joint variance."""
        mean = self._mean(A)
        values, Q = np.linalg.eigh(mean)
        if not values[0] > 1e-12 * values[-1]:
            return np.nan
        A, k = (Q / np.sqrt(values)).T @ A, len(A)
        d, q = self._all(A)
        pairs = [(s, t) for s in range(k) for t in range(k)]
        return k * (k + 1) / sum(_variance(d, q, s, t) for s, t in pairs)

    def _mean(self, A: np.ndarray) -> np.ndarray:
        """The mean of the covariance of A phi under the model, up to a factor, (k, k)."""
        d, q = self._all(A)
        return d.sum(0) - np.einsum("grs,grt->st", q, q)

    def _all(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """d (G, k, k) and q (G, r, k) of all clusters."""
        Y = (A @ self.leverages.root).T
        parts = [_terms(part, Y, crossed=True) for part in self.leverages.each()]
        return np.concatenate([d for d, _ in parts]), np.concatenate([q for _, q in parts])


def _pieces(part: Spectra, k: int) -> list[Spectra]:
    """The spectra in pieces whose terms for k combinations have a bounded size."""
    G, r = part.values.shape
    some = max(1, ENTRIES // max(r * k, 1))
    cuts = (slice(s, s + some) for s in range(0, G, some))
    return [Spectra(cut, part.values[cut], part.vectors[cut]) for cut in cuts]


def _terms(part: Spectra, Y: np.ndarray, crossed: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """d, (g, k) or crossed (g, k, k), and q, (g, r, k), for combinations in the columns of Y."""
    along = np.swapaxes(part.vectors, 1, 2) @ Y * part.left(-0.5)[:, :, None]
    weighted = part.values[:, :, None] * along
    d = np.swapaxes(along, 1, 2) @ weighted if crossed else (along * weighted).sum(1)
    return d, part.vectors @ weighted


def _variance(d: np.ndarray, q: np.ndarray, s: int, t: int) -> float:
    """Var D_st, from d (G, k, k) and q (G, r, k)."""
    a, b, c = d[:, s, s], d[:, t, t], d[:, s, t]
    u, v = q[:, :, s], q[:, :, t]
    uu, vv, uv = (np.einsum("gr,gr->g", x, y) for x, y in ((u, u), (v, v), (u, v)))
    outer = u.T @ v
    first = (a * b - a * vv - b * uu).sum() + np.square(outer).sum()
    return float(first + (c * c - 2 * c * uv).sum() + np.einsum("rs,sr->", outer, outer))

"""Estimating V^-1 b from one batch: self-normalised sums, and the roots for which theorems hold.

    S_n = sum (x_i - mu)     V_n^2 = sum (x_i - mu)(x_i - mu)'     M_n = V_n^-1 S_n

    sqrt(n) V_hat^-1 (mean - mu) = M_n sqrt((n - 1) / (n - |M_n|^2))

Three roots of one sample covariance Sigma_hat meet here. All give the left side one length
(Hotelling's T); its direction differs.

    V_n (I - M_n M_n'/n)^1/2 / sqrt(n - 1)     the identity holds for this one (it needs mu)
    V (V^-1 Sigma_hat V^-1)^1/2                Lemma consistency bounds its error (it needs V)
    Sigma_hat^1/2                              symmetric: what a kernel can compute
"""

from dataclasses import dataclass

import numpy as np

from masgrad.covariance.choose import check_covariance
from masgrad.covariance.rank_one import as_vectors
from masgrad.covariance.root import SymmetricRoot
from masgrad.data.arrays import as_rows
from masgrad.errors import InputError
from masgrad.types import Array


@dataclass(frozen=True)
class SelfNormalised:
    """Both sides of the identity, and their ingredients.

    Args:
        process: M_n, (p,).
        root: the V_hat for which the identity holds; V_hat V_hat' = Sigma_hat.
        statistic: sqrt(n) V_hat^-1 (mean - mu), the left side.
        closed_form: M_n sqrt((n - 1) / (n - |M_n|^2)), the right side.
    """

    process: np.ndarray
    root: np.ndarray
    statistic: np.ndarray
    closed_form: np.ndarray


def self_normalised(x: Array, mu: Array) -> SelfNormalised:
    """The self-normalised process of rows with known mean, and the standardised mean it equals.

    Paper: Proposition 6.1 Connection to self-normalized processes - with the root it needs

    Args:
        x: rows, (n, p) with n > p; gradients, for the plug-in direction of MasGrad.
        mu: their true mean, (p,).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> x = np.array([[1.0], [2.0], [4.0]])
        >>> s = mg.self_normalised(x, [0.0])
        >>> float(s.statistic[0].round(4)), float(s.closed_form[0].round(4))    # Student's t
        (2.6458, 2.6458)
    """
    x = as_vectors(x, "x")
    n, p = x.shape
    mu = np.asarray(as_rows(mu, ("mu",)), np.float64)
    if mu.shape != (p,):
        raise InputError(f"mu has shape {mu.shape}; the mean of the rows, ({p},), is needed")
    if n <= p:
        raise InputError(f"{n} rows of {p} numbers have a singular covariance; use more than {p}")
    centred = x - mu
    with np.errstate(over="ignore", invalid="ignore"):
        second = centred.T @ centred
    if not np.isfinite(second).all():
        raise InputError("the squares of the rows overflow; rescale them")
    V_n = SymmetricRoot.of(second)
    M = V_n.solve(centred.sum(0))
    if V_n.floored or n - M @ M < 1e-10 * n:  # |M|^2 = n where x is constant along a direction
        raise InputError(
            "Sigma_hat has no inverse root beside the distance to mu: the rows do not span all "
            "directions, or mu is not near their mean"
        )
    root = V_n.matrix() @ _shrink(M / np.sqrt(n)) / np.sqrt(n - 1)
    return SelfNormalised(
        M,
        root,
        np.linalg.solve(root, np.sqrt(n) * (x.mean(0) - mu)),
        M * np.sqrt((n - 1) / (n - M @ M)),
    )


def _shrink(v: np.ndarray) -> np.ndarray:
    """(I - v v')^1/2 for |v| < 1.

    Paper: Lemma B.4 Matrix-root identity - the root of a rank-one change of I
    """
    return np.eye(len(v)) - np.outer(v, v) / (1.0 + np.sqrt(1.0 - v @ v))


def consistent_root(cov: Array, V: Array) -> np.ndarray:
    """V (V^-1 cov V^-1)^1/2: the root of a sample covariance that stays next to the true V.

    Paper: Lemma B.2 consistency - the V_hat whose error its proof bounds

    Args:
        cov: sample covariance, (p, p).
        V: the symmetric root of the true one, (p, p).
    """
    cov, V = as_vectors(cov, "cov"), as_vectors(V, "V")
    check_covariance(cov)
    if V.shape != cov.shape:
        raise InputError(f"V has shape {V.shape}, the covariance {cov.shape}; they must agree")
    check_covariance(V, name="V")
    if not np.linalg.eigvalsh(V)[0] > 0:
        raise InputError("V is not positive definite; the symmetric root of a covariance is")
    inner = np.linalg.solve(V, np.linalg.solve(V, cov).T)
    return V @ SymmetricRoot.of((inner + inner.T) / 2).matrix()

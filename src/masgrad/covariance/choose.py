"""A root by name: from a covariance, from a factor of it, or from a batch of gradients.

    symmetric   eigenvalues                                     from anything
    products    the same root by products alone                 from anything
    low_rank    the same root through the n x n Gram matrix     from n < p gradients, ridge > 0
    auto        the same root by one of these three             from anything
    rank_one    the paper's recursion: rotated                  from gradients, ridge > 0
    diagonal    correlations dropped                            from anything

The rule of "auto" is measured (`benchmarks/roots.md`): fewer gradients than parameters go through
the Gram matrix; matrices of 3 to 8 parameters of many chains through products, which past that
gain less and compile for longer; all else through LAPACK.
"""

import math

import numpy as np

from masgrad.checks import as_number
from masgrad.covariance.products import ProductRoot
from masgrad.covariance.rank_one import RankOneRoot, as_vectors
from masgrad.covariance.root import DiagonalRoot, LowRankRoot, MatrixRoot, Root, SymmetricRoot
from masgrad.errors import InputError
from masgrad.types import Array, RootKind, namespace

ROOT_KINDS: tuple[RootKind, ...] = (
    "symmetric", "diagonal", "low_rank", "rank_one", "products", "auto",
)  # fmt: skip
FACTOR_KINDS = ("diagonal", "low_rank", "rank_one")
PRODUCT_DIMS, PRODUCT_CHAINS = range(3, 9), 16


def check_kind(kind: RootKind) -> RootKind:
    if kind not in ROOT_KINDS:
        raise InputError(f"root {kind!r} is not known; use one of {list(ROOT_KINDS)}")
    return kind


def check_ridge(ridge: float) -> float:
    """Check that the ridge is a finite number >= 0."""
    ridge = as_number("ridge", ridge)
    if ridge < 0:
        raise InputError(f"ridge={ridge}; it is added to Sigma: a number >= 0 is needed")
    return ridge


def wants_factor(kind: RootKind, n: int, p: int) -> bool:
    """Whether the root is computed from a batch's centred gradients rather than from Sigma."""
    return kind in FACTOR_KINDS or (kind == "auto" and n <= p)


def make_root(kind: RootKind, cov: Array, ridge: Array | float = 0.0) -> Root:
    """The root of a covariance (p, p), or of one per chain (p, p, K).

    From a whole covariance the low-rank root at full rank *is* the symmetric root of
    Sigma + ridge I.
    """
    if check_kind(kind) == "rank_one":
        raise InputError(
            "the rank-one recursion needs gradients one by one: mg.sample_root(gradients, "
            "'rank_one', ridge), or covariance='batch' in a kernel"
        )
    if kind == "diagonal":
        return DiagonalRoot.of(cov, ridge)
    small = kind == "auto" and cov.ndim == 3 and _suits_products(*cov.shape[1:])
    return (ProductRoot if small or kind == "products" else SymmetricRoot).of(cov, ridge)


def held_root(kind: RootKind, cov: Array, ridge: Array | float = 0.0) -> Root:
    """`make_root` with V and its inverse as matrices, for a root that is used many times."""
    V = make_root(kind, cov, ridge)
    return V if isinstance(V, DiagonalRoot) else MatrixRoot.of(V)


def _suits_products(p: int, K: int) -> bool:
    return p in PRODUCT_DIMS and K >= PRODUCT_CHAINS


def factor_root(kind: RootKind, F: Array, ridge: Array | float) -> Root:
    """The root of Sigma = F'F with F (n, p) or (n, p, K), for kinds that use the factor."""
    if kind == "diagonal":
        return DiagonalRoot.of_variances((F * F).sum(0), ridge)
    if kind == "rank_one":
        return RankOneRoot.of_factor(F, ridge)
    if len(F) < F.shape[1]:
        return LowRankRoot.of_factor(F, ridge)
    cov = F.T @ F if F.ndim == 2 else namespace(F).einsum("rik,rjk->ijk", F, F)
    return SymmetricRoot.of(cov, ridge)


def sample_root(gradients: Array, kind: RootKind = "auto", ridge: float = 0.0) -> Root:
    """V_hat of a batch: V V' = sample covariance (divisor n - 1) + ridge I.

    Paper: statistical estimation - V_hat from one batch, by whichever algorithm

    Args:
        gradients: (n, p), one gradient a row.
        kind: "symmetric", "products", "low_rank" and "auto" are one root by four algorithms;
            "rank_one" is the paper's, rotated; "diagonal" drops the correlations.
        ridge: added to the covariance; needed for n <= p, where it sets V outside the span of the
            gradients, and by "low_rank" and "rank_one".

    Example:
        >>> import numpy as np, masgrad as mg
        >>> G = np.random.default_rng(0).normal(size=(50, 2000))
        >>> V = mg.sample_root(G, ridge=0.1)              # no 2000 x 2000 matrix is formed
        >>> V.solve(G.mean(0)).shape
        (2000,)
    """
    G, ridge = as_vectors(gradients, "gradients"), check_ridge(ridge)
    n, p = G.shape
    if n < 2:
        raise InputError("one gradient has no covariance; at least 2 rows are needed")
    check_factor_ridge(check_kind(kind), ridge)
    check_batch_ridge(kind, n, p, ridge)
    with np.errstate(over="ignore", invalid="ignore"):
        F = G - G.mean(0)
        F /= math.sqrt(n - 1)
        if not np.isfinite(np.vdot(F, F)):
            raise InputError("the squares of the gradients overflow; rescale them")
    if wants_factor(kind, n, p):
        return factor_root(kind, F, ridge)
    return make_root(kind, F.T @ F, ridge)


def check_factor_ridge(kind: RootKind, ridge: float) -> None:
    """Check that roots built on the ridge have one > 0."""
    if kind in ("low_rank", "rank_one") and not ridge > 0:
        raise InputError(
            f"the {kind!r} root of a batch needs ridge > 0: it starts from the ridge, which is V^2 "
            "where the gradients do not reach"
        )


def check_batch_ridge(kind: RootKind, n: int, p: int, ridge: float) -> None:
    """Check that a singular batch covariance has a ridge > 0."""
    if n <= p and kind != "diagonal" and not ridge > 0:
        raise InputError(
            f"{n} gradients give a singular covariance of {p} parameters, and only a ridge sets "
            f"the step: use more than {p} of them, an explicit ridge > 0 or the diagonal root; in "
            "a kernel also covariance='population'"
        )


def check_covariance(cov: np.ndarray, symmetry: float = 1e-8, name: str = "the covariance") -> None:
    """Check that a covariance is finite, square and symmetric; eigenvalues are checked later."""
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1]:
        raise InputError(f"{name} has shape {cov.shape}; (p, p) is needed")
    if not np.isfinite(cov).all():
        raise InputError(f"{name} is not finite")
    if np.abs(cov - cov.T).max() > symmetry * np.abs(cov).max():
        raise InputError(f"{name} is not symmetric")

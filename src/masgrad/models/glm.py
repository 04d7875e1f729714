"""Generalised linear models: a loss of the linear predictor x'w, so all moments are products.

    gradient = l'(x'w, y) x      Sigma + b b' = mean of l'^2 x x'      H = mean of l'' x x'

For many chains the second moment is one matrix product of squared residuals (B, K) with the rows'
outer products (B, p(p+1)/2), formed once a run while they fit in memory; past that, blocks of
weighted rows are multiplied.
"""

import re
from dataclasses import dataclass
from functools import reduce

import numpy as np

from masgrad.checks import as_number
from masgrad.data.arrays import as_regression, not_a_matrix, pick
from masgrad.data.designs.structured import Structured
from masgrad.data.regression import offset_of, weight_of
from masgrad.errors import InputError
from masgrad.models.families.choices import (
    ALIASES,
    CANONICAL_FAMILIES,
    GENERAL_FAMILIES,
    LINKS,
    PARAMETERS,
)
from masgrad.models.families.family import SHOWN_NAMES, Family
from masgrad.models.gram import SinglePrecision, cached_pieces, gram, gram_and_peak, left_product
from masgrad.models.model import Model, RowSums, Sums, add
from masgrad.models.triangle import from_triangle, row_products
from masgrad.types import Array, Matrices, Rows, Vectors, namespace

OUTER_BYTES = 256 * 2**20
"""Largest size of precomputed outer products: at p = 50 they halve the time of covariances."""


@dataclass(frozen=True)
class GLM(Model):
    """Loss -y x'w + c(x'w) over rows (x, y); X needs a constant column for an intercept.

    Families: gaussian, binomial (or bernoulli), poisson, gamma, inverse_gaussian, and with a
    parameter tweedie(1.5) and negative_binomial(1.0). With a link other than the canonical one
    the loss is the negative log-likelihood of that link.

    The host methods on blocks add the offsets that rows carry (`Regression`) to x'w. Sums over rows
    (`hessian_sum`, `row_sums`, `missed_gradient`) count each row by its weight; values of single
    rows (`row_losses`, `row_gradients`) do not. The engine's rows carry neither.

    Paper: GLM landscape - generalised linear model, possibly mis-specified

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.0])
        >>> mg.GLM("bernoulli").gradients(np.zeros(2), (X, y))
        array([[-0.5, -1. ],
               [ 1.5,  2. ]])
    """

    family: Family

    row_axis = -1
    is_likelihood = True

    def __init__(self, family: Family | str, link: str | None = None):
        self._set(family=as_family(family, link))

    @property
    def in_words(self) -> str:
        family = self.family
        parameter = "" if family.parameter is None else f"({family.parameter:g})"
        return f"{family.shown}{parameter} regression ({family.link} link)"

    def scoring(self) -> "GLM":
        """The same model with expected curvatures."""
        return self if self.family.scoring() == self.family else GLM(self.family.scoring())

    def design(self, rows: Rows) -> Array:
        """The covariates as vectors along the last axis."""
        return rows[0]

    def rows(self, data: Rows) -> Rows:
        X, y = as_regression(data)
        if X.ndim != 2:
            raise not_a_matrix(X)
        self.family.check(y)
        return X, y

    def dim(self, rows: Rows) -> int:
        return rows[0].shape[1]

    def loss(self, theta: Array, z: Rows) -> Array:
        x, y = z
        return self.family.loss(x @ theta, y)

    def row_losses(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self.family.loss(add_offset(self.design(rows) @ theta, rows), rows[1])

    def row_gradients(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """l'(x'w, y) x, row by row.

        Paper: GLM moments - gradient (c'(x'w) - y) x, Hessian E c'' x x'
        """
        X = self.design(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return self.family.slope(add_offset(X @ theta, rows), rows[1])[:, None] * X

    def hessian_sum(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        X, a = self.design(rows), weight_of(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            w = self.family.curvature(add_offset(X @ theta, rows), rows[1])
            return gram_and_peak(X, w if a is None else a * w, self.family.convex)[0]

    def row_sums(
        self,
        theta: np.ndarray,
        rows: Rows,
        hessian: bool = True,
        meat: bool = True,
        *,
        squared: bool = False,
    ) -> RowSums:
        return linear_sums(self.family, rows, theta, hessian, meat, squared=squared)

    def missed_gradient(self, theta: np.ndarray, step: np.ndarray, rows: Rows) -> np.ndarray:
        X, y, a = self.design(rows), rows[1], weight_of(rows)
        t, change = add_offset(X @ theta, rows), X @ step
        with np.errstate(all="ignore"):
            r, w = self.family.slope_and_curvature(t, y)
            missed = self.family.slope(t + change, y) - r - w * change
            return left_product(missed if a is None else a * missed, X)

    def prepare(self, rows: Rows) -> Rows:
        """X', y and the upper triangles of x x', rows last: sums over rows are then contiguous."""
        import jax.numpy as jnp

        XT, y = jnp.asarray(self.design(rows)).T, jnp.asarray(rows[1])
        if not self._outer_fits(rows):
            return XT, y, None
        return XT, y, row_products(XT)

    def row_size(self, rows: Rows) -> int:
        """One number for the residual, or p for weighted rows."""
        return 1 if self._outer_fits(rows) else self.dim(rows)

    def _outer_fits(self, rows: Rows) -> bool:
        p = self.dim(rows)
        return len(rows[1]) * p * (p + 1) // 2 * 8 <= OUTER_BYTES

    def shared_sums(self, theta: Vectors, features: Rows, weight: Array, outer: bool) -> Sums:
        XT, y, triangles = features
        r = weight[:, None] * self.family.slope(_predictor(XT, theta), y[:, None])
        if not outer:
            return Sums(XT @ r, None)
        if triangles is None:
            return Sums(XT @ r, _weighted(XT, r * r))
        return Sums(XT @ r, from_triangle(triangles @ (r * r), len(XT)))

    def centred_outer(
        self, theta: Vectors, features: Rows, weight: Array, centre: Vectors
    ) -> Matrices:
        XT, y, _ = features
        r = self.family.slope(_predictor(XT, theta), y[:, None])
        G = weight[:, None] * (XT[:, :, None] * r - centre[:, None])
        return namespace(G).einsum("ibk,jbk->ijk", G, G)

    def paired_gradients(self, theta: Vectors, rows: Rows) -> Array:
        X = self.design(rows)
        r = self.family.slope((X * theta.T).sum(-1), rows[1])
        return namespace(r).moveaxis(r[..., None] * X, 1, 2)


def as_family(family: "Family | str", link: str | None = None) -> Family:
    """A family, or its name with its parameter, such as "tweedie(1.6)", and a link."""
    if isinstance(family, Family):
        return family if link is None else make_family(family.name, link, family.parameter)
    if not isinstance(family, str):
        raise InputError(f"family={family!r:.60}; a name is needed, such as 'poisson'")
    said = re.fullmatch(r"\s*([A-Za-z_ -]+?)\s*(?:\((.*)\))?\s*", family)
    name = re.sub(r"[ -]", "_", said[1].lower()) if said else family
    name = ALIASES.get(name, name)
    if name not in LINKS:
        known = ", ".join(sorted([*LINKS, "binomial"]))
        raise InputError(f"family={family!r} is not known; use one of {known}")
    return make_family(name, link, _number(family, said[2]) if said and said[2] else None)


def _number(family: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"family={family!r}: {text!r} is not a number; write it as in 'tweedie(1.5)'"
        ) from None


def make_family(name: str, link: str | None, parameter: float | None = None) -> Family:
    """The family with this name, link and parameter."""
    link = LINKS[name][0] if link is None else link
    shown = SHOWN_NAMES.get(name, name)
    if link not in LINKS[name]:
        known = ", ".join(LINKS[name])
        raise InputError(f"link={link!r} is not known for the {shown} family; use one of {known}")
    if parameter is None:
        given = {}
    elif name in PARAMETERS:
        given = {PARAMETERS[name]: parameter}
    else:
        raise InputError(f"the {shown} family has no parameter, and {parameter:g} was given")
    canonical = CANONICAL_FAMILIES.get(name)
    if canonical is not None and link == canonical().link:
        return canonical()
    return GENERAL_FAMILIES[name](link=link, **given)


def add_offset(t: np.ndarray, rows: Rows) -> np.ndarray:
    """The linear predictors t = x'theta plus the rows' offsets."""
    offset = offset_of(rows)
    return t if offset is None else t + offset


def linear_sums(
    family: Family,
    rows: Rows,
    theta: np.ndarray,
    hessian: bool,
    meat: bool,
    *,
    with_loss: bool = True,
    single: SinglePrecision | None = None,
    squared: bool = False,
) -> RowSums:
    """`row_sums` of a family over rows whose X is the design itself.

    H and M are summed in single precision if that is given, for a convex family, and serves. Rows
    are summed in pieces that stay in cache, so that X comes from memory once. M counts a row by its
    weight, or by the square of it if that is said (`squared`).
    """
    pieces = cached_pieces(rows[0])
    parts = [rows] if len(pieces) == 1 else [pick(lambda a, c=c: a[c], rows) for c in pieces]
    with np.errstate(all="ignore"):
        if not (hessian or meat):
            return reduce(add, (_gradient_sum(family, part, theta, with_loss) for part in parts))
        kinds = hessian, meat, squared
        return reduce(add, (_moment_sums(family, part, theta, kinds, single) for part in parts))


def _gradient_sum(family: Family, rows: Rows, theta: np.ndarray, with_loss: bool) -> RowSums:
    """The gradient, and the loss with the squared residuals if that is asked for."""
    X, y, a = rows[0], rows[1], weight_of(rows)
    t, loss, squares = add_offset(X @ theta, rows), 0.0, 0.0
    if with_loss:
        value, r, _ = family.local(t, y)
        loss, squares = _total(value, a), _squares(family, t, r, a)
    else:
        r = family.slope(t, y)
    return RowSums(left_product(_weighted_by(r, a), X), None, None, squares, 0.0, loss)


def _moment_sums(
    family: Family,
    rows: Rows,
    theta: np.ndarray,
    kinds: tuple[bool, bool, bool],
    single: SinglePrecision | None,
) -> RowSums:
    """The gradient and the loss with H, with M, or with both."""
    (hessian, meat, squared), H, M, peak, narrow = kinds, None, None, 0.0, None
    X, y, a = rows[0], rows[1], weight_of(rows)
    t = add_offset(X @ theta, rows)
    value, r, w = family.local(t, y)
    w, v = _weighted_by(w, a), _weighted_by(r * r, a * a if squared and a is not None else a)
    if single is not None:
        narrow = single.grams(X, w, v)
    elif hessian and meat and isinstance(X, Structured):
        narrow = X.grams(w, v)
    if narrow is not None:
        H, M, peak = narrow
    else:
        if hessian:
            H, peak = gram_and_peak(X, w, family.convex)
        if meat:
            M = gram(X, v)
    squares = _squares(family, t, r, a)
    return RowSums(left_product(_weighted_by(r, a), X), H, M, squares, peak, _total(value, a))


def _weighted_by(values: np.ndarray, a: np.ndarray | None) -> np.ndarray:
    return values if a is None else a * values


def _squares(family: Family, t: np.ndarray, r: np.ndarray, a: np.ndarray | None) -> float:
    return _total(squared_residuals(family, t, r), a) if family.dispersed else 0.0


def information_sum(family: Family, rows: Rows, theta: np.ndarray) -> np.ndarray:
    """Sum of the rows' expected Hessians."""
    X, a = rows[0], weight_of(rows)
    with np.errstate(all="ignore"):
        w = family.information(add_offset(X @ theta, rows))
        return gram(X, w if a is None else a * w)


def squared_residuals(family: Family, t: np.ndarray, r: np.ndarray) -> np.ndarray:
    """(y - mean)^2 over the variance function, from the slopes r."""
    return r * r if family.canonical else r * r / family.information(t)


def _total(values: np.ndarray, a: np.ndarray | None) -> float:
    return float(values.sum() if a is None else a @ values)


def _predictor(XT: Array, theta: Vectors) -> Array:
    """X theta (B, K); with few parameters a sum, which XLA fuses with later operations."""
    if len(XT) <= 8:
        return sum(x[:, None] * t for x, t in zip(XT, theta, strict=True))
    return XT.T @ theta


def _weighted(XT: Array, w: Array) -> Matrices:
    """X' diag(w_k) X for every chain k as one product, (p, p, K)."""
    (p, B), K = XT.shape, w.shape[1]
    return (XT @ (XT.T[:, :, None] * w[:, None, :]).reshape(B, p * K)).reshape(p, p, K)


def Linear() -> GLM:
    """Linear regression: c(t) = t^2 / 2; X needs a constant column for an intercept."""
    return GLM("gaussian")


def Logistic() -> GLM:
    """Logistic regression: c(t) = log(1 + e^t), y in [0, 1]; no implicit intercept."""
    return GLM("bernoulli")


def Poisson() -> GLM:
    """Poisson regression: c(t) = e^t, y >= 0; no implicit intercept."""
    return GLM("poisson")


def Gamma(link: str = "inverse") -> GLM:
    """Gamma regression, y > 0: links inverse, log and identity; no implicit intercept.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 2))
        >>> y = rng.gamma(2.0, np.exp(X @ [0.3, -0.2]) / 2.0)
        >>> mg.fit(mg.Gamma("log"), (X, y)).params.round(1)
        array([ 0.3, -0.2])
    """
    return GLM("gamma", link)


def InverseGaussian(link: str = "inverse_squared") -> GLM:
    """Inverse Gaussian regression, y > 0: links inverse_squared, inverse, log and identity.

    Example:
        >>> import masgrad as mg
        >>> mg.InverseGaussian("log").family.link
        'log'
    """
    return GLM("inverse_gaussian", link)


def Tweedie(power: float = 1.5, link: str = "log") -> GLM:
    """Tweedie regression, y >= 0 with a mass at 0: variance mean^power, 1 < power < 2.

    Example:
        >>> import masgrad as mg
        >>> mg.Tweedie(1.6).family.power
        1.6
    """
    return GLM(make_family("tweedie", link, as_number("power", power)))


def NegativeBinomial(alpha: float = 1.0, link: str = "log") -> GLM:
    """Counts with the variance mean + alpha mean^2, alpha known.

    Example:
        >>> import masgrad as mg
        >>> mg.NegativeBinomial(0.5).family.alpha
        0.5
    """
    return GLM(make_family("negative_binomial", link, as_number("alpha", alpha)))

"""The acceleration theorem: kappa_MasGrad < C sqrt(kappa_GD) for a GLM whose truth is known.

With xi(x)^2 = Var(y | x) and the bias beta(x, w) = c'(x'w) - E(y | x),

    C^1/3 = max over x, v, w of (xi^2 + beta(x, w)^2) / c''(x'v) and c''(x'v) / xi^2
    V(w)^2 = E[xi^2 x x'] + Cov[beta(x, w) x],        H(v) = E[c''(x'v) x x']

in expectation over the rows x at hand: y enters by its two moments only, as in the theorem.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.checks import as_size
from masgrad.data.arrays import as_rows
from masgrad.errors import InputError, InputTypeError
from masgrad.models.families.canonical import Cumulant
from masgrad.models.glm import GLM
from masgrad.theory.curvature.conditioning import Conditioning, from_matrices
from masgrad.theory.curvature.regions import as_point, as_points
from masgrad.types import Array


@dataclass(frozen=True)
class Acceleration:
    """The theorem's constant and both sides of its inequality.

    Args:
        constant: C, the smallest that the rows and the region allow.
        row: the number of the row x at which C is attained.
        conditioning: the condition numbers, with V and H from the truth.
    """

    constant: float
    row: int
    conditioning: Conditioning

    @property
    def bound(self) -> float:
        """C sqrt(kappa_GD)."""
        return self.constant * np.sqrt(self.conditioning.kappa_gd)

    @property
    def holds(self) -> bool:
        """kappa_MasGrad <= C sqrt(kappa_GD), to rounding."""
        return bool(self.conditioning.kappa_masgrad <= self.bound * (1 + 1e-9))

    def __repr__(self) -> str:
        c = self.conditioning
        return (
            f"Acceleration(kappa_masgrad={c.kappa_masgrad:.4g} {'<=' if self.holds else '>'} "
            f"{self.bound:.4g} = {self.constant:.4g} sqrt({c.kappa_gd:.4g}))"
        )


def acceleration(model: GLM, X: Array, region: Array, mean: Array, variance: Array) -> Acceleration:
    """The constant C of the acceleration theorem on these rows, and both sides of its inequality.

    Paper: Theorem 4.2 Acceleration - the constant C from xi^2, beta and c'', and both sides
    Paper: toy example - at the truth of linear rows C = 1, and kappa_MasGrad = sqrt(kappa_GD)

    Args:
        model: a GLM with the canonical link.
        X: rows x, (N, p); expectations over x are means over them.
        region: points (m, p), for v and w alike.
        mean: the truth's E(y | x), (N,); it need not be of the model's form.
        variance: the truth's Var(y | x), (N,), positive.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
        >>> truth = mg.theory.well_specified(mg.Linear(), X, [1.0, 1.0])
        >>> mg.theory.acceleration(mg.Linear(), X, [[1.0, 1.0]], *truth)
        Acceleration(kappa_masgrad=2 <= 2 = 1 sqrt(4))
    """
    X = _design(model, X)
    mean, variance = _response("mean", mean, X), _response("variance", variance, X)
    if variance.min() <= 0:
        raise InputError(
            f"variance is {variance.min():g} at row {int(variance.argmin())}; the theorem assumes "
            "xi(x)^2 = Var(y | x) > 0"
        )
    family = _canonical(model)
    family.check(mean)
    region = as_points("region", region)
    if region.shape[1] != X.shape[1]:
        raise InputError(f"points of {region.shape[1]} parameters, and X has {X.shape[1]} columns")
    t = X @ region.T
    with np.errstate(over="ignore"):
        bias, curvature = family.mean(t) - mean[:, None], family.variance(t)
    if not (np.isfinite(bias).all() and curvature.min() > 0):
        raise InputError(
            "c''(x'w) overflows or vanishes on this region; the theorem assumes it bounded away "
            "from 0 and infinity: take a smaller region, or rescale X"
        )
    worst = np.maximum(
        (variance + (bias**2).max(1)) / curvature.min(1), curvature.max(1) / variance
    )
    numbers = from_matrices(
        _covariances(X, variance, bias), _weighted(X, curvature), region, region
    )
    return Acceleration(float(worst.max() ** 3), int(worst.argmax()), numbers)


def well_specified(
    model: GLM, X: Array, theta: Array, dispersion: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """E(y | x) and Var(y | x) of the model itself at theta: (N,) each.

    Example:
        >>> import masgrad as mg
        >>> mg.theory.well_specified(mg.Logistic(), [[1.0], [2.0]], [0.0])
        (array([0.5, 0.5]), array([0.25, 0.25]))
    """
    X, theta, family = _design(model, X), as_point("theta", theta), _canonical(model)
    if len(theta) != X.shape[1]:
        raise InputError(f"theta has {len(theta)} parameters, and X {X.shape[1]} columns")
    with np.errstate(over="ignore"):
        mean, variance = family.mean(X @ theta), family.variance(X @ theta)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise InputError("the mean of y overflows at this theta; take a smaller one, or rescale X")
    return mean, as_size("dispersion", dispersion) * variance


def _design(model: GLM, X: Array) -> np.ndarray:
    if type(model) is not GLM:
        raise InputTypeError(f"model={model!r}; the theorem is about GLMs such as mg.Logistic()")
    X = np.asarray(as_rows(np.asarray(X)), np.float64)
    if X.ndim != 2:
        raise InputError(f"X has shape {X.shape}; rows (N, p) are needed")
    return X


def _canonical(model: GLM) -> Cumulant:
    if not isinstance(model.family, Cumulant):
        raise InputError(
            f"the {model.family.shown} family with the {model.family.link} link was given; the "
            "theorem is about canonical links: gaussian, binomial and poisson have theirs"
        )
    return model.family


def _response(name: str, values: Array, X: np.ndarray) -> np.ndarray:
    """One number per row; a scalar applies to all rows."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(f"{name}={values!r:.80}; {len(X)} numbers are needed") from None
    array = np.full(len(X), array) if array.ndim == 0 else array
    if array.shape != (len(X),) or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}; {len(X)} finite numbers are needed")
    return array


def _covariances(X: np.ndarray, variance: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """E[xi^2 x x'] + Cov[beta x] at each point, (m, p, p)."""
    means = bias.T @ X / len(X)
    return _weighted(X, variance[:, None] + bias**2) - means[:, :, None] * means[:, None]


def _weighted(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Mean of w x x' for each column w of the weights, (m, p, p)."""
    return np.stack([(X.T * w) @ X for w in weights.T]) / len(X)

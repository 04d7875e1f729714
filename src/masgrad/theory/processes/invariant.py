"""Invariant laws of processes in continuous time, where the Fokker-Planck equation is solved.

One parameter, any model:  d theta = -A b dt + sqrt(D) dB  with  D = (eta / n) A^2 Sigma

    density proportional to  exp(-2 int A b / D) / D

For MasGrad D = 2 / beta is constant and V^-1 b the derivative of U = int b / V: exp(-beta U). For
SGD it is exp(-beta int b / V^2) / V^2, another law; SGLD adds 2 / beta of its own to D.

Linear regression with spherically symmetric rows, E x x' = I, in any dimension: with
d = theta - theta*, c = E|x|^4 / (p (p + 2)) and k = 3 c - 1,

    b = d,   V^2 = (c |d|^2 + sigma^2) I + (2 c - 1) d d',   V^-1 b = d / sqrt(k |d|^2 + sigma^2)

is the gradient of U = sqrt(k |d|^2 + sigma^2) / k. Normal rows have c = 1. The law is Gaussian near
theta* and exponential far from it. The discretised process and the data chain have these laws up
to terms of order eta.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import cumulative_trapezoid

from masgrad.chains.door import sample_rows
from masgrad.chains.penalised import check_smooth
from masgrad.chains.trace import check_level
from masgrad.checks import as_size, check_count
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.moment_function import MomentFunction, moment_function
from masgrad.models.model import Model, check_model
from masgrad.types import Array, Rows, float64

LARGEST_TAIL = 1e-6
"""Largest density at the end of a grid, relative to its maximum."""
LOG_TAIL = 40.0
"""Fall of the log density at which a grid of distances ends."""
POINTS = 20_001


@dataclass(frozen=True)
class InvariantLaw:
    """A density on a grid.

    Args:
        points: increasing, (m,).
        density: at the points; it integrates to 1.
        note: what it is of, and of which process.
    """

    points: np.ndarray
    density: np.ndarray
    note: str = ""

    @classmethod
    def of_log(cls, points: np.ndarray, log_density: np.ndarray, note: str) -> "InvariantLaw":
        """The law with this log density, up to a constant."""
        density = np.exp(log_density - log_density.max())
        return cls(points, density / np.trapezoid(density, points), note)

    def __repr__(self) -> str:
        ends = f"{self.points[0]:.4g} to {self.points[-1]:.4g}"
        return f"InvariantLaw(mean={self.mean:.4g}, sd={self.sd:.4g}, on {ends}; {self.note})"

    @property
    def mean(self) -> float:
        return float(np.trapezoid(self.points * self.density, self.points))

    @property
    def sd(self) -> float:
        square = (self.points - self.mean) ** 2
        return float(np.sqrt(np.trapezoid(square * self.density, self.points)))

    def cdf(self, x: Array) -> np.ndarray:
        """The distribution function."""
        return np.interp(x, self.points, self._cumulative())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Central interval, (lower, upper)."""
        check_level(level)
        tails = (1 - level) / 2, (1 + level) / 2
        lower, upper = np.interp(tails, self._cumulative(), self.points)
        return float(lower), float(upper)

    def _cumulative(self) -> np.ndarray:
        return cumulative_trapezoid(self.density, self.points, initial=0.0)


@float64
def invariant_law(
    kernel: Kernel,
    model: Model,
    data: Rows | Simulator | LeastSquaresMoments,
    batch_size: int,
    grid: Array,
) -> InvariantLaw:
    """Where a process with one parameter stays in the long run, in continuous time.

    Paper: Fokker-Planck - the invariant law of any process in one dimension, not Gaussian

    Unlike `stationary_law` it is no linearisation: far from the optimum V grows, MasGrad's law has
    exponential tails and SGD's polynomial ones, and a loss with several minima has as many modes.
    It is the limit of a small step; the chain differs by terms of order eta.

    Args:
        kernel: `masgrad`, `sgd`, `sgld` or `natural_gradient` with a constant step.
        model: a loss with one parameter.
        data: rows, a `Simulator`, or `LeastSquaresMoments`.
        batch_size: n.
        grid: increasing points; the law is negligible at its ends.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> model = mg.CustomLoss(lambda t, z: ((t - z) ** 2).sum() / 2, 1)
        >>> z = np.array([[-1.0], [0.0], [1.0]])  # b = theta, V = 1: Gaussian, variance 1 / beta
        >>> law = mg.theory.invariant_law(mg.masgrad(0.1), model, z, 5, np.linspace(-1, 1, 2001))
        >>> round(law.sd**2, 6)  # beta = 2 n / eta = 100
        0.01
    """
    if not isinstance(kernel, Kernel):
        raise InputTypeError(f"kernel={kernel!r}; a kernel such as mg.masgrad(0.2) is needed")
    check_smooth(kernel)
    check_model(model)
    if callable(kernel.step_size):
        raise InputError("a step-size schedule has no invariant law; use a constant step")
    n, eta = check_count("batch_size", batch_size), float(kernel.step_size)
    p = model.dim(sample_rows(model, data))
    if p != 1:
        raise InputError(
            f"the model has {p} parameters; an invariant law is known for one parameter, and by "
            "mg.theory.spherical_law for linear regression with spherically symmetric rows"
        )
    points = _grid(grid)
    drift, spread = _along(kernel, moment_function(model, data), points)
    D = eta / n * spread + kernel.noise.variance(eta) / eta
    if not D.min() > 0:
        raise InputError(
            f"the process has no noise at theta = {points[D.argmin()]:g}; take a grid without it, "
            "or mg.masgrad(..., ridge=)"
        )
    log_density = -2 * cumulative_trapezoid(drift / D, points, initial=0.0) - np.log(D)
    law = InvariantLaw.of_log(points, log_density, f"of theta, in continuous time; n = {n}")
    _check_ends(law)
    return law


def spherical_law(dim: int, beta: float, sigma: float = 1.0, kurtosis: float = 1.0) -> InvariantLaw:
    """The law of |theta - theta*| for MasGrad on linear regression with spherical rows.

    Paper: Fokker-Planck - MasGrad's own invariant law, where V^-1 b is a gradient

    theta - theta* has the density exp(-(beta / k) sqrt(k |d|^2 + sigma^2)) with k = 3 kurtosis - 1,
    the same in all directions. For normal rows it is exp(-(beta / 2) sqrt(2 |d|^2 + sigma^2)).

    Args:
        dim: p.
        beta: 2n / eta.
        sigma: standard deviation of the noise of y.
        kurtosis: c = E|x|^4 / (p (p + 2)) of rows with E x x' = I; 1 for normal rows.

    Example:
        >>> import masgrad as mg
        >>> near, far = (mg.theory.spherical_law(1, beta, 1.0) for beta in (1e4, 4.0))
        >>> bool(abs(near.interval()[1] / 0.0224 - 1) < 1e-2)  # N(0, 1 / beta) for a large beta
        True
    """
    p, beta, sigma = check_count("dim", dim), as_size("beta", beta), as_size("sigma", sigma)
    c = as_size("kurtosis", kurtosis)
    if c < p / (p + 2) * (1 - 1e-12):
        raise InputError(f"kurtosis={c:g}; E|x|^4 >= (E|x|^2)^2 makes it p / (p + 2) at least")
    k = max(3 * c - 1, 0.0)

    def log_density(r: np.ndarray) -> np.ndarray:
        potential = r**2 / (np.sqrt(k * r**2 + sigma**2) + sigma)  # U - U(0), also where k = 0
        return -beta * potential + (p - 1) * np.log(np.maximum(r, np.finfo(float).tiny))

    end = sigma
    peak = log_density(np.geomspace(1e-9, 1e9, 2001) * sigma).max()
    while log_density(np.array([end]))[0] > peak - LOG_TAIL:
        end = 1.2 * end
    while log_density(np.array([end / 1.2]))[0] < peak - LOG_TAIL:
        end = end / 1.2
    points = np.linspace(0.0, end, POINTS)
    return InvariantLaw.of_log(points, log_density(points), "of |theta - theta*|, continuous time")


def _grid(grid: Array) -> np.ndarray:
    points = np.asarray(grid, np.float64)
    if points.ndim != 1 or len(points) < 3 or not np.all(np.diff(points) > 0):
        raise InputError("grid has to be increasing points, such as np.linspace(-1, 1, 2001)")
    return points


def _along(kernel: Kernel, at: MomentFunction, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A b and A^2 Sigma at each point."""
    drift, spread = [], []
    for theta in points:
        m = at(np.array([theta]), ("mean", "cov"))
        A = kernel.adjustment.matrix(m)[0, 0]
        drift.append(A * m.mean[0])
        spread.append(A**2 * m.cov[0, 0])
    return np.array(drift), np.array(spread)


def _check_ends(law: InvariantLaw) -> None:
    """The grid holds nearly all of the law."""
    ends = law.density[[0, -1]] / law.density.max()
    if ends.max() > LARGEST_TAIL:
        where = law.points[0 if ends[0] >= ends[1] else -1]
        raise InputError(
            f"the density at {where:g}, an end of the grid, is {ends.max():.2g} of its maximum; "
            "take a wider grid, or the process has no invariant law"
        )

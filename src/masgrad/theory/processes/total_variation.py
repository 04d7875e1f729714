"""Theorem 1's constant to leading order: total variation between the paths of chain and diffusion.

    KL of the paths = T mean_t |kappa_3(theta_t)|^2 / (12 n) + o(T / n)
    TV <= sqrt(KL / 2) = sqrt(mean_t |kappa_3(theta_t)|^2 / 24) sqrt(T / n)

kappa_3(theta) is the tensor of third cumulants of X = V^-1 (g - b), |.|^2 the sum of its squared
entries. By Edgeworth's expansion the density of (X_1 + ... + X_n) / sqrt(n) is that of N(0, I)
times 1 + kappa_3 . He_3 / (6 sqrt(n)), whose relative entropy is |kappa_3|^2 / (12 n). By the chain
rule the entropies of the steps add, averaged over the chain's law; Pinsker's inequality does the
rest. The step size does not enter. All of it is about a population whose gradients have a density.
"""

import math
from dataclasses import dataclass, field

import jax
import numpy as np

from masgrad.chains.door import sample_rows
from masgrad.checks import as_number, check_count, check_seed
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.root import EIGENVALUE_FLOOR
from masgrad.data.arrays import blocks, count_rows, pick
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.moment_function import MomentFunction, moment_function
from masgrad.models.model import Model, check_model
from masgrad.progress import Progress
from masgrad.theory.curvature.regions import as_points
from masgrad.theory.processes.third_cumulants import SquaredCumulant, squared_cumulant
from masgrad.types import Array, Rows, float64

LABEL = "leading order, for a population with a density; for the table itself TV = 1"
FEW_VALUES = 50
"""Values of a gradient's coordinate that are few, if rows share them."""
COUNTED_ROWS = 2048
"""Rows whose values are counted."""


@dataclass(frozen=True, repr=False)
class TotalVariationConstant:
    """Total variation between the paths of a chain and of its diffusion, to leading order.

    Args:
        squared_cumulant: |kappa_3|^2, the mean over the points; an estimate that can be negative
            where it is 0.
        error: its standard error.
        per_point: |kappa_3|^2 at each point, (m,).
        rows: rows that it was estimated from.
        label: what the numbers are about.
    """

    squared_cumulant: float
    error: float
    per_point: np.ndarray = field(compare=False)
    rows: int
    label: str = LABEL

    def __repr__(self) -> str:
        return (
            f"TotalVariationConstant(TV <= {self.constant:.3g} sqrt(T/n); |kappa_3|^2 = "
            f"{self.squared_cumulant:.3g} +- {self.error:.2g} over {len(self.per_point)} points; "
            f"{self.label})"
        )

    @property
    def constant(self) -> float:
        """C of TV <= C sqrt(T / n); 0 if the third cumulants vanish and TV falls faster."""
        return math.sqrt(max(self.squared_cumulant, 0.0) / 24)

    def entropy(self, steps: int, batch_size: int) -> float:
        """Relative entropy of the chain's path to its diffusion's: T |kappa_3|^2 / (12 n)."""
        n = check_count("batch_size", batch_size)
        return 2 * self.constant**2 * check_count("steps", steps) / n

    def distance(self, steps: int, batch_size: int) -> float:
        """The bound on the total variation of paths, and so of the last iterates: at most 1."""
        return min(1.0, math.sqrt(self.entropy(steps, batch_size) / 2))

    def batch_size(self, distance: float, steps: int) -> int:
        """n with which `distance(steps, n)` is at most the wanted one.

        It is refused where |kappa_3|^2 is within two standard errors of 0: the next order decides.
        """
        wanted, steps = as_number("distance", distance), check_count("steps", steps)
        if not 0 < wanted < 1:
            raise InputError(f"distance={distance}; a total variation between 0 and 1 is needed")
        if self.squared_cumulant <= 2 * self.error:
            raise InputError(
                f"|kappa_3|^2 = {self.squared_cumulant:.3g} is within two standard errors "
                f"({self.error:.2g}) of 0, where TV falls faster than n^-1/2 and this order gives "
                "no n; give more rows, or measure KS and W2 by closeness_rate"
            )
        return max(1, math.ceil(steps * (self.constant / wanted) ** 2 * (1 - 1e-12)))


@float64
def tv_constant(
    model: Model, data: Rows | Simulator, region: Array, rows: int = 10_000, seed: int = 0
) -> TotalVariationConstant:
    """Theorem 1's constant C to leading order, TV <= C sqrt(T / n), from third cumulants.

    Paper: Theorem 3.1 Non-asymptotic bound for inference - its constant

    Args:
        model: the loss.
        data: a `Simulator`, or rows, which stand for the population that they come from.
        region: points (m, p) that count alike: the chain's own `path(trace)`, or a `ball`.
        rows: at most so many are used, drawn without replacement; a simulator gives so many.
        seed: of that draw.

    Example:
        >>> import jax, jax.numpy as jnp, masgrad as mg
        >>> sample = lambda key, n: jax.random.exponential(key, (n, 1))  # third cumulant 2
        >>> data = mg.Simulator(sample, moments=lambda theta: (theta - 1, jnp.eye(1)))
        >>> model = mg.CustomLoss(lambda theta, z: ((theta - z) ** 2).sum() / 2, 1)
        >>> tv = mg.theory.tv_constant(model, data, [[2.0]], rows=200_000)
        >>> abs(tv.squared_cumulant - 4) < 4 * tv.error, tv.batch_size(0.1, steps=16) > 200
        (True, True)
        >>> tv.label
        'leading order, for a population with a density; for the table itself TV = 1'
    """
    check_model(model)
    if isinstance(data, LeastSquaresMoments):
        raise InputTypeError("third cumulants need rows, and LeastSquaresMoments keep none")
    points = as_points("region", region)
    used = _some_rows(model, data, check_count("rows", rows, 2), check_seed(seed))
    if points.shape[1] != model.dim(used):
        raise InputError(
            f"region has points of {points.shape[1]} parameters; this model and data need "
            f"{model.dim(used)}"
        )
    known = moment_function(model, data) if isinstance(data, Simulator) and data.moments else None
    found = []
    with Progress(len(points), label="points") as bar:
        for i, theta in enumerate(points):
            found.append(_at(model, used, theta, known, i))
            bar.update(i + 1)
    values = np.array([f.value for f in found])
    influence = np.mean([f.influence for f in found], axis=0)
    error = float(influence.std() / np.sqrt(len(influence)))
    return TotalVariationConstant(float(values.mean()), error, values, count_rows(used))


def _some_rows(model: Model, data: Rows | Simulator, most: int, seed: int) -> Rows:
    """At most so many checked rows: drawn from the table, or by the simulator."""
    checked = sample_rows(model, data)
    if isinstance(data, Simulator):
        return model.rows(jax.tree.map(np.asarray, data.sample(jax.random.key(seed), most)))
    count = count_rows(checked)
    if count <= most:
        return checked
    chosen = np.sort(np.random.default_rng(seed).choice(count, most, replace=False))
    return pick(lambda a: a[chosen], checked)


def _at(
    model: Model, rows: Rows, theta: np.ndarray, known: MomentFunction | None, point: int
) -> SquaredCumulant:
    """|kappa_3|^2 at one theta, with b and V known or from these rows."""
    G = np.concatenate([model.row_gradients(theta, block) for block in blocks(rows)])
    if not np.isfinite(G).all():
        raise InputError(f"a gradient is not finite at point {point} of the region")
    if known is None:
        centred, cov = G - G.mean(0), np.atleast_2d(np.cov(G.T))
    else:
        moments = known(theta)
        centred, cov = G - moments.mean, moments.cov
    U = _standardised(centred, cov, point)
    _check_many_values(G[:: -(-len(G) // COUNTED_ROWS)], point)
    return squared_cumulant(U, own_moments=known is None)


def _standardised(centred: np.ndarray, cov: np.ndarray, point: int) -> np.ndarray:
    """Rows with covariance I, by any root of Sigma: rotations leave |kappa_3|^2 as it is."""
    size = np.sqrt(np.diag(cov))
    if (size > 0).all():
        values, vectors = np.linalg.eigh(cov / np.outer(size, size))
        if values[0] > EIGENVALUE_FLOOR:
            return (centred / size) @ (vectors / np.sqrt(values))
    raise InputError(
        f"V is singular at point {point} of the region: the gradient has no noise in some "
        "direction, and no density; drop redundant columns, leave that point out, or give more rows"
    )


def _check_many_values(G: np.ndarray, point: int) -> None:
    """Refuse gradients with a coordinate whose values, but for one, are few and shared by rows.

    The one is the 0 of rows that a coordinate does not concern, such as those outside a category.
    """
    for j, column in enumerate(G.T):
        spread = np.abs(column).max()
        _, counts = np.unique(np.round(column / spread, 10), return_counts=True)
        others = len(column) - counts.max()
        if len(counts) - 1 <= FEW_VALUES and others >= 2 * (len(counts) - 1):
            raise InputError(
                f"coordinate {j} of the gradient takes {len(counts)} values at point {point} of "
                "the region: its law has no density, (A.1) fails, and the total variation distance "
                "to a diffusion is 1 whatever n; leave that point out if others have a density (a "
                "logistic intercept has none at 0 only), or measure KS and W2 by closeness_rate"
            )

"""What the theorems say for a model and data: the optimum, the gap, a region, its constants.

The region is the sublevel set {L <= L(start)}, which the deterministic update does not leave:
points of the ellipsoid of H around the optimum through the start, pulled in where L is higher
there, with the start and the optimum themselves. At each of them the proofs use H on the way to the
optimum and to the next iterate (`Segments`), and so does this.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.chains import door
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import Moments, row_moments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.methods import masgrad
from masgrad.kernels.moment_function import moment_function
from masgrad.kernels.stability import minimise
from masgrad.models.glm import GLM
from masgrad.models.model import Model, check_model
from masgrad.theory.curvature.conditioning import Conditioning, check_regular, conditioning
from masgrad.theory.curvature.regions import Segments, ball
from masgrad.theory.plans.budget import convex_within
from masgrad.theory.plans.optimum import local_minimum
from masgrad.theory.plans.planning import ConvexPlan, NonConvexPlan, plan_convex, plan_nonconvex
from masgrad.types import Array, Rows, float64

SUBLEVEL_POINTS = 16
"""Number of points in the sublevel set besides the start."""


@dataclass(frozen=True)
class Survey:
    """The theorems' constants for a model and data.

    Args:
        optimum: of these rows, (p,).
        gap: L(theta_0) - L(optimum).
        conditioning: over the region.
        region: what it is, in words.
        rows: N.
    """

    optimum: np.ndarray
    gap: float
    conditioning: Conditioning
    region: str
    rows: int

    def __repr__(self) -> str:
        return (
            f"Survey({self.rows} rows, {len(self.optimum)} parameters, gap={self.gap:.4g}, "
            f"{self.conditioning}, over {self.region})"
        )

    def plan_convex(self, epsilon: float) -> ConvexPlan:
        """The strongly convex theorem's plan for an accuracy epsilon of the risk."""
        return plan_convex(epsilon=epsilon, **self._convex)

    def convex_within(self, rows: int) -> ConvexPlan:
        """The most accurate plan that draws at most `rows` rows."""
        return convex_within(rows, **self._convex)

    def plan_nonconvex(self, epsilon: float, delta: float) -> NonConvexPlan:
        """The non-convex theorem's plan for a gradient of norm epsilon."""
        c, p = self.conditioning, len(self.optimum)
        return plan_nonconvex(c.gamma, self.gap, epsilon, delta, p, c.v_max)

    @property
    def _convex(self) -> dict:
        c = self.conditioning
        return {
            "alpha": c.alpha,
            "gamma": c.gamma,
            "gap": self.gap,
            "dim": len(self.optimum),
            "v_max": c.v_max,
        }


def survey(
    model: Model,
    data: Rows | LeastSquaresMoments,
    theta0: Array | None = None,
    optimum: Array | None = None,
    region: Array | Segments | None = None,
    ridge: float = 0.0,
) -> Survey:
    """Find the optimum, the gap and the condition numbers of a model on data, ready for plans.

    Args:
        model: the loss.
        data: rows, or for `Linear()` `LeastSquaresMoments`.
        theta0: the start, by default where a fit begins, or a random one if the loss has several
            optima, or no noise in some direction there.
        optimum: the minimiser of the mean loss; by default the one that theta0 leads to, or without
            theta0 the lowest from several starts if the loss has several optima.
        region: as in `conditioning`; by default the set L <= L(theta0).
        ridge: added to Sigma, as in `mg.masgrad(..., ridge=)`.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 3))
        >>> s = mg.theory.survey(mg.Linear(), (X, X.sum(1) + rng.normal(size=1000)))
        >>> s.plan_convex(epsilon=0.01).step_size == 1 / s.conditioning.gamma
        True
    """
    if isinstance(data, Simulator):
        raise InputTypeError("a survey needs rows; draw some: data.sample(key, n)")
    check_model(model)
    checked = door.sample_rows(model, data)
    start = _start(model, checked, ridge) if theta0 is None else model.theta(theta0, checked)
    if optimum is None:
        several = theta0 is None and model.several_optima
        best = _optimum(model, data, checked, None if several else start)
    else:
        best = model.theta(optimum, checked)
    gap = risk_of(model, data, start) - risk_of(model, data, best)
    if gap < -1e-9 * abs(risk_of(model, data, best)):
        raise InputError("the optimum that was given has a higher mean loss than the start")
    words = "the points given"
    if region is None:
        region, words = _sublevel_set(model, data, start, best, ridge)
    return Survey(
        best,
        float(max(gap, 0.0)),
        conditioning(model, data, region, ridge),
        words,
        door.known_rows(data, checked) or 0,
    )


@float64
def _start(model: Model, checked: Rows, ridge: float) -> np.ndarray:
    """Where a fit begins, or a random point if that may be a saddle, at which V is singular."""
    start = model.initial_theta(checked)
    if not (model.several_optima or _is_singular(model, checked, start, ridge)):
        return start
    return model.random_theta(checked, np.random.default_rng(0))


def _is_singular(model: Model, checked: Rows, theta: np.ndarray, ridge: float) -> bool:
    """Whether the gradient of a loss of one's own has no noise in some direction."""
    if isinstance(model, GLM):
        return False
    cov = row_moments(model, theta, checked, ("cov",)).cov + ridge * np.eye(len(theta))
    try:
        check_regular(cov[None], np.linalg.eigvalsh(cov)[None])
    except InputError:
        return True
    return False


def _optimum(model: Model, data, checked: Rows, start: np.ndarray | None) -> np.ndarray:
    """The optimum that the start leads to; without one, the lowest from several."""
    if isinstance(data, LeastSquaresMoments):
        return data.optimum()
    if not isinstance(model, GLM):
        return local_minimum(model, checked, start)
    found = minimise(model, checked)
    if found is None:
        raise InputError(
            "no optimum was found from 0: the rows are separable, columns are collinear, or 0 is "
            "outside the link's domain; drop columns, use a log link, or give optimum= (of mg.fit) "
            "and region="
        )
    m = row_moments(model, found, checked, ("hessian",))
    return found - np.linalg.solve(m.hessian, m.mean)  # to rounding


def risk_of(model: Model, data, theta: np.ndarray) -> float:
    """L(theta); up to a constant if computed from moments."""
    if isinstance(data, LeastSquaresMoments):
        away = theta - data.optimum()
        return float(away @ data.hessian @ away / 2)
    return model.risk(theta, data)


@float64
def _sublevel_set(
    model: Model, data, start: np.ndarray, best: np.ndarray, ridge: float
) -> tuple[Segments, str]:
    """Points with L <= L(start), with segments to the optimum and to the next iterate."""
    look = moment_function(model, data)
    at = _points(model, data, start, best, look(best).hessian)
    share = np.array([0.0, 0.5, 1.0])[:, None]
    home = at[:, None] + share * (best - at)[:, None]
    eta = conditioning(model, data, Segments(at, home), ridge).step_masgrad
    step = np.stack([_direction(look(w), ridge) for w in at]) * eta
    onward = at[:, None] - share[1:] * step[:, None]
    words = f"{len(at)} points of the set L <= L(start), which the deterministic update keeps to"
    return Segments(at, np.concatenate([home, onward], axis=1)), words


def _points(model: Model, data, start, best, H: np.ndarray) -> np.ndarray:
    radius = np.sqrt(max((start - best) @ H @ (start - best), 0.0))
    if radius == 0:
        return best[None]
    if not np.linalg.eigvalsh(H)[0] > 0:
        raise InputError("H is not positive definite at the optimum: it is no strict minimum")
    points = ball(best, radius, SUBLEVEL_POINTS, metric=H)
    lowest, level = risk_of(model, data, best), risk_of(model, data, start)
    level += 1e-6 * (level - lowest)  # for a quadratic loss the surface is at the level itself
    with np.errstate(over="ignore"):
        for i in range(len(points)):
            while not risk_of(model, data, points[i]) <= level and np.any(points[i] != best):
                points[i] = best + (points[i] - best) / 2
    return np.vstack([points, start])


def _direction(m: Moments, ridge: float) -> np.ndarray:
    """V^-1 b."""
    return masgrad(1.0, ridge=ridge).adjustment.matrix(m) @ m.mean

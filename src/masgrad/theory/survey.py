"""What the theorems say for a model and data: the optimum, the gap, a region, its constants.

The region is the way that MasGrad itself takes: the deterministic update from the start, with the
step that the straight line to the optimum recommends. At each of its points the proofs use H on the
way to the next point and to the optimum (`segments`).
"""

from dataclasses import dataclass

import numpy as np

from masgrad.chains import door
from masgrad.chains.run import run
from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.data.simulate import Simulator
from masgrad.errors import InputError, InputTypeError
from masgrad.kernels.methods import masgrad
from masgrad.kernels.stability import minimise
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.theory.budget import convex_within
from masgrad.theory.conditioning import Conditioning, conditioning
from masgrad.theory.planning import ConvexPlan, NonConvexPlan, plan_convex, plan_nonconvex
from masgrad.theory.regions import Segments, segments
from masgrad.types import Array, Rows

LINE, PATH, THIN = 21, 400, 10
"""Points on the straight line; steps of the update, and of them every tenth is a point."""


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

    def plan_convex(self, epsilon: float) -> ConvexPlan:
        """The strongly convex theorem's plan for an accuracy epsilon of the risk."""
        return plan_convex(epsilon=epsilon, **self._convex)

    def convex_within(self, rows: int) -> ConvexPlan:
        """The most accurate plan that draws at most so many rows."""
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
) -> Survey:
    """Find the optimum, the gap and the condition numbers of a model on data, ready for plans.

    Args:
        model: the loss.
        data: rows, or for `Linear()` `LeastSquaresMoments`.
        theta0: the start; 0 unless given.
        optimum: of the mean loss; found for GLMs, else to be given.
        region: as in `conditioning`; MasGrad's own way from theta0 unless given.

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
    door.check_model(model)
    checked = door.sample_rows(model, data)
    p = model.dim(checked)
    start = np.zeros(p) if theta0 is None else model.theta(theta0, checked)
    best = _optimum(model, data, checked) if optimum is None else model.theta(optimum, checked)
    words = "the points given"
    if region is None:
        region, words = _own_way(model, data, start, best)
    return Survey(
        best,
        _gap(model, data, start, best),
        conditioning(model, data, region),
        words,
        door.known_rows(data, checked) or 0,
    )


def _optimum(model: Model, data, checked: Rows) -> np.ndarray:
    if isinstance(data, LeastSquaresMoments):
        return data.optimum()
    if not isinstance(model, GLM):
        raise InputError(f"the optimum of {type(model).__name__} is not found here; give optimum=")
    found = minimise(model, checked)
    if found is None:
        raise InputError(
            "the mean loss has no optimum on these rows: they are separable, or columns are "
            "collinear; drop columns, or give optimum= and region="
        )
    return found


def _gap(model: Model, data, start: np.ndarray, best: np.ndarray) -> float:
    if isinstance(data, LeastSquaresMoments):
        return float((start - best) @ data.hessian @ (start - best) / 2)
    return max(0.0, model.risk(start, data) - model.risk(best, data))


def _own_way(model: Model, data, start: np.ndarray, best: np.ndarray) -> tuple[Segments, str]:
    line = best + np.linspace(1.0, 0.0, LINE)[:, None] * (start - best)
    eta = conditioning(model, data, segments(line, best, 3)).step_masgrad
    trace = run(masgrad(eta), model, data, start, PATH, None, 1, thin=THIN, progress=False)
    points = trace.theta[0]  # type: ignore[union-attr]
    return segments(points, best), f"MasGrad's way from the start, eta = {eta:.3g}, {PATH} steps"

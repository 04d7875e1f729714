"""The exact optimum of a GLM and its robust covariance, or that there is none.

Losses with several optima are searched from several starts. Where the likelihood rises for ever in
some direction, the rows that move along it are left out, and the rest is fitted: coefficients that
the rest does not determine are NaN. Nothing here is taken from masgrad.
"""

from dataclasses import dataclass, replace

import numpy as np

from campaign_losses import Loss, Rows
from campaign_newton import End, Fit, basis_of, follow_barrier, newton, newton_step

# --- starts


def starts(fit: Fit, truth: np.ndarray | None) -> list[np.ndarray]:
    """The intercept alone; for losses with several optima also points in other directions."""
    level = _level(fit)
    points = [level]
    if not fit.loss.several_optima:
        return points
    rng = np.random.default_rng(0)
    points.append(newton(fit, level, scoring=True, most=25).phi)
    points.append(_towards(fit, level, fit.basis.phi(_working(fit) - fit.offset)))
    if truth is not None:
        points.append(_towards(fit, level, fit.basis.phi(truth)))
    while len(points) < 5:
        aside = rng.normal(size=len(level)) * 0.3 * abs(np.median(fit.t(level))) / len(level) ** 0.5
        points.append(_towards(fit, level, level + aside))
    return points


def _level(fit: Fit) -> np.ndarray:
    """The linear predictor that is constant, at the mean response."""
    mean = float(fit.w @ fit.y / fit.w.sum())
    if fit.loss.family == "bernoulli":
        mean = min(max(mean, 1e-6), 1 - 1e-6)
    if (fit.loss.family, fit.loss.link) != ("gaussian", "identity"):
        mean = max(mean, 1e-6)
    level = fit.loss.predictor(np.full_like(fit.y, mean))
    return fit.basis.phi(level - (fit.offset if np.isinf(fit.loss.domain[0]) else 0.0))


def _working(fit: Fit) -> Rows:
    """Responses on the scale of the linear predictor, drawn towards their mean."""
    mean = float(fit.w @ fit.y / fit.w.sum())
    return fit.loss.predictor(np.maximum(0.7 * fit.y + 0.3 * mean, 0.05 * abs(mean) + 1e-9))


def _towards(fit: Fit, inside: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """The point on the line from `inside` to phi, as near to phi as the domain and the loss let."""
    for share in (1.0, 0.7, 0.4, 0.2, 0.1, 0.05):
        point = inside + share * (phi - inside)
        if fit.total(fit.t(point)) < np.inf:
            return point
    return inside


# --- the oracle


@dataclass(frozen=True)
class Optimum:
    """What the oracle found.

    Args:
        status: "optimum", "separated", "border", "rank" or "unfinished".
        theta: the estimate, NaN where there is none, (p,).
        cov: its robust covariance (HC0), NaN likewise.
        model_se: standard errors that trust the model.
        loss: the sum of the losses.
        dispersion: Pearson's, or 1.
        turned: M^-1/2 H, so that |turned d| is the length of d in standard errors, whitened.
        fit: the rows, to evaluate other points.
    """

    status: str
    theta: np.ndarray
    cov: np.ndarray
    model_se: np.ndarray
    loss: float
    dispersion: float
    turned: np.ndarray
    fit: Fit

    @property
    def se(self) -> np.ndarray:
        return np.sqrt(np.maximum(np.diag(self.cov), 0.0))

    @property
    def unit(self) -> np.ndarray:
        """Standard errors, not below 1 % of the model's: a saturated level has residuals of 0."""
        return np.maximum(self.se, 0.01 * self.model_se)

    def loss_at(self, theta: np.ndarray) -> float:
        return self.fit.total(self.fit.t(self.fit.basis.to_phi @ theta))

    def is_near_another(self, theta: np.ndarray) -> bool:
        """Whether theta is within 0.1 standard errors of a minimum, whatever its loss."""
        if not self.fit.loss.several_optima or self.loss_at(theta) == np.inf:
            return False
        now = self.fit.sums(self.fit.t(self.fit.basis.to_phi @ theta))
        if not (now.finite and now.convex):
            return False
        return bool(newton_step(now)[1] < 0.1 * self.dispersion**0.5)

    def rms(self, step: np.ndarray) -> float:
        """A step in standard errors, root mean square over whitened contrasts."""
        return float(np.linalg.norm(self.turned @ step) / np.sqrt(len(step)))


def solve(
    loss: Loss,
    X: np.ndarray,
    y: Rows,
    w: Rows | None = None,
    offset: Rows | None = None,
    truth: np.ndarray | None = None,
    also: np.ndarray | None = None,
) -> Optimum:
    """The optimum of the rows of positive weight.

    Args:
        loss: of the family with its link.
        X: the design, (N, p).
        y: the response.
        w: frequencies.
        offset: a known part of the linear predictor.
        truth: coefficients that generated the rows: a start where there may be several optima.
        also: another start, such as the estimate that is judged.
    """
    w = np.ones(len(y)) if w is None else w
    some = w > 0
    X, y, w = X[some], y[some], w[some]
    offset = np.zeros(len(y)) if offset is None else offset[some]
    fit = Fit(loss, basis_of(X), y, w, offset)
    ends = [_walk(fit, point) for point in starts(fit, None if truth is None else X @ truth)]
    end = _best([*ends, *_from_estimate(fit, X, also, _best(ends))])
    if end.status == "infinity":
        return _separated(fit, X, end)
    if end.status != "optimum":
        return _none(end.status, fit, X)
    status = "optimum" if fit.basis.identified.all() else "rank"
    return _optimum(status, fit, X, end.phi)


def _from_estimate(fit: Fit, X: np.ndarray, also: np.ndarray | None, best: End) -> list[End]:
    """The end of a walk from another estimate, if there is need of one."""
    sure = best.status == "optimum" and not fit.loss.several_optima
    if sure or also is None or not np.isfinite(also).all():
        return []
    phi = fit.basis.phi(X @ also)
    near = fit.total(fit.t(phi)) < fit.total(fit.t(_level(fit)))
    return [_walk(fit, phi)] if near else []


def _walk(fit: Fit, phi: np.ndarray) -> End:
    end = newton(fit, phi)
    if end.status == "border":
        end = min(end, newton(fit, follow_barrier(fit, phi)), key=lambda e: (e.total, e.status))
    return end


def _best(ends: list[End]) -> End:
    """The lowest loss; of nearly equal ones an optimum is preferred."""
    lowest = min(e.total for e in ends)
    near = [e for e in ends if e.total <= lowest + 1e-7 * (1 + 1e-6 * abs(lowest))]
    return min(near, key=lambda e: (e.status != "optimum", e.total))


def _separated(fit: Fit, X: np.ndarray, end: End) -> Optimum:
    """The fit of the rows that do not move along the recession direction."""
    for _ in range(20):
        moved = np.abs(fit.basis.B @ end.step)
        stay = moved < 1e-2 * moved.max()
        if not stay.any():
            return _none("separated", fit, X)
        X = X[stay]
        fit = replace(fit, basis=basis_of(X), y=fit.y[stay], w=fit.w[stay], offset=fit.offset[stay])
        end = newton(fit, _level(fit))
        if end.status == "optimum":
            return _optimum("separated", fit, X, end.phi)
        if end.status != "infinity":
            break
    return _none("separated", fit, X)


def _none(status: str, fit: Fit, X: np.ndarray) -> Optimum:
    p = X.shape[1]
    nothing = np.full(p, np.nan)
    cov = np.full((p, p), np.nan)
    return Optimum(status, nothing, cov, nothing, np.nan, 1.0, cov, fit)


def _optimum(status: str, fit: Fit, X: np.ndarray, phi: np.ndarray) -> Optimum:
    t = fit.t(phi)
    now, T = fit.sums(t), fit.basis.to_theta
    M, dispersion = now.meat, fit.dispersion(t)
    H = now.hessian if now.convex else now.expected
    inverse = np.linalg.pinv(H, hermitian=True)
    cov = T @ inverse @ M @ inverse @ T.T
    model = T @ (dispersion * np.linalg.pinv(now.expected, hermitian=True)) @ T.T
    known = fit.basis.identified
    theta = np.where(known, T @ phi, np.nan)
    cov = np.where(np.outer(known, known), cov, np.nan)
    turned = _whitened(M, H) @ fit.basis.to_phi
    return Optimum(
        status, theta, cov, np.sqrt(np.diag(model)), fit.total(t), dispersion, turned, fit
    )


def _whitened(M: np.ndarray, H: np.ndarray) -> np.ndarray:
    """M^-1/2 H; M is scaled to a unit diagonal, and its eigenvalues are kept above 1e-12."""
    size = np.sqrt(np.maximum(np.diag(M), 1e-200))
    values, Q = np.linalg.eigh(M / np.outer(size, size))
    root = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    return (Q / root).T @ (H / size[:, None])

"""The exact optimum of a GLM: damped Newton on the whole design matrix, in NumPy.

With l the negative log-likelihood of a row at dispersion 1 and t its linear predictor, mu the mean,
V the variance function:

    dl/dt = -(y - mu) mu' / V,      E l'' = mu'^2 / V,
    l''   = mu'^2 / V - (y - mu) (mu'' / V - V' mu'^2 / V^2)

(with expressions of their own for binary responses, whose tails would cancel, and for the log link
with V = mu^q, whose powers would underflow). Steps are taken in
an orthonormal basis of the columns, from the QR factor of X, so that neither units nor collinearity
matter. Rows stay inside the link's domain; if Newton is stuck at the border, a logarithmic barrier
that vanishes leads it round. Nothing here is taken from masgrad.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import expit, log_ndtr

Rows = np.ndarray

SEVERAL_OPTIMA = {
    ("gaussian", "log"), ("gaussian", "inverse"), ("gamma", "identity"), ("poisson", "sqrt"),
    ("inverse_gaussian", "log"), ("inverse_gaussian", "inverse"), ("inverse_gaussian", "identity"),
    ("negative_binomial", "identity"), ("negative_binomial", "inverse"),
    ("tweedie", "identity"), ("tweedie", "inverse"),
}  # fmt: skip
"""Pairs whose loss need not be convex, and Poisson sqrt: the best of several starts is taken."""

MOST_STEPS = 100
SMALL_DECREMENT = 1e-10
"""Newton decrement, in standard errors, of an optimum."""

FAR_STEP, FAR_DECREMENT = 0.02, 1e-5
"""An optimum is at infinity if a step changes some linear predictor by more than FAR_STEP at a
decrement below FAR_DECREMENT: at a finite one it would have a standard error of thousands."""

NULL = 1e-10
"""Singular value of the scaled design, relative to the largest, that is 0."""

BARRIERS = 10.0 ** -np.arange(0, 13)
"""Weights of the logarithmic barrier, per row."""


@dataclass(frozen=True)
class Local:
    """Loss, slope, observed and expected curvature of rows in their linear predictors."""

    loss: Rows
    slope: Rows
    observed: Rows
    expected: Rows


@dataclass(frozen=True)
class Loss:
    """The loss of a family with a link, and the domain of its linear predictors."""

    family: str
    link: str
    parameter: float | None = None

    @property
    def domain(self) -> tuple[float, float]:
        if self.family == "bernoulli":
            return {"log": (-np.inf, 0.0), "identity": (0.0, 1.0)}.get(self.link, (-np.inf, np.inf))
        free = self.link == "log" or (self.family, self.link) == ("gaussian", "identity")
        return (-np.inf, np.inf) if free else (0.0, np.inf)

    @property
    def several_optima(self) -> bool:
        return (self.family, self.link) in SEVERAL_OPTIMA

    @property
    def dispersed(self) -> bool:
        return self.family in ("gaussian", "gamma", "inverse_gaussian", "tweedie")

    def inside(self, t: Rows) -> bool:
        low, high = self.domain
        return bool(np.isfinite(t).all() and t.min() > low and t.max() < high)

    def at(self, t: Rows, y: Rows) -> Local:
        with np.errstate(all="ignore"):
            if self.family == "bernoulli":
                return BINARY[self.link](t, y)
            if self.link == "log" and self.family in VARIANCE_POWERS | {"tweedie": 0}:
                return _log_power(t, y, VARIANCE_POWERS.get(self.family, self.parameter or 0.0))
            return self._by_mean(t, y)

    def _by_mean(self, t: Rows, y: Rows) -> Local:
        m, m1, m2 = MEANS[self.link](t)
        loss, v, v1 = variance(self.family, self.parameter, m, y)
        rest, expected = y - m, m1 * m1 / v
        observed = expected - rest * (m2 / v - v1 * m1 * m1 / (v * v))
        return Local(loss, -rest * m1 / v, observed, expected)

    def predictor(self, mean: Rows) -> Rows:
        """The link function."""
        match self.link:
            case "logit":
                return np.log(mean / (1 - mean))
            case "probit":
                return 1.6 / 2 * np.log(mean / (1 - mean)) / 1.36  # close enough for a start
            case "cloglog":
                return np.log(-np.log1p(-mean))
            case "log":
                return np.log(mean)
        return mean ** (1 / POWERS[self.link])

    def mean(self, t: Rows) -> Rows:
        with np.errstate(all="ignore"):
            if self.family != "bernoulli":
                return MEANS[self.link](t)[0]
            one = BINARY[self.link](t, np.ones_like(t)).loss
            return np.exp(-one)


VARIANCE_POWERS = {"gaussian": 0.0, "poisson": 1.0, "gamma": 2.0, "inverse_gaussian": 3.0}


def _log_power(t: Rows, y: Rows, q: float) -> Local:
    """The log link with the variance mu^q: l' = mu^(2-q) - y mu^(1-q)."""
    up, down = np.exp((2 - q) * t), y * np.exp((1 - q) * t)
    loss = (t if q == 2 else up / (2 - q)) - (y * t if q == 1 else down / (1 - q))
    return Local(loss, up - down, (2 - q) * up - (1 - q) * down, up)


POWERS = {"identity": 1.0, "inverse": -1.0, "inverse_squared": -0.5, "sqrt": 2.0}


def _power(k: float) -> Callable[[Rows], tuple[Rows, Rows, Rows]]:
    return lambda t: (t**k, k * t ** (k - 1), k * (k - 1) * t ** (k - 2))


def _exponential(t: Rows) -> tuple[Rows, Rows, Rows]:
    m = np.exp(t)
    return m, m, m


MEANS = {"log": _exponential} | {name: _power(k) for name, k in POWERS.items()}
"""The mean as a function of t, with two derivatives."""


def variance(family: str, a: float | None, m: Rows, y: Rows) -> tuple[Rows, Rows, Rows]:
    """The loss of rows with means m, the variance function and its derivative."""
    match family:
        case "gaussian":
            return (y - m) ** 2 / 2, np.ones_like(m), np.zeros_like(m)
        case "poisson":
            return m - y * np.log(m), m, np.ones_like(m)
        case "gamma":
            return y / m + np.log(m), m**2, 2 * m
        case "inverse_gaussian":
            return y / (2 * m * m) - 1 / m, m**3, 3 * m**2
        case "tweedie":
            assert a is not None
            loss = m ** (2 - a) / (2 - a) - y * m ** (1 - a) / (1 - a)
            return loss, m**a, a * m ** (a - 1)
        case "negative_binomial":
            assert a is not None
            loss = (y + 1 / a) * np.log1p(a * m) - y * np.log(m)
            return loss, m + a * m * m, 1 + 2 * a * m
    raise ValueError(family)


def _logit(t: Rows, y: Rows) -> Local:
    p, q = expit(t), expit(-t)
    return Local(np.logaddexp(0, np.where(y > 0, -t, t)), np.where(y > 0, -q, p), p * q, p * q)


def _probit(t: Rows, y: Rows) -> Local:
    sign = np.where(y > 0, 1.0, -1.0)
    log_density = -t * t / 2 - np.log(2 * np.pi) / 2
    own, other = log_ndtr(sign * t), log_ndtr(-sign * t)
    ratio = np.exp(log_density - own)
    expected = np.exp(2 * log_density - own - other)
    return Local(-own, -sign * ratio, ratio * (ratio + sign * t), expected)


def _cloglog(t: Rows, y: Rows) -> Local:
    u = np.exp(t)
    a = np.where(u > 0, u / np.expm1(u), 1.0)
    a = np.where(u > 700, 0.0, a)
    one = Local(-np.log(-np.expm1(-u)), -a, a * (u + a - 1), u * a)
    zero = Local(u, u, u, u * a)
    return _chosen(y, one, zero)


def _binary_log(t: Rows, y: Rows) -> Local:
    odds = 1 / np.expm1(-t)
    one = Local(-t, -np.ones_like(t), np.zeros_like(t), odds)
    return _chosen(y, one, Local(-np.log(-np.expm1(t)), odds, odds * (1 + odds), odds))


def _binary_identity(t: Rows, y: Rows) -> Local:
    rest = 1 - t
    info = 1 / (t * rest)
    one = Local(-np.log(t), -1 / t, 1 / t**2, info)
    return _chosen(y, one, Local(-np.log(rest), 1 / rest, 1 / rest**2, info))


def _chosen(y: Rows, one: Local, zero: Local) -> Local:
    parts = ("loss", "slope", "observed", "expected")
    return Local(*(np.where(y > 0, getattr(one, k), getattr(zero, k)) for k in parts))


BINARY = {
    "logit": _logit, "probit": _probit, "cloglog": _cloglog, "log": _binary_log,
    "identity": _binary_identity,
}  # fmt: skip
"""The loss of y = 0 or 1 in t."""


# --- the design


@dataclass(frozen=True)
class Basis:
    """Orthogonal columns that span X, of mean square 1, and the map of their coefficients to theta.

    Args:
        B: the columns, (N, r).
        to_theta: theta = to_theta phi, (p, r).
        to_phi: its inverse on the row space, (r, p).
        identified: which coefficients the rows determine, (p,).
    """

    B: np.ndarray
    to_theta: np.ndarray
    to_phi: np.ndarray
    identified: np.ndarray

    def phi(self, t: Rows) -> np.ndarray:
        """The coefficients nearest to given linear predictors, without the offset."""
        return self.B.T @ t / len(self.B)


def basis_of(X: np.ndarray) -> Basis:
    scale = np.sqrt(np.mean(X**2, 0))
    scale[scale == 0] = 1.0
    Q, R = np.linalg.qr(X / scale)
    U, s, Vt = np.linalg.svd(R)
    keep = s > NULL * s[0]
    root = np.sqrt(len(X))
    to_theta = (Vt[keep].T / s[keep]) * root / scale[:, None]
    to_phi = (s[keep, None] * Vt[keep]) * scale / root
    identified = np.abs(Vt[~keep]).max(0, initial=0.0) < 1e-6
    return Basis(Q @ U[:, keep] * root, to_theta, to_phi, identified)


@dataclass(frozen=True)
class Sums:
    """What Newton's method needs at a point."""

    basis: "Basis"
    w: Rows
    t: Rows
    local: Local

    def _weighted(self, h: Rows) -> np.ndarray:
        B = self.basis.B
        return B.T @ ((self.w * h)[:, None] * B)

    @cached_property
    def gradient(self) -> np.ndarray:
        return self.basis.B.T @ (self.w * self.local.slope)

    @cached_property
    def hessian(self) -> np.ndarray:
        return self._weighted(self.local.observed)

    @cached_property
    def expected(self) -> np.ndarray:
        return self._weighted(self.local.expected)

    @cached_property
    def meat(self) -> np.ndarray:
        return self._weighted(self.local.slope**2)

    @property
    def finite(self) -> bool:
        rows = (self.local.slope, self.local.observed, self.local.expected)
        return all(bool(np.isfinite(a).all()) for a in rows)

    @cached_property
    def convex(self) -> bool:
        values = np.linalg.eigvalsh(self.hessian)
        return bool(values[0] > 1e-13 * values[-1] > 0)


@dataclass(frozen=True)
class Fit:
    """Rows, basis and loss of one problem."""

    loss: Loss
    basis: Basis
    y: Rows
    w: Rows
    offset: Rows

    def t(self, phi: np.ndarray) -> Rows:
        return self.basis.B @ phi + self.offset

    def sums(self, t: Rows) -> Sums:
        return Sums(self.basis, self.w, t, self.loss.at(t, self.y))

    def total(self, t: Rows) -> float:
        value = float(self.w @ self.loss.at(t, self.y).loss) if self.loss.inside(t) else np.inf
        return value if np.isfinite(value) else np.inf

    def rise(self, before: Local, t: Rows) -> float:
        """The change of the loss, summed from differences of rows."""
        if not self.loss.inside(t):
            return np.inf
        value = float(self.w @ (self.loss.at(t, self.y).loss - before.loss))
        return value if np.isfinite(value) else np.inf

    def dispersion(self, t: Rows) -> float:
        """Pearson's, for families that have one; else 1."""
        if not self.loss.dispersed:
            return 1.0
        m = self.loss.mean(t)
        _, v, _ = variance(self.loss.family, self.loss.parameter, m, self.y)
        free = max(self.w.sum() - self.basis.B.shape[1], 1.0)
        return max(float(self.w @ ((self.y - m) ** 2 / v)) / free, 1e-300)


# --- Newton


@dataclass(frozen=True)
class End:
    """Where Newton's method ended: "optimum", "infinity", "border" or "unfinished"."""

    status: str
    phi: np.ndarray
    step: np.ndarray
    total: float


def newton(fit: Fit, phi: np.ndarray, scoring: bool = False, most: int = MOST_STEPS) -> End:
    """Damped Newton steps from phi; Fisher scoring where H is not positive definite."""
    for _ in range(most):
        now = fit.sums(fit.t(phi))
        if not now.finite:
            return End(_unfinished(fit.loss, now.t), phi, np.zeros_like(phi), np.inf)
        step, decrement = _step(now, scoring)
        unit = np.sqrt(fit.dispersion(now.t))
        if decrement < FAR_DECREMENT * unit and np.abs(fit.basis.B @ step).max() > FAR_STEP:
            return End("infinity", phi, step, fit.total(now.t))
        if decrement < SMALL_DECREMENT * unit:
            return _judged(fit, now, phi)
        length = _length(fit, now, step)
        if length == 0.0:
            break
        phi = phi + length * step
    if decrement < 1e-6 * unit:  # as near as rounding lets
        return _judged(fit, now, phi)
    return End(_unfinished(fit.loss, now.t), phi, step, fit.total(now.t))


def _step(now: Sums, scoring: bool) -> tuple[np.ndarray, float]:
    """The step and its decrement, the length in the metric of H."""
    return _solved(now.hessian if now.convex and not scoring else now.expected, now.gradient)


def _solved(H: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, float]:
    """-H^-1 g with eigenvalues kept above 0, and its length in the metric of H."""
    values, Q = np.linalg.eigh(H)
    along = Q.T @ g
    safe = np.maximum(values, 1e-15 * max(values[-1], 1e-300))
    return -Q @ (along / safe), float(np.sqrt(np.sum(along**2 / safe)))


def _judged(fit: Fit, now: Sums, phi: np.ndarray) -> End:
    """An end with a gradient of 0: an optimum, or a saddle."""
    status = "optimum" if now.convex else "unfinished"
    return End(status, phi, np.zeros_like(phi), fit.total(now.t))


def _length(fit: Fit, now: Sums, step: np.ndarray) -> float:
    """Armijo's rule from the longest step that keeps 0.5 % of the distance to the border."""
    change = fit.basis.B @ step
    length = min(1.0, 0.995 * _to_border(fit.loss, now.t, change))
    slope = float(now.gradient @ step)
    noise = 1e-13 * float(fit.w @ np.abs(now.local.loss))
    for _ in range(60):
        if fit.rise(now.local, now.t + length * change) <= 1e-4 * length * slope + noise:
            return length
        length /= 2
    return 0.0


def _to_border(loss: Loss, t: Rows, change: Rows) -> float:
    """The multiple of a change at which the first row leaves the domain."""
    low, high = loss.domain
    with np.errstate(all="ignore"):
        down = np.where(change < 0, (low - t) / change, np.inf)
        up = np.where(change > 0, (high - t) / change, np.inf)
    return float(min(down.min(), up.min()))


def _unfinished(loss: Loss, t: Rows) -> str:
    """Whether some row is at the border of the domain, or on its way to infinity."""
    low, high = loss.domain
    size = np.median(np.abs(t))
    if min((t - low).min(), (high - t).min()) < 1e-6 * size:
        return "border"
    return "infinity" if np.abs(t).max() > 1e4 * size else "unfinished"


def follow_barrier(fit: Fit, phi: np.ndarray) -> np.ndarray:
    """A point near the optimum by a logarithmic barrier of weight 1 to 1e-12 per row."""
    for weight in BARRIERS:
        for _ in range(30):
            now = fit.sums(fit.t(phi))
            if not now.finite:
                return phi
            step, decrement = _barrier_step(fit, now, weight)
            phi = phi + _barrier_length(fit, now.t, step, weight) * step
            if decrement < 1e-4:
                break
    return phi


def _barrier_step(fit: Fit, now: Sums, weight: float) -> tuple[np.ndarray, float]:
    slope, bend = _barrier(now.t, *fit.loss.domain)
    B = fit.basis.B
    H = now.hessian if now.convex else now.expected
    H = H + weight * B.T @ ((fit.w * bend)[:, None] * B)
    return _solved(H, now.gradient + weight * B.T @ (fit.w * slope))


def _barrier_length(fit: Fit, t: Rows, step: np.ndarray, weight: float) -> float:
    change = fit.basis.B @ step
    length = min(1.0, 0.9 * _to_border(fit.loss, t, change))
    merit = _merit(fit, weight, *fit.loss.domain)
    before = merit(t)
    while length > 1e-12 and merit(t + length * change) > before:
        length /= 2
    return length


def _barrier(t: Rows, low: float, high: float) -> tuple[Rows, Rows]:
    slope, bend = np.zeros_like(t), np.zeros_like(t)
    for sign, gap in ((-1, t - low), (1, high - t)):
        if np.isfinite(gap).all():
            slope, bend = slope + sign / gap, bend + 1 / gap**2
    return slope, bend


def _merit(fit: Fit, weight: float, low: float, high: float) -> Callable[[Rows], float]:
    def value(t: Rows) -> float:
        gaps = [gap for gap in (t - low, high - t) if np.isfinite(gap).all()]
        return fit.total(t) - weight * sum(float(fit.w @ np.log(gap)) for gap in gaps)

    return value


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
        return bool(_step(now, scoring=False)[1] < 0.1 * self.dispersion**0.5)

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

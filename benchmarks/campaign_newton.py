"""Damped Newton steps on all rows at once, for the campaign's oracle.

Steps are taken in an orthonormal basis of the columns, from the QR factor of X, so that neither
units nor collinearity matter; Fisher scoring replaces Newton where H is not positive definite. Rows
stay inside the link's domain; if that stops Newton at the border, a logarithmic barrier that
vanishes leads it round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from campaign_losses import Local, Loss, Rows

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
        with np.errstate(all="ignore"):
            value = float(self.w @ (self.loss.at(t, self.y).loss - before.loss))
        return value if np.isfinite(value) else np.inf

    def dispersion(self, t: Rows) -> float:
        free = float(self.w.sum()) - self.basis.B.shape[1]
        return self.loss.dispersion(t, self.y, self.w, free)


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
        step, decrement = newton_step(now, scoring)
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


def newton_step(now: Sums, scoring: bool = False) -> tuple[np.ndarray, float]:
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

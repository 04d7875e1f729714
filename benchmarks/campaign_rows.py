"""The rows of a problem of the campaign.

Linear predictors are rescaled (links with a domain) or clipped (the others), so that means are
sensible and an optimum normally exists; the oracle decides whether it does.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr

from campaign_problems import Problem

Rng = np.random.Generator

DUMMIES = ("dummy", "few", "late")
"""Columns of 0 and 1, whose coefficient is the effect itself."""


@dataclass(frozen=True)
class Data:
    """Rows of a regression: the design has an intercept, and dummies of the category last.

    Args:
        X: the design, (N, p).
        y: the response.
        w: weights, or None.
        offset: a known part of the linear predictor, or None.
        columns: numeric columns by name.
        category: texts, or None.
        names: of the columns of X, as a formula names them.
        truth: the coefficients of the linear predictor before clipping, (p,).
    """

    X: np.ndarray
    y: np.ndarray
    w: np.ndarray | None
    offset: np.ndarray | None
    columns: dict[str, np.ndarray]
    category: np.ndarray | None
    names: tuple[str, ...]
    truth: np.ndarray


def rows_of(p: Problem) -> Data:
    """The rows of a problem."""
    rng = np.random.default_rng([p.seed, p.index, 1])
    columns = _numbers(p, rng)
    codes = _codes(p, rng)
    names = ("Intercept", *columns, *(f"g[T.{_level(k)}]" for k in range(1, p.levels)))
    dummies = (np.arange(1, p.levels) == codes[:, None]).astype(float)
    X = np.column_stack([np.ones(p.n), *columns.values(), dummies])
    effect, z = _effects(p, columns, dummies, rng)
    offset = _offsets(p, rng)
    t, truth = _predictor(p, X, z, effect, rng)
    y = _response(p, t if offset is None else np.clip(t + offset, -6, 6), rng)
    y = _mended(p, y, columns, rng)
    order = _order(p, columns, codes, y, rng)
    w = _weights(p, rng)
    category = np.array([_level(k) for k in range(p.levels)])[codes[order]] if p.levels else None
    return Data(
        np.ascontiguousarray(X[order]), y[order], w, None if offset is None else offset[order],
        {name: x[order] for name, x in columns.items()}, category, names, truth,
    )  # fmt: skip


def _level(k: int) -> str:
    return f"l{k:02d}"


def _numbers(p: Problem, rng: Rng) -> dict[str, np.ndarray]:
    columns: dict[str, np.ndarray] = {}
    before = np.zeros(p.n)
    for j, kind in enumerate(p.columns):
        before = _column(kind, p.n, before, rng)
        columns[f"x{j}"] = before
    return columns


def _column(kind: str, n: int, before: np.ndarray, rng: Rng) -> np.ndarray:
    """A column; `before` is the one before, to which it may be correlated."""
    match kind:
        case "normal":
            return rng.normal(size=n)
        case "t3":
            return rng.standard_t(3, n)
        case "cauchy":
            limit = 10 ** rng.uniform(1.5, 3)
            return np.clip(rng.standard_cauchy(n), -limit, limit)
        case "lognormal":
            return np.exp(rng.normal(size=n) * rng.uniform(0.7, 1.3))
        case "ar":
            return 0.9 * _standard(before) + 0.44 * rng.normal(size=n)
        case "dummy":
            return (rng.random(n) < rng.uniform(0.03, 0.5)).astype(float)
        case "few":
            return _ones_at(n, rng.choice(n, rng.integers(3, 11), replace=False))
        case "late":
            last = np.arange(n - max(n // 20, 4), n)
            return _ones_at(n, last[rng.random(len(last)) < 0.5])
        case "year":
            return 1990.0 + rng.integers(0, 33, n)
        case "scaled":
            return rng.normal(size=n) * 10 ** rng.uniform(-6, 6)
        case "collinear":
            return _standard(before) + 10 ** -rng.uniform(1.5, 4) * rng.normal(size=n)
    raise ValueError(kind)


def _ones_at(n: int, rows: np.ndarray) -> np.ndarray:
    x = np.zeros(n)
    x[rows] = 1.0
    return x


def _standard(x: np.ndarray) -> np.ndarray:
    """Centred, and scaled by its quartiles, or by its deviation where these agree."""
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.35
    return (x - middle) / (spread if spread > 0 else max(x.std(), 1e-300))


def _codes(p: Problem, rng: Rng) -> np.ndarray:
    """Levels of the category by number; the last `rare` of them have 0.03 % of the rows and up."""
    if not p.levels:
        return np.zeros(p.n, int)
    common = rng.dirichlet(np.full(p.levels - p.rare, 3.0)) + 0.3 / p.levels
    least = max(3e-4, 8 / p.n)
    rare = np.exp(rng.uniform(np.log(least), np.log(8 * least), p.rare))
    shares = np.concatenate([(1 - rare.sum()) * common / common.sum(), rare])
    return rng.choice(p.levels, p.n, p=shares / shares.sum())


def _effects(
    p: Problem, columns: dict[str, np.ndarray], dummies: np.ndarray, rng: Rng
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients without the intercept, and the linear predictor of spread about 1, centred."""
    sizes = []
    for kind, x in zip(p.columns, columns.values(), strict=True):
        unit = 1.0 if kind in DUMMIES else _unit(x)
        sizes.append(rng.uniform(-1, 1) / unit / (8 if kind == "collinear" else 1))
    effect = np.concatenate([sizes, rng.normal(size=dummies.shape[1]) * 0.5])
    z = np.column_stack([*columns.values(), dummies]) @ effect
    middle = np.median(z)
    width = max(np.quantile(np.abs(z - middle), 0.8), 0.5)
    return np.concatenate([[-middle / width], effect / width]), (z - middle) / width


def _unit(x: np.ndarray) -> float:
    low, high = np.quantile(x, [0.25, 0.75])
    return (high - low) / 1.35 if high > low else max(x.std(), 1e-300)


def _predictor(
    p: Problem, X: np.ndarray, z: np.ndarray, effect: np.ndarray, rng: Rng
) -> tuple[np.ndarray, np.ndarray]:
    """The linear predictor t of the response, and its coefficients."""
    if p.unbounded:
        low, high = _CENTRES.get((p.family, p.link), (-1.0, 1.0))
        centre, slope = rng.uniform(low, high), rng.uniform(0.2, 0.8)
        t = np.clip(centre + slope * z, centre - 3, centre + 3)
        return (centre + slope * z if p.link == "identity" else t), _line(effect, centre, slope)
    centre, lower, upper = _INTERVALS.get((p.family, p.link), (rng.uniform(1, 4), 0.2, 5.0))
    if p.family != "bernoulli":
        lower, upper = lower * centre, upper * centre
    room = [(upper - centre) / max(z.max(), 1e-9), (centre - lower) / max(-z.min(), 1e-9)]
    slope = min(*room, 0.4 * abs(centre))
    return centre + slope * z, _line(effect, centre, slope)


_CENTRES = {
    ("bernoulli", "logit"): (-2.5, 1.5), ("bernoulli", "probit"): (-1.6, 1.0),
    ("bernoulli", "cloglog"): (-2.5, 0.5), ("poisson", "log"): (-2.5, 2.0),
    ("negative_binomial", "log"): (-1.5, 2.0), ("gaussian", "log"): (0.0, 2.0),
}  # fmt: skip
"""Range of the linear predictor's centre."""

_INTERVALS = {
    ("bernoulli", "log"): (-1.2, -4.0, -0.15),
    ("bernoulli", "identity"): (0.4, 0.08, 0.92),
}
"""Centre, lower and upper end of linear predictors."""


def _line(effect: np.ndarray, centre: float, slope: float) -> np.ndarray:
    truth = slope * effect
    truth[0] += centre
    return truth


def _mean(link: str, t: np.ndarray) -> np.ndarray:
    match link:
        case "identity":
            return t
        case "log":
            return np.exp(t)
        case "logit":
            return expit(t)
        case "probit":
            return ndtr(t)
        case "cloglog":
            return -np.expm1(-np.exp(t))
        case "inverse":
            return 1 / t
        case "inverse_squared":
            return 1 / np.sqrt(t)
        case "sqrt":
            return t * t
    raise ValueError(link)


def _response(p: Problem, t: np.ndarray, rng: Rng) -> np.ndarray:
    m, n, a = _mean(p.link, t), len(t), p.parameter
    match p.family:
        case "gaussian":
            noise = rng.standard_t(4, n) if rng.random() < 0.25 else rng.normal(size=n)
            return m + noise * rng.uniform(0.15, 0.6) * (1.0 if p.link == "identity" else m.mean())
        case "bernoulli":
            return (rng.random(n) < m).astype(float)
        case "poisson":
            return rng.poisson(m).astype(float)
        case "gamma":
            shape = rng.uniform(0.8, 5)
            return np.maximum(rng.gamma(shape, m / shape), 1e-8)
        case "inverse_gaussian":
            return rng.wald(m, m.mean() * rng.uniform(1, 6))
        case "tweedie":
            return _compound(m, a or 1.5, rng.uniform(0.6, 2), rng)
        case "negative_binomial":
            return rng.poisson(m * rng.gamma(1 / (a or 1.0), a or 1.0, n)).astype(float)
    raise ValueError(p.family)


def _compound(m: np.ndarray, power: float, phi: float, rng: Rng) -> np.ndarray:
    """Tweedie's law: a Poisson number of gamma variables."""
    count = rng.poisson(m ** (2 - power) / (phi * (2 - power)))
    shape, scale = (2 - power) / (power - 1), phi * (power - 1) * m ** (power - 1)
    return np.where(count > 0, rng.gamma(np.maximum(count, 1) * shape, scale), 0.0)


def _mended(p: Problem, y: np.ndarray, columns: dict[str, np.ndarray], rng: Rng) -> np.ndarray:
    """Mostly, responses under which a dummy carried by few rows has a finite coefficient."""
    for kind, x in zip(p.columns, columns.values(), strict=True):
        if kind != "few" or rng.random() > 0.85:
            continue
        rows = np.flatnonzero(x)
        if p.family == "bernoulli":
            y[rows[0]], y[rows[1]] = 0.0, 1.0
        elif p.family == "gaussian" and p.link != "identity":
            y[rows] = np.maximum(y[rows], 0.3 * y.mean())
        elif p.family in ("poisson", "negative_binomial") and p.link != "log":
            y[rows] = np.maximum(y[rows], 1.0)
        elif p.family in ("poisson", "negative_binomial", "tweedie"):
            y[rows[0]] = max(y[rows[0]], 1.0)
    return y


def _order(
    p: Problem, columns: dict[str, np.ndarray], codes: np.ndarray, y: np.ndarray, rng: Rng
) -> np.ndarray:
    if p.order == "by y":
        return np.argsort(y, kind="stable")
    if p.order == "by a column":
        keys = [*columns.values(), *([codes] if p.levels else [])]
        return np.argsort(keys[rng.integers(len(keys))], kind="stable")
    return np.arange(p.n)  # rows are drawn in a random order, dummies of late rows last


def _weights(p: Problem, rng: Rng) -> np.ndarray | None:
    if p.weights == "none":
        return None
    w = rng.choice([1.0, 2.0, 3.0, 5.0], p.n, p=[0.5, 0.3, 0.15, 0.05])
    return w * (rng.random(p.n) > 0.08) if p.weights == "zeros" else w


def _offsets(p: Problem, rng: Rng) -> np.ndarray | None:
    if p.offset == "none":
        return None
    return rng.normal(size=p.n) * (0.6 if p.offset == "exposure" else 0.4)

"""Random regressions for the campaign: each is a pure function of (seed, index).

`draw` chooses family, link, columns, weights, offset, order, container and reads; `Problem.data`
makes the rows. Of ten successive problems seven have more rows than a fit keeps in memory, and
three have fewer. Linear predictors are rescaled (links with a domain) or clipped (the others), so
that means are sensible and an optimum normally exists; the oracle decides whether it does.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, ndtr

Rng = np.random.Generator

PAIRS = (
    ("gaussian", "identity", 2), ("gaussian", "log", 3), ("gaussian", "inverse", 2),
    ("bernoulli", "logit", 4), ("bernoulli", "probit", 3), ("bernoulli", "cloglog", 3),
    ("bernoulli", "log", 1), ("bernoulli", "identity", 1),
    ("poisson", "log", 4), ("poisson", "identity", 2), ("poisson", "sqrt", 2),
    ("gamma", "inverse", 2), ("gamma", "log", 3), ("gamma", "identity", 2),
    ("inverse_gaussian", "inverse_squared", 2), ("inverse_gaussian", "log", 3),
    ("tweedie", "log", 2), ("negative_binomial", "log", 2), ("negative_binomial", "identity", 1),
)  # fmt: skip
"""Family, link, and how often the pair is drawn."""

CANONICAL = {
    ("gaussian", "identity"), ("bernoulli", "logit"), ("poisson", "log"), ("gamma", "inverse"),
    ("inverse_gaussian", "inverse_squared"),
}  # fmt: skip

UNBOUNDED = {"identity": ("gaussian",), "log": None, "logit": None, "probit": None, "cloglog": None}
"""Links under which every linear predictor has a mean; None for every family but bernoulli log."""

HEAVY = ("t3", "cauchy", "lognormal")
COLUMNS = {
    "normal": 3, "t3": 2, "cauchy": 1.5, "lognormal": 2, "ar": 2, "dummy": 2, "few": 1.2,
    "year": 1.5, "scaled": 1, "collinear": 0.8,
}  # fmt: skip
"""Kinds of numeric columns, and how often each is drawn."""

DUMMIES = ("dummy", "few", "late")
"""Columns of 0 and 1, whose coefficient is the effect itself."""

ORDERS = {"random": 0.55, "by a column": 0.2, "by y": 0.12, "late": 0.13}
CONTAINERS = {
    "arrays": 0.34, "frame": 0.2, "parquet": 0.14, "files": 0.1, "csv": 0.07, "stream": 0.15,
}  # fmt: skip
WEIGHTS = {"none": 0.62, "frequencies": 0.23, "zeros": 0.15}
BLOCK_SIZES = (None, None, None, None, 512, 2000, 10_000)

FEWEST_BLOCK_ROWS, FEWEST_LARGE_ROWS = 40_000, 300_000
"""A fit keeps 32,768 rows in memory."""

LARGE_SHARE = 0.02
"""Share of the block-path problems with 300,000 rows and more."""

SINGLE_SHARE = 0.26
"""Share of the block-path problems that are read once."""


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


@dataclass(frozen=True)
class Problem:
    """One fit of the campaign; `data()` makes its rows."""

    seed: int
    index: int
    family: str
    link: str
    parameter: float | None
    n: int
    columns: tuple[str, ...]
    levels: int
    rare: int
    weights: str
    offset: str
    order: str
    container: str
    passes: int | str
    block_size: int | None
    threads: int

    @property
    def id(self) -> str:
        return f"{self.seed}-{self.index:04d}"

    @property
    def pair(self) -> str:
        return f"{self.family} {self.link}"

    @property
    def group(self) -> str:
        """Small, or through the block path with a single read or several ("two-read")."""
        if self.n < FEWEST_BLOCK_ROWS:
            return "small"
        return "single" if self.passes == 1 or self.container == "iterator" else "two-read"

    @cached_property
    def tags(self) -> frozenset[str]:
        """What the problem is an example of."""
        columns = self.columns
        facts = {
            "block": self.group != "small", "large": self.n >= FEWEST_LARGE_ROWS,
            "sorted": self.order != "random", "late": self.order == "late",
            "rare": self.rare > 0 or "few" in columns, "few": "few" in columns,
            "heavy": any(c in HEAVY for c in columns), "collinear": "collinear" in columns,
            "noncanonical": (self.family, self.link) not in CANONICAL,
            "weighted": self.weights != "none", "offset": self.offset != "none",
            "category": self.levels > 0,
        }  # fmt: skip
        names = (self.group, self.family, self.link, self.container)
        return frozenset({*names, *(name for name, holds in facts.items() if holds)})

    @property
    def name(self) -> str:
        """The family with its parameter, as `mg.glm` takes it."""
        return self.family if self.parameter is None else f"{self.family}({self.parameter:g})"

    @property
    def is_table(self) -> bool:
        return self.container in ("frame", "parquet", "files", "csv")

    def describe(self) -> str:
        """The problem in one line."""
        parts = [f"{self.name} {self.link}", f"N = {self.n:,}", " + ".join(self.columns)]
        if self.levels:
            parts.append(f"category of {self.levels}" + f" ({self.rare} rare)" * bool(self.rare))
        if self.weights != "none":
            parts.append(f"weights: {self.weights}")
        if self.offset != "none":
            parts.append(self.offset)
        parts += [f"order {self.order}", self.container, f"passes={self.passes}"]
        if self.block_size:
            parts.append(f"blocks of {self.block_size}")
        return ", ".join(parts)

    def data(self) -> Data:
        return _data(self, np.random.default_rng([self.seed, self.index, 1]))


# --- what is drawn


def draw(seed: int, index: int) -> Problem:
    """The problem of this number."""
    rng = np.random.default_rng([seed, index, 0])
    small = index % 10 >= 7
    family, link = _pair(rng)
    n, large = _rows(rng, small)
    order = _pick(rng, ORDERS)
    columns = _columns(rng, 3 if large else 5)
    if order == "late":
        columns = (*columns, "late")
    levels, rare = _category(rng, n, large)
    container, passes = _reading(rng, single=not small and rng.random() < SINGLE_SHARE)
    offset = _offset(rng, family, link)
    return Problem(
        seed=seed, index=index, family=family, link=link, parameter=_parameter(rng, family),
        n=n, columns=columns, levels=levels, rare=rare, weights=_pick(rng, WEIGHTS),
        offset=offset, order=order, container=container, passes=passes,
        block_size=BLOCK_SIZES[rng.integers(len(BLOCK_SIZES))],
        threads=1 + int(rng.random() < 0.15),
    )  # fmt: skip


def _pick(rng: Rng, shares: dict[str, float]) -> str:
    names, p = list(shares), np.array(list(shares.values()))
    return names[rng.choice(len(names), p=p / p.sum())]


def _pair(rng: Rng) -> tuple[str, str]:
    p = np.array([often for _, _, often in PAIRS], float)
    return PAIRS[rng.choice(len(PAIRS), p=p / p.sum())][:2]


def _parameter(rng: Rng, family: str) -> float | None:
    if family == "tweedie":
        return float(rng.choice([1.2, 1.5, 1.8]))
    return float(rng.choice([0.3, 1.0, 2.0])) if family == "negative_binomial" else None


def _rows(rng: Rng, small: bool) -> tuple[int, bool]:
    large = not small and rng.random() < LARGE_SHARE
    block = (FEWEST_LARGE_ROWS, 1_000_000) if large else (FEWEST_BLOCK_ROWS, 100_000)
    low, high = (100, 32_768) if small else block
    return int(np.exp(rng.uniform(np.log(low), np.log(high)))), large


def _columns(rng: Rng, most: int) -> tuple[str, ...]:
    drawn = [_pick(rng, COLUMNS) for _ in range(rng.integers(1, most + 1))]
    if drawn[0] in ("ar", "collinear"):
        drawn[0] = "normal"  # the others are made from the column before
    return tuple(drawn)


def _category(rng: Rng, n: int, large: bool) -> tuple[int, int]:
    """Number of levels, and how many of them are rare."""
    if rng.random() > 0.35 or n < 400:
        return 0, 0
    levels = int(rng.integers(3, 8 if large or n < 5000 else 25))
    return levels, int(rng.integers(1, min(6, levels))) if rng.random() < 0.6 else 0


def _reading(rng: Rng, single: bool) -> tuple[str, int | str]:
    container = _pick(rng, CONTAINERS)
    passes = "converge" if rng.random() < 0.2 else "auto"
    if not single:
        return container, passes
    return ("iterator", "auto") if rng.random() < 0.3 else (container, 1)


def _offset(rng: Rng, family: str, link: str) -> str:
    if not _is_unbounded(family, link) or rng.random() < 0.75:
        return "none"
    return "exposure" if link == "log" else "offset"


def _is_unbounded(family: str, link: str) -> bool:
    if (family, link) == ("bernoulli", "log") or link not in UNBOUNDED:
        return False
    families = UNBOUNDED[link]
    return families is None or family in families


# --- the rows


def _data(p: Problem, rng: Rng) -> Data:
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
    if _is_unbounded(p.family, p.link):
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

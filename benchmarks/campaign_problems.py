"""Random regressions for the campaign: each is a pure function of (seed, index).

`draw` chooses family, link, columns, weights, offset, order, container and reads. Of ten successive
problems seven have more rows than a fit keeps in memory, and three have fewer.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

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

HEAVY = ("t3", "cauchy", "lognormal")
COLUMNS = {
    "normal": 3, "t3": 2, "cauchy": 1.5, "lognormal": 2, "ar": 2, "dummy": 2, "few": 1.2,
    "year": 1.5, "scaled": 1, "collinear": 0.8,
}  # fmt: skip
"""Kinds of numeric columns, and how often each is drawn."""

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

OTHER_PASSES = (2, 3, "newton")
OTHER_SHARE = 0.12
"""Share of the problems with the default reads that have one of the others instead."""


@dataclass(frozen=True)
class Problem:
    """One fit of the campaign; `campaign_rows.rows_of` makes its rows."""

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
    def unbounded(self) -> bool:
        """Whether every linear predictor has a mean."""
        return is_unbounded(self.family, self.link)

    @property
    def group(self) -> str:
        """Small, or through the block path with a single read, a number of them, or enough.

        Enough reads are two, for most rows ("two-read").
        """
        if self.n < FEWEST_BLOCK_ROWS:
            return "small"
        if self.passes == 1 or self.container == "iterator":
            return "single"
        return "limited" if isinstance(self.passes, int) else "two-read"

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


def is_unbounded(family: str, link: str) -> bool:
    """Whether every linear predictor has a mean."""
    if link == "identity":
        return family == "gaussian"
    return link in ("logit", "probit", "cloglog") or (link == "log" and family != "bernoulli")


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
    if passes == "auto" and container != "iterator" and not small:
        passes = _other_passes(np.random.default_rng([seed, index, 2]))
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


def _other_passes(rng: Rng) -> int | str:
    return OTHER_PASSES[rng.integers(3)] if rng.random() < OTHER_SHARE else "auto"


def _offset(rng: Rng, family: str, link: str) -> str:
    if not is_unbounded(family, link) or rng.random() < 0.75:
        return "none"
    return "exposure" if link == "log" else "offset"

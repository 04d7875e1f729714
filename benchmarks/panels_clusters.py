"""What clustered errors add to a fit, and one effect of very many levels."""

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import masgrad as mg
from fit_report import Bar, Section, spread, table
from panels_problems import independent, keys_of_clusters
from panels_timing import in_rounds

MODELS: dict[str, Callable[[], Any]] = {"logit": mg.Logistic, "linear": mg.Linear}
CLUSTERS = (100, 10_000, 1_000_000)
KINDS = ("shuffled", "sorted", "text")
COLUMNS, MOST_ADDED = 20, 60.0
LEVELS, LEVEL_COLUMNS = 1_000_000, 4


Percent = dict[tuple[str, int, str], list[float]]


def section(rows: int, seeds: Sequence[int]) -> Section:
    """Fits with clusters over fits with robust errors, measured in turn."""
    base: dict[str, list[float]] = {name: [] for name in MODELS}
    wall: Percent = {}
    processor: Percent = {}
    for seed in seeds:
        X, responses = independent(rows, COLUMNS, seed)
        for name, G in product(MODELS, CLUSTERS):
            keys = {kind: keys_of_clusters(kind, rows, G, seed) for kind in KINDS}
            best, _ = in_rounds(_programs(name, (X, responses[name]), keys))
            base[name].append(best["robust"].wall)
            for kind in KINDS:
                over = best[kind].over(best["robust"])
                for added, ratio in zip((wall, processor), over, strict=True):
                    added.setdefault((name, G, kind), []).append(100 * (ratio - 1))
    cells = [
        (name, f"{G:,}", *(spread(part[name, G, k]) for k in KINDS for part in (wall, processor)))
        for name, G in product(MODELS, CLUSTERS)
    ]
    bars = [
        Bar(f"{name}, {G:,} clusters, {kind}: added", float(np.median(v)), MOST_ADDED, unit="%")
        for (name, G, kind), v in wall.items()
    ]
    times = " and ".join(f"{np.median(took):.2g} s ({name})" for name, took in base.items())
    kinds = [f"{kind}, {what}" for kind in KINDS for what in ("%", "% of processor time")]
    text = f"""{table(("model", "clusters", *kinds), cells)}

Added time in per cent of the fit with robust errors, which takes {times}.
Keys are arrays: whole numbers, or text as Python objects, which are told apart before the fit. Of
{CLUSTERS[-1]:,} keys most have one or two rows. Up to 64 clusters keep their Hessians as well,
for CR2, CR3, wild tests and updates."""
    return Section(f"Clustered errors, arrays of {rows:,} x {COLUMNS}", text, bars)


def _programs(
    name: str, data: tuple[np.ndarray, np.ndarray], keys: dict[str, np.ndarray]
) -> dict[str, Callable[[], Any]]:
    clustered = {
        kind: lambda own=own: mg.fit(MODELS[name](), data, clusters=own)
        for kind, own in keys.items()
    }
    return {"robust": lambda: mg.fit(MODELS[name](), data), **clustered}


def levels_section(rows: int, seeds: Sequence[int]) -> Section:
    """One effect of a million levels, against pyfixest and against no effects."""
    import pyfixest as pf

    warnings.filterwarnings("ignore", module="pyfixest")
    names = [f"x{j}" for j in range(LEVEL_COLUMNS)]
    slopes, cells = " + ".join(names), []
    for seed in seeds:
        frame = _frame(rows, seed)
        programs: dict[str, Callable[[], Any]] = {
            "no effects": lambda f=frame: mg.glm(f"y ~ {slopes}", f),
            "iid": lambda f=frame: mg.glm(f"y ~ {slopes} | g", f, cov_type="nonrobust"),
            "clustered": lambda f=frame: mg.glm(f"y ~ {slopes} | g", f, clusters="g"),
            "pyfixest": lambda f=frame: pf.feols(f"y ~ {slopes} | g", f, vcov={"CRV1": "g"}),
        }
        best, _ = in_rounds(programs)
        ratios = best["pyfixest"].over(best["clustered"])
        each = (f"{took.wall:.3g}" for took in best.values())
        cells.append((str(seed), *each, *(f"{ratio:.3g}" for ratio in ratios)))
        print("  " + ", ".join(cells[-1]), flush=True)
    header = (
        *("seed", "no effects, s", "effects, iid, s", "effects, clustered, s"),
        *("pyfixest, clustered, s", "pyfixest / masgrad, clustered", "in processor time"),
    )
    title = f"One effect of {LEVELS:,} levels, {rows:,} x {LEVEL_COLUMNS}, data frames"
    return Section(title, table(header, cells))


def _frame(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, LEVELS])
    group = rng.integers(0, LEVELS, rows)
    X = rng.standard_normal((rows, LEVEL_COLUMNS))
    y = X.sum(1) + rng.standard_normal(LEVELS)[group] + rng.standard_normal(rows)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(LEVEL_COLUMNS)]).assign(y=y, g=group)

"""Smaller parts: formulas against arrays, one pinned thread, pyfixest, and small data."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

import masgrad as mg
from fit_apart import apart
from fit_peers import FEOLS, FIT, GLUM, GRAM, as_estimate, distance, feols, has_feols
from fit_problems import PROBLEMS, linear, logistic, numeric_frame
from fit_report import Bar, Ratio, Section, spread, table
from fit_timing import best_of, in_turn

PINNED = ("weak", "poisson")
SMALL_ROUNDS = 20
FORMULA_BAR = 1.3
MILLISECONDS = (10, 5)


def formula_section(rows: int, seed: int) -> Section:
    """A numeric formula against the same columns as arrays, intercept included."""
    data = logistic(np.random.default_rng(seed), rows, 21, 0.3)
    pandas, formula = numeric_frame(data.X, data.y)
    frames = {"pandas": pandas, "polars": pl.from_pandas(pandas), "pyarrow": pa.table(pandas)}
    programs = {"`mg.fit` of arrays": lambda: mg.fit(mg.Logistic(), (data.X, data.y))}
    for name, frame in frames.items():
        programs[f"`mg.glm` of {name}"] = lambda f=frame: mg.glm(formula, f, family="binomial")
    times, _ = in_turn(programs, turns=4)
    base = times["`mg.fit` of arrays"]
    cells = [(name, f"{took:.3f}", f"{took / base:.2f}") for name, took in times.items()]
    bars = [
        Bar(f"{name}: over `mg.fit` of arrays", took / base, FORMULA_BAR)
        for name, took in list(times.items())[1:]
    ]
    title = f"A numeric formula, logistic, {rows:,} x 20, in memory"
    return Section(title, table(("program", "seconds", "x mg.fit"), cells), bars)


def single_section(rows: int, seeds: Sequence[int]) -> Section:
    """masgrad with `threads=1` against glum in a process that may use one core."""
    cells, ratios = [], []
    for name in PINNED:
        runs = [apart("single", name, rows, seed, single_thread=True) for seed in seeds]
        title = f"{PROBLEMS[name].title}, one thread"
        print(f"  {title}: {runs[0][GLUM] / runs[0][FIT]:.2f} x glum", flush=True)
        against = [run[GLUM] / run[FIT] for run in runs]
        ratios.append(Ratio(title, GLUM, against))
        medians = (float(np.median([run[key] for run in runs])) for key in (GRAM, FIT, GLUM))
        cells.append((PROBLEMS[name].title, *(f"{m:.3g}" for m in medians), spread(against)))
    header = ("problem", f"{GRAM} (s)", f"{FIT} (s)", f"{GLUM} (s)", "glum over masgrad")
    text = "Bound to one core, with one thread of OpenMP, BLAS and masgrad (`threads=1`).\n\n"
    title = f"One thread, N = {rows:,}"
    return Section(title, text + table(header, cells), ratios=ratios)


def feols_section(rows: int, seeds: Sequence[int]) -> Section:
    """pyfixest's feols without effects, from the same data frame and formula."""
    title = f"pyfixest's feols without effects, {rows:,} x 20"
    if not has_feols():
        return Section(title, "pyfixest is not installed: not measured.")
    runs, distances = [], []
    for seed in seeds:
        data = linear(np.random.default_rng(seed), rows, 21)
        frame, formula = numeric_frame(data.X, data.y)
        programs = {
            FIT: lambda f=formula, d=frame: as_estimate(mg.glm(f, d, family="gaussian")),
            FEOLS: lambda f=formula, d=frame: feols(f, d),
        }
        times, out = in_turn(programs)
        runs.append(times)
        distances.append(distance(out[FEOLS], out[FIT]))
    against = [run[FEOLS] / run[FIT] for run in runs]
    seconds = (float(np.median([run[key] for run in runs])) for key in (FIT, FEOLS))
    away, off = np.array(distances).max(axis=0)
    text = table(
        ("`mg.glm` (s)", "feols (s)", "feols over masgrad", "apart (s.e.)", "s.e. apart"),
        [(*(f"{s:.3g}" for s in seconds), spread(against), f"{away:.1g}", f"{off:.2%}")],
    )
    return Section(title, text, ratios=[Ratio("linear by formula, p = 21", FEOLS, against)])


def small_section(seeds: Sequence[int]) -> Section:
    """1,000 rows and 5 columns: what a fit costs beside its arithmetic."""
    took = []
    for seed in seeds:
        data = logistic(np.random.default_rng(seed), 1000, 5, 0.3)
        fit = lambda d=data: mg.fit(mg.Logistic(), (d.X, d.y))  # noqa: E731
        took.append(1000 * best_of(fit, SMALL_ROUNDS)[0])
    first = 1000 * apart("first")["seconds"]
    text = f"Logistic, 1,000 x 5: {spread(took)} ms; the first fit of a process {first:.0f} ms."
    bar = Bar("small data, 1,000 x 5", float(np.median(took)), *MILLISECONDS, unit="ms")
    return Section("Small data", text, [bar])

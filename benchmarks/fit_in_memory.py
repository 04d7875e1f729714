"""Six problems in memory: times and accuracy of every program, problem by problem."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fit_peers import (
    CONVERGED,
    FIT,
    GLUM,
    GRAM,
    SKLEARN,
    STATSMODELS,
    distance,
    programs_of,
    statsmodels_arrays,
)
from fit_problems import PROBLEMS, Arrays, Table, draw
from fit_report import Bar, Ratio, Section, spread, table
from fit_timing import in_turn, seconds

MINUTE = 60.0
SLOW = 20.0
"""Seconds above which scikit-learn runs with the first seed alone."""

STATSMODELS_BYTES = 2**30
"""Size of X above which statsmodels is not run: it holds several copies."""

AGAINST_GLUM = {
    "weak": (6, 10),
    "strong": (6, 10),
    "poisson": (6, 10),
    "gamma": (4, 8),
    "categories": (2, 4),
}
IN_GRAMS = {"linear": (2.5, 2), "weak": (3, 2), "strong": (3, 2)}
"""Bars and aims: times as fast as glum; at most so many X'X."""

HEADER = ("program", "seconds", "x X'X", "x masgrad", "from the MLE (s.e.)", "s.e. off by")


@dataclass(frozen=True)
class Run:
    """One problem with one seed: seconds, and distances from the MLE, by program."""

    times: dict[str, float]
    distances: dict[str, tuple[float, float]]
    note: str = ""

    def ratio(self, program: str, base: str) -> float:
        return self.times[program] / self.times[base]


def run(name: str, rows: int, seed: int, first: Run | None) -> Run:
    """The programs in turn on one problem; after the first seed without the slow ones."""
    data = draw(name, rows, seed)
    programs = programs_of(data)
    if first is not None and first.times[SKLEARN] > SLOW:
        del programs[SKLEARN]
    times, out = in_turn(programs)
    note = ""
    if first is None:
        note = reason_against_statsmodels(data)
        if not note:
            times[STATSMODELS], out[STATSMODELS] = seconds(lambda: statsmodels_arrays(data))
    exact = out[CONVERGED]
    distances = {key: distance(got, exact) for key, got in out.items() if key != GRAM}
    return Run(times, distances, note)


def reason_against_statsmodels(data: Arrays | Table) -> str:
    """Why statsmodels is not run, or nothing; its time is predicted from a tenth of the rows."""
    if isinstance(data, Table):
        return "statsmodels was not run: it needs a dense matrix with a column for each level."
    if data.X.nbytes > STATSMODELS_BYTES:
        return "statsmodels was not run: X is above a gigabyte, and it makes several copies."
    tenth = data.first(len(data.y) // 10)
    predicted = 10 * seconds(lambda: statsmodels_arrays(tenth))[0]
    if predicted > MINUTE:
        return f"statsmodels was not run: a tenth of the rows predicts {predicted:.0f} s."
    return ""


def section(name: str, rows: int, seeds: Sequence[int]) -> Section:
    """One problem with all seeds; statsmodels with the first seed alone."""
    runs: list[Run] = []
    for seed in seeds:
        runs.append(run(name, rows, seed, runs[0] if runs else None))
        print(f"  {name}, seed {seed}: {runs[-1].ratio(GLUM, FIT):.2f} x glum", flush=True)
    title = PROBLEMS[name].title
    text = table(HEADER, table_rows(runs))
    if runs[0].note:
        text += f"\n\n{runs[0].note}"
    return Section(
        f"{title[0].upper()}{title[1:]}, N = {rows:,}", text, bars(name, runs), ratios(title, runs)
    )


def table_rows(runs: Sequence[Run]) -> Iterable[tuple[str, ...]]:
    """Medians of times with ranges of ratios; the largest distances over the seeds."""
    for program in runs[0].times:
        having = [one for one in runs if program in one.times]
        yield (
            program,
            f"{np.median([one.times[program] for one in having]):.3g}",
            spread([one.ratio(program, GRAM) for one in having]),
            spread([one.ratio(program, FIT) for one in having]),
            *accuracy(program, having),
        )


def accuracy(program: str, runs: Sequence[Run]) -> tuple[str, str]:
    """The largest distances over the seeds; the converged fit is the MLE itself."""
    if program == GRAM:
        return "", ""
    if program == CONVERGED:
        return "the MLE", ""
    away, off = np.array([one.distances[program] for one in runs]).max(axis=0)
    return f"{away:.1g}", "none given" if np.isnan(off) else f"{off:.2%}"


def ratios(title: str, runs: Sequence[Run]) -> list[Ratio]:
    others = (GLUM, SKLEARN, STATSMODELS, GRAM)
    return [
        Ratio(title, other, [one.ratio(other, FIT) for one in runs if other in one.times])
        for other in others
        if other in runs[0].times
    ]


def bars(name: str, runs: Sequence[Run]) -> list[Bar]:
    """What was promised of a problem, as medians over the seeds."""
    title, promised = PROBLEMS[name].title, []
    if name in AGAINST_GLUM:
        measured = float(np.median([one.ratio(GLUM, FIT) for one in runs]))
        must, aim = AGAINST_GLUM[name]
        promised.append(Bar(f"{title}: times as fast as glum", measured, must, aim, at_least=True))
    if name in IN_GRAMS:
        measured = float(np.median([one.ratio(FIT, GRAM) for one in runs]))
        promised.append(Bar(f"{title}: in X'X", measured, *IN_GRAMS[name], unit="X'X"))
    return promised

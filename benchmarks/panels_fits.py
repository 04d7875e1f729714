"""Two-way fixed effects against pyfixest, with the same covariance, in one process.

pyfixest runs at its defaults (alternating projections, compiled from Rust) and with its other
backend (LSMR, preconditioned by the package `within`), which its documentation advises for designs
like the hard ones. In the hard design the default takes minutes: each seed has another covariance.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import masgrad as mg
from fit_report import Bar, Section, spread, table
from panels_problems import FIRMS, FORMULA, WORKERS, panel
from panels_timing import Times, clocked, in_rounds

COVARIANCES: dict[str, tuple[dict[str, Any], Any]] = {
    "iid": ({"cov_type": "nonrobust"}, "iid"),
    "hetero": ({"cov_type": "HC1"}, "hetero"),
    "clustered": ({"clusters": "worker"}, {"CRV1": "worker"}),
}
"""What masgrad and pyfixest are asked for."""

OURS, DEFAULT, OTHER = "masgrad", "pyfixest", "pyfixest, LSMR"
AT_LEAST = 10.0
WARM_UP_ROWS, FEW_ROWS = 200_000, 100_000


@dataclass(frozen=True)
class Compared:
    """One data set, fitted by all programs.

    Args:
        times: the best of each program.
        slopes: the largest distance from pyfixest's, in standard errors.
        errors: the largest relative difference of standard errors.
    """

    times: dict[str, Times]
    slopes: float
    errors: float

    def ratio(self, program: str) -> float:
        """Its time over ours."""
        return self.times[program].over(self.times[OURS])[0]

    def processor_ratio(self, program: str) -> float:
        return self.times[program].over(self.times[OURS])[1]


def programs_of(frame: pd.DataFrame, covariance: str, family: str) -> dict[str, Callable[[], Any]]:
    """The fits by program; importing pyfixest takes seconds."""
    import pyfixest as pf

    ours, theirs = COVARIANCES[covariance]
    fit = pf.feols if family == "gaussian" else pf.fepois
    return {
        OURS: lambda: mg.glm(FORMULA, frame, family=family, **ours),
        DEFAULT: lambda: fit(FORMULA, frame, vcov=theirs),
        OTHER: lambda: fit(FORMULA, frame, vcov=theirs, demeaner=pf.LsmrDemeaner()),
    }


def warm_up(family: str) -> None:
    """First calls import and compile."""
    frame = panel("easy", WARM_UP_ROWS, 0, family)
    for program in programs_of(frame, "clustered", family).values():
        program()


def compared(
    design: str,
    rows: int,
    seed: int,
    covariance: str,
    others: Sequence[str],
    family: str = "gaussian",
) -> Compared:
    """Run the programs in turn."""
    programs = programs_of(panel(design, rows, seed, family), covariance, family)
    took, out = in_rounds({name: programs[name] for name in (OURS, *others)})
    ours, theirs = out[OURS], out[others[0]]
    slopes = np.abs(ours.params.to_numpy() - theirs.coef().to_numpy()) / ours.bse.to_numpy()
    errors = np.abs(ours.bse.to_numpy() / theirs.se().to_numpy() - 1)
    return Compared(took, float(slopes.max()), float(errors.max()))


def plan(seeds: Sequence[int]) -> list[tuple[str, str, str, Sequence[int], Sequence[str]]]:
    """Design, family, covariance, seeds and the other programs of each line of the table."""
    lines: list[tuple[str, str, str, Sequence[int], Sequence[str]]] = []
    for covariance in COVARIANCES:
        both = (DEFAULT, OTHER) if covariance == "clustered" else (DEFAULT,)
        lines.append(("easy", "gaussian", covariance, seeds, both))
    for k, covariance in enumerate(COVARIANCES):
        own = seeds[k % len(seeds)]
        lines.append(("hard", "gaussian", covariance, [own], (DEFAULT, OTHER)))
    lines.append(("chains", "gaussian", "clustered", seeds, (OTHER,)))
    lines.append(("easy", "poisson", "clustered", seeds[:2], (DEFAULT,)))
    lines.append(("hard", "poisson", "clustered", seeds[:1], (OTHER,)))
    return lines


def section(rows: int, seeds: Sequence[int]) -> Section:
    """All designs, families and covariances."""
    warnings.filterwarnings("ignore", module="pyfixest")
    for family in ("gaussian", "poisson"):
        warm_up(family)
    cells, bars = [], []
    for design, family, covariance, own, others in plan(seeds):
        runs = [compared(design, rows, seed, covariance, others, family) for seed in own]
        cells.append(_cells((design, family, covariance), own, runs))
        print("  " + ", ".join(cells[-1]), flush=True)
        if DEFAULT in others and family == "gaussian":
            ratio = float(np.median([run.ratio(DEFAULT) for run in runs]))
            name = f"{design}, {covariance}: pyfixest's time over masgrad's"
            bars.append(Bar(name, ratio, AT_LEAST, at_least=True))
    header = (
        *("design", "family", "errors", "seeds", "masgrad, s", "pyfixest, s", "its LSMR, s"),
        *("pyfixest / masgrad", "in processor time", "LSMR / masgrad", "in processor time"),
        *("slopes apart (s.e.)", "errors apart"),
    )
    text = f"""{table(header, cells)}

{_on_chains(seeds[0])}
Of redundant effects pyfixest counts one for each grouping after the first, and masgrad the
connected components: of chains their iid errors differ by that, and clustered ones do not."""
    title = f"Two-way effects, {rows:,} x 8, {WORKERS:,} workers x {FIRMS:,} firms, data frames"
    return Section(title, text, bars)


def _cells(what: Sequence[str], seeds: Sequence[int], runs: Sequence[Compared]) -> tuple[str, ...]:
    def seconds(name: str) -> str:
        known = [run.times[name].wall for run in runs if name in run.times]
        return f"{np.median(known):.3g}" if known else "-"

    def ratios(name: str) -> tuple[str, str]:
        if name not in runs[0].times:
            return "-", "-"
        both = [(run.ratio(name), run.processor_ratio(name)) for run in runs]
        return spread([one for one, _ in both]), spread([one for _, one in both])

    return (
        *what,
        " ".join(map(str, seeds)),
        *(seconds(name) for name in (OURS, DEFAULT, OTHER)),
        *ratios(DEFAULT),
        *ratios(OTHER),
        f"{max(run.slopes for run in runs):.0e}",
        f"{max(run.errors for run in runs):.0e}",
    )


def _on_chains(seed: int) -> str:
    """How pyfixest's default ends on few rows of chains."""
    frame = panel("chains", FEW_ROWS, seed)
    programs = programs_of(frame, "clustered", "gaussian")
    own = in_rounds({OURS: programs[OURS]})[0][OURS].wall
    try:
        took = clocked(programs[DEFAULT])[0].wall
        said = f"takes {took:.3g} s, {took / own:.3g} x masgrad's time"
    except ValueError as error:
        said = f"ends with the error {str(error)!r}; masgrad takes {own:.2g} s"
    return f"On chains of {FEW_ROWS:,} rows pyfixest's default {said}."

"""The page penalties.md and its bars, from what penalties.py has measured."""

from collections.abc import Iterator
from typing import NamedTuple

from fit_report import table

GAP = 1e-6
"""Largest relative gap of the objective to the smallest that any program found."""

OVER_OPTIMUM = 2.5
"""With intervals, in units of the time of the optimum alone."""

PROGRAMS = ("optimum alone", "`mg.fit`")

WITHIN, WITHIN_OF_SPARSE_LASSO = 3.0, 4.0
"""In units of skglm's time; the second for intervals after the lasso with the largest lam, where
the two Gram matrices that they need take most of it."""

HEAD_OF_FILES = (
    "family", "lam", "seconds", "reads", "peak GB", "of it imports", "off (s.e.)", "gap",
)  # fmt: skip


class Measured(NamedTuple):
    """What the page shows.

    Args:
        lasso, logistic: lam over lam_max -> name -> (clock, processors), gap, coefficients not 0.
        product: seconds of X'X of the lasso.
        files: family, lam, measurement of each fit of the Parquet file.
        longer: family -> measurement of the file four times over.
        size: rows and columns of the file, and its size in GB.
        shape: of the problem with more columns than rows.
        wide: lam over lam_max, name, seconds, gap, coefficients not 0, intervals.
    """

    lasso: dict
    logistic: dict
    product: float
    files: list
    longer: dict
    size: tuple[int, int, float]
    shape: tuple[int, int]
    wide: list


# Bars.


def bars_in_memory(lasso: dict, logistic: dict) -> Iterator[tuple[str, str, str]]:
    """Bars on time, in units of skglm and of the optimum alone, best layout of each."""
    for name, found in (("lasso", lasso), ("sparse logistic", logistic)):
        for share, programs in found.items():
            skglm, where = base(programs)[0], f"{name}, {share:g} lam_max"
            best = {what: _best(programs, what) for what in PROGRAMS}
            for what, (took, gap) in best.items():
                sparse = found is lasso and share == max(found) and what == "`mg.fit`"
                most = WITHIN_OF_SPARSE_LASSO if sparse else WITHIN
                met = took <= most * skglm and gap <= GAP
                bar = f"{where}, {what}: within {most:g} x of skglm, gap <= 1e-6"
                yield bar, f"{took / skglm:.2f} x, gap {max(gap, 0):.0e}", said(met)
            ratio = best["`mg.fit`"][0] / best["optimum alone"][0]
            bar = f"{where}: intervals within {OVER_OPTIMUM:g} x of the optimum alone"
            yield bar, f"{ratio:.2f} x", said(ratio <= OVER_OPTIMUM)


def _best(programs: dict, what: str) -> tuple[float, float]:
    """Seconds and gap, of the faster layout."""
    return min((t[0], gap) for n, (t, gap, _) in programs.items() if n.startswith(what))


def bars_elsewhere(m: Measured) -> Iterator[tuple[str, str, str]]:
    peak = max(one["gigabytes"] for *_, one in m.files)
    yield "Parquet: peak memory under 1 GB", f"{peak:.2f} GB", said(peak < 1)
    most = max(one["gigabytes"] for one in m.longer.values())
    bar = "four times the rows: within 1.25 x the memory"
    yield bar, f"{most / peak:.2f} x", said(most <= 1.25 * peak)
    worst = max(one["gap"] for *_, one in m.files)
    yield "Parquet: relative gap <= 1e-6", f"{worst:.0e}", said(worst <= GAP)
    gap = max(row[3] for row in m.wide if row[1] in ("`mg.fit`", "optimum alone"))
    yield "p > N: relative gap <= 1e-6", f"{gap:.0e}", said(gap <= GAP)
    refused = all(row[5] == "none" for row in m.wide if row[1] == "`mg.fit`")
    yield "p > N: no interval is given", "", said(refused)


def said(met: bool) -> str:
    return "yes" if met else "NO"


# Tables.


def compared(measured: dict) -> str:
    rows = []
    for share, programs in measured.items():
        clock, work = base(programs)
        for name, ((took, cpu), gap, kept) in programs.items():
            times = f"{took:.3f}", f"{took / clock:.2f}", f"{cpu:.3f}", f"{cpu / work:.2f}"
            rows.append((f"{share:g}", name, *times, f"{max(gap, 0.0):.0e}", str(kept)))
    head = (
        "lam / lam_max", "program", "seconds", "x skglm's best", "processor seconds",
        "x skglm's best", "relative gap", "not 0",
    )  # fmt: skip
    return table(head, rows)


def base(programs: dict) -> tuple[float, float]:
    """skglm's best of both layouts."""
    both = [took for name, (took, *_) in programs.items() if name.startswith("skglm")]
    return min(t for t, _ in both), min(t for _, t in both)


# The page.


def page(m: Measured) -> str:
    rows = [*bars_in_memory(m.lasso, m.logistic), *bars_elsewhere(m)]
    bars = table(("bar", "measured", "met"), rows)
    return f"""# Penalised fits, side by side

`make bench-penalties` reruns it; `python benchmarks/penalties.py arrays 7` is for another draw of
the tables in memory. Times are seconds, the best of several rounds in one process, the
programs in turn. The machine had two cores and was shared with other work: hence processor seconds,
which are the steadier, beside those of the clock. The relative gap is (F - F*) / F* with F* the
smallest value that any program found with its tightest tolerance. "Optimum alone" times what
`mg.fit` does up to `penalized_params`: no public call stops there. `mg.fit` adds the step without
the penalty, the sandwich, 95 % intervals and diagnostics, which skglm does not have.

{in_memory(m)}

{in_files(m)}

## Bars

{bars}
"""


def in_memory(m: Measured) -> str:
    return f"""## Lasso, N = 100,000, p = 500, AR(0.5) columns, 20 active, in memory

{compared(m.lasso)}

One `X.T @ X` with all cores takes {m.product:.2f} seconds. The optimum needs one, whatever lam, and
the intervals another one, of weighted rows: they are most of what a fit of this size is; skglm's
time grows as lam falls.

## Sparse logistic, N = 100,000, p = 100, in memory

{compared(m.logistic)}

`mg.fit` also predicts the lighter optimum from which its step starts, reads H and M there, and
proves that responses are not separated."""


def in_files(m: Measured) -> str:
    (rows, columns, size), (N, p), longer = m.size, m.shape, m.longer
    shown = [
        (family, lam, f"{one['seconds']:.1f}", str(one["reads"]), f"{one['gigabytes']:.2f}",
         f"{one['before']:.2f}", f"{one['errors']:.1g}", f"{one['gap']:.0e}")
        for family, lam, one in m.files
    ]  # fmt: skip
    few = [(f"{a:g}", n, f"{t:.3f}", f"{g:.0e}", str(k), s) for a, n, t, g, k, s in m.wide]
    title = f"Parquet, {rows:,} x {columns} doubles ({size:.1f} GB)"
    return f"""## {title}, `mg.glm(..., penalty=mg.L1(lam))`

A process of its own each, intervals included; skglm and scikit-learn would hold the
{rows * columns * 8 / 1e9:.1f} GB in memory. "Off" is the largest distance of `penalized_params`
from skglm's optimum of the same rows in memory, at the same lam, in standard errors.

{table(HEAD_OF_FILES, shown)}

The same file four times over, {4 * rows:,} rows, by CV: {longer["gaussian"]["seconds"]:.1f} seconds
and {longer["gaussian"]["gigabytes"]:.2f} GB (gaussian), {longer["binomial"]["seconds"]:.1f} seconds
and {longer["binomial"]["gigabytes"]:.2f} GB (binomial).

## More columns than rows: permeability_qsar, {N} x {p}

{table(("lam / lam_max", "program", "seconds", "relative gap", "not 0", "intervals"), few)}"""

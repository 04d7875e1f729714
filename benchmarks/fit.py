"""masgrad against other programs, and against what no program can do without.

    python benchmarks/fit.py --page benchmarks/fit.md     everything; the page and fit.png beside it
    python benchmarks/fit.py --only weak --seeds 5        one part, printed
    python benchmarks/fit.py --quick --page /tmp/fit.md   a trial at small sizes

Parts are the six problems (weak, strong, poisson, gamma, linear, categories) and parquet, single,
feols, formula, rows, columns, streams, small. Ratios compare programs measured in turn in one
process; medians are over the seeds. A Parquet file of 1.7 GB is written to a temporary folder.
"""

import argparse
import os
import pathlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version

import fit_files
import fit_growth
import fit_in_memory
import fit_others
import fit_picture
from fit_peers import GRAM
from fit_problems import PROBLEMS
from fit_report import Section, bars_table, wins_and_losses

SEEDS = (11, 12, 13)


@dataclass(frozen=True)
class Sizes:
    """The sizes of all parts."""

    rows: int = 1_000_000
    parquet: int = 10_000_000
    streams: Sequence[int] = (10**6, 10**7, 10**8)
    growing_rows: Sequence[int] = (100_000, 316_000, 1_000_000, 3_160_000, 10_000_000)
    growing_columns: Sequence[int] = (5, 20, 100, 500, 2_000)
    rows_of_growing_columns: int = 20_000


QUICK = Sizes(
    rows=100_000,
    parquet=1_000_000,
    streams=(10**5, 10**6, 10**7),
    growing_rows=(100_000, 316_000, 1_000_000),
    growing_columns=(5, 20, 100, 500),
    rows_of_growing_columns=5_000,
)


def parts(sizes: Sizes, seeds: Sequence[int]) -> dict[str, Callable[[], Section]]:
    """The parts of the benchmark by name, in the order of the page."""
    N, seed = sizes.rows, seeds[0]
    problems = {name: lambda name=name: fit_in_memory.section(name, N, seeds) for name in PROBLEMS}
    return problems | {
        "parquet": lambda: fit_files.section(sizes.parquet, seeds),
        "single": lambda: fit_others.single_section(N, seeds),
        "feols": lambda: fit_others.feols_section(N, seeds),
        "formula": lambda: fit_others.formula_section(N, seed),
        "rows": lambda: fit_growth.rows_section(sizes.growing_rows, seed),
        "columns": lambda: fit_growth.columns_section(
            sizes.rows_of_growing_columns, sizes.growing_columns, seed
        ),
        "streams": lambda: fit_growth.streams_section(sizes.streams, seed),
        "small": lambda: fit_others.small_section(seeds),
    }


def measured(chosen: dict[str, Callable[[], Section]]) -> list[Section]:
    """The sections of all parts, printed as they are finished."""
    sections = []
    for name, part in chosen.items():
        began = time.perf_counter()
        print(name, flush=True)
        sections.append(part())
        print(f"\n{sections[-1].markdown()}\n({time.perf_counter() - began:.0f} s)\n", flush=True)
    return sections


def machine() -> str:
    packages = ("glum", "statsmodels", "scikit-learn", "numpy", "pyarrow")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def page(sections: Sequence[Section], seeds: Sequence[int], picture: str, remark: str) -> str:
    bars = [bar for section in sections for bar in section.bars]
    ratios = [
        ratio
        for section in sections
        for ratio in section.ratios
        if ratio.program not in (GRAM, fit_files.ONE_SCAN)
    ]
    body = "\n".join(section.markdown() for section in sections)
    return f"""# Fitting, side by side

`make bench-fit` reruns it (SEEDS="11 12 13"). Seeds {", ".join(map(str, seeds))}; {remark}
{machine()}. Ratios are medians over the seeds, with their ranges, of programs that ran in
turn in one process. A time is the better of two runs, or the only one if it took over 15 seconds.

![Times of other programs over masgrad's]({picture})

## Bars

{bars_table(bars)}

## Wins and losses

{wins_and_losses(ratios)}

X'X and a scan are no fits: the tables below and the picture have them as units.

## What each program was given

- Arrays in C order, doubles, the intercept as a column. masgrad: `mg.fit` at its defaults, which
  include robust standard errors; `passes=1` reads the rows once, `passes="converge"` gives the MLE
  from which distances are measured.
- glum: `alpha=0`, otherwise its defaults, then `covariance_matrix(robust=True)`, which has the
  factor N / (N - p).
- statsmodels: `GLM` with HC0 and a tolerance of 1e-10, one run with the first seed, where it takes
  under a minute.
- scikit-learn: the estimate alone, without a penalty, at most 1,000 iterations, with the first seed
  alone where it takes over 20 seconds; Poisson's offset as a rate with weights; for categories
  `OneHotEncoder(drop="first")` to a sparse matrix.
- Categories: a pandas frame of two doubles and two categorical columns, whose frequencies follow
  Zipf's law. masgrad: `mg.glm("y ~ x1 + x2 + C(g) + C(h)", frame, family="binomial")`; glum: the
  frame itself, `drop_first=True`. X'X is that of tabmat's matrix, made beforehand.

{body}"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="masgrad against other programs")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--rows", type=int, help="rows of the six problems")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="parts to run", default=[])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--page", type=pathlib.Path, help="where to write the page")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    sizes = QUICK if given.quick else Sizes()
    if given.rows is not None:
        sizes = replace(sizes, rows=given.rows)
    every = parts(sizes, given.seeds)
    unknown = [name for name in given.only if name not in every]
    if unknown:
        raise SystemExit(f"--only {unknown[0]} is not known; there are {', '.join(every)}")
    began = time.perf_counter()
    sections = measured({k: every[k] for k in every if not given.only or k in given.only})
    minutes = (time.perf_counter() - began) / 60
    print(bars_table([bar for section in sections for bar in section.bars]))
    if given.page is not None:
        picture = given.page.with_suffix(".png")
        ratios = [ratio for one in sections if one.pictured for ratio in one.ratios]
        named = ", ".join(map(str, given.seeds))
        fit_picture.draw(ratios, picture, f"medians and ranges over seeds {named}")
        remark = f"{minutes:.0f} minutes."
        if sizes != Sizes():
            remark += " Sizes are reduced: the bars are those of the full size."
        given.page.write_text(page(sections, given.seeds, picture.name, remark))


if __name__ == "__main__":
    main()

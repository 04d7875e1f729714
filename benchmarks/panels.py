"""Panels: fixed effects and clustered errors, against pyfixest, scans of a file, and plain fits.

    python benchmarks/panels.py --seeds 11 12 13 --page benchmarks/panels.md     everything
    python benchmarks/panels.py --only clusters files                            parts, printed
    python benchmarks/panels.py --quick                                          small sizes

Parts are fits, files, clusters, levels. Programs run in turn in one process; a time is the best of
three runs, or the only one if it took over 15 seconds; first calls are not counted. A Parquet file
of 0.8 GB is written to a temporary folder.
"""

import argparse
import os
import pathlib
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

import panels_clusters
import panels_files
import panels_fits
from fit_report import Section, bars_table

SEEDS = (11, 12, 13)
ROWS = {"fits": 2_000_000, "files": 10_000_000, "clusters": 1_000_000, "levels": 5_000_000}
SMALLER = 10
"""Rows over those of a trial."""

SECTIONS: dict[str, Callable[[int, Sequence[int]], Section]] = {
    "fits": panels_fits.section,
    "files": panels_files.section,
    "clusters": panels_clusters.section,
    "levels": panels_clusters.levels_section,
}


def measured(names: Sequence[str], seeds: Sequence[int], smaller: int) -> list[Section]:
    """The sections of these parts, printed as they are finished."""
    sections = []
    for name in names:
        began = time.perf_counter()
        print(name, flush=True)
        sections.append(SECTIONS[name](ROWS[name] // smaller, seeds))
        print(f"\n{sections[-1].markdown()}\n({time.perf_counter() - began:.0f} s)\n", flush=True)
    return sections


def machine() -> str:
    packages = ("pyfixest", "numpy", "scipy", "pandas", "pyarrow")
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def page(sections: Sequence[Section], seeds: Sequence[int], remark: str) -> str:
    bars = [bar for section in sections for bar in section.bars]
    body = "\n".join(section.markdown() for section in sections)
    return f"""# Panels, side by side

`make bench-panels` reruns it (SEEDS="11 12 13"). Seeds {", ".join(map(str, seeds))}; {remark}
{machine()}. Programs ran in turn in one process, and numbers are medians over the seeds, with their
ranges. A time is the best of three runs, or the only one if it took over 15 seconds; first calls,
which import and compile, are not counted. Ratios depend little on the machine, and seconds do.

## Bars

{bars_table(bars)}

## What each program was given

- masgrad: `mg.glm("y ~ x0 + ... + x7 | worker + firm", table)` at its defaults, with
  `cov_type="nonrobust"` (iid), `cov_type="HC1"` (hetero) or `clusters="worker"`.
- pyfixest: `feols` or `fepois` at its defaults with the same covariance; and the same with
  `demeaner=LsmrDemeaner()`, its other backend.
- easy: workers meet firms at random. hard: workers and firms are sorted, and a worker meets the 20
  or so firms of about the same rank. chains: a worker in twenty moves once, to the next firm.

{body}"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="fixed effects and clustered errors")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=list(SECTIONS), default=[])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--remark", default="", help="a sentence for the page")
    parser.add_argument("--page", type=pathlib.Path, help="where to write the page")
    return parser.parse_args()


def main() -> None:
    given, began = arguments(), time.perf_counter()
    names = [name for name in SECTIONS if not given.only or name in given.only]
    sections = measured(names, given.seeds, SMALLER if given.quick else 1)
    print(bars_table([bar for section in sections for bar in section.bars]))
    if given.page is not None:
        minutes = (time.perf_counter() - began) / 60
        remark = " ".join(filter(None, (f"{minutes:.0f} minutes.", given.remark)))
        if given.quick:
            remark += " Sizes are reduced: the bars are those of the full size."
        given.page.write_text(page(sections, given.seeds, remark))


if __name__ == "__main__":
    main()

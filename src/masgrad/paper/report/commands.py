"""What `masgrad paper` prints and writes for the paper's experiments."""

import time
from pathlib import Path

from rich.table import Table

from masgrad.paper.report.console import figure_path, progress_bar, show
from masgrad.paper.report.page import page
from masgrad.paper.report.record import plain, record, write_json
from masgrad.paper.report.registry import ENTRIES
from masgrad.paper.report.spread import spread
from masgrad.paper.report.tables import claim_table, number_table

STYLES = {"reproduced": "green", "partly": "yellow", "not": "red", "": ""}


def report(name: str, out: Path, quick: bool, seed: int, seeds: int = 0) -> dict:
    """Run an experiment; write NAME.png and NAME.json; print its claims and numbers."""
    path, entry = figure_path(out, name), ENTRIES[name]
    with progress_bar(name, entry.length(quick) + 1 + seeds) as advance:
        started = time.perf_counter()
        experiment = entry.run(seed, quick, advance)
        seconds = time.perf_counter() - started
        experiment.draw(path)
        content = record(experiment, seed, quick, seconds)
        write_json(content, path.with_suffix(".json"))
        advance("figure")
        if seeds:
            content["spread"] = plain(spread(entry, seed, seeds, advance))
            write_json(content, path.with_suffix(".json"))
    show(_claims(experiment.title, content), _numbers(content, entry.headline))
    show(f"{path}, {path.with_suffix('.json')}")
    return content


def report_all(out: Path, quick: bool, seed: int, seeds: int = 0) -> None:
    """Every experiment, and one page of them; Ctrl-C keeps those that are done."""
    records: dict[str, dict] = {}
    try:
        for name in ENTRIES:
            records[name] = report(name, out, quick, seed, seeds)
    finally:
        if records:
            headlines = {name: ENTRIES[name].headline for name in records}
            missing = {name: "stopped before it" for name in ENTRIES if name not in records}
            text = page(records, headlines, missing, out)
            (out / "index.html").write_text(text, encoding="utf-8")
            for name, reason in missing.items():
                show(f"{name}: skipped; {reason}")
            show(f"{out / 'index.html'}")


def _claims(title: str, content: dict) -> Table:
    header, rows = claim_table(content)
    table = Table(title=title, title_justify="left")
    for column, ratio in zip(header, (4, 5, None, 2), strict=False):
        table.add_column(column, ratio=ratio, no_wrap=ratio is None)
    for row in rows:
        table.add_row(*row, style=STYLES[row[2]])
    return table


def _numbers(content: dict, headline: tuple[str, ...]) -> Table:
    header, rows = number_table(content, headline)
    table = Table()
    for column in header:
        table.add_column(column, justify="left" if column == "number" else "right")
    for row in rows:
        table.add_row(*row)
    return table

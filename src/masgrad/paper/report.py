"""What `masgrad paper` prints and writes for the paper's experiments."""

import time
from pathlib import Path

from rich.table import Table

from masgrad.paper.console import figure_path, progress_bar, show
from masgrad.paper.experiments import ENTRIES, LATER
from masgrad.paper.page import between, number, over_seeds, page
from masgrad.paper.record import record, write_json
from masgrad.paper.spread import flatten, spread

STYLES = {"reproduced": "green", "partly": "yellow", "not": "red", None: ""}


def report(name: str, out: Path, quick: bool, seed: int, seeds: int = 0) -> dict:
    """Run an experiment; write NAME.png and NAME.json; print its claims and numbers."""
    path, entry = figure_path(out, name), ENTRIES[name]
    with progress_bar(name, entry.length(quick) + 1 + seeds) as advance:
        started = time.perf_counter()
        experiment = entry.run(seed, quick, advance)
        seconds = time.perf_counter() - started
        experiment.draw(path)
        advance("figure")
        others = spread(entry, seed, seeds, advance) if seeds else None
    content = record(experiment, seed, quick, seconds, others)
    write_json(content, path.with_suffix(".json"))
    show(_claims(experiment.title, content), _numbers(content, entry.headline))
    show(f"{path}, {path.with_suffix('.json')}")
    return content


def report_all(out: Path, quick: bool, seed: int, seeds: int = 0) -> None:
    """Every experiment that is there, and one page of them; Ctrl-C keeps those that are done."""
    records = {}
    try:
        for name in ENTRIES:
            records[name] = report(name, out, quick, seed, seeds)
    finally:
        if records:
            headlines = {name: ENTRIES[name].headline for name in records}
            (out / "index.html").write_text(page(records, headlines, LATER, out))
            for name, reason in LATER.items():
                show(f"{name}: skipped; {reason}")
            show(f"{out / 'index.html'}")


def _claims(title: str, content: dict) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("claim of the paper", ratio=4)
    table.add_column("measured", ratio=5)
    table.add_column("verdict", no_wrap=True)
    others = content.get("spread")
    if others:
        table.add_column(f"over {len(others['seeds'])} other seeds", ratio=2)
    for claim in content["claims"]:
        verdict = claim["verdict"]
        cells = [claim["claim"], claim["measured"], verdict or ""]
        if others:
            cells.append(over_seeds(others["verdicts"].get(claim["claim"])))
        table.add_row(*cells, style=STYLES[verdict])
    return table


def _numbers(content: dict, headline: tuple[str, ...]) -> Table:
    numbers, others = flatten(content), content.get("spread")
    table = Table()
    table.add_column("number")
    table.add_column("value", justify="right")
    if others:
        table.add_column("other seeds: median (least to most)", justify="right")
    for key in headline:
        cells = [key, number(numbers[key])]
        if others:
            cells.append(between(others["numbers"][key]))
        table.add_row(*cells)
    return table

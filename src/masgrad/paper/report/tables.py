"""The two tables of an experiment as text: its claims, and its headline numbers.

Each is a header and rows of cells, from the content of NAME.json; a terminal and a page show them.
"""

from masgrad.paper.experiment import VERDICTS
from masgrad.paper.report.spread import flatten

Cells = tuple[list[str], list[list[str]]]


def claim_table(content: dict) -> Cells:
    """Claim, measured, verdict; and the verdicts over other seeds where there are any."""
    header = ["claim of the paper", "measured", "verdict"]
    rows = [[c["claim"], c["measured"], c["verdict"] or ""] for c in content["claims"]]
    others = content.get("spread")
    if not others or not others["seeds"]:
        return header, rows
    counts = [others["verdicts"].get(row[0]) for row in rows]
    header = [*header, f"other seeds ({len(others['seeds'])}, quick size)"]
    return header, [[*row, _over_seeds(c)] for row, c in zip(rows, counts, strict=True)]


def number_table(content: dict, headline: tuple[str, ...]) -> Cells:
    """Headline numbers; and their range over other seeds where there are any."""
    numbers, header = flatten(content), ["number", "value"]
    rows = [[key, _number(numbers[key])] for key in headline]
    others = content.get("spread")
    if not others or not others["seeds"]:
        return header, rows
    header = [*header, "other seeds, quick size: median (least to most)"]
    return header, [[*row, _between(others["numbers"][row[0]])] for row in rows]


def _number(value: float | None) -> str:
    """Four digits; a dash for null."""
    return "-" if value is None else f"{value:.4g}"


def _between(values: dict) -> str:
    """Median and range over seeds, and how many had none."""
    missing = sum(v is None for v in values["values"])
    if missing == len(values["values"]):
        return f"none in {missing}"
    text = f"{_number(values['median'])} ({_number(values['min'])} to {_number(values['max'])})"
    return f"{text}, none in {missing}" if missing else text


def _over_seeds(counts: dict[str, int] | None) -> str:
    """Verdicts over seeds, as 18 reproduced, 2 partly."""
    if counts is None:
        return ""
    return ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])

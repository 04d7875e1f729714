"""index.html: figures and tables of all experiments in one file that needs no other."""

import base64
import json
from html import escape
from pathlib import Path

from masgrad.paper.report.tables import claim_table, number_table

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
img { width: 100%; min-width: 44rem; height: auto; background: white; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.92rem; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.6rem; }
tr { border-bottom: 1px solid #8886; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; }
.reproduced::before { content: "\\2713  "; color: #009E73; }
.partly::before { content: "\\25D0  "; color: #E69F00; }
.not::before { content: "\\2717  "; color: #D55E00; }
pre { overflow-x: auto; font-size: 0.8rem; }
"""

INTRODUCTION = (
    "Bands hold 95 % of the chains at each step: the spread of the iterate, not a confidence "
    "interval. A filled band is a process that draws rows, dashed lines its Langevin diffusion; "
    "lines inside a band of errors are means. A claim is reproduced, partly, or not, by a rule "
    "that docs/experiments.md of the project states, for this seed; other seeds, where they "
    "were run, say how much of that is chance. Claims without a verdict are not the paper's, or "
    "not judged."
)


def page(
    records: dict[str, dict],
    headlines: dict[str, tuple[str, ...]],
    skipped: dict[str, str],
    out: Path,
) -> str:
    """The page for these experiments, whose figures are in `out`; and why others are not there."""
    first = next(iter(records.values()))
    size = "quick sizes" if first["quick"] else "full sizes"
    parts = [
        "<h1>The paper's experiments, rerun</h1>",
        "<p>Liang &amp; Su, <i>Statistical Inference for the Population Landscape via "
        f"Moment-Adjusted Stochastic Gradients</i>. Seed {first['seed']}, {size}.</p>",
        f"<p>{INTRODUCTION}</p>",
        *(_section(name, r, headlines[name], out) for name, r in records.items()),
        *(f"<h2>{escape(n.title())}</h2><p>Skipped: {escape(w)}.</p>" for n, w in skipped.items()),
        f"<p>{escape(', '.join(f'{k} {v}' for k, v in first['versions'].items()))}</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>masgrad: the paper's experiments</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _section(name: str, record: dict, headline: tuple[str, ...], out: Path) -> str:
    image = base64.b64encode((out / f"{name}.png").read_bytes()).decode()
    settings = escape(json.dumps(record["settings"], indent=1))
    words = escape(f"{record['title']}: all methods, step by step")
    return (
        f"<h2>{escape(name.title())}</h2><p>{escape(record['about'])}</p>"
        f'<div class="wide"><img alt="{words}" src="data:image/png;base64,{image}"></div>'
        f"{_claims(record)}{_numbers(record, headline)}"
        f"<details><summary>Settings</summary><pre>{settings}</pre></details>"
    )


def _claims(record: dict) -> str:
    header, rows = claim_table(record)

    def row(cells: list[str]) -> str:
        claim, measured, verdict, *others = (f"{escape(cell)}</td>" for cell in cells)
        kind = f'<td class="verdict {cells[2]}">'
        return f"<td>{claim}<td>{measured}{kind}{verdict}" + "".join(f"<td>{o}" for o in others)

    return _table(header, [row(cells) for cells in rows])


def _numbers(record: dict, headline: tuple[str, ...]) -> str:
    header, rows = number_table(record, headline)

    def row(cells: list[str]) -> str:
        name, *values = (f"{escape(cell)}</td>" for cell in cells)
        return f"<td>{name}" + "".join(f'<td class="number">{v}' for v in values)

    return _table(header, [row(cells) for cells in rows])


def _table(header: list[str], rows: list[str]) -> str:
    head = "".join(f'<th scope="col">{escape(h.capitalize())}</th>' for h in header)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'

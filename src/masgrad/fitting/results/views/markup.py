"""A result as HTML, for notebooks and pages, and as LaTeX, for papers."""

from html import escape
from itertools import zip_longest

from masgrad.errors import printable
from masgrad.fitting.results.inference import Tested
from masgrad.fitting.results.views.summary import FIT, MODEL, cells, headings, known, remarks

STYLE = """
.masgrad { color: inherit; font: 14px/1.45 system-ui, sans-serif; max-width: 54rem; }
.masgrad h4 { margin: 0 0 .4em; font-size: 1.1em; font-weight: 600; }
.masgrad dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr));
  gap: 0 2.5rem; margin: 0 0 .7em; }
.masgrad dl div { display: flex; justify-content: space-between; gap: 1em; }
.masgrad dt { opacity: .75; font-weight: 400; }
.masgrad dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
.masgrad .wide { overflow-x: auto; }
.masgrad table { border-collapse: collapse; width: 100%; margin: 0; color: inherit;
  font-size: 1em; font-variant-numeric: tabular-nums;
  border: solid currentColor; border-width: 1.5px 0; }
.masgrad tr { background: none; }
.masgrad th, .masgrad td { padding: .2em .6em; text-align: right; white-space: nowrap;
  border: 0; color: inherit; }
.masgrad th:first-child { text-align: left; padding-left: .2em; font-weight: 500;
  white-space: normal; overflow-wrap: anywhere; min-width: 8em; }
.masgrad thead tr { border-bottom: 1px solid currentColor; }
@media (max-width: 30rem) { .masgrad th, .masgrad td { padding: .2em .35em; } }
.masgrad tbody tr:hover { background: rgba(128, 128, 128, .18); }
.masgrad p { margin: .5em 0 0; opacity: .85; font-size: .92em; }
"""
"""Colours are those of the page, so that the table is legible on light and dark ones."""

SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#",
    "_": r"\_", "%": r"\%", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "]": "{]}",
    "*": "{*}",
}  # fmt: skip
"""Brackets too: after a line break LaTeX would take "[" or "*" for an option of it."""


def html(result: Tested, alpha: float) -> str:
    """A self-contained fragment; wide tables scroll."""
    facts = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>"
        for label, value in [*known(result, MODEL), *known(result, FIT)]
    )
    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in ["", *headings(result, alpha)])
    rows = "\n".join(
        f'<tr><th scope="row">{_breakable(name)}</th>'
        + "".join(f"<td>{_minus(cell)}</td>" for cell in row)
        + "</tr>"
        for name, row in cells(result, alpha)
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in remarks(result))
    return (
        f'<div class="masgrad"><style>{STYLE}</style>\n<h4>{escape(printable(result.kind))}</h4>\n'
        f'<dl>{facts}</dl>\n<div class="wide" tabindex="0"><table>\n<thead><tr>{top}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div>{notes}</div>\n"
    )


def page(title: str, body: str) -> str:
    """A fragment as a page of its own, light or dark as the reader has it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(printable(title))}</title></head>\n"
        f'<body style="margin: 1.2rem">\n{body}</body></html>\n'
    )


def latex(result: Tested, alpha: float) -> str:
    """A table for the package booktabs."""
    top = [_tex(h) for h in ["", *headings(result, alpha)]]
    rows = [[_tex(name), *(_signed(cell) for cell in row)] for name, row in cells(result, alpha)]
    pairs = zip_longest(known(result, MODEL), known(result, FIT), fillvalue=("", ""))
    facts = [
        rf"\multicolumn{{3}}{{l}}{{{_fact(*a)}}} & \multicolumn{{4}}{{l}}{{{_fact(*b)}}} \\"
        for a, b in pairs
    ]
    notes = [rf"\par\smallskip{{\footnotesize {_tex(note)}}}" for note in remarks(result)]
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_tex(printable(result.kind))}}}",
            r"\begin{tabular}{lrrrrrr}",
            r"\toprule",
            *facts,
            r"\midrule",
            " & ".join(top) + r" \\",
            r"\midrule",
            *(" & ".join(row) + r" \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def _fact(label: str, value: str) -> str:
    return f"{_tex(label)}: {_tex(value)}" if label else ""


def _tex(text: str) -> str:
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def _signed(cell: str) -> str:
    return cell.replace("-", "$-$")


def _minus(cell: str) -> str:
    return escape(cell).replace("-", "\N{MINUS SIGN}")


def _breakable(name: str) -> str:
    """A name that a narrow window may break after an underscore."""
    return escape(name).replace("_", "_<wbr>")

"""What every view of a result shows: facts, a row for each coefficient, rounded alike.

Text, HTML and LaTeX differ in their marks only.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from masgrad.fitting.result import Result

Fact = tuple[str, Callable[["Result"], str | None]]

MODEL: tuple[Fact, ...] = (
    ("Dep. variable", lambda r: None if r.terms is None else r.terms.response),
    ("No. rows", lambda r: f"{r.nobs:,}"),
    ("Parameters", lambda r: f"{len(r.theta)}"),
    ("Covariance", lambda r: r.cov_type),
    ("Intervals for", lambda r: r.target),
    ("Log-likelihood", lambda r: _decimal(r.log_likelihood)),
    ("AIC", lambda r: _decimal(r.aic)),
)
"""About the model, on the left; a fact whose getter returns None is left out."""

FIT: tuple[Fact, ...] = (
    ("Reads of the data", lambda r: f"{r.how.reads}"),
    ("Rows per second", lambda r: f"{r.how.rows_per_second:.3g}"),
    ("Last correction (s.e.)", lambda r: f"{r.how.correction:.2g}"),
    ("Predicted remainder (s.e.)", lambda r: f"{r.how.remainder:.1g}"),
    ("Condition number of H", lambda r: f"{r.how.condition:.3g}"),
    ("Deviance", lambda r: _decimal(r.deviance)),
    ("Dispersion", lambda r: None if r.dispersion is None else f"{r.dispersion:.4g}"),
)
"""About how the estimate was reached, on the right."""


def _decimal(value: float | None) -> str | None:
    return None if value is None else f"{value:,.1f}" if abs(value) < 1e9 else f"{value:.6g}"


def known(result: "Result", facts: tuple[Fact, ...]) -> list[tuple[str, str]]:
    """Labels and values of the facts that this result has."""
    found = ((label, getter(result)) for label, getter in facts)
    return [(label, value) for label, value in found if value is not None]


def remarks(result: "Result") -> list[str]:
    """The notes, and the diagnostics that want a look."""
    return [*result.notes, *(f"{d.name}: {d.sentence}" for d in result.diagnostics.troubles)]


def headings(result: "Result", alpha: float) -> list[str]:
    """Over the numbers: coef, std err, z, P>|z|, and the ends of the interval."""
    z = "z" if result.df is None else "t"
    ends = f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"
    return ["coef", "std err", z, f"P>|{z}|", *ends]


def cells(result: "Result", alpha: float) -> list[tuple[str, list[str]]]:
    """A name and six rounded numbers for each parameter."""
    rows = result.to_frame(alpha).to_numpy()
    return [
        (name, [number(t), number(s), f"{z:.3f}", f"{p:.3f}", number(low), number(high)])
        for name, (t, s, z, p, low, high) in zip(result.labels, rows, strict=True)
    ]


def number(x: float) -> str:
    """Four decimals, or four digits where those would not do."""
    if x == 0 or not np.isfinite(x) or 1e-3 <= abs(x) < 1e5:
        return f"{x:.4f}"
    return f"{x:.3e}"

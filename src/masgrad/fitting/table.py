"""A result as text, in the layout that users of statsmodels know."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from masgrad.fitting.result import Result

WIDTH = 80


def summary(result: "Result", alpha: float = 0.05) -> str:
    """The header, a line for each parameter, and the notes."""
    rule = "=" * WIDTH
    lines = [f"masgrad: {result.kind}".center(WIDTH).rstrip(), rule, *_header(result), rule]
    lines += [_heading(result, alpha), "-" * WIDTH, *_rows(result, alpha), rule]
    return "\n".join([*lines, *result.notes])


def _header(r: "Result") -> list[str]:
    how = r.how
    left = [
        ("No. rows:", f"{r.nobs:,}"),
        ("Parameters:", f"{len(r.theta)}"),
        ("Covariance:", r.cov_type),
        ("Intervals for:", r.target),
    ]
    if r.terms is not None:
        left = [("Dep. variable:", r.terms.response or ""), *left]
    right = [
        ("Reads of the data:", f"{how.reads}"),
        ("Rows per second:", f"{how.rows_per_second:.3g}"),
        ("Last correction (s.e.):", f"{how.correction:.2g}"),
        ("Predicted remainder (s.e.):", f"{how.remainder:.1g}"),
        ("Condition number of H:", f"{how.condition:.3g}"),
    ]
    left += [("", "")] * (len(right) - len(left))
    half = WIDTH // 2
    return [
        f"{a:<16}{b:>{half - 18}}  {c:<{half - 12}}{d:>12}"
        for (a, b), (c, d) in zip(left, right, strict=True)
    ]


def _heading(r: "Result", alpha: float) -> str:
    z, low, high = "t" if r.df else "z", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]"
    return f"{'':<18}{'coef':>11}{'std err':>11}{z:>10}{'P>|' + z + '|':>8}{low:>11}{high:>11}"


def _rows(r: "Result", alpha: float) -> list[str]:
    names = r.names or tuple(f"theta[{j}]" for j in range(len(r.theta)))
    ends = np.asarray(r.conf_int(alpha))
    columns = zip(names, r.theta, r._se, r._z(), np.asarray(r.pvalues), ends, strict=True)
    return [
        f"{_short(name):<18}{_number(t)}{_number(s)}{z:>10.3f}{p:>8.3f}{_number(a)}{_number(b)}"
        for name, t, s, z, p, (a, b) in columns
    ]


def _short(name: str) -> str:
    return name if len(name) <= 18 else name[:15] + "..."


def _number(x: float) -> str:
    """Four decimals, or four digits where those would not do."""
    if x == 0 or not np.isfinite(x) or 1e-3 <= abs(x) < 1e5:
        return f"{x:>11.4f}"
    return f"{x:>11.3e}"

"""A landscape as text: a line for each stationary point, and the strongly Morse condition."""

from typing import TYPE_CHECKING

import numpy as np

from masgrad.errors import printable

if TYPE_CHECKING:  # for annotations alone
    from masgrad.modes.records import Landscape, StationaryPoint

SHOWN_PARAMETERS, TINY = 6, 1e-100
HEADER = "     kind             risk  share  +  -  0     margin  halves        theta"
"""Above the columns of a line."""


def line_of(point: "StationaryPoint") -> str:
    """One point on a line."""
    signs = " ".join(f"{n:<2}" for n in point.signature)
    margin = f"{point.margin:.1f}" if np.isfinite(point.margin) else "inf"
    return (
        f"{point.kind:<8} {point.risk:>12.6g} {point.share:>6.0%}  {signs:<10} {margin:>7}  "
        f"{_halves(point):<13} {_theta(point)}"
    ).rstrip()


def table(landscape: "Landscape") -> str:
    """All points, lowest first, and what was found beside them."""
    lines = [
        f"Landscape of {printable(landscape.model)}: {landscape.rows:,} rows, "
        f"{landscape.starts} starts, {len(landscape)} stationary points",
        "",
        HEADER,
        *(f"{k:>3}  {line_of(point)}" for k, point in enumerate(landscape)),
        "",
        *_remarks(landscape),
    ]
    return "\n".join(lines)


def _halves(point: "StationaryPoint") -> str:
    """How both halves of the rows agree: distances in standard errors."""
    if not point.halves:
        return "-"
    said = []
    for half in point.halves:
        if half is None:
            said.append("none")
        elif half.signature != point.signature:
            said.append(half.signature.kind)
        else:
            said.append(f"{half.distance:.1f}")
    return ", ".join(said)


def _theta(point: "StationaryPoint") -> str:
    shown = " ".join(f"{t if abs(t) > TINY else 0:.4g}" for t in point.theta[:SHOWN_PARAMETERS])
    return f"[{shown}{' ...' if len(point.theta) > SHOWN_PARAMETERS else ''}]"


def _remarks(landscape: "Landscape") -> list[str]:
    said = [_morse(landscape)]
    if landscape.lost:
        said.append(f"{landscape.lost} of {landscape.starts} starts ended at no stationary point.")
    if landscape.lost == landscape.starts:
        said.append(
            "None did: the loss may fall for ever, or have kinks, at which its gradient is not 0."
        )
    if landscape.unmatched:
        said.append(f"{landscape.unmatched} minima of a half are none of all rows.")
    if landscape.near_misses:
        said.append(
            f"At {landscape.near_misses} other places the gradient is within its sampling error."
        )
    if landscape.nobs is not None and landscape.nobs > landscape.rows:
        said.append(
            f"Points are those of {landscape.rows:,} pilot rows; results are about all "
            f"{landscape.nobs:,}."
        )
    said += [f"{k}: {point.note}" for k, point in enumerate(landscape) if point.note]
    if landscape.interrupted:
        said.append("Interrupted: what was found until then.")
    return said


def _morse(landscape: "Landscape") -> str:
    if landscape.is_morse:
        return (
            "Strongly Morse as far as was seen: both halves of the rows have every point with its "
            "signature."
        )
    if not any(point.halves for point in landscape):
        return "Strongly Morse: not examined, since the halves of the rows were not searched."
    weak = [str(k) for k, point in enumerate(landscape) if not point.is_morse]
    return f"Strongly Morse: doubtful{' at ' + ', '.join(weak) if weak else ''}."

"""What a part of the benchmark reports: text, bars, and ratios for the picture."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Bar:
    """A promise: the measured value is at least, or at most, `must`, better still `aim`."""

    name: str
    measured: float
    must: float
    aim: float | None = None
    unit: str = "x"
    at_least: bool = False

    def reaches(self, bar: float) -> bool:
        return self.measured >= bar if self.at_least else self.measured <= bar

    @property
    def verdict(self) -> str:
        if not self.reaches(self.must):
            return "NO"
        return "yes" if self.aim is None or not self.reaches(self.aim) else "yes, with the aim"

    def cells(self) -> tuple[str, ...]:
        relation = ">=" if self.at_least else "<="
        aim = "" if self.aim is None else f"{relation} {self.aim:g}"
        measured = f"{self.measured:.3g} {self.unit}"
        return self.name, measured, f"{relation} {self.must:g}", aim, self.verdict


@dataclass(frozen=True)
class Ratio:
    """Times of a program over those of masgrad on the same data, one for each seed."""

    problem: str
    program: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        return float(np.median(self.values))


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    bars: Sequence[Bar] = field(default_factory=tuple)
    ratios: Sequence[Ratio] = field(default_factory=tuple)
    pictured: bool = True

    def markdown(self) -> str:
        return f"## {self.title}\n\n{self.text}\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    header = list(header)
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def spread(values: Sequence[float]) -> str:
    """The median, with the range if there are several values."""
    middle = f"{np.median(values):.3g}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g} to {max(values):.3g})"


def bars_table(bars: Iterable[Bar]) -> str:
    header = ("bar", "measured", "must", "aim", "met")
    return table(header, (bar.cells() for bar in bars))


def wins_and_losses(ratios: Sequence[Ratio]) -> str:
    """Every comparison with another program, the losses first."""
    ordered = sorted(ratios, key=lambda ratio: ratio.median)
    rows = (
        (
            ratio.problem,
            ratio.program,
            spread(ratio.values),
            "faster" if ratio.median >= 1 else "SLOWER",
        )
        for ratio in ordered
    )
    return table(("problem", "program", "its time over masgrad's", "masgrad is"), rows)

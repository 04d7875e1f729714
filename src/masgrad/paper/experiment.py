"""What an experiment of the paper leaves: numbers, claims with verdicts, and a figure."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Verdict = Literal["reproduced", "partly", "not"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "partly", "not")
Report = Callable[[str], None]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what was measured, and whether that agrees.

    Args:
        claim: in the paper's sense, shortened.
        measured: the numbers.
        verdict: by a rule that `docs/experiments.md` states; None for what the paper does not say.
    """

    claim: str
    measured: str
    verdict: Verdict | None


@dataclass(frozen=True)
class Experiment:
    """One experiment that has been run.

    Args:
        name: of the files it writes.
        title: for readers.
        about: what was run and what its headline numbers mean, in a few sentences.
        settings: sizes, steps, starts: what was chosen before anything was measured.
        numbers: everything measured.
        claims: the paper's, judged by the numbers.
        draw: writes the figure to a path.
    """

    name: str
    title: str
    about: str
    settings: dict
    numbers: dict
    claims: list[Claim]
    draw: Callable[[Path], None]


def judge(reproduced: bool, partly: bool) -> Verdict:
    """The first that holds."""
    return "reproduced" if reproduced else "partly" if partly else "not"

"""A path of penalised optima from the largest lam down, and the choice of one of them.

    cv    mean loss on the rows left out, over 5 folds; the lam of the smallest
    bic   -2 log-likelihood + df log N        aic   ... + 2 df

Each optimum starts from the one before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masgrad.errors import InputError, InterruptedWarning, say
from masgrad.fitting.lens import Lens
from masgrad.fitting.parts import Part, Split
from masgrad.models.canonical import Gaussian
from masgrad.models.family import Family
from masgrad.penalties.penalty import Scaled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT, RATIO = 60, 1e-3
"""Points of a path, and its end as a share of its beginning."""

ROUNDING = 1e-9
"""By which a path begins above the largest lam, so that everything is 0 there exactly."""

FOLDS = 5
PATIENCE = 10
"""Points after which a criterion that only rises ends a path."""

EVERYTHING = 1e60
"""A lam at which only what is not penalised is left."""


@dataclass(frozen=True)
class PenaltyPath:
    """Penalised optima from the largest lam down, and which of them was chosen.

    Args:
        lams: (m,), falling.
        coefs: (m, p), the penalised estimates.
        risk: (m,), mean loss at them.
        df: (m,), degrees of freedom: coefficients that are not 0, constants included.
        criterion: "cv", "bic", "aic", or "" where none was asked for.
        values: (m,), the criterion: mean loss on the rows left out, or the information criterion.
        errors: (m,), for "cv" the standard error of that over folds, else 0.
        names: of the coefficients.
        local: whether coefs and risk are those of local quadratic models of the loss, which hold
            near the lam that was chosen: with a criterion, and more rows than are kept.
        stopped: whether Ctrl-C cut the path short.
    """

    lams: np.ndarray
    coefs: np.ndarray
    risk: np.ndarray
    df: np.ndarray
    criterion: str
    values: np.ndarray
    errors: np.ndarray
    names: tuple[str, ...] = ()
    local: bool = False
    stopped: bool = False

    @property
    def chosen(self) -> int:
        """The place of the smallest value of the criterion; the last, where there is none."""
        return int(np.argmin(self.values)) if self.criterion else len(self.lams) - 1

    @property
    def lam(self) -> float:
        """The lam that was chosen."""
        return float(self.lams[self.chosen])

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Coefficients and the criterion against lam; `path` saves it: .png, .pdf, .svg."""
        from masgrad.fitting.path_picture import plot_path

        return plot_path(self, path)

    def __repr__(self) -> str:
        said = f"{self.criterion} chose {self.lam:.4g}" if self.criterion else "no choice made"
        return f"PenaltyPath({len(self.lams)} lams from {self.lams[0]:.4g} down; {said})"


def walk(
    lens: Lens,
    split: Split,
    criterion: str = "",
    family: Family | None = None,
    end: float | None = None,
    count: int = COUNT,
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[PenaltyPath, np.ndarray]:
    """The path and, for each of its points, psi of all rows, (m, p).

    It ends at `end`; without one at RATIO of its beginning, or where the criterion has risen for
    PATIENCE points.
    """
    psi, top = beginning_of(lens, split.whole)
    top = top if split.top is None else min(top, split.top)
    lams, found, stopped = _lams(top, end, count), [], False
    starts = [psi] * (1 + len(split.folds))
    try:
        for lam in lams:
            found.append(_point(lens.with_lam(lam), split, criterion, family, starts))
            tell(len(found))
            if criterion and _ends(criterion, family, split, [row[3] for row in found], found[-1]):
                break
    except KeyboardInterrupt:
        if not found:
            raise
        stopped = True
        say(InterruptedWarning, f"the path was stopped after {len(found)} of {count} points")
    psis, risks, dfs, values, errors = (np.array(column) for column in zip(*found, strict=True))
    coefs = np.array([lens.theta(psi) for psi in psis])
    path = PenaltyPath(
        lams[: len(found)], coefs, risks, dfs, criterion, values, errors,
        local=split.top is not None, stopped=stopped,
    )  # fmt: skip
    return path, psis


def _lams(top: float, end: float | None, count: int) -> np.ndarray:
    """From the top down to the end, or to RATIO of it; the end alone, where that is above."""
    if end is not None and (end >= top or top == 0):
        return np.array([end])
    if top == 0:
        return np.zeros(1)
    return np.geomspace(top, top * RATIO if end is None else end, count)


def _ends(
    criterion: str, family: Family | None, split: Split, values: list[float], last: tuple
) -> bool:
    """Whether a criterion has risen for long, or has as many coefficients as rows to feed on."""
    if not np.isfinite(values[-1]):
        raise InputError(f"{criterion} is {values[-1]} on the path; give lam as a number")
    full = criterion != "cv" and isinstance(family, Gaussian) and last[2] > split.whole.count / 2
    return full or len(values) - 1 - int(np.argmin(values)) >= PATIENCE


def _point(
    lens: Lens, split: Split, criterion: str, family: Family | None, starts: list[np.ndarray]
) -> tuple[np.ndarray, float, int, float, float]:
    """One lam: psi, risk and df of all rows, the criterion and its error; starts move along."""
    starts[0], risk = split.whole.optimum(lens, starts[0])
    out = []
    for f, (fitted, left) in enumerate(split.folds, 1):
        starts[f], _ = fitted.optimum(lens, starts[f])
        out.append(left.risk(lens, starts[f]))
    df = freedom(lens, starts[0])
    return (starts[0], risk, df, *judge(criterion, family, split, risk, df, out))


def beginning_of(lens: Lens, part: Part) -> tuple[np.ndarray, float]:
    """The optimum of what is not penalised, and the lam down to which it stays optimal."""
    assert isinstance(lens.penalty, Scaled)
    psi, _ = part.optimum(lens.with_lam(EVERYTHING), part.start(lens))
    top = lens.penalty.largest(part.gradient(lens, psi)) * (1 + ROUNDING)
    if not np.isfinite(top):
        raise InputError(
            f"{lens.penalty!r} leaves no coefficient at 0, however large lam is, so that its path "
            "has no beginning; give lam as a number"
        )
    return psi, top


def freedom(lens: Lens, psi: np.ndarray) -> int:
    assert isinstance(lens.penalty, Scaled)
    return lens.penalty.freedom(psi)


def judge(
    criterion: str,
    family: Family | None,
    split: Split,
    risk: float,
    df: int,
    out: Sequence[float],
) -> tuple[float, float]:
    """A criterion's value at one point of a path, and its standard error."""
    if criterion == "cv":
        weight = np.array([left.count for _, left in split.folds])
        mean = float(np.average(out, weights=weight))
        return mean, float(np.std(out, ddof=1) / np.sqrt(len(out)))
    if criterion in ("bic", "aic"):
        N = split.whole.count
        price = np.log(N) if criterion == "bic" else 2.0
        fit = N * np.log(2 * risk) if isinstance(family, Gaussian) else 2 * N * risk
        return float(fit + price * df), 0.0
    return 0.0, 0.0


def check_criterion(criterion: str, family: Family | None) -> None:
    """A likelihood whose scale is not known has no information criterion here."""
    scaled = family is None or (family.dispersed and not isinstance(family, Gaussian))
    if criterion in ("bic", "aic") and scaled:
        raise InputError(
            f"lam={criterion!r} needs a likelihood without an unknown scale: gaussian, binomial or "
            "poisson; use lam='cv'"
        )

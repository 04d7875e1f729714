"""A path of penalised optima from the largest lam down, and the choice of one of them.

    cv    mean loss on the rows left out, over 5 folds; the lam of the smallest
    bic   -2 log-likelihood + df log N        aic   ... + 2 df

Each optimum starts from the one before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from masgrad.errors import InputError, InterruptedWarning, say
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.parts import Part, Split
from masgrad.models.families.canonical import Gaussian
from masgrad.models.families.family import Family
from masgrad.penalties.penalty import Scaled

if TYPE_CHECKING:  # for the annotation alone
    from matplotlib.figure import Figure

POINTS, LAST_LAM = 60, 1e-3
"""Points of a path, and its end as a share of its beginning."""

TOP_MARGIN = 1e-9
"""Share by which a path begins above the largest lam, so that everything is 0 there exactly."""

FOLDS = 5
PATIENCE = 10
"""Points of a rising criterion after which a path ends."""

HUGE_LAM = 1e60
"""A lam at which everything that is penalised is 0."""


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
        """Index of the smallest value of the criterion; without one, the last."""
        return int(np.argmin(self.values)) if self.criterion else len(self.lams) - 1

    @property
    def lam(self) -> float:
        """The lam that was chosen."""
        return float(self.lams[self.chosen])

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Coefficients and the criterion against lam; `path` saves it: .png, .pdf, .svg."""
        from masgrad.fitting.penalised.path_plot import plot_path  # matplotlib is heavy

        return plot_path(self, path)

    def __repr__(self) -> str:
        said = f"{self.criterion} chose {self.lam:.4g}" if self.criterion else "no choice made"
        return f"PenaltyPath({len(self.lams)} lams from {self.lams[0]:.4g} down; {said})"


@dataclass(frozen=True)
class Criterion:
    """What chooses a point of a path: "cv", "bic", "aic", or "" for none."""

    name: str = ""
    family: Family | None = None

    def __post_init__(self) -> None:
        gaussian, family = isinstance(self.family, Gaussian), self.family
        unknown_scale = family is None or (family.dispersed and not gaussian)
        if self.name in ("bic", "aic") and unknown_scale:
            raise InputError(
                f"lam={self.name!r} needs a likelihood without an unknown scale: gaussian, "
                "binomial or poisson; use lam='cv'"
            )

    def value(
        self, split: Split, risk: float, df: int, left_out: Sequence[float]
    ) -> tuple[float, float]:
        """The criterion at one point, and its standard error over folds.

        Args:
            split: the rows.
            risk: mean loss of all rows.
            df: degrees of freedom.
            left_out: mean loss on the rows left out, fold by fold.
        """
        if self.name == "cv":
            weight = np.array([left.count for _, left in split.folds])
            mean = float(np.average(left_out, weights=weight))
            return mean, float(np.std(left_out, ddof=1) / np.sqrt(len(left_out)))
        if self.name in ("bic", "aic"):
            N = split.whole.count
            price = np.log(N) if self.name == "bic" else 2.0
            gaussian = isinstance(self.family, Gaussian)
            fit = N * np.log(2 * risk) if gaussian else 2 * N * risk
            return float(fit + price * df), 0.0
        return 0.0, 0.0

    def has_ended(self, split: Split, points: "Sequence[Point]") -> bool:
        """Whether it has risen for long, or half as many coefficients as rows are not 0."""
        if not self.name:
            return False
        values = [point.value for point in points]
        if not np.isfinite(values[-1]):
            raise InputError(f"{self.name} is {values[-1]} on the path; give lam as a number")
        interpolates = self.name != "cv" and isinstance(self.family, Gaussian)
        full = interpolates and points[-1].df > split.whole.count / 2
        return full or len(values) - 1 - int(np.argmin(values)) >= PATIENCE


class Point(NamedTuple):
    """One point of a path: psi, mean loss and df of all rows, the criterion and its error."""

    psi: np.ndarray
    risk: float
    df: int
    value: float
    error: float


def walk(
    space: PenaltyCoordinates,
    split: Split,
    criterion: Criterion = Criterion(),
    end: float | None = None,
    count: int = POINTS,
    tell: Callable[[int], None] = lambda done: None,
) -> tuple[PenaltyPath, np.ndarray]:
    """The path and, for each of its points, psi of all rows, (m, p).

    It ends at `end`; without one at LAST_LAM of its beginning, or after PATIENCE points over which
    the criterion has risen.
    """
    psi, top = beginning_of(space, split.whole)
    top = top if split.top is None else min(top, split.top)
    lams, found, stopped = _lams(top, end, count), [], False
    starts = [psi] * (1 + len(split.folds))
    try:
        for lam in lams:
            point, starts = _point(space.with_lam(lam), split, criterion, starts)
            found.append(point)
            tell(len(found))
            if criterion.has_ended(split, found):
                break
    except KeyboardInterrupt:
        if not found:
            raise
        stopped = True
        say(InterruptedWarning, f"the path was stopped after {len(found)} of {count} points")
    psis, risks, dfs, values, errors = (np.array(column) for column in zip(*found, strict=True))
    path = PenaltyPath(
        lams=lams[: len(found)],
        coefs=np.array([space.theta(psi) for psi in psis]),
        risk=risks,
        df=dfs,
        criterion=criterion.name,
        values=values,
        errors=errors,
        local=split.top is not None,
        stopped=stopped,
    )
    return path, psis


def _lams(top: float, end: float | None, count: int) -> np.ndarray:
    """From the top down to the end, or to LAST_LAM of the top; the end alone if it is above."""
    if end is not None and (end >= top or top == 0):
        return np.array([end])
    if top == 0:
        return np.zeros(1)
    return np.geomspace(top, top * LAST_LAM if end is None else end, count)


def _point(
    space: PenaltyCoordinates, split: Split, criterion: Criterion, starts: list[np.ndarray]
) -> tuple[Point, list[np.ndarray]]:
    """The point of one lam, and the optima of all sets of rows: starts for the next lam."""
    psi, risk = split.whole.optimum(space, starts[0])
    optima, left_out = [psi], []
    for (fitted, left), start in zip(split.folds, starts[1:], strict=True):
        optima.append(fitted.optimum(space, start)[0])
        left_out.append(left.risk(space, optima[-1]))
    assert isinstance(space.penalty, Scaled)
    df = space.penalty.freedom(psi)
    return Point(psi, risk, df, *criterion.value(split, risk, df, left_out)), optima


def beginning_of(space: PenaltyCoordinates, part: Part) -> tuple[np.ndarray, float]:
    """The optimum of what is not penalised, and the lam down to which it stays optimal."""
    assert isinstance(space.penalty, Scaled)
    psi, _ = part.optimum(space.with_lam(HUGE_LAM), part.start(space))
    top = space.penalty.largest(part.gradient(space, psi)) * (1 + TOP_MARGIN)
    if not np.isfinite(top):
        raise InputError(
            f"{space.penalty!r} leaves no coefficient at 0, however large lam is, so that its path "
            "has no beginning; give lam as a number"
        )
    return psi, top

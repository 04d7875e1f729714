"""A path of penalised optima from the largest lam down, and the choice of one of them.

    cv    mean loss on the rows left out, over 5 folds; the lam of the smallest
    bic   -2 log-likelihood + df log N        aic   ... + 2 df

Each optimum starts from the one before it. A `Part` is some of the rows, as far as a path needs
them: least squares as its sums, of which one read gives those of every fold; other losses as rows
in memory or, where they are too many, as local quadratic models of all rows at a pilot estimate.
"""

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from masgrad.data.regression import mass
from masgrad.errors import InputError
from masgrad.fitting.lens import Lens
from masgrad.fitting.problem import Problem
from masgrad.fitting.proximal import descend, newton
from masgrad.fitting.quadratic import Quadratic
from masgrad.models.canonical import Gaussian
from masgrad.models.family import Family
from masgrad.penalties.penalty import Scaled
from masgrad.types import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNT, RATIO = 60, 1e-3
"""Points of a path, and its end as a share of its beginning."""

ROUGH = 1e-3
"""N times the fall of the objective at which a point of a path is near enough to be judged."""

ROUNDING = 1e-9
"""By which a path begins above the largest lam, so that everything is 0 there exactly."""

FOLDS = 5
PATIENCE = 10
"""Points after which a criterion that only rises ends a path."""

EVERYTHING = 1e60
"""A lam at which only what is not penalised is left."""


class Part(abc.ABC):
    """Some rows."""

    count: float

    @abc.abstractmethod
    def optimum(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        """Their penalised optimum, from a start."""

    @abc.abstractmethod
    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        """Their mean loss."""

    @abc.abstractmethod
    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        """Its gradient in psi."""


@dataclass(frozen=True)
class Sums(Part):
    """A local quadratic model; of least squares the loss is half a sum of squares."""

    local: Quadratic
    squared: bool

    @property
    def count(self) -> float:  # pyright: ignore
        return self.local.count

    def optimum(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        return newton(lens, self.local, psi)[0]

    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        moved = self.local.at(lens.phi(psi))
        return (moved.squares / 2 if self.squared else moved.loss) / self.count

    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        return self.local.at(lens.phi(psi)).gradient * lens.unit / self.count


@dataclass(frozen=True)
class InMemory(Part):
    """Rows themselves."""

    problem: Problem
    rows: Rows

    @property
    def count(self) -> float:  # pyright: ignore
        return mass(self.rows)

    def optimum(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        return descend(self.problem, lens, self.rows, psi, ROUGH)[0]

    def risk(self, lens: Lens, psi: np.ndarray) -> float:
        return float(self.problem.losses(lens.phi(psi), self.rows).sum()) / self.count

    def gradient(self, lens: Lens, psi: np.ndarray) -> np.ndarray:
        sums = self.problem.block_sums(lens.phi(psi), self.rows, hessian=False, meat=False)
        return sums.gradient * lens.unit / self.count


@dataclass(frozen=True)
class Split:
    """All rows, and for cross-validation pairs of those that are fitted and those left out."""

    whole: Part
    folds: tuple[tuple[Part, Part], ...] = ()


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
    """

    lams: np.ndarray
    coefs: np.ndarray
    risk: np.ndarray
    df: np.ndarray
    criterion: str
    values: np.ndarray
    errors: np.ndarray
    names: tuple[str, ...] = ()

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
    tell: Callable[[], None] = lambda: None,
) -> tuple[PenaltyPath, np.ndarray]:
    """The path and, for each of its points, psi of all rows, (m, p).

    It ends at `end`; without one at RATIO of its beginning, or where the criterion has risen for
    PATIENCE points.
    """
    psi, top = beginning_of(lens, split.whole)
    last = top * RATIO if end is None else min(end, top)
    lams = np.geomspace(top, last, count) if top > 0 else np.array([last])
    starts = [psi] * (1 + len(split.folds))
    found: list[tuple] = []
    for lam in lams:
        here = lens.with_lam(lam)
        starts[0] = split.whole.optimum(here, starts[0])
        out = []
        for f, (fitted, left) in enumerate(split.folds, 1):
            starts[f] = fitted.optimum(here, starts[f])
            out.append(left.risk(here, starts[f]))
        risk, df = split.whole.risk(here, starts[0]), freedom(here, starts[0])
        value, error = judge(criterion, family, split, risk, df, out)
        found.append((starts[0], risk, df, value, error))
        tell()
        if end is None and _risen([row[3] for row in found]):
            break
    psis, risks, dfs, values, errors = (np.array(column) for column in zip(*found, strict=True))
    coefs = np.array([lens.theta(psi) for psi in psis])
    path = PenaltyPath(lams[: len(found)], coefs, risks, dfs, criterion, values, errors)
    return path, psis


def beginning_of(lens: Lens, part: Part) -> tuple[np.ndarray, float]:
    """The optimum of what is not penalised, and the lam down to which it stays optimal."""
    assert isinstance(lens.penalty, Scaled)
    psi = part.optimum(lens.with_lam(EVERYTHING), np.zeros(len(lens.unit)))
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


def _risen(values: list[float]) -> bool:
    """Whether the smallest value is PATIENCE points back."""
    return len(values) - 1 - int(np.argmin(values)) >= PATIENCE

"""What may be wrong with a fit, in one plain sentence each, and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from masgrad.fitting.bias import bias
from masgrad.fitting.mixing import burn_in, effective_size, split_rhat
from masgrad.fitting.problem import Problem
from masgrad.fitting.quadratic import EMPTY, Quadratic
from masgrad.fitting.watch import SURPRISE, Watch
from masgrad.types import Rows

if TYPE_CHECKING:
    from masgrad.fitting.options import Options

CONDITION = 1e8
BIASED = 0.5
RHAT = 1.05
LEAN = "they lean on the sandwich's H and hardly check it"
UNSEEN = "not examined: there are fewer than four blocks of rows."


@dataclass(frozen=True)
class Diagnostic:
    """A name, whether all is well (None: nobody knows), and a sentence."""

    name: str
    ok: bool | None
    sentence: str

    def __str__(self) -> str:
        mark = "?" if self.ok is None else "ok" if self.ok else "LOOK"
        return f"{mark:<5} {self.name}: {self.sentence}"


class Diagnostics(tuple[Diagnostic, ...]):
    """All of a fit's; printed, a line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    @property
    def troubles(self) -> tuple[Diagnostic, ...]:
        """Those that want a look."""
        return tuple(d for d in self if d.ok is False)

    def to_json(self) -> list[dict[str, Any]]:
        return [vars(d) for d in self]

    @classmethod
    def from_json(cls, saved: Iterable[dict[str, Any]]) -> "Diagnostics":
        return cls(Diagnostic(**d) for d in saved)


def diagnose(
    problem: Problem,
    options: "Options",
    local: Quadratic,
    loose: np.ndarray,
    kept: Rows,
    watch: Watch,
    draws: np.ndarray | None,
) -> Diagnostics:
    """Everything that was watched. `draws` are the chains' iterates, (K, T, p), if any ran."""
    meat = problem.noise(local)
    found = [
        _order(watch.drift(meat), watch.examined),
        _blocks(*watch.outlying(meat, problem.source.ordered), watch.examined),
        _condition(local.condition),
        *_separation(problem, loose, _empty(problem, local, loose, kept)),
        *([] if loose.any() or options.penalty is not None else _bias(problem, local, kept)),
        _step(problem, options),
        *([] if draws is None else _chains(draws)),
    ]
    return Diagnostics(found)


def _order(drift: float, examined: bool) -> Diagnostic:
    ok = drift <= SURPRISE if examined else None
    if ok is None:
        said = UNSEEN
    elif ok:
        said = f"gradients drift no more than in a random order ({drift:.1f} standard deviations)."
    else:
        said = (
            f"neighbouring rows are alike: gradients drift {drift:.0f} standard deviations more "
            "than in a random order; if rows are repeated measurements, these intervals are too "
            "short: fit one row, such as the mean, for each unit."
        )
    return Diagnostic("order of rows", ok, said)


def _blocks(surprise: float, place: str, examined: bool) -> Diagnostic:
    ok = surprise <= SURPRISE if examined else None
    if ok is None:
        said = UNSEEN
    elif ok:
        said = f"no stretch of rows stands out (largest: {surprise:.1f} standard deviations)."
    else:
        said = (
            f"{place} pull {surprise:.0f} standard deviations away from the others; look at them: "
            "another source, other units, or bad values?"
        )
    return Diagnostic("outlying blocks", ok, said)


def _condition(condition: float) -> Diagnostic:
    ok = condition < CONDITION
    if ok:
        said = f"of H, columns scaled: {condition:.3g}."
    else:
        said = (
            f"columns nearly determine one another ({condition:.1g}): single coefficients are "
            "known poorly and to fewer digits; drop or combine columns."
        )
    return Diagnostic("condition", ok, said)


def _empty(problem: Problem, local: Quadratic, loose: np.ndarray, kept: Rows) -> np.ndarray:
    """Which of the loose coefficients are so because their column is 0 in every row."""
    if not problem.linear or not loose.any():
        return np.zeros_like(loose)
    diagonal = np.diag(local.hessian)
    return loose & (diagonal <= EMPTY * diagonal.max()) & ~np.any(kept[0], axis=0)


def _separation(problem: Problem, loose: np.ndarray, empty: np.ndarray) -> list[Diagnostic]:
    """Directions without an estimate: because of X, and because of y."""
    zero, others = int(empty.sum()), int((loose & ~empty).sum())
    every = "every other direction has an estimate." if zero else "every direction has an estimate."
    if others:
        have, them = ("coefficient has", "it") if others == 1 else ("coefficients have", "them")
        said = (
            f"{others} {have} no estimate (s.e. inf): the data do not bound {them}; drop the "
            "column, join categories, or use penalty=mg.L2(...)."
        )
    elif problem.ridge.matrix is not None:
        said = "with the penalty every direction has an estimate."
    elif problem.separable:
        said = f"the responses are not separated: {every}"
    else:
        said = every
    found = [Diagnostic("separation", not others, said)]
    if zero:
        if zero == 1:
            said = "1 column is 0 in every row: its coefficient has no estimate (nan); drop it."
        else:
            said = f"{zero} columns are 0 in every row: they have no coefficients (nan); drop them."
        found.append(Diagnostic("empty columns", False, said))
    return found


def _bias(problem: Problem, local: Quadratic, kept: Rows) -> list[Diagnostic]:
    try:
        shift = bias(problem, local, kept)
    except np.linalg.LinAlgError:
        return []
    if shift is None:
        return []
    size, share = local.errors(shift), len(shift) / local.count
    ok = size <= BIASED
    said = f"p/N = {share:.2g} biases estimates by {size:.2g} standard errors at worst"
    if not ok:
        said += "; intervals are off by that: use more rows, fewer columns, or a penalty"
    return [Diagnostic("p/N", ok, said + ".")]


def _step(problem: Problem, options: "Options") -> Diagnostic:
    c, averaged = options.plan.step_size, any(n.startswith("MasGrad") for n, _ in problem.path)
    if not averaged:
        return Diagnostic("step", True, "all steps were Newton's; none depends on a step size.")
    ok = c < 2
    said = f"MasGrad's step {c:g} / gamma is {'stable' if c < 2 else 'NOT stable'} (below 2)"
    if problem.discarded:
        said += "; its average was worse than its start and was not used"
    if not ok:
        said += "; leave step_size at 1 (the correcting reads do not depend on it)"
    return Diagnostic("step", ok, said + ".")


def _chains(draws: np.ndarray) -> Sequence[Diagnostic]:
    each = [draws[:, :, j] for j in range(draws.shape[2])]
    rhat = max(split_rhat(d) for d in each)
    size = min(effective_size(d) for d in each)
    steps, burn = draws.shape[1], max(burn_in(d) for d in each)
    return [
        Diagnostic(
            "split-Rhat",
            True if rhat < RHAT else None,
            f"{rhat:.3f} at worst" + ("." if rhat < RHAT else f"; chains are short: {LEAN}."),
        ),
        Diagnostic(
            "effective size",
            size >= 100,
            f"that of {size:,.0f} independent iterates, at worst"
            + ("." if size >= 100 else "; more chains or more rows are needed."),
        ),
        Diagnostic(
            "burn-in",
            True if burn <= steps // 4 else None,
            f"{burn / steps:.0%} of the steps until the spread has settled; "
            + ("corrected for." if burn <= steps // 4 else f"corrected for, but {LEAN}."),
        ),
    ]

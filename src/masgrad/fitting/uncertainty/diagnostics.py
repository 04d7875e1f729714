"""What may be wrong with a fit, in one plain sentence each, and what to do about it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masgrad.fitting.identification.rank import NullSpace, listed
from masgrad.fitting.objective.monitor import DRIFT_LIMIT
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.estimate import Estimate
from masgrad.fitting.options import Options
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.bias import bias
from masgrad.fitting.uncertainty.chains import burn_in, effective_size, split_rhat
from masgrad.fitting.uncertainty.covariance import Uncertainty, noise_spectrum

FLAT_DIRECTIONS = "flat directions"
"""The diagnostic of losses without a linear predictor, whose rows cannot be separated."""

LARGEST_CONDITION = 1e8
LARGEST_BIAS = 0.5
"""Bias of an estimate, in standard errors, that intervals tolerate."""

LARGEST_RHAT = 1.05
SMALLEST_EFFECTIVE_SIZE = 100
LEAN = "they lean on the sandwich's H and hardly check it"
NOT_EXAMINED = (
    "not examined: there are fewer than four blocks of rows, no residuals, or rare columns alone."
)


@dataclass(frozen=True)
class Diagnostic:
    """A name, whether all is well (None if that is not known), and a sentence."""

    name: str
    ok: bool | None
    sentence: str

    def __str__(self) -> str:
        mark = "?" if self.ok is None else "ok" if self.ok else "LOOK"
        return f"{mark:<5} {self.name}: {self.sentence}"


class Diagnostics(tuple[Diagnostic, ...]):
    """The diagnostics of a fit; printed, a line each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    @property
    def troubles(self) -> tuple[Diagnostic, ...]:
        """Those that need attention."""
        return tuple(d for d in self if d.ok is False)

    def to_json(self) -> list[dict[str, Any]]:
        return [vars(d) for d in self]

    @classmethod
    def from_json(cls, saved: Iterable[dict[str, Any]]) -> "Diagnostics":
        return cls(Diagnostic(**d) for d in saved)


def diagnose(
    objective: Objective, reader: Reader, found: Uncertainty, settled: bool
) -> list[Diagnostic]:
    """What the reads and the local model show; not all is known before the estimate settles."""
    monitor, names = reader.monitor, reader.source.names
    seen = monitor.has_segments and not found.perfect  # whose gradients are rounding errors
    surprise, place = monitor.outlying_segment(found.noise, reader.source.ordered)
    return [
        _order(found.drift, seen, found.meat is not None and found.meat.is_dependent),
        _blocks(surprise, place, seen and place != ""),
        _condition(condition_number(objective, found), names),
        *_identification(objective, found.null, names, settled, where_empty(reader, found)),
    ]


def where_empty(reader: Reader, found: Uncertainty) -> str:
    """Where the empty columns are 0: of rows that came once, only the pilot rows can tell."""
    if reader.source.rereadable or found.local_model.rows <= reader.monitor.pilot_rows:
        return "0 in every row"
    return "0 in the first rows, and no other row has information on it"


def condition_number(objective: Objective, found: Uncertainty) -> float:
    """Condition number of H in the columns as they were given, those that have an estimate."""
    coordinates, local = objective.coordinates, found.local_model
    if coordinates.preconditioner is None or not found.null.size:
        return coordinates.condition(local)
    size, values, Q = local.spectrum
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * Q.T * size
    root = (root @ np.linalg.inv(coordinates.preconditioner))[:, ~found.null.not_identified]
    if not root.any():
        return np.inf
    values = np.linalg.svd(root / np.linalg.norm(root, axis=0), compute_uv=False)
    return float((values[0] / values[-1]) ** 2)


def _order(drift: float, examined: bool, dependent: bool) -> Diagnostic:
    """`dependent` says whether errors allow for clusters, or for neighbours in time."""
    ok = drift <= DRIFT_LIMIT if examined else None
    if ok is None:
        said = NOT_EXAMINED
    elif ok:
        said = f"gradients drift no more than in a random order ({drift:.1f} standard deviations)."
    elif dependent:
        said = (
            f"gradients drift {drift:.0f} standard deviations more than clusters or lags explain: "
            "rows are sorted, or clusters are alike as well; if they share something, such as a "
            "region, intervals are too short without it: clusters=['person', 'region']."
        )
    else:
        said = (
            f"neighbouring rows are alike: gradients drift {drift:.0f} standard deviations more "
            "than in a random order; if rows belong together, such as repeated measurements, these "
            "intervals are too short: name what they share, clusters='person'."
        )
    return Diagnostic("order of rows", ok, said)


def _blocks(surprise: float, place: str, examined: bool) -> Diagnostic:
    ok = surprise <= DRIFT_LIMIT if examined else None
    if ok is None:
        said = NOT_EXAMINED
    elif ok:
        said = f"no stretch of rows stands out (largest: {surprise:.1f} standard deviations)."
    else:
        said = (
            f"{place} pull {surprise:.0f} standard deviations away from the others; look at them: "
            "another source, other units, or bad values?"
        )
    return Diagnostic("outlying blocks", ok, said)


def _condition(condition: float, names: tuple[str, ...]) -> Diagnostic:
    ok = condition < LARGEST_CONDITION
    if ok:
        said = f"of H, columns scaled: {condition:.3g}."
    else:
        said = (
            f"columns nearly determine one another ({condition:.1g}): single coefficients are "
            f"known poorly; {_on_powers(names) or 'drop or combine columns'}."
        )
    return Diagnostic("condition", ok, said)


def _on_powers(names: tuple[str, ...]) -> str:
    """How to write powers of a column that is far from 0, if there are any."""
    raised = next(filter(None, (re.fullmatch(r"I\((\w+) \*\* \d+\)", n) for n in names)), None)
    if raised is None:
        return ""
    x = raised[1]
    return f"centre {x} before it is raised: center({x}) + I(center({x})**2) fits the same curve"


def _identification(
    objective: Objective, null: NullSpace, names: tuple[str, ...], settled: bool, where: str
) -> list[Diagnostic]:
    """Directions without an estimate: because of X, and because of y. The status has the advice."""
    empty = null.is_empty
    others = null.not_identified & ~empty
    every = "every other" if empty.any() else "every"
    if others.any():
        have, them = (
            ("coefficient has", "it") if others.sum() == 1 else ("coefficients have", "them")
        )
        said = f"{others.sum()} {have} no estimate (s.e. inf): the data do not bound {them}"
        said += f" ({listed(others, names)})."
    elif objective.ridge.matrix is not None:
        said = "with the penalty every direction has an estimate."
    else:
        said = f"{every} direction has an estimate."
        said = f"the responses are not separated: {said}" if objective.separable else said
    ok = not others.any()
    if ok and null.is_undecided:
        ok, said = None, "not known: neither an optimum nor a separating direction was found."
    elif ok and objective.separable and not settled:
        ok, said = None, "not known: the estimate has not settled."
    if not objective.linear:
        said = said.replace("the data do not bound", "the loss is flat along")
    found = [Diagnostic("separation" if objective.linear else FLAT_DIRECTIONS, ok, said)]
    if empty.any():
        columns = "1 column is" if empty.sum() == 1 else f"{empty.sum()} columns are"
        said = f"{columns} {where}, without an estimate (nan): {listed(empty, names)}."
        found.append(Diagnostic("empty columns", False, said))
    return found


def bias_diagnostic(objective: Objective, found: Uncertainty, sample: Sample) -> list[Diagnostic]:
    """The bias of order p/N, unless the objective is penalised or it is not known.

    Directions that only rows without residuals see are left out: their standard errors are 0.
    """
    local = found.local_model
    if objective.ridge.matrix is not None or found.perfect:
        return []
    try:
        shift = bias(objective, local, sample.rows)
    except np.linalg.LinAlgError:
        return []
    if shift is None:
        return []
    size = local.wald_norm(shift)
    if found.exact.size:
        noise, W = (part[..., found.exact.shape[1] :] for part in noise_spectrum(local))
        size = float(np.sqrt((np.square(W.T @ (local.hessian @ shift)) / noise).sum()))
    share, ok = len(shift) / local.count, size <= LARGEST_BIAS
    said = f"p/N = {share:.2g} biases estimates by {size:.2g} standard errors at worst"
    if not ok:
        said += "; intervals are off by that: use more rows, fewer columns, or a penalty"
    return [Diagnostic("p/N", ok, said + ".")]


def step_diagnostic(done: Estimate, options: Options) -> Diagnostic:
    """Whether MasGrad's step was stable, if MasGrad took part."""
    c, averaged = options.step_size, any(name.startswith("MasGrad") for name, _ in done.stages)
    if not averaged:
        return Diagnostic("step", True, "all steps were Newton's; none depends on a step size.")
    ok = c < 2
    said = f"MasGrad's step {c:g} / gamma is {'stable' if c < 2 else 'NOT stable'} (below 2)"
    if done.average_discarded:
        said += "; its average was worse than its start and was not used"
    if not ok:
        said += "; leave step_size at 1 (the correcting reads do not depend on it)"
    return Diagnostic("step", ok, said + ".")


def chain_diagnostics(draws: np.ndarray) -> Sequence[Diagnostic]:
    """Whether chains have forgotten their start; `draws` are iterates, (K, T, p)."""
    each = [draws[:, :, j] for j in range(draws.shape[2])]
    rhat = max(split_rhat(d) for d in each)
    size = min(effective_size(d) for d in each)
    steps, burn = draws.shape[1], max(burn_in(d) for d in each)
    return [
        Diagnostic(
            "split-Rhat",
            True if rhat < LARGEST_RHAT else None,
            f"{rhat:.3f} at worst"
            + ("." if rhat < LARGEST_RHAT else f"; chains are short: {LEAN}."),
        ),
        Diagnostic(
            "effective size",
            size >= SMALLEST_EFFECTIVE_SIZE,
            f"that of {size:,.0f} independent iterates, at worst"
            + (
                "." if size >= SMALLEST_EFFECTIVE_SIZE else "; more chains or more rows are needed."
            ),
        ),
        Diagnostic(
            "burn-in",
            True if burn <= steps // 4 else None,
            f"{burn / steps:.0%} of the steps until the spread has settled; "
            + ("corrected for." if burn <= steps // 4 else f"corrected for, but {LEAN}."),
        ),
    ]

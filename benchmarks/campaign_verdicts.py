"""What becomes of each fit of the campaign, against the oracle.

A fit is wrong if some coefficient is more than 0.1 standard errors from an optimum that exists; for
losses with several optima, if the loss exceeds the oracle's best by as much as that would,
0.1^2 / 2. It is silently wrong if moreover nothing was said: no warning, and a status that is well.
"""

import signal
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from campaign_fits import Outcome, attempt
from campaign_losses import Loss
from campaign_oracle import Optimum, solve
from campaign_problems import Problem
from campaign_rows import rows_of

FAR = 0.1
"""Distance from the optimum, in standard errors, of a wrong estimate."""

EXCESS = FAR**2 / 2
"""Loss above the best, in units of the dispersion, of an estimate as far as that."""

SE_LIMIT = 0.02
"""Relative error of a standard error."""

OK, SILENT, WARNED, REFUSED = "ok", "silently wrong", "wrong with a warning", "refused"
RAW, ERRORS_OFF, SLOW = "raw exception", "standard errors off", "too slow"
NONE_SAID, NONE_SILENT = "no optimum, said so", "no optimum, not said"
PART_WRONG, UNDECIDED = "separated, finite part wrong", "oracle undecided"
VERDICTS = (
    OK, NONE_SAID, SILENT, WARNED, REFUSED, RAW, ERRORS_OFF, SLOW, NONE_SILENT, PART_WRONG,
    UNDECIDED,
)  # fmt: skip
GOOD = (OK, NONE_SAID)


@dataclass(frozen=True)
class Record:
    """A judged fit.

    Args:
        distance: from the optimum, in its standard errors, the largest over coefficients.
        rms: the same, root mean square over whitened contrasts.
        excess: loss above the optimum's, over the dispersion.
        se_error: relative error of the standard errors, the largest.
        stated: the remainder that the library states.
        elsewhere: whether the estimate is at another, worse, optimum.
    """

    id: str
    verdict: str
    detail: str
    describe: str
    group: str
    pair: str
    order: str
    container: str
    columns: tuple[str, ...]
    tags: tuple[str, ...]
    oracle: str = ""
    status: str = ""
    warnings: tuple[str, ...] = ()
    distance: float = np.nan
    rms: float = np.nan
    excess: float = np.nan
    se_error: float = np.nan
    stated: float = np.nan
    reads: int = 0
    seconds: float = 0.0
    oracle_seconds: float = 0.0
    elsewhere: bool = False

    def as_dict(self) -> dict:
        return asdict(self)


class TooSlow(BaseException):
    """The time limit of a fit: no Exception, so that no handler of the library swallows it."""


def run(problem: Problem, limit: float) -> Record:
    """Make the data, fit, ask the oracle, and judge."""
    data = rows_of(problem)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        try:
            outcome = _within(limit, lambda: attempt(problem, data, Path(folder)))
        except TooSlow:
            return record_of(problem, SLOW, f"no result after {limit:g} s")
    begun = time.perf_counter()
    loss = Loss(problem.family, problem.link, problem.parameter)
    try:
        best = solve(loss, data.X, data.y, data.w, data.offset, data.truth, also=outcome.theta)
    except np.linalg.LinAlgError as error:
        return record_of(problem, UNDECIDED, f"oracle: {error}")
    record = judge(problem, outcome, best)
    return replace(record, oracle_seconds=time.perf_counter() - begun)


def _within(seconds: float, call):
    def stop(*_):
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def record_of(problem: Problem, verdict: str, detail: str = "", **more) -> Record:
    return Record(
        problem.id, verdict, detail, problem.describe(), problem.group, problem.pair,
        problem.order, problem.container, problem.columns, tuple(sorted(problem.tags)), **more,
    )  # fmt: skip


def judge(problem: Problem, outcome: Outcome, best: Optimum) -> Record:
    """The verdict on an outcome, with the distances it rests on."""
    facts = {
        "oracle": best.status, "status": outcome.status, "warnings": outcome.warnings,
        "reads": outcome.reads, "seconds": outcome.seconds, "stated": outcome.remainder,
    }  # fmt: skip
    if outcome.theta is not None and best.status == "optimum":
        facts |= _distances(outcome, best)
    verdict, detail = _verdict(outcome, best, facts)
    return record_of(problem, verdict, detail, **facts)


def _distances(outcome: Outcome, best: Optimum) -> dict[str, float | bool]:
    assert outcome.theta is not None and outcome.se is not None
    step = outcome.theta - best.theta
    if not np.isfinite(step).all():
        return {"distance": np.inf, "rms": np.inf, "excess": np.inf, "se_error": np.inf}
    with np.errstate(all="ignore"):
        excess = float(best.loss_at(outcome.theta) - best.loss) / best.dispersion
        return {
            "distance": float(np.abs(step / best.unit).max()),
            "rms": best.rms(step),
            "excess": excess,
            "se_error": float(np.abs((outcome.se - best.se) / best.unit).max()),
            "elsewhere": excess > EXCESS and best.is_near_another(outcome.theta),
        }


def _verdict(outcome: Outcome, best: Optimum, facts: dict) -> tuple[str, str]:
    if outcome.error and not outcome.refused:
        return RAW, outcome.error
    if outcome.leaked:
        verdict, detail = _judged(outcome, best, facts)
        return RAW, f"RuntimeWarning: {outcome.leaked} (otherwise {verdict} {detail})"
    return _judged(outcome, best, facts)


def _judged(outcome: Outcome, best: Optimum, facts: dict) -> tuple[str, str]:
    if best.status == "optimum":
        return _against_optimum(outcome, best, facts)
    if best.status in ("unfinished", "rank") and outcome.ok and not outcome.warnings:
        return UNDECIDED, f"oracle: {best.status}, library: {outcome.status or outcome.error}"
    return _without_optimum(outcome, best)


def _against_optimum(outcome: Outcome, best: Optimum, facts: dict) -> tuple[str, str]:
    if outcome.error:
        return REFUSED, outcome.error
    distance, excess = facts["distance"], facts["excess"]
    near = excess < EXCESS if best.fit.loss.several_optima and distance >= FAR else distance < FAR
    if not near:
        said = ", ".join(outcome.warnings) or outcome.status
        away = f"{distance:.3g} s.e. away, {outcome.remainder:.2g} stated"
        other = ", at another optimum" * facts.get("elsewhere", False)
        detail = f"{away}, loss +{excess:.2g}{other} ({said})"
        return (WARNED if outcome.admits else SILENT), detail
    if not facts["se_error"] <= SE_LIMIT:
        return ERRORS_OFF, f"by {100 * facts['se_error']:.2g} %, {distance:.2g} s.e. away"
    return OK, ""


def _without_optimum(outcome: Outcome, best: Optimum) -> tuple[str, str]:
    """Separated, on the border of the domain, or not identified: the library should say so."""
    if outcome.error:
        return NONE_SAID, outcome.error
    if not outcome.admits:
        return NONE_SILENT, f"oracle: {best.status}, library: {outcome.status}"
    assert outcome.theta is not None
    both = np.isfinite(best.theta) & np.isfinite(outcome.theta)
    away = np.abs((outcome.theta - best.theta)[both] / best.unit[both])
    lost = np.isfinite(best.theta) & ~np.isfinite(outcome.theta)
    known = best.status == "separated" and not best.fit.loss.several_optima
    if not known or (away.max(initial=0.0) < FAR and not lost.any()):
        return NONE_SAID, outcome.status
    what = f"{int(lost.sum())} finite coefficients lost, " * bool(lost.any())
    return PART_WRONG, f"{what}{away.max(initial=0.0):.3g} s.e. away ({outcome.status})"

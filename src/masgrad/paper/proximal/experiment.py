"""The proximal experiment: MadProx and other methods on two penalised regressions, without noise.

Fixed by the paper: sparse regression and low-rank trace regression as the examples, V that does not
depend on w (a fixed design), eta = 1/gamma, and diag(V) as the cheap substitute. The paper has no
figure of it. Chosen here: the sizes and the design (`problems.py`), the start 0, and the
methods beside it (`methods.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.covariance.least_squares import LeastSquaresMoments
from masgrad.covariance.moments import moments
from masgrad.paper.experiment import Experiment, Report
from masgrad.paper.proximal import problems
from masgrad.paper.proximal.claims import claims
from masgrad.paper.proximal.methods import (
    ACCURACY,
    EARLY,
    NAMES,
    TIMED,
    Metric,
    first_below,
    inner_steps,
    methods,
    metric,
    metrics,
    path,
    step_seconds,
)
from masgrad.paper.proximal.plot import plot_proximal
from masgrad.penalties.separable import ElasticNet
from masgrad.penalties.structured import Nuclear

ROUNDING = 1e-14
"""A gap that grows by less, as a share of the first one, has not grown."""
ZERO = 1e-9
"""Singular values below this share of the largest are none."""
SHOWN = 200
"""Steps whose gap is in the record, evenly on a logarithmic scale."""
ARRIVING = ("madprox", "diagonal", "proximal_gradient", "fista")
REPEATS, QUICK_REPEATS = 7, 3
ABOUT = (
    "A lasso (40 coefficients, condition number 1000, the slow direction inside the support) and a "
    "trace regression (a matrix of rank 2, condition number 100), without noise from 0. Gaps "
    "L(w_t) - min L are shares of the first one. steps: until 1e-6, early_steps: until 1e-3; "
    "theory_steps: the proposition's T for 1e-6; kappa_ratio: kappa_MadProx over sqrt(kappa_GD), "
    "for the V of a fixed design; seconds: until 1e-6, on this machine, compiled before."
)


@dataclass(frozen=True)
class Race:
    """All methods on one problem: paths (T + 1, p), gaps as shares of the first, seconds a step."""

    problem: problems.Penalised
    metrics: dict[str, Metric]
    paths: dict[str, np.ndarray]
    gaps: dict[str, np.ndarray]
    step_seconds: dict[str, float]
    on_moments: dict[str, float]


def proximal_experiment(
    seed: int = 0, quick: bool = False, report: Report = lambda name: None
) -> Experiment:
    """Run six methods on both problems; `quick` takes a 10 x 10 matrix, and times less often.

    Paper: Proposition 4.1 Moment-adjusted proximal - T and condition numbers beside measured steps
    """
    side = problems.QUICK_SIDE if quick else problems.SIDE
    given = {"lasso": problems.lasso(seed), "trace": problems.trace_regression(seed, side)}
    repeats = QUICK_REPEATS if quick else REPEATS
    races = {name: _race(name, problem, repeats, report) for name, problem in given.items()}
    numbers = {name: _numbers(race) for name, race in races.items()}
    title = (
        f"Lasso with {problems.P} coefficients, trace regression {side} x {side}, no noise in steps"
    )
    return Experiment(
        "proximal", title, ABOUT, _settings(given, races), numbers, claims(numbers),
        lambda path: plot_proximal(races, path, title),
    )  # fmt: skip


def _race(name: str, problem: problems.Penalised, repeats: int, report: Report) -> Race:
    found = metrics(problem)
    chosen, paths, gaps, timed = methods(problem, found), {}, {}, {}
    for key, (kernel, steps) in chosen.items():
        paths[key] = path(problem, kernel, steps)
        gaps[key] = problem.gap(paths[key])
        gaps[key] = gaps[key] / gaps[key][0]
        timed[key] = kernel, min(first_below(gaps[key], ACCURACY) or steps, TIMED)
        report(f"{name}: {NAMES[key]}")
    each = step_seconds(problem, problem.rows, timed, repeats)
    on_moments = {}
    if isinstance(problem.penalty, ElasticNet):  # the nuclear norm is refused where X is no matrix
        arriving = {key: timed[key] for key in ARRIVING}
        on_moments = step_seconds(problem, _summed(problem), arriving, repeats)
    report(f"{name}: times")
    return Race(problem, found, paths, gaps, each, on_moments)


def _summed(problem: problems.Penalised) -> LeastSquaresMoments:
    """The rows' moments: a step's cost is then independent of their number."""
    return LeastSquaresMoments(len(problem.c)).update(*problem.rows)


def _settings(given: dict[str, problems.Penalised], races: dict[str, Race]) -> dict:
    return {
        name: {
            "N": len(problem.rows[1]), "p": len(problem.c), "lam": float(problem.penalty.lam),
            "noise": 1.0, "start": 0.0,
            "steps": {key: len(g) - 1 for key, g in races[name].gaps.items()},
            "step_sizes": {key: 1 / m.gamma for key, m in races[name].metrics.items()},
        }
        for name, problem in given.items()
    }  # fmt: skip


def _numbers(race: Race) -> dict:
    """Everything about one problem, with a method's key at the end of a name."""
    out = _conditions(race) | _structure(race)
    out |= {
        "first_gap": float(race.problem.gap(race.problem.start[None])[0]),
        "optimum_error": race.problem.optimum_error,
    }
    for key, gaps in race.gaps.items():
        out |= {f"{name}_{key}": value for name, value in _progress(race, key, gaps).items()}
    for key, found in race.metrics.items():
        out |= {f"{name}_{key}": value for name, value in _proposition(race, key, found).items()}
    return out


def _conditions(race: Race) -> dict:
    """Condition numbers; those of the rows take V(w) at the optimum, which is no fixed design's."""
    problem, found = race.problem, race.metrics
    gd = found["proximal_gradient"].kappa
    cov = moments(problem.model, problem.optimum, problem.rows).cov
    of_rows = metric(problem.H, cov, "symmetric").kappa
    return {
        "kappa_gd": gd,
        "kappa_madprox": found["madprox"].kappa,
        "kappa_diagonal": found["diagonal"].kappa,
        "kappa_madprox_of_rows": of_rows,
        "kappa_ratio": found["madprox"].kappa / np.sqrt(gd),
        "kappa_ratio_diagonal": found["diagonal"].kappa / np.sqrt(gd),
        "kappa_ratio_of_rows": of_rows / np.sqrt(gd),
    }


def _structure(race: Race) -> dict:
    """What the penalty is for: coefficients other than 0, or the rank, at optimum and ends."""
    problem = race.problem
    count, name = _counter(problem)
    out: dict = {name: count(problem.optimum)}
    out |= {f"{name}_{key}": count(steps[-1]) for key, steps in race.paths.items()}
    if name == "nonzeros":
        slow = np.linalg.eigh(problem.H)[1][:, 0]
        out["slow_direction_in_support"] = float((slow[problem.optimum != 0] ** 2).sum())
    return out


def _counter(problem: problems.Penalised) -> tuple[Callable[[np.ndarray], int], str]:
    if not isinstance(problem.penalty, Nuclear):
        return lambda w: int(np.count_nonzero(w)), "nonzeros"
    shape = problem.penalty.shape
    return lambda w: int(np.linalg.matrix_rank(w.reshape(shape), rtol=ZERO)), "rank"


def _progress(race: Race, key: str, gaps: np.ndarray) -> dict:
    """Steps and seconds of one method; None for what is not reached."""
    steps, each = first_below(gaps, ACCURACY), race.step_seconds[key]
    shown = np.unique(np.geomspace(1, len(gaps), SHOWN).astype(int)) - 1
    out = {
        "steps": steps,
        "early_steps": first_below(gaps, EARLY),
        "step_seconds": each,
        "seconds": None if steps is None else steps * each,
        "increases": int((np.diff(gaps) > ROUNDING).sum()),
        "final_gap": float(gaps[-1]),
        "last_step": len(gaps) - 1,
        "shown_steps": shown.tolist(),
        "shown_gaps": gaps[shown].tolist(),
    }
    if key in race.on_moments:
        on_moments = race.on_moments[key]
        out["step_seconds_on_moments"] = on_moments
        out["seconds_on_moments"] = None if steps is None else steps * on_moments
    return out


def _proposition(race: Race, key: str, found: Metric) -> dict:
    """T, and the gap there over epsilon: at most 1, if the proposition holds; and inner steps."""
    early, late = (found.steps(race.problem, share) for share in (EARLY, ACCURACY))
    gaps = race.gaps[key]
    arrived = (first_below(gaps, ACCURACY) or len(gaps) - 1) + 1
    return {
        "theory_steps": late,
        "early_theory_steps": early,
        "gap_over_epsilon": float(max(gaps[early] / EARLY, gaps[late] / ACCURACY)),
        "inner_steps": float(inner_steps(race.problem, found, race.paths[key][:arrived]).mean()),
    }

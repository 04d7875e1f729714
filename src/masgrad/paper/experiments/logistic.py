"""The logistic experiment: four processes with one step size, until and past stationarity.

Fixed by the paper: X in R^{500 x 4} standard Gaussian, y from a logistic model with w* uniform on
[1, 2]^4; batches of n = 25 drawn with replacement, eta = 0.2 for all, hence beta = 2n / eta = 250;
100 chains, 100 steps. The rows are the population here, so the truth that is drawn is their
optimum, from an independent fit (scikit-learn's). Chosen here: the start N(0, I); MasGrad and SGD
go on to step 600, and the last third says what stationarity is.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from masgrad.covariance.moments import moments
from masgrad.errors import MasgradError
from masgrad.kernels.stability import minimise
from masgrad.models.glm import Logistic
from masgrad.paper.experiment import Claim, Experiment, Report, judge
from masgrad.paper.experiments import convergence
from masgrad.paper.experiments.processes import (
    CHAINS,
    COPIES,
    METHODS,
    NAMES,
    Processes,
    Sampling,
    closeness_claims,
    kernels,
    local_slopes,
    paths,
    run_processes,
)
from masgrad.plots import plot_processes
from masgrad.types import Rows

N, P, BATCH, ETA = 500, 4, 25, 0.2
SHOWN, STEPS, LAST = 100, 600, slice(400, 601)
HOLD = 50
"""Steps for which a coordinate must stay near stationarity."""
OTHER_ETAS = (0.1, 0.4)
ABOUT = (
    "Logistic regression on 500 standard Gaussian rows with 4 columns, the same step for all "
    "processes. stationary_step: the first from which, for 50 steps, every coordinate's mean "
    "over chains is within 0.4 standard deviations, and its standard deviation within 30 %, of "
    "those over steps 400 to 600 (for SGD null if not within 100 steps). final_error: mean l2 "
    "error to the rows' optimum at step 100. slope and reject_share as in the linear "
    "experiment."
)


def logistic_experiment(
    seed: int = 0, quick: bool = False, report: Report = lambda name: None
) -> Experiment:
    """Run the four processes, and MasGrad and SGD with other steps; `quick` changes nothing here.

    Paper: Figure logistic - four processes on one population
    """
    del quick
    data, start = logistic_rows(seed)
    optimum = fit(data)
    found = logistic_processes(data, start, optimum, seed, report)
    numbers = _progress(found, data) | found.rejections(SHOWN)
    numbers["step_sizes"] = _other_steps(data, start, optimum, seed, report)
    longer = ETA * numbers["local_slope_masgrad"] / numbers["local_slope_sgd"]
    numbers["sgd_longer_step"] = _stationarity("SGD", longer, data, start, optimum, [seed, 20])
    report("SGD, a longer step")
    settings = {
        "N": N, "p": P, "batch_size": BATCH, "eta": ETA, "beta": 2 * BATCH / ETA, "steps": STEPS,
        "final_step": SHOWN, "chains": CHAINS, "copies": COPIES, "other_etas": list(OTHER_ETAS),
        "start": start.tolist(), "optimum": optimum.tolist(),
    }  # fmt: skip
    title = f"Logistic regression, N = {N}, n = {BATCH}, eta = {ETA}"
    return Experiment(
        "logistic", title, ABOUT, settings, numbers, _claims(numbers),
        lambda path: plot_processes(found.traces, optimum, path, title, SHOWN),
    )  # fmt: skip


def logistic_rows(seed: int = 0) -> tuple[Rows, np.ndarray]:
    """The experiment's population of 500 rows, and the start."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P))
    w = rng.uniform(1, 2, P)
    data = X, (rng.random(N) < 1 / (1 + np.exp(-X @ w))).astype(float)
    return data, np.random.default_rng([seed, 1]).normal(size=P)


def fit(data: Rows) -> np.ndarray:
    """The rows' optimum, by scikit-learn; separable rows have none."""
    if minimise(Logistic(), data) is None:
        raise MasgradError("these rows are separable: they have no optimum; take another seed")
    model = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10, max_iter=1000)
    return model.fit(*data).coef_[0]


def logistic_processes(
    data: Rows, start: np.ndarray, optimum: np.ndarray, seed: int, report: Report
) -> Processes:
    """The experiment's four processes."""
    both = dict.fromkeys(METHODS, ETA)
    steps = {name: SHOWN if name.startswith("diff_") else STEPS for name in NAMES}
    return run_processes(
        Sampling(Logistic(), data, BATCH), start, optimum,
        step_sizes=both, steps=steps, seed=seed, report=report,
    )  # fmt: skip


def _progress(found: Processes, data: Rows) -> dict:
    """Stationary steps, errors at the paper's last step, and slopes (below 0)."""
    H = moments(Logistic(), found.optimum, data).hessian
    out: dict = {"condition_number": float(np.linalg.cond(H))}
    out |= local_slopes(Logistic(), data, found.optimum, dict.fromkeys(METHODS, ETA))
    errors = found.errors()
    out |= {f"final_error_{name.lower()}": float(e[:, SHOWN].mean()) for name, e in errors.items()}
    for method in METHODS:
        error, key = errors[method], method.lower()
        log_errors = convergence.log_error(error)
        each = convergence.settled(found.traces[method].finite(), LAST, HOLD)
        level = convergence.floor(log_errors, STEPS - LAST.start)
        out |= {
            f"stationary_step_{key}": convergence.latest(each),
            f"stationary_steps_{key}": each,
            f"stationary_error_{key}": float(error[:, LAST].mean()),
            f"slope_{key}": convergence.slope(log_errors, level),
        }
    if convergence.or_never(out["stationary_step_sgd"]) > SHOWN:
        out["stationary_step_sgd"] = None  # not within the paper's steps
    return out | {"slope_ratio": out["slope_masgrad"] / out["slope_sgd"]}


def _other_steps(
    data: Rows, start: np.ndarray, optimum: np.ndarray, seed: int, report: Report
) -> list[dict]:
    """MasGrad and SGD with other step sizes, run for the same time eta t."""
    rows = []
    for number, eta in enumerate(OTHER_ETAS):
        row: dict = {"eta": eta}
        for method in METHODS:
            found = _stationarity(method, eta, data, start, optimum, [seed, 10 + number])
            row[f"stationary_step_{method.lower()}"] = found["stationary_step"]
            row[f"stationary_error_{method.lower()}"] = found["stationary_error"]
            report(f"{method}, eta = {eta}")
        rows.append(row)
    return rows


def _stationarity(
    method: str, eta: float, data: Rows, start: np.ndarray, optimum: np.ndarray, seeds: list[int]
) -> dict:
    """When one process settles with a step size of its own, and its mean error then.

    It runs for the same time eta t, and at least for half as many steps.
    """
    scale = max(0.5, ETA / eta)
    steps, first = round(STEPS * scale), round(LAST.start * scale)
    kernel, starts = kernels(dict.fromkeys(METHODS, eta))[method], np.tile(start, (CHAINS, 1))
    trace = paths(kernel, Sampling(Logistic(), data, BATCH), starts, steps, seeds)
    each = convergence.settled(trace.finite(), slice(first, steps + 1), round(HOLD * scale))
    error = trace.distance(optimum)[:, first:].mean()
    return {
        "eta": eta,
        "stationary_step": convergence.latest(each),
        "stationary_error": float(error),
    }


def _claims(x: dict) -> list[Claim]:
    each = x["stationary_steps_masgrad"]
    own = convergence.or_never(x["stationary_step_masgrad"])
    apart = own - min(map(convergence.or_never, each))
    error, sgd_error = x["final_error_masgrad"], x["final_error_sgd"]
    return [
        *closeness_claims(x),
        Claim(
            "MasGrad is stationary after around 50 steps",
            _since(own),
            judge(35 <= own <= 65, own <= SHOWN),
        ),
        Claim(
            "MasGrad's four coordinates become stationary simultaneously",
            "from steps " + ", ".join("-" if s is None else str(s) for s in each),
            judge(apart <= 10, own <= 2 * (own - apart)),
        ),
        Claim(
            "SGD fails to reach the optimum in 100 steps",
            f"{_since(convergence.or_never(convergence.latest(x['stationary_steps_sgd'])))}; mean "
            f"error at step {SHOWN} {sgd_error:.2f}, MasGrad's {error:.2f}",
            judge(x["stationary_step_sgd"] is None and sgd_error > error, sgd_error > error),
        ),
        _acceleration(x),
        _insensitivity(x["step_sizes"], own * ETA),
        _longer_step(x),
    ]


def _longer_step(x: dict) -> Claim:
    """Not the paper's: how much of MasGrad's lead is the step that both were given."""
    found = x["sgd_longer_step"]
    settles = _since(convergence.or_never(found["stationary_step"]))
    return Claim(
        "Beside the paper: SGD with a step as fast as MasGrad's, near the optimum",
        f"eta = {found['eta']:.1f}: {settles}, mean error then {found['stationary_error']:.2f}; "
        f"MasGrad {x['stationary_error_masgrad']:.2f}, SGD at eta = {ETA} "
        f"{x['stationary_error_sgd']:.2f}",
        None,
    )


def _acceleration(x: dict) -> Claim:
    """The theorem's sqrt(kappa) is for each method's own longest step; both take eta here."""
    ratio, root = x["slope_ratio"], np.sqrt(x["condition_number"])
    local = x["local_slope_masgrad"] / x["local_slope_sgd"]
    return Claim(
        "The log error falls faster than the theory predicts",
        f"{ratio:.1f} times as fast as SGD's; the updates linearised at the optimum {local:.1f} "
        f"times, and the theorem, for each method's own longest step, sqrt(kappa) = {root:.1f}",
        judge(ratio > max(root, 1.1 * local), ratio > root),
    )


def _insensitivity(rows: list[dict], time: float) -> Claim:
    """Similar: MasGrad's stationary time eta t within a factor of 2, and SGD later."""
    steps = [
        [convergence.or_never(row[f"stationary_step_{m.lower()}"]) for m in METHODS] for row in rows
    ]
    similar = [0.5 < own * row["eta"] / time < 2 for row, (own, _) in zip(rows, steps, strict=True)]
    later = [own < other for own, other in steps]
    words = "; ".join(
        f"eta = {row['eta']}: {_since(own)}, eta t = {own * row['eta']:.0f}, SGD {_since(other)}"
        for row, (own, other) in zip(rows, steps, strict=True)
    )
    return Claim(
        "Other step sizes give similar results",
        f"{words} (eta = {ETA}: eta t = {time:.0f})",
        judge(all(similar) and all(later), all(later)),
    )


def _since(step: float) -> str:
    return f"stationary from step {step:.0f} on" if np.isfinite(step) else "not stationary"

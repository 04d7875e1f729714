"""The linear experiment: an ill-conditioned least squares with the steps of the theorem.

Fixed by the paper: X in R^{500 x 4} Gaussian with condition number 30.98, the first and third
coordinate having small eigenvalues; well-specified y with N(0, 1) noise; n = 50 with replacement;
steps 1 / gamma and 1 / lambda_max; one random start; 100 chains. Chosen here: 30.98 is that of the
covariance diag(1/30.98, 1, 1/30.98, 1) the rows are drawn from (the appendix's reading; the text
means the Gram matrix); w* uniform on [1, 2]^4 as in the logistic experiment; the start N(0, I).
"""

from collections.abc import Mapping

import numpy as np

from masgrad.inference.lyapunov import stationary_law
from masgrad.models.glm import Linear
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
    run_processes,
)
from masgrad.plots import plot_processes
from masgrad.theory.curvature.conditioning import Conditioning, conditioning
from masgrad.theory.plans.survey import survey
from masgrad.types import Rows

N, P, BATCH, STEPS, LAST = 500, 4, 50, 300, 100
CONDITION = 30.98
EIGENVALUES = np.array([1 / CONDITION, 1.0, 1 / CONDITION, 1.0])
SLOW = (0, 2)
SHOWN = 150
"""Steps drawn; the rest is there for the noise floor."""
ABOUT = (
    "Least squares on 500 rows, 4 columns of which the first and third have small variance; "
    "each method takes its own longest step. slope: of the mean natural log of the l2 error to "
    "the rows' optimum, until it is below twice its floor; floor: its level at the end, "
    "floor_step: when it is within 0.1 of that. condition_number is the Gram matrix's, "
    "kappa_masgrad MasGrad's at the optimum. reject_share: of KS tests at 5 %, chain against "
    "diffusion, over steps and coordinates; baseline: a copy of the diffusion in the chain's "
    "place."
)


def linear_experiment(
    seed: int = 0, quick: bool = False, report: Report = lambda name: None
) -> Experiment:
    """Run the four processes with the theorem's steps; `quick` changes nothing here.

    Paper: Figure linear - four processes on one ill-conditioned population
    """
    del quick
    data, start = linear_rows(seed)
    optimum = np.linalg.lstsq(*data, rcond=None)[0]
    region = survey(Linear(), data, start).conditioning
    step_sizes = {"MasGrad": region.step_masgrad, "SGD": region.step_gd}
    steps = dict.fromkeys(NAMES, STEPS)
    found = run_processes(
        Sampling(Linear(), data, BATCH), start, optimum,
        step_sizes=step_sizes, steps=steps, seed=seed, report=report,
    )  # fmt: skip
    numbers = _conditions(data, optimum, region) | _progress(found)
    numbers |= _predicted(data, optimum, step_sizes) | found.rejections(STEPS)
    settings = {
        "N": N, "p": P, "batch_size": BATCH, "steps": STEPS, "chains": CHAINS, "copies": COPIES,
        "step_sizes": step_sizes, "eigenvalues": EIGENVALUES.tolist(),
        "start": start.tolist(), "optimum": optimum.tolist(),
    }  # fmt: skip
    title = f"Linear regression, N = {N}, n = {BATCH}, steps 1/gamma and 1/lambda_max"
    return Experiment(
        "linear", title, ABOUT, settings, numbers, _claims(numbers),
        lambda path: plot_processes(found.traces, optimum, path, title, SHOWN),
    )  # fmt: skip


def linear_rows(seed: int = 0) -> tuple[Rows, np.ndarray]:
    """The experiment's population of 500 rows, and the start."""
    rng = np.random.default_rng([seed, 1])
    X = rng.normal(size=(N, P)) * np.sqrt(EIGENVALUES)
    w = rng.uniform(1, 2, P)
    return (X, X @ w + rng.normal(size=N)), rng.normal(size=P)


def _conditions(data: Rows, optimum: np.ndarray, region: Conditioning) -> dict:
    """Condition numbers; MasGrad's at the optimum, and where L <= L(start), which is larger."""
    X, _ = data
    return {
        "condition_number": float(np.linalg.cond(X.T @ X)),
        "kappa_masgrad": conditioning(Linear(), data, [optimum]).kappa_masgrad,
        "kappa_masgrad_over_region": region.kappa_masgrad,
    }


def _progress(found: Processes) -> dict:
    """Slopes (below 0), floors and time constants of each process."""
    out: dict = {}
    for name, error in found.errors().items():
        log_errors, key = convergence.log_error(error), name.lower()
        level = convergence.floor(log_errors, LAST)
        times = convergence.time_constants(found.traces[name].mean(), found.optimum)
        out |= {
            f"slope_{key}": convergence.slope(log_errors, level),
            f"floor_{key}": level,
            **_stationary_error(key, error[:, -LAST:]),
            f"floor_step_{key}": convergence.reaches(log_errors, level + 0.1),
            f"time_constants_{key}": times,
            f"unevenness_{key}": convergence.unevenness(times),
        }
    return out | {"slope_ratio": out["slope_masgrad"] / out["slope_sgd"]}


def _stationary_error(key: str, error: np.ndarray) -> dict:
    """Root mean square error at the end of a run; its standard error is that of chains."""
    squares = (error**2).mean(1)
    rms = float(np.sqrt(squares.mean()))
    deviation = squares.std(ddof=1) / np.sqrt(len(squares))
    return {f"error_{key}": rms, f"error_se_{key}": float(deviation / (2 * rms))}


def _predicted(data: Rows, optimum: np.ndarray, step_sizes: Mapping[str, float]) -> dict:
    """Slopes of the linearised updates; errors at the end by the stationary law."""
    out, chosen = local_slopes(Linear(), data, optimum, step_sizes), kernels(step_sizes)
    for method in METHODS:
        law = stationary_law(Linear(), data, optimum, chosen[method], BATCH)
        out[f"predicted_error_{method.lower()}"] = float(np.sqrt(np.trace(law.cov)))
    return out


def _claims(x: dict) -> list[Claim]:
    root = np.sqrt(x["condition_number"])
    own, other = (
        [convergence.or_never(x[f"time_constants_{m.lower()}"][i]) for i in SLOW] for m in METHODS
    )
    faster = [a < b / 2 for a, b in zip(own, other, strict=True)]
    ratio = x["slope_ratio"]
    even, uneven = (convergence.or_never(x[f"unevenness_{m.lower()}"]) for m in METHODS)
    return [
        *closeness_claims(x),
        Claim(
            "MasGrad accelerates in the coordinates with small eigenvalues (1 and 3)",
            f"63 % of the way takes {own[0]:g} and {own[1]:g} steps, SGD {other[0]:g} and "
            f"{other[1]:g}",
            judge(all(faster), any(faster)),
        ),
        Claim(
            "The log error falls at least twice as fast as SGD's",
            f"{ratio:.1f} times as fast; sqrt(condition number) is {root:.1f}",
            judge(ratio >= 2, ratio > 1),
        ),
        Claim(
            "MasGrad's coordinates make synchronised progress, SGD's do not",
            f"slowest over fastest coordinate, in steps for 63 % of the way: {even:.1f}, SGD "
            f"{uneven:.1f}",
            judge(even <= 2 < uneven, even < uneven),
        ),
        Claim(
            "Beside the paper: MasGrad's noise floor is higher",
            f"natural log of the error {x['floor_masgrad']:.2f} from step "
            f"{x['floor_step_masgrad']} on, SGD's {x['floor_sgd']:.2f} from step "
            f"{x['floor_step_sgd']}; a smaller step lowers the floor and is slower",
            None,
        ),
    ]

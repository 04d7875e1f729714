"""Programs that solve one penalised problem, and how they are timed and judged: penalties.py."""

import time

import numpy as np

import masgrad as mg
from masgrad.fitting.fit import reading
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.kinks import KinkedPenalty
from masgrad.fitting.sources import as_source
from masgrad.fitting.task import Task
from masgrad.progress import Progress
from masgrad.types import float64

MODELS = {"gaussian": mg.Linear(), "binomial": mg.Logistic()}


def simulate(family: str, N: int, p: int, active: int = 20, seed: int = 0):
    """AR(0.5) columns, `active` coefficients of 0.5 and -0.5."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    theta = np.zeros(p)
    theta[:: p // active][:active] = 0.5 * np.where(np.arange(active) % 2, -1.0, 1.0)
    t = X @ theta
    if family == "gaussian":
        return X, t + rng.standard_normal(N)
    return X, (rng.random(N) < 1 / (1 + np.exp(-t))) * 1.0


def largest(family: str, X: np.ndarray, y: np.ndarray) -> float:
    """lam_max without an intercept."""
    return float(np.abs(X.T @ (y - (0.0 if family == "gaussian" else 0.5))).max() / len(y))


@float64
def optimum_alone(family: str, X: np.ndarray, y: np.ndarray, lam: float) -> np.ndarray:
    """What `mg.fit` does up to `penalized_params`: no step, no intervals, no diagnostics."""
    model, options = MODELS[family], Options(penalty=mg.L1(lam))
    source, _ = as_source(model, (X, y), None, options.memory, options.block_size)
    task = Task(model, source, None, options)
    with reading(task, Progress(None, False, "rows"), "", single=False) as (reader, sample, _):
        method = KinkedPenalty.of(task, reader, sample)
        return method.space.theta(method.optimum().psi)


def with_skglm(family: str, X: np.ndarray, y: np.ndarray, lam: float, tol: float) -> np.ndarray:
    from skglm import Lasso, SparseLogisticRegression

    if family == "gaussian":
        return Lasso(lam, tol=tol, fit_intercept=False).fit(X, y).coef_
    model = SparseLogisticRegression(lam, tol=tol, fit_intercept=False)
    return model.fit(X, 2 * y - 1).coef_.ravel()


def objective(family: str, X: np.ndarray, y: np.ndarray, lam: float, theta: np.ndarray) -> float:
    t = X @ theta
    loss = (t - y) ** 2 / 2 if family == "gaussian" else np.logaddexp(0, t) - y * t
    return float(loss.mean() + lam * np.abs(theta).sum())


def in_turn(programs: dict, turns: int) -> tuple[dict[str, tuple[float, float]], dict]:
    """The best seconds of each program, on the clock and of processors, and what it returned.

    As in fit_timing.py a turn is two rounds. Processor time is the steadier where others use the
    cores.
    """
    best, out = dict.fromkeys(programs, (np.inf, np.inf)), {}
    for name, program in [*programs.items()] * turns:
        for _ in range(2):
            began = time.perf_counter(), time.process_time()
            out[name] = program()
            took = time.perf_counter() - began[0], time.process_time() - began[1]
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    return best, out

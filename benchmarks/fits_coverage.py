"""Do 95 % intervals of `mg.fit` hold theta* in 95 of 100 samples?

    python benchmarks/fits_coverage.py             writes coverage.md here and docs/coverage.png
    python benchmarks/fits_coverage.py --only chen     one study; finished cells of others are kept
    python benchmarks/fits_coverage.py --quick     few replications, in benchmarks/.coverage/quick

Rows are X = Z L', Z standard normal, and responses follow a law whose theta* is known exactly, for
a wrong link by quadrature. All methods of a cell see the same rows. A replication that raises, or
whose interval is not finite, has not covered. Two worker processes with one thread each; a
finished cell is a file in benchmarks/.coverage and is not run again unless --fresh.
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
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy import optimize, special, stats

import masgrad as mg

SEED = 20
HERE = Path(__file__).resolve().parent
WORKERS, CHUNK, QUICK = 2, 10, 6

MODELS = {"linear": mg.Linear, "logistic": mg.Logistic, "poisson": mg.Poisson}
MEANS = {"linear": lambda t: t, "logistic": special.expit, "poisson": np.exp}
LINKS = {
    "logit": lambda t, far: special.expit(t),
    "cauchit": lambda t, far: 0.5 + np.arctan(t) / np.pi,
    "fading": lambda t, far: special.expit(4 * t / far**2),
}
"""P(y = 1) given t = x'beta and far = |z|^2 / p."""


@dataclass(frozen=True)
class Population:
    """Gaussian rows, and a law of the response given x'beta and the whitened row z."""

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
        p = len(self.beta)
        if self.design == "T":
            return 0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
        return np.eye(p) if self.design == "Id" else 0.8 * np.eye(p) + 0.2

    def draw(self, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
        Z = rng.standard_normal((N, len(self.beta)))
        X = Z if self.design == "Id" else Z @ np.linalg.cholesky(self.S).T
        return X, respond(rng, self.law, X @ np.array(self.beta), Z)


def respond(rng: np.random.Generator, law: str, t: np.ndarray, Z: np.ndarray) -> np.ndarray:
    if law == "normal":
        return t + rng.standard_normal(len(t))
    if law == "negative binomial":  # variance mu + mu^2
        return rng.poisson(np.exp(t) * rng.standard_exponential(len(t))).astype(float)
    if law == "logit":  # spares the distances, which take long for 1e5 x 100 rows
        return (rng.random(len(t)) < special.expit(t)).astype(float)
    far = np.square(Z).sum(1) / Z.shape[1]
    if law == "heteroskedastic":
        return t + far * rng.standard_normal(len(t))
    return (rng.random(len(t)) < LINKS[law](t, far)).astype(float)


@cache
def fitted_slope(population: Population) -> float:
    """c of theta* = c beta: given (t, far) the mean of x is along S beta, so E t (y - p(ct)) = 0.

    With u = t / s standard normal, p far is u^2 plus a chi-square of p - 1 degrees.
    """
    beta, p = np.array(population.beta), len(population.beta)
    nodes, weights = np.polynomial.legendre.leggauss(800)
    u, du = 10 * nodes[:, None], 10 * weights[:, None] * stats.norm.pdf(10 * nodes[:, None])
    v, dv = 40 * (nodes + 1), 40 * weights * stats.chi2.pdf(40 * (nodes + 1), p - 1)
    t = u * np.sqrt(beta @ population.S @ beta)
    right = (du * dv * t * LINKS[population.law](t, (u**2 + v) / p)).sum()
    return optimize.brentq(lambda c: (du * t * special.expit(c * t)).sum() - right, 1e-3, 20)


@cache
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


class Answer(NamedTuple):
    """Intervals, and the p-value of the joint hypothesis theta = theta*."""

    low: np.ndarray
    high: np.ndarray
    pvalue: float
    reads: int = 1


def answer(result, theta: np.ndarray) -> Answer:
    low, high = np.asarray(result.conf_int()).T
    pvalue = result.wald_test(np.eye(len(theta)), theta).pvalue
    return Answer(low, high, pvalue, result.fit_info.reads)


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
    cuts = np.linspace(len(X) // 2, len(X), pieces + 1).astype(int)
    old = slice(0, cuts[0])
    result = mg.fit(MODELS[population.model](), (X[old], y[old]), threads=1, progress=False)
    for a, b in pairwise(cuts):
        result = result.update((X[a:b], y[a:b]), threads=1, progress=False)
    return [answer(result, population.theta)]


def sgd(population: Population, X, y, constants, power: float, batch: int) -> list[Answer]:
    """Averaged SGD from zero in one read, steps c t^-power for each c, the sandwich at its average.

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
        averages = total.T / (steps - skip)
        return [plug_in(population, X, y, a, steps / (steps - skip)) for a in averages]


def plug_in(population: Population, X, y, at: np.ndarray, inflate: float) -> Answer:
    fitted = MEANS[population.model](X @ at)
    curvature = fitted * (1 - fitted) if population.model == "logistic" else fitted
    G = X * (fitted - y)[:, None]
    away = at - population.theta
    try:
        B = np.linalg.inv((X * curvature[:, None]).T @ X)
        C = inflate * B @ (G.T @ G) @ B
        pvalue = stats.chi2.sf(away @ np.linalg.solve(C, away), len(at))
    except np.linalg.LinAlgError:
        return Answer(at * np.nan, at * np.nan, np.nan)
    half = stats.norm.ppf(0.975) * np.sqrt(np.diag(C))
    return Answer(at - half, at + half, float(pvalue))


class Method(NamedTuple):
    """A function of (population, X, y) to an answer for each of its labels."""

    run: Callable[..., list[Answer]]
    labels: tuple[str, ...]


STEPS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
CONSTANT = (0.05, 0.1, 0.2)
BY_STEP, DECAYING, CONSTANTS = (
    tuple(f"{kind} {c:g}" for c in values)
    for kind, values in (("step", STEPS), ("decaying", STEPS), ("constant", CONSTANT))
)
METHODS = {
    "default": Method(fit, ("default",)),
    "nonrobust": Method(partial(fit, cov_type="nonrobust"), ("nonrobust",)),
    "HC1": Method(partial(fit, cov_type="HC1"), ("HC1",)),
    "HC3": Method(partial(fit, cov_type="HC3"), ("HC3",)),
    "passes=1": Method(partial(fit, passes=1), ("passes=1",)),
    "blocks": Method(fit_blocks, ("blocks",)),
    "update": Method(partial(fit_updates, pieces=1), ("update",)),
    "updates": Method(partial(fit_updates, pieces=10), ("updates",)),
    "chains": Method(partial(fit, method="chains", chains=20), ("chains",)),
    "constant": Method(partial(sgd, constants=CONSTANT, power=0.0, batch=50), CONSTANTS),
    "decaying": Method(partial(sgd, constants=STEPS, power=0.505, batch=10), DECAYING),
}
METHODS |= {
    label: Method(partial(fit, step_size=c), (label,))
    for label, c in zip(BY_STEP, STEPS, strict=True)
}


@dataclass(frozen=True)
class Cell:
    """Methods on the first N rows of a sample, for each N; `more` times the replications."""

    study: str
    name: str
    population: Population
    rows: tuple[int, ...]
    methods: tuple[str, ...] = ("default",)
    more: int = 1

    @property
    def file(self) -> str:
        return f"{self.study} {self.name}".replace(" ", "-")

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


def chen(name: str) -> Population:
    model, design, p = name.split()
    return Population(model, "normal" if model == "linear" else "logit", design, line(int(p)))


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
    "default": "default",
    "passes=1": "`passes=1` on arrays",
    "blocks": "an iterator of blocks",
    "update": "half the rows, `update` with the other half",
    "updates": "half the rows, ten updates of a twentieth",
    "chains": '`method="chains"`, 20 chains',
}
FEW, MANY = (100, 200, 500, 1000), (10**4, 10**5, 10**6)
HC = {"default": "HC0", "HC1": "HC1", "HC3": "HC3"}
STUDIES = {
    "misspecified": [
        Cell("misspecified", name, population, (5000,), ("default", "nonrobust"), 5)
        for name, population in WRONG.items()
    ],
    "small": [Cell("small", name, p, FEW, tuple(HC), 5) for name, p in SMALL.items()],
    "variants": [Cell("variants", "logistic", TEN, (10**5,), tuple(VARIANTS))],
    "steps": [Cell("steps", "logistic", TEN, (10**5,), (*BY_STEP, "decaying"))],
    "bias": [Cell("bias", "poisson", COUNTS, MANY, ("default", "constant"))],
    "chen": [
        Cell("chen", name, chen(name), (10**5,))
        for name in sorted(PUBLISHED, key=lambda name: int(name.split()[2]))
    ],
}


def replicate(cell: Cell, replication: int) -> dict[str, dict | None]:
    """What happened in one replication, by label; None where there is no interval."""
    rng = np.random.default_rng([SEED, zlib.crc32(cell.file.encode()), replication])
    X, y = cell.population.draw(rng, cell.rows[-1])
    records: dict[str, dict | None] = {}
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
    warned = any(issubclass(w.category, mg.errors.MasgradWarning) for w in caught)
    return [judge(a, population.theta, warned) for a in answers]


def judge(a: Answer, theta: np.ndarray, warned: bool) -> dict | None:
    if not np.isfinite([*a.low, *a.high, a.pvalue]).all():
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
    average = {name: np.mean([r[name] for r in good] or [np.nan]) for name in ("length", "reads")}
    return {
        "coverage": float(each.mean()),
        "error": float(each.std(ddof=1) / np.sqrt(len(each))),
        "worst": float(inside.mean(0).min()),
        "length": float(average["length"]),
        "joint": sum(r["joint"] for r in good) / len(records),
        "reads": float(average["reads"]),
        "failed": len(records) - len(good),
        "warned": sum(r["warned"] for r in good),
        "each": each.round(4).tolist(),
    }


def run(cell: Cell, replications: int, pool: ProcessPoolExecutor) -> dict:
    began = time.perf_counter()
    cuts = [*range(0, replications, CHUNK), replications]
    parts = [pool.submit(chunk, cell, a, b) for a, b in pairwise(cuts)]
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
    """Whether a cell has been run as it would be now, if perhaps by another version."""
    kept = load(cell, folder)
    if kept is None or (kept["replications"], kept["seed"]) != (replications, SEED):
        return False
    if kept["source"] != source():
        print(f"{cell.file}: kept, of another version of the source; --fresh runs it again")
    return set(kept["labels"]) == set(cell.labels)


def run_all(studies: list[str], replications: int, fresh: bool, folder: Path) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}
    cells = [cell for study in studies for cell in STUDIES[study]]
    todo = [c for c in cells if fresh or not ready(c, replications * c.more, folder)]
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        for number, cell in enumerate(todo, 1):
            done = run(cell, replications * cell.more, pool)
            (folder / f"{cell.file}.json").write_text(json.dumps(done))
            print(f"[{number}/{len(todo)}] {cell.file}: {done['seconds']:.0f} s", flush=True)
            for label, s in done["labels"].items():
                print(f"    {label}: {percent(s)}, joint {joint(s)}, failed {s['failed']}")


Done = dict[str, dict]
"""The cells of a study, by name."""


def of(done: Done, name: str, label: str, N: int) -> dict:
    return done[name]["labels"][key(label, N)]


def coverages(found: list[dict]) -> list[float]:
    return [100 * s["coverage"] for s in found]


def percent(s: dict) -> str:
    return f"{100 * s['coverage']:.2f} ± {100 * s['error']:.2f}"


def joint(s: dict) -> str:
    q = s["joint"]
    return f"{100 * q:.1f} ± {100 * np.sqrt(q * (1 - q) / len(s['each'])):.1f}"


def span(values, digits: int = 1) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def gap(a: dict, b: dict) -> tuple[float, float]:
    """Paired difference of coverage in points, and its standard error."""
    away = 100 * (np.array(a["each"]) - np.array(b["each"]))
    return float(away.mean()), float(away.std(ddof=1) / np.sqrt(len(away)))


def difference(a: dict, b: dict) -> str:
    return "{:+.2f} ± {:.2f}".format(*gap(a, b))


def table(head: str, rows: list[str]) -> str:
    rule = "|---" * (head.count(" | ") + 1) + "|"
    return "\n".join([f"| {head} |", rule, *(f"| {row} |" for row in rows)]) + "\n"


def troubles(done: Done) -> str:
    found = [s for cell in done.values() for s in cell["labels"].values()]
    failed, warned = (sum(s[name] for s in found) for name in ("failed", "warned"))
    return f"\nFits without an interval: {failed}; with a warning: {warned}.\n"


def times(done: Done) -> str:
    return " or ".join(str(n) for n in sorted({cell["replications"] for cell in done.values()}))


def write_chen(done: Done) -> str:
    ours = {name: of(done, name, "default", 10**5) for name in PUBLISHED if name in done}
    oracle = {name: oracle_length(chen(name), 10**5) for name in ours}
    ratio = [ours[name]["length"] / oracle[name] for name in ours]
    published = [PUBLISHED[name][1] / 100 / oracle[name] for name in ours]
    text = f"""\
N = 1e5, theta* = linspace(0, 1, d), {times(done)} replications, coverage averaged over coordinates,
lengths x 100. Id: independent columns, EC: correlations 0.2, T: 0.5^abs(i-j). Plug-in and batch
means are averaged SGD as published (Chen, Lee, Tong, Zhang 2020, as quoted by Chee et al. 2023),
coverage / length. Oracle: the exact asymptotic covariance.

`mg.fit` covers {span(coverages(ours.values()))} % at {span(ratio, 3)} times the oracle's length;
the published plug-in intervals are {span(published, 3)} times as long as the oracle's.

"""
    rows = [
        f"{name} | {percent(s)} | {100 * s['length']:.2f} | {100 * oracle[name]:.2f} | {r:.3f} | "
        f"{joint(s)} | " + "{:.2f} / {:.2f} | {:.2f} / {:.2f}".format(*PUBLISHED[name])
        for (name, s), r in zip(ours.items(), ratio, strict=True)
    ]
    head = "cell | coverage % | length | oracle | ratio | joint region % | plug-in | batch means"
    return text + table(head, rows) + troubles(done)


def write_misspecified(done: Done) -> str:
    robust, trusting = (
        [of(done, name, label, 5000) for name in WRONG] for label in ("default", "nonrobust")
    )
    text = f"""\
N = 5000, p = 5, design T, {times(done)} replications. With z the whitened row: linear noise has the
standard deviation |z|^2 / p; the true links are Cauchy's, and a logit whose slope is
4 beta p^2 / |z|^4; the counts have variance mu + mu^2.

Robust intervals, the default, cover {span(coverages(robust))} %; those that trust the model cover
{span(coverages(trusting))} %, and at their worst coordinate
{span([100 * s["worst"] for s in trusting])} %.

"""
    rows = [
        f"{name} | {kind} | {percent(s)} | {100 * s['worst']:.1f} | {joint(s)} | {s['length']:.4f}"
        for name, *pair in zip(WRONG, robust, trusting, strict=True)
        for kind, s in zip(("robust", "nonrobust"), pair, strict=True)
    ]
    head = "population | intervals | coverage % | worst coordinate % | joint region % | length"
    return text + table(head, rows) + troubles(done)


def write_small(done: Done) -> str:
    cells = [(name, N) for name in SMALL for N in FEW]
    found = {label: [of(done, *cell[:1], label, cell[1]) for cell in cells] for label in HC}
    said = ", ".join(f"{HC[label]} {span(coverages(s))} %" for label, s in found.items())
    text = f"""\
p = 5, {times(done)} replications; the heteroskedastic linear population of above, and a correct
logistic one. The sizes are the first rows of the same samples.

Over these sizes the intervals cover: {said}.

"""
    by_cell = zip(*found.values(), strict=True)
    rows = [
        " | ".join(map(str, [*cell, *map(percent, s), *map(joint, s)]))
        for cell, s in zip(cells, by_cell, strict=True)
    ]
    head = "population | N | HC0 % | HC1 % | HC3 % | HC0 joint % | HC1 joint % | HC3 joint %"
    return text + table(head, rows) + troubles(done)


def write_variants(done: Done) -> str:
    found = {label: of(done, "logistic", label, 10**5) for label in VARIANTS}
    longer = [s["length"] / found["default"]["length"] for s in found.values()]
    text = f"""\
Logistic, N = 1e5, p = 10, design T, {times(done)} replications; all on the same rows.

Intervals cover {span(coverages(found.values()))} %, and are {span(longer, 3)} times as long as the
default's.

"""
    rows = [
        f"{VARIANTS[label]} | {percent(s)} | {difference(s, found['default'])} | "
        f"{100 * s['worst']:.1f} | {joint(s)} | {s['length']:.4f}"
        for label, s in found.items()
    ]
    head = "how | coverage % | less the default's | worst coordinate % | joint region % | length"
    return text + table(head, rows) + troubles(done)


def write_bias(done: Done) -> str:
    names = ["`mg.fit`", *(f"averaged SGD, constant step {c:g}" for c in CONSTANT)]
    found = [[of(done, "poisson", x, N) for N in MANY] for x in ("default", *CONSTANTS)]
    change = [difference(large, small) for small, _, large in found]
    text = f"""\
Poisson fitted to negative binomial counts, p = 5, independent columns, {times(done)} replications;
SGD in batches of 50, one read from zero, the sandwich at its average. The three sizes are the first
rows of the same samples, and differences of coverage are paired.

From 1e4 to 1e6 rows the coverage of `mg.fit` changes by {change[0]} points; that of averaged SGD by
{change[1]}, {change[2]} and {change[3]}.

"""
    rows = [
        f"{name} | {' | '.join(map(percent, s))} | {difference(s[1], s[0])} | {more} | "
        f"{sum(x['failed'] for x in s)}"
        for name, s, more in zip(names, found, change, strict=True)
    ]
    head = "method | N = 1e4 | N = 1e5 | N = 1e6 | 1e5 less 1e4 | 1e6 less 1e4 | no interval"
    return text + table(head, rows)


def write_steps(done: Done) -> str:
    ours, other = (
        [of(done, "logistic", x, 10**5) for x in labels] for labels in (BY_STEP, DECAYING)
    )
    text = f"""\
Logistic, N = 1e5, p = 10, design T, {times(done)} replications; all on the same rows.
`mg.fit(step_size=c)` counts in units of 1/gamma; averaged SGD takes steps c t^-0.505 in batches of
10, one read from zero, with the sandwich at its average.

Over three decades of c `mg.fit` covers {span(coverages(ours), 2)} %, averaged SGD
{span(coverages(other), 2)} %.

"""
    rows = [
        f"{c:g} | {percent(a)} | {a['length']:.4f} | {a['reads']:.1f} | {percent(b)} | "
        f"{b['length']:.4f}"
        for c, a, b in zip(STEPS, ours, other, strict=True)
    ]
    head = "c | `mg.fit` % | length | reads | averaged SGD % | length"
    return text + table(head, rows) + troubles(done)


SECTIONS = {
    "chen": ("Published cells", write_chen),
    "misspecified": ("Wrong models", write_misspecified),
    "small": ("Few rows", write_small),
    "variants": ("Single reads, updates and chains", write_variants),
    "bias": ("More rows", write_bias),
    "steps": ("The step constant", write_steps),
}
HEADER = """\
# Coverage of 95 % intervals

Last run of `python benchmarks/fits_coverage.py`: how often intervals of `mg.fit` hold theta*,
averaged over coordinates, and how often the joint Wald region does. After ± is the Monte-Carlo
standard error. A replication without a finite interval counts as one that does not cover. Studies
that the last run did not finish are left out.

![Coverage](../docs/coverage.png)
"""


def document(found: dict[str, Done]) -> str:
    """All studies that are complete, and the bars that they meet or miss."""
    sections = [f"## {t}\n\n{write(found[s])}" for s, (t, write) in SECTIONS.items() if s in found]
    bars = [row for study, bar in BARS.items() if study in found for row in bar(found[study])]
    bars += joint_bars({s: found[s] for s in ("chen", "misspecified", "variants") if s in found})
    rows = [f"{bar} | {measured} | {'yes' if met else 'NO'}" for bar, measured, met in bars]
    return "\n".join([HEADER, *sections, "## Bars\n\n" + table("bar | measured | met", rows)])


def within(found: list[dict]) -> tuple[str, bool]:
    values = coverages(found)
    return f"{span(values, 2)} %", min(values) >= 94 and max(values) <= 96


def chen_bars(done: Done) -> list[tuple]:
    ours = {name: of(done, name, "default", 10**5) for name in done}
    most = max(s["length"] / oracle_length(chen(name), 10**5) for name, s in ours.items())
    return [
        (f"{len(ours)} of 12 published cells cover 94 to 96 %", *within(list(ours.values()))),
        ("their length is at most 1.03 x the oracle's", f"at most {most:.3f}", most <= 1.03),
    ]


def wrong_bars(done: Done) -> list[tuple]:
    robust = [of(done, name, "default", 5000) for name in WRONG]
    return [("wrong models, robust: 94 to 96 %", *within(robust))]


def variant_bars(done: Done) -> list[tuple]:
    found = [of(done, "logistic", label, 10**5) for label in VARIANTS]
    return [("single reads, updates, chains: 94 to 96 %", *within(found))]


def bias_bars(done: Done) -> list[tuple]:
    small, middle, large = (of(done, "poisson", "default", N) for N in MANY)
    lowest = min(a / b for a, b in (gap(middle, small), gap(large, middle), gap(large, small)))
    said = f"lowest change {lowest:+.1f} standard errors"
    return [("coverage does not fall with N by over 2 standard errors", said, lowest >= -2)]


def step_bars(done: Done) -> list[tuple]:
    found = [of(done, "logistic", label, 10**5) for label in BY_STEP]
    high, low = (extreme(found, key=lambda s: s["coverage"]) for extreme in (max, min))
    away, error = gap(high, low)
    said = f"highest less lowest {away:.2f} ± {error:.2f} points"
    return [("coverage is flat in step_size, within 2 standard errors", said, away <= 2 * error)]


BARS = {
    "chen": chen_bars,
    "misspecified": wrong_bars,
    "variants": variant_bars,
    "bias": bias_bars,
    "steps": step_bars,
}


def joint_bars(found: dict[str, Done]) -> list[tuple]:
    """The joint region furthest from 95 %, in standard errors, allowing for their number."""
    away = {
        f"{name}, {label}": (s["joint"] - 0.95) / np.sqrt(0.95 * 0.05 / len(s["each"]))
        for done in found.values()
        for name, cell in done.items()
        for label, s in cell["labels"].items()
        if "nonrobust" not in label
    }
    if not away:
        return []
    allowed = stats.norm.ppf(1 - 0.025 / len(away))
    worst = max(away, key=lambda name: abs(away[name]))
    said = f"{away[worst]:+.1f} standard errors ({worst}); {allowed:.1f} allowed in {len(away)}"
    return [("joint regions cover 95 %", said, abs(away[worst]) <= allowed)]


OURS, OTHER, THIRD, FOURTH = "#0072B2", "#D55E00", "#E69F00", "#CC79A7"


def draw(found: dict[str, Done], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.6), layout="constrained")
    panels = {"chen": draw_chen, "misspecified": draw_wrong, "bias": draw_bias, "steps": draw_steps}
    places = ("lower left", "upper left", "lower left", "lower right")
    for ax, place, (study, panel) in zip(axes.flat, places, panels.items(), strict=True):
        ax.set_visible(study in found)
        if study in found:
            panel(ax, found[study])
            ax.legend(fontsize=9, loc=place)
    figure.suptitle("Coverage of 95 % intervals; bars are two Monte-Carlo standard errors")
    figure.savefig(path, dpi=200)
    plt.close(figure)


def points(ax, at, found: list[dict], label: str, style: str, colour: str, flat=False) -> None:
    """Coverages with bars of two standard errors, upwards or to the right."""
    values, errors = coverages(found), [200 * s["error"] for s in found]
    look = {"fmt": style, "color": colour, "label": label, "capsize": 2, "ms": 5}
    if flat:
        ax.errorbar(values, at, xerr=errors, **look)
    else:
        ax.errorbar(at, values, yerr=errors, **look)


def draw_chen(ax, done: Done) -> None:
    names = [name for name in PUBLISHED if name in done][::-1]
    at = np.arange(len(names))
    ax.axvspan(94, 96, color="0.92", lw=0)
    ax.axvline(95, color="black", lw=1, ls=":")
    points(ax, at, [of(done, n, "default", 10**5) for n in names], "mg.fit", "o", OURS, flat=True)
    plug_in, batch_means = ([PUBLISHED[n][column] for n in names] for column in (0, 2))
    ax.plot(plug_in, at, "s", color=THIRD, ms=5, label="averaged SGD, plug-in (published)")
    ax.plot(batch_means, at, "^", color=OTHER, ms=5, label="averaged SGD, batch means (published)")
    below = -3.8  # room for the legend
    ax.set(yticks=at, yticklabels=names, xlabel="coverage, %", ylim=(below, len(names) - 0.4))
    ax.set_title("Published cells, N = 1e5; grey: 94 to 96 %")


def draw_wrong(ax, done: Done) -> None:
    names = list(WRONG)[::-1]
    at = np.arange(len(names))
    ax.axvline(95, color="black", lw=1, ls=":")
    robust, trusting = ([of(done, n, k, 5000) for n in names] for k in ("default", "nonrobust"))
    points(ax, at + 0.1, robust, "mg.fit, robust (default)", "o", OURS, flat=True)
    points(ax, at - 0.1, trusting, "mg.fit, trusting the model", "^", OTHER, flat=True)
    shown = [name.replace(" fitted to ", "\nfitted to ") for name in names]
    ax.set(yticks=at, yticklabels=shown, xlabel="coverage, %", ylim=(-0.6, len(names) - 0.4))
    ax.set_title("Wrong models, N = 5000")


def draw_bias(ax, done: Done) -> None:
    names = ["mg.fit", *(f"averaged SGD, constant step {c:g}" for c in CONSTANT)]
    looks = (("o-", OURS), ("s--", THIRD), ("^--", OTHER), ("v--", FOURTH))
    for label, name, look in zip(("default", *CONSTANTS), names, looks, strict=True):
        points(ax, MANY, [of(done, "poisson", label, N) for N in MANY], name, *look)
    finish(ax, "rows", "More rows: Poisson fitted to negative binomial")


def draw_steps(ax, done: Done) -> None:
    ours, other = ([of(done, "logistic", x, 10**5) for x in k] for k in (BY_STEP, DECAYING))
    points(ax, STEPS, ours, "mg.fit(step_size=c)", "o-", OURS)
    points(ax, STEPS, other, "averaged SGD, steps c t^-0.505", "^--", OTHER)
    finish(ax, "step constant c", "The step constant: logistic, N = 1e5, p = 10")


def finish(ax, xlabel: str, title: str) -> None:
    ax.axhline(95, color="black", lw=1, ls=":")
    ax.set(xscale="log", xlabel=xlabel, ylabel="coverage, %", ylim=(-3, 103), title=title)


def kept(folder: Path) -> dict[str, Done]:
    """Studies of which every cell has been run; of the published cells, those that have."""
    found = {s: {c.name: load(c, folder) for c in cells} for s, cells in STUDIES.items()}
    found["chen"] = {name: cell for name, cell in found["chen"].items() if cell is not None}
    return {study: done for study, done in found.items() if done and None not in done.values()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of 95 % intervals of mg.fit")
    parser.add_argument("--replications", type=int, default=400, help="of the slowest cells")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} replications, kept apart")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--fresh", action="store_true", help="run finished cells again")
    chosen = parser.parse_args()
    folder = HERE / ".coverage" / ("quick" if chosen.quick else "")
    folder.mkdir(parents=True, exist_ok=True)
    run_all(chosen.only, QUICK if chosen.quick else chosen.replications, chosen.fresh, folder)
    text, picture = (folder, folder) if chosen.quick else (HERE, HERE.parent / "docs")
    (text / "coverage.md").write_text(document(kept(folder)))
    draw(kept(folder), picture / "coverage.png")


if __name__ == "__main__":
    main()

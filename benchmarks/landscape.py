"""Do 95 % intervals at each minimum of a landscape hold the population's minimum there?

    python benchmarks/landscape.py                     writes landscape.md here
    python benchmarks/landscape.py --only network      one population; chunks of others are kept
    python benchmarks/landscape.py --minutes 3         stops after that time; the next run goes on

Populations are mixtures of normal laws and a curve with noise, and the models that are fitted to
them have several minima. The population's minima are those of the mean loss under the law itself,
by quadrature: over quantiles of a mixture, or of x with y its mean, since noise only adds a
constant to a square loss. In every replication `mg.landscape` begins near the population's minima
and at random starts; a minimum of the sample belongs to the population's nearest one, up to
symmetries. Chunks of replications are files in benchmarks/.coverage/landscape and are not run again
unless --fresh.
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scipy import stats

import masgrad as mg
from masgrad.models.model import Model

SEED, REPLICATIONS, CHUNK, WORKERS = 20, 400, 20, 2
HERE = Path(__file__).resolve().parent
KEPT = HERE / ".coverage" / "landscape"
NODES, SEARCHES = 8000, 160
"""Nodes of the quadrature, and starts of the search for the population's minima."""

RANDOM_STARTS, JITTER = 3, 0.05
"""Random starts of a replication, and the spread of those near the population's minima."""

FAR = 8.0
"""Standard errors beyond which a minimum of the sample is none of the population's."""

RIDGE, NOISE = 3e-3, 0.2


@dataclass(frozen=True)
class Population:
    """A law of rows, and a model with several minima under it.

    Args:
        words: what it is.
        rows: of a sample.
        model: what is fitted.
        symmetry: of the model.
        draw: rows at random.
        nodes: rows of equal weight that stand for the law.
    """

    words: str
    rows: int
    model: Model
    symmetry: mg.Exchangeable
    draw: Callable[[np.random.Generator, int], object]
    nodes: Callable[[int], object]


def mixture(words: str, rows: int, means: tuple[float, ...], sd: float, parts: int) -> Population:
    """Normal clusters of equal weight, fitted by a mixture of components with variance 1."""

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.choice(means, n) + sd * rng.normal(size=n)

    def nodes(n: int) -> np.ndarray:
        grid = np.linspace(min(means) - 9 * sd, max(means) + 9 * sd, 400_001)
        cdf = np.mean([stats.norm.cdf(grid, m, sd) for m in means], 0)
        return np.interp((np.arange(n) + 0.5) / n, cdf, grid)

    symmetry = mg.Exchangeable(np.arange(parts)[:, None])
    return Population(words, rows, mg.GaussianMixture(parts, 1.0), symmetry, draw, nodes)


def curve(x: np.ndarray) -> np.ndarray:
    return np.sin(3 * x + 0.4) + 0.3 * x


def network_loss(theta, z):
    """A network of two tanh units with a ridge."""
    mean = theta[6] + jnp.tanh(theta[:2] * z["x"] + theta[2:4]) @ theta[4:6]
    return 0.5 * (z["y"] - mean) ** 2 + 0.5 * RIDGE * theta @ theta


def network(words: str, rows: int) -> Population:
    """A wavy curve over an interval, fitted by a network that is too small for it."""

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        x = rng.uniform(-3, 3, n)
        return {"x": x, "y": curve(x) + NOISE * rng.normal(size=n)}

    def nodes(n: int) -> dict[str, np.ndarray]:
        x = 6 * (np.arange(n) + 0.5) / n - 3
        return {"x": x, "y": curve(x)}

    symmetry = mg.Exchangeable([[0, 2, 4], [1, 3, 5]], flips=True)
    return Population(words, rows, mg.CustomLoss(network_loss, 7), symmetry, draw, nodes)


POPULATIONS = {
    "two": mixture(
        "two components, well specified: clusters at -1.5 and 1.5", 2000, (-1.5, 1.5), 1.0, 2
    ),
    "three": mixture(
        "three components with variance 1: clusters at -8, 0 and 3.5 with standard deviation 1.2",
        2000,
        (-8.0, 0.0, 3.5),
        1.2,
        3,
    ),
    "network": network(
        "two tanh units with a ridge of 0.003, 7 parameters: y = sin(3x + 0.4) + 0.3x + noise, x "
        "uniform on (-3, 3), noise of standard deviation 0.2",
        4000,
    ),
}


@cache
def modes(name: str, nodes: int = NODES) -> list[tuple[np.ndarray, float]]:
    """The population's minima with their risks, lowest first."""
    population = POPULATIONS[name]
    found = mg.landscape(
        population.model,
        population.nodes(nodes),
        starts=SEARCHES,
        symmetry=population.symmetry,
        saddles=False,
        halves=False,
        results=False,
    )
    return [(point.theta, point.risk) for point in found.minima]


def replicate(name: str, number: int) -> dict:
    """What happened in one replication: for every mode coverage, no interval, or no minimum."""
    population, known = POPULATIONS[name], modes(name)
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), number])
    rows = population.draw(rng, population.rows)
    near = [theta + JITTER * rng.normal(size=len(theta)) for theta, _ in known]
    checked = population.model.rows(rows)
    far = [population.model.random_theta(checked, rng) for _ in range(RANDOM_STARTS)]
    found = mg.landscape(
        population.model,
        rows,
        starts=np.array([*near, *far]),
        symmetry=population.symmetry,
        saddles=False,
        halves=False,
        progress=False,
    )
    record: dict = {"modes": [None] * len(known), "others": 0, "without": 0}
    for point in found.minima:
        if point.result is None:
            record["without"] += 1
            continue
        k, inside = judged(population, known, point.result)
        if k is None:
            record["others"] += 1
        else:
            record["modes"][k] = inside
    return record


def judged(population: Population, known, result) -> tuple[int | None, list[bool]]:
    """The population's mode to which an estimate belongs, and which intervals hold it."""
    se = np.asarray(result.bse)
    images = [population.symmetry.nearest(theta, result.params, se) for theta, _ in known]
    away = [np.abs((image - result.params) / se).max() for image in images]
    k = int(np.argmin(away))
    low, high = np.asarray(result.conf_int()).T
    inside = (low <= images[k]) & (images[k] <= high)
    return (k if away[k] <= FAR else None), inside.tolist()


def chunk(name: str, begin: int, end: int) -> None:
    """A chunk of replications, into its file."""
    began, path = time.process_time(), KEPT / f"{name}-{begin}.json"
    records = [replicate(name, number) for number in range(begin, end)]
    done = {"records": records, "seconds": round(time.process_time() - began, 1)}
    path.with_suffix(".part").write_text(json.dumps(done))
    path.with_suffix(".part").replace(path)


def run(names: list[str], replications: int, minutes: float) -> None:
    """The chunks that are missing, as many as there is time for."""
    began = time.perf_counter()
    cuts = range(0, replications, CHUNK)
    todo = [(n, b) for b in cuts for n in names if not (KEPT / f"{n}-{b}.json").exists()]
    context = multiprocessing.get_context("spawn")
    ignore = {"initializer": warnings.simplefilter, "initargs": ("ignore",)}
    with ProcessPoolExecutor(WORKERS, context, **ignore) as pool:
        while todo and time.perf_counter() - began < 60 * minutes:
            some, todo = todo[:WORKERS], todo[WORKERS:]
            for part in [pool.submit(chunk, n, b, b + CHUNK) for n, b in some]:
                part.result()


def kept(name: str) -> list[dict]:
    """All replications of a population that were run."""
    files = sorted(KEPT.glob(f"{name}-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    return [record for path in files for record in json.loads(path.read_text())["records"]]


def table(name: str) -> list[str]:
    """The lines of a population."""
    records, known, population = kept(name), modes(name), POPULATIONS[name]
    half = modes(name, NODES // 2)
    quadrature = max(
        np.abs(population.symmetry.nearest(b, a) - a).max()
        for (a, _), (b, _) in zip(known, half, strict=True)
    )
    lines = [
        f"## {population.words[0].upper()}{population.words[1:]}",
        "",
        f"N = {population.rows}, {len(records)} replications; halving the nodes of the quadrature",
        f"moves no coordinate of a mode by more than {quadrature:.0e}.",
        "",
        "| mode | theta | risk | found in | coverage % | worst coordinate % |",
        "|---|---|---|---|---|---|",
    ]
    for k, (theta, risk) in enumerate(known):
        inside = np.array([r["modes"][k] for r in records if r["modes"][k] is not None])
        each = inside.mean(1) if len(inside) else np.full(2, np.nan)
        error = each.std(ddof=1) / np.sqrt(len(each))
        lines.append(
            f"| {k} | {' '.join(f'{t:.3g}' for t in theta)} | {risk:.5f} | "
            f"{len(inside) / len(records):.1%} | {100 * each.mean():.1f} ± {100 * error:.1f} | "
            f"{100 * inside.mean(0).min(initial=1.0):.1f} |"
        )
    without, others = (sum(r[key] for r in records) for key in ("without", "others"))
    return [
        *lines,
        "",
        f"Minima of samples without an interval: {without}; that are none of the population's: "
        f"{others}.",
        "",
    ]


def page() -> str:
    """The page, of all populations that were run."""
    lines = [
        "# Coverage at every minimum of a landscape",
        "",
        "Last run of `python benchmarks/landscape.py`: how often 95 % intervals of the results of",
        "`mg.landscape` hold the population's minimum (mode) to which they belong, averaged over",
        "coordinates. Searches begin near the population's minima (0.05 times a normal vector",
        "away) and at random points. After ± is the Monte-Carlo standard error; one coordinate's",
        "is about 1.1.",
        "A mode is found if the sample has a minimum with a result within 8 standard errors of it;",
        "coverage is among the replications in which it was. A minimum has no interval where",
        "`mg.fit` refuses to give one (so far from quadratic within a standard error is the loss).",
        "",
    ]
    for name in POPULATIONS:
        lines += table(name) if kept(name) else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(POPULATIONS), default=list(POPULATIONS))
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--fresh", action="store_true")
    chosen = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if chosen.fresh:
        for path in KEPT.glob("*.json"):
            path.unlink()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NPROC": "1"}
    run(chosen.only, chosen.replications, chosen.minutes)
    text = page()
    (HERE / "landscape.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

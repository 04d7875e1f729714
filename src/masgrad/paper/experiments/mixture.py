"""The Gaussian mixture: six equivalent optima, an easy and a hard separation.

Fixed by the paper: theta = (1, 2, 3), equal known weights, SNR = 1 / sigma = 3.3 and 1, n = 20,
eta = 0.05, random starts, 100 chains. Chosen here: N = 10,000 rows, T = 200 steps, ten starts
N(2, 1) in each coordinate with 100 chains each (the paper shows one; the figure shows the first).
A chain *arrives* when it is within 0.25, in l2, of a permutation of the rows' optimum. Chains are
grouped by the permutation they settle in, the order of their coordinates at the end.
"""

from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np

from masgrad.chains.trace import Trace
from masgrad.models.mixture import GaussianMixture
from masgrad.paper.experiment import Claim, Experiment, Report, judge
from masgrad.paper.experiments import convergence
from masgrad.paper.experiments.mixture_plot import plot_mixture
from masgrad.paper.experiments.processes import METHODS, NAMES, Sampling, kernels, run_each
from masgrad.theory.plans.optimum import local_minimum

THETA = np.array([1.0, 2.0, 3.0])
ABOUT = (
    "Means of three Gaussians with equal known weights, at distances of 3.3 (easy) and 1 (hard) "
    "standard deviations; the same step for all processes. reached: share of the chains that "
    "come within 0.25, in l2, of a permutation of the rows' optimum; median_step: when, over "
    "those that do; median_step_all: over all chains, null where fewer than half do."
)
SNR = {"easy": 3.3, "hard": 1.0}
BATCH, ETA, STEPS, RADIUS = 20, 0.05, 200, 0.25


class Size(NamedTuple):
    """Rows, starts, and chains from each start."""

    rows: int
    starts: int
    chains: int


FULL, QUICK = Size(10_000, 10, 100), Size(5_000, 5, 20)


@dataclass(frozen=True)
class Separation:
    """One separation's optimum and traces; chains of one start follow each other."""

    snr: float
    optimum: np.ndarray
    traces: dict[str, Trace]
    chains: int

    def distance(self, name: str) -> np.ndarray:
        """l2 distance to the nearest permutation of the optimum, (starts x chains, records)."""
        theta = self.traces[name].theta
        each = [np.linalg.norm(theta - q, axis=-1) for q in orders(self.optimum)]
        return np.min(each, axis=0)

    def settled_together(self) -> dict[str, np.ndarray]:
        """Chains from the first start that ended in the order of coordinates most common there."""
        ranks = {name: rank(t.final[: self.chains]) for name, t in self.traces.items()}
        most = _commonest(np.concatenate(list(ranks.values())))
        return {name: np.flatnonzero((r == most).all(1)) for name, r in ranks.items()}


def mixture_experiment(
    seed: int = 0, quick: bool = False, report: Report = lambda name: None
) -> Experiment:
    """Run the four processes on both separations; `quick` takes 5,000 rows and 5 starts with
    20 chains each.

    Paper: Figure mixture - a non-convex landscape with 3! equivalent optima
    """
    size = QUICK if quick else FULL
    theta0 = np.random.default_rng([seed, 2]).normal(2, 1, size=(size.starts, len(THETA)))
    found = {
        case: _run(snr, theta0, size, [seed, number], report)
        for number, (case, snr) in enumerate(SNR.items())
    }
    numbers = {case: _numbers(separation) for case, separation in found.items()}
    settings = {
        "theta": THETA.tolist(), "snr": SNR, "N": size.rows, "batch_size": BATCH, "eta": ETA,
        "steps": STEPS, "radius": RADIUS, "chains": size.chains, "starts": theta0.tolist(),
    }  # fmt: skip
    title = f"Gaussian mixture, N = {size.rows}, n = {BATCH}, eta = {ETA}"
    return Experiment(
        "mixture", title, ABOUT, settings, numbers, _claims(numbers),
        lambda path: plot_mixture(found, RADIUS, path, title),
    )  # fmt: skip


def mixture_rows(snr: float, N: int, seeds: list[int]) -> np.ndarray:
    """The population of N rows."""
    rng = np.random.default_rng(seeds)
    return rng.choice(THETA, N) + rng.normal(size=N) / snr


def fit(snr: float, rows: np.ndarray) -> np.ndarray:
    """The optimum of the rows that the truth leads to."""
    return local_minimum(GaussianMixture(len(THETA), 1 / snr), rows, THETA)


def orders(optimum: np.ndarray) -> np.ndarray:
    """All permutations of a point, (p!, p)."""
    return np.array(list(permutations(optimum)))


def rank(theta: np.ndarray) -> np.ndarray:
    """Place of each coordinate among its own, from 0: (chains, p)."""
    return np.argsort(np.argsort(theta, axis=1), axis=1)


def _run(
    snr: float, theta0: np.ndarray, size: Size, seeds: list[int], report: Report
) -> Separation:
    rows, model = mixture_rows(snr, size.rows, seeds), GaussianMixture(len(THETA), 1 / snr)
    chosen = kernels(dict.fromkeys(METHODS, ETA))
    starts = dict.fromkeys(chosen, np.repeat(theta0, size.chains, axis=0))
    steps = dict.fromkeys(chosen, STEPS)
    traces = run_each(chosen, Sampling(model, rows, BATCH), starts, steps, seeds, report)
    return Separation(snr, fit(snr, rows), traces, size.chains)


def _numbers(found: Separation) -> dict:
    out: dict = {"snr": found.snr, "optimum": found.optimum.tolist()}
    for name in NAMES:
        key, near = name.lower(), found.distance(name) < RADIUS
        arrived, step = near.any(1), near.argmax(1)
        half = np.where(arrived, step, np.inf)
        out |= {
            f"reached_{key}": float(arrived.mean()),
            f"median_step_{key}": float(np.median(step[arrived])) if arrived.any() else None,
            f"median_step_all_{key}": _finite(np.median(half)),
            f"there_at_end_{key}": float(near[:, -1].mean()),
            f"reached_by_start_{key}": arrived.reshape(-1, found.chains).mean(1).tolist(),
            f"permutations_{key}": _permutations(found.traces[name].final, near[:, -1]),
            f"unevenness_{key}": _unevenness(found, name),
        }
    return out


def _permutations(final: np.ndarray, there: np.ndarray) -> dict[str, int]:
    """How many chains settled in each order of the coordinates, and how many in none."""
    settled = rank(final[there])
    out = {
        "".join(str(place + 1) for place in order): int((settled == order).all(1).sum())
        for order in permutations(range(len(THETA)))
    }
    return out | {"elsewhere": int((~there).sum())}


def _unevenness(found: Separation, name: str) -> float | None:
    """Slowest over fastest coordinate's time constant, the median over starts.

    Of the mean over a start's chains that end in the order most common there, towards the optimum
    in that order. A coordinate that starts within the radius has no way to go and does not count.
    """
    theta, ratios = found.traces[name].theta, []
    for first in range(0, len(theta), found.chains):
        chains = theta[first : first + found.chains]
        ranks = rank(chains[:, -1])
        order = _commonest(ranks)
        mean, target = chains[(ranks == order).all(1)].mean(0), np.sort(found.optimum)[order]
        far = np.abs(mean[0] - target) >= RADIUS
        if far.sum() > 1:
            times = convergence.time_constants(mean[:, far], target[far])
            ratios.append(convergence.or_never(convergence.unevenness(times)))
    return _finite(np.median(ratios)) if ratios else None


def _commonest(ranks: np.ndarray) -> np.ndarray:
    order, count = np.unique(ranks, axis=0, return_counts=True)
    return order[count.argmax()]


def _finite(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _claims(x: dict) -> list[Claim]:
    return [
        *(_found(case, x[case]) for case in SNR),
        *(_accelerated(case, x[case]) for case in SNR),
        *(_together(case, x[case]) for case in SNR),
    ]


def _found(case: str, x: dict) -> Claim:
    """Find: are there at the end; a chain may arrive and leave again."""
    own, limit = x["there_at_end_masgrad"], x["there_at_end_diff_masgrad"]
    return Claim(
        f"SNR {x['snr']} ({case}): MasGrad and diff_MasGrad find a permutation of (1, 2, 3)",
        f"{x['reached_masgrad']:.0%} and {x['reached_diff_masgrad']:.0%} of the chains arrive in "
        f"{STEPS} steps, {own:.0%} and {limit:.0%} are there at the end; SGD "
        f"{x['reached_sgd']:.0%} and {x['there_at_end_sgd']:.0%}",
        judge(min(own, limit) >= 0.9, min(own, limit) >= 0.5),
    )


def _accelerated(case: str, x: dict) -> Claim:
    """Quicker: the median over all chains is at least a tenth sooner."""
    own, other = (convergence.or_never(x[f"median_step_all_{m}"]) for m in ("masgrad", "sgd"))
    return Claim(
        f"SNR {x['snr']} ({case}): quicker than SGD",
        f"half of the chains arrived {_step(own)}, SGD's {_step(other)}",
        judge(own < 0.9 * other, x["reached_masgrad"] > x["reached_sgd"]),
    )


def _together(case: str, x: dict) -> Claim:
    own, other = (convergence.or_never(x[f"unevenness_{m}"]) for m in ("masgrad", "sgd"))
    return Claim(
        f"SNR {x['snr']} ({case}): MasGrad's coordinates converge around the same step, SGD's not",
        "slowest over fastest coordinate, in steps for 63 % of the way, median over starts: "
        f"{_ratio(own)}, SGD {_ratio(other)}",
        judge(own <= 2 < other, own < other),
    )


def _step(step: float) -> str:
    return f"by step {step:.0f}" if np.isfinite(step) else f"not by step {STEPS}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if np.isfinite(ratio) else "beyond the run"

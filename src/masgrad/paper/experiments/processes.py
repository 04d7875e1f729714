"""MasGrad, SGD and their diffusions from one start, and how close each chain is to its diffusion.

A diffusion is run COPIES further times. Two independent copies of a diffusion differ as much as a
chain that had the same law would, so that the copies say what sampling alone does.
"""

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

from masgrad.chains.run import run
from masgrad.chains.trace import Trace
from masgrad.covariance.moments import moments
from masgrad.errors import InterruptedWarning, SingularWarning
from masgrad.kernels.diffusion import diffusion
from masgrad.kernels.kernel import Kernel
from masgrad.kernels.methods import masgrad, sgd
from masgrad.kernels.stability import linearise
from masgrad.models.model import Model
from masgrad.paper.experiment import Claim, Report, judge
from masgrad.types import Array, Rows

METHODS: tuple[str, ...] = ("MasGrad", "SGD")
NAMES: tuple[str, ...] = ("MasGrad", "diff_MasGrad", "SGD", "diff_SGD")
CHAINS, COPIES, LEVEL = 100, 19, 0.05


@dataclass(frozen=True)
class Sampling:
    """The loss, the rows, and the size of the batches drawn from them."""

    model: Model
    rows: Rows
    batch_size: int


@dataclass(frozen=True)
class Processes:
    """The rows' optimum, a trace for each process, and further copies of the diffusions."""

    optimum: np.ndarray
    traces: dict[str, Trace]
    copies: dict[str, list[Trace]]

    def errors(self) -> dict[str, np.ndarray]:
        """l2 distance to the optimum of each process, (chains, records)."""
        return {name: trace.distance(self.optimum) for name, trace in self.traces.items()}

    def rejections(self, steps: int) -> dict:
        """KS tests of chains and copies against the diffusions at every step up to `steps`."""
        out, baselines = {}, []
        for method in METHODS:
            other, copies = self.traces[f"diff_{method}"], self.copies[f"diff_{method}"]
            shares = [reject_share(copy, other, steps) for copy in copies]
            out[f"reject_share_{method.lower()}"] = reject_share(self.traces[method], other, steps)
            out[f"reject_shares_copies_{method.lower()}"] = shares
            baselines += shares
        return out | {"reject_share_baseline": float(np.mean(baselines))}


def closeness_claims(numbers: dict) -> list[Claim]:
    """Reproduced where the chain's share of rejections is not above the largest of the copies'.

    If chain and diffusion had one law, that would fail with probability 1 / (COPIES + 1).
    """
    claims = []
    for method in METHODS:
        share = numbers[f"reject_share_{method.lower()}"]
        copies = numbers[f"reject_shares_copies_{method.lower()}"]
        measured = (
            f"KS tests at 5 % reject {share:.1%} of (step, coordinate) pairs; with a copy of the "
            f"diffusion in the chain's place {np.mean(copies):.1%} on average over {len(copies)}, "
            f"{max(copies):.1%} at most"
        )
        verdict = judge(share <= max(copies), share < 0.2)
        words = f"{method} and diff_{method} are close in distribution"
        claims.append(Claim(words, measured, verdict))
    return claims


def run_processes(
    sampling: Sampling,
    theta0: Array,
    optimum: np.ndarray,
    *,
    step_sizes: Mapping[str, float],
    steps: Mapping[str, int],
    seed: int,
    report: Report,
) -> Processes:
    """Four processes from one start, each with CHAINS chains; `report` is called four times."""
    chosen = kernels(step_sizes)
    counts = {name: 1 + COPIES if name.startswith("diff_") else 1 for name in chosen}
    starts = {name: np.tile(theta0, (CHAINS * count, 1)) for name, count in counts.items()}
    runs = run_each(chosen, sampling, starts, steps, [seed], report)
    parts = {name: split(trace, counts[name]) for name, trace in runs.items()}
    copies = {name: others for name, (_, *others) in parts.items() if others}
    return Processes(optimum, {name: first for name, (first, *_) in parts.items()}, copies)


def kernels(step_sizes: Mapping[str, float]) -> dict[str, Kernel]:
    """The four processes by name, in the order in which they are drawn."""
    base = {"MasGrad": masgrad(step_sizes["MasGrad"]), "SGD": sgd(step_sizes["SGD"])}
    both = base | {f"diff_{name}": diffusion(kernel) for name, kernel in base.items()}
    return {name: both[name] for name in NAMES}


def local_slopes(
    model: Model, data: Rows, optimum: np.ndarray, step_sizes: Mapping[str, float]
) -> dict:
    """Slopes of the log error that the updates linearised at the optimum have."""
    m, chosen = moments(model, optimum, data), kernels(step_sizes)
    radius = {method: linearise(chosen[method], m).radius(step_sizes[method]) for method in METHODS}
    return {f"local_slope_{method.lower()}": float(np.log(r)) for method, r in radius.items()}


def run_each(
    chosen: Mapping[str, Kernel],
    sampling: Sampling,
    starts: Mapping[str, np.ndarray],
    steps: Mapping[str, int],
    seeds: list[int],
    report: Report,
) -> dict[str, Trace]:
    """Run the processes in turn, each from its starts (chains, p) and for its number of steps."""
    out = {}
    for number, (name, kernel) in enumerate(chosen.items()):
        out[name] = paths(kernel, sampling, starts[name], steps[name], [*seeds, number])
        report(name)
    return out


def paths(
    kernel: Kernel,
    sampling: Sampling,
    starts: np.ndarray,
    steps: int,
    seeds: list[int],
    thin: int = 1,
) -> Trace:
    """`run` for an experiment: a chain for each start, silent, and ended by Ctrl-C.

    What a singular covariance met is in the trace's `floored`.
    """
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingularWarning)
        warnings.simplefilter("error", InterruptedWarning)
        try:
            trace = run(
                kernel, sampling.model, sampling.rows, starts, steps, sampling.batch_size,
                len(starts), seed, thin=thin, progress=False,
            )  # fmt: skip
        except InterruptedWarning:
            raise KeyboardInterrupt from None
    assert isinstance(trace, Trace)
    return trace


def split(trace: Trace, count: int) -> list[Trace]:
    """`count` traces of equally many chains, in order; counts of floored steps are divided too."""
    size = len(trace.theta) // count
    parts = [slice(i * size, (i + 1) * size) for i in range(count)]
    return [
        Trace(
            trace.theta[part],
            trace.steps,
            {c - part.start: s for c, s in trace.diverged.items() if part.start <= c < part.stop},
            trace.floored[part],
            trace.note,
        )
        for part in parts
    ]


def reject_share(a: Trace, b: Trace, steps: int) -> float:
    """Share of (step, coordinate) pairs, step 0 left out, at which a KS test rejects."""
    n = len(a.theta)
    pooled = np.concatenate([a.theta[:, 1 : steps + 1], b.theta[:, 1 : steps + 1]])
    order = np.argsort(pooled, axis=0)
    gap = np.abs(np.cumsum(np.where(order < n, 1, -1), axis=0)).max(0)
    return float((gap >= _critical_gap(n)).mean())


@functools.cache
def _critical_gap(n: int) -> int:
    """The least k for which the exact test of two samples of n rejects a KS distance of k / n."""
    for k in range(1, n + 1):
        shifted = np.arange(n) + k - 0.5  # at distance k / n from 0, 1, ..., n - 1
        _, p_value = stats.ks_2samp(np.arange(n), shifted)
        if float(p_value) <= LEVEL:  # type: ignore[arg-type]
            return k
    return n + 1

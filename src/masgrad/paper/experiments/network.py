"""The shallow network: fifty starts on one population, and the loss that each method ends with.

Fixed by the paper: f(x) = relu(1 + W2 relu(1 + W1 x)), square loss, well-specified rows with very
small noise, N = 300, n = 30 with replacement, eta = 0.1 (beta = 600), starts N(0, I), 50
experiments x 100 chains x 100 steps. Not given, and chosen here: x ~ N(0, I) with 2 inputs and 2
hidden units (p = 6; the paper speaks of a coordinate 6), and (3, 2) and (3, 3) beside it, with 20
chains a start; true weights N(0, I); noise 0.1; the population loss is the mean over 10,000 fresh
rows; SGD goes on to step 3000 with 10 chains a start, MasGrad to step 1500 with one.

All experiments are chains of one run: 5000 of them, from 50 starts.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from masgrad.chains.trace import Trace
from masgrad.kernels.kernel import Kernel
from masgrad.paper.experiment import Claim, Experiment, Report, Verdict, judge
from masgrad.paper.experiments.network_basins import CLEARLY, basins
from masgrad.paper.experiments.network_plot import plot_network
from masgrad.paper.experiments.network_population import (
    EXPERIMENTS,
    FRESH,
    NOISE,
    N,
    Population,
    fit,
    network_rows,
    population_loss,
    relabelled,
)
from masgrad.paper.experiments.processes import METHODS, Sampling, kernels, paths, run_each, split

SIZES = ((2, 2), (3, 2), (3, 3))
BATCH, ETA, STEPS, CHAINS, FEW_CHAINS = 30, 0.1, 100, 100, 20
LONGER, LONGER_CHAINS, LONGER_MASGRAD = (300, 1000, 3000), 10, 1500
ABOUT = (
    "A two-layer ReLU network from 50 random starts, each an experiment, on one population; the "
    "same step for all processes. wins: experiments in which diff_MasGrad's population loss, "
    "the mean over chains on fresh rows after 100 steps, is below SGD's; wins_masgrad: "
    "MasGrad's is; wins_by_half: diff_MasGrad's is below half of SGD's. dead_starts: those at "
    "which no row has a gradient, so that MasGrad and SGD stay there. The figure shows the first "
    "other start: the true parameters need not be the optimum that it leads to."
)
WINS = 0.8
"""Share of the experiments won from which the claim of 45 of 50 counts as reproduced."""
COMPARED = ("diff_MasGrad", "MasGrad", "SGD")


@dataclass(frozen=True)
class Shown:
    """The experiment of the figure: its traces, and errors to the nearest optimum."""

    traces: dict[str, Trace]
    truth: np.ndarray
    errors: dict[str, np.ndarray]


def network_experiment(
    seed: int = 0, quick: bool = False, report: Report = lambda name: None
) -> Experiment:
    """Fifty starts for each network.

    `quick` takes 20 chains a start and one network.

    Paper: Figure neural - population loss after 100 steps from 50 random starts
    """
    chains, sizes = (FEW_CHAINS, SIZES[:1]) if quick else (CHAINS, SIZES)
    landscapes = [network_rows(*size, seed) for size in sizes]
    main, chosen = landscapes[0], kernels(dict.fromkeys(METHODS, ETA))
    traces = _run(main, chosen, chains, seed, report)
    found = {name: population_loss(main, trace.final, chains) for name, trace in traces.items()}
    live = main.live
    shown = int(live.argmax())
    numbers = _compare(found) | _notes(traces, chains, shown)
    numbers |= {"dead_starts": int((~live).sum()), "shown_experiment": shown + 1}
    late = _run_on(main, chosen["SGD"], LONGER[-1], LONGER_CHAINS, seed)
    numbers["longer"] = _longer(main, late, found)
    report("SGD, longer")
    own = _run_on(main, chosen["MasGrad"], LONGER_MASGRAD, 1, seed)
    numbers["basins"] = basins(main, own, Trace(late.theta[::LONGER_CHAINS], late.steps))
    report("basins")
    numbers["sizes"] = {main.key: _summary(found)}
    for population in landscapes[1:]:
        compared = {name: chosen[name] for name in COMPARED}
        runs = _run(population, compared, FEW_CHAINS, seed, report)
        losses = {n: population_loss(population, t.final, FEW_CHAINS) for n, t in runs.items()}
        numbers["sizes"][population.key] = _summary(losses)
    title = f"Shallow network {main.key}, N = {N}, n = {BATCH}, eta = {ETA}"
    one = _shown(main, traces, shown)
    return Experiment(
        "network", title, ABOUT, _settings(main, sizes, chains), numbers, _claims(numbers, chains),
        lambda path: plot_network(one.traces, one.truth, one.errors, numbers, path, title),
    )  # fmt: skip


def _settings(main: Population, sizes: tuple, chains: int) -> dict:
    return {
        "inputs": main.model.inputs, "hidden": main.model.hidden, "N": N, "batch_size": BATCH,
        "eta": ETA, "beta": 2 * BATCH / ETA, "noise": NOISE, "steps": STEPS, "chains": chains,
        "chains_other_sizes": FEW_CHAINS,
        "longer": LONGER, "chains_longer": LONGER_CHAINS, "longer_masgrad": LONGER_MASGRAD,
        "sizes": sizes, "fresh_rows": FRESH,
        "truth": main.truth.tolist(), "starts": main.starts.tolist(),
    }  # fmt: skip


def _run(
    population: Population, chosen: dict[str, Kernel], chains: int, seed: int, report: Report
) -> dict[str, Trace]:
    """All experiments at once. A unit that is off at every row has no covariance: V meets its
    floor there, which `floored_share` counts."""
    starts = dict.fromkeys(chosen, np.repeat(population.starts, chains, axis=0))
    sampling = Sampling(population.model, population.rows, BATCH)
    return run_each(chosen, sampling, starts, dict.fromkeys(chosen, STEPS), [seed], report)


def _compare(found: dict[str, np.ndarray]) -> dict:
    """Wins over SGD, and each experiment's mean loss."""
    return _summary(found) | {
        f"losses_{name.lower()}": found[name].mean(1).tolist() for name in COMPARED
    }


def _summary(found: dict[str, np.ndarray]) -> dict:
    loss = {name: found[name].mean(1) for name in COMPARED}
    return {
        "experiments": EXPERIMENTS,
        "wins": int((loss["diff_MasGrad"] < loss["SGD"]).sum()),
        "wins_masgrad": int((loss["MasGrad"] < loss["SGD"]).sum()),
        "wins_by_half": int((loss["diff_MasGrad"] < loss["SGD"] / 2).sum()),
        **{f"median_loss_{name.lower()}": float(np.median(loss[name])) for name in COMPARED},
    }


def _run_on(population: Population, kernel: Kernel, steps: int, chains: int, seed: int) -> Trace:
    """More steps from every start, every hundredth of them recorded."""
    starts = np.repeat(population.starts, chains, axis=0)
    sampling = Sampling(population.model, population.rows, BATCH)
    return paths(kernel, sampling, starts, steps, [seed, 9], thin=STEPS)


def _longer(population: Population, trace: Trace, found: dict[str, np.ndarray]) -> list[dict]:
    """SGD's losses after more steps, beside diff_MasGrad's after 100.

    Of the starts at which SGD had lost, it is clearly worse where its loss is more than half as
    large again; stuck where moreover it fell by less than a tenth since the number of steps before.
    """
    target, before, rows = found["diff_MasGrad"].mean(1), found["SGD"].mean(1), []
    lost = target < before
    for t in LONGER:
        loss = population_loss(population, trace.theta[:, t // STEPS], LONGER_CHAINS).mean(1)
        worse = lost & (loss > CLEARLY * target)
        rows.append(
            {
                "steps": t,
                "wins": int((target < loss).sum()),
                "sgd_clearly_worse": int(worse.sum()),
                "sgd_stuck": int((worse & (loss > 0.9 * before)).sum()),
                "median_loss_sgd": float(np.median(loss)),
                "losses_sgd": loss.tolist(),
            }
        )
        before = loss
    return rows


def _notes(traces: dict[str, Trace], chains: int, shown: int) -> dict:
    """What the losses alone do not show."""
    return {
        "non_gaussian": _non_gaussian(traces["diff_MasGrad"], chains, shown),
        "floored_share": float((traces["MasGrad"].floored > 0).mean()),
        "diverged": {name.lower(): len(trace.diverged) for name, trace in traces.items()},
    }


def _non_gaussian(trace: Trace, chains: int, shown: int) -> dict:
    """Shapiro's test of each coordinate at the last step: the experiment shown, and all."""
    final = trace.final.reshape(EXPERIMENTS, chains, -1)
    p_values = np.array([[_shapiro(x) for x in experiment.T] for experiment in final])
    tests = p_values.shape[1]
    coordinates = np.flatnonzero(p_values[shown] < 0.05 / tests) + 1
    return {
        "shown_experiment": coordinates.tolist(),
        "share": float((p_values < 0.05).mean()),
        "experiments_with_one": int((p_values < 0.05 / tests).any(1).sum()),
    }


def _shapiro(x: np.ndarray) -> float:
    """Its p-value; chains that never moved, or diverged, are not tested."""
    return float(stats.shapiro(x).pvalue) if np.ptp(x) > 0 else 1.0


def _shown(population: Population, traces: dict[str, Trace], number: int) -> Shown:
    own = {name: split(trace, EXPERIMENTS)[number] for name, trace in traces.items()}
    optima = relabelled(population.model, fit(population))
    errors = {
        name: np.min([trace.distance(q) for q in optima], axis=0) for name, trace in own.items()
    }
    return Shown(own, population.truth, errors)


def _claims(x: dict, chains: int) -> list[Claim]:
    E, wins = x["experiments"], x["wins"]
    sizes = "; ".join(f"{k}: {s['wins']}" for k, s in x["sizes"].items())
    odd, last = x["non_gaussian"], x["longer"][-1]
    some = odd["experiments_with_one"]
    named = ", ".join(map(str, odd["shown_experiment"])) or "none"
    late, stuck = last["sgd_clearly_worse"], last["sgd_stuck"]
    return [
        Claim(
            "diff_MasGrad's population loss is below SGD's in 45 of 50 experiments",
            f"{wins} of {E} ({sizes}); MasGrad {x['wins_masgrad']}; {x['dead_starts']} starts have "
            f"no gradient. Reproduced: at least {WINS:.0%}",
            judge(wins >= WINS * E, wins > E / 2),
        ),
        Claim(
            "It is much smaller",
            f"less than half of SGD's in {x['wins_by_half']} of {E}; medians "
            f"{x['median_loss_diff_masgrad']:.3f} and {x['median_loss_sgd']:.3f}",
            judge(x["wins_by_half"] >= E / 2, x["wins_by_half"] >= E / 4),
        ),
        Claim(
            "The distribution is rather non-Gaussian (coordinates 2 and 6)",
            f"experiment {x['shown_experiment']}: coordinates {named}; some coordinate in {some} "
            f"of {E} experiments",
            _power(chains, judge(some > E / 2, some > E / 10)),
        ),
        Claim(
            "Explanation 2: SGD has not yet converged",
            f"of the {wins} starts at which SGD had lost, after {last['steps']} steps its loss is "
            f"still clearly (by half) above diff_MasGrad's at step {STEPS} in {late}",
            judge(late <= 0.1 * wins, late <= 0.5 * wins),
        ),
        Claim(
            "Explanation 1: MasGrad finds better local optima",
            f"SGD is stuck (clearly worse, and no longer falling) at {stuck} of these {wins}",
            judge(stuck >= 0.5 * wins, stuck > 0.1 * wins),
        ),
        _basins_claim(x["basins"], E),
    ]


def _basins_claim(x: dict[str, int], experiments: int) -> Claim:
    """Not the paper's: the same question without the steps that are still to go."""
    return Claim(
        "Beside the paper: which method's optimum is clearly better, of one chain a start",
        f"both polished from step {STEPS}: MasGrad's at {x['polished_early_masgrad_better']} of "
        f"{experiments} starts, SGD's at {x['polished_early_sgd_better']}; from steps "
        f"{LONGER_MASGRAD} and {LONGER[-1]}: {x['polished_late_masgrad_better']} and "
        f"{x['polished_late_sgd_better']}; losses there, unpolished: "
        f"{x['late_masgrad_better']} and {x['late_sgd_better']}",
        None,
    )


def _power(chains: int, verdict: Verdict) -> Verdict | None:
    """A test of normality judges nothing from fewer chains than the paper's."""
    return verdict if chains >= CHAINS else None

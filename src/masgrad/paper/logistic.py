"""The logistic experiment: four processes side by side (Numerical Experiments, and appendix).

X in R^{500 x 4} standard Gaussian, y from a logistic model with w* uniform on [1, 2]^4; batches of
n = 25 drawn with replacement, eta = 0.2 for all, hence beta = 2n / eta = 250; 100 chains, 100
steps. The rows are the population here, so the truth that is drawn is their optimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from masgrad.chains.run import run
from masgrad.chains.trace import Trace
from masgrad.errors import MasgradError
from masgrad.kernels.diffusion import diffusion
from masgrad.kernels.methods import masgrad, sgd
from masgrad.kernels.stability import minimise
from masgrad.models.glm import Logistic
from masgrad.theory.distances import Closeness, closeness

N, P, BATCH, ETA, CHAINS, STEPS = 500, 4, 25, 0.2, 100, 100


@dataclass(frozen=True)
class Experiment:
    """The rows' optimum, and a trace for each process; `copies` are second runs of diffusions."""

    optimum: np.ndarray
    traces: dict[str, Trace]
    copies: dict[str, Trace]

    def closeness(self, name: str, step: int) -> Closeness:
        """A chain against its diffusion at one step, beside two copies of the diffusion."""
        chain, other = self.traces[name], self.traces[f"diff_{name}"]
        copy = self.copies[f"diff_{name}"]
        return closeness(chain.theta[:, step], other.theta[:, step], copy.theta[:, step])


def logistic_rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The experiment's population of 500 rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P))
    w = rng.uniform(1, 2, P)
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ w))).astype(float)


def logistic_experiment(
    seed: int = 0, steps: int = STEPS, report: Callable[[str], None] = lambda name: None
) -> Experiment:
    """Run MasGrad, SGD and their diffusions from one random start.

    Paper: Figure logistic - four processes on one population
    """
    data, model = logistic_rows(seed), Logistic()
    optimum = minimise(model, data)
    if optimum is None:
        raise MasgradError(f"the rows of seed {seed} are separable: they have no optimum")
    theta0 = np.random.default_rng([seed, 1]).normal(size=P)
    kernels = {"MasGrad": masgrad(ETA), "SGD": sgd(ETA)}
    kernels |= {f"diff_{name}": diffusion(kernel) for name, kernel in kernels.items()}

    def chains(kernel, number: int) -> Trace:
        return run(  # type: ignore[return-value]
            kernel, model, data, theta0, steps, BATCH, CHAINS, seed=1000 * seed + number
        )

    traces, copies = {}, {}
    for number, (name, kernel) in enumerate(kernels.items()):
        traces[name] = chains(kernel, number)
        if name.startswith("diff_"):
            copies[name] = chains(kernel, number + len(kernels))
        report(name)
    return Experiment(optimum, traces, copies)

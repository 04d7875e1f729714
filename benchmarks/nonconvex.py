"""Minima of ten losses that are not convex, from the same starts: `mg.fit` and SciPy's BFGS.

    python benchmarks/nonconvex.py [--starts 20] [--seed 0] [--seeds 8] [--page PAGE.md]

An end is a minimum if the gradient vanishes there and H, by automatic differentiation over all
rows, has no negative eigenvalue. Both programs differentiate the same function, and both are timed
after a first call, which compiles.
"""

import argparse
import pathlib
import time
import warnings
from dataclasses import dataclass

import jax
import numpy as np
from scipy.optimize import minimize

import masgrad as mg
from masgrad.types import float64
from nonconvex_problems import NonConvex, problems

SAME_RISK = 1e-6
"""Difference of risks up to which two ends are equally good."""

SMALL_GRADIENT, NEGATIVE = 1e-4, -1e-5
"""Of the mean loss: gradient of an end, and eigenvalue of H below which it is a saddle."""


@dataclass(frozen=True)
class End:
    """Where one program ended from one start.

    Args:
        risk: the mean loss; infinite if the program gave up.
        kind: "minimum", "saddle", "not stationary" or "refused".
        seconds: that it took.
        said: the error, if there was one.
    """

    risk: float
    kind: str
    seconds: float
    said: str = ""


class MeanLoss:
    """The mean loss of a problem with its derivatives, compiled."""

    def __init__(self, problem: NonConvex):
        def risk(theta):
            return jax.vmap(problem.loss, (None, 0))(theta, problem.rows).mean()

        self.value = jax.jit(risk)
        self.value_and_gradient = jax.jit(jax.value_and_grad(risk))
        self.hessian = jax.jit(jax.hessian(risk))

    def end(self, theta: np.ndarray, seconds: float) -> End:
        """What kind of point an end is."""
        risk, gradient = self.value_and_gradient(theta)
        lowest = np.linalg.eigvalsh(self.hessian(theta))[0]
        if not np.abs(gradient).max() < SMALL_GRADIENT:
            kind = "not stationary"
        else:
            kind = "minimum" if lowest > NEGATIVE else "saddle"
        return End(float(risk), kind, seconds)


def by_bfgs(mean_loss: MeanLoss, start: np.ndarray) -> End:
    def both(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = mean_loss.value_and_gradient(theta)
        return float(value), np.asarray(gradient)

    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = minimize(both, start, jac=True, method="BFGS")
    return mean_loss.end(found.x, time.perf_counter() - begin)


def by_fit(mean_loss: MeanLoss, model: mg.CustomLoss, problem: NonConvex, start: np.ndarray) -> End:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            r = mg.fit(model, problem.rows, start=start)
        except mg.errors.InputError as error:
            return End(np.inf, "refused", time.perf_counter() - begin, str(error))
    seconds = time.perf_counter() - begin
    return mean_loss.end(r.finite_theta, seconds)  # with a value for what is not identified


@float64
def compare(problem: NonConvex, count: int, seed: int) -> tuple[list[End], list[End]]:
    """Ends of BFGS and of `mg.fit` from the same starts, in turn."""
    mean_loss, model = MeanLoss(problem), mg.CustomLoss(problem.loss, problem.dim)
    starts = problem.starts(count + 1, seed)
    for program in (
        lambda s: by_bfgs(mean_loss, s),
        lambda s: by_fit(mean_loss, model, problem, s),
    ):
        program(starts[0])
    pairs = [(by_bfgs(mean_loss, s), by_fit(mean_loss, model, problem, s)) for s in starts[1:]]
    return [a for a, _ in pairs], [b for _, b in pairs]


@dataclass(frozen=True)
class Counts:
    """Of the ends of both programs, BFGS first: minima, and those of the lowest risk found."""

    minima: tuple[int, int]
    lowest: tuple[int, int]

    @classmethod
    def of(cls, bfgs: list[End], fit: list[End]) -> "Counts":
        best = min(end.risk for end in bfgs + fit if end.kind == "minimum") + SAME_RISK
        minima = [[end for end in ends if end.kind == "minimum"] for ends in (bfgs, fit)]
        lowest = [sum(end.risk <= best for end in ends) for ends in minima]
        return cls((len(minima[0]), len(minima[1])), (lowest[0], lowest[1]))


def line(name: str, pairs: list[tuple[list[End], list[End]]]) -> str:
    """One line of the table, from the ends of BFGS and of fit on the rows of each seed."""
    counts = [Counts.of(*pair) for pair in pairs]
    minima, lowest = (
        " / ".join(str(sum(getattr(c, of)[k] for c in counts)) for k in (0, 1))
        for of in ("minima", "lowest")
    )
    both = [ends for pair in pairs for ends in zip(*pair, strict=True)]
    lower = sum(b.risk <= a.risk + SAME_RISK for a, b in both)
    saddles = sum(b.kind == "saddle" for _, b in both)
    seconds = [float(np.median([ends[k].seconds for ends in both])) for k in (0, 1)]
    cells = [
        name,
        minima,
        lowest,
        f"{lower} of {len(both)}",
        f"{saddles}",
        f"{1e3 * seconds[0]:.3g} / {1e3 * seconds[1]:.3g}",
        f"{seconds[1] / seconds[0]:.2g}",
    ]
    return "| " + " | ".join(cells) + " |"


HEADER = """\
| problem | minima: BFGS / fit | lowest risk: BFGS / fit | fit as low or lower | saddles of fit | \
ms: BFGS / fit | ratio |
|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the rows and the starts")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from that one on")
    parser.add_argument("--page", type=pathlib.Path, help="where to write the page")
    parser.add_argument("--verbose", action="store_true", help="print every end of fit")
    chosen = parser.parse_args()
    lines, seeds = [HEADER], range(chosen.seed, chosen.seed + chosen.seeds)
    print(HEADER, flush=True)
    for of_seeds in zip(*map(problems, seeds), strict=True):
        pairs = [
            compare(problem, chosen.starts, seed)
            for problem, seed in zip(of_seeds, seeds, strict=True)
        ]
        lines.append(line(of_seeds[0].name, pairs))
        print(lines[-1], flush=True)
        for bfgs, fit in pairs if chosen.verbose else ():
            for a, b in zip(bfgs, fit, strict=True):
                print(f"    {a.kind} {a.risk:.6g}   {b.kind} {b.risk:.6g} {b.said[:150]}")
    if chosen.page:
        introduction = (__doc__ or "").split("\n\n")
        text = "\n\n".join([introduction[0], introduction[2]])
        said = f"{chosen.starts} starts on the rows of each of {chosen.seeds} seeds, from "
        said += f"{chosen.seed} on; medians of times."
        chosen.page.write_text(f"# {text}\n{said}\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

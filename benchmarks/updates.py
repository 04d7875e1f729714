"""Results that are updated, batch after batch, against one fit of all rows.

    python benchmarks/updates.py [--seed 7] [--cases 300] [--coverage 150]

Each case draws a family, a design, the rows of the first fit, the size and number of batches, and
whether batches are alike, differ in their columns, or have drifting coefficients. The oracle is
Newton's method over all rows, to rounding. Printed are, for each kind of case: how often the stated
remainder (`fit_info.remainder`) is not an upper bound, the ratio of stated to true distance where
the truth exceeds 1e-5 standard errors, and how far standard errors are off. The last run is in
updates.md; development used the seeds 1 and 2.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import masgrad as mg
from masgrad.models.model import Model as Loss

DESIGNS = ("normal", "heavy tails", "dummies", "lognormal", "correlated")
KINDS = ("alike", "other columns", "drift")


def negative_binomial(theta, z):
    """Negative binomial loss with alpha = 1 and a log link, as a loss of the user's own."""
    x, y = z
    t = x @ theta
    return (y + 1.0) * jnp.logaddexp(0.0, t) - y * t


@dataclass(frozen=True)
class Model:
    """A loss of p parameters, and how its responses are drawn."""

    name: str
    loss: Callable[[int], Loss]
    respond: Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _counts(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(np.clip(t, -20, 6))).astype(float)


def _overdispersed(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(np.clip(t, -20, 6)) * rng.gamma(1.0, size=len(t))).astype(float)


def _classes(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return (rng.random(len(t)) < 1 / (1 + np.exp(-t))).astype(float)


def _positive(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return rng.gamma(2.0, np.exp(np.clip(t, -20, 6)) / 2.0) + 1e-12


MODELS = (
    Model("gaussian", lambda p: mg.Linear(), lambda rng, t: t + rng.standard_t(5, len(t))),
    Model("logistic", lambda p: mg.Logistic(), _classes),
    Model("probit", lambda p: mg.GLM("binomial", "probit"), _classes),
    Model("poisson", lambda p: mg.Poisson(), _counts),
    Model("poisson, wrong", lambda p: mg.Poisson(), _overdispersed),
    Model("gamma log", lambda p: mg.Gamma("log"), _positive),
    Model("negative binomial", lambda p: mg.NegativeBinomial(1.0), _overdispersed),
    Model("custom loss", lambda p: mg.CustomLoss(negative_binomial, p), _overdispersed),
)


@dataclass(frozen=True)
class Case:
    """Batches of rows, in the order in which they come."""

    model: Model
    design: str
    kind: str
    batches: list[tuple[np.ndarray, np.ndarray]]

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        X, y = zip(*self.batches, strict=True)
        return np.concatenate(X), np.concatenate(y)


@dataclass(frozen=True)
class Outcome:
    """Distances from the optimum, stated and true, in standard errors; and the errors' error."""

    case: Case
    stated: float
    contrasts: float
    coefficients: float
    errors: float
    status: str

    @property
    def true(self) -> float:
        return max(self.contrasts, self.coefficients)


def columns(rng: np.random.Generator, design: str, rows: int, p: int) -> np.ndarray:
    """A design with an intercept."""
    Z = rng.normal(size=(rows, p - 1))
    if design == "heavy tails":
        Z = rng.standard_t(5, size=(rows, p - 1)) / 1.3
    elif design == "dummies":
        Z = (rng.random((rows, p - 1)) < 0.2).astype(float)
    elif design == "lognormal":
        Z = (np.exp(0.5 * Z) - np.exp(0.125)) / 0.6
    elif design == "correlated":
        Z = np.sqrt(0.3) * Z + np.sqrt(0.7) * rng.normal(size=(rows, 1))
    return np.column_stack([np.ones(rows), Z])


def draw_case(rng: np.random.Generator) -> Case:
    """A random case; three in ten have a few large batches, of which reads are made."""
    model, design = MODELS[rng.integers(len(MODELS))], DESIGNS[rng.integers(len(DESIGNS))]
    kind, p = KINDS[rng.choice(3, p=[0.5, 0.25, 0.25])], int(rng.integers(2, 9))
    large = rng.random() < 0.1
    if large:
        first, size, count = 40_000, 40_000, int(rng.integers(1, 4))
    else:
        first = int(np.exp(rng.uniform(np.log(40 * p), np.log(5000))))
        size, count = int(np.exp(rng.uniform(np.log(5), np.log(3000)))), int(rng.integers(1, 41))
    theta = np.r_[rng.normal(0, 0.3), rng.normal(0, 0.5, p - 1) / np.sqrt(p - 1)]
    way = rng.normal(0, 0.3, p) / np.sqrt(p)
    batches = []
    for k in range(count + 1):
        X = columns(rng, design, size if k else first, p)
        if kind == "other columns":
            X[:, 1:] = X[:, 1:] * rng.uniform(0.5, 1.5) + rng.normal(0, 0.3)
        at = theta + way * k / count if kind == "drift" else theta
        batches.append((X, model.respond(rng, X @ at)))
    return Case(model, design, kind, batches)


def moments(model: Loss, rows: tuple, theta: np.ndarray) -> tuple[np.ndarray, ...]:
    """The gradient, H and M of all rows."""
    pieces = range(0, len(rows[1]), 4096)
    sums = [model.row_sums(theta, (rows[0][i : i + 4096], rows[1][i : i + 4096])) for i in pieces]
    return tuple(np.sum([np.asarray(s[k]) for s in sums], 0) for k in range(3))


def optimum(model: Loss, rows: tuple, theta: np.ndarray) -> tuple[np.ndarray, ...]:
    """The optimum of all rows by Newton's method, with H and M there."""
    for _ in range(30):
        g, H, _ = moments(model, rows, theta)
        step = np.linalg.solve(H, g)
        theta = theta - step
        if step @ H @ step < 1e-22 * len(rows[1]):
            break
    return theta, *moments(model, rows, theta)[1:]


def run(case: Case) -> Outcome:
    """Update, and compare."""
    model = case.model.loss(case.batches[0][0].shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        r = mg.fit(model, case.batches[0])
        for batch in case.batches[1:]:
            r = r.update(batch)
    theta, H, M = optimum(model, case.rows, r.theta)
    C = np.linalg.solve(H, np.linalg.solve(H, M).T)
    se, off = np.sqrt(np.diag(C)), r.theta - theta
    contrasts = float(np.sqrt(off @ np.linalg.solve(C, off) / len(off)))
    errors = r.bse / se - 1
    return Outcome(
        case, r.fit_info.remainder, contrasts, float(np.abs(off / se).max()),
        float(errors[np.argmax(np.abs(errors))]), r.status.name,
    )  # fmt: skip


def report(name: str, outcomes: list[Outcome]) -> str:
    """One line of the table."""
    true = np.array([o.true for o in outcomes])
    stated, errors = np.array([o.stated for o in outcomes]), np.array([o.errors for o in outcomes])
    beyond = int((true > np.maximum(stated, 1e-6)).sum())
    seen = true > 1e-5
    ratio = stated[seen] / true[seen] if seen.any() else np.array([np.nan])
    silent = sum(o.true > 0.1 and o.status in ("CONVERGED", "APPROXIMATE") for o in outcomes)
    return (
        f"| {name} | {len(outcomes)} | {beyond} | {silent} | {np.median(true):.1e} | "
        f"{true.max():.1e} | {np.median(ratio):.1f} | {np.quantile(ratio, 0.95):.0f} | "
        f"{100 * np.quantile(np.abs(errors), 0.5):.2f} | {100 * np.abs(errors).max():.1f} | "
        f"{int((np.abs(errors) > 0.02).sum())} |"
    )


HEADER = """| cases | n | beyond the stated | silent above 0.1 | true, median | true, largest | \
stated/true, median | 95 % | errors off, median % | largest % | above 2 % |
|---|---|---|---|---|---|---|---|---|---|---|"""


def coverage(rng: np.random.Generator, replications: int) -> str:
    """How often 95 % intervals hold theta* after 40 updates of ten rows (logistic)."""
    theta, hits = np.array([0.2, 0.4, -0.3]), []
    for _ in range(replications):
        X = columns(rng, "normal", 500, 3)
        y = _classes(rng, X @ theta)
        r = mg.fit(mg.Logistic(), (X[:100], y[:100]), cov_type="HC1")
        for start in range(100, 500, 10):
            r = r.update((X[start : start + 10], y[start : start + 10]))
        low, high = np.asarray(r.conf_int()).T
        hits.append((low <= theta) & (theta <= high))
    rate = float(np.mean(hits))
    return f"coverage {100 * rate:.1f} % +- {100 * np.sqrt(rate * (1 - rate) / len(hits) / 3):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--coverage", type=int, default=0, help="replications")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    outcomes = [run(draw_case(rng)) for _ in range(asked.cases)]
    print(HEADER)
    print(report("all", outcomes))
    for kind in KINDS:
        print(report(kind, [o for o in outcomes if o.case.kind == kind]))
    for model in MODELS:
        print(report(model.name, [o for o in outcomes if o.case.model is model]))
    if asked.coverage:
        print(coverage(rng, asked.coverage))


if __name__ == "__main__":
    main()

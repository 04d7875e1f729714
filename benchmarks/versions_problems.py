"""Problems on which `versions.py` compares two source trees: pairs of a name and a fit."""

import pathlib
import sys
from functools import partial

import numpy as np
import pandas as pd
from scipy.special import expit

import masgrad as mg

COVS = {name: {"cov_type": name} for name in ("robust", "HC1", "HC3", "nonrobust")}
PASSES = {"one read": {"passes": 1}, "converge": {"passes": "converge"}}
FAMILIES = {
    "linear": (lambda: mg.Linear(), lambda rng, t: t + rng.normal(size=len(t))),
    "logistic": (lambda: mg.Logistic(), lambda rng, t: 1.0 * (rng.random(len(t)) < expit(t))),
    "poisson": (lambda: mg.Poisson(), lambda rng, t: 1.0 * rng.poisson(np.exp(t))),
    "gamma": (lambda: mg.Gamma("log"), lambda rng, t: rng.gamma(2.0, np.exp(t) / 2)),
}
"""Name: the model, and a response drawn with a linear predictor t."""


def draw(family, N, p, rho=0.0):
    """A constant column and AR(rho) ones, a third of the coefficients 0, and a response."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, p))
    for j in range(2, p):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    X[:, 0] = 1.0
    theta = np.where(np.arange(p) % 3 == 2, 0.0, np.linspace(0.5, -0.5, p)) * np.sqrt(5 / p)
    return X, FAMILIES[family][1](rng, X @ theta)


def arrays(family, N, p, rho=0.0, **options):
    """A function that fits a drawn problem."""
    return partial(mg.fit, FAMILIES[family][0](), draw(family, N, p, rho), **options)


def parquet(folder, N, p):
    """A formula, and a file in eight row groups: p columns, a category g, a response y."""
    names = [f"x{j}" for j in range(p)]
    path = pathlib.Path(folder) / f"rows-{N}-{p}.parquet"
    if not path.exists():
        X, y = draw("logistic", N, p + 1)
        g = np.random.default_rng(1).choice(list("abcde"), N)
        frame = pd.DataFrame(X[:, 1:], columns=names).assign(g=g, y=y)
        frame.to_parquet(path, row_group_size=N // 8)
    return f"y ~ {' + '.join(names)} + C(g)", path


def problems(folder):
    for part in (records(), large(), files(folder), losses(), penalised(), troubled()):
        yield from part


def each(name, fit, choices):
    """Problems that differ in their options."""
    for label, options in choices.items():
        yield f"{name} {label}", partial(fit, **options)


def records():
    """Real data: as they are, and repeated and shuffled, so that most rows are not kept."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
    from real_data import RECORDS

    for record in RECORDS:
        yield from each(record.name, of_record(record, record.table), COVS)
        copies = [record.table] * -(-20_000 // len(record.table))
        many = pd.concat(copies).sample(frac=1.0, random_state=0)
        fit = partial(of_record(record, many), memory="1MB", block_size=512)
        yield from each(f"{record.name} blocks", fit, COVS | PASSES)


def of_record(record, table):
    from real_data import options_of

    own = {"negative_binomial": mg.NegativeBinomial, "tweedie": mg.Tweedie}.get(record.family)
    family = own(record.parameter) if own else record.family
    options = options_of(record) | ({"link": record.link} if record.link else {})
    return partial(mg.glm, record.formula, table, family, **options)


def large(N=200_000):
    rng = np.random.default_rng(2)
    w, offset = rng.integers(0, 4, N).astype(float), 0.2 * rng.normal(size=N)
    choices = COVS | PASSES | {
        "seed": {"seed": 1}, "start": {"start": np.full(5, 0.1)}, "one thread": {"threads": 1},
        "weights": {"weights": w}, "offset": {"offset": offset},
        "both, one read": {"weights": w, "offset": offset, "passes": 1},
    }  # fmt: skip
    for family in FAMILIES:
        yield from each(f"{family} large", arrays(family, N, 5, 0.5), choices)
        yield from parts(family, *draw(family, N, 5, 0.5), w + 1)


def pieces(X, y, size=5000):
    """Blocks of rows."""
    return ((X[i : i + size], y[i : i + size]) for i in range(0, len(y), size))


def parts(family, X, y, w):
    """The rows in blocks, and in two halves."""
    fit = partial(mg.fit, FAMILIES[family][0]())

    def blocks(*columns):
        return (tuple(a[s : s + 9000] for a in columns) for s in range(0, len(y), 9000))

    yield f"{family} iterator", lambda: fit(blocks(X, y))
    yield f"{family} stream, weights", lambda: fit(mg.Stream(lambda: blocks(X, y, w)))
    for n in (2000, len(y) // 2):
        old, new = ((X[s : s + n], y[s : s + n]) for s in (0, n))
        yield f"{family} update {n}", lambda old=old, new=new: fit(old).update(new)


def files(folder):
    fit = partial(mg.glm, *parquet(folder, 200_000, 3), "binomial")
    choices = {
        "L1": {"penalty": mg.L1(0.01)}, "offset": {"offset": "x1"}, "weights": {"weights": "w"},
        "little memory": {"memory": "2MB"}, "L1 one read": {"penalty": mg.L1(0.01), "passes": 1},
        "L2 HC1 one read": {"penalty": mg.L2(0.01), "passes": 1, "cov_type": "HC1"},
    }  # fmt: skip
    yield from each("parquet", fit, COVS | PASSES | choices)


def losses():
    import jax.numpy as jnp

    rng = np.random.default_rng(3)
    z = 3.0 * (rng.random(60_000) < 0.5) + rng.normal(size=60_000)
    loss = mg.CustomLoss(lambda t, z: jnp.sqrt(1 + (z[1] - z[0] @ t) ** 2), 4)
    for N in (1000, 60_000):
        for family in FAMILIES:
            yield f"{family} chains {N}", arrays(family, N, 4, method="chains")
        yield from each(f"custom {N}", partial(mg.fit, loss, draw("linear", N, 4)), COVS | PASSES)
        yield f"mixture {N}", partial(mg.fit, mg.GaussianMixture(2, 1.0), z[:N])


def penalised():
    kinds = {
        "L1": mg.L1(0.05), "L1 cv": mg.L1("cv"), "L1 bic": mg.L1("bic"), "L2": mg.L2(0.1),
        "groups": mg.GroupLasso(0.05, [-1, *np.repeat([0, 1, 2], [4, 4, 3])]),
        "elastic": mg.ElasticNet(0.05), "box": mg.Box(-0.1, 0.1), "positive": mg.NonNegative(),
    }  # fmt: skip
    choices = {label: {"penalty": h} for label, h in kinds.items()}
    for label in ("L1", "L2"):
        for cov in ("HC0", "HC1", "HC3", "nonrobust"):
            choices[f"{label} {cov}"] = choices[label] | {"cov_type": cov}
    for label in ("L2 HC1", "L1", "groups", "positive"):
        choices[f"{label} one read"] = choices[label] | {"passes": 1}
    ranks = {"plain": {}, "nuclear": {"penalty": mg.Nuclear(0.15, (4, 3))}}
    once = {k: v for k, v in choices.items() if k.endswith("one read")}
    for family in ("logistic", "gamma"):
        X, y = draw(family, 60_000, 12)
        fit = partial(mg.fit, FAMILIES[family][0](), mg.Stream(partial(pieces, X, y)))
        yield from each(f"{family} stream", fit, once | {"L1 cv": choices["L1 cv"]})
    for N in (400, 60_000):
        for family in FAMILIES:
            yield from each(f"{family} {N}", arrays(family, N, 12), choices)
        X, y = draw("linear", N, 12)
        fit = partial(mg.fit, mg.TraceRegression(4, 3), (X.reshape(N, 4, 3), y))
        yield from each(f"trace {N}", fit, ranks)


def troubled():
    choices = {"plain": {}, "L1": {"penalty": mg.L1(0.01)}, "one read": {"passes": 1}}
    for N in (1000, 100_000):
        X, y = draw("logistic", N, 4)
        order, level, missing = np.argsort(X[:, 1]), X.copy(), X.copy()
        level[:, 3], missing[N // 2, 1] = (X[:, 3] > 1) * y, np.nan
        cases = {
            "separated": (X, 1.0 * (X[:, 1] > 0.5)), "separated level": (level, y),
            "empty column": (X * [1, 1, 0, 1], y), "collinear": (X[:, [0, 1, 2, 1]], y),
            "missing": (missing, y), "one class": (X, 0 * y), "response 2": (X, 2 * y),
            "lengths": (X, y[1:]), "sorted": (X[order], y[order]), "wide": (X[:3], y[:3]),
            "rare": (np.column_stack([X, np.arange(N) % 400 == 0]), y),
        }  # fmt: skip
        for label, data in cases.items():
            fit = partial(mg.fit, mg.Logistic(), data)
            yield from each(f"{label} {N}", fit, choices)
        fit = partial(mg.fit, mg.Linear(), (X, X.sum(1)))
        yield from each(f"perfect fit {N}", fit, choices)


CONTESTS = {
    "logistic 1,000,000 x 50": (1, lambda _: arrays("logistic", 1_000_000, 50, 0.9)),
    "the same x 20, one read": (1, lambda _: arrays("logistic", 1_000_000, 20, 0.9, passes=1)),
    "poisson 200,000 x 20": (2, lambda _: arrays("poisson", 200_000, 20)),
    "linear 20,000 x 10": (10, lambda _: arrays("linear", 20_000, 10)),
    "logistic 1,000 x 5": (20, lambda _: arrays("logistic", 1000, 5)),
    "linear 100,000 x 100, L1": (1, lambda _: arrays("linear", 10**5, 100, penalty=mg.L1(0.05))),
    "logistic 50,000 x 20, L2": (4, lambda _: arrays("logistic", 50_000, 20, penalty=mg.L2(0.1))),
    "parquet 500,000 x 10, category": (
        1, lambda folder: partial(mg.glm, *parquet(folder, 500_000, 10), "binomial"),
    ),
}  # fmt: skip
"""Name: fits in one timing, and what makes the data and gives the function that fits."""

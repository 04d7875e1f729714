"""From a batch of gradients to V^-1 b: eigh, the paper's recursion, blocks, low rank, products.

    python benchmarks/roots.py             prints tables and writes them to benchmarks/roots.md

Every cell is the median of 7 runs, in turn with its neighbours; of one where a run takes more than
5 seconds. Errors are those of Sigma^-1 b, in which the rotation of the recursion's root cancels.
"""

import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np

import masgrad as mg
from masgrad.covariance.choose import make_root

SIZES, DIMS, RIDGE, BLOCK = (50, 500, 5000), (4, 20, 100, 500, 2000), 1e-2, 4096
CHAIN_DIMS, CHAINS, STEPS = (2, 3, 4, 5, 6, 8, 10, 20, 50), 100, 50
SLOW = 5.0


def brute_force(G):
    """NumPy's eigh of the sample covariance, as one would write it."""
    values, Q = np.linalg.eigh(np.cov(G.T) + RIDGE * np.eye(G.shape[1]))
    return lambda x: Q @ ((Q.T @ x) / np.sqrt(values))


def by_name(kind):
    return lambda G: mg.sample_root(G, kind, RIDGE).solve


def recursion(block):
    def root(G):
        n = len(G)
        H = mg.rank_one_inverse_root(G - G.mean(0), initial=(n - 1) * RIDGE, block=block)
        H *= np.sqrt(n - 1)
        return lambda x: H @ x

    return root


ROTATED = ("recursion", "blocks")
METHODS = {
    "eigh": brute_force,
    "recursion": recursion(1),
    "blocks": recursion(BLOCK),
    "low rank": by_name("low_rank"),
    "products": by_name("products"),
    "auto": by_name("auto"),
}


def seconds(program):
    start = time.perf_counter()
    program()
    return time.perf_counter() - start


def medians(programs, rounds=7):
    """Median seconds of each program, in turn, each run right after one of its own."""
    times = {name: [] for name in programs}
    slow = {name for name, program in programs.items() if seconds(program) > SLOW}
    for number in range(rounds):
        for name, program in programs.items():
            if name in slow and number:
                continue
            if name not in slow:
                program()
            times[name].append(seconds(program))
    return {name: float(np.median(t)) for name, t in times.items()}


def error(name, root, G):
    """Relative error of Sigma^-1 b against an LU solve."""
    b, cov = G.mean(0), np.cov(G.T) + RIDGE * np.eye(G.shape[1])
    truth = np.linalg.solve(cov, b)
    if name in ROTATED:
        H = root(G)(np.eye(len(b)))
        ours = H.T @ (H @ b)
    else:
        ours = root(G)(root(G)(b))
    return np.linalg.norm(ours - truth) / np.linalg.norm(truth)


def direction(method, G, b):
    return lambda: method(G)(b)


def batch_table(rng):
    """Times and errors over (n, p)."""
    cells = {}
    for n in SIZES:
        for p in DIMS:
            G = rng.normal(size=(n, p)) * np.logspace(0, -1, p) + 0.1
            b = G.mean(0)
            named = {k: m for k, m in METHODS.items() if k != "low rank" or n < p}
            runs = medians({k: direction(m, G, b) for k, m in named.items()})
            cells[n, p] = runs, {k: error(k, m, G) for k, m in named.items()}
            print(n, p, {k: f"{1e3 * t:.3g} ms" for k, t in runs.items()}, flush=True)
    return cells


def chain_table(rng):
    """Microseconds for the roots of 100 chains' covariances and V^-1 g, inside a compiled loop."""
    cells = {}
    for p in CHAIN_DIMS:
        F = rng.normal(size=(3 * p, p, CHAINS)) / np.sqrt(3 * p)
        cov = np.einsum("rik,rjk->ijk", F, F) + 0.05 * np.eye(p)[:, :, None]
        programs = {"LAPACK": looped(lapack, cov)}
        programs |= {kind: looped(kind, cov) for kind in ("symmetric", "products", "auto")}
        cells[p] = {k: t / STEPS for k, t in medians(programs).items()}
        print(p, {k: f"{1e6 * t:.3g} us" for k, t in cells[p].items()}, flush=True)
    return cells


def lapack(cov, g):
    values, Q = jnp.linalg.eigh(jnp.moveaxis(cov, -1, 0))
    along = jnp.einsum("kij,ik->kj", Q, g) / jnp.sqrt(values)
    return jnp.einsum("kij,kj->ik", Q, along)


def looped(kind, cov):
    """STEPS roots, each of another matrix, so that none is hoisted out of the loop."""
    g = np.ones(cov.shape[1:])
    solve = kind if callable(kind) else lambda S, x: make_root(kind, S).solve(x)

    @jax.jit
    def many(cov, g):
        def step(_, x):
            return 1e-3 * solve(cov * (1.0 + 1e-9 * x[0]), x) + g

        return jax.lax.fori_loop(0, STEPS, step, g)

    def program():
        with jax.enable_x64(True):
            many(cov, g).block_until_ready()

    return program


def large_model(rng, steps=10):
    """Seconds a step of a 20,000-parameter network, n = 50, one chain."""
    model = mg.ReluNetwork(199, 100)
    data = rng.normal(size=(500, 199)), np.abs(rng.normal(size=500))
    theta = 0.05 * rng.normal(size=20_000)

    def program(root, steps):
        kernel = mg.masgrad(0.01, "batch", root, ridge=1e-2)
        return lambda: mg.run(kernel, model, data, theta, steps, 50, chains=1)

    out = {}
    for root in ("low_rank", "diagonal"):
        runs = medians({k: program(root, k) for k in (1, steps + 1)}, 3)
        out[root] = (runs[steps + 1] - runs[1]) / steps
    return out


def least_squares(rng, p=20):
    """A query of the moments at a theta: one pass each time against one pass in all."""
    out = {}
    for N in (10_000, 100_000, 1_000_000):
        X = rng.normal(size=(N, p))
        y = X.sum(1) + rng.normal(size=N)
        kept = mg.LeastSquaresMoments(p).update(X, y)
        kept.mean(np.zeros(p))
        theta = np.ones(p)
        runs = medians({
            "moments": lambda t=theta, d=(X, y): mg.moments(mg.Linear(), t, d),
            "kept": lambda t=theta, k=kept: k.moments(t),
            "update": lambda d=(X, y): mg.LeastSquaresMoments(p).update(*d),
        }, 3)  # fmt: skip
        out[N] = runs
    return out


def ms(t):
    return f"{1e3 * t:.3g}"


def batch_lines(batches):
    """The first table and what it says about the aims."""
    yield f"## From n gradients of p parameters to V^-1 b, ridge {RIDGE} (milliseconds)"
    yield ""
    yield "In brackets the relative error of Sigma^-1 b."
    yield ""
    yield f"| n | p | {' | '.join(METHODS)} | auto / best | auto / best symmetric |"
    yield "|---" * (len(METHODS) + 4) + "|"
    worst, fair = {}, {}
    for (n, p), (runs, errors) in batches.items():
        others = {k: t for k, t in runs.items() if k != "auto"}
        symmetric = min(t for k, t in others.items() if k not in ROTATED)
        worst[n, p] = runs["auto"] / min(others.values())
        fair[n, p] = runs["auto"] / symmetric
        cells = [f"{ms(runs[k])} ({errors[k]:.0e})" if k in runs else "" for k in METHODS]
        yield f"| {n} | {p} | {' | '.join(cells)} | {worst[n, p]:.2f} | {fair[n, p]:.2f} |"
    yield ""
    yield from aims(batches, worst, fair)


def aims(batches, worst, fair):
    at, low = batches[5000, 100][0], batches[50, 2000][0]
    beats = [k for k, (r, _) in batches.items() if r["recursion"] < r["eigh"]]
    ratio = at["recursion"] / at["blocks"]
    yield f"- blocks against the recursion at n = 5000, p = 100: {ratio:.1f} times (aim 5)."
    ratio = low["eigh"] / low["low rank"]
    yield f"- low rank against eigh at n = 50, p = 2000: {ratio:.0f} times (aim 10)."
    yield (
        f"- auto against the best of the others: at most {max(worst.values()):.2f} times, at "
        f"(n, p) = {max(worst, key=worst.get)} (aim 1.3); of those that give the symmetric root, "
        f"as auto does, at most {max(fair.values()):.2f}."
    )
    yield f"- the paper's O(n p^2) recursion beats eigh at (n, p) = {beats or 'none of these'}."
    yield (
        "- blocks of at least p vectors are a Cholesky factor of the covariance, a rotated root; "
        "eigh, low rank, products and auto give the symmetric one."
    )


def chain_lines(chains):
    yield f"## Roots of {CHAINS} chains inside a compiled step (microseconds)"
    yield ""
    yield "| p | LAPACK | symmetric | products | auto | auto / best |"
    yield "|---|---|---|---|---|---|"
    for p, runs in chains.items():
        best = min(t for k, t in runs.items() if k != "auto")
        cells = " | ".join(f"{1e6 * t:.3g}" for t in runs.values())
        yield f"| {p} | {cells} | {runs['auto'] / best:.2f} |"


def other_lines(model, squares):
    yield "## More parameters than rows (medians of 3)"
    yield ""
    steps = ", ".join(f"{k} {ms(t)} ms" for k, t in model.items())
    yield f"A step of a ReLU network with 20,000 parameters, n = 50, one chain: {steps}."
    yield ""
    yield "## Online least squares, p = 20 (milliseconds, medians of 3)"
    yield ""
    yield "| N | moments, one pass a theta | LeastSquaresMoments, a theta | its one pass |"
    yield "|---|---|---|---|"
    for N, runs in squares.items():
        cells = " | ".join(ms(runs[k]) for k in ("moments", "kept", "update"))
        yield f"| {N:,} | {cells} |"


def report(batches, chains, model, squares):
    yield "# Roots"
    yield ""
    yield (
        "Last run of `make bench-roots` on 2 cores: medians of 7 runs in turn (of one run where it "
        "takes more than 5 s). Compare within a row: machines are noisy."
    )
    for section in (batch_lines(batches), chain_lines(chains), other_lines(model, squares)):
        yield ""
        yield from section


def main():
    rng = np.random.default_rng(0)
    lines = report(batch_table(rng), chain_table(rng), large_model(rng), least_squares(rng))
    pathlib.Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""A model over data: rows drawn evenly, sums over all of them in blocks, nothing too large."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2, chisquare

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.data.table import Table, capacity
from masgrad.kernels.field import make_field


@pytest.mark.statistical(2)
@pytest.mark.parametrize("n", [12, pytest.param(299, marks=pytest.mark.long)])
def test_rows_without_replacement_differ_and_are_drawn_evenly(n, seed):
    """Floyd's algorithm for small batches, sorting for large ones."""
    chains = 20_000
    with jax.enable_x64(True):
        table = jax.tree.map(jnp.asarray, Table.pack(np.arange(300.0)))
        rows = np.asarray(table.draw(jax.random.key(seed), n, chains, replace=False)).astype(int)
    assert np.all(np.diff(np.sort(rows, axis=0), axis=0) > 0)
    counts = np.bincount(rows.ravel(), minlength=300)
    assert len(counts) == 300
    # a row's count is binomial; the counts' sum is fixed, and their chi-squared shrinks by 1 - n/N
    statistic = ((counts - chains * n / 300) ** 2 / (chains * n / 300 * (1 - n / 300))).sum()
    assert chi2.ppf(alpha() / 2, 299) < statistic * 299 / 300 < chi2.isf(alpha() / 2, 299)


@pytest.mark.statistical(1)
@pytest.mark.parametrize("count", [300, 70_000])
def test_rows_are_drawn_evenly(count, seed):
    """Both ways of making a row number, over all rows and none of the padding."""
    draws = 3_000_000
    with jax.enable_x64(True):
        table = jax.tree.map(jnp.asarray, Table.pack(np.arange(float(count))))
        drawn = np.asarray(table.draw(jax.random.key(seed), draws // 100, 100))
    counts = np.bincount(drawn.astype(int).ravel(), minlength=count)
    assert len(counts) == count
    assert chisquare(counts).pvalue > alpha()


@pytest.mark.parametrize("N", [2, 511, 512, 513, 4097, 65_537])
@pytest.mark.parametrize("K", [1, 300])
def test_population_moments_of_the_engine_are_those_of_the_host(rng, N, K):
    """Blocks, padding and capacities at their edges."""
    X, y = scenarios.regression(rng, N=N, p=3)
    theta = rng.normal(size=(3, K))
    with jax.enable_x64(True):
        field = make_field(mg.Linear(), (X, y), 5)
        estimate = eqx.filter_jit(lambda f, t: f.moments(t))(field, jnp.asarray(theta))
    m = mg.moments(mg.Linear(), theta[:, -1], (X, y))
    np.testing.assert_allclose(estimate.mean[:, -1], m.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(estimate.cov[..., -1], m.cov, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["mean", "intercept"])
def test_the_engines_covariance_survives_a_large_mean(rng, case):
    """The variance is 1e-14 or 1e-10 of the squared mean, which a difference of squares loses."""
    if case == "mean":
        model, data, theta = scenarios.mean_model(2), rng.normal(size=(700, 2)), np.full(2, 1e7)
    else:
        X = np.column_stack([np.ones(700), rng.normal(size=700)])
        model, data, theta = mg.Linear(), (X, 1e5 + rng.normal(size=700)), np.zeros(2)
    m = mg.moments(model, theta, data)
    tr = mg.run(mg.masgrad(1.0), model, data, theta, 1, None, 2)
    np.testing.assert_allclose(tr.final[0], theta - m.root().solve(m.mean), rtol=1e-6)


def test_large_draws_are_made_in_chunks(rng, monkeypatch):
    """The chunks' keys give the rows; their mean and covariance are NumPy's."""
    monkeypatch.setattr("masgrad.kernels.field.DRAW_NUMBERS", 100)
    X, y = scenarios.regression(rng, p=2)
    theta, n = np.array([[0.3, 3e6], [0.1, 2e6], [0.0, 1e6]])[:2], 57
    with jax.enable_x64(True):
        field = make_field(mg.Linear(), (X, y), n)
        key = jax.random.key(3)
        estimate = field.draw(key, jnp.asarray(theta), cov=True)
        size = 19  # 100 // 4 = 25 rows fit, so three equal chunks of 19
        parts = [field.source.draw(jax.random.fold_in(key, i), size, 2) for i in range(3)]
    for k in range(2):
        rows = [np.concatenate([np.asarray(q[j])[:, k] for q in parts])[:n] for j in (0, 1)]
        G = mg.Linear().gradients(theta[:, k], tuple(rows))
        np.testing.assert_allclose(estimate.mean[:, k], G.mean(0), rtol=1e-10)
        np.testing.assert_allclose(estimate.cov[..., k], np.cov(G.T), rtol=1e-9)


def programs_in(params):
    """The programs (bodies, branches) among an equation's parameters."""
    for value in params.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


def largest_array(jaxpr) -> int:
    """Numbers in the largest intermediate of a program, its loops and branches included."""
    largest = 0
    for equation in jaxpr.eqns:
        sizes = [int(np.prod(v.aval.shape)) for v in equation.outvars if hasattr(v.aval, "shape")]
        inner = [largest_array(j) for j in programs_in(equation.params)]
        largest = max([largest, *sizes, *inner])
    return largest


def largest_of_a_step(kernel, model, data, K, n=25) -> int:
    """Numbers in the largest intermediate of one step of K chains."""
    with jax.enable_x64(True):
        field = make_field(model, data, n)
        arrays, static = eqx.partition(field, eqx.is_array)

        def step(arrays, theta):
            field = eqx.combine(arrays, static)
            return kernel.step(jax.random.key(0), kernel.init(theta), field).theta

        p = model.dim(model.rows(data))
        return largest_array(jax.make_jaxpr(step)(arrays, jnp.zeros((p, K))).jaxpr)


@pytest.mark.parametrize("case", ["glm", "weighted", "custom"])
def test_nothing_of_size_chains_times_rows_times_parameters_is_formed(rng, monkeypatch, case):
    N, p, K = 8192, 12, 64
    if case == "weighted":
        monkeypatch.setattr("masgrad.models.glm.OUTER_BYTES", 0)
    if case == "custom":
        model, data = scenarios.mean_model(p), rng.normal(size=(N, p))
    else:
        model, data = mg.Linear(), (rng.normal(size=(N, p)), rng.normal(size=N))
    stored = N * p * (p + 1) // 2  # the outer products, which are an input
    assert largest_of_a_step(mg.masgrad(0.1), model, data, K) < min(N * p * K / 4, stored * 2)


@pytest.mark.parametrize(
    "covariance, root", [("batch", "low_rank"), ("batch", "auto"), ("batch", "diagonal"),
                         ("running", "diagonal")],
)  # fmt: skip
def test_no_matrix_of_all_parameters_is_formed(rng, covariance, root):
    """With n = 25 rows a batch and p = 2000 parameters a step holds O(n p) numbers, not p^2."""
    p = 2000
    data = rng.normal(size=(40, p)), rng.normal(size=40)
    kernel = mg.masgrad(0.1, covariance, root, ridge=0.1)
    assert largest_of_a_step(kernel, mg.Linear(), data, 2) <= 25 * p * 2


def test_capacity_is_shared_and_never_wasteful():
    assert capacity(1) == capacity(512) == 512
    assert capacity(513) == capacity(1024) == 1024
    for n in (70_000, 100_001, 1_000_000, 12_345_678):
        assert n <= capacity(n) <= 1.13 * n
        assert capacity(n) % 4096 == 0

"""Chains: reproducible, recorded as asked, compiled once, in float64, in bounded memory."""

import concurrent.futures
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from scipy.stats import chi2, chisquare

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.chains import groups
from masgrad.chains import run as run_module
from masgrad.data.arrays import Table, capacity
from masgrad.kernels.field import make_field
from masgrad.kernels.kernel import Kernel

EVERY = scenarios.KERNELS | scenarios.DIFFUSIONS


@pytest.fixture
def problem(rng):
    return mg.Logistic(), scenarios.regression(rng, "bernoulli"), np.zeros(4)


@pytest.mark.parametrize("name", list(EVERY))
def test_every_process_runs_and_repeats(problem, name):
    tr = mg.run(EVERY[name], *problem, steps=7, batch_size=20, chains=5, seed=4)
    assert tr.theta.shape == (5, 8, 4)
    assert tr.theta.dtype == np.float64 and isinstance(tr.theta, np.ndarray)
    np.testing.assert_array_equal(tr.theta[:, 0], 0.0)
    again = mg.run(EVERY[name], *problem, steps=7, batch_size=20, chains=5, seed=4)
    np.testing.assert_array_equal(tr.theta, again.theta)
    other = mg.run(EVERY[name], *problem, steps=7, batch_size=20, chains=5, seed=5)
    assert np.all(tr.theta[:, 2:] != other.theta[:, 2:])  # AdaGrad's first step is +-eta
    assert len(np.unique(tr.theta[:, -1], axis=0)) == 5  # chains are independent


def test_groups_depend_on_the_number_of_chains_alone(problem, monkeypatch):
    """150 chains are three groups: one thread or two, the paths are the same, and all differ."""
    assert groups.group_size(150) == 52 and groups.group_size(64) == 64
    assert groups.group_size(1_000_000) == 62_500
    monkeypatch.setattr(groups, "available_cores", lambda: 2)
    two = mg.run(mg.masgrad(0.1), *problem, steps=4, chains=150).theta
    monkeypatch.setattr(groups, "available_cores", lambda: 1)
    one = mg.run(mg.masgrad(0.1), *problem, steps=4, chains=150).theta
    np.testing.assert_array_equal(one, two)
    assert two.shape == (150, 5, 4)
    assert len(np.unique(two[:, -1], axis=0)) == 150


def test_starts_can_differ_by_chain(problem, rng):
    model, data, _ = problem
    starts = rng.normal(size=(130, 4))
    tr = mg.run(mg.masgrad(0.1), model, data, starts, 2, None, 130)
    np.testing.assert_array_equal(tr.theta[:, 0], starts)
    for k in (1, 129):
        alone = mg.run(mg.masgrad(0.1), model, data, starts[k], 2, None, 1)
        np.testing.assert_allclose(tr.theta[k], alone.theta[0], rtol=1e-12)


def test_summaries_over_chains(problem):
    tr = mg.run(mg.masgrad(0.1), *problem, steps=5, chains=40)
    np.testing.assert_allclose(tr.mean(), tr.theta.mean(0))
    np.testing.assert_allclose(tr.cov()[3], np.cov(tr.theta[:, 3].T))
    lower, upper = tr.interval(0.9)
    assert lower.shape == upper.shape == (6, 4)
    np.testing.assert_allclose(upper, np.quantile(tr.theta, 0.95, axis=0))
    assert repr(tr) == "Trace of 40 chains, 6 records to step 5"
    with pytest.raises(ValueError, match=r"\(4,\) is needed"):
        tr.distance(np.zeros(3))
    with pytest.raises(ValueError, match="level"):
        tr.interval("95%")
    assert "not" in type(tr).interval.__doc__ and "confidence interval" in tr.interval.__doc__


def test_thinning_and_keeping_summaries_change_no_path(problem, monkeypatch):
    """Also not the size of the chunks that the host asks for."""
    whole = mg.run(mg.masgrad(0.1), *problem, steps=60, chains=30)
    monkeypatch.setattr(run_module, "CHUNK_SECONDS", 0.0)
    thin = mg.run(mg.masgrad(0.1), *problem, steps=60, chains=30, thin=20)
    np.testing.assert_array_equal(thin.steps, [0, 20, 40, 60])
    np.testing.assert_array_equal(thin.theta, whole.theta[:, ::20])
    short = mg.run(mg.masgrad(0.1), *problem, steps=60, chains=30, keep="summary")
    np.testing.assert_allclose(short.mean(), whole.mean(), rtol=1e-12)
    np.testing.assert_allclose(short.cov(), whole.cov(), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(short.interval(0.95), whole.interval(0.95), rtol=1e-12)
    np.testing.assert_array_equal(short.final, whole.final)
    with pytest.raises(ValueError, match="keeps"):
        short.interval(0.123)


def test_a_summary_of_many_chains_holds_no_paths():
    """10,000 chains: the result is as large as its records, whatever the number of chains."""
    Z = np.random.default_rng(0).normal(size=(50, 10))
    s = mg.run(
        mg.sgd(0.1),
        scenarios.mean_model(10),
        Z,
        np.zeros(10),
        steps=100,
        chains=10_000,
        thin=50,
        keep="summary",
    )
    assert s.mean().shape == (3, 10) and s.cov().shape == (3, 10, 10)
    with pytest.raises(ValueError, match="GiB"):
        mg.run(mg.sgd(0.1), scenarios.mean_model(10), Z, np.zeros(10), steps=10_000, chains=20_000)


def test_without_replacement(problem):
    """A whole epoch is the deterministic update; the diffusion's noise vanishes with it."""
    model, data, theta0 = problem
    whole = mg.run(mg.masgrad(0.1), model, data, theta0, 3, None, 2).theta
    epoch = mg.run(mg.masgrad(0.1), model, data, theta0, 3, 300, 2, replace=False).theta
    np.testing.assert_allclose(epoch, whole, rtol=1e-10)
    still = mg.diffusion(mg.masgrad(0.1))
    np.testing.assert_allclose(
        mg.run(still, model, data, theta0, 3, 300, 2, replace=False).theta, whole, rtol=1e-10
    )


@pytest.mark.statistical(2)
@pytest.mark.parametrize("n", [12, 299])
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


def test_diverging_chains_are_reported_and_left_out(rng):
    Z = rng.normal(size=(20, 2))
    starts = np.array([[0.0, 0.0], [1.0, 1.0], [9.0, 9.0]])
    steep = mg.CustomLoss(lambda theta, z: jnp.sum((theta - 0 * z) ** 4), 2)
    with pytest.warns(mg.errors.DivergenceWarning, match="1 of 3 chains"):
        tr = mg.run(mg.sgd(0.05), steep, Z, starts, 30, 5, 3)
    assert list(tr.diverged) == [2] and 1 <= tr.diverged[2] < 20
    assert np.isfinite(tr.theta[2, tr.diverged[2] - 1]).all()
    assert np.isfinite(tr.mean()).all() and np.isfinite(tr.cov()).all()
    np.testing.assert_allclose(tr.mean(), tr.theta[:2].mean(0))
    with pytest.warns(mg.errors.DivergenceWarning):
        short = mg.run(mg.sgd(0.05), steep, Z, starts, 30, 5, 3, keep="summary")
    np.testing.assert_allclose(short.mean()[-1], tr.mean()[-1])
    assert short.diverged == tr.diverged
    with pytest.warns(mg.errors.DivergenceWarning):
        lost = mg.run(mg.sgd(0.05), steep, Z, starts[2], 30, 5, 2)
    with pytest.raises(ValueError, match="every chain"):
        lost.mean()
    with pytest.warns(mg.errors.DivergenceWarning):
        short = mg.run(mg.sgd(0.05), steep, Z, starts[2], 30, 5, 2, keep="summary")
    assert np.isfinite(short.mean()[0]).all() and np.isnan(short.mean()[-1]).all()


@pytest.mark.parametrize("p", [2, 7])
def test_a_lost_chain_does_not_touch_the_others(rng, p):
    """MasGrad's batched eigensolver goes on for the chains that are finite."""
    steep = mg.CustomLoss(lambda theta, z: jnp.sum((theta - z) ** 4), p)
    Z, starts = rng.normal(size=(20, p)), rng.normal(size=(4, p))
    well = mg.run(mg.masgrad(0.01), steep, Z, starts, 20, 10, 4).theta
    starts[2] = 1e60  # its loss is finite, the square of its gradient is not
    with pytest.warns(mg.errors.DivergenceWarning, match="1 of 4"):
        ill = mg.run(mg.masgrad(0.01), steep, Z, starts, 20, 10, 4).theta
    np.testing.assert_allclose(ill[[0, 1, 3]], well[[0, 1, 3]], rtol=1e-12)


def test_a_singular_covariance_is_reported(rng):
    X = rng.normal(size=(100, 2))
    X = np.column_stack([X, X.sum(1)])
    with pytest.warns(mg.errors.SingularWarning, match="ridge"):
        tr = mg.run(mg.masgrad(0.1), mg.Linear(), (X, rng.normal(size=100)), np.zeros(3), 5, 10, 2)
    np.testing.assert_array_equal(tr.floored, [5, 5])
    assert np.isfinite(tr.theta).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mg.run(mg.masgrad(0.1, ridge=0.1), mg.Linear(), (X, X[:, 0]), np.zeros(3), 5, 10, 2)


def test_an_interrupted_run_keeps_what_it_has(problem, monkeypatch):
    advance, calls = groups._advance, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4:  # the first call only compiles
            raise KeyboardInterrupt
        return advance(*args)

    monkeypatch.setattr(groups, "_advance", interrupted)
    with pytest.warns(mg.errors.InterruptedWarning, match="of 500"):
        tr = mg.run(mg.masgrad(0.1), *problem, steps=500, chains=5)
    assert 16 < tr.theta.shape[1] < 501
    assert tr.steps[-1] == tr.theta.shape[1] - 1 and np.isfinite(tr.theta).all()


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


class Counted(eqx.Module):
    """A kernel that counts how often it is traced: once a compilation."""

    kernel: Kernel
    traces: list = eqx.field(static=True)

    def init(self, theta):
        return self.kernel.init(theta)

    def step(self, key, state, field):
        self.traces.append(1)
        return self.kernel.step(key, state, field)


@pytest.mark.parametrize("name", list(EVERY))
def test_one_compilation_serves_other_rows_steps_seeds_and_step_sizes(problem, name):
    model, (X, y), theta0 = problem
    traces: list = []

    def count(rows, steps, seed, kernel=EVERY[name]):
        data = (X[:rows], y[:rows])
        mg.run(Counted(kernel, traces), model, data, theta0, steps, 20, 5, seed=seed)
        return len(traces)

    first = count(300, 5, 0)
    assert count(250, 9, 1) == first
    assert count(300, 700, 2) == first  # several chunks
    if not callable(EVERY[name].step_size):
        faster = eqx.tree_at(lambda k: k.step_size, EVERY[name], np.asarray(0.07))
        assert count(300, 5, 0, faster) == first


def largest_array(jaxpr) -> int:
    """Numbers in the largest intermediate of a program, its loops and branches included."""
    largest = 0
    for equation in jaxpr.eqns:
        sizes = [int(np.prod(v.aval.shape)) for v in equation.outvars if hasattr(v.aval, "shape")]
        inner = [largest_array(j) for j in jaxprs_in_params(equation.params)]
        largest = max([largest, *sizes, *inner])
    return largest


@pytest.mark.parametrize("case", ["glm", "weighted", "custom"])
def test_nothing_of_size_chains_times_rows_times_parameters_is_formed(rng, monkeypatch, case):
    N, p, K = 8192, 12, 64
    if case == "weighted":
        monkeypatch.setattr("masgrad.models.glm.OUTER_BYTES", 0)
    if case == "custom":
        model, data = scenarios.mean_model(p), rng.normal(size=(N, p))
    else:
        model, data = mg.Linear(), (rng.normal(size=(N, p)), rng.normal(size=N))
    kernel = mg.masgrad(0.1)
    with jax.enable_x64(True):
        field = make_field(model, data, 25)
        arrays, static = eqx.partition(field, eqx.is_array)

        def step(arrays, theta):
            field = eqx.combine(arrays, static)
            return kernel.step(jax.random.key(0), kernel.init(theta), field).theta

        program = jax.make_jaxpr(step)(arrays, jnp.zeros((p, K)))
    stored = N * p * (p + 1) // 2  # the outer products, which are an input
    assert largest_array(program.jaxpr) < min(N * p * K / 4, stored * 2)


def test_capacity_is_shared_and_never_wasteful():
    assert capacity(1) == capacity(512) == 512
    assert capacity(513) == capacity(1024) == 1024
    for n in (70_000, 100_001, 1_000_000, 12_345_678):
        assert n <= capacity(n) <= 1.13 * n
        assert capacity(n) % 4096 == 0


# float64, whatever the session's default: the three traps.


def test_arithmetic_is_float64_in_a_float32_session(problem):
    """Trap 1: outside the context JAX falls back to float32."""
    assert jnp.zeros(1).dtype == np.float32
    model, (X, y), theta0 = problem
    tr = mg.run(mg.sgd(0.1), model, (X, y), theta0, 1, None, 1)
    exact = -0.1 * ((0.5 - y) @ X) / len(y)
    np.testing.assert_allclose(tr.theta[0, 1], exact, rtol=1e-13)
    for value in (model.gradients(theta0, (X, y)), mg.moments(model, theta0, (X, y)).cov):
        assert isinstance(value, np.ndarray) and value.dtype == np.float64
    mixture = mg.GaussianMixture(2, 1.0)
    assert mixture.gradients(np.zeros(2), X[:, 0]).dtype == np.float64
    assert jnp.zeros(1).dtype == np.float32  # and the session is left as it was


def test_another_thread_gets_float64_too(problem):
    """Trap 2: the flag is thread-local."""
    args = (mg.masgrad(0.1), *problem, 5, 10, 3)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        inside = pool.submit(mg.run, *args).result()
    np.testing.assert_array_equal(inside.theta, mg.run(*args).theta)


def test_objects_built_outside_are_not_truncated(problem):
    """Trap 3: a converter that called jnp.asarray at construction would keep 24 bits."""
    eta = 0.1 + 1e-12
    assert float(mg.masgrad(eta, ridge=1e-9 / 3).step_size) == eta
    assert float(mg.masgrad(eta, ridge=1e-9 / 3).adjustment.ridge) == 1e-9 / 3
    assert float(mg.GaussianMixture(2, 1 / 3).sigma) == 1 / 3
    a = mg.run(mg.sgd(0.1), *problem, steps=1, batch_size=None, chains=1).final
    b = mg.run(mg.sgd(eta), *problem, steps=1, batch_size=None, chains=1).final
    np.testing.assert_allclose(b / a - 1, 1e-11, rtol=1e-3)

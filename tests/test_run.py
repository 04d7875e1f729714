"""Chains: reproducible, recorded as asked, compiled once, in float64, in bounded memory."""

import concurrent.futures
import os
import subprocess
import sys
import warnings

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.chains import groups
from masgrad.chains.engine import crew, program
from masgrad.cores import cores
from masgrad.kernels.kernel import Kernel

EVERY = scenarios.KERNELS | scenarios.DIFFUSIONS
OTHER_ROOTS = ("products", "auto", "diagonal", "low_rank")
SHORT = [
    name
    for name in EVERY
    if not name.endswith(OTHER_ROOTS)  # other than "masgrad" by their root alone, tested by hand
    and (not name.startswith("diff_") or name in ("diff_masgrad", "diff_adagrad", "diff_sgld"))
]
NAMES = scenarios.short_of(SHORT, [name for name in EVERY if name not in SHORT])


@pytest.fixture
def problem(rng):
    return mg.Logistic(), scenarios.regression(rng, "bernoulli"), np.zeros(4)


@pytest.mark.parametrize("name", NAMES)
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
    monkeypatch.setattr(crew, "cores", lambda: 2)
    two = mg.run(mg.masgrad(0.1), *problem, steps=4, chains=150).theta
    monkeypatch.setattr(crew, "cores", lambda: 1)
    one = mg.run(mg.masgrad(0.1), *problem, steps=4, chains=150).theta
    np.testing.assert_array_equal(one, two)
    assert two.shape == (150, 5, 4)
    assert len(np.unique(two[:, -1], axis=0)) == 150


def test_chains_run_where_the_system_does_not_tell_our_share_of_the_cores(problem, monkeypatch):
    """macOS and Windows have no sched_getaffinity."""
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delenv("NPROC", raising=False)
    assert cores() == os.cpu_count()
    assert mg.run(mg.masgrad(0.1), *problem, steps=2, chains=70).theta.shape == (70, 3, 4)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1


@pytest.mark.parametrize("given, wanted", [("3", 3), ("0", None), ("-1", None), ("all", None)])
def test_nproc_sets_the_cores_where_it_is_a_positive_number(monkeypatch, given, wanted):
    monkeypatch.delenv("NPROC", raising=False)
    ours = cores()
    monkeypatch.setenv("NPROC", given)
    assert cores() == (wanted or ours)


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
    monkeypatch.setattr(crew, "CHUNK_SECONDS", 0.0)
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
    advance, calls = program._advance, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4:  # the first call only compiles
            raise KeyboardInterrupt
        return advance(*args)

    monkeypatch.setattr(program, "_advance", interrupted)
    with pytest.warns(mg.errors.InterruptedWarning, match="of 500"):
        tr = mg.run(mg.masgrad(0.1), *problem, steps=500, chains=5)
    assert 16 < tr.theta.shape[1] < 501
    assert tr.steps[-1] == tr.theta.shape[1] - 1 and np.isfinite(tr.theta).all()


class Counted(eqx.Module):
    """A kernel that counts how often it is traced: once a compilation."""

    kernel: Kernel
    traces: list = eqx.field(static=True)

    def init(self, theta):
        return self.kernel.init(theta)

    def step(self, key, state, field):
        self.traces.append(1)
        return self.kernel.step(key, state, field)


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("covariance", scenarios.short_of(["batch"], ["population"]))
def test_more_chains_than_one_group_with_lapack_on_all_cores(covariance):
    """Two groups that called LAPACK at once waited for each other for ever."""
    code = (
        "import numpy as np, masgrad as mg; rng = np.random.default_rng(0);"
        "X = rng.normal(size=(300, 12)); y = X.sum(1) + rng.normal(size=300);"
        f"tr = mg.run(mg.masgrad(0.05, {covariance!r}), mg.Linear(), (X, y), np.zeros(12), 30, 40);"
        "assert np.isfinite(tr.theta).all()"
    )
    free = {k: v for k, v in os.environ.items() if k not in ("NPROC", "OMP_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", code], env=free, check=True, timeout=120)


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read there")
def test_twenty_thousand_parameters_in_little_memory_and_time():
    """Nothing of 20,000 x 20,000, on the device or on the host, and steps well under a second."""
    code = """
import time, numpy as np, masgrad as mg
rng = np.random.default_rng(0)
data = rng.normal(size=(200, 20_000)), rng.integers(0, 2, 200)
kernel = mg.masgrad(0.01, "batch", "auto", ridge=0.1)
def seconds(steps):
    start = time.perf_counter()
    mg.run(kernel, mg.Logistic(), data, np.zeros(20_000), steps, 50, chains=1)
    return time.perf_counter() - start
seconds(1), seconds(11)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print((seconds(11) - seconds(1)) / 10, int(peak.split()[1]) / 2**20)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=200, capture_output=True
    )
    step, gib = map(float, done.stdout.split())
    assert step < 1.0
    assert gib < 1.5  # 20,000 x 20,000 numbers are 3 GiB


def test_a_loss_with_lapack_of_its_own_finishes():
    code = (
        "import numpy as np, jax.numpy as jnp, masgrad as mg; p = 12; A = jnp.eye(p);"
        "loss = mg.CustomLoss(lambda t, z: 0.5 * jnp.sum((t - z) ** 2)"
        " + jnp.linalg.slogdet(A + jnp.outer(t, t))[1], p);"
        "data = np.random.default_rng(0).normal(size=(50, p));"
        "tr = mg.run(mg.sgd(0.1), loss, data, np.zeros(p), 5, 9);"
        "assert np.isfinite(tr.theta).all() and tr.theta[:, -1].any(1).all()"
    )
    free = {k: v for k, v in os.environ.items() if k not in ("NPROC", "OMP_NUM_THREADS")}
    subprocess.run([sys.executable, "-c", code], env=free, check=True, timeout=120)

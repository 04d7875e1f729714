"""A run that is continued is the run that was not stopped."""

import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.chains.engine import program

KERNELS = {
    name: scenarios.KERNELS[name] for name in ("sgld", "running", "adagrad", "adagrad_full")
} | {
    "schedule": mg.masgrad(lambda t: 0.3 * jnp.cos(jnp.pi * t / 23)),
    "lagged": mg.masgrad(0.1, "running", root_every=10),
    "diffusion": mg.diffusion(mg.masgrad(0.1)),
    "fixed": mg.madprox(0.1, mg.L1(0.02), "fixed"),
}

SHORT = ["running", "adagrad", "fixed"]


@pytest.fixture
def problem(rng):
    return mg.Logistic(), scenarios.regression(rng, "bernoulli")


def start(rows=4):
    return np.linspace(-0.5, 1.0, rows)


@pytest.mark.parametrize(
    "name", scenarios.short_of(SHORT, [name for name in KERNELS if name not in SHORT])
)
def test_seven_steps_and_five_more_are_twelve(problem, name):
    """Batches, schedule and memory go on: also where theta0 is left with a V that is kept."""
    kernel, asked = KERNELS[name], {"batch_size": 20, "chains": 5, "seed": 4}
    whole = mg.run(kernel, *problem, start(), steps=12, **asked)
    part = mg.run(kernel, *problem, start(), steps=7, **asked)
    both = mg.resume(part, kernel, *problem, steps=5)
    np.testing.assert_array_equal(both.theta, whole.theta)
    np.testing.assert_array_equal(both.steps, whole.steps)
    repeated = mg.run(kernel, *problem, part.final, steps=5, **asked)
    assert np.all(repeated.theta[:, 1:] != whole.theta[:, 8:])  # what theta0=trace.final gives


def test_a_continuation_compiles_nothing(problem, compiled):
    kernel = mg.masgrad(0.1, "running", root_every=7)
    part = mg.run(kernel, *problem, start(), 7, 20, 5)
    lines = compiled(lambda: mg.resume(part, kernel, *problem, steps=5))
    assert not [line for line in lines if "_advance" in line]


def test_momentum_goes_on(problem):
    kernel = mg.fista(0.5, mg.L1(0.02))
    whole = mg.run(kernel, *problem, start(), 12, None, 1)
    part = mg.run(kernel, *problem, start(), 7, None, 1)
    np.testing.assert_array_equal(mg.resume(part, kernel, *problem, 5).theta, whole.theta)


def test_groups_thinning_summaries_and_pickles_are_kept(problem):
    """Two groups of chains, a record every other step, and twice a continuation."""
    kernel, asked = mg.adagrad(0.1), {"chains": 70, "seed": 1, "thin": 2, "replace": False}
    for keep in ("paths", "summary"):
        whole = mg.run(kernel, *problem, start(), steps=12, keep=keep, **asked)
        part = mg.run(kernel, *problem, start(), steps=4, keep=keep, **asked)
        part = mg.resume(pickle.loads(pickle.dumps(part)), kernel, *problem, steps=2)
        both = mg.resume(part, kernel, *problem, steps=6)
        assert type(both) is type(whole)
        np.testing.assert_array_equal(both.steps, [0, 2, 4, 6, 8, 10, 12])
        np.testing.assert_array_equal(both.mean(), whole.mean())
        np.testing.assert_array_equal(both.cov(), whole.cov())
        np.testing.assert_array_equal(both.interval(0.9), whole.interval(0.9))
        np.testing.assert_array_equal(both.final, whole.final)


def test_another_step_size_continues_from_the_same_state(problem):
    """A smaller step from step 3 on is the schedule that says so."""
    first, second = mg.adagrad(0.4), mg.adagrad(0.1)
    both = mg.resume(mg.run(first, *problem, start(), 3, 20, 4), second, *problem, steps=4)
    whole = mg.run(mg.adagrad(lambda t: jnp.where(t < 3, 0.4, 0.1)), *problem, start(), 7, 20, 4)
    np.testing.assert_allclose(both.theta, whole.theta, rtol=1e-12)


def test_an_interrupted_run_is_completed(problem, monkeypatch):
    advance, calls = program._advance, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 4:  # the first call only compiles
            raise KeyboardInterrupt
        return advance(*args)

    kernel = mg.adagrad(0.1)
    whole = mg.run(kernel, *problem, start(), 500, 20, 3)
    with monkeypatch.context() as patch:
        patch.setattr(program, "_advance", interrupted)
        with pytest.warns(mg.errors.InterruptedWarning, match=r"mg\.resume"):
            part = mg.run(kernel, *problem, start(), 500, 20, 3)
    assert 0 < part.steps[-1] < 500
    both = mg.resume(part, kernel, *problem, steps=500 - int(part.steps[-1]))
    np.testing.assert_array_equal(both.theta, whole.theta)


def test_an_interrupt_before_the_record_does_not_lose_a_step(problem, monkeypatch):
    """The chains have moved, their records were not taken: the state goes back to the records."""
    kernel, add, calls = mg.adagrad(0.1), mg.chains.record.Paths.add, []

    def interrupted(self, steps, paths):
        calls.append(1)
        if len(calls) == 3:  # theta0, and one chunk
            raise KeyboardInterrupt
        return add(self, steps, paths)

    whole = mg.run(kernel, *problem, start(), 500, 20, 3)
    with monkeypatch.context() as patch:
        patch.setattr(mg.chains.record.Paths, "add", interrupted)
        with pytest.warns(mg.errors.InterruptedWarning):
            part = mg.run(kernel, *problem, start(), 500, 20, 3)
    both = mg.resume(part, kernel, *problem, steps=500 - int(part.steps[-1]))
    np.testing.assert_array_equal(both.theta, whole.theta)


def test_a_lost_chain_stays_lost_and_the_others_go_on(rng):
    Z, starts = rng.normal(size=(20, 2)), np.array([[0.0, 0.0], [9.0, 9.0]])
    steep = mg.CustomLoss(lambda theta, z: jnp.sum((theta - z) ** 4), 2)
    with pytest.warns(mg.errors.DivergenceWarning):
        part = mg.run(mg.sgd(0.01), steep, Z, starts, 10, 5, 2)
    with pytest.warns(mg.errors.DivergenceWarning, match="1 of 2") as said:
        both = mg.resume(part, mg.sgd(0.01), steep, Z, steps=5)
    assert said[0].filename == __file__
    with pytest.warns(mg.errors.DivergenceWarning):
        whole = mg.run(mg.sgd(0.01), steep, Z, starts, 15, 5, 2)
    np.testing.assert_array_equal(both.theta, whole.theta)
    assert both.diverged == whole.diverged == part.diverged


def test_what_cannot_be_continued_says_why(problem, rng):
    model, (X, y) = problem
    trace = mg.run(mg.masgrad(0.1), model, (X, y), start(), 4, 20, 3, thin=2)
    with pytest.raises(ValueError, match="remembers other things"):
        mg.resume(trace, mg.adagrad(0.1), model, (X, y))
    with pytest.raises(ValueError, match="4 parameters, and this model and data 3"):
        mg.resume(trace, mg.masgrad(0.1), model, (X[:, :3], y))
    with pytest.raises(ValueError, match="thin=2 does not divide steps=3"):
        mg.resume(trace, mg.masgrad(0.1), model, (X, y), steps=3)
    with pytest.raises(TypeError, match=r"what mg\.run returned"):
        mg.resume(trace.final, mg.masgrad(0.1), model, (X, y))
    with pytest.raises(ValueError, match=r"not made by mg\.run"):
        mg.resume(mg.Trace(trace.theta, trace.steps), mg.masgrad(0.1), model, (X, y))
    with pytest.raises(TypeError, match=r"mg\.resume"):
        mg.run(mg.masgrad(0.1), model, (X, y), trace, 4, 20, 3)
    with pytest.raises(ValueError, match=r"-0\.1 at step 5"):
        late = mg.masgrad(lambda t: 0.1 * jnp.sign(4.5 - t))
        mg.resume(trace, late, model, (X, y), steps=2)

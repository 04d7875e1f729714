"""A run that was killed and goes on from its checkpoint is the run that was not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.chains.engine import crew, program
from masgrad.checkpoints import file
from masgrad.checkpoints.saver import Saver
from masgrad.errors import CheckpointError

KERNELS = scenarios.KERNELS | {
    "schedule": mg.masgrad(lambda t: 0.3 * jnp.cos(jnp.pi * t / 800)),
    "lagged": mg.masgrad(0.1, "running", root_every=10),
    "diffusion": mg.diffusion(mg.masgrad(0.1)),
    "fixed": mg.madprox(0.1, mg.L1(0.02), "fixed"),
    "fista": mg.fista(0.5, mg.L1(0.02)),
}
SHORT = ["adagrad", "lagged"]


class Killed(Exception):
    """Stands for a kill in the middle of a chunk."""


@pytest.fixture
def killed(monkeypatch):
    """Make a run die in its chunk of this number, counted over groups."""
    advance, seen = program._advance, []

    def dying(*args):
        seen.append(1)
        if len(seen) == dying.at:
            raise dying.by
        return advance(*args)

    def kill(chunk, by=Killed):
        seen.clear()
        dying.at, dying.by = 0 if chunk is None else chunk + 1, by  # the first call only compiles

    kill(None)
    monkeypatch.setattr(program, "_advance", dying)
    return kill


@pytest.fixture
def problem(rng):
    return mg.Logistic(), scenarios.regression(rng, "bernoulli")


def same(one, two):
    """Two traces or summaries are equal in every bit."""
    np.testing.assert_array_equal(one.steps, two.steps)
    np.testing.assert_array_equal(one.final, two.final)
    np.testing.assert_array_equal(one.mean(), two.mean())
    np.testing.assert_array_equal(one.cov(), two.cov())
    np.testing.assert_array_equal(one.floored, two.floored)
    assert one.diverged == two.diverged and one.note == two.note
    leaves = [jax.tree.leaves(trace.ending.states) for trace in (one, two)]
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_array_equal(a, b)
    if isinstance(one, mg.Trace):
        assert one.theta.tobytes() == two.theta.tobytes()


@pytest.mark.parametrize(
    "name", scenarios.short_of(SHORT, [name for name in KERNELS if name not in SHORT])
)
def test_a_killed_run_goes_on_bit_for_bit(name, problem, killed, tmp_path, rng):
    """Killed twice, in chunks at random; both kinds of recorders."""
    kernel, batch = KERNELS[name], None if name == "fista" else 20
    call = (kernel, *problem, np.linspace(-0.5, 1.0, 4))
    for keep in ("paths", "summary"):
        asked = {"steps": 400, "batch_size": batch, "chains": 3, "seed": 4, "keep": keep}
        whole = mg.run(*call, **asked)
        asked |= {"checkpoint": tmp_path / keep, "every": 0, "resume": True}
        for _ in range(2):
            killed(int(rng.integers(2, 4)))
            with pytest.raises(Killed):
                mg.run(*call, **asked)
            assert 0 < int(saved_step(tmp_path / keep)) < 400
        same(mg.run(*call, **asked), whole)
        assert file.read_heading(tmp_path / keep).finished
        killed(1)
        same(mg.run(*call, **asked), whole)  # finished: nothing is run
        killed(None)


def saved_step(path):
    return file.read_heading(path).place.split()[1]


def test_groups_thinning_moments_and_simulators_go_on(killed, tmp_path, rng):
    normal = mg.Simulator(lambda key, n: jax.random.normal(key, (n, 2)))
    X, y = scenarios.regression(rng)
    moments = mg.LeastSquaresMoments(4).update(X, y)
    square = mg.CustomLoss(scenarios.square, 2)
    cases = [
        ((mg.sgd(0.1), square, normal, np.ones(2)), {"chains": 70, "thin": 4}),
        ((mg.masgrad(0.1), mg.Linear(), moments, np.zeros(4)), {"chains": 2, "batch_size": None}),
    ]
    for number, (call, asked) in enumerate(cases):
        asked |= {"steps": 400}
        whole = mg.run(*call, **asked)
        asked |= {"checkpoint": tmp_path / str(number), "every": 0}
        killed(3)
        with pytest.raises(Killed):
            mg.run(*call, **asked)
        same(mg.run(*call, **asked, resume=True), whole)


def test_an_interrupt_saves_whatever_the_interval(problem, killed, tmp_path):
    call = (mg.adagrad(0.1), *problem, np.zeros(4))
    asked = {"steps": 400, "chains": 3}
    whole = mg.run(*call, **asked)
    asked["checkpoint"] = tmp_path / "c"
    killed(3, KeyboardInterrupt)
    with pytest.warns(mg.errors.InterruptedWarning, match="same call with resume=True") as said:
        part = mg.run(*call, **asked, every=1e6)
    assert said[0].filename == __file__ and 0 < part.steps[-1] < 400
    assert part.theta.tobytes() == whole.theta[:, : len(part.steps)].tobytes()
    with pytest.raises(CheckpointError, match=rf"unfinished run \(step {part.steps[-1]} of 400\)"):
        mg.run(*call, **asked)
    same(mg.run(*call, **asked, resume=True), whole)


def test_saves_come_every_so_many_seconds(problem, tmp_path, monkeypatch):
    saves, written = [], file.write
    monkeypatch.setattr(file, "write", lambda *a: (saves.append(a[1].place), written(*a)))
    monkeypatch.setattr(crew, "CHUNK_SECONDS", 0.0)  # single records
    ticks = iter(range(10_000))
    monkeypatch.setattr(Saver.__init__, "__defaults__", (60.0, lambda: float(next(ticks))))
    call = (mg.sgd(0.1), *problem, np.zeros(4))
    mg.run(*call, steps=64, chains=2, checkpoint=tmp_path / "c", every=10)
    assert saves == [f"step {t} of 64" for t in (41, 51, 61, 64)]  # the first chunk has 32 steps


def test_a_checkpoint_of_another_call_is_refused(problem, killed, tmp_path):
    model, (X, y) = problem
    kernel, theta = mg.adagrad(0.1), np.zeros(4)
    asked = {"steps": 400, "chains": 3, "checkpoint": tmp_path / "c", "every": 0}
    killed(3)
    with pytest.raises(Killed):
        mg.run(kernel, model, (X, y), theta, **asked)
    others = {
        "data": lambda: mg.run(kernel, model, (X, 1 - y), theta, **asked, resume=True),
        "kernel": lambda: mg.run(mg.adagrad(0.2), model, (X, y), theta, **asked, resume=True),
        "theta0": lambda: mg.run(kernel, model, (X, y), theta + 1, **asked, resume=True),
        "model": lambda: mg.run(kernel, mg.Linear(), (X, y), theta, **asked, resume=True),
        "seed was 0 and is 1": lambda: mg.run(
            kernel, model, (X, y), theta, seed=1, **asked, resume=True
        ),
        "steps was 400 and is 500": lambda: mg.run(
            kernel, model, (X, y), theta, **asked | {"steps": 500}, resume=True
        ),
    }
    for said, call in others.items():
        with pytest.raises(CheckpointError, match=f"another call: {said}"):
            call()


def test_a_run_goes_on_from_a_trace(problem, killed, tmp_path):
    """`start_from` is `mg.resume`; with a checkpoint, a continuation is killed and goes on, too."""
    kernel = mg.adagrad(0.1)
    call, asked = (kernel, *problem), {"chains": 3, "seed": 4, "batch_size": 20}
    whole = mg.run(*call, np.zeros(4), steps=400, **asked)
    part = mg.run(*call, np.zeros(4), steps=100, **asked)
    same(mg.run(*call, steps=300, start_from=part), whole)
    same(mg.run(*call, steps=300, start_from=part, **asked), whole)
    same(mg.resume(part, *call, steps=300), whole)
    longer = {"steps": 300, "start_from": part, "checkpoint": tmp_path / "c", "every": 0}
    killed(2)
    with pytest.raises(Killed):
        mg.run(*call, **longer)
    same(mg.run(*call, **longer, resume=True), whole)
    with pytest.raises(ValueError, match="seed=5 beside start_from=, whose run had 4"):
        mg.run(*call, steps=300, start_from=part, seed=5)
    with pytest.raises(ValueError, match="theta0="):
        mg.run(*call, np.zeros(4), steps=300, start_from=part)
    with pytest.raises(TypeError, match="theta0=None; a start"):
        mg.run(*call, steps=300)


def test_diverged_chains_are_remembered(killed, tmp_path, rng):
    Z, starts = rng.normal(size=(20, 2)), np.array([[0.0, 0.0], [9.0, 9.0]])
    steep = mg.CustomLoss(lambda theta, z: jnp.sum((theta - z) ** 4), 2)
    asked = {"steps": 200, "batch_size": 5, "chains": 2}
    with pytest.warns(mg.errors.DivergenceWarning):
        whole = mg.run(mg.sgd(0.01), steep, Z, starts, **asked)
    assert set(whole.diverged) == {1}
    asked |= {"checkpoint": tmp_path / "c", "every": 0}
    killed(3)
    with pytest.raises(Killed):
        mg.run(mg.sgd(0.01), steep, Z, starts, **asked)
    with pytest.warns(mg.errors.DivergenceWarning):
        again = mg.run(mg.sgd(0.01), steep, Z, starts, **asked, resume=True)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again.diverged == whole.diverged

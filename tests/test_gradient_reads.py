"""First reads, and reads of the gradient alone: cheaper, and no less accurate."""

import warnings
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import masgrad as mg
from masgrad.errors import AccuracyWarning
from masgrad.fitting.objective.coordinates import of_design
from masgrad.fitting.objective.local_model import LocalModel
from masgrad.fitting.objective.objective import GRADIENT, Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.first_read import FirstRead, is_no_worse, masgrad_rows
from masgrad.fitting.optimise.secant import changes_between, secant_step


@pytest.fixture
def parts(monkeypatch):
    """What each read of all rows sums besides the gradient."""
    seen, read = [], Reader.read

    def counted(self, objective, phi, parts=None):
        seen.append(parts)
        return read(self, objective, phi, parts)

    monkeypatch.setattr(Reader, "read", counted)
    return seen


def rows(seed, n=150_000, p=8, scale=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 0] = 1.0
    t = X @ rng.uniform(-scale, scale, p)
    return X, t, rng


def draw(name, t, rng):
    if name == "binomial":
        return mg.Logistic(), (rng.random(len(t)) < 1 / (1 + np.exp(-t))) * 1.0
    if name == "poisson":
        return mg.Poisson(), rng.poisson(np.exp(t)) * 1.0
    return mg.Gamma("log"), rng.gamma(2.0, np.exp(t) / 2)


@pytest.mark.parametrize("name", ["binomial", "poisson", "gamma"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_gradient_of_all_rows_and_one_full_read_are_enough(name, seed, parts):
    X, t, rng = rows(seed)
    model, y = draw(name, t, rng)
    r = mg.fit(model, (X, y))
    full = [p for p in parts if p.hessian]
    assert len(full) == 1 and parts[0] == GRADIENT
    assert r.fit_info.gradient_reads == 1
    assert r.fit_info.reads == len(parts)  # with the likelihood's, for a gamma family
    exact = mg.fit(model, (X, y), passes="newton")
    assert np.abs((r.params - exact.params) / exact.bse).max() < max(r.fit_info.remainder, 1e-6)
    assert r.fit_info.remainder < 1e-3
    np.testing.assert_allclose(r.bse, exact.bse, rtol=1e-3)


@pytest.mark.parametrize("name", ["binomial", "poisson", "gamma"])
def test_later_reads_are_of_the_gradient_alone(name, parts, monkeypatch):
    """H and M have settled after one read; a finer tolerance is met by chord steps."""
    monkeypatch.setattr("masgrad.fitting.options.TOLERANCE", 1e-8)
    X, t, rng = rows(3)
    model, y = draw(name, t, rng)
    r = mg.fit(model, (X, y))
    kinds = [p.hessian for p in parts]
    assert sum(kinds) == 1 and r.fit_info.gradient_reads >= 2
    exact = mg.fit(model, (X, y), passes="newton")
    away = np.abs((r.params - exact.params) / exact.bse).max()
    assert away < 1e-7 and away <= max(r.fit_info.remainder, 1e-9)
    np.testing.assert_allclose(r.bse, exact.bse, rtol=1e-3)
    assert r.log_likelihood == pytest.approx(exact.log_likelihood, abs=1e-3)


def test_a_loss_of_ones_own_needs_few_hessians(parts, monkeypatch):
    """By autodiff one costs p gradients."""
    monkeypatch.setattr("masgrad.fitting.options.TOLERANCE", 1e-8)
    X, t, rng = rows(4, n=60_000, p=3)
    y = t + rng.standard_normal(len(t))
    loss = mg.CustomLoss(lambda b, z: jnp.log(jnp.cosh(z["y"] - z["x"] @ b)), dim=3)
    r = mg.fit(loss, {"x": X, "y": y})
    kinds = [p.hessian for p in parts]
    assert r.fit_info.gradient_reads == len(kinds) - sum(kinds) >= 1
    exact = mg.fit(loss, {"x": X, "y": y}, passes="newton")
    assert np.abs((r.params - exact.params) / exact.bse).max() < 1e-6


def test_steps_with_a_poor_curvature_are_judged_by_the_loss(monkeypatch, parts):
    """H of the pilot rows is made ten times too small: the step goes too far, and is shortened."""
    original = FirstRead._pilot_model

    def poor(self, count):
        model = original(self, count)
        return replace(model, hessian=model.hessian / 10)

    monkeypatch.setattr(FirstRead, "_pilot_model", poor)
    X, t, rng = rows(5)
    model, y = draw("binomial", t, rng)
    r = mg.fit(model, (X, y))
    exact = mg.fit(model, (X, y), passes="newton")
    assert np.abs((r.params - exact.params) / exact.bse).max() < 2e-3
    assert r.status is mg.Status.CONVERGED


def test_masgrad_reads_as_many_rows_as_the_noise_asks_for():
    N, p = 10**8, 20
    most = masgrad_rows(N, p, np.inf)
    assert most == int(96 * np.sqrt(p * N))
    assert masgrad_rows(N, p, 0.0) == 65_536 < masgrad_rows(N, p, 0.001) < most
    assert masgrad_rows(N, p, 0.002) == pytest.approx(2 * masgrad_rows(N, p, 0.001), rel=1e-5)
    assert masgrad_rows(10**4, p, np.inf) == 10**4


def test_the_count_of_gradient_reads_is_saved(tmp_path):
    X, t, rng = rows(6)
    model, y = draw("binomial", t, rng)
    r = mg.fit(model, (X, y))
    r.save(tmp_path / "r.json")
    assert mg.load(tmp_path / "r.json").fit_info == r.fit_info


@pytest.mark.parametrize("weight", [10.0, 0.1])
def test_frequencies_scale_the_curvature_of_pilot_rows(weight, parts):
    X, t, rng = rows(7)
    model, y = draw("poisson", t, rng)
    plain = mg.fit(model, (X, y))
    r = mg.fit(model, (X, y), weights=np.full(len(y), weight))
    assert r.fit_info.reads == plain.fit_info.reads == 2
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-6)
    np.testing.assert_allclose(r.bse, plain.bse / np.sqrt(weight), rtol=1e-6)


def test_a_step_with_the_curvature_of_pilot_rows_is_never_the_result(monkeypatch):
    """The step goes much too far, and no read is left to compare shares of it."""
    original = FirstRead._pilot_model

    def poor(self, count):
        model = original(self, count)
        return replace(model, hessian=model.hessian / 30)

    X, t, rng = rows(9)
    model, y = draw("binomial", t, rng)
    exact = mg.fit(model, (X, y), passes="newton")
    monkeypatch.setattr(FirstRead, "_pilot_model", poor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        r = mg.fit(model, (X, y), passes=2)
    assert r.log_likelihood == pytest.approx(exact.log_likelihood, rel=0.05)
    away = np.abs((r.params - exact.params) / exact.bse).max()
    assert away < max(1.5 * r.fit_info.remainder, 0.1)


def test_secant_steps_are_those_of_bfgs(rng):
    """From the H of other rows; the last change of the gradient is explained exactly."""
    p = 6
    A = rng.standard_normal((p, p))
    H, phi, g = A @ A.T + np.eye(p), rng.standard_normal(p), rng.standard_normal(p)
    B, changes = np.linalg.inv(H), []
    for _ in range(3):
        s = rng.standard_normal(p)
        y = H @ s + 0.3 * rng.standard_normal(p)
        assert s @ y > 0
        changes.append((s, y))
        V = np.eye(p) - np.outer(s, y) / (s @ y)
        B = V @ B @ V.T + np.outer(s, s) / (s @ y)
    local = LocalModel(1.0, phi, g, H, np.eye(p))
    np.testing.assert_allclose(secant_step(local, changes), -B @ g, rtol=1e-10)
    along = LocalModel(1.0, phi, y, H, np.eye(p))
    np.testing.assert_allclose(secant_step(along, changes), -s, rtol=1e-10)
    np.testing.assert_allclose(secant_step(local, []), local.newton(), rtol=1e-12)


def test_changes_of_the_gradient_without_curvature_are_left_out():
    points, H = np.eye(3), np.eye(3)
    gradients = np.array([[0.0, 0, 0], [-1.0, 1, 0], [-1.0, 1, 0]])  # up, then not at all
    models = [LocalModel(1.0, x, g, H, H) for x, g in zip(points, gradients, strict=True)]
    ((s, y),) = changes_between(models)
    np.testing.assert_array_equal((s, y), (points[1] - points[0], gradients[1]))


def test_an_average_whose_losses_overflow_is_worse_than_its_start(rng):
    X = np.column_stack([np.ones(500), rng.normal(size=500)])
    y = X @ [1.0, 2.0] + rng.normal(size=500)
    objective = Objective(mg.Linear(), of_design(X))
    start, far = np.zeros(2), np.array([1e91, 1e91])  # variances of losses there are infinite
    assert not is_no_worse(objective, (X, y), far, start)
    assert is_no_worse(objective, (X, y), np.array([1.0, 2.0]), start)

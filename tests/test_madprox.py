"""MadProx: its steps by hand, its limits, and what it refuses.

A step is right if the subgradient that its implicit equation asks for is one: the equation has one
solution, so that no second solver is needed.
"""

import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.penalties import metric
from scenarios import root
from test_kernels import CHAINS, N_BATCH, SEED, drawn_rows

ETA, LAM, TIGHT, P = 0.5, 0.15, 1e-9, 4
GIVEN = 0.3 * np.eye(P) + 0.1


def kernel(covariance="population", h=None, **options):
    h = mg.L1(LAM) if h is None else h
    return mg.madprox(ETA, h, covariance, accuracy=TIGHT, **options)


@pytest.fixture
def problem(rng):
    X, y = scenarios.regression(rng, "bernoulli", misspecified=True)
    return mg.Logistic(), (X, y), np.array([0.3, 0.0, -0.4, 0.1])


def assert_l1_subgradient(z, theta, lam=LAM):
    on = theta != 0
    np.testing.assert_allclose(z[on], lam * np.sign(theta[on]), atol=1e-6)
    assert np.all(np.abs(z) <= lam + 1e-6)


# One step by hand.


@pytest.mark.parametrize("covariance", ["population", "fixed", "batch", "running", "given"])
def test_sampled_steps_solve_the_implicit_equation(problem, covariance):
    """theta' = theta - eta V^-1 (g + z), z in the subdifferential at theta', for two steps."""
    model, data, theta0 = problem
    how = GIVEN if covariance == "given" else covariance
    paths = mg.run(kernel(how), model, data, theta0, 2, N_BATCH, CHAINS, SEED).theta
    assert 0 < (paths[:, 1:] == 0).sum() < paths[:, 1:].size
    for k, path in enumerate(paths):
        past = None
        for t in range(2):
            X, y = drawn_rows(data, t)
            G = model.gradients(path[t], (X[:, k], y[:, k]))
            past = np.cov(G.T) if past is None else past
            cov = {
                "population": lambda: np.cov(model.gradients(path[t], data).T),  # noqa: B023
                "fixed": lambda: np.cov(model.gradients(theta0, data).T),
                "batch": lambda: np.cov(G.T),  # noqa: B023
                "running": lambda: past,  # noqa: B023
                "given": lambda: GIVEN,
            }[covariance]()
            z = root(cov) @ (path[t] - path[t + 1]) / ETA - G.mean(0)
            assert_l1_subgradient(z, path[t + 1])


def test_the_explicit_step_takes_its_subgradient_at_the_start(problem):
    """theta' = theta - eta V^-1 (g + z), z in the subdifferential at theta."""
    model, data, theta = problem
    after = mg.run(mg.subgradient(ETA, mg.L1(LAM), GIVEN), model, data, theta, 1, None, 1).final[0]
    z = LAM * np.array([1.0, 0.0, -1.0, 1.0])
    b = mg.moments(model, theta, data).mean
    np.testing.assert_allclose(after, theta - ETA * np.linalg.solve(root(GIVEN), b + z), rtol=1e-9)


def test_a_diagonal_root_has_the_closed_form_step(problem):
    """Soft thresholding at eta lam / V_jj."""
    model, data, theta = problem
    after = mg.run(kernel(root="diagonal"), model, data, theta, 1, None, 1).final[0]
    m = mg.moments(model, theta, data)
    v = np.sqrt(np.diag(m.cov))
    w = theta - ETA * m.mean / v
    expected = np.sign(w) * np.maximum(np.abs(w) - ETA * LAM / v, 0)
    np.testing.assert_allclose(after, expected, rtol=1e-9, atol=1e-14)


def test_the_nuclear_norms_steps_by_hand(rng):
    """z = V (W - W') / eta - g has spectral norm lam at most, and <z, W'> = lam |W'|_*."""
    X, theta = rng.normal(size=(200, 2, 3)), rng.normal(size=6)
    y = X.reshape(200, 6) @ np.outer([1.0, -1.0], [1.0, 0.0, 2.0]).ravel() + rng.normal(size=200)
    model, lam, cov = mg.TraceRegression(2, 3), 1.0, np.cov(X.reshape(200, 6).T)
    path = mg.run(kernel(cov, mg.Nuclear(lam, (2, 3))), model, (X, y), theta, 6, None, 1).theta[0]
    for before, W in zip(path[:-1], path[1:].reshape(-1, 2, 3), strict=True):
        b = mg.moments(model, before, (X, y)).mean
        z = (root(cov) @ (before - W.ravel()) / ETA - b).reshape(2, 3)
        assert np.linalg.norm(z, 2) <= lam * (1 + 1e-6)
        np.testing.assert_allclose((z * W).sum(), lam * np.linalg.norm(W, "nuc"), rtol=1e-6)
    assert np.linalg.matrix_rank(W, 1e-7) == 1


# Limits.


def test_no_penalty_is_masgrad_and_a_huge_one_is_zero(problem):
    model, data, theta = problem
    run = lambda k, steps: mg.run(k, model, data, theta, steps, N_BATCH, CHAINS, SEED)  # noqa: E731
    free = run(kernel(h=mg.L1(0.0)), 6).theta
    np.testing.assert_allclose(free, run(mg.masgrad(ETA), 6).theta, rtol=1e-7, atol=1e-8)
    assert not run(kernel(h=mg.L1(1e3)), 3).final.any()


def test_the_identity_is_ista_by_hand(problem):
    model, data, theta = problem
    path = mg.run(kernel("identity"), model, data, theta, 5, None, 1).theta[0]
    for t in range(5):
        w = path[t] - ETA * mg.moments(model, path[t], data).mean
        expected = np.sign(w) * np.maximum(np.abs(w) - ETA * LAM, 0)
        np.testing.assert_allclose(path[t + 1], expected, rtol=1e-11, atol=1e-14)


def test_bounds_hold_at_every_step(problem):
    """Projected in the V metric, not clipped: the free coordinates feel the wall."""
    model, data, theta = problem
    path = mg.run(kernel(GIVEN, mg.Box(-0.1, 0.1)), model, data, theta, 6, None, 1).theta[0]
    assert np.all(np.abs(path[1:]) <= 0.1) and np.any(np.abs(path[1]) == 0.1)
    b = mg.moments(model, path[0], data).mean
    pull = root(GIVEN) @ (path[0] - path[1]) - ETA * b  # normal: 0 inside, outwards on a wall
    inside = np.abs(path[1]) < 0.1
    np.testing.assert_allclose(pull[inside], 0.0, atol=1e-6)
    assert np.all(pull * np.sign(path[1]) >= -1e-6)


def test_the_diffusion_is_reproducible_and_has_exact_zeros(problem):
    model, data, theta = problem
    args = (model, data, theta, 5, N_BATCH, CHAINS)
    first, again, other = (
        mg.run(mg.diffusion(kernel(GIVEN)), *args, seed=s).theta for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.isfinite(first).all() and (first[:, 1:] == 0).any() and (first != other).any()


def test_another_penalty_step_or_seed_does_not_compile_again(problem, compiled):
    model, data, theta = problem

    def run(prox, seed=0):
        return lambda: mg.run(prox, model, data, theta, 3, N_BATCH, CHAINS, seed)

    run(mg.madprox(0.5, mg.L1(0.1), accuracy=TIGHT))()
    assert not compiled(run(mg.madprox(0.4, mg.L1(0.2), accuracy=TIGHT), 1))
    assert not compiled(run(mg.madprox(0.3, mg.ElasticNet(0.3, 0.7), accuracy=TIGHT), 2))
    run(kernel(GIVEN))()
    assert not compiled(run(kernel(2 * GIVEN, root="products")))


# What is refused, and what is said.


def test_an_inner_problem_that_is_not_solved_is_said_aloud(problem, monkeypatch):
    model, data, theta = problem
    monkeypatch.setattr(metric, "MOST_ROUNDS", 1)
    method = mg.madprox(ETA, mg.L1(LAM), GIVEN, accuracy=1e-13)
    with pytest.warns(mg.errors.AccuracyWarning, match="at up to 1 of 1 steps"):
        mg.run(method, model, data, theta, 1, None, 1)


@pytest.mark.parametrize(
    "make, error, needed",
    [
        (lambda: mg.madprox(0.1, 0.1), TypeError, "a penalty is needed"),
        (lambda: mg.madprox(0.1, mg.L1), TypeError, "a penalty is needed"),
        (lambda: mg.madprox(0.1, mg.L1("cv")), ValueError, r"mg.fit; .* such as L1\(0.1\)"),
        (lambda: mg.fista(0.1, mg.Nuclear("bic", (2, 2))), ValueError, "mg.fit"),
        (lambda: mg.madprox(0.0, mg.L1(0.1)), ValueError, "finite number > 0"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), accuracy=0.0), ValueError, "positive number"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), "all"), ValueError, "'identity'"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), object()), TypeError, "matrix .p, p. is needed"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), np.ones(4)), ValueError, "p, p. is needed"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), -GIVEN), ValueError, "not positive semidefinite"),
        (lambda: mg.madprox(0.1, mg.L1(0.1), np.ones((4, 4))), ValueError, "ridge > 0"),
        (lambda: kernel("batch", root="rank_one", ridge=0.1), ValueError, "'symmetric' or"),
        (lambda: kernel("batch", root="low_rank", ridge=0.1), ValueError, "'symmetric' or"),
        (lambda: mg.subgradient(0.1, mg.NonNegative()), ValueError, "mg.madprox"),
        (lambda: mg.diffusion(kernel("batch")), ValueError, "self-normalised"),
        (lambda: mg.diffusion(mg.fista(0.1, mg.L1(0.1))), TypeError, "kernel"),
    ],
)
def test_bad_methods_are_refused_with_what_is_needed(make, error, needed):
    with pytest.raises(error, match=needed) as caught:
        make()
    assert isinstance(caught.value, mg.errors.MasgradError)


def test_penalties_that_do_not_fit_the_model_are_refused(problem, rng):
    trace = (
        mg.TraceRegression(2, 3),
        (rng.normal(size=(50, 2, 3)), rng.normal(size=50)),
        np.zeros(6),
    )
    for make in (mg.madprox, mg.subgradient, mg.fista):
        for h, at, needed in (
            (mg.Nuclear(0.1, (2, 2)), problem, r"mg.TraceRegression\(2, 2\)"),
            (mg.Nuclear(0.1, (3, 2)), trace, "give them the same shape"),
            (mg.Nuclear(0.1, (2, 2)), trace, "2 x 2 must be 6"),
            (mg.L1(0.1, np.ones(3)), problem, "weights of L1 has length 3, and theta 4"),
            (mg.GroupLasso(0.1, [0, 1]), problem, "length 2, and theta 4"),
        ):
            with pytest.raises(ValueError, match=needed):
                mg.run(make(0.1, h), *at, 1, None, 1)
    with pytest.raises(ValueError, match=r"shape \(3, 3\), and theta 4"):
        mg.run(kernel(np.eye(3)), *problem, 1, None, 1)
    with pytest.raises(ValueError, match="batch_size=None"):
        mg.run(mg.fista(0.1, mg.L1(0.1)), *problem, 1, 10, 1)


def test_a_singular_metric_is_refused_and_a_ridge_mends_it(problem):
    model, (X, y), theta = problem
    twice = np.column_stack([X[:, :3], X[:, 0]]), y
    for covariance in ("population", "fixed"):
        with pytest.raises(ValueError, match=r"in 1 of 4 directions.*ridge > 0"):
            mg.run(kernel(covariance), model, twice, theta, 1, N_BATCH, CHAINS)
    for method in (kernel(ridge=0.1), kernel(np.ones((P, P)), ridge=0.1)):
        final = mg.run(method, model, twice, theta, 40, N_BATCH, CHAINS).final
        assert np.isfinite(final).all() and np.abs(final).max() < 3


def test_laws_of_a_kinked_update_are_refused(problem):
    model, data, theta = problem
    for ask in (
        lambda: mg.stationary_law(model, data, theta, kernel(), 25),
        lambda: mg.iterate_law(model, data, theta, kernel(), 5, 25),
        lambda: mg.theory.smoothness(kernel(), model, data, [theta]),
        lambda: mg.theory.coupled(kernel(), model, data, theta, 3, 25, substeps=4, chains=8),
    ):
        with pytest.raises(ValueError, match=r"penalty L1\(0.15\) has kinks.*run its chains"):
            ask()

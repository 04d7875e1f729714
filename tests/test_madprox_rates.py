"""The proposition of MadProx and its rate, on regressions whose penalised optimum is known."""

import numpy as np
import pytest
from scipy.stats import f as f_law
from sklearn import linear_model

import masgrad as mg
from conftest import alpha
from masgrad.theory.samples.rates import Power
from scenarios import root

P, TIGHT = 4, 1e-9


def prescribed(kappa, optimum, lam=0.1, ratio=1.0):
    """H, V and rows whose elastic net has this optimum: y is made for it; noise variance 1.

    H has condition number kappa; its slowest direction lies in the optimum's support.
    """
    rng, N = np.random.default_rng(0), 200
    slow = np.where(optimum != 0, rng.normal(size=P), 0.0)
    Q = np.linalg.qr(np.column_stack([slow, rng.normal(size=(P, P - 1))]))[0]
    values = kappa ** -np.linspace(1, 0, P)
    H, R = (Q * values) @ Q.T, (Q * values**0.5) @ Q.T
    Z = np.linalg.qr(rng.normal(size=(N, P + 1)))[0] * np.sqrt(N)
    z = ratio * np.where(optimum != 0, np.sign(optimum), 0.3) + (1 - ratio) * optimum
    y = Z[:, :P] @ R @ (optimum + np.linalg.solve(H, lam * z)) + Z[:, P]
    return H, R, (Z[:, :P] @ R, y)


SPARSE = np.array([1.0, 0.0, 2.0, -1.0])


@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_the_proposition_holds_and_the_objective_never_rises(ratio):
    """eta = 1/gamma: within epsilon after `prox_steps`, for a lasso and an elastic net."""
    H, V, (X, y) = prescribed(1e3, SPARSE, ratio=ratio)
    h = mg.ElasticNet(0.1, ratio)
    options = {"fit_intercept": False, "tol": 1e-14, "max_iter": 10**6, "l1_ratio": ratio}
    optimum = linear_model.ElasticNet(0.1, **options).fit(X, y).coef_
    np.testing.assert_allclose(optimum, SPARSE, atol=1e-6)
    half = np.linalg.inv(root(V))
    low, *_, high = np.linalg.eigvalsh(half @ H @ half)
    start = np.array([-2.0, 3.0, 0.5, 4.0])
    distance = np.sqrt((start - SPARSE) @ V @ (start - SPARSE))
    epsilons = 10.0 ** -np.arange(1, 10)
    steps = [mg.theory.prox_steps(low, high, epsilon, distance) for epsilon in epsilons]
    data = mg.LeastSquaresMoments(P).update(X, y)
    method = mg.madprox(1 / high, h, H, accuracy=TIGHT)
    path = mg.run(method, mg.Linear(), data, start, steps[-1], None, 1).theta[0]
    objective = ((path @ X.T - y) ** 2).mean(1) / 2 + h.value(path.T)
    gap = objective - ((X @ optimum - y) ** 2).mean() / 2 - h.value(optimum)
    assert np.all(np.diff(objective) <= 1e-12) and gap.min() > -1e-12
    first = np.argmax(gap[:, None] <= epsilons, axis=0)
    assert np.all(first <= steps) and np.all(gap[steps] <= epsilons) and first[-1] > 10
    assert path[-1, 1] == 0.0


def hitting(method, data, start, optimum, most):
    """Steps until the error is 1e-4 of the start's."""
    tr = mg.run(method, mg.Linear(), data, start, most, None, 1)
    error = np.linalg.norm(tr.theta[0] - optimum, axis=1)
    assert error[-1] < 1e-4 * error[0]
    return int(np.argmax(error < 1e-4 * error[0]))


@pytest.mark.parametrize("optimum", [SPARSE, np.array([1.0, -1.0, 2.0, 1.0])])
def test_steps_grow_as_the_root_of_the_condition_number(optimum):
    """MadProx as kappa^1/2, proximal gradient as kappa, from the same relative start."""
    kappas = 10.0 ** np.arange(1, 5)
    adjusted, plain = [], []
    for kappa in kappas:
        H, V, rows = prescribed(kappa, optimum)
        data = mg.LeastSquaresMoments(P).update(*rows)
        away = np.linalg.solve(V, np.ones(P))
        start = optimum + 0.3 * away / np.linalg.norm(away)
        method = mg.madprox(1.0, mg.L1(0.1), H, accuracy=TIGHT)  # gamma = 1, as lambda_max(H)
        adjusted.append(hitting(method, data, start, optimum, int(12 * np.sqrt(kappa)) + 40))
        if kappa <= 1e3:
            ista = mg.madprox(1.0, mg.L1(0.1), "identity")
            plain.append(hitting(ista, data, start, optimum, int(12 * kappa) + 40))
    assert abs(Power.fit(kappas, np.array(adjusted)).slope - 0.5) < 0.05
    assert abs(Power.fit(kappas[:3], np.array(plain)).slope - 1.0) < 0.06
    assert adjusted[2] < plain[2] / 20


def test_fista_reaches_the_optimum_and_the_explicit_step_a_neighbourhood():
    """The sub-gradient step has no exact zero, and a floor that its step size sets."""
    _, _, rows = prescribed(100.0, SPARSE)
    data = mg.LeastSquaresMoments(P).update(*rows)
    run = lambda k: mg.run(k, mg.Linear(), data, np.zeros(P), 4000, None, 1).theta[0]  # noqa: E731
    fast, slow = run(mg.fista(1.0, mg.L1(0.1))), run(mg.madprox(1.0, mg.L1(0.1), "identity"))
    np.testing.assert_allclose(fast[-1], SPARSE, atol=1e-7)
    away = lambda path: np.linalg.norm(path[50:100] - SPARSE, axis=1)  # noqa: E731
    assert fast[-1, 1] == 0.0 and away(fast).max() < away(slow).min()
    floors = []
    for eta in (0.8, 0.2):
        tail = run(mg.subgradient(eta, mg.L1(0.1), "identity"))[-200:]
        assert np.all(tail != 0)
        floors.append(np.abs(tail[:, 1]).mean())
    assert floors[1] > 1e-3 and 2 < floors[0] / floors[1] < 8


@pytest.mark.statistical(1)
def test_mini_batches_settle_around_the_penalised_optimum(seed):
    """While zeros stay 0 and signs their signs the update is linear: its mean is the optimum."""
    H, _, rows = prescribed(10.0, SPARSE, lam=1.0)
    method, K = mg.madprox(0.3, mg.L1(1.0), H), 200
    final = mg.run(method, mg.Linear(), rows, np.zeros(P), 150, 400, K, seed).final
    assert not final[:, 1].any()
    error, p = (final - SPARSE)[:, [0, 2, 3]], 3
    m, S = error.mean(0), np.cov(error.T)
    hotelling = K * m @ np.linalg.solve(S, m) * (K - p) / (p * (K - 1))
    assert f_law.sf(hotelling, p, K - p) > alpha()
    assert 0.05 < np.sqrt((error**2).mean()) < 0.3

"""Rows to an accuracy: a closed form, the condition number, and chains that get there."""

import numpy as np
import pytest

import masgrad as mg
import scenarios
from masgrad.paper.studies.rows import problem
from masgrad.theory import rows_to_reach


def test_one_ar1_by_hand():
    """b = theta, Sigma = 1: risk keep^2T / 2 + (eta^2 / 2n) sum of keep^2s, for each eta and T."""
    z = np.array([[-1.0], [1.0]]) / np.sqrt(2)
    found = rows_to_reach(mg.sgd, scenarios.mean_model(1), z, [4.0], [0.0], 0.001)
    for setting in found.tried:
        eta, keep = setting.step_size, 1 - setting.step_size
        T = np.arange(1, 400)
        gap, spread = 8 * keep ** (2 * T), eta**2 * np.cumsum(keep ** (2 * (T - 1.0))) / 2
        enough = gap < found.epsilon
        n = np.ceil(spread[enough] / (found.epsilon - gap[enough]) * (1 - 1e-8))
        assert setting.rows <= 1.02 * (n * T[enough]).min()  # every 2 % of T is looked at
        assert setting.batch_size == n[T[enough] == setting.steps][0]
    assert [s.step_size for s in found.tried] == [0.5**k for k in range(len(found.tried))]
    assert found.best in found.tried and found.rows == min(s.rows for s in found.tried)


@pytest.mark.long
@pytest.mark.parametrize("method, power", [(mg.sgd, 1.0), (mg.masgrad, 0.5)])
def test_rows_have_the_condition_number_of_the_method(method, power):
    """n T over tr(H^a) / lambda_min(H^a), with a = 1 for SGD and 1/2 for MasGrad, hardly moves."""
    ratios = []
    for kappa in (10.0, 200.0):
        at = problem(kappa)
        found = rows_to_reach(method, mg.Linear(), at.moments, at.start, at.optimum, 0.05)
        values = np.linalg.eigvalsh(at.moments.hessian) ** power
        ratios.append(found.rows / (values.sum() / values[0]))
    assert max(ratios) < 1.15 * min(ratios)


@pytest.mark.parametrize(
    "method, slack",
    [
        (mg.sgd, 0.04),
        (mg.masgrad, 0.08),
        pytest.param(mg.natural_gradient, 0.2, marks=pytest.mark.long),
    ],
)
def test_chains_have_the_risk_that_was_planned(method, slack, seed):
    """At epsilon = 0.02 and its best setting, up to six standard errors and terms beyond eta / n.

    With 20,000 chains these were 2 % (SGD), 6 % (MasGrad) and 15 % (natural gradient).
    """
    at, epsilon, chains = problem(10.0), 0.02, 1000
    best = rows_to_reach(method, mg.Linear(), at.moments, at.start, at.optimum, epsilon).best
    args = at.start, best.steps, best.batch_size, chains, seed
    end = mg.run(method(best.step_size), mg.Linear(), at.data, *args, thin=best.steps).final
    away = (end - at.optimum) @ np.linalg.cholesky(at.moments.hessian)
    risks = (away**2).sum(1) / 2
    error = 6 * risks.std() / np.sqrt(chains)
    assert abs(risks.mean() - epsilon) < slack * epsilon + error and error < 0.2 * epsilon


@pytest.mark.long
def test_rows_and_moments_agree():
    at = problem(10.0)
    args = at.start, at.optimum, 0.05
    by_rows = rows_to_reach(mg.masgrad, mg.Linear(), at.data, *args)
    by_moments = rows_to_reach(mg.masgrad, mg.Linear(), at.moments, *args)
    for one, other in zip(by_rows.tried, by_moments.tried, strict=True):
        assert (one.batch_size, one.steps) == (other.batch_size, other.steps)
        assert one.step_size == pytest.approx(other.step_size, rel=1e-12)


@pytest.mark.long
def test_a_plan_for_logistic_rows_holds(seed):
    """There the path bends, H changes on the way, and the risk is not quadratic."""
    model, data = mg.Logistic(), scenarios.regression(np.random.default_rng(seed), "bernoulli")
    optimum = mg.theory.survey(model, data).optimum
    start, lowest = optimum + 1.0, model.risk(optimum, data)
    best = rows_to_reach(mg.masgrad, model, data, start, optimum, 0.01).best
    args = start, best.steps, best.batch_size, 400, seed
    end = mg.run(mg.masgrad(best.step_size), model, data, *args, thin=best.steps).final
    risks = np.array([model.risk(theta, data) - lowest for theta in end])
    assert abs(risks.mean() - 0.01) < 0.001 + 6 * risks.std() / 20


def test_what_cannot_be_planned_is_refused():
    at = problem(10.0)
    with pytest.raises(ValueError, match=r"epsilon=1: the start is within 0.5"):
        rows_to_reach(mg.sgd, mg.Linear(), at.data, at.start, at.optimum, 1.0)
    with pytest.raises(ValueError, match="memory"):
        rows_to_reach(mg.adagrad, mg.Linear(), at.data, at.start, at.optimum, 0.1)
    simulated = scenarios.gaussian_design([0.0, 0.0])
    with pytest.raises(TypeError, match="draw rows"):
        rows_to_reach(mg.sgd, *simulated, [1.0, 1.0], [0.0, 0.0], 0.1)

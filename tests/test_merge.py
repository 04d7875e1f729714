"""`Result.merge`: disjoint shards as one, against the fit of all rows; refusals."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import AccuracyWarning, IdentificationError, InputError, InputTypeError
from masgrad.fitting.status import Status


def rows(N, p, seed=0):
    """X with a constant, and linear predictors of size 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, p - 1))])
    return X, X @ np.linspace(0.5, -0.5, p), rng


def data_of(family, N, p=3, seed=0):
    X, eta, rng = rows(N, p, seed)
    if family == "gaussian":
        return mg.Linear(), X, eta + rng.standard_t(5, size=N)
    if family == "poisson":
        return mg.Poisson(), X, rng.poisson(np.exp(eta)).astype(float)
    return mg.Logistic(), X, (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)


def whole_of(family, N):
    model, X, y = data_of(family, N)
    return mg.fit(model, (X, y))


def shards(model, X, y, K, **keywords):
    return [mg.fit(model, (X[k::K], y[k::K]), **keywords) for k in range(K)]


def merged(results):
    """The merge, and whether it warned that it is rough."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        r = results[0].merge(*results[1:])
    assert all(issubclass(w.category, AccuracyWarning) for w in seen)
    assert bool(seen) == (r.fit_info.remainder > 0.1) == (r.status is Status.MERGED_ROUGHLY)
    return r


def distance(r, whole):
    """In standard errors, of the worst coefficient."""
    return float(np.abs((np.asarray(r.params) - whole.params) / whole.bse).max())


@pytest.mark.parametrize("cov_type", ["robust", "HC1", "nonrobust"])
def test_least_squares_are_merged_exactly(cov_type):
    model, X, y = data_of("gaussian", 900)
    w = np.random.default_rng(1).integers(1, 4, 900).astype(float)
    parts = [
        mg.fit(model, (X[k::3], y[k::3]), weights=w[k::3], cov_type=cov_type) for k in range(3)
    ]
    r, whole = parts[0].merge(*parts[1:]), mg.fit(model, (X, y), weights=w, cov_type=cov_type)
    np.testing.assert_allclose(r.params, whole.params, rtol=0, atol=1e-12)
    np.testing.assert_allclose(r.cov_params(), whole.cov_params(), rtol=1e-10)
    for name in ("log_likelihood", "aic", "bic", "deviance", "dispersion", "nobs"):
        assert getattr(r, name) == pytest.approx(getattr(whole, name), rel=1e-12), name
    assert r.cov_type == cov_type
    assert r.fit_info.remainder < 1e-10 and r.status is Status.CONVERGED


@pytest.mark.parametrize("family", ["binomial", "poisson"])
@pytest.mark.parametrize("K", [3, 10])
def test_the_remainder_bounds_what_the_merge_omits_and_a_second_round_removes_it(family, K):
    model, X, y = data_of(family, 1500)
    whole = mg.fit(model, (X, y), passes="converge")
    first = merged(shards(model, X, y, K))
    assert distance(first, whole) < first.fit_info.remainder < 0.3
    np.testing.assert_allclose(first.bse, whole.bse, rtol=0.03)
    second = merged(shards(model, X, y, K, at=first))
    assert distance(second, whole) < 1e-6 and second.fit_info.remainder < 1e-5
    np.testing.assert_allclose(second.bse, whole.bse, rtol=1e-5)
    assert second.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-9)
    assert second.nobs == 1500 and second.status is Status.CONVERGED


def test_the_bias_of_many_small_shards_is_counted_and_removed():
    """200 shards of 60 rows: the mean of their estimates is several standard errors off."""
    model, X, y = data_of("binomial", 200 * 60)
    whole = mg.fit(model, (X, y), passes="converge")
    parts = shards(model, X, y, 200)
    H = [p.coordinates.raw_moment(p.local_model.hessian) for p in parts]
    mean = np.linalg.solve(sum(H), sum(h @ p.theta for h, p in zip(H, parts, strict=True)))
    quadratic = np.abs((mean - whole.params) / whole.bse).max()
    first = merged(parts)
    assert first.status is Status.MERGED_ROUGHLY  # it says that a second round matters
    assert distance(first, whole) < first.fit_info.remainder < 2
    assert quadratic > 2 * distance(first, whole)
    second = merged(shards(model, X, y, 200, at=first))
    assert distance(second, whole) < 1e-5 and second.fit_info.remainder < 1e-3
    assert second.merged.shards == 200


def test_more_than_32_columns_have_quadratic_models_whose_remainder_is_known():
    model, X, y = data_of("poisson", 6000, p=36)
    whole = mg.fit(model, (X, y), passes="converge")
    parts = shards(model, X, y, 4)
    assert parts[0].local_model.third is None
    first = merged(parts)
    assert distance(first, whole) < first.fit_info.remainder < 10 * distance(first, whole)
    assert distance(merged(shards(model, X, y, 4, at=first)), whole) < 1e-2


def test_parts_of_merges_are_merged_and_updated():
    model, X, y = data_of("poisson", 2000)
    a, b, c, d = shards(model, X, y, 4)
    at_once, in_turn = a.merge(b, c, d), a.merge(b).merge(c.merge(d))
    np.testing.assert_allclose(in_turn.params, at_once.params, atol=0.02 * at_once.bse.min())
    assert in_turn.merged.shards == 4 and in_turn.nobs == 2000
    both = in_turn.heterogeneity
    assert both.df == at_once.heterogeneity.df == 9
    assert both.statistic == pytest.approx(at_once.heterogeneity.statistic, rel=0.1)
    whole = mg.fit(model, (X, y))
    new = a.merge(b, c).update((X[3::4], y[3::4]))
    assert distance(new, whole) < 0.05 and new.nobs == 2000 and new.merged is None


def test_columns_are_matched_by_name():
    _, X, y = data_of("gaussian", 300)
    names = ["one", "a", "b"]
    one = mg.fit(mg.Linear(), (pd.DataFrame(X[:150], columns=names), y[:150]))
    turned = pd.DataFrame(X[150:], columns=names)[["b", "one", "a"]]
    r = one.merge(mg.fit(mg.Linear(), (turned, y[150:])))
    whole = mg.fit(mg.Linear(), (X, y))
    np.testing.assert_allclose(r.params[names], whole.params, atol=1e-12)
    np.testing.assert_allclose(r.bse[names], whole.bse, rtol=1e-10)


def test_far_and_scaled_columns_lose_no_digits():
    _, X, y = data_of("gaussian", 900)
    far = np.column_stack([X[:, 0], 1e6 + X[:, 1], 1e-5 * X[:, 2]])
    r = merged(shards(mg.Linear(), far, y, 3))
    assert distance(r, mg.fit(mg.Linear(), (far, y))) < 1e-8


def test_losses_of_ones_own_are_merged_by_name():
    _, X, y = data_of("poisson", 900)
    loss = mg.CustomLoss(
        lambda t, z: (t["mean"] @ z[0] - z[1]) ** 2 / 2,
        params={"mean": np.zeros(3)},
    )
    parts = [mg.fit(loss, (X[k::3], y[k::3])) for k in range(3)]
    whole = mg.fit(mg.Linear(), (X, y))
    assert distance(merged(parts), whole) < 1e-6
    np.testing.assert_allclose(merged(parts).bse, whole.bse, rtol=5e-3)  # of M to second order


@pytest.mark.parametrize("cov_type", ["CR1", "CR3"])
def test_clusters_are_merged_and_united_by_their_keys(cov_type):
    _, X, y = data_of("gaussian", 600)
    firm = np.arange(600) // 20
    halves = [slice(0, 310), slice(310, 600)]  # firm 15 is in both
    parts = [mg.fit(mg.Linear(), (X[h], y[h]), clusters=firm[h], cov_type=cov_type) for h in halves]
    r = parts[0].merge(parts[1])
    whole = mg.fit(mg.Linear(), (X, y), clusters=firm, cov_type=cov_type)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-10)
    assert r.clusters.fewest == 30 and r.df == whole.df
    assert any("1 keys" in note and "more than one shard" in note for note in r.notes)
    assert any("clusters do not span shards" in note for note in r.notes)
    np.testing.assert_allclose(r.conf_int(), whole.conf_int(), rtol=1e-9)


def test_two_ways_of_clusters_are_merged():
    _, X, y = data_of("poisson", 600)
    ways = [np.arange(600) // 20, np.arange(600) % 12]
    halves = [slice(0, 300), slice(300, 600)]
    parts = [mg.fit(mg.Poisson(), (X[h], y[h]), clusters=[w[h] for w in ways]) for h in halves]
    again = [
        mg.fit(
            mg.Poisson(), (X[h], y[h]), clusters=[w[h] for w in ways], at=parts[0].merge(parts[1])
        )
        for h in halves
    ]
    whole = mg.fit(mg.Poisson(), (X, y), clusters=ways, passes="converge")
    np.testing.assert_allclose(again[0].merge(again[1]).bse, whole.bse, rtol=1e-4)


@pytest.mark.parametrize("weights_type", ["frequency", "analytic", "probability"])
def test_kinds_of_weights_and_offsets_are_merged(weights_type):
    model, X, y = data_of("poisson", 900)
    rng = np.random.default_rng(2)
    about = {"weights": rng.uniform(0.5, 2, 900), "offset": 0.2 * rng.normal(size=900)}

    def fit(part, **more):
        roles = {name: values[part] for name, values in about.items()}
        return mg.fit(model, (X[part], y[part]), weights_type=weights_type, **roles, **more)

    thirds = [slice(k, None, 3) for k in range(3)]
    first = merged([fit(part) for part in thirds])
    r = merged([fit(part, at=first) for part in thirds])
    whole = fit(slice(None), passes="converge")
    assert distance(r, whole) < 1e-8 and r.has_offset
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-6)
    assert (r.log_likelihood is None) == (weights_type != "frequency")


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_errors_that_trust_the_model_are_merged_and_hc3_becomes_robust(link):
    _, X, y = data_of("binomial", 900)
    model, kind = mg.GLM("binomial", link), "nonrobust" if link == "probit" else "HC3"
    first = merged(shards(model, X, y, 3, cov_type=kind))
    whole = mg.fit(model, (X, y), cov_type=kind)
    np.testing.assert_allclose(first.bse, whole.bse, rtol=0.02)
    assert first.cov_type == ("nonrobust" if link == "probit" else "robust")
    assert any("HC3 takes the rows of all shards" in n for n in first.notes) == (link == "logit")
    if link == "probit":
        second = merged(shards(model, X, y, 3, cov_type=kind, at=first))
        np.testing.assert_allclose(second.bse, whole.bse, rtol=1e-4)


def simulated(rng, shift, family):
    """The test of four shards of 150 rows, one of which has another slope."""
    parts = []
    for k in range(4):
        X = np.column_stack([np.ones(150), rng.normal(size=150)])
        eta = X @ [0.3, 0.5 + shift * (k == 0)]
        y = eta + rng.normal(size=150) * (0.3 + np.abs(X[:, 1]))
        if family == "binomial":
            y = (rng.random(150) < 1 / (1 + np.exp(-eta))).astype(float)
        model = mg.Linear() if family == "gaussian" else mg.Logistic()
        parts.append(mg.fit(model, (X, y)))
    return merged(parts).heterogeneity


@pytest.mark.parametrize("family", ["gaussian", pytest.param("binomial", marks=pytest.mark.long)])
def test_heterogeneity_has_its_level_and_finds_a_shard_that_differs(family):
    rng = np.random.default_rng(5)
    null = np.array([simulated(rng, 0, family).pvalue for _ in range(150)])
    # binomial(150, .05) and (150, .5): three standard deviations
    assert (null < 0.05).mean() < 0.105 and 0.37 < (null < 0.5).mean() < 0.63
    found = [simulated(rng, 1.2, family) for _ in range(15)]
    assert np.mean([test.pvalue < 0.05 for test in found]) > 0.8
    assert all(test.df == 6 and len(test.shares) == 4 for test in found)
    assert np.mean([test.shares.argmax() == 0 for test in found]) > 0.8


def test_heterogeneity_of_least_squares_with_equal_meats_is_cochrans_q():
    """Q of estimates and inverse covariances, where M_k is taken at the merged estimate."""
    _, X, y = data_of("gaussian", 4000)
    parts = shards(mg.Linear(), X, y, 4)
    W = [np.linalg.inv(p.cov) for p in parts]
    mean = np.linalg.solve(sum(W), sum(w @ p.theta for w, p in zip(W, parts, strict=True)))
    Q = sum((p.theta - mean) @ w @ (p.theta - mean) for w, p in zip(W, parts, strict=True))
    assert merged(parts).heterogeneity.statistic == pytest.approx(Q, rel=0.02)


def fitted(**keywords):
    model, X, y = data_of("poisson", 300, seed=3)
    return mg.fit(keywords.pop("model", model), (X, y), **keywords)


def stopped(r):
    return replace(r, status=Status.INTERRUPTED)


REFUSED = {
    "other models": (lambda: fitted(model=mg.Linear()), "the model"),
    "other covariances": (lambda: fitted(cov_type="HC1"), "cov_type: robust .* and HC1"),
    "other weights": (lambda: fitted(weights_type="analytic"), "weights_type"),
    "an offset": (lambda: fitted(offset=np.ones(300)), "an offset"),
    "clusters": (lambda: fitted(clusters=np.arange(300) % 50), "cov_type"),
    "a penalty": (lambda: fitted(penalty=mg.L2(0.1)), "with a penalty"),
    "lags": (lambda: fitted(cov_type="HAC"), "lags go from"),
    "Ctrl-C": (lambda: stopped(fitted()), "stopped by Ctrl-C"),
    "other columns": (
        lambda: mg.fit(mg.Poisson(), (rows(300, 4)[0], np.arange(300) % 3)),
        "3 parameters and result 1 has 4",
    ),
    "the same rows": (
        lambda: whole_of("poisson", 900),
        "same rows",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_belong_together_is_refused(what):
    first = whole_of("poisson", 900)
    other, words = REFUSED[what]
    with pytest.raises(InputError, match=words):
        first.merge(other())


def test_the_same_rows_are_taken_twice_if_they_are_said_to_be_others():
    model, X, y = data_of("gaussian", 300)
    r = mg.fit(model, (X, y))
    twice = r.merge(r, repeated="keep")
    np.testing.assert_allclose(twice.bse, r.bse / np.sqrt(2), rtol=1e-12)
    with pytest.raises(InputError, match="shards 0 and 1 have the same rows"):
        r.merge(mg.fit(model, (X, y)))
    with pytest.raises(InputError, match="repeated='no'"):
        r.merge(r, repeated="no")


def refused(results):
    with pytest.raises(InputError, match="have the same rows"):
        results[0].merge(*results[1:])


def test_the_same_rows_are_known_again_at_another_point_and_in_another_order(tmp_path):
    """The slip of a second round: sums of a shard at the merged result, beside its first ones."""
    model, X, y = data_of("binomial", 2000)
    a, b = shards(model, X, y, 2)
    both = a.merge(b)
    second = mg.fit(model, (X[::2], y[::2]), at=both)
    both.save(tmp_path / "both.json")
    for results in [(a, second), (both, second), (mg.load(tmp_path / "both.json"), second)]:
        refused(results)
    assert a.merge(second, repeated="keep").nobs == 2000
    assert second.merge(mg.fit(model, (X[1::2], y[1::2]), at=both)).nobs == 2000
    backwards = mg.fit(model, (X[::-2], y[::-2]), passes="converge", block_size=100)
    refused([mg.fit(model, (X[1::2], y[1::2]), passes="converge"), backwards])
    refused([a, mg.fit(model, (X[:400:2], y[:400:2])).update((X[400::2], y[400::2]))])


@pytest.mark.parametrize("weights_type", ["frequency", "analytic"])
def test_the_same_rows_are_known_again_by_weights_and_offsets(weights_type):
    model, X, y = data_of("poisson", 300)
    about = {"weights": 1 + y % 3, "weights_type": weights_type}
    a = mg.fit(model, (X, y), offset=np.full(300, 0.1), **about)
    refused([a, mg.fit(model, (X, y), offset=np.full(300, 0.1), at=2 * a.theta, **about)])
    other = mg.fit(model, (X, y), offset=np.full(300, 0.2), at=a, **about)
    assert a.merge(other).nobs == 600


def test_the_same_rows_are_known_again_by_losses_of_ones_own():
    _, X, y = data_of("gaussian", 300)
    loss = mg.CustomLoss(
        lambda t, z: (t["mean"] @ z[0] - z[1]) ** 2 / 2, params={"mean": np.zeros(3)}
    )
    a = mg.fit(loss, (X, y))
    refused([a, mg.fit(loss, (X, y), at=a.theta + 1)])
    assert a.merge(mg.fit(loss, (X, y[::-1]), at=a)).nobs == 600


def test_a_result_of_an_earlier_version_without_marks_is_merged_and_updated():
    model, X, y = data_of("binomial", 900)
    a, b, c = shards(model, X, y, 3)
    old = replace(a, local_model=replace(a.local_model, constants=a.local_model.constants[:2]))
    assert old.merge(b).nobs == 600
    new = old.update((X[1::3], y[1::3]))
    assert np.isnan(new.local_model.constants[2]) and new.log_likelihood is not None
    assert new.merge(c, b).nobs == 1200  # b again: what is in it is not known


def test_other_things_are_refused():
    model, X, y = data_of("gaussian", 300)
    r = mg.fit(model, (X, y))
    with pytest.raises(InputError, match="nothing to merge with"):
        r.merge()
    with pytest.raises(InputTypeError, match="argument 1 of merge is tuple"):
        r.merge((X, y))
    table = pd.DataFrame({"y": y, "x": X[:, 1], "firm": np.arange(300) % 20})
    effects = mg.glm("y ~ x | firm", table)
    with pytest.raises(InputError, match="result 0 has fixed effects"):
        effects.merge(effects)
    with pytest.raises(InputError, match="by a formula and others without"):
        mg.glm("y ~ x", table).merge(mg.fit(mg.Linear(), (X[:, :2], y[::-1])))
    short = mg.fit(mg.GaussianMixture(2, 1.0), rows(200, 2)[0][:, 1])
    with pytest.raises(InputError, match="several optima"):
        short.merge(short)


def test_perfect_fits_stay_perfect_if_they_agree():
    X = rows(60, 2)[0]
    with pytest.warns(mg.errors.PerfectFitWarning):
        parts = [mg.fit(mg.Linear(), (X[k::2], X[k::2] @ [1.0, 2.0])) for k in range(2)]
        other = mg.fit(mg.Linear(), (X[::3], X[::3] @ [1.0, 3.0]))
    r = parts[0].merge(parts[1])
    assert r.status is Status.PERFECT_FIT and (r.bse == 0).all()
    differ = parts[0].merge(other)
    assert differ.status is Status.CONVERGED and (differ.bse > 0.01).all()


def test_a_column_that_no_shard_has_is_named():
    model, X, y = data_of("gaussian", 300)
    X[:, 2] = 0
    with pytest.warns(mg.errors.IdentificationWarning):
        parts = shards(model, X, y, 2)
    with pytest.raises(IdentificationError, match=r"do not determine theta\[2\]"):
        parts[0].merge(parts[1])


def test_a_column_that_some_shard_lacks_comes_from_the_others():
    model, X, y = data_of("gaussian", 600)
    X[:300, 2] = 0
    with pytest.warns(mg.errors.IdentificationWarning):
        lacks = mg.fit(model, (X[:300], y[:300]))
    r = lacks.merge(mg.fit(model, (X[300:], y[300:])))
    whole = mg.fit(model, (X, y))
    np.testing.assert_allclose(r.params, whole.params, atol=1e-10)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=0.05)


CALIBRATED = [(3, 100), (3, 1000), (10, 100), (50, 60)]


@pytest.mark.long
@pytest.mark.parametrize("tail", ["normal", "t3", "binary"])
@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma"])
def test_the_remainder_is_a_bound_in_random_cases(family, tail):
    """Columns with heavy tails, or rare; small shards, and many of them."""
    done = 0
    for (K, n), seed in ((size, seed) for size in CALIBRATED for seed in range(8)):
        rng, N = np.random.default_rng(seed), K * n
        Z = rng.standard_t(3, size=(N, 3)) if tail == "t3" else rng.normal(size=(N, 3))
        Z = (rng.random((N, 3)) < 0.15) * 1.0 if tail == "binary" else Z
        X = np.column_stack([np.ones(N), Z])
        eta = np.clip(X @ [0.2, 0.4, -0.4, 0.2], None, 6)
        y = {
            "binomial": lambda rng, t: (rng.random(len(t)) < 1 / (1 + np.exp(-t))).astype(float),
            "poisson": lambda rng, t: rng.poisson(np.exp(t)).astype(float),
            "gamma": lambda rng, t: rng.gamma(2, np.exp(t) / 2),
        }[family](rng, eta)
        model = mg.GLM(family, "log") if family == "gamma" else mg.GLM(family)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = shards(model, X, y, K)
            if not all(np.isfinite(part.bse).all() for part in parts):
                continue  # a shard that is separated, or has an empty column
            first, whole = parts[0].merge(*parts[1:]), mg.fit(model, (X, y), passes="converge")
        assert distance(first, whole) < first.fit_info.remainder, (K, n, seed)
        done += 1
    assert done >= 20

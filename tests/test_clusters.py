"""Clustered errors: against statsmodels, and however rows come."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import statsmodels.api as sm

import masgrad as mg
from masgrad.data.arrays import count_rows
from masgrad.data.groupings.keys import NO_KEY, Keys
from masgrad.errors import InputTypeError
from masgrad.fitting.objective.clusters.blocks import RowTerms, block_sums
from scenarios import all_models

N, G, H = 3000, 60, 25


@pytest.fixture
def panel(rng):
    firm, year = rng.integers(0, G, N) * 7 + 3, rng.integers(0, H, N)
    u = rng.normal(size=(500, 2))[firm] + rng.normal(size=(H, 2))[year]
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 2)) + u])
    return X, X @ [1.0, 0.5, -0.5] + u[:, 0] + rng.normal(size=N), firm, year


def of_statsmodels(X, y, groups, family=None):
    kinds = {"cov_type": "cluster", "cov_kwds": {"groups": np.column_stack(groups).squeeze()}}
    if family is None:
        return sm.OLS(y, X).fit(**kinds)
    return sm.GLM(y, X, family=family).fit(tol=1e-14, **kinds)


@pytest.mark.parametrize("ways", [1, 2])
def test_least_squares_agree_with_statsmodels(panel, ways):
    X, y, *groups = panel
    r = mg.fit(mg.Linear(), (X, y), clusters=groups[:ways], small_sample="statsmodels")
    np.testing.assert_allclose(r.bse, of_statsmodels(X, y, groups[:ways]).bse, rtol=1e-10)
    assert (r.cov_type, r.df) == ("CR1", (G if ways == 1 else H) - 1)


@pytest.mark.parametrize(
    "model, family",
    [(mg.Logistic(), sm.families.Binomial()), (mg.Poisson(), sm.families.Poisson())],
)
def test_other_families_agree_with_statsmodels(panel, model, family):
    X, y, firm, _ = panel
    y = (y > 1.0) * 1.0
    r = mg.fit(model, (X, y), clusters=firm)
    np.testing.assert_allclose(r.bse, of_statsmodels(X, y, [firm], family).bse, rtol=1e-8)


def test_keys_in_whatever_container_are_these_clusters(panel, tmp_path):
    X, y, firm, year = panel
    whole = mg.fit(mg.Linear(), (X, y), clusters=firm)
    months = pd.Series(pd.period_range("2000-01", periods=500, freq="M")[firm])
    for keys in (list(firm), [np.array(key) for key in firm], months, pa.array(firm), [firm]):
        found = mg.fit(mg.Linear(), (X, y), clusters=keys)
        np.testing.assert_allclose(found.cov, whole.cov, rtol=1e-12)
        found.save(tmp_path / "r.json")
        assert mg.load(tmp_path / "r.json").df == G - 1
    both = mg.fit(mg.Linear(), (X, y), clusters=[firm, year])
    for pair in (np.column_stack([firm, year]), [pa.array(firm), pa.array(year)]):
        found = mg.fit(mg.Linear(), (X, y), clusters=pair)
        np.testing.assert_allclose(found.cov, both.cov, rtol=1e-12)


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_durations_and_extension_types_are_no_keys(panel, unit):
    X, y, firm, _ = panel
    days = firm.astype(f"m8[{unit}]")
    table = pd.DataFrame({"x": X[:, 1], "y": y, "days": pd.to_timedelta(firm, "D")})
    table["month"] = pd.period_range("2000-01", periods=500, freq="M")[firm]
    arrow = pa.Table.from_pandas(table)
    for keys in (days, pd.Series(days), days.astype("m8[us]").astype(object)):
        with pytest.raises(InputTypeError, match=r"clusters holds .*timedelta.*convert it"):
            mg.fit(mg.Linear(), (X, y), clusters=keys)
    for rows, name in ((table, "days"), (arrow, "days"), (arrow, "month")):
        for asked in (("y ~ x", {"clusters": name}), (f"y ~ x | {name}", {})):
            with pytest.raises(InputTypeError, match=rf"{name} holds values of type .*convert it"):
                mg.glm(asked[0], rows, **asked[1])


def test_every_model_takes_clusters(rng):
    """Clusters of one row each: the errors of rows. Networks of relu units have no errors."""
    for name, model, data, _ in all_models(rng):
        if name.endswith("network"):
            continue
        keys = np.arange(count_rows(model.rows(data)))
        plain = mg.fit(model, data, cov_type="HC0")
        found = mg.fit(model, data, clusters=keys, small_sample="none")
        assert found.cov_type == "CR1", name
        np.testing.assert_allclose(found.bse, plain.bse, rtol=1e-6, err_msg=name)


def test_the_factors_are_those_of_the_convention(panel):
    X, y, firm, year = panel

    def variance(convention, model=None, y=y):
        r = mg.fit(model or mg.Linear(), (X, y), clusters=firm, small_sample=convention)
        return r.bse[1] ** 2

    plain = variance("none")
    assert variance("stata") / plain == pytest.approx(G / (G - 1) * (N - 1) / (N - 3))
    binary = (y > 1.0) * 1.0
    ratio = variance("stata", mg.Logistic(), binary) / variance("none", mg.Logistic(), binary)
    assert ratio == pytest.approx(G / (G - 1))
    both = {"clusters": [firm, year]}
    fixest, none = (
        mg.fit(mg.Linear(), (X, y), small_sample=c, **both).cov_params() for c in ("fixest", "none")
    )
    np.testing.assert_allclose(fixest / none, H / (H - 1) * (N - 1) / (N - 3), rtol=1e-9)


def test_three_groupings_are_combined_by_inclusion_and_exclusion(panel, rng):
    X, y, firm, year = panel
    kind = rng.integers(0, 12, N)
    named = {"f": firm, "y": year, "k": kind}

    def cov(names):
        joint = np.unique(np.column_stack([named[n] for n in names]), axis=0, return_inverse=True)
        r = mg.fit(mg.Linear(), (X, y), clusters=joint[1].ravel(), small_sample="none")
        return r.cov_params()

    expected = sum(map(cov, ("f", "y", "k"))) - sum(map(cov, ("fy", "fk", "yk"))) + cov("fyk")
    r = mg.fit(mg.Linear(), (X, y), clusters=[firm, year, kind], small_sample="none")
    np.testing.assert_allclose(r.cov_params(), expected, rtol=1e-9)


def test_rows_in_any_order_and_container_have_the_same_errors(panel, tmp_path, rng):
    X, y, firm, year = panel
    table = pd.DataFrame(X[:, 1:], columns=["a", "b"]).assign(y=y, firm=firm, year=year)
    table["firm"] = "f" + table.firm.astype(str)
    table.to_parquet(tmp_path / "rows.parquet")
    table.sample(frac=1, random_state=1).to_csv(tmp_path / "rows.csv", index=False)
    expected = mg.fit(mg.Linear(), (X, y), clusters=[firm, year]).bse
    for data in (table, tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        r = mg.glm("y ~ a + b", data, clusters=["firm", "year"], block_size=500)
        np.testing.assert_allclose(r.bse, expected, rtol=1e-9)
        assert r.df == H - 1
    crossed = mg.glm("y ~ a + b", table, clusters="firm^year", small_sample="none")
    joint = mg.fit(mg.Linear(), (X, y), clusters=firm * 1000 + year, small_sample="none")
    np.testing.assert_allclose(crossed.bse, joint.bse, rtol=1e-9)


@pytest.fixture
def long_panel(rng):
    n = 60_000
    firm, X = rng.integers(0, 400, n), np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    eta = X @ [0.2, 0.5, -0.5] + rng.normal(size=400)[firm]
    return X, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float), firm


def blocks_of(X, y, firm, size=7000):
    for k in range(0, len(y), size):
        yield mg.Block(X[k : k + size], y[k : k + size], clusters=firm[k : k + size])


def test_every_way_of_reading_many_rows_gives_these_errors(long_panel):
    X, y, firm = long_panel
    theirs = of_statsmodels(X, y, [firm], sm.families.Binomial()).bse
    data, order = (X, y), np.argsort(firm, kind="stable")
    reads = {
        "arrays": (mg.fit(mg.Logistic(), data, clusters=firm), 1e-4),
        "converge": (mg.fit(mg.Logistic(), data, clusters=firm, passes="converge"), 1e-6),
        "sorted": (
            mg.fit(mg.Logistic(), (X[order], y[order]), clusters=firm[order], passes="converge"),
            1e-6,
        ),
        "stream": (mg.fit(mg.Logistic(), mg.Stream(lambda: blocks_of(X, y, firm))), 1e-4),
        "iterator": (mg.fit(mg.Logistic(), blocks_of(X, y, firm)), 1e-3),
        "one read": (mg.fit(mg.Logistic(), data, clusters=firm, passes=1), 1e-3),
    }
    for way, (r, rtol) in reads.items():
        np.testing.assert_allclose(r.bse, theirs, rtol=rtol, err_msg=way)
        assert (r.cov_type, r.df) == ("CR1", 399), way


@pytest.mark.parametrize("how", ["iterator", "passes=1"])
def test_scores_of_a_single_read_moved_without_hessians_are_noted(rng, how):
    n, p, G = 60_000, 10, 3000
    firm, X = np.sort(rng.integers(0, G, n)), rng.normal(size=(n, p))
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ np.full(p, 0.3)))).astype(float)

    def fitted(memory):
        if how == "iterator":
            return mg.fit(mg.Logistic(), blocks_of(X, y, firm), memory=memory)
        return mg.fit(mg.Logistic(), (X, y), clusters=firm, passes=1, memory=memory)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.errors.AccuracyWarning)  # few rows are kept
        kept, moved = fitted("512MB"), fitted("2MB")
    assert kept.clusters.ways[0].sums.hessians is not None
    assert not any("moved to the estimate" in note for note in kept.notes)
    assert moved.clusters.ways[0].sums.hessians is None
    assert any("by the Hessian of all rows" in note and "2MB" in note for note in moved.notes)
    np.testing.assert_allclose(moved.bse, kept.bse, rtol=0.02)


def test_clusters_that_go_on_in_an_update_are_joined_by_their_keys(long_panel, tmp_path):
    X, y, firm = long_panel
    half = len(y) // 2
    theirs = of_statsmodels(X, y, [firm], sm.families.Binomial()).bse
    old = mg.fit(mg.Logistic(), (X[:half], y[:half]), clusters=firm[:half], cov_type="CR1")
    new = old.update((X[half:], y[half:]), clusters=firm[half:])
    np.testing.assert_allclose(new.bse, theirs, rtol=2e-3)
    assert new.df == 399
    with pytest.raises(mg.errors.InputError, match="say which they are"):
        old.update((X[half:], y[half:]))
    with pytest.raises(mg.errors.InputError, match="must be the same"):
        old.update((X[half:], y[half:]), clusters=[firm[half:], firm[half:] % 7])


def test_clusters_of_new_rows_alone_are_refused(panel, tmp_path):
    X, y, firm, _ = panel
    plain, clustered = (mg.fit(mg.Linear(), (X, y), clusters=c) for c in (None, firm))
    clustered.save(tmp_path / "r.json")
    loaded = mg.load(tmp_path / "r.json")
    block = mg.Stream(lambda: iter([mg.Block(X, y, clusters=firm)]))
    for data, keys in (((X, y), {"clusters": firm}), (block, {})):
        with pytest.raises(mg.errors.InputError, match="old rows are not known"):
            plain.update(data, cov_type="CR1", **keys)
        both = [old.update(data, cov_type="CR1", **keys).bse for old in (clustered, loaded)]
        np.testing.assert_allclose(*both, rtol=1e-12)
    twice = mg.fit(mg.Linear(), (np.r_[X, X], np.r_[y, y]))
    np.testing.assert_allclose(loaded.update((X, y), cov_type="robust").bse, twice.bse, rtol=1e-9)


@pytest.mark.parametrize("convention", ["none", "stata", "statsmodels", "fixest"])
def test_updates_keep_the_factors_of_the_old_rows(panel, convention):
    X, y, firm, _ = panel
    half, asked = N // 2, {"small_sample": convention}
    old = mg.fit(mg.Linear(), (X[:half], y[:half]), clusters=firm[:half], **asked)
    new = old.update((X[half:], y[half:]), clusters=firm[half:])
    whole = mg.fit(mg.Linear(), (X, y), clusters=firm, **asked)
    np.testing.assert_allclose(new.bse, whole.bse, rtol=1e-9)


@pytest.mark.parametrize("old, new", [(str, int), (int, str)])
def test_keys_of_an_update_are_of_the_old_kind(panel, old, new):
    X, y, firm, _ = panel
    r = mg.fit(mg.Linear(), (X, y), clusters=firm.astype(old))
    with pytest.raises(mg.errors.InputError, match="so that none would be the same; convert"):
        r.update((X, y), clusters=firm.astype(new))


def test_losses_of_ones_own_and_penalties_have_clustered_errors(panel):
    X, y, firm, _ = panel
    loss = mg.CustomLoss(lambda theta, z: 0.5 * (z["y"] - z["x"] @ theta) ** 2, dim=3)
    linear = mg.fit(mg.Linear(), (X, y), clusters=firm)
    own = mg.fit(loss, {"x": X, "y": y}, clusters=firm)
    for penalty in (mg.L2(0.1), mg.L1(0.05)):
        r = mg.fit(mg.Linear(), (X, y), clusters=firm, penalty=penalty)
        np.testing.assert_allclose(r.bse, linear.bse, rtol=1e-8)
    stata = mg.fit(mg.Linear(), (X, y), clusters=firm, small_sample="none").bse
    plain = mg.fit(loss, {"x": X, "y": y}, clusters=firm, small_sample="none").bse
    np.testing.assert_allclose(own.bse, linear.bse, rtol=1e-8)
    np.testing.assert_allclose(plain, stata, rtol=1e-8)


def test_clusters_of_single_rows_give_hc1(panel):
    """Limit: every row its own cluster."""
    X, y, *_ = panel
    r = mg.fit(mg.Linear(), (X, y), clusters=np.arange(N))
    hc1 = mg.fit(mg.Linear(), (X, y), cov_type="HC1")
    np.testing.assert_allclose(r.bse, hc1.bse, rtol=1e-10)


def test_weights_are_frequencies_of_rows_in_their_cluster(panel):
    X, y, firm, _ = panel
    times = np.arange(N) % 3
    r = mg.fit(mg.Linear(), (X, y), weights=times * 1.0, clusters=firm)
    twice = np.repeat(np.arange(N), times)
    s = mg.fit(mg.Linear(), (X[twice], y[twice]), clusters=firm[twice])
    np.testing.assert_allclose(r.bse, s.bse, rtol=1e-10)


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"clusters": np.zeros(N)}, "one cluster, 0"),
        ({"clusters": np.zeros(5)}, r"has shape \(5,\); \(3000,\) is needed"),
        ({"clusters": np.linspace(0, 1, N)}, "identifier. Convert it to text"),
        ({"clusters": np.r_[np.nan, np.ones(N - 1)]}, "no value at row 0"),
        ({"cov_type": "CR1"}, "say which they are"),
        ({"clusters": np.arange(N), "cov_type": "HC1"}, "leave one of them out"),
        ({"clusters": np.arange(N), "method": "chains"}, "covariance of their own"),
        ({"clusters": [np.arange(N), np.arange(N) // 2], "cov_type": "CR2"}, "one of the group"),
        ({"clusters": np.arange(N), "cov_type": "nonrobust"}, "has no use for clusters"),
        ({"clusters": np.arange(N), "cov_type": "HAC"}, "has no use for clusters"),
        ({"clusters": [np.arange(N), np.arange(5)]}, r"clusters\[1\] has shape \(5,\)"),
        ({"clusters": [np.arange(N), np.zeros(N)]}, r"clusters\[1\] has one cluster, 0"),
        ({"clusters": np.r_[np.inf, np.ones(N - 1)]}, "clusters holds inf"),
        ({"clusters": "firm"}, "names a column, and the data have no names"),
        ({"clusters": np.arange(N), "small_sample": "R"}, "small_sample='R' is not known"),
    ],
)
def test_clusters_that_cannot_be_are_refused(panel, asked, said):
    X, y, *_ = panel
    with pytest.raises((mg.errors.InputError, TypeError), match=said):
        mg.fit(mg.Linear(), (X, y), **asked)


@pytest.mark.parametrize("clusters", [3, 200], ids=["products of clusters", "products of rows"])
@pytest.mark.parametrize("lowest", [0.0, -1.0], ids=["convex", "not convex"])
def test_sums_over_a_block_are_those_of_each_cluster(rng, clusters, lowest):
    n, p = 500, 4
    X, slope, curvature = rng.normal(size=(n, p)), rng.normal(size=n), rng.uniform(lowest, 1, n)
    codes = rng.integers(0, clusters, n).astype(np.int32)
    found = block_sums(RowTerms(X, slope, curvature, None), codes, clusters)
    assert found.hessians is not None
    for g in range(clusters):
        own = codes == g
        H = (X[own].T * curvature[own]) @ X[own]
        np.testing.assert_allclose(found.scores[g], slope[own] @ X[own], atol=1e-12)
        np.testing.assert_allclose(found.hessians[g], H[np.triu_indices(p)], atol=1e-12)
        assert found.rows[g] == found.weights[g] == own.sum()


def test_keys_have_one_code_in_all_blocks():
    keys = Keys("firm")
    some = np.array(["b", "a", None, "b"], object)
    assert keys.codes(some).tolist() == [0, 1, NO_KEY, 0]
    assert keys.codes(np.array(["c", "a", "d"])).tolist() == [2, 1, 3]
    assert keys.codes_of_distinct(["d", None, "e", "c"]).tolist() == [3, NO_KEY, 4, 2]
    assert keys.values == ["b", "a", "c", "d", "e"]
    closed = keys.closed()
    assert closed.codes(np.array(["e", "f", "a"], object)).tolist() == [4, NO_KEY, 1]


def test_whole_numbers_keep_their_codes_when_their_range_grows():
    keys = Keys("firm")
    parts = [[5, 3], [10**12, 5], [40, 3, 10**12], [-900, 40, 5], [10**12 + 1, -900]]
    found = [keys.codes(np.array(part)).tolist() for part in parts]
    assert found == [[0, 1], [2, 0], [3, 1, 2], [4, 3, 0], [5, 4]]
    assert keys.values == [5, 3, 10**12, 40, -900, 10**12 + 1]


@pytest.mark.parametrize(
    "asked, said",
    [
        ("shop", "no column 'shop'"),
        (["firm", "shop"], "no column 'shop'"),
        ("", "a column, or several as in 'firm\\^year'"),
        ("firm^", "a column, or several as in 'firm\\^year'"),
        ("size", "size holds 0.5: keys of groups are whole numbers, text or dates"),
        ("gap", r"gap has no value at row 7(?! of)"),
    ],
)
def test_columns_of_clusters_that_cannot_be_are_refused(rng, asked, said):
    table = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60)})
    table["firm"], table["size"] = np.arange(60) // 3, np.arange(60) / 2 + 0.5
    table["gap"] = table.firm.where(table.index != 7)
    with pytest.raises(mg.errors.InputError, match=said):
        mg.glm("y ~ x", table, clusters=asked)


def test_more_combinations_than_clusters_tell_are_not_tested(rng):
    table = pd.DataFrame(rng.normal(size=(60, 5)), columns=list("abcdy"))
    r = mg.glm("y ~ a + b + c + d", table, clusters=np.arange(60) % 3)
    with pytest.raises(mg.errors.InputError, match=r"4 combinations .* fewer clusters"):
        r.wald_test("a = 0, b = 0, c = 0, d = 0")
    assert 0 <= r.wald_test("a = 0, b = 0").pvalue <= 1


@pytest.mark.parametrize(
    "second, said",
    [
        (lambda X, y, k: mg.Block(X, y, clusters=k[:3]), r"begins at row 30: clusters has shape"),
        (lambda X, y, k: (X, y), "begins at row 30: every block carries the same groupings"),
        (
            lambda X, y, k: mg.Block(X, y, clusters=np.where(k == 5, np.nan, k)),
            "begins at row 30: clusters has no value at row 5",
        ),
    ],
)
def test_blocks_of_a_stream_carry_the_same_clusters(rng, second, said):
    X, y, keys = rng.normal(size=(30, 2)), rng.normal(size=30), np.arange(30.0)
    blocks = [mg.Block(X, y, clusters=keys), second(X, y, keys)]
    with pytest.raises(mg.errors.InputError, match=said):
        mg.fit(mg.Linear(), mg.Stream(lambda: iter(blocks)))


def test_keys_are_of_one_kind_in_all_blocks(rng):
    X, y, keys = rng.normal(size=(30, 2)), rng.normal(size=30), np.arange(30) % 10

    def blocks():
        yield mg.Block(X, y, clusters=keys)
        yield mg.Block(X, y, clusters=keys.astype(str))

    with pytest.raises(mg.errors.InputTypeError, match="text in later rows, and numbers"):
        mg.fit(mg.Linear(), mg.Stream(blocks))


def test_predictions_ask_for_keys_of_the_kind_of_the_fit(rng):
    table = pd.DataFrame({"x": rng.normal(size=60), "firm": np.arange(60) % 6})
    r = mg.glm("y ~ x | firm", table.assign(y=table.x + rng.normal(size=60)))
    with pytest.raises(mg.errors.InputTypeError, match="firm holds text here, and numbers"):
        r.predict(table.assign(firm=table.firm.astype(str)))

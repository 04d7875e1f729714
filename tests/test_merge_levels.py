"""Shards that lack or separate a level, sums at a point (`at=`), files and the command line."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad import cli
from masgrad.errors import (
    AccuracyWarning,
    CellWarning,
    InputError,
    MasgradError,
    SeparationWarning,
)
from masgrad.fitting.status import Status


def hospitals(N=1800, seed=1, separated=False):
    """Rows of three hospitals: 0 lacks level c, 1 lacks the base a, and 2 may separate d."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": 1950 + 10 * rng.normal(size=N), "h": np.arange(N) % 3})
    table["g"] = rng.choice(list("abcd"), N, p=[0.3, 0.3, 0.25, 0.15])
    table["k"] = rng.choice([1, 2, 3], N)
    table.loc[(table.h == 0) & (table.g == "c"), "g"] = "b"
    table.loc[(table.h == 1) & (table.g == "a"), "g"] = "d"
    level = table.g.map({"a": 0.0, "b": 0.5, "c": -0.5, "d": 0.8})
    eta = 0.05 * (table.x - 1950) + level - 0.3
    table["y"] = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float)
    table["z"] = eta + rng.normal(size=N)
    if separated:
        table.loc[(table.h == 2) & (table.g == "d"), "y"] = 1.0
    return table, [part for _, part in table.groupby("h")]


FORMULAS = ["z ~ x + C(g)", "z ~ x*C(g)", "z ~ C(g) - 1 + x", "z ~ x:C(g)", "z ~ C(g) + C(k)"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_levels_and_baselines_are_united(formula):
    table, parts = hospitals()
    results = [mg.glm(formula, part) for part in parts]
    r, whole = results[1].merge(results[0], results[2]), mg.glm(formula, table)
    assert r.names == whole.names
    np.testing.assert_allclose((r.params - whole.params) / whole.bse, 0, atol=1e-7)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-6)
    assert r.terms.factors["C(g)"] == whole.terms.factors["C(g)"]  # with counts
    new = table.head(7)
    np.testing.assert_allclose(r.predict(new), whole.predict(new), rtol=1e-9)


def test_interactions_of_categories_lose_cells_that_no_shard_lacks():
    table, parts = hospitals()
    results = [mg.glm("z ~ C(g)*C(k)", part) for part in parts]
    whole = mg.glm("z ~ C(g)*C(k)", table)
    r = results[0].merge(*results[1:])
    np.testing.assert_allclose(r.params, whole.params, atol=1e-10)


def test_a_base_that_all_have_named_stays():
    table, parts = hospitals()
    formula = "z ~ x + C(g, Treatment('b'))"
    results = [mg.glm(formula, part) for part in parts]
    r, whole = results[0].merge(*results[1:]), mg.glm(formula, table)
    assert r.names == whole.names and "C(g, Treatment('b'))[T.b]" not in r.names
    np.testing.assert_allclose((r.params - whole.params) / whole.bse, 0, atol=1e-7)


def test_a_shard_that_separates_a_level_gives_sums_at_a_point():
    table, (a, b, c) = hospitals(separated=True)
    formula, binomial = "y ~ x + C(g)", {"family": "binomial"}
    ra, rb = mg.glm(formula, a, **binomial), mg.glm(formula, b, **binomial)
    with pytest.warns(SeparationWarning):
        alone = mg.glm(formula, c, **binomial)
    with pytest.raises(InputError, match=r"result 2 is separated.*at=result"):
        ra.merge(rb, alone)
    both = ra.merge(rb)
    sums = mg.glm(formula, c, at=both, **binomial)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = both.merge(sums)
    whole = mg.glm(formula, table, passes="converge", **binomial)
    assert first.names == whole.names and first.nobs == len(table)
    off = np.abs((first.params - whole.params) / whole.bse).max()
    assert off < first.fit_info.remainder < 1
    again = [mg.glm(formula, part, at=first, **binomial) for part in (a, b, c)]
    second = again[0].merge(*again[1:])
    assert np.abs((second.params - whole.params) / whole.bse).max() < 1e-5
    np.testing.assert_allclose(second.bse, whole.bse, rtol=1e-3)
    assert second.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-4)


def test_sums_at_a_point_say_that_they_are_no_estimate(tmp_path):
    _, (a, b, _) = hospitals()
    at = mg.glm("z ~ x + C(g)", a).merge(mg.glm("z ~ x + C(g)", b))
    sums = mg.glm("z ~ x + C(g)", a, at=at)
    assert sums.status is Status.SUMS_ALONE and np.isnan(sums.bse).all()
    assert sums.names == at.names and (sums.params == at.params).all()
    assert "no\nestimate" in sums.summary(width=80) and "sums at a point" in sums.summary()
    assert dict(zip("abcd", sums.terms.factors["C(g)"].counts, strict=True))["c"] == 0
    with pytest.raises(InputError, match="sums at a point and no estimate"):
        sums.update(b)
    sums.save(tmp_path / "sums.json")
    loaded = mg.load(tmp_path / "sums.json")
    other = mg.glm("z ~ x + C(g)", b, at=at)
    r, before = loaded.merge(other), sums.merge(other)
    np.testing.assert_array_equal(r.params, before.params)
    np.testing.assert_array_equal(r.bse, before.bse)


@pytest.mark.parametrize("kind", ["array", "dict", "result"])
def test_a_point_is_an_array_a_dictionary_or_a_result(kind):
    table, _ = hospitals()
    r = mg.glm("y ~ k", table, "binomial")
    point = {"array": r.theta, "dict": r.params.to_dict(), "result": r}[kind]
    sums = mg.glm("y ~ k", table, "binomial", at=point)
    np.testing.assert_allclose(sums.theta, r.theta, rtol=1e-15)
    np.testing.assert_allclose(sums.local_model.hessian, r.local_model.hessian, rtol=1e-3)
    far = mg.fit(mg.Logistic(), (np.column_stack([np.ones(1800), table.k]), table.y), at=[0.0, 0.0])
    assert far.log_likelihood == pytest.approx(1800 * np.log(0.5), rel=1e-12)


def test_sums_of_files_are_those_of_arrays(tmp_path):
    """More rows than a sample holds, so that they are read block by block; clusters as well."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=70_000), "firm": np.arange(70_000) // 100})
    table["g"] = rng.choice(list("ab"), 70_000)
    table["y"] = rng.poisson(np.exp(0.3 * table.x)).astype(float)
    table.to_parquet(tmp_path / "rows.parquet")
    r = mg.glm("y ~ x + g", table.head(500), "poisson")
    read = mg.glm("y ~ x + g", tmp_path / "rows.parquet", "poisson", at=r, clusters="firm")
    parts = [
        mg.glm("y ~ x + g", table[k::2], "poisson", at=r, clusters="firm", small_sample="none")
        for k in range(2)
    ]
    held = mg.glm("y ~ x + g", table, "poisson", at=r, clusters="firm", memory="1GB")
    for sums in (read, held):
        np.testing.assert_allclose(
            sums.clusters.ways[0].sums.scores.sum(0), sums.local_model.gradient, rtol=1e-8
        )
        assert sums.nobs == 70_000 and sums.clusters.fewest == 700
    back = np.linalg.inv(read.coordinates.matrix)
    there = np.linalg.inv(held.coordinates.matrix)
    np.testing.assert_allclose(
        read.local_model.gradient @ back, held.local_model.gradient @ there, rtol=1e-9
    )
    with pytest.warns(AccuracyWarning, match="0.23 standard errors"):  # 500 rows chose the point
        total = parts[0].merge(parts[1])  # every firm is in both
    assert total.clusters.fewest == 700 and total.nobs == 70_000


def test_shards_in_which_columns_do_not_vary_contribute_at_a_point():
    """A year is constant in its shard, and in one of them two categories are one."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=1200), "year": 2000 + np.arange(1200) // 400})
    table["g"], table["k"] = rng.choice(list("ab"), 1200), rng.choice(list("uv"), 1200)
    alike = table.year == 2001
    table.loc[alike, "k"] = table.g[alike].map({"a": "u", "b": "v"})
    table["y"] = table.x + rng.normal(size=1200)
    formula = "y ~ x + year + g + k"
    start, whole = mg.glm(formula, table.sample(300, random_state=1)), mg.glm(formula, table)
    sums = [mg.glm(formula, part, at=start) for _, part in table.groupby("year")]
    r = sums[0].merge(*sums[1:])
    np.testing.assert_allclose((r.params - whole.params) / whole.bse, 0, atol=1e-9)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-6)
    assert r.heterogeneity.df == 4 + 3 + 4 - 5  # what each shard determines, less all together


@pytest.mark.long
def test_workers_of_a_cluster_take_sums_at_a_point(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=40_000), "g": rng.choice(list("abc"), 40_000)})
    table["y"] = rng.poisson(np.exp(0.2 * table.x)).astype(float)
    table["firm"] = np.arange(40_000) // 40
    paths = [tmp_path / f"{k}.parquet" for k in range(4)]
    for k, path in enumerate(paths):
        table[k::4].to_parquet(path)
    at = mg.glm("y ~ x + g", table.head(1000), "poisson")
    about = {"at": at, "clusters": "firm"}
    spread = mg.glm("y ~ x + g", paths, "poisson", **about, engine="dask")
    held = mg.glm("y ~ x + g", table, "poisson", **about)
    assert spread.clusters.fewest == held.clusters.fewest == 1000
    scores = [s.local_model.gradient @ np.linalg.inv(s.coordinates.matrix) for s in (spread, held)]
    np.testing.assert_allclose(*scores, rtol=1e-9)
    assert spread.terms.categories == held.terms.categories  # with counts


def test_blocks_of_a_stream_are_summed_at_a_point():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = rng.poisson(np.exp(X @ [0.2, 0.3])).astype(float)
    stream = mg.Stream(lambda: ((X[k::5], y[k::5]) for k in range(5)))
    sums, whole = (mg.fit(mg.Poisson(), rows, at=[0.1, 0.2]) for rows in (stream, (X, y)))
    assert sums.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-12)
    with pytest.raises(InputError, match="an iterator, which is read once"):
        mg.fit(mg.Poisson(), iter([(X, y)]), at=[0.1, 0.2])


AT_REFUSED = {
    "another formula": ({"formula": "z ~ x"}, "another one than that of the result"),
    "fixed effects": ({"formula": "z ~ x | k"}, "no place for fixed effects"),
    "a penalty": ({"penalty": mg.L2(0.1)}, "no place for a penalty"),
    "chains": ({"method": "chains"}, "no place for method='chains'"),
    "HC3": ({"cov_type": "HC3"}, "no place for cov_type='HC3'"),
    "a start": ({"start": np.zeros(5)}, "no place for start="),
    "a short array": ({"at": np.zeros(2)}, "shape"),
    "a path": ({"at": "r.json"}, r"of a saved result give at=mg.load\(path\)"),
    "an unknown name": ({"at": {"Intercept": 0.0, "w": 1.0}}, "no value of 'x'"),
    "one name more": (
        {"at": dict.fromkeys(["Intercept", "x", "C(g)[T.b]", "C(g)[T.d]", "w"], 0.0)},
        "'w', which is no parameter",
    ),
}


@pytest.mark.parametrize("what", AT_REFUSED)
def test_what_has_no_place_beside_a_point_is_refused(what):
    _, (a, b, _) = hospitals()
    keywords, words = AT_REFUSED[what]
    at = mg.glm("z ~ x + C(g)", b)
    given = {"formula": "z ~ x + C(g)", "data": a, "at": at} | keywords
    if isinstance(given["at"], type(at)):
        given["data"] = b
    if what == "fixed effects":
        given["at"] = mg.glm("z ~ x | k", b)
    with pytest.raises(MasgradError, match=words):
        mg.glm(**given)


def test_a_level_that_the_point_lacks_is_named():
    _, (a, b, _) = hospitals()
    with pytest.raises(InputError, match="has the level 'c'"):
        mg.glm("z ~ x + C(g)", b, at=mg.glm("z ~ x + C(g)", a))


def test_terms_that_cannot_be_united_are_refused():
    _, (a, b, _) = hospitals()
    r = mg.glm("z ~ x + C(g)", a)
    cases = {
        "about 'z' and result 1 about 'y'": mg.glm("y ~ x + C(g)", b),
        "has the term k, which result 0 has not": mg.glm("z ~ x + C(g) + k", b),
        r"has the term C\(g\), which result 1 has not": mg.glm("z ~ x", b),
    }
    for words, other in cases.items():
        with pytest.raises(InputError, match=words):
            r.merge(other)
    with pytest.raises(InputError, match=r"scale\(\) and center\(\) learn theirs"):
        mg.glm("z ~ scale(x)", a).merge(mg.glm("z ~ scale(x)", b))
    one = mg.glm("z ~ scale(x)", a)
    again = one.merge(mg.glm("z ~ scale(x)", b, at=one))
    assert again.nobs == len(a) + len(b)
    numbers = mg.glm("z ~ g", a.assign(g=a.k)), mg.glm("z ~ g", b)
    with pytest.raises(InputError, match="a category in some results and a number"):
        numbers[0].merge(numbers[1])
    with pytest.raises(InputError, match="text in some results and numbers"):
        mg.glm("z ~ C(g)", a.assign(g=a.k)).merge(mg.glm("z ~ C(g)", b))


def test_the_same_rows_are_known_again_by_united_levels():
    """A shard that lacks the base has other columns in the second round."""
    table, _ = hospitals()
    first, rest = table[table.index % 2 == 0], table[table.index % 2 == 1]
    first = first[first.g != min(first.g)]
    a, b = (mg.glm("y ~ x * C(g)", part, "binomial") for part in (first, rest))
    both = a.merge(b)
    again = mg.glm("y ~ x * C(g)", first, "binomial", at=both)
    assert len(a.theta) < len(again.theta)
    for one in (a, both):
        with pytest.raises(InputError, match="same rows"):
            one.merge(again)


def test_small_cells_are_named_before_a_result_is_saved(tmp_path):
    table, _ = hospitals()
    few = table.copy()
    few.loc[few.index[:7], "g"] = "rare"
    r = mg.glm("z ~ x + C(g)", few)
    with pytest.warns(CellWarning, match=r"g = 'rare' \(7\): join levels"):
        r.save(tmp_path / "r.json")
    mg.load(tmp_path / "r.json").save(tmp_path / "s.json", small_cells="allow")
    assert (tmp_path / "r.json").read_bytes() == (tmp_path / "s.json").read_bytes()
    with pytest.raises(InputError, match="small_cells='no'"):
        r.save(tmp_path / "r.json", small_cells="no")
    mg.glm("z ~ x + C(g)", few[few.g != "rare"]).save(tmp_path / "t.json")
    both = r.merge(r, repeated="keep")
    both.save(tmp_path / "both.json")  # 14 rows
    again = mg.load(tmp_path / "both.json")
    assert str(again.heterogeneity) == str(both.heterogeneity)
    assert again.summary() == both.summary() and "Shards:" in again.summary()
    with pytest.raises(InputError, match="same rows"):
        again.merge(r)


def warned(r, path):
    """What a save says, in one warning; "" for nothing."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        r.save(path)
    assert len(seen) <= 1 and all(w.category is CellWarning for w in seen)
    return str(seen[0].message) if seen else ""


CELLS = {
    "clusters": (
        "z ~ x",
        {"clusters": "pair"},
        "880 clusters of pair of fewer than 10 rows, 20 of 1 row, whose score is there",
    ),
    "larger clusters": ("z ~ x", {"clusters": "h"}, ""),
    "effects": ("z ~ x | k + pair", {}, "fixed effects of pair of fewer than 10 rows"),
    "windows": ("z ~ x", {"cov_type": "HAC", "lags": 5}, "first and last rows in order, 10 in all"),
    "times": (
        "z ~ x",
        {"cov_type": "DK", "time": "half", "lags": 2},
        "900 times of fewer than 10 rows",
    ),
}


@pytest.mark.parametrize("what", CELLS)
@pytest.mark.filterwarnings("ignore:.*clusters:masgrad.errors.MasgradWarning")
def test_sums_over_few_rows_are_counted_before_a_result_is_saved(what, tmp_path):
    formula, about, words = CELLS[what]
    table, row = hospitals()[0], np.arange(1800)
    table["half"] = row // 2
    table["pair"] = np.where(row < 20, row, np.where(row < 80, 20, row // 2))
    r = mg.glm(formula, table, **about)
    said = warned(r, tmp_path / "r.json")
    assert words in said and bool(said) == bool(words)
    assert warned(mg.load(tmp_path / "r.json"), tmp_path / "again.json") == said
    r.save(tmp_path / "s.json", small_cells="allow")


def test_levels_are_counted_over_updates(tmp_path):
    table, _ = hospitals()
    table["g"] = table.g.mask(table.index % 300 == 7, "rare")  # 6 rows
    a = mg.glm("z ~ x + C(g)", table)
    few, many = (a.update(table[table.g == "rare"].head(n)) for n in (2, 5))
    assert "g = 'rare' (8)" in warned(few, tmp_path / "r.json")
    assert warned(many, tmp_path / "r.json") == ""


def run(monkeypatch, capfd, *args):
    monkeypatch.setattr(sys, "argv", ["masgrad", *map(str, args)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capfd.readouterr()
    return end.value.code or 0, out, " ".join(err.split())


def test_shards_are_merged_on_the_command_line(monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    table, parts = hospitals()
    fit = ("--formula", "y ~ x + C(g)", "--family", "binomial", "--quiet")
    for k, part in enumerate(parts):
        part.to_csv(f"{k}.csv", index=False)
        assert run(monkeypatch, capfd, "fit", f"{k}.csv", *fit, "--save", f"{k}.json")[0] == 0
    code, out, err = run(
        monkeypatch, capfd, "merge", "0.json", "1.json", "2.json", "--out", "all.json"
    )
    assert code == 0 and "saved: all.json" in err and "Heterogeneity" in out
    for k in range(3):
        saved = ("--at", "all.json", "--save", f"again-{k}.json")
        code, out, _ = run(monkeypatch, capfd, "fit", f"{k}.csv", *fit, *saved)
        assert code == 0 and "sums at a point" in out
    files = [f"again-{k}.json" for k in range(3)]
    assert run(monkeypatch, capfd, "merge", *files, "--out", "second.json")[0] == 0
    r = mg.load("second.json")
    whole = mg.glm("y ~ x + C(g)", table, "binomial", passes="converge")
    assert np.abs((r.params - whole.params) / whole.bse).max() < 1e-6
    code, _, err = run(monkeypatch, capfd, "merge", "0.json")
    assert code == 1 and "give two or more" in err
    code, _, err = run(monkeypatch, capfd, "merge", "0.json", "0.json")
    assert code == 1 and "same rows" in err

"""A category of very many levels: the numbers of the dense path, which writes every level out."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import sparse

import masgrad as mg
from masgrad.data.formula import terms as formula_terms
from masgrad.errors import (
    AccuracyWarning,
    IdentificationError,
    IdentificationWarning,
    InputError,
    MissingWarning,
    PerfectFitWarning,
    SeparationWarning,
)
from masgrad.fitting.levels.arrow import Arrow, Sandwich, Vector, eliminate
from masgrad.fitting.levels.result import LevelsResult
from masgrad.models.families.choices import LINKS

LEVELS, LONG = 40, pytest.mark.long


@pytest.fixture
def few(monkeypatch):
    """Make 40 levels very many."""
    monkeypatch.setattr(formula_terms, "DENSE_LEVELS", 30)


def rows(rng, n=2000, levels=LEVELS):
    g = np.concatenate([np.arange(levels), np.arange(levels), rng.integers(0, levels, n)])
    n = len(g)
    table = pd.DataFrame({"g": g, "a": rng.normal(size=n), "b": 3 * rng.normal(size=n) + 100})
    table["h"], table["o"] = rng.choice(list("uvw"), n), 0.2 * rng.normal(size=n)
    table["w"] = rng.integers(1, 4, n) * 1.0
    effect = 0.3 * rng.normal(size=levels)
    t = 0.3 * table.a - 0.1 * (table.b - 100) + effect[g] + table.o
    table["gaussian"] = t + rng.normal(size=n)
    table["poisson"] = rng.poisson(np.exp(t)).astype(float)
    table["binomial"] = (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0
    table.loc[: 2 * levels - 1, "binomial"] = np.repeat([0.0, 1.0], levels)
    table.loc[: levels - 1, "poisson"] = 1.0
    table["gamma"] = rng.gamma(2.0, np.exp(t) / 2)
    return table


def dense(monkeypatch, *given, **keywords):
    """The same fit with every level written out."""
    with monkeypatch.context() as patch:
        patch.setattr(formula_terms, "DENSE_LEVELS", 10**6)
        result = mg.glm(*given, **keywords)
    assert isinstance(result, mg.Result)
    return result


def assert_equal(ours, theirs, rtol=1e-6):
    """Estimates in standard errors, the errors themselves, and what has neither."""
    assert isinstance(ours, LevelsResult)
    assert list(ours.params.index) == list(theirs.params.index)
    estimate, error = theirs.params.to_numpy(), theirs.bse.to_numpy()
    known = np.isfinite(estimate)
    np.testing.assert_array_equal(ours.params[~known], estimate[~known])
    np.testing.assert_array_equal(ours.bse[~known], error[~known])
    assert np.abs((ours.params - estimate)[known] / error[known]).max() < rtol
    np.testing.assert_allclose(ours.bse[known], error[known], rtol=rtol)


FITS = [
    ("gaussian", None, "a + b + C(h) + C(g)", {"cov_type": "robust"}),
    ("gaussian", None, "a + C(g) + b", {"cov_type": "nonrobust", "weights": "w"}),
    pytest.param(
        "gaussian", None, "C(g) - 1", {"cov_type": "HC1", "offset": "o"}, marks=pytest.mark.long
    ),
    ("poisson", None, "C(h) + a + C(g, Treatment(7))", {"offset": "o", "weights": "w"}),
    ("poisson", None, "a + b + C(g)", {"cov_type": "nonrobust", "exposure": "w"}),
    ("binomial", None, "a + b + C(g)", {"weights": "w"}),
    pytest.param("binomial", None, "C(g)", {"cov_type": "nonrobust"}, marks=LONG),
    pytest.param(
        "binomial", "probit", "a + C(g) - 1", {"cov_type": "nonrobust"}, marks=pytest.mark.long
    ),
    ("gamma", "log", "a + b + C(g)", {"cov_type": "HC1", "weights": "w"}),
    pytest.param("gamma", "log", "a + b + C(g)", {"cov_type": "nonrobust"}, marks=LONG),
    pytest.param("gamma", "inverse", "a + C(g)", {}, marks=LONG),
    pytest.param(
        "inverse_gaussian", "log", "a + C(g)", {"cov_type": "nonrobust"}, marks=pytest.mark.long
    ),
    pytest.param("tweedie(1.5)", None, "a + b + C(g)", {"offset": "o"}, marks=LONG),
    pytest.param("negative_binomial(1.0)", None, "a + b + C(g)", {}, marks=LONG),
]


@pytest.mark.parametrize("family, link, right, keywords", FITS)
def test_fits_are_those_with_every_level_written_out(
    family, link, right, keywords, rng, few, monkeypatch
):
    table = rows(rng)
    response = {"inverse_gaussian": "gamma"}.get(family, family.split("(")[0])
    table["y"] = table["poisson" if response in ("tweedie", "negative_binomial") else response]
    given = (f"y ~ {right}", table), {"family": family, "link": link, **keywords}
    ours = mg.glm(*given[0], **given[1], passes="converge")
    theirs = dense(monkeypatch, *given[0], **given[1], passes="converge")
    assert_equal(ours, theirs)
    for name in ("log_likelihood", "aic", "bic", "deviance", "dispersion", "nobs", "free"):
        wanted = getattr(theirs, name)
        assert getattr(ours, name) == (wanted if wanted is None else pytest.approx(wanted))
    first, *_, third, second, last = ours.names
    hypothesis = f"{second} = {third}, {first} - {last} = 0.1"
    assert ours.wald_test(hypothesis) == pytest.approx(theirs.wald_test(hypothesis), rel=1e-6)
    contrast = [r.contrast([f"{second} - {third}", first]).to_numpy() for r in (ours, theirs)]
    np.testing.assert_allclose(*contrast, rtol=1e-5)  # logarithms of small p-values are large
    names = [first, second, last]
    np.testing.assert_allclose(ours.cov_params(names), theirs.cov_params(names), rtol=1e-5)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-5, atol=1e-9)
    columns = [r.predict(table[:60], interval=0.9) for r in (ours, theirs)]
    np.testing.assert_allclose(*columns, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(table[:60]), columns[0]["mean"])


@pytest.mark.long
@pytest.mark.parametrize("family, link", [(f, link) for f in LINKS for link in LINKS[f]])
@pytest.mark.parametrize("cov_type", ["robust", "nonrobust"])
def test_every_family_and_link(family, link, cov_type, rng, few, monkeypatch):
    n = 3000
    table = pd.DataFrame({"a": rng.uniform(-1, 1, n), "g": rng.integers(0, LEVELS, n)})
    t = 2 + 0.3 * table["a"] + rng.uniform(size=LEVELS)[table["g"]]
    mean = {"identity": t, "log": np.exp(t - 2), "sqrt": t**2, "inverse": 1 / t}
    mean = mean.get(link, t**-0.5)
    if family == "bernoulli":
        table["y"] = (rng.random(n) < (np.exp(-t) if link == "log" else t / 5)) * 1.0
    elif family in ("poisson", "tweedie", "negative_binomial"):
        table["y"] = rng.poisson(mean) * 1.0
    else:
        table["y"] = rng.gamma(4.0, mean / 4.0)
    given = {"family": mg.GLM(family, link), "cov_type": cov_type, "passes": "converge"}
    ours = mg.glm("y ~ a + C(g)", table, **given)
    assert_equal(ours, dense(monkeypatch, "y ~ a + C(g)", table, **given))


def test_a_fit_by_default_is_near_the_optimum(rng, few, monkeypatch):
    table = rows(rng)
    ours = mg.glm("binomial ~ a + b + C(g)", table, family="binomial")
    exact = dense(
        monkeypatch, "binomial ~ a + b + C(g)", table, family="binomial", passes="converge"
    )
    assert_equal(ours, exact, rtol=1e-5)
    assert ours.status is mg.Status.CONVERGED and ours.fit_info.remainder < 1e-3


@pytest.mark.parametrize("seed", [2, 10])
def test_levels_of_one_row_do_not_run_away(seed, few, monkeypatch):
    """By Newton steps of their own some would end where their curvature is 0 to rounding."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(440, 2)), columns=["a", "b"])
    table["g"] = np.concatenate([np.arange(40), rng.integers(30, 40, 400)])
    mean = np.exp(np.clip(2.5 * (table["a"] - table["b"]), -20, 8))
    table["y"] = np.maximum(rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, 440)), table.index < 40)
    given = {"family": "negative_binomial(0.7)", "passes": "converge"}
    ours = mg.glm("y ~ a + b + C(g)", table, **given)
    assert_equal(ours, dense(monkeypatch, "y ~ a + b + C(g)", table, **given), rtol=1e-5)


@pytest.mark.parametrize("kind, cov_type", [("HC0", "robust"), ("nonrobust", "nonrobust")])
def test_statsmodels_agrees(kind, cov_type, rng, few):
    table = rows(rng)
    X = pd.get_dummies(table["g"].astype(str), dtype=float).iloc[:, 1:]
    X = sm.add_constant(pd.concat([table[["a", "b"]], X], axis=1))
    model = sm.GLM(table["poisson"], X, sm.families.Poisson(), offset=table["o"])
    theirs = model.fit(cov_type=kind, tol=1e-14)
    ours = mg.glm(
        "poisson ~ a + b + g",
        table.assign(g=table["g"].astype(str)),
        family="poisson",
        offset="o",
        cov_type=cov_type,
        passes="converge",
    )
    assert isinstance(ours, LevelsResult)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-6)


def test_a_thousand_levels_and_more_are_not_written_out(rng):
    """Least squares within levels is the oracle (Frisch, Waugh and Lovell)."""
    table = rows(rng, 4000, levels=1001)
    r = mg.glm("gaussian ~ a + b + C(g)", table, cov_type="HC0")
    assert isinstance(r, LevelsResult)
    numbers = table.drop(columns="h")
    within = numbers - numbers.groupby("g").transform("mean")
    X, y = within[["a", "b"]].to_numpy(), within["gaussian"].to_numpy()
    b = np.linalg.lstsq(X, y)[0]
    bread = np.linalg.inv(X.T @ X)
    half = bread @ (X * (y - X @ b)[:, None]).T
    np.testing.assert_allclose(r.params[["a", "b"]], b, rtol=1e-9)
    np.testing.assert_allclose(r.cov_params(["a", "b"]), half @ half.T, rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_a_thousand_levels_are_those_of_the_dense_path(family, rng, monkeypatch):
    table, given = rows(rng, 4000, levels=1001), {"family": family, "passes": "converge"}
    ours = mg.glm(f"{family} ~ a + b + C(g)", table, **given, weights="w")
    theirs = dense(monkeypatch, f"{family} ~ a + b + C(g)", table, **given, weights="w")
    assert_equal(ours, theirs)


# Levels and columns without an estimate.


@pytest.mark.parametrize("levels", [[7, 9, 12], [0, 7, 9]])
@pytest.mark.parametrize("right", ["a + b + C(g)", "a + C(g) - 1"])
def test_separated_levels_are_infinite_and_counted(levels, right, rng, few, monkeypatch):
    table = rows(rng)
    table["y"] = table["binomial"].where(~table["g"].isin(levels), (table["g"] == 9) * 1.0)
    given = {"family": "binomial", "passes": "converge"}
    with pytest.warns(SeparationWarning, match=r"along 3 of 40 levels of g \(.*\)") as said:
        ours = mg.glm(f"y ~ {right}", table, **given)
    assert ("Treatment(1)" in str(said[0].message)) == (0 in levels and right == "a + b + C(g)")
    with pytest.warns(SeparationWarning):
        theirs = dense(monkeypatch, f"y ~ {right}", table, **given)
    assert_equal(ours, theirs)
    assert ours.status is mg.Status.SEPARATED and ours.nobs == theirs.nobs == len(table)
    assert (ours.log_likelihood, ours.bic) == pytest.approx((theirs.log_likelihood, theirs.bic))
    columns = [r.predict(table, interval=0.9) for r in (ours, theirs)]
    np.testing.assert_allclose(*columns, rtol=1e-6)
    two = ours.names[-1], ours.names[-2]
    np.testing.assert_allclose(
        *(r.contrast(f"{two[0]} - {two[1]}").to_numpy() for r in (ours, theirs)), rtol=1e-6
    )
    others = mg.glm(f"y ~ {right}", table[~table["g"].isin(levels)], **given)
    assert ours.params["a"] == pytest.approx(others.params["a"], rel=1e-9)
    assert ours.bse["a"] == pytest.approx(others.bse["a"], rel=1e-9)


def test_levels_of_zeros_only_have_the_mean_zero(rng, few):
    table = rows(rng)
    table.loc[table["g"].isin([3, 4]), "poisson"] = 0.0
    with pytest.warns(SeparationWarning, match="2 of 40 levels"):
        r = mg.glm("poisson ~ a + C(g)", table, family="poisson")
    assert (r.params[["C(g)[T.3]", "C(g)[T.4]"]] == -np.inf).all()
    assert (r.predict(table[table["g"] == 3]) == 0).all()
    with pytest.raises(InputError, match="not identified"):
        r.wald_test("C(g)[T.3] = 0")


def test_single_rows_of_levels_are_fitted_exactly_and_noted(rng, few, monkeypatch):
    table = rows(rng)
    table.loc[len(table) - 2 :, "g"] = [100, 101]
    ours = mg.glm("gaussian ~ a + C(g)", table)
    assert_equal(ours, dense(monkeypatch, "gaussian ~ a + C(g)", table))
    assert any("too small for 2 levels of g" in note for note in ours.notes)


@pytest.mark.parametrize("column", ["k", "C(r)"])
def test_what_does_not_vary_within_levels_has_no_estimate(column, rng, few):
    table = rows(rng)
    table["k"], table["r"] = np.sin(table["g"]), table["g"] // 10
    with pytest.warns(IdentificationWarning, match=r"does not vary within the levels of g"):
        ours = mg.glm(f"gaussian ~ a + {column} + C(g) + b", table)
    without = mg.glm("gaussian ~ a + C(g) + b", table)
    assert ours.status is mg.Status.NOT_IDENTIFIED
    out = [name for name in ours.names if name not in without.names]
    assert len(out) == (1 if column == "k" else 3)
    assert ours.params[out].isna().all() and ours.bse[out].isna().all()
    kept = list(without.names)
    np.testing.assert_allclose(ours.params[kept], without.params, rtol=1e-9)
    np.testing.assert_allclose(ours.bse[kept], without.bse, rtol=1e-9)
    with pytest.raises(InputError, match="not identified"):
        ours.wald_test(f"{out[0]} = 0")


def test_declared_levels_without_rows_have_no_estimate(rng, few):
    table = rows(rng)
    kind = pd.CategoricalDtype([*range(LEVELS), 98, 99])
    frames = np.array_split(np.arange(len(table)), 3)
    declared = table.astype({"g": kind})
    stream = mg.Stream(lambda: (declared.iloc[part] for part in frames))
    with pytest.warns(IdentificationWarning, match=r"2 levels of g have no row \(98, 99\)"):
        ours = mg.glm("gaussian ~ a + C(g)", stream)
    wanted = mg.glm("gaussian ~ a + C(g)", table)
    assert ours.params[-2:].isna().all()
    np.testing.assert_allclose(ours.params[:-2], wanted.params, rtol=1e-8)


def test_collinear_and_separating_columns_are_named(rng, few):
    table = rows(rng)
    table["k"] = table["a"] - 2 * table["b"] + table["g"] % 3
    with pytest.raises(IdentificationError, match="columns a, b, k determine one another"):
        mg.glm("gaussian ~ a + b + k + C(g)", table)
    table["k"] = (table["a"] > 2) * 1.0
    table["y"] = table["binomial"].where(table["k"] == 0, 1.0)
    with pytest.raises(IdentificationError, match="separated along k: "):
        mg.glm("y ~ k + b + C(g)", table, family="binomial")


def test_levels_whose_means_would_fall_for_ever_are_refused(rng, few):
    table = rows(rng)
    table["y"] = np.exp(table["a"]).where(table["g"] != 4, -1.0)
    with pytest.raises(InputError, match="1 levels of g have no response above 0"):
        mg.glm("y ~ a + C(g)", table, family="gaussian", link="log")
    table["y"] = table["poisson"].where(table["g"] != 4, 0.0)
    with pytest.raises(InputError, match="needs x'theta > 0"):
        mg.glm("y ~ C(g)", table, family="poisson", link="identity")


def test_a_perfect_fit_ends(rng, few):
    table = rows(rng)
    with pytest.warns(PerfectFitWarning):
        r = mg.glm("y ~ a + C(g)", table.assign(y=2 * table["a"] + table["g"]))
    assert r.status is mg.Status.PERFECT_FIT and (r.bse == 0).all()
    assert r.params["a"] == pytest.approx(2.0)


# Where rows come from.


def test_files_blocks_and_threads_change_nothing(rng, few, tmp_path):
    table = rows(rng, 60_000)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=7000)
    table[:3000].to_csv(tmp_path / "rows.csv", index=False)
    given = "binomial ~ a + C(h) + C(g)", {"family": "binomial", "passes": "converge"}
    one = mg.glm(given[0], table, **given[1], threads=1)
    two = mg.glm(given[0], table, **given[1], threads=2)
    np.testing.assert_array_equal(one.params, two.params)
    np.testing.assert_array_equal(one.bse, two.bse)
    for data in (tmp_path / "rows.parquet", table.sample(frac=1.0, random_state=0)):
        other = mg.glm(given[0], data, **given[1], block_size=5000)
        assert np.abs((other.params - one.params) / one.bse).max() < 1e-8
        np.testing.assert_allclose(other.bse, one.bse, rtol=1e-7)
    first = mg.glm(given[0], table[:3000], **given[1])
    assert_equal(mg.glm(given[0], tmp_path / "rows.csv", **given[1]), first)
    with pytest.raises(InputError, match=r"column 'a' holds nan at row 17 of .*bad.parquet"):
        bad = table.assign(a=table["a"].where(table.index != 17))
        bad.to_parquet(tmp_path / "bad.parquet")
        mg.glm(given[0], tmp_path / "bad.parquet", **given[1])
    with pytest.raises(InputError, match="y is 2 at row 4"):
        mg.glm(given[0], table.assign(binomial=table["binomial"].where(table.index != 4, 2.0)),
               **given[1])  # fmt: skip


def test_rows_of_weight_zero_are_no_rows(rng, few):
    table = rows(rng)
    table["w"] = table["w"].where(table.index >= 2 * LEVELS, 1.0) * (table.index % 7 != 6)
    ours = mg.glm("poisson ~ a + C(g)", table, family="poisson", weights="w")
    kept = table[table["w"] > 0]
    again = mg.glm("poisson ~ a + C(g)", kept, family="poisson", weights="w")
    np.testing.assert_allclose(ours.params, again.params, rtol=1e-8)
    assert ours.nobs == len(kept)


def test_predictions_of_levels_that_are_missing_or_new(rng, few):
    table = rows(rng)
    table["g"] = table["g"].astype(str)
    r = mg.glm("gaussian ~ a + g", table)
    new = table[:5].assign(g=["3", None, "4", "5", "6"])
    with pytest.warns(MissingWarning, match=r"1 of 5 rows .* row 1: its column 'g' has no value"):
        got = r.predict(new, interval=0.9)
    assert list(np.isnan(got["mean"])) == [False, True, False, False, False]
    np.testing.assert_allclose(got["mean"].drop(1), r.predict(new.drop(1)))
    with pytest.raises(InputError, match="'g' has the level 'z' at row 2"):
        r.predict(new.assign(g=list("12z45")))


# What is shown, and what is refused.


def test_views_show_the_columns_and_a_few_levels(rng, few, tmp_path):
    r = mg.glm("gaussian ~ a + C(g) + b", rows(rng))
    text = r.summary()
    assert "C(g)[T.5]" in text and "C(g)[T.6]" not in text and "\nb " in text
    assert "5 of 39 coefficients of C(g) are shown" in text
    assert "T.5]" in r.to_html() and "T.6]" not in r.to_html()
    assert "T.5" in r.to_latex() and "T.6" not in r.to_latex()
    assert len(r.to_frame()) == 42 and repr(r).startswith("LevelsResult(gaussian")
    r.plot(tmp_path / "r.png")
    pointwise, joint = (np.asarray(r.conf_int(method=m)) for m in ("pointwise", "bonferroni"))
    ratio = (joint[:, 1] - joint[:, 0]) / (pointwise[:, 1] - pointwise[:, 0])
    np.testing.assert_allclose(ratio, 3.241 / 1.96, rtol=1e-3)  # of 0.05 / 42


def test_few_reads_end_with_a_warning(rng, few):
    table = rows(rng)
    with pytest.warns(AccuracyWarning, match="may still be"):
        r = mg.glm("poisson ~ a + C(g)", table, family="poisson", passes=2)
    assert r.status is mg.Status.READS_USED_UP and r.fit_info.remainder > 0.1
    exact = mg.glm("poisson ~ a + C(g)", table, family="poisson")
    away = (r.params - exact.params) / exact.bse
    assert 0.01 < np.abs(away).max() < 10 * r.fit_info.remainder


def test_calls_that_are_refused(rng, few, tmp_path):
    table = rows(rng)
    table["k"] = np.arange(len(table)) % 35
    r = mg.glm("gaussian ~ a + C(g)", table, memory=2**20)
    for call, match in [
        (lambda: r.update(table), "no update; fit old and new rows together"),
        (lambda: r.save(tmp_path / "r.json"), "no save"),
        (lambda: r.law, "no law"),
        (lambda: r.region(), r"region\('a, b'\)"),
        (lambda: r.conf_int(method="simultaneous"), "bonferroni"),
        (lambda: r.cov_params(["a", "C(g)[T.99]"]), r"no parameter 'C\(g\)\[T.99\]'; did you"),
        (lambda: r.cov_params([41]), "no parameter 41"),
        (lambda: mg.glm("gaussian ~ C(k) + C(g)", table), r"C\(k\) and C\(g\) have more than"),
        (lambda: mg.glm("gaussian ~ a:C(g)", table), "product with it"),
        (lambda: mg.glm("gaussian ~ C(h) + C(g) - 1", table), "first category"),
        (
            lambda: mg.glm("gaussian ~ a + C(g)", iter([table.astype({"g": "category"})])),
            "iterator",
        ),
        (
            lambda: mg.penalty_path(mg.Linear(), table, mg.L1(0.1), formula="gaussian ~ a + C(g)"),
            "too many for a fit with a penalty",
        ),
    ]:
        with pytest.raises(InputError, match=match):
            call()


def test_a_covariance_beyond_the_memory_is_asked_for_by_blocks(rng):
    table = rows(rng, 1000, levels=1001)
    r = mg.glm("gaussian ~ a + C(g)", table, memory="4MB")
    with pytest.raises(InputError, match=r"1,002 parameters takes 8 MB, more than memory=4MB; .*"):
        r.cov_params()
    names = ["a", "C(g)[T.17]", "C(g)[T.900]"]
    block = r.cov_params(names)
    assert list(block.index) == list(block.columns) == names
    np.testing.assert_allclose(np.sqrt(np.diag(block)), r.bse[names])


# The algebra.


def arrow(rng, q=4, levels=15):
    n = 200
    Z = np.hstack([rng.normal(size=(n, q)), np.eye(levels)[np.arange(n) % levels]])
    full = (Z * rng.random(n)[:, None]).T @ Z
    return Arrow(full[:q, :q], full[q:, :q], np.diag(full)[q:]), full


def test_arrow_matrices_are_solved_as_dense_ones(rng):
    H, dense_H = arrow(rng)
    M, dense_M = arrow(rng)
    bread = eliminate(H)
    assert bread is not None
    b = rng.normal(size=19)
    found = np.concatenate(bread.solve(Vector(b[:4], b[4:])))
    np.testing.assert_allclose(found, np.linalg.solve(dense_H, b), rtol=1e-9)
    inverse = np.linalg.inv(dense_H)
    C, sandwich = inverse @ dense_M @ inverse, Sandwich.of(bread, M)
    R = rng.normal(size=(3, 19))
    np.testing.assert_allclose(
        sandwich.covariance(R[:, :4], sparse.csr_array(R[:, 4:])), R @ C @ R.T, rtol=1e-8
    )
    c, e = rng.normal(size=(15, 4)), np.eye(15)
    plus, both = np.hstack([c, e]), np.hstack([c, e - e[3]])
    np.testing.assert_allclose(
        sandwich.variances(c, np.arange(15)), np.diag(plus @ C @ plus.T), rtol=1e-8
    )
    others = np.arange(15) != 3
    found, wanted = sandwich.variances(c, np.arange(15), 3), np.diag(both @ C @ both.T)
    np.testing.assert_allclose(found[others], wanted[others], rtol=1e-8)
    assert eliminate(H._replace(corner=H.corner - 10 * np.eye(4) * H.corner)) is None


LARGE = """
import resource, numpy as np, pandas as pd, masgrad as mg
rng, n, L, q = np.random.default_rng(0), 1_000_000, 10_000, 20
g, X = rng.integers(0, L, n), rng.normal(size=(n, q))
t = X @ np.linspace(-0.3, 0.3, q) + 0.5 * rng.normal(size=L)[g]
table = pd.DataFrame(X, columns=[f"x{j}" for j in range(q)]).assign(g=g)
table["y"] = (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0
table.to_parquet(PATH)
del table, X, g, t
"""
READ = """
import resource, masgrad as mg
r = mg.glm("y ~ " + " + ".join(f"x{j}" for j in range(20)) + " + C(g)", PATH, family="binomial")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, len(r.params), r.status)
"""


@pytest.mark.long
def test_ten_thousand_levels_take_less_than_a_gigabyte(tmp_path):
    path = f"PATH = {str(tmp_path / 'rows.parquet')!r}\n"
    subprocess.run([sys.executable, "-c", path + LARGE], check=True)
    done = subprocess.run(
        [sys.executable, "-c", path + READ], capture_output=True, text=True, check=True
    )
    gigabytes, columns, status = done.stdout.split()
    assert float(gigabytes) < 1 and int(columns) == 10_020 and status == "converged"


def test_nearly_collinear_columns_are_told_apart(rng, few, monkeypatch):
    table = rows(rng)
    table["year"] = rng.integers(2018, 2024, len(table))
    given = ("poisson ~ year*h + C(g)", table)
    ours = mg.glm(*given, family="poisson", passes="converge")
    theirs = dense(monkeypatch, *given, family="poisson", passes="converge")
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-6)


def test_rows_of_separated_levels_are_no_rows_for_the_others(rng, few):
    g = np.concatenate([np.arange(60), np.repeat(np.arange(60, 100), 10)])
    y = np.concatenate([rng.poisson(3.0, 60) + 1.0, np.zeros(400)])
    table = pd.DataFrame({"g": g, "y": y, "a": rng.normal(size=460)})
    with pytest.raises(IdentificationError, match="60 rows cannot estimate 61 parameters"):
        mg.glm("y ~ a + C(g)", table, family="poisson", cov_type="HC1")


@pytest.mark.parametrize("family, said", [("binomial", True), ("poisson", False)])
def test_levels_of_few_rows_have_a_note_on_the_bias_of_the_others(rng, few, family, said):
    r = mg.glm(f"{family} ~ a + C(g)", rows(rng), family=family)
    assert any("incidental parameters" in note for note in r.notes) == said

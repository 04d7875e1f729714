"""Separated responses: seen, told from nearly separated ones, and not built upon."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError, MasgradWarning, SeparationWarning
from masgrad.fitting.identification import recession

MODELS = {
    "logit": mg.Logistic(),
    "probit": mg.GLM("bernoulli", "probit"),
    "cloglog": mg.GLM("bernoulli", "cloglog"),
    "poisson": mg.Poisson(),
    "negative binomial": mg.NegativeBinomial(1.0),
    "shares": mg.Logistic(),
}
COUNTS = ("poisson", "negative binomial")


def quietly(*args, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MasgradWarning)
        return mg.fit(*args, **keywords)


# Against an exact linear program.


def separated_rows(X, y, counts):
    """Mask of all rows that some recession direction moves, by one linear program."""
    s = -1.0 * (y == 0) + (0.0 if counts else 1.0 * (y == 1))
    ends, p = s != 0, X.shape[1]
    Z = (s[:, None] * X)[ends]
    n, fixed = len(Z), X[~ends]
    done = linprog(
        np.r_[np.zeros(p), -np.ones(n)],
        A_ub=np.hstack([-Z, np.eye(n)]),
        b_ub=np.zeros(n),
        A_eq=np.hstack([fixed, np.zeros((len(fixed), n))]),
        b_eq=np.zeros(len(fixed)),
        bounds=[(None, None)] * p + [(0, 1)] * n,
    )
    found = np.zeros(len(y), bool)
    found[np.flatnonzero(ends)[done.x[p:] > 0.5]] = True
    return found


def small_problem(name, seed):
    """Rows of up to five columns: normal, small integers, or rare dummies."""
    rng = np.random.default_rng([seed, list(MODELS).index(name)])
    p = int(rng.integers(1, 6))
    n = int(rng.integers(p + 8, 41))
    kinds = rng.normal(size=(n, p)), rng.integers(0, 3, (n, p)), rng.random((n, p)) < 0.2
    X = kinds[seed % 3].astype(float)
    X[:, 0] = 1.0
    t = X @ rng.normal(size=p) * rng.choice([0.5, 2.0, 8.0])
    if name in COUNTS:
        y = rng.poisson(np.exp(np.clip(t - 1, -8, 4)))
    else:
        y = rng.random(n) < 1 / (1 + np.exp(-t))
    y = np.where((rng.random(n) < 0.2) & (name == "shares"), 0.5, y.astype(float))
    fits = np.linalg.matrix_rank(X) == p and y.any() and y.min() < y.max()
    return (X, y) if fits else small_problem(name, seed + 1000)


@pytest.mark.parametrize("name", MODELS)
def test_the_verdict_is_that_of_a_linear_program(name):
    """Fifty problems of each family, some of them separated, none undecided.

    Finite coefficients are compared with the fit without the separated rows, if what is left of the
    other columns is 0.
    """
    seen = compared = 0
    for seed in range(50):
        X, y = small_problem(name, seed)
        out = separated_rows(X, y, name in COUNTS)
        r = quietly(MODELS[name], (X, y))
        assert (r.status is mg.Status.SEPARATED) == out.any(), seed
        _, values, Vt = np.linalg.svd(np.vstack([X[~out], np.zeros_like(X)]))
        null = Vt[(values > 1e-9).sum() :]
        np.testing.assert_array_equal(np.isinf(r.bse), (np.abs(null) > 1e-7).any(0), str(seed))
        np.testing.assert_allclose(r.predict(X)[out], y[out], atol=1e-12)  # limits
        seen, known = seen + out.any(), np.isfinite(r.bse)
        if out.any() and known.any() and not X[~out][:, ~known].any():
            rest = quietly(MODELS[name], (X[~out][:, known], y[~out]))
            np.testing.assert_allclose(r.params[known], rest.params, atol=1e-7)
            np.testing.assert_allclose(r.bse[known], rest.bse, rtol=1e-6)
            assert r.log_likelihood == pytest.approx(rest.log_likelihood)
            compared += 1
    assert 3 <= seen <= 35 and compared


# A level with one row beside a column that is almost constant within levels.


def routes(seed, rows, jitter=0.01):
    rng = np.random.default_rng(seed)
    route = rng.integers(0, 6, rows)
    route[0] = 6
    length = np.array([120.0, 340, 560, 80, 910, 230, 415])[route] + jitter * rng.normal(size=rows)
    late = (rng.random(rows) < 1 / (1 + np.exp(1 - 0.3 * (route % 3)))).astype(float)
    late[0] = 0.0
    names = [f"r{k}" for k in route]
    return pd.DataFrame({"late": late, "route": names, "distance": length})


@pytest.mark.parametrize("rows", [300, 40_000])
@pytest.mark.parametrize("unit, shift", [(1.0, 0.0), (1e-3, 0.0), (1e6, 0.0), (1.0, 1e4)])
@pytest.mark.parametrize("order", ["first", "last", "shuffled"])
def test_one_row_of_a_level_takes_no_other_coefficient_with_it(rows, unit, shift, order):
    table, formula, lost = routes(0, rows), "late ~ C(route) + distance", "C(route)[T.r6]"
    rest = mg.glm(formula, table[1:], family="binomial", passes="converge")
    moved = table.assign(distance=table.distance * unit + shift)
    moved = {"first": moved, "last": moved[::-1], "shuffled": moved.sample(frac=1, random_state=0)}
    with pytest.warns(SeparationWarning, match="along 'C\\(route\\)\\[T.r6\\]':"):
        r = mg.glm(formula, moved[order], family="binomial")
    assert r.params[lost] == -np.inf and r.nobs == rows
    assert list(r.bse.index[np.isinf(r.bse)]) == [lost]
    for name in rest.params.index[1:]:
        times = unit if name == "distance" else 1.0
        assert abs(r.params[name] * times - rest.params[name]) < 1e-3 * rest.bse[name]
        assert r.bse[name] * times == pytest.approx(rest.bse[name], rel=2e-3)


# What is shown of it.


def level_table():
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 400)
    return pd.DataFrame(
        {
            "y": np.where(level == 0, 0.0, rng.random(400) < 0.2 + 0.2 * level),
            "level": level,
            "x": rng.normal(size=400),
        }
    )


def test_contrasts_between_levels_are_finite_if_the_base_is_separated(tmp_path):
    """The intercept goes to -inf and the other levels to inf; their differences do not move."""
    table = level_table()
    with pytest.warns(SeparationWarning):
        r = mg.glm("y ~ C(level) + x", table, family="binomial")
    rest = mg.glm("y ~ C(level) + x", table[table.level > 0], family="binomial")
    names = [f"C(level)[T.{k}]" for k in (1, 2, 3)]
    assert r.params["Intercept"] == -np.inf and (r.params[names] == np.inf).all()
    assert (r.conf_int().loc[names] == [-np.inf, np.inf]).all(axis=None)
    assert r.params["x"] == pytest.approx(rest.params["x"], abs=1e-9)
    ours, theirs = (
        q.contrast(f"C(level)[T.3] - C(level)[T.2], {more}")
        for q, more in ((r, "C(level)[T.2] + Intercept"), (rest, "C(level)[T.2] + Intercept"))
    )
    np.testing.assert_allclose(ours.estimate[0], theirs.estimate[0], atol=1e-9)
    np.testing.assert_allclose(ours.se, theirs.se, rtol=1e-6)
    r.save(tmp_path / "r.json")
    saved = mg.load(tmp_path / "r.json")
    np.testing.assert_array_equal(saved.params, r.params)
    np.testing.assert_array_equal(saved.bse, r.bse)
    frame = saved.predict(table, interval=0.95)
    base = (table.level == 0).to_numpy()
    assert (frame["mean"][base] == 0).all()
    assert (frame.loc[base, ["lower", "upper"]] == [0, 1]).all(axis=None)
    np.testing.assert_allclose(frame["mean"][~base], rest.predict(table[~base]), atol=1e-9)


def test_a_limit_without_a_sign_is_nan():
    """The plane through x = 0.5 can be turned a little: z may get either sign."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    y = (X[:, 1] > 0.5).astype(float)
    r = quietly(mg.Logistic(), (X, y))
    np.testing.assert_array_equal(r.params, [-np.inf, np.inf, np.nan])
    assert np.isinf(r.bse).all() and r.log_likelihood == 0
    np.testing.assert_array_equal(r.predict(X), y)


def test_counts_of_two_groups_without_events():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(600), np.eye(5)[rng.integers(0, 6, 600) - 1][:, :4]])
    y = rng.poisson(1.0, 600) * (X[:, 1] + X[:, 2] == 0.0)
    r = quietly(mg.Poisson(), (X, y.astype(float)))
    np.testing.assert_array_equal(r.params[1:3], [-np.inf, -np.inf])
    assert np.isfinite(r.bse[[0, 3, 4]]).all()


@pytest.mark.parametrize("rows", [60, 40_000])
def test_separated_rows_with_hc3(rows):
    """Nothing has a leverage where nothing is estimated; else those that remain have one."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=rows)])
    r = quietly(mg.Logistic(), (X, (X[:, 1] > 0.1).astype(float)), cov_type="HC3")
    assert np.isinf(r.bse).all()
    level = np.arange(rows) < 10
    y = np.where(level, 1.0, rng.random(rows) < 0.4)
    r = quietly(mg.Logistic(), (np.column_stack([X, level]), y), cov_type="HC3")
    rest = mg.fit(mg.Logistic(), (X[~level], y[~level]), passes="converge", cov_type="HC3")
    np.testing.assert_allclose(r.bse[:2], rest.bse, rtol=1e-3)


# The search.


@pytest.mark.parametrize("candidate", ["_from_path", "_from_programs", "_from_rectifier"])
def test_each_kind_of_candidate_finds_a_level_without_events(candidate, monkeypatch):
    for other in {"_from_path", "_from_programs", "_from_rectifier"} - {candidate}:
        monkeypatch.setattr(recession.Search, other, lambda self: None)
    table = level_table()
    with pytest.warns(SeparationWarning):
        r = mg.glm("y ~ C(level) + x", table, family="binomial")
    assert np.isinf(r.bse).sum() == 4 and np.isfinite(r.bse["x"])


def test_without_a_candidate_separation_is_undecided(monkeypatch):
    for candidate in ("_from_path", "_from_programs", "_from_rectifier"):
        monkeypatch.setattr(recession.Search, candidate, lambda self: None)
    with pytest.warns(SeparationWarning, match="neither an optimum"):
        r = mg.glm("y ~ C(level) + x", level_table(), family="binomial")
    assert r.status is mg.Status.SEPARATION_UNDECIDED


def test_no_program_is_larger_than_it_may_be(monkeypatch):
    """Five columns, and 40 entries: fewer than two rows for each column."""

    def linprog(*args, **keywords):
        raise AssertionError("a linear program was run")

    monkeypatch.setattr("scipy.optimize.linprog", linprog)
    monkeypatch.setattr(recession, "LARGEST_PROGRAM", 40)
    with pytest.warns(SeparationWarning):
        r = mg.glm("y ~ C(level) + x", level_table(), family="binomial")
    assert np.isinf(r.bse).sum() == 4 and np.isfinite(r.bse["x"])


@pytest.mark.parametrize("link", ["probit", "logit", "cloglog"])
def test_one_mislabelled_row_of_many_is_enough(link):
    """The pilot rows are separated, and all rows are not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=200_000)
    y = (x > 0).astype(float)
    y[np.argmin(np.abs(x + 0.4))] = 1.0
    X = np.column_stack([np.ones(len(x)), x])
    r = quietly(mg.GLM("bernoulli", link), (X, y), passes=3)
    assert r.status not in (mg.Status.SEPARATED, mg.Status.SEPARATION_UNDECIDED)
    assert np.isfinite(r.bse).all()


def test_separated_first_rows_do_not_separate_a_penalised_fit(recwarn):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(12_000), rng.normal(size=12_000)])
    y = (rng.random(12_000) < 1 / (1 + np.exp(-X[:, 1]))).astype(float)
    y[:5000] = X[:5000, 1] > 0
    r = mg.fit(mg.Logistic(), (X, y), penalty=mg.L1(1e-3))
    assert np.isfinite(r.bse).all() and not recwarn.list


# Fits of many rows.


@pytest.mark.parametrize("rows", [1000, 20_000, 100_000])
def test_complete_separation_is_seen_however_many_rows_there_are(rows):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (X[:, 1] > 0.5).astype(float)))
    assert np.isinf(r.bse).all()  # the plane may be turned a little every way


@pytest.mark.parametrize("rows", [1000, 20_000])
def test_complete_separation_of_rows_that_are_read_once(rows):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    y = (X[:, 1] + X[:, 2] > 0).astype(float)
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), iter([(X[:500], y[:500]), (X[500:], y[500:])]))
    assert np.isinf(r.bse).all()


@pytest.mark.parametrize("rows", [1000, 100_000])
def test_of_a_level_without_zeros_only_its_own_coefficient_is_lost(rows):
    rng = np.random.default_rng(0)
    level = rng.random(rows) < 0.1
    X = np.column_stack([np.ones(rows), rng.normal(size=rows), level])
    y = np.where(level, 1.0, rng.random(rows) < 1 / (1 + np.exp(-X[:, 1])))
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, y))
    rest = mg.fit(mg.Logistic(), (X[~level, :2], y[~level]), "converge")
    assert np.isinf(r.bse[2])
    assert np.abs((r.params[:2] - rest.params) / rest.bse).max() < 0.01
    np.testing.assert_allclose(r.bse[:2], rest.bse, rtol=5e-3)


def test_a_column_of_zeros_beside_a_separated_one():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(500), rng.normal(size=500), np.zeros(500)])
    y = (rng.random(500) < 0.5).astype(float)
    X[:, 2] = (X[:, 1] > 1) * y
    with pytest.warns(SeparationWarning):
        plain = mg.fit(mg.Logistic(), (X, y))
    with pytest.warns(Warning) as said:
        r = mg.fit(mg.Logistic(), (np.column_stack([X, np.zeros(500)]), y))
    assert {w.category for w in said} == {SeparationWarning, IdentificationWarning}
    np.testing.assert_allclose(r.bse, [*plain.bse[:2], np.inf, np.nan], rtol=1e-6)


def test_nearly_separated_responses_are_not_called_separated(recwarn):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    y = (rng.random(20_000) < 1 / (1 + np.exp(-60 * (X[:, 1] - 0.5)))).astype(float)
    r = mg.fit(mg.Logistic(), (X, y))
    assert np.isfinite(r.bse).all() and not recwarn.list


def test_a_result_without_an_estimate_is_not_updated():
    x = np.arange(40.0)
    X = np.column_stack([np.ones(40), x])
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (x > 20).astype(float)))
    with pytest.raises(InputError, match="no estimate"):
        r.update((X, (x > 10).astype(float)))


@pytest.mark.parametrize("rows", [600, 40_000])
def test_a_base_level_without_events_is_named(rows, rng):
    """With the formula that leaves the other levels finite; of two categories, too."""
    frame = pd.DataFrame({"g": rng.choice(["a", "b", "c"], rows), "x": rng.normal(size=rows)})
    frame["y"] = np.where(frame.g == "a", 0, rng.random(rows) < 0.5).astype(float)
    advice = r"very row of g = 'a' is separated.*with C\(g, Treatment\('b'\)\) fewer"
    with pytest.warns(SeparationWarning, match=advice):
        r = mg.glm("y ~ x + g", frame, family="binomial")
    assert np.isinf(r.params.drop("x")).all() and re.search(advice, r.notes[-1])
    with pytest.warns(SeparationWarning) as seen:
        r = mg.glm("y ~ x + C(g, Treatment('b'))", frame, family="binomial")
    assert np.isfinite(r.params).sum() == 3 and "Treatment" not in str(seen[0].message)[60:]
    with pytest.warns(SeparationWarning, match="row of g = 'a'.*; every row of h = 'u'.*'v'"):
        frame["h"] = np.where(frame.y + rng.random(rows) > 0.8, "v", "u")
        mg.glm("y ~ g + h", frame, family="binomial")


def test_a_dummy_without_events_in_a_single_read_leaves_other_errors_alone():
    """Its rows come after the first ones, in which the column is empty."""
    rng, n = np.random.default_rng(0), 100_000
    X = np.column_stack([np.ones(n), rng.normal(size=n), np.zeros(n)])
    carrying = 40_000 + rng.choice(60_000, 5, replace=False)
    X[carrying, 2] = 1.0
    y = (rng.random(n) < 1 / (1 + np.exp(2 - 0.3 * X[:, 1]))).astype(float)
    y[carrying] = 0.0
    blocks = ((X[i : i + 5000], y[i : i + 5000]) for i in range(0, n, 5000))
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), blocks)
    others = np.delete(np.arange(n), carrying)
    best = mg.fit(mg.Logistic(), (X[others, :2], y[others]), passes="converge")
    np.testing.assert_allclose(r.bse[:2], best.bse, rtol=0.02)
    assert np.isinf(r.bse[2])


def test_shortened_steps_of_a_wide_strong_fit_are_no_sign_of_separation(monkeypatch):
    """Steps from 0 are shortened and look alike: 20,000 x 2,000 numbers spent 60 s on a search
    that ended undecided, and the optimum that was found in the end was still called so."""
    rng, (n, p) = np.random.default_rng(0), (4000, 500)
    X, beta = rng.normal(size=(n, p)), rng.normal(size=p) * np.sqrt(16 / p)
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ beta))).astype(float)
    searches = []
    monkeypatch.setattr(recession.Search, "_from_path", searches.append)
    r = quietly(mg.Logistic(), (X, y))
    assert r.status == mg.Status.CONVERGED and not searches
    residuals = y - 1 / (1 + np.exp(-X @ r.params))
    assert np.abs(X.T @ residuals).max() < 1e-6

"""What a fit says may be wrong with it: each sentence where it is due, and only there."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import MasgradWarning
from masgrad.fitting.uncertainty.chains import burn_in, effective_size, split_rhat
from scenarios import two_columns

NAMES = ["order of rows", "outlying blocks", "condition", "separation", "p/N", "step"]


def logistic(rows, p=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, p - 1))])
    y = (rng.random(rows) < 1 / (1 + np.exp(-scale * X.sum(1)))).astype(float)
    return X, y


def blocks(X, y, size=2000):
    return mg.Stream(lambda: ((X[s : s + size], y[s : s + size]) for s in range(0, len(y), size)))


def troubles(result):
    return [d.name for d in result.diagnostics.troubles]


@pytest.mark.parametrize("data", ["small", "arrays", "stream", "single"])
def test_sound_data_have_no_troubles(data):
    X, y = logistic(500 if data == "small" else 80_000)
    source = blocks(X, y) if data == "stream" else (X, y)
    r = mg.fit(mg.Logistic(), source, passes=1 if data == "single" else "auto")
    assert [d.name for d in r.diagnostics] == NAMES
    assert troubles(r) == []
    assert all(d.sentence.endswith(".") for d in r.diagnostics)
    assert str(r.diagnostics).count("\n") == len(NAMES) - 1


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
def test_ordered_rows_are_said():
    X, y = logistic(80_000)
    order = np.argsort(y, kind="stable")
    r = mg.fit(mg.Logistic(), blocks(X[order], y[order]))
    assert "order of rows" in troubles(r)


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
def test_an_outlying_block_is_named():
    X, y = logistic(80_000)
    y[40_000:42_000] = 1 - y[40_000:42_000]
    r = mg.fit(mg.Logistic(), blocks(X, y))
    found = {d.name: d for d in r.diagnostics}["outlying blocks"]
    assert not found.ok and "rows 40,0" in found.sentence


def test_nearly_collinear_columns_are_said():
    X, y = logistic(5_000)
    X = np.column_stack([X, X[:, 1] + 1e-5 * np.random.default_rng(1).normal(size=5000)])
    assert troubles(mg.fit(mg.Logistic(), (X, y))) == ["condition"]


@pytest.mark.filterwarnings("ignore::masgrad.errors.SeparationWarning")
def test_separation_is_said():
    X, y = logistic(500)
    X[:, 2] = 10 * (y - 0.5)
    r = mg.fit(mg.Logistic(), (X, y))
    assert "separation" in troubles(r)
    assert "theta[2]" in str(r.diagnostics) and "L2" in r.summary()


@pytest.mark.filterwarnings("ignore::masgrad.errors.SeparationWarning")
def test_one_coefficient_and_several_are_told_apart():
    X, y = logistic(500)
    X[:, 2] = (X[:, 1] > 1) * y  # a dummy whose rows all have y = 1
    said = str(mg.fit(mg.Logistic(), (X, y)).diagnostics)
    assert "1 coefficient has no estimate (s.e. inf): the data do not bound it" in said


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
def test_empty_columns_are_not_called_separation():
    X, y = logistic(500)
    one = mg.fit(mg.Logistic(), (np.column_stack([X, np.zeros(500)]), y))
    assert troubles(one) == ["empty columns"]
    assert "empty columns: 1 column is 0 in every row" in " ".join(one.summary().split())
    two = mg.fit(mg.Linear(), (np.column_stack([X, np.zeros((500, 2))]), y))
    assert "2 columns are 0 in every row" in str(two.diagnostics)


def test_too_many_columns_for_a_logistic_fit_are_said():
    """Strong signal, p/N = 0.1: the estimate is biased by more than half a standard error."""
    X, y = logistic(400, p=40, scale=0.3)
    r = mg.fit(mg.Logistic(), (X, y))
    assert troubles(r) == ["p/N"]
    assert troubles(mg.fit(mg.Logistic(), logistic(40_000, p=40, scale=0.3))) == []


@pytest.mark.long
def test_the_bias_is_that_of_simulations(monkeypatch, seed):
    """300 replications; 4.5 Monte-Carlo standard errors, and a third for the next order."""
    rng, beta = np.random.default_rng([seed, 5]), np.array([1.0, -0.5])
    estimates, predicted = [], []
    from masgrad.fitting.uncertainty import diagnostics

    def spy(objective, local, pilot, bias=diagnostics.bias):
        predicted.append(objective.coordinates.matrix @ bias(objective, local, pilot))
        return

    monkeypatch.setattr(diagnostics, "bias", spy)
    for _ in range(300):
        X = rng.normal(size=(80, 2))
        y = rng.random(80) < 1 / (1 + np.exp(-X @ beta))
        estimates.append(mg.fit(mg.Logistic(), (X, y.astype(float))).params)
    error = np.std(estimates, 0) / np.sqrt(300)
    away = np.mean(estimates, 0) - beta
    wanted = np.mean(predicted, 0)
    assert (np.abs(wanted) > 2 * error).any()
    assert (np.abs(away - wanted) < 4.5 * error + np.abs(wanted) / 3).all()


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
def test_a_step_that_is_too_long_is_said(monkeypatch):
    monkeypatch.setattr("masgrad.fitting.optimise.first_read.LARGEST_MASGRAD_SHARE", {True: 1.0})
    X, y = logistic(80_000)
    assert troubles(mg.fit(mg.Logistic(), (X, y), step_size=5.0)) == ["step"]


def test_chains_say_how_they_mixed():
    X, y = logistic(40_000)
    r = mg.fit(mg.Logistic(), (X, y), method="chains")
    assert [d.name for d in r.diagnostics][-3:] == ["split-Rhat", "effective size", "burn-in"]
    assert troubles(r) == []


def test_diagnostics_are_saved(tmp_path):
    X, y = logistic(500)
    r = mg.fit(mg.Logistic(), (X, y))
    r.save(tmp_path / "r.json")
    assert mg.load(tmp_path / "r.json").diagnostics == r.diagnostics


# Mixing, on chains whose answers are known.


def autoregression(rho, chains, steps, rng):
    x = np.empty((chains, steps))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, steps):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=chains)
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_the_effective_size_is_that_of_an_autoregression(rho, rng):
    x = autoregression(rho, 20, 4000, rng)
    wanted = x.size * (1 - rho) / (1 + rho)
    assert effective_size(x) == pytest.approx(wanted, rel=0.15)
    assert split_rhat(x) == pytest.approx(1, abs=0.01)


def test_chains_apart_have_a_large_rhat_and_few_draws(rng):
    x = rng.normal(size=(4, 500)) + np.arange(4)[:, None]
    assert split_rhat(x) > 1.3
    assert effective_size(x) < 40
    drifting = rng.normal(size=(4, 500)) + np.linspace(0, 3, 500)
    assert split_rhat(drifting) > 1.2


def test_burn_in_ends_where_the_spread_has_settled(rng):
    t = np.arange(400)
    growing = rng.normal(size=(40, 400)) * np.sqrt(1 - np.exp(-t / 40))
    assert 5 <= burn_in(growing) <= 80
    assert burn_in(rng.normal(size=(40, 400))) <= 2


def test_warnings_are_still_given():
    X, y = logistic(500)
    X[:, 2] = 10 * (y - 0.5)
    with pytest.warns(MasgradWarning, match="separated"):
        mg.fit(mg.Logistic(), (X, y))


def test_an_order_that_was_not_examined_is_not_called_sound():
    frame, rng = two_columns(500)
    frame["y"] = np.sort(rng.normal(size=500))
    assert "?     order of rows: not examined" in str(mg.glm("y ~ a", frame).diagnostics)


def level_with_one_row(rows):
    """Two common levels and one whose only row is 7."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"x": rng.normal(size=rows), "g": rng.choice(["a", "b"], rows)})
    frame["y"], frame["n"] = rng.normal(size=rows), rng.poisson(np.exp(frame.x / 2))
    frame.loc[7, ["g", "n"]] = "alone", 4
    return frame


@pytest.mark.parametrize("rows", [500, 50_000])
@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ x + g", "gaussian"), ("n ~ x + g", "poisson")]
)
def test_robust_errors_without_residuals_are_said(rows, formula, family):
    frame = level_with_one_row(rows)
    for cov_type in ("robust", "HC1"):
        r = mg.glm(formula, frame, family=family, cov_type=cov_type)
        said = " ".join(r.summary().split())
        assert "standard errors are too small for g[T.alone]: only rows that are fitted" in said
        assert troubles(r) == []  # a bias of 1e87 standard errors, of which there are none
    assert not any(
        "too small" in note
        for r in (
            mg.glm(formula, frame, family=family, cov_type="nonrobust"),
            mg.glm(formula, frame.drop(index=7), family=family),
        )
        for note in r.notes
    )


def outlying(result):
    return {d.name: d for d in result.diagnostics}["outlying blocks"]


def test_a_few_rows_of_a_rare_level_are_no_outlying_block(rng):
    """100 blocks of 4,096 rows, of which five hold a row of the level."""
    N = 409_600
    frame = pd.DataFrame({"x": rng.normal(size=N), "g": rng.choice(["a", "b"], N)})
    frame.loc[[40_000, 90_000, 170_000, 250_000, 390_000], "g"] = "rare"
    frame["y"] = rng.normal(size=N)
    assert outlying(mg.glm("y ~ x + g", frame)).ok


def test_an_outlying_block_is_found_beside_rare_levels(rng):
    """Also beside a level with a single row, whose gradients are rounding errors."""
    N = 102_400
    frame = pd.DataFrame({"x": rng.normal(size=N), "g": rng.choice(["a", "b"], N)})
    frame.loc[[500, 90_000], "g"] = "rare"
    frame.loc[60_000, "g"] = "alone"
    frame["y"] = rng.normal(size=N) + frame.index.isin(range(40_960, 42_960))
    assert outlying(mg.glm("y ~ x + g", frame)).ok is False


def test_powers_of_a_year_are_to_be_centred(rng):
    """The advice is a formula that is accepted, and fits the same curve."""
    frame = pd.DataFrame({"year": rng.integers(1950, 2020, 3000).astype(float)})
    frame["y"] = rng.normal(size=3000)
    raw = mg.glm("y ~ year + I(year**2) + I(year**3)", frame)
    said = {d.name: d.sentence for d in raw.diagnostics}["condition"]
    assert "center(year) + I(center(year)**2) fits the same curve" in said
    centred = mg.glm("y ~ center(year) + I(center(year)**2) + I(center(year)**3)", frame)
    assert troubles(centred) == [] and raw.fit_info.condition > 1e8 > centred.fit_info.condition
    np.testing.assert_allclose(raw.predict(frame), centred.predict(frame), atol=1e-7)


@pytest.mark.filterwarnings("ignore::masgrad.errors.SeparationWarning")
@pytest.mark.parametrize("rows", [3000, 40_000])
def test_the_condition_number_is_that_of_the_given_columns(rows, rng):
    """It was that of orthonormal coordinates if a level was separated."""
    frame = pd.DataFrame({"year": rng.integers(1950, 2020, rows).astype(float)})
    frame["g"], powers = rng.choice(["a", "b", "c"], rows), "year + I(year**2) + I(year**3)"
    frame["y"] = np.where(frame.g == "c", 0, rng.random(rows) < 0.4).astype(float)
    separated = mg.glm(f"y ~ {powers} + g", frame, family="binomial")
    others = mg.glm(f"y ~ {powers} + g", frame[frame.g != "c"], family="binomial")
    assert separated.status is mg.Status.SEPARATED
    assert separated.fit_info.condition == pytest.approx(others.fit_info.condition, rel=0.05)
    assert f"{separated.fit_info.condition:.3g}" in separated.summary()


def test_an_order_beyond_that_of_clusters_asks_for_what_clusters_share(rng):
    """Persons of four years, sorted by region, which shifts all of a region's responses."""
    person = np.repeat(np.arange(10_000), 4)
    region = np.repeat(rng.normal(size=20), 2000)
    X = np.column_stack([np.ones(40_000), rng.normal(size=40_000)])
    y = X @ [1.0, 0.5] + rng.normal(size=10_000)[person] + region + rng.normal(size=40_000)
    r = mg.fit(mg.Linear(), (X, y), clusters=person)
    said = next(d for d in r.diagnostics if d.name == "order of rows")
    assert not said.ok and "more than clusters or lags explain" in said.sentence
    alone = mg.fit(mg.Linear(), (X, y - region), clusters=person)
    assert next(d for d in alone.diagnostics if d.name == "order of rows").ok

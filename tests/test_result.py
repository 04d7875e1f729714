"""What a fit returns: names, tables, tests, storage, updates, chains."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats
from scipy.linalg import toeplitz

import masgrad as mg
from conftest import alpha
from masgrad.data.source import Arrays
from masgrad.errors import AccuracyWarning, InputError, InputTypeError, PerfectFitWarning
from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.optimise.masgrad import adjustment
from masgrad.fitting.sources import Sample
from masgrad.fitting.uncertainty.chains import (
    EXTRA_VARIANCE,
    ChainPlan,
    hessian_noise,
    rows_permuted,
    run_chains,
    weighted_gradients,
)
from masgrad.progress import Progress
from scenarios import regression, two_columns


@pytest.fixture
def fitted(rng):
    X, y = regression(rng, "bernoulli", N=800, misspecified=True)
    return (X, y), mg.fit(mg.Logistic(), (X, y))


def test_wald_tests_are_those_of_statsmodels(fitted):
    (X, y), r = fitted
    done = sm.GLM(y, X, family=sm.families.Binomial()).fit(tol=1e-14, cov_type="HC0")
    R, q = np.array([[1.0, -1, 0, 0], [0, 0, 1, 2]]), [0.1, 0.2]
    ours, theirs = r.wald_test(R, q), done.wald_test((R, q), use_f=False, scalar=True)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-6)
    assert ours.pvalue == pytest.approx(theirs.pvalue, rel=1e-6) and ours.df == 2
    one = r.wald_test([0, 0, 0, 1.0])
    assert one.pvalue == pytest.approx(r.pvalues[3])
    for bad, words in ((np.eye(3), "shape"), (np.ones((2, 4)), "dependent")):
        with pytest.raises(InputError, match=words):
            r.wald_test(bad)
    with pytest.raises(InputError, match="one value a row"):
        r.wald_test(np.eye(4), [1.0])


def test_conf_int_wants_a_probability(fitted):
    for wrong in (0, 1, -0.1, 5, "a", np.nan):
        with pytest.raises((InputError, InputTypeError), match="alpha"):
            fitted[1].conf_int(wrong)


def test_names_come_back_as_pandas(rng):
    table = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    table["y"] = table.a + rng.normal(size=300)
    r = mg.glm("y ~ a + b + a:b", table)
    assert list(r.params.index) == ["Intercept", "a", "b", "a:b"]
    assert r.conf_int().shape == (4, 2) and r.cov_params().loc["a", "b"] == r.cov[1, 2]
    X = np.column_stack([np.ones(300), table.a, table.b, table.a * table.b])
    plain = mg.fit(mg.Linear(), (X, table.y))
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-12)
    framed = mg.fit(mg.Linear(), (table[["a", "b"]], table["y"]))
    assert list(framed.bse.index) == ["a", "b"]
    np.testing.assert_allclose(r.predict(table), X @ plain.params, rtol=1e-12)


def test_the_summary_has_every_number(fitted):
    _, r = fitted
    text = r.summary()
    for words in ("No. rows", "800", "robust", "theta*", "Reads", "Rows per second", "correction"):
        assert words in text
    rows = [line for line in text.splitlines() if line.startswith("theta[")]
    for row, t, s in zip(rows, r.theta, r.bse, strict=True):
        assert f"{t:.4f}" in row and f"{s:.4f}" in row
    assert max(map(len, text.splitlines())) <= 80


def test_a_result_survives_its_process(fitted, tmp_path):
    (X, _), r = fitted
    path = tmp_path / "result"
    r.save(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["result"]
    again = mg.load(path)
    for name in ("theta", "cov", "nobs", "names", "fit_info", "df", "notes", "cov_type", "status"):
        np.testing.assert_array_equal(getattr(again, name), getattr(r, name))
    np.testing.assert_array_equal(again.predict(X), r.predict(X))
    code = f"import masgrad as mg; print(mg.load({str(path)!r}).summary())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip("\n") == r.summary()
    new = regression(np.random.default_rng(8), "bernoulli", N=300)
    np.testing.assert_array_equal(again.update(new).theta, r.update(new).theta)


def test_the_family_is_called_binomial_and_saved_as_before(fitted, tmp_path):
    _, r = fitted
    r.save(tmp_path / "r.json")
    saved = json.loads((tmp_path / "r.json").read_text())["result"]
    assert r.kind == mg.load(tmp_path / "r.json").kind == "binomial regression (logit link)"
    assert saved["model"]["family"] == r.model.family.name == "bernoulli"


def test_a_result_holds_no_rows(rng, tmp_path):
    sizes = []
    for N in (500, 50_000):
        X, y = regression(rng, N=N)
        mg.fit(mg.Linear(), (X, y)).save(tmp_path / "r.json")
        sizes.append((tmp_path / "r.json").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 1000


def test_a_damaged_file_is_refused(fitted, tmp_path):
    path = tmp_path / "r.json"
    fitted[1].save(path)
    saved = json.loads(path.read_text())
    for change, words in (
        ({"result": {**saved["result"], "nobs": 801}}, "checksum"),
        ({"format": "masgrad result 9"}, "format"),
    ):
        path.write_text(json.dumps({**saved, **change}))
        with pytest.raises(InputError, match=words):
            mg.load(path)
    path.write_text("{")
    with pytest.raises(InputError, match="not a saved result"):
        mg.load(path)
    with pytest.raises(FileNotFoundError):
        mg.load(tmp_path / "none.json")


def test_a_failed_save_leaves_the_old_file(fitted, tmp_path, monkeypatch):
    path = tmp_path / "r.json"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        fitted[1].save(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "poisson"])
def test_updates_give_the_estimate_of_all_rows(rng, family):
    X, y = regression(rng, family, N=6000)
    whole = mg.fit(mg.GLM(family), (X, y))
    r = mg.fit(mg.GLM(family), (X[:2000], y[:2000]))
    for start in range(2000, 6000, 1000):
        block = X[start : start + 1000], y[start : start + 1000]
        r = r.update(iter([block]) if start == 3000 else block)
    assert r.nobs == 6000
    assert np.abs((r.theta - whole.theta) / whole.bse).max() < (
        1e-9 if family == "gaussian" else 0.02
    )
    np.testing.assert_allclose(r.bse, whole.bse, rtol=0.02)


def test_update_with_a_formula_and_its_limits(rng, tmp_path):
    table = pd.read_parquet(RANDHIE)
    table = table.sample(frac=1, random_state=1)
    table[:12_000].to_parquet(tmp_path / "a.parquet")
    table[12_000:].to_csv(tmp_path / "b.csv", index=False)
    r = mg.glm(RANDHIE_FORMULA, tmp_path / "a.parquet", "poisson").update(tmp_path / "b.csv")
    whole = mg.glm(RANDHIE_FORMULA, table, "poisson")
    assert np.abs((r.theta - whole.theta) / whole.bse).max() < 0.05
    with pytest.raises(InputError, match="HC3"):
        r.update(table, cov_type="HC3")
    with pytest.raises(InputError, match="HC3 and chains"):
        r.update(table, method="chains")


def test_predictions_are_means(rng):
    X, y = regression(rng, "poisson")
    r = mg.fit(mg.Poisson(), (X, y))
    np.testing.assert_allclose(r.predict(X), np.exp(X @ r.params))
    with pytest.raises(InputError, match=r"\(N, 4\)"):
        r.predict(X[:, :3])
    with pytest.raises(InputTypeError, match="X alone"):
        r.predict((X, y))


# Chains.


def test_weighted_gradients_are_sums_over_repeated_rows(rng):
    X, y = regression(rng, "bernoulli", N=30)
    P = Objective(mg.Logistic(), identity(4))
    W, phi = rng.poisson(1.0, (30, 3)).astype(float), rng.normal(size=(4, 3))
    got = weighted_gradients(P, phi, (X, y), W)
    for k in range(3):
        drawn = np.repeat(np.arange(30), W[:, k].astype(int))
        expected = mg.Logistic().gradients(phi[:, k], (X[drawn], y[drawn])).sum(0)
        np.testing.assert_allclose(got[:, k], expected, rtol=1e-9)


def signs(sigma):
    """All signs of two columns, with residuals sigma and -sigma for each: H = I, M = sigma^2."""
    X = np.array(list(itertools.product([-1.0, 1.0], repeat=2)) * 2)
    return X, X @ [1.0, 2.0] + sigma * np.repeat([-1.0, 1.0], 4)


def objective_at(model, rows, at):
    objective = Objective(model, identity(len(at)))
    return objective, objective.local_model(np.asarray(at), rows)


def test_what_is_left_of_a_chains_way(rng):
    """An average of T steps and (eta V^-1 H T)^-1 times the way from start to end."""
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    objective, local = objective_at(mg.Linear(), (X, y), np.linalg.lstsq(X, y)[0])
    A = 1e-3 * np.array([[1.0, 0.3], [0.3, 2.0]])  # eta V^-1 / n
    reader = Reader(Arrays((X, y)), 1, Monitor(Progress(None, False)))
    plan = ChainPlan(A, batch=40, chains=5)
    means, steps, draws = run_chains(objective, reader, local, plan, rng)
    start = np.repeat(local.point[:, None], 5, 1)
    average = (start + draws[:-1].sum(0)) / steps
    left = np.linalg.solve(A @ local.hessian, draws[-1] - start)
    assert steps == 10
    np.testing.assert_allclose(means, average + left)


@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_the_noise_of_a_batchs_hessian_by_hand(sigma):
    """V^-1 H = I / sigma, S = sigma I / 2, h S h = sigma x x', and M^-1 = I / sigma^2."""
    X, y = signs(sigma)
    loss = mg.CustomLoss(lambda t, z: (z[1] - z[0] @ t) ** 2 / 2, 2)
    for model in (mg.Linear(), loss):
        objective, local = objective_at(model, (X, y), [1.0, 2.0])
        A, gamma = adjustment(local)
        assert gamma == pytest.approx(1 / sigma)
        assert hessian_noise(objective, Sample((X, y), True), local, A) == pytest.approx(
            3 / sigma, rel=1e-6
        )


@pytest.mark.statistical(2)
def test_chains_agree_with_the_sandwich(seed):
    """On mis-specified rows, where the non-robust errors are another 20 % off."""
    rng = np.random.default_rng([seed, 77])
    X = rng.normal(size=(40_000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=40_000) * (0.5 + np.abs(X[:, 0]))
    r = mg.fit(mg.Linear(), (X, y), seed=seed)
    c = mg.fit(mg.Linear(), (X, y), method="chains", chains=200, seed=seed)
    assert c.df == 199 and "agree" in c.notes[0]
    np.testing.assert_array_equal(c.theta, r.theta)
    for j in (0, 1):
        ratio = 199 * c.cov[j, j] / r.cov[j, j]
        p = 2 * min(stats.chi2.cdf(ratio, 199), stats.chi2.sf(ratio / (1 + EXTRA_VARIANCE), 199))
        assert p > alpha()
    plain = mg.fit(mg.Linear(), (X, y), cov_type="nonrobust")
    assert plain.bse[0] < 0.8 * r.bse[0]


def small_batches(kind, rng):
    """Rows of which a batch of chains holds 20 for each parameter."""
    if kind == "logistic":
        X = rng.normal(size=(1000, 3))
        return mg.Logistic(), X, rng.random(1000) < 1 / (1 + np.exp(-X @ [-0.5, 0.0, 0.5]))
    X = rng.normal(size=(2000, 4))
    if kind == "poisson":
        return mg.Poisson(), X, rng.poisson(np.exp(X @ [0.5, 0.0, 0.0, -0.5]))
    if kind == "correlated":
        X = X @ np.linalg.cholesky(toeplitz(0.9 ** np.arange(4))).T
        return mg.Linear(), X, X.sum(1) + rng.normal(size=2000) * (0.5 + np.abs(X[:, 0]))
    X = np.column_stack([np.ones(2000), X[:, 0], rng.random(2000) < 0.02])
    return mg.Linear(), X, rng.normal(size=2000)


@pytest.mark.statistical(1)
@pytest.mark.parametrize("kind", ["logistic", "poisson", "correlated", "rare column"])
def test_small_batches_add_little_noise(kind, seed):
    """Wishart: the trace of C^-1 times the spread of K chains is chi-squared, p (K - 1).

    3 % of a standard error are allowed above it; with steps of 1/gamma it was 5 % to many times.
    """
    total, df = 0.0, 0
    for i in range(5):
        model, X, y = small_batches(kind, np.random.default_rng([seed, 78, i]))
        rows = X, y.astype(float)
        C = mg.fit(model, rows).cov
        c = mg.fit(model, rows, method="chains", chains=400, seed=9 * seed + i)
        assert c.cov_type == "chains"
        total, df = total + 399 * np.trace(np.linalg.solve(C, c.cov)), df + 399 * len(C)
    p = 2 * min(stats.chi2.cdf(total, df), stats.chi2.sf(total / 1.03**2, df))
    assert p > alpha()


def test_chains_mix_the_rows_of_a_block(rng):
    """Batches of rows that were sorted by a covariate would each have a Hessian of their own."""
    X = np.arange(1000.0)[:, None]
    ((Z, y),) = rows_permuted([(X, 2 * X[:, 0])], rng)
    np.testing.assert_array_equal(np.sort(Z[:, 0]), X[:, 0])
    np.testing.assert_array_equal(y, 2 * Z[:, 0])
    assert abs(stats.spearmanr(np.arange(1000), y).statistic) < 0.2  # 6 standard errors


def test_chains_need_gradients():
    X, y = signs(0.0)
    with pytest.warns(PerfectFitWarning):
        r = mg.fit(mg.Linear(), (np.tile(X, (50, 1)), np.tile(y, 50)), method="chains")
    assert r.df is None and "no row has a gradient" in r.summary()


def test_few_chains_take_students_quantile(fitted):
    (X, y), _ = fitted
    c = mg.fit(mg.Logistic(), (X, y), method="chains", chains=5)
    half = np.diff(c.conf_int())[:, 0] / 2
    np.testing.assert_allclose(half, stats.t(4).ppf(0.975) * c.bse)
    assert " t " in c.summary()
    with pytest.raises(InputError, match="fewer chains"):
        mg.fit(mg.Logistic(), (X, y), method="chains", chains=4).wald_test(np.eye(4))


def test_chains_on_any_loss(rng):
    import jax.numpy as jnp

    X, y = regression(rng, "bernoulli", N=2000)
    loss = mg.CustomLoss(lambda t, z: jnp.logaddexp(0.0, z[0] @ t) - z[1] * (z[0] @ t), 4)
    custom = mg.fit(loss, (X, y), method="chains", chains=10)
    glm = mg.fit(mg.Logistic(), (X, y))
    # Ten chains tell a standard error to 24 %, and four of them are looked at.
    assert 0.4 < np.median(custom.bse / glm.bse) < 2.0


def test_standard_errors_after_an_update_are_those_of_all_rows():
    """M and H of the old rows are carried to the new estimate: 0.7 % off if they are not."""
    off = []
    for seed in range(5):
        X, y = regression(np.random.default_rng(seed), "bernoulli", N=10_000)
        r = mg.fit(mg.Logistic(), (X[:5000], y[:5000])).update((X[5000:], y[5000:]))
        off.append(np.abs(r.bse / mg.fit(mg.Logistic(), (X, y)).bse - 1).max())
    assert np.median(off) < 2e-3


def test_an_update_says_that_hc3_was_given_up():
    frame, rng = two_columns(100)
    frame["y"] = rng.normal(size=100)
    r = mg.glm("y ~ a", frame, cov_type="HC3").update(frame)
    assert "HC3 needs the old rows" in r.summary()


def test_an_update_says_that_the_penalty_was_given_up():
    frame, rng = two_columns(100)
    frame["y"] = rng.normal(size=100)
    r = mg.glm("y ~ a", frame, penalty=mg.L2(0.1)).update(frame)
    assert r.penalized_params is None and "The penalty was not updated" in r.summary()
    assert "penalty" not in mg.glm("y ~ a", frame).update(frame).summary()


def test_updates_of_a_rare_level_say_what_they_miss():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=40_000)})
    frame["g"] = np.where(rng.random(40_000) < 0.001, "s", "p")
    frame["y"] = rng.poisson(np.exp(-1.5 + 0.2 * frame["a"]))
    with pytest.warns(AccuracyWarning) as seen:
        r = mg.glm("y ~ a + g", frame[:10_000], "poisson").update(frame[10_000:])
    assert any("fit them together" in str(warning.message) for warning in seen)
    whole = mg.glm("y ~ a + g", frame, "poisson")
    assert np.abs((r.params - whole.params) / whole.bse).max() <= r.fit_info.remainder


def test_a_result_that_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nope\.json: no such file"):
        mg.load(tmp_path / "nope.json")
    with pytest.raises(InputError, match="is a folder; the file of a saved result is needed"):
        mg.load(tmp_path)

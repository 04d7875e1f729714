"""`CustomLoss` at the door: parameters as a pytree or by name, weights, tables, predictions, L2."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import statsmodels.api as sm
from jax.flatten_util import ravel_pytree
from sklearn.linear_model import Ridge

import masgrad as mg
from masgrad.errors import InputError, InputTypeError, MissingWarning
from masgrad.models.custom.columns import columns_asked

N = 600
START = {"slopes": [{"w": np.zeros(2)}, 0.0], "level": np.zeros((1, 3))}
NAMES = ["level[0,0]", "level[0,1]", "level[0,2]", "slopes.0.w[0]", "slopes.0.w[1]", "slopes.1"]


def line(p, z):
    """A regression on a category, two columns and a third, with its parameters in a nested tree."""
    w = p["slopes"][0]["w"]
    level = p["level"][0, jnp.asarray(z["k"], int)]
    return level + w[0] * z["a"] + w[1] * z["b"] + p["slopes"][1] * z["c"]


def square(p, z):
    return 0.5 * (z["y"] - line(p, z)) ** 2


LOSS = mg.CustomLoss(square, params=START, predict=line)


def make_table(rng, rows=N):
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc"))
    table["k"] = rng.integers(0, 3, rows)
    table["y"] = table.k + table.a - 0.5 * table.c + rng.normal(size=rows) * (1 + table.b**2)
    table["w"] = rng.integers(0, 4, rows)
    table["text"] = rng.choice(["u", "v"], rows)
    table["holes"] = np.where(rng.random(rows) < 0.5, np.nan, 1.0)
    return table


def design(table):
    return np.column_stack([table.k == 0, table.k == 1, table.k == 2, table.a, table.b, table.c])


@pytest.fixture(scope="module")
def table():
    return make_table(np.random.default_rng(5))


@pytest.fixture(scope="module")
def fitted(table):
    return mg.fit(LOSS, table)


# Parameters.


def test_a_pytree_of_parameters_is_the_regression_it_writes_down(fitted, table):
    known = sm.OLS(table.y, design(table).astype(float)).fit(cov_type="HC0")
    np.testing.assert_allclose(fitted.params, known.params, rtol=1e-9)
    np.testing.assert_allclose(fitted.bse, known.bse, rtol=1e-9)
    assert list(fitted.params.index) == list(fitted.names) == NAMES
    assert all(name in fitted.summary() for name in NAMES)


def test_parameters_are_in_the_order_of_jax(fitted):
    vector, tree = ravel_pytree(START)
    np.testing.assert_array_equal(vector, LOSS.initial_theta(None))
    theta = np.arange(6.0)
    same = jax.tree.map(np.array_equal, tree(jnp.asarray(theta)), LOSS.tree(theta))
    assert all(jax.tree.leaves(same))
    np.testing.assert_array_equal(LOSS.vector(LOSS.tree(theta)), theta)


def test_blocks_have_their_shape_and_the_rest_is_a_series(fitted, tmp_path):
    fitted.save(tmp_path / "r.json")
    for r in (fitted, mg.load(tmp_path / "r.json")):  # without the loss, too
        for values in (r.params, r.bse, r.zvalues, r.pvalues):
            plain = np.asarray(values)
            assert isinstance(values, pd.Series) and plain.shape == (6,)
            np.testing.assert_array_equal(values["level"], plain[:3].reshape(1, 3))
            np.testing.assert_array_equal(values["slopes.0.w"], plain[3:5])
            assert values["slopes.1"] == plain[5] and values["level[0,1]"] == plain[1]
            assert list((2 * values).index) == NAMES and (values[1:3] == plain[1:3]).all()
    with pytest.raises(KeyError, match="no parameter 'levels'; did you mean 'level'"):
        fitted.params["levels"]
    found = fitted.contrast("level[0,1] - level[0,0], slopes.1 = -0.5")
    theta = fitted.theta
    np.testing.assert_allclose(found.estimate, [theta[1] - theta[0], theta[5]], rtol=1e-12)


def test_parameters_are_given_as_a_pytree_wherever_a_vector_is(fitted, table):
    theta = fitted.theta
    tree = LOSS.tree(theta)
    assert LOSS.risk(tree, table) == LOSS.risk(theta, table) == LOSS.risk(fitted.params, table)
    np.testing.assert_array_equal(LOSS.gradients(tree, table), LOSS.gradients(theta, table))
    a, b = (mg.moments(LOSS, point, table).cov for point in (tree, theta))
    np.testing.assert_array_equal(a, b)
    runs = [
        mg.run(mg.masgrad(0.1), LOSS, table, point, steps=3, batch_size=20, chains=2).theta
        for point in (tree, theta, np.stack([theta, theta]))
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
    np.testing.assert_allclose(mg.fit(LOSS, table, start=tree).theta, theta, atol=1e-12)


def test_a_fit_begins_at_params(rng):
    """At 0 the gradient of a product vanishes; the two signs of (a, b) are two optima."""
    x = rng.normal(size=400)
    rows = {"x": x, "y": 3 * x + 0.1 * rng.normal(size=400)}
    ends = []
    for sign in (1.0, -1.0):
        p = {"a": sign, "b": 2 * sign}
        loss = mg.CustomLoss(
            lambda p, z: (z["y"] - p["a"] * p["b"] * z["x"]) ** 2 + (p["b"] - 2 * p["a"]) ** 2,
            params=p,
        )
        ends.append(mg.fit(loss, rows).theta)
    np.testing.assert_allclose(ends[0], -ends[1], rtol=1e-6)
    np.testing.assert_allclose(ends[0][1], 2 * ends[0][0], rtol=1e-6)
    assert ends[0][0] > 1 and np.isclose(ends[0].prod(), x @ rows["y"] / (x @ x))


def test_names_of_a_vector(rng, tmp_path):
    z = rng.normal([1.0, 2.0], size=(200, 2))
    loss = mg.CustomLoss(lambda t, z: 0.5 * jnp.sum((t - z) ** 2), 2, names=["first", "second"])
    r = mg.fit(loss, z)
    assert r.params.to_dict() == pytest.approx(dict(zip(loss.names, z.mean(0), strict=True)))
    assert "second" in r.summary() and type(r.params) is pd.Series
    stream = mg.Stream(lambda: iter([z[:90], z[90:]]))
    assert list(mg.fit(loss, stream).params.index) == ["first", "second"]
    assert r.update(z).names == r.names
    r.save(tmp_path / "r.json")
    assert mg.load(tmp_path / "r.json", loss).wald_test("first = 1, second = 2").pvalue > 1e-6
    other = mg.CustomLoss(loss.fn, 2, names=["second", "first"])
    with pytest.raises(InputError, match=r"parameter 0 .*'first', and that of the model 'second'"):
        mg.load(tmp_path / "r.json", other)
    with pytest.raises(InputError, match="2 parameters, and the model 3"):
        mg.load(tmp_path / "r.json", mg.CustomLoss(loss.fn, 3))


def test_records_with_a_pytree_compare_and_travel():
    loss = mg.CustomLoss(np.dot, params={"a": [np.zeros(2), 1.0]})
    for other in (pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)):
        assert other == loss and hash(other) == hash(loss)
    assert loss != mg.CustomLoss(np.dot, params={"a": [np.zeros(3), 1.0]})


# Weights.


@pytest.mark.parametrize(
    "change, words",
    [
        ({"start": "x"}, "theta='x'; 2 numbers are needed"),
        ({"start": {"a": 1}}, "2 numbers are needed"),
        ({"start": [0.0, -1.0]}, r"not finite at the start \[ 0. -1.\]; give start="),
        ({"loss": lambda t, z: (z.y - t[0]) ** 2 + t[1]}, r"the form z\['y'\]"),
    ],
)
def test_mistakes_with_starts_and_columns(change, words):
    given = {"loss": lambda t, z: (z["y"] - t[0]) ** 2 / t[1] + jnp.log(t[1]), "start": None}
    given |= change
    with pytest.raises((InputError, InputTypeError), match=words):
        mg.fit(mg.CustomLoss(given["loss"], 2), {"y": np.arange(9.0)}, start=given["start"])


def test_entries_that_are_not_there_are_refused():
    """JAX would take the last entry: levels merge, and a coefficient serves two columns."""
    rng = np.random.default_rng(0)
    site = rng.integers(0, 4, 30_000)
    rows = {"site": site, "y": site + rng.normal(size=30_000)}

    def loss(p, z):
        return 0.5 * (z["y"] - p["level"][z["site"]]) ** 2

    with pytest.raises(InputError, match=r"index 3 is out of bounds .* size 3"):
        mg.fit(mg.CustomLoss(loss, params={"level": np.zeros(3)}), rows)
    r = mg.fit(mg.CustomLoss(loss, params={"level": np.zeros(4)}), rows)
    means = [rows["y"][site == k].mean() for k in range(4)]
    np.testing.assert_allclose(r.params, means, rtol=1e-8)
    late = rows | {"site": np.where(np.arange(30_000) == 29_999, 4, site)}
    with pytest.raises(InputError, match="index 4"):
        mg.fit(mg.CustomLoss(loss, params={"level": np.zeros(4)}), late)
    with pytest.raises(InputError, match="the custom loss asks for an entry that is not there"):
        mg.fit(mg.CustomLoss(lambda t, z: (z["y"] - t[0] - t[1] * z["site"]) ** 2, 1), rows)


@pytest.mark.parametrize("form", ["name", "array", "series", "dictionary", "formula"])
def test_weights_are_frequencies(table, form):
    repeated = mg.fit(LOSS, table.loc[table.index.repeat(table.w)])
    if form == "formula":
        loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, 6)
        r = mg.fit(loss, table, formula="y ~ C(k) + a + b + c - 1", weights="w")
    elif form == "dictionary":
        r = mg.fit(LOSS, {k: table[k].to_numpy() for k in "abckyw"}, weights="w")
    else:
        given = {"name": "w", "array": table.w.to_numpy(), "series": table.w}
        r = mg.fit(LOSS, table, weights=given[form])
    np.testing.assert_allclose(r.theta, repeated.theta, rtol=1e-10)
    np.testing.assert_allclose(r.bse, repeated.bse, rtol=1e-10)
    assert r.nobs == (table.w > 0).sum() and r.local_model.count == table.w.sum()


def test_weights_are_those_of_statsmodels(rng):
    X, w = rng.normal(size=(500, 3)), rng.integers(1, 5, 500)
    y = rng.poisson(np.exp(X @ [0.2, 0.4, -0.3]))
    loss = mg.CustomLoss(lambda t, z: jnp.exp(z[0] @ t) - z[1] * (z[0] @ t), 3)
    known = sm.GLM(y, X, sm.families.Poisson(), freq_weights=w).fit(tol=1e-12)
    r = mg.fit(loss, (X, y), weights=w)
    np.testing.assert_allclose(r.params, known.params, rtol=1e-8)
    np.testing.assert_allclose(  # the inverse information
        np.linalg.inv(mg.moments(loss, r.theta, (X.repeat(w, 0), y.repeat(w))).hessian * w.sum()),
        known.cov_params(),
        rtol=1e-7,
    )
    plain = mg.fit(mg.Poisson(), (X, y), weights=w)
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-8)


def test_weights_in_every_kind_of_read(tmp_path):
    table = make_table(np.random.default_rng(2), 40_000)
    exact = mg.fit(LOSS, table, weights="w", passes="converge")
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=7000)
    frames = [table[i : i + 9000] for i in range(0, 40_000, 9000)]
    reads = {
        "two reads": mg.fit(LOSS, table, weights="w"),
        "single": mg.fit(LOSS, table, weights="w", passes=1),
        "stream": mg.fit(LOSS, mg.Stream(lambda: iter(frames)), weights="w"),
        "iterator": mg.fit(LOSS, iter(frames), weights="w"),
        "file": mg.fit(LOSS, tmp_path / "rows.parquet", weights="w"),
        "update": mg.fit(LOSS, table[:20_000], weights="w").update(table[20_000:], weights="w"),
    }
    for how, r in reads.items():
        assert r.nobs == exact.nobs and r.names == exact.names, how
        assert np.abs((r.theta - exact.theta) / exact.bse).max() < 0.01, how
        np.testing.assert_allclose(r.bse, exact.bse, rtol=0.01, err_msg=how)


# Tables.


@pytest.mark.parametrize("form", ["polars", "arrow", "parquet", "csv", "dataset", "iterator"])
def test_tables_of_every_kind_give_the_same(fitted, table, tmp_path, form):
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=250)
    table.to_csv(tmp_path / "rows.csv", index=False)
    data = {
        "polars": lambda: pl.from_pandas(table),
        "arrow": lambda: pa.Table.from_pandas(table),
        "parquet": lambda: str(tmp_path / "rows.parquet"),
        "csv": lambda: tmp_path / "rows.csv",
        "dataset": lambda: ds.dataset(tmp_path / "rows.parquet"),
        "iterator": lambda: iter([table[:200], table[200:]]),
    }[form]
    r = mg.fit(LOSS, data())
    np.testing.assert_allclose(r.theta, fitted.theta, rtol=1e-12)
    np.testing.assert_allclose(r.bse, fitted.bse, rtol=1e-12)
    if form != "iterator":
        np.testing.assert_allclose(r.predict(data()), fitted.predict(table), rtol=1e-12)


def test_only_the_columns_that_are_asked_for_are_read():
    names = ["a", "b", "y"]
    asked = lambda fn: columns_asked(fn, 2, names)  # noqa: E731
    assert asked(lambda t, z: z["y"] - t[0] * z["a"]) == ["y", "a"]
    assert asked(lambda t, z: t[z["a"]] + z.get("x", 0.0)) == ["a"]
    assert asked(lambda t, z: sum(z.values())) == names
    assert asked(lambda t, z: z["a"] + z["nothing"]) == ["nothing"]
    assert asked(lambda t, z: sum(jax.tree.leaves(z))) is None  # which knows no such row
    assert asked(lambda t, z: t[0]) is None


def test_a_loss_may_take_the_whole_row(rng):
    table = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"]).assign(text="u")
    loss = mg.CustomLoss(lambda t, z: sum((t[0] - x) ** 2 for x in jax.tree.leaves(z)), 1)
    np.testing.assert_allclose(mg.fit(loss, table).params, table[["a", "b"]].to_numpy().mean())


def test_columns_and_rows_that_are_missing(table, tmp_path):
    with pytest.raises(InputError, match="the data frame has no column 'c'; it has a, b, k"):
        mg.fit(LOSS, table.drop(columns="c"))
    with pytest.raises(InputTypeError, match="column 'k' is not numeric"):
        mg.fit(LOSS, table.assign(k=table.text))
    holed = table.assign(a=np.where(np.arange(N) == 77, np.nan, table.a))
    with pytest.raises(InputError, match=r"data\['a'\] holds nan at row 77"):
        mg.fit(LOSS, holed)
    holed.to_parquet(tmp_path / "holed.parquet")
    with pytest.raises(InputError, match=r"column 'a' holds nan at row 77 of .*holed.parquet"):
        mg.fit(LOSS, tmp_path / "holed.parquet")


@pytest.mark.parametrize(
    "weights, words",
    [
        ("nothing", "no column 'nothing'"),
        ("text", "not numbers|not numeric"),
        (np.ones(3), r"shape \(3,\); \(600,\) is needed"),
        (np.zeros(N), "every weight is 0"),
        (-np.ones(N), "holds -1 at row 0"),
    ],
)
def test_weights_that_are_none(table, tmp_path, weights, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        mg.fit(LOSS, table, weights=weights)
    table.to_parquet(tmp_path / "rows.parquet")
    words = words if isinstance(weights, str) else "the name of a column"
    for data in (tmp_path / "rows.parquet", iter([table])):
        with pytest.raises((InputError, InputTypeError), match=words):
            mg.fit(LOSS, data, weights=weights)


# Predictions.


def test_predictions_have_the_errors_of_a_regression(fitted, table, tmp_path):
    X = design(table).astype(float)
    known = mg.fit(mg.Linear(), (X, table.y.to_numpy())).predict(X, 0.9)
    found = fitted.predict(table, 0.9)
    pd.testing.assert_frame_equal(found, known, rtol=1e-9)
    fitted.save(tmp_path / "r.json")
    again = mg.load(tmp_path / "r.json", LOSS)
    np.testing.assert_array_equal(again.predict(table), found["mean"])
    moved = table.set_index(np.arange(N) + 7)
    assert list(fitted.predict(moved[:2], 0.9).index) == [7, 8]


def test_a_prediction_may_be_several_numbers(rng):
    z = rng.gamma(2.0, size=300)
    loss = mg.CustomLoss(
        lambda t, z: 0.5 * (z - t[0]) ** 2 + 0.5 * (z**2 - t[1]) ** 2,
        2,
        predict=lambda t, z: jnp.stack([t[0] * z, jnp.sqrt(t[1]), t[0] / t[1]]),
    )
    r = mg.fit(loss, z)
    new = np.array([1.0, 3.0])
    assert r.predict(new).shape == (2, 3)
    frame = r.predict(new, 0.95)
    law = r.law.push(lambda t: jnp.stack([3 * t[0], jnp.sqrt(t[1]), t[0] / t[1]]))
    lower, upper = law.interval(0.95)
    for j in range(3):
        row = frame.loc[1, [f"{name}[{j}]" for name in ("mean", "se", "lower", "upper")]]
        np.testing.assert_allclose(row[:2], [law.mean[j], np.sqrt(law.cov[j, j])], rtol=1e-9)
        np.testing.assert_allclose(row[2:], [lower[j], upper[j]], rtol=1e-9)


def test_rows_without_a_prediction_are_nan(fitted, table):
    new = table[:5].assign(b=[0.0, np.nan, 1.0, np.inf, 2.0])
    with pytest.warns(MissingWarning, match=r"2 of 5 rows have no .*row 1: 'b' is missing"):
        frame = fitted.predict(new, 0.95)
    assert list(np.flatnonzero(frame["mean"].isna())) == [1, 3]
    assert (frame.isna().sum() == 2).all()


def test_a_prediction_that_is_not_identified_has_no_end(rng):
    x = rng.normal(size=300)
    loss = mg.CustomLoss(
        lambda t, z: (z[1] - (t[0] + t[1]) * z[0]) ** 2,
        2,
        predict=lambda t, z: jnp.stack([(t[0] + t[1]) * z[0], t[0]]),
    )
    with pytest.warns(UserWarning, match="flat in 1 of 2"):
        r = mg.fit(loss, (x, 2 * x + rng.normal(size=300)))
    frame = r.predict((x[:1], x[:1]), 0.95)
    assert np.isfinite(frame["se[0]"][0]) and np.isinf(frame["se[1]"][0])


# Penalties.


def test_a_ridge_is_that_of_scikit_learn(rng):
    X, w = rng.normal(size=(300, 3)), rng.integers(0, 3, 300)
    y = X @ [1.0, 2.0, 3.0] + rng.normal(size=300)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, 3, names=["a", "b", "c"])
    r = mg.fit(loss, (X, y), penalty=mg.L2(0.3), weights=w)
    ridge = Ridge(alpha=0.3 * w.sum(), fit_intercept=False).fit(X, y, w)
    np.testing.assert_allclose(r.penalized_params, ridge.coef_, rtol=1e-9)
    plain = mg.fit(loss, (X, y), weights=w, cov_type="HC1")
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-9)
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-9)
    assert list(r.penalized_params.index) == ["a", "b", "c"]


def test_a_ridge_may_be_what_makes_a_minimum(rng):
    """-t^2 / 20 + t z has none; with lam t^2 / 2 it is at -mean(z) / (lam - 0.1)."""
    z = rng.normal(size=500) + 1.0
    loss = mg.CustomLoss(lambda t, z: -0.05 * t[0] ** 2 + t[0] * z, 1)
    r = mg.fit(loss, z, penalty=mg.L2(0.6))
    np.testing.assert_allclose(r.penalized_params, -z.mean() / 0.5, rtol=1e-9)
    np.testing.assert_allclose(r.bse, z.std() / 0.5 / np.sqrt(500), rtol=1e-9)
    assert r.target == "the penalised optimum" and "negative eigenvalue" in r.summary()


def test_l1_with_weights_is_that_of_repeated_rows(rng):
    X, w = rng.normal(size=(200, 4)), rng.integers(0, 3, 200)
    y = X @ [1.0, 0.0, 0.0, 0.5] + rng.normal(size=200)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z[1] - z[0] @ t) ** 2, 4)
    r = mg.fit(loss, (X, y), penalty=mg.L1(0.1), weights=w)
    twice = mg.fit(loss, (X.repeat(w, 0), y.repeat(w)), penalty=mg.L1(0.1))
    np.testing.assert_allclose(r.penalized_params, twice.penalized_params, atol=1e-8)
    np.testing.assert_allclose(r.params, twice.params, atol=1e-8)


# What is refused.


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: mg.CustomLoss(square), r"dim=None.*or params="),
        (lambda: mg.CustomLoss(square, 2, params=START), "dim=2, and params holds 6 numbers"),
        (lambda: mg.CustomLoss(square, params={}), "holds no array"),
        (lambda: mg.CustomLoss(square, params={"a": np.zeros((2, 0))}), "a has shape .*no number"),
        (lambda: mg.CustomLoss(square, params={"a": "b"}), "a holds no numbers"),
        (lambda: mg.CustomLoss(square, params={"a": np.nan}), "a holds nan"),
        (lambda: mg.CustomLoss(square, params={"a.b": 0.0, "a": {"b": 1.0}}), "called 'a.b'"),
        (lambda: mg.CustomLoss(square, 2, names=["a"]), "1 entries, and there are 2"),
        (lambda: mg.CustomLoss(square, 2, names="ab"), "a list of texts"),
        (lambda: mg.CustomLoss(square, 2, names=["a", "a"]), "two parameters are called 'a'"),
        (lambda: mg.CustomLoss(square, 2, predict=3), "predict=3; a function"),
    ],
)
def test_losses_that_are_none(make, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        make()


def test_parameters_and_rows_of_another_form(table):
    wrong = [
        ({"level": np.zeros((1, 3))}, "have the structure {'level': \\*}; that of params"),
        ({**START, "level": np.zeros(3)}, r"level has shape \(3,\); \(1, 3\) is needed"),
        (np.zeros(5), r"structure \*; that of params"),
    ]
    for start, words in wrong:
        with pytest.raises(InputError, match=words):
            mg.fit(LOSS, table, start=start)
    with pytest.raises(InputError, match=r"loss asks for 'y', which is no key.*a row has a, b"):
        mg.fit(LOSS, {name: table[name].to_numpy() for name in "abck"})


def test_predictions_that_are_refused(fitted, table):
    plain = mg.CustomLoss(square, params=START)
    for predict, words in (
        (None, "no mean response to predict; say what is predicted"),
        (lambda p, z: (z["a"], z["b"]), "predict returns tuple"),
        (lambda p, z: z["k"] > 0, "predict returns bool"),
        (lambda p, z: float(z["a"]), "predict cannot be traced by JAX"),
    ):
        loss = mg.CustomLoss(plain.fn, params=START, predict=predict)
        r = copy.copy(fitted)
        object.__setattr__(r, "model", loss)
        with pytest.raises((InputError, InputTypeError), match=words):
            r.predict(table)
    with pytest.raises(InputError, match="which='linear' is for regressions"):
        fitted.predict(table, which="linear")
    with pytest.raises(InputError, match="offset=1 is for regressions"):
        fitted.predict(table, offset=1)
    with pytest.raises(InputError, match="no column 'k'"):
        fitted.predict(table.drop(columns="k"))

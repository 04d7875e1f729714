"""`fit` and `glm` on whatever holds rows, and on what should not be fitted."""

import threading
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import masgrad as mg
from masgrad import cli
from masgrad.checks import as_bytes
from masgrad.data.source import Arrays, prefetch
from masgrad.errors import (
    IdentificationWarning,
    InputError,
    InputTypeError,
    InterruptedWarning,
    SeparationWarning,
)
from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from scenarios import regression


def logistic_table(rng, N=60_000):
    table = pd.DataFrame(rng.normal(size=(N, 3)), columns=["a", "b", "c"])
    t = 0.3 + table.a - 0.5 * table.b
    table["y"] = (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)
    return table


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """A table as a frame, as Parquet in two files of several row groups, as CSV."""
    folder = tmp_path_factory.mktemp("rows")
    table = logistic_table(np.random.default_rng(11))
    table[:25_000].to_parquet(folder / "part-0.parquet", row_group_size=6000)
    table[25_000:].to_parquet(folder / "part-1.parquet", row_group_size=9000)
    (folder / "parts").mkdir()
    table.to_parquet(folder / "parts" / "all.parquet", row_group_size=20_000)
    table.to_csv(folder / "rows.csv", index=False)
    X = np.column_stack([np.ones(len(table)), table.a, table.b, table.a * table.b])
    return folder, table, mg.fit(mg.Logistic(), (X, table.y), "converge")


FORMULA = "y ~ a + b + a:b"


@pytest.mark.parametrize("form", ["frame", "glob", "list", "directory", "csv", "memory map"])
def test_every_container_gives_the_same_estimate(on_disk, form, tmp_path):
    folder, table, exact = on_disk
    data = {
        "frame": table,
        "glob": str(folder / "part-*.parquet"),
        "list": [folder / "part-1.parquet", str(folder / "part-0.parquet")],
        "directory": folder / "parts",
        "csv": folder / "rows.csv",
    }
    if form == "memory map":
        X = np.column_stack([np.ones(len(table)), table.a, table.b, table.a * table.b])
        np.save(tmp_path / "x.npy", X)
        r = mg.fit(mg.Logistic(), (np.load(tmp_path / "x.npy", mmap_mode="r"), table.y), "converge")
    else:
        r = mg.glm(FORMULA, data[form], "binomial", passes="converge")
        assert list(r.params.index) == ["Intercept", "a", "b", "a:b"]
    assert r.nobs == 60_000 and r.fit_info.reads >= 2
    np.testing.assert_allclose(r.params, exact.params, atol=1e-8)
    np.testing.assert_allclose(r.bse, exact.bse, rtol=2e-4)


@pytest.mark.parametrize("form", ["glob", "csv"])
def test_files_in_a_single_read(on_disk, form):
    folder, _, exact = on_disk
    path = folder / ("part-*.parquet" if form == "glob" else "rows.csv")
    r = mg.glm(FORMULA, str(path), "binomial", passes=1)
    assert r.fit_info.reads == 1 and r.nobs == 60_000
    assert np.abs((r.theta - exact.theta) / exact.bse).max() < 0.02


def test_any_model_reads_files(on_disk):
    folder, table, _ = on_disk
    loss = mg.CustomLoss(lambda t, z: jnp.logaddexp(0.0, z[0] @ t) - z[1] * (z[0] @ t), 2)
    r = mg.fit(loss, str(folder / "part-*.parquet"), formula="y ~ a")
    X = np.column_stack([np.ones(len(table)), table.a])
    glm = mg.fit(mg.Logistic(), (X, table.y))
    assert np.abs((r.theta - glm.theta) / glm.bse).max() < 2e-3


def test_predictions_are_streamed_from_files(on_disk):
    folder, table, _ = on_disk
    r = mg.glm(FORMULA, table, "binomial")
    np.testing.assert_allclose(r.predict(str(folder / "part-*.parquet")), r.predict(table))


def test_a_stream_is_read_as_often_as_needed(rng):
    X, y = regression(rng, "poisson", N=50_000)
    started = []

    def blocks():
        started.append(1)
        for i in range(0, 50_000, 12_345):
            yield X[i : i + 12_345], y[i : i + 12_345]

    r = mg.fit(mg.Poisson(), mg.Stream(blocks))
    exact = mg.fit(mg.Poisson(), (X, y), "converge")
    assert np.abs((r.theta - exact.theta) / exact.bse).max() < 1e-3
    assert len(started) == r.fit_info.reads + 1  # and the first rows, for the warm-up


@pytest.mark.parametrize(
    "lengths, words",
    [
        ((80, 80, 40), "gave 80,000 rows and a later one 40,000.*anew"),
        ((80, 80, 80, 40), "gave 80,000 rows and a later one 40,000.*anew"),
        ((80, 40, 80), "gave 40,000 rows and a later one 80,000.*anew"),
        ((80, 20), "gave at least 33,000 rows and a later one 20,000.*anew"),
    ],
)
def test_a_stream_gives_the_same_rows_at_every_read(rng, lengths, words):
    """First rows for the warm-up, MasGrad's read, correcting reads."""
    X, y = regression(rng, "poisson", N=80_000)
    started = iter(lengths)

    def blocks():
        for k in range(next(started, lengths[-1])):
            yield X[1000 * k : 1000 * (k + 1)], y[1000 * k : 1000 * (k + 1)]

    with pytest.raises(InputError, match=words):
        mg.fit(mg.Poisson(), mg.Stream(blocks), passes="converge")


@pytest.mark.parametrize("start", [iter, lambda blocks: mg.Stream(lambda: iter(blocks))])
def test_empty_blocks_are_skipped(rng, start):
    X, y = regression(rng, "poisson", N=600)
    none = [(X[:0], y[:0]), ([], []), (X[:0], y[:0], None, None)]
    r = mg.fit(mg.Poisson(), start([none[0], (X[:300], y[:300]), *none, (X[300:], y[300:])]))
    np.testing.assert_array_equal(r.theta, mg.fit(mg.Poisson(), (X, y)).theta)
    with pytest.raises(InputError, match="hold no rows"):
        mg.fit(mg.Poisson(), start(none))
    with pytest.raises(InputError, match="X has 300, y has 0"):
        mg.fit(mg.Poisson(), start([(X[:300], y[:0])]))
    loss = mg.CustomLoss(lambda t, z: (t[0] - z) ** 2, 1)
    assert mg.fit(loss, start([y[:0], y])).nobs == 600


def test_empty_frames_are_skipped(rng):
    table = logistic_table(rng, 500)
    frames = [table[:0], table[:200], table[:0], table[200:]]
    whole = mg.glm("y ~ a", table)
    for data in (iter(frames), mg.Stream(lambda: iter(frames))):
        np.testing.assert_allclose(mg.glm("y ~ a", data).params, whole.params)
    with pytest.raises(InputError, match="no data frame with rows"):
        mg.glm("y ~ a", iter([table[:0]]))
    with pytest.raises(InputError, match="the data frame has no rows"):
        mg.glm("y ~ a", table[:0])
    with pytest.raises(InputError, match="the data frame has no rows"):
        whole.update(table[:0])


def test_a_simulator_is_a_stream():
    def sample(key, n):
        a, b = jax.random.split(key)
        x = jax.random.normal(a, (n, 2))
        return x, x @ jnp.array([1.0, 2.0]) + jax.random.normal(b, (n,))

    simulator = mg.Simulator(sample)
    r = mg.fit(mg.Linear(), simulator.stream(100_001, seed=3, block=10_000))
    assert r.nobs == 100_001 and r.theta.dtype == np.float64
    assert np.abs((r.theta - [1, 2]) / r.bse).max() < 5
    again = mg.fit(mg.Linear(), simulator.stream(100_001, seed=3, block=10_000))
    np.testing.assert_array_equal(r.theta, again.theta)
    other = mg.fit(mg.Linear(), simulator.stream(100_001, seed=4, block=10_000))
    assert not np.allclose(other.theta, r.theta)
    with pytest.raises(InputError, match="stream"):
        mg.fit(mg.Linear(), simulator)


def test_reading_overlaps_computing():
    """Blocks come from another thread, ahead of the consumer, and end with it."""
    made, go = [], threading.Event()

    def blocks():
        for i in range(100):
            made.append(threading.current_thread() is threading.main_thread())
            if i == 3:
                go.set()
            yield i

    reader = prefetch(blocks(), depth=2)
    assert next(reader) == 0 and go.wait(5)
    reader.close()
    assert not any(made) and len(made) < 10
    assert list(prefetch(iter(range(5)))) == [0, 1, 2, 3, 4]


def test_an_error_in_the_users_iterator_is_his(rng):
    def blocks():
        yield regression(rng)
        raise RuntimeError("network down")

    with pytest.raises(RuntimeError, match="network down"):
        mg.fit(mg.Linear(), blocks())


@pytest.mark.parametrize("once, after", [(True, 20), (False, 30), (False, 60)])
def test_ctrl_c_keeps_what_was_read(rng, once, after):
    """In a single read, in MasGrad's, in a correcting one."""
    X, y = regression(rng, "bernoulli", N=100_000)
    read = []

    def blocks():
        for i in range(0, 100_000, 4000):
            read.append(i)
            if len(read) == after:
                raise KeyboardInterrupt
            yield X[i : i + 4000], y[i : i + 4000]

    data = blocks() if once else mg.Stream(blocks)
    with pytest.warns(InterruptedWarning, match="stopped by Ctrl-C"):
        r = mg.fit(mg.Logistic(), data)
    assert 32_000 <= r.nobs < 100_000
    exact = mg.fit(mg.Logistic(), (X, y), "converge")
    assert np.abs((r.theta - exact.theta) / r.bse).max() < 5


def test_memory_does_not_grow_with_the_rows():
    """Peak of Python's allocations over 40 and 400 blocks of a stream."""
    peaks = []
    for many in (40, 400):

        def blocks(many=many):
            rng = np.random.default_rng(0)
            for _ in range(many):
                X = rng.normal(size=(2000, 5))
                yield X, X.sum(1) + rng.normal(size=2000)

        tracemalloc.start()
        mg.fit(mg.Linear(), mg.Stream(blocks), memory="8MB")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_arrays_shuffle_all_rows(rng):
    source = Arrays((np.arange(10_000.0)[:, None], np.arange(10_000.0)), block=1000)
    blocks = list(source.blocks(rng))
    seen = np.concatenate([y for _, y in blocks])
    assert sorted(seen) == list(range(10_000)) and not np.array_equal(seen, np.sort(seen))
    assert np.median([np.ptp(y) for _, y in blocks]) > 5000  # blocks from all over


@pytest.mark.parametrize(
    "given, size", [("512MB", 512 * 2**20), ("1.5 GiB", 3 * 2**29), (2**21, 2**21)]
)
def test_sizes_of_memory(given, size):
    assert as_bytes(given) == size


# Bad input: an error or a warning that names the thing, never a number that means nothing.

N = 2000


def design(rng):
    return np.column_stack([np.ones(N), rng.normal(size=(N, 3))])


def binary(rng, X):
    return (rng.random(N) < 1 / (1 + np.exp(-X @ [0.2, 0.5, -0.3, 0.1]))).astype(float)


def spoil(a, where, value):
    a = a.copy()
    a[where] = value
    return a


WRONG = {
    "NaN in X": (lambda X, y: (spoil(X, (17, 2), np.nan), y), "column 2 of X holds nan at row 17"),
    "inf in X": (lambda X, y: (spoil(X, (17, 2), np.inf), y), "column 2 of X holds inf at row 17"),
    "NaN in y": (lambda X, y: (X, spoil(y, 5, np.nan)), "response holds nan at row 5"),
    "huge": (lambda X, y: (spoil(X, (17, 2), 1e308), y), "column 2 of X reaches 1e"),
    "collinear": (lambda X, y: (np.column_stack([X, X[:, 1] - X[:, 3]]), y), "columns 1, 3, 4"),
    "duplicated": (lambda X, y: (np.column_stack([X, X[:, 2]]), y), "columns 2, 4"),
    "constant": (lambda X, y: (np.column_stack([X, np.full(N, 3.0)]), y), "column 4 is constant"),
    "one class": (lambda X, y: (X, np.ones(N)), "single class"),
    "labels": (lambda X, y: (X, 2 * y - 1), r"y is -1 at row \d+; the binomial.*\(y \+ 1\) / 2"),
    "strings": (lambda X, y: (X, np.where(y > 0, "yes", "no")), "real numbers"),
    "empty": (lambda X, y: (X[:0], y[:0]), "no rows"),
    "empty iterator": (lambda X, y: iter([]), "no rows"),
    "few rows": (lambda X, y: (X[:4], y[:4]), "4 rows cannot estimate 4"),
    "lengths": (lambda X, y: (X, y[:-1]), "X has 2000, y has 1999"),
    "one array": (lambda X, y: X, "pair of arrays"),
    "vector": (lambda X, y: (X[:, 0], y), r"a matrix with a row.*X\[:, None\]"),
    "3-d X": (
        lambda X, y: (X.reshape(N, 2, 2), y), r"X\.reshape\(len\(X\), -1\), or mg\.TraceReg"
    ),
    "y a column": (lambda X, y: (X, y[:, None]), r"y has shape \(2000, 1\).*y\.ravel\(\)\?"),
    "two columns of y": (lambda X, y: (X, X[:, :2]), r"y has shape \(2000, 2\).*y\[:, 0\]\?"),
    "y a table": (
        lambda X, y: (X, pd.DataFrame({"u": y, "v": y})), r"y is a table of 2 columns.*y\['u'\]"
    ),
    "an arrow table": (
        lambda X, y: (X, pa.table({"u": y, "v": y})), r"y is a table of 2 columns.*y\['u'\]"
    ),
    "another index": (
        lambda X, y: (pd.DataFrame(X), pd.DataFrame({"u": y}).iloc[::-1]), "different indexes"
    ),
    "late block": (lambda X, y: iter([(X, y), (X, y[1:])]), "begins at row 2000"),
    "other columns": (lambda X, y: iter([(X, y), (X[:, 1:], y)]), "first block had"),
    "late NaN": (
        lambda X, y: iter([(X, y)] * 20 + [(spoil(X, (9, 1), np.nan), y)]),
        "column 1 of X holds nan at row 40009",
    ),
    "late NaN in an array": (
        lambda X, y: (spoil(np.tile(X, (30, 1)), (55_555, 1), np.nan), np.tile(y, 30)),
        "column 1 of X holds nan at row 55555",
    ),
    "text column": (lambda X, y: (pd.DataFrame({"a": ["x"] * N}), y), "'a' is not numeric"),
    "two names": (lambda X, y: (pd.DataFrame(X[:, :2], columns=["a", "a"]), y), "two columns"),
    "a path": (lambda X, y: "rows.parquet", "formula"),
}  # fmt: skip


def test_a_response_may_be_a_table_of_one_column(rng):
    X = design(rng)
    y = binary(rng, X)
    wanted = mg.fit(mg.Logistic(), (X, y)).theta
    for table in (pd.DataFrame({"y": y}), pa.table({"y": y}), pd.DataFrame({"y": y > 0})):
        for rows in (X, pd.DataFrame(X)):
            np.testing.assert_allclose(mg.fit(mg.Logistic(), (rows, table)).theta, wanted)


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_fitted_says_why(rng, name):
    X = design(rng)
    change, words = WRONG[name]
    with pytest.raises((InputError, InputTypeError), match=words):
        mg.fit(mg.Logistic(), change(X, binary(rng, X)))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"passes": 0}, "passes=0"),
        ({"passes": "twice"}, "'twice'"),
        ({"cov_type": "HC7"}, "HC7"),
        ({"method": "magic"}, "magic"),
        ({"chains": 2}, "chains=2"),
        ({"step_size": -1}, "step_size"),
        ({"start": np.zeros(3)}, "theta has shape"),
        ({"memory": "lots"}, "512MB"),
        ({"memory": "1KB"}, "512MB"),
        ({"threads": 0}, "threads"),
        ({"seed": 1.5}, "seed"),
        ({"formula": "y ~ a"}, "DataFrame"),
    ],
)
def test_options_that_make_no_sense(rng, options, words):
    X = design(rng)
    with pytest.raises((InputError, InputTypeError), match=words):
        mg.fit(mg.Logistic(), (X, binary(rng, X)), **options)


def test_a_response_too_large_to_square_is_blamed(rng):
    X = design(rng)
    with pytest.raises(InputError, match=r"the response reaches \d.*e\+200; rescale"):
        mg.fit(mg.Linear(), (X, 1e200 * rng.normal(size=N)))
    with pytest.raises(InputError, match="column 2 of X reaches 1e"):
        mg.fit(mg.Linear(), (spoil(X, (17, 2), 1e308), rng.normal(size=N)))


def test_counts(rng):
    X = design(rng)
    with pytest.raises(InputError, match="y is -1 at row 7; the poisson"):
        mg.fit(mg.Poisson(), (X, spoil(np.ones(N), 7, -1)))
    with pytest.raises(InputError, match=r"y is 2 at row 7; the binomial.*; recode y or choose"):
        mg.fit(mg.Logistic(), (X, spoil(np.ones(N), 7, 2)))
    with pytest.raises(InputError, match="every response is 0"):
        mg.fit(mg.Poisson(), (X, np.zeros(N)))


@pytest.mark.parametrize("many", [1, 40])
def test_separation_is_named_and_the_rest_is_estimated(rng, many):
    """A dummy whose rows all have y = 1: no estimate for it, the others as without those rows."""
    X = design(rng)
    y, dummy = binary(rng, X), rng.random(N) < 0.1
    y[dummy] = 1.0
    with pytest.warns(SeparationWarning, match="separated along 4"):
        data = np.tile(np.column_stack([X, dummy]), (many, 1)), np.tile(y, many)
        r = mg.fit(mg.Logistic(), data)
    assert np.isinf(r.bse[4]) and (r.conf_int()[4] == [-np.inf, np.inf]).all()
    kept = mg.fit(mg.Logistic(), (np.tile(X[~dummy], (many, 1)), np.tile(y[~dummy], many)))
    np.testing.assert_allclose(r.params[:4], kept.params, atol=1e-4)
    np.testing.assert_allclose(r.bse[:4], kept.bse, rtol=1e-3)
    with pytest.raises(InputError, match="not identified"):
        r.wald_test([0, 0, 0, 0, 1.0])


def test_complete_separation(rng):
    X = design(rng)
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (X[:, 1] > 0).astype(float)))
    assert np.isinf(r.bse[1])


def test_no_counts_in_a_group(rng):
    X = np.column_stack([design(rng), rng.random(N) < 0.1])
    y = np.where(X[:, 4] == 1, 0, rng.poisson(1.5, N)).astype(float)
    with pytest.warns(SeparationWarning, match="along 4"):
        r = mg.fit(mg.Poisson(), (X, y))
    assert np.isinf(r.bse[4]) and np.isfinite(r.bse[:4]).all()


def test_an_empty_column_is_not_estimable(rng):
    X = design(rng)
    y = binary(rng, X)
    with pytest.warns(IdentificationWarning, match="column 4 is 0"):
        r = mg.fit(mg.Logistic(), (np.column_stack([X, np.zeros(N)]), y))
    assert np.isnan(r.params[4]) and np.isnan(r.conf_int()[4]).all()
    np.testing.assert_allclose(r.params[:4], mg.fit(mg.Logistic(), (X, y)).params, rtol=1e-9)
    assert np.isfinite(r.predict(np.column_stack([X, np.zeros(N)]))).all()


def test_missing_values_in_files_are_located(tmp_path, rng):
    table = logistic_table(rng, 3000)
    table.loc[2500, "b"] = np.nan
    table[:2000].to_parquet(tmp_path / "p0.parquet")
    table[2000:].to_parquet(tmp_path / "p1.parquet")
    with pytest.raises(InputError, match=r"column 'b' holds nan at row 500 of .*p1\.parquet"):
        mg.glm("y ~ a + b", str(tmp_path / "p*.parquet"), "binomial")


# The command line.


def run(*args):
    return CliRunner().invoke(cli.app, ["fit", *map(str, args)])


def test_the_command_fits_files_and_saves(on_disk, tmp_path):
    folder, _, exact = on_disk
    out = tmp_path / "r.json"
    done = run(
        folder / "part-*.parquet", "--formula", FORMULA, "--family", "binomial", "--save", out
    )
    assert done.exit_code == 0, done.output
    r = mg.load(out)
    assert r.summary() in done.output and r.nobs == 60_000
    assert np.abs((r.theta - exact.theta) / exact.bse).max() < 1e-3


def test_the_command_has_an_example(tmp_path):
    """The bundled counts are those of statsmodels, and so is the estimate."""
    import statsmodels.api as sm

    done = run("--passes", "1")
    assert done.exit_code == 0 and "RAND" in done.output and "mdvis" in done.output
    data = sm.datasets.randhie.load_pandas()
    X = sm.add_constant(data.exog)
    theirs = sm.GLM(data.endog, X, family=sm.families.Poisson()).fit(tol=1e-14, cov_type="HC0")
    r = mg.glm(RANDHIE_FORMULA, RANDHIE, "poisson")
    assert r.nobs == len(data.endog) == 20_190
    np.testing.assert_allclose(r.params, theirs.params, rtol=1e-6)
    np.testing.assert_allclose(r.bse, theirs.bse, rtol=1e-6)


@pytest.mark.parametrize(
    "args, words",
    [
        (("none.csv", "--formula", "y ~ a"), "none.csv"),
        (("rows.csv",), "--formula"),
        (("rows.csv", "--formula", "y ~ z"), "no column 'z'"),
        (("rows.csv", "--formula", "y ~ bs(a)"), "bs(a)"),
        (("rows.csv", "--formula", "y ~ a", "--family", "weibull"), "weibull"),
        (("rows.csv", "--formula", "y ~ a", "--passes", "0"), "passes=0"),
        (("cut.parquet", "--formula", "y ~ a"), "cut.parquet"),
        (("empty.csv", "--formula", "y ~ a"), "no rows"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"a": [1.0, 2, 3, 4], "y": [0.0, 1, 0, 1]})
    table.to_csv("rows.csv", index=False)
    table.to_parquet("whole.parquet")
    cut = (tmp_path / "whole.parquet").read_bytes()[:-20]
    (tmp_path / "cut.parquet").write_bytes(cut)
    (tmp_path / "empty.csv").write_text("a,y\n")
    done = run(*args)
    assert done.exit_code != 0 and words in done.output + str(done.exception)

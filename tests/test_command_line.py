"""`masgrad fit`, `show` and `predict`: what they print and write, and how they end."""

import gc
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad import cli, interrupts, progress
from masgrad.errors import InterruptedWarning, say


@pytest.fixture
def table(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    frame["y"] = (rng.random(500) < 1 / (1 + np.exp(-frame.a))).astype(float)
    frame.to_csv("rows.csv", index=False)
    return frame


@pytest.fixture
def masgrad(monkeypatch, capfd):
    """Run a command line in this process: exit code, stdout, stderr without rich's frames."""

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["masgrad", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capfd.readouterr()
        return end.value.code or 0, out, " ".join(err.replace("│", " ").split())

    return run


FIT = ("fit", "rows.csv", "--formula", "y ~ a + b", "--family", "binomial")


def test_fit_show_predict(table, masgrad, tmp_path):
    code, out, err = masgrad(*FIT, "--save", "r.json", "--level", "0.9")
    r = mg.glm("y ~ a + b", table, "binomial")
    assert code == 0 and "saved: r.json" in err
    assert "[0.05" in out and f"{r.conf_int(0.1)[0]['a']:.4f}" in out
    quiet = masgrad(*FIT, "--save", "r.json", "--quiet")
    assert quiet[0] == 0 and quiet[2] == "" and quiet[1].splitlines()[2:4] != []

    code, out, err = masgrad("show", "r.json", "--html", "r.html", "--plot", "r.png")
    assert code == 0 and "[0.025" in out and "saved: r.html saved: r.png" in err
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "r.png").stat().st_size > 10_000

    code, out, err = masgrad("predict", "r.json", "rows.csv", "--interval", "0.9")
    lines = out.splitlines()
    assert code == 0 and err == "" and lines[0] == "mean,se,lower,upper" and len(lines) == 501
    got = np.array([line.split(",") for line in lines[1:]], float)
    np.testing.assert_allclose(got, r.predict(table, interval=0.9), rtol=1e-9)
    code, out, err = masgrad("predict", "r.json", "rows.csv", "--out", "m.parquet")
    assert (code, out) == (0, "") and "m.parquet (500 rows)" in err
    np.testing.assert_allclose(pd.read_parquet("m.parquet")["mean"], got[:, 0], rtol=1e-9)
    masgrad("predict", "r.json", "rows.csv", "--out", "t.csv", "--which", "linear", "--quiet")
    linear = pd.read_csv("t.csv")["linear"]
    np.testing.assert_allclose(linear, r.predict(table, which="linear"), rtol=1e-9)


def test_rows_without_a_prediction_are_warned_of(table, masgrad):
    mg.glm("y ~ a + b", table, "binomial").save("r.json")
    table.loc[3, "b"] = np.nan
    table.to_csv("rows.csv", index=False)
    code, out, err = masgrad("predict", "r.json", "rows.csv", "--interval", "0.9")
    assert code == 0 and out.splitlines()[4] == "nan,nan,nan,nan"
    assert err.startswith("masgrad: MissingWarning: 1 of 500 rows has no prediction")
    assert "row 3 of rows.csv: its column 'b' is nan" in err


def test_a_saved_result_speaks_in_another_process(table, masgrad):
    """One prints, one predicts, to a reader that soon stops reading: no traceback."""
    pd.concat([table] * 200).to_csv("rows.csv", index=False)
    _, out, _ = masgrad(*FIT, "--save", "r.json", "--quiet")
    for command, said in (("show r.json", out), ("predict r.json rows.csv | head -1", "mean\n")):
        line = f"{sys.executable} -m masgrad.cli {command}"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == (said, "")


@pytest.mark.parametrize(
    "args, code, words",
    [
        (("fit", "rows.csv"), 2, "--formula"),
        ((*FIT, "--level", "1"), 2, "'--level': 1.0; a probability between 0 and 1"),
        ((*FIT, "--level", "-0.5"), 2, "'--level': -0.5"),
        ((*FIT, "--level", "x"), 2, "'--level'"),
        ((*FIT, "--nonsense"), 2, "--nonsense"),
        (("fit", "none.csv", "--formula", "y ~ a"), 1, "masgrad: none.csv: no such file"),
        (("fit", "rows.csv", "--formula", "y ~ zzz"), 1, "'zzz'"),
        ((*FIT[:4], "--family", "zzz"), 2, "family='zzz'"),
        ((*FIT, "--link", "zzz"), 2, "zzz"),
        ((*FIT, "--passes", "many"), 2, "passes='many'"),
        ((*FIT, "--passes=--5"), 2, "passes='--5'"),
        ((*FIT, "--passes=-5"), 2, "passes=-5"),
        ((*FIT, "--memory", "infMB"), 2, "memory=inf"),
        ((*FIT, "--memory", "nanMB"), 2, "memory=nan"),
        ((*FIT, "--cov-type", "zzz"), 2, "cov_type='zzz'"),
        ((*FIT, "--method", "zzz"), 2, "method='zzz'"),
        ((*FIT, "--seed", "-1"), 2, "--seed"),
        (("fit", "", "--formula", "y ~ a"), 1, "the path is empty"),
        ((*FIT, "--save", "."), 1, "is a folder"),
        ((*FIT, "--save", "no/r.json"), 1, "no/r.json: there is no folder no"),
        (("show",), 2, "RESULT"),
        (("show", "none.json"), 1, "none.json"),
        (("show", "rows.csv"), 1, "rows.csv is not a saved result"),
        (("show", "r.json", "--level", "2"), 2, "'--level': 2.0"),
        (("show", "r.json", "--plot", "r.txt"), 2, "r.txt: a name that ends in"),
        (("show", "r.json", "--html", "no/r.html"), 1, "there is no folder no"),
        (("predict", "r.json"), 2, "data"),
        (("predict", "r.json", "none.csv"), 1, "none.csv: no such file"),
        (("predict", "r.json", "rows.csv", "--interval", "95"), 2, "'--interval': 95.0"),
        (("predict", "r.json", "rows.csv", "--out", "m.txt"), 2, "m.txt: a file that ends in"),
        (("predict", "r.json", "rows.csv", "--which", "x"), 2, "which='x' is not known"),
        (("predict", "r.json", "other.csv"), 1, "'a'"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_a_message_and_an_exit_code(table, masgrad, args, code, words):
    table[["y"]].to_csv("other.csv", index=False)
    mg.glm("y ~ a + b", table, "binomial").save("r.json")
    got, _, err = masgrad(*args)
    assert got == code and words in err and "Traceback" not in err


def test_results_from_arrays_and_losses_say_what_they_need(table, masgrad):
    X, y = table[["a", "b"]].to_numpy(), table["y"].to_numpy()
    mg.fit(mg.Logistic(), (X, y)).save("arrays.json")
    assert masgrad("show", "arrays.json")[0] == 0
    code, _, err = masgrad("predict", "arrays.json", "rows.csv")
    assert code == 1 and "without a formula" in err
    mg.fit(mg.CustomLoss(lambda t, z: (t[0] - z) ** 2, 1), y).save("loss.json")
    assert masgrad("show", "loss.json")[0] == 0
    code, _, err = masgrad("predict", "loss.json", "rows.csv")
    assert code == 1 and "loaded without its loss" in err


def test_penalties_on_the_command_line(table, masgrad):
    """--l1 alone, chosen, with --l2; what is left of the coefficients is listed."""
    code, out, _ = masgrad(*FIT, "--l1", "0.05", "--save", "r.json")
    r = mg.glm("y ~ a + b", table, "binomial", penalty=mg.L1(0.05))
    assert code == 0 and "Penalty L1(0.05)" in out and "With the penalty" in out
    np.testing.assert_allclose(mg.load("r.json").penalized_params, r.penalized_params)
    _, out, _ = masgrad(*FIT, "--l1", "bic")
    assert "was chosen by BIC" in out
    masgrad(*FIT, "--l1", "0.02", "--l2", "0.06", "--save", "net.json")
    net = mg.glm("y ~ a + b", table, "binomial", penalty=mg.ElasticNet(0.08, 0.25))
    np.testing.assert_allclose(mg.load("net.json").penalized_params, net.penalized_params)
    masgrad(*FIT, "--l2", "0.1", "--save", "ridge.json")
    ridge = mg.glm("y ~ a + b", table, "binomial", penalty=mg.L2(0.1))
    np.testing.assert_allclose(mg.load("ridge.json").penalized_params, ridge.penalized_params)
    wrong = (
        (("--l1", "-1"), "lam=-1"),
        (("--l1", "x"), "'cv'"),
        (("--l1", "cv", "--l2", "1"), "--l2"),
    )
    for args, words in wrong:
        code, _, err = masgrad(*FIT, *args)
        assert code == 2 and words in err and "Traceback" not in err


def test_columns_are_passed_on_where_given(table, masgrad, monkeypatch):
    r, seen = mg.glm("y ~ a", table), {}
    monkeypatch.setattr(
        "masgrad.fitting.commands.glm", lambda *_, **options: seen.update(options) or r
    )
    masgrad(*FIT)
    assert not seen.keys() & {"weights", "offset", "exposure"}
    assert seen["family"].family.link == "logit"
    given = {"weights": "w", "offset": "o", "exposure": "e", "cov_type": "HC1"}
    parts = (part for k, v in given.items() for part in (f"--{k.replace('_', '-')}", v))
    masgrad(*FIT, "--link", "probit", *parts)
    assert given.items() <= seen.items() and seen["progress"] is None
    assert seen["family"].family.link == "probit"
    masgrad(*FIT, "--quiet", "--passes", "3")
    assert seen["progress"] is False and seen["passes"] == 3


def test_panels_on_the_command_line(table, masgrad):
    rng = np.random.default_rng(0)
    table["firm"], table["year"] = np.arange(500) % 25, np.arange(500) // 25
    table["w"], table["g"] = rng.integers(1, 3, 500), rng.choice(list("xyz"), 500)
    table.loc[[3, 8], "a"], table.loc[9, "g"] = np.nan, None
    lines = table.to_csv(index=False).splitlines()
    lines[21] = "1,2"
    with open("rows.csv", "w") as file:
        file.write("\n".join(lines) + "\n")
    leave = ("--missing", "drop", "--on-bad-rows", "skip")
    asked = {"family": "binomial", "missing": "drop", "on_bad_rows": "skip"}
    for formula, options, keywords in (
        ("y ~ a + b", ("--clusters", "firm"), {"clusters": "firm"}),
        (
            "y ~ a + C(g)",
            ("--clusters", "firm", "--clusters", "year", "--small-sample", "stata"),
            {"clusters": ["firm", "year"], "small_sample": "stata"},
        ),
        ("y ~ a", ("--clusters", "firm^year"), {"clusters": "firm^year"}),
        (
            "y ~ a",
            ("--cov-type", "HAC", "--time", "year", "--unit", "firm", "--lags", "2"),
            {"cov_type": "HAC", "time": "year", "unit": "firm", "lags": 2},
        ),
        (
            "y ~ a",
            ("--weights", "w", "--weights-type", "analytic"),
            {"weights": "w", "weights_type": "analytic"},
        ),
    ):
        r = mg.glm(formula, "rows.csv", **asked, **keywords)
        args = ("fit", "rows.csv", "--formula", formula, "--family", "binomial")
        code, out, _ = masgrad(*args, *options, *leave, "--save", "r.json", "--quiet")
        assert code == 0
        np.testing.assert_allclose(mg.load("r.json").bse, r.bse, rtol=1e-12)
        said = " ".join(out.split())
        assert f"{r.omitted.missing} of 499 rows were left out for missing values: a 2" in said
        assert "1 of 500 rows could not be read and was left out: the first is row 20 of" in said
    code, out, _ = masgrad("fit", "rows.csv", "--formula", "y ~ a | firm + year", *leave, "--quiet")
    expected = mg.glm("y ~ a | firm + year", "rows.csv", missing="drop", on_bad_rows="skip")
    assert code == 0 and f"{expected.bse['a']:.4f}" in out and "Fixed effects" in out


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((), 1, "column 'a' holds nan at row 3 of rows.csv"),
        (("--missing", "omit"), 2, "missing='omit' is not known; use one of error, drop"),
        (("--on-bad-rows", "drop"), 2, "use one of error, skip"),
        (("--missing", "drop", "--clusters", "shop"), 1, "no column 'shop'"),
        (("--missing", "drop", "--clusters", "b"), 1, "keys of groups are whole numbers, text"),
        (("--missing", "drop", "--clusters", "one"), 1, "one has one cluster, 1"),
    ],
)
def test_panels_that_cannot_be_are_refused_on_the_command_line(table, masgrad, args, code, words):
    table.loc[3, "a"] = np.nan
    table.assign(one=1).to_csv("rows.csv", index=False)
    found, out, err = masgrad(*FIT, *args)
    assert (found, out) == (code, "") and words in err and "Traceback" not in err


def test_fits_are_saved_on_their_way_and_go_on(table, masgrad, monkeypatch, tmp_path):
    saved = (*FIT, "--checkpoint", "c", "--every", "0")
    whole = masgrad(*FIT)[1]
    with monkeypatch.context() as patch:
        patch.setattr("masgrad.fitting.api.Result.of", ctrl_c_at_once)
        assert masgrad(*saved)[0] == 130
    code, _, err = masgrad(*saved)
    assert code == 1 and "holds an unfinished fit" in err and "resume=True" in err
    code, out, _ = masgrad(*saved, "--resume")
    assert code == 0 and timeless(out) == timeless(whole)
    code, _, err = masgrad(*saved, "--resume", "--seed", "1")
    assert code == 1 and "seed was 0 and is 1" in err
    for wrong in (("--resume",), ("--checkpoint", "c", "--every", "-1")):
        assert masgrad(*FIT, *wrong)[0] == 2


def ctrl_c_at_once(record):
    raise KeyboardInterrupt


def timeless(summary):
    return [line for line in summary.splitlines() if "Rows per second" not in line]


def test_ctrl_c_ends_with_130(table, masgrad, monkeypatch):
    r = mg.glm("y ~ a + b", table, "binomial")

    def stopped(*_, **__):
        say(InterruptedWarning, "stopped by Ctrl-C in read 1")
        return replace(r, status=mg.Status.INTERRUPTED)

    monkeypatch.setattr("masgrad.fitting.commands.glm", stopped)
    code, out, err = masgrad(*FIT, "--save", "r.json")
    assert code == 130 and "Intercept" in out and "InterruptedWarning: stopped" in err
    assert mg.load("r.json").status is mg.Status.INTERRUPTED
    assert "stopped by Ctrl-C: estimates are about the rows read so far" in " ".join(out.split())

    r.save("r.json")  # a fit that came to its end, which the next one must not replace
    code, _, err = masgrad(*FIT, "--save", "r.json", "--quiet")
    assert code == 130 and "r.json stays as it was" in err
    assert "saved: r.interrupted.json" in err
    assert mg.load("r.json").status is mg.Status.CONVERGED
    assert mg.load("r.interrupted.json").status is mg.Status.INTERRUPTED

    def at_once(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("masgrad.fitting.commands.write_predictions", at_once)
    assert masgrad("predict", "r.json", "rows.csv")[0] == 130


@pytest.fixture
def ctrl_c():
    """Python's own handler, which a job in the background of a shell does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_not_lost_in_a_garbage_collection(ctrl_c):
    """In a callback, or in what it calls, the signal waits; after that its echo raises."""
    waits = []

    def callback(phase, info):
        if not waits:
            signal.raise_signal(signal.SIGINT)
            waits.append(signal.getitimer(signal.ITIMER_REAL)[0])

    gc.callbacks.append(callback)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.heard():
            gc.collect()
            time.sleep(10)
    finally:
        gc.callbacks.remove(callback)
    assert 0 < waits[0] <= interrupts.RETRY_SECONDS and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_is_not_lost_in_a_finalizer(ctrl_c):
    class Loop:
        def __init__(self):
            self.itself = self

        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interrupts.heard():
        Loop()
        gc.collect()
        time.sleep(10)


def test_jax_has_a_callback_that_is_seen():
    """A plain function, by whose code a frame is known."""
    assert "_xla_gc_callback" in [
        c.__code__.co_name for c in gc.callbacks if hasattr(c, "__code__")
    ]


def test_ctrl_c_elsewhere_is_at_once_and_its_other_handlers_stay(ctrl_c):
    with pytest.raises(KeyboardInterrupt), interrupts.heard():
        signal.raise_signal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.heard():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_every_command_has_an_example(masgrad):
    for command in ("fit", "show", "predict", "plan", "paper"):
        code, out, _ = masgrad(command, "--help")
        assert code == 0 and f"masgrad {command}" in out.split("Examples:")[1]


def test_help_says_what_quiet_leaves_and_in_which_order_files_are(masgrad):
    """Rich wraps the lines and frames them."""
    for command, words in (("fit", "warnings stay"), ("predict", "in the order given")):
        assert words in " ".join(masgrad(command, "--help")[1].replace("│", " ").split())


def test_the_bar_tells_speed_and_time_left(monkeypatch):
    """A third read lengthens the bar, for two were announced."""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", -1.0)
    with progress.Progress(2_000_000, True, "rows") as bar:
        bar.update(500_000)
        task = bar.bar.tasks[0]
        assert task.fields["count"] == "500k of 2M rows" and "rows/s" in task.fields["speed"]
        bar.update(2_100_000)
        assert task.total == 3_000_000
    with progress.Progress(None, True) as bar:
        bar.update(12)
        assert bar.bar.tasks[0].fields["count"] == "12 steps"


def test_there_is_no_bar_where_stderr_is_closed(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stderr", None)
    assert progress.Progress(10).show is False
    closed = (tmp_path / "closed").open("w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert progress.Progress(10).show is False

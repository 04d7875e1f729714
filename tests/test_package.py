"""The package from outside: names, docstrings, README, command line, light imports."""

import ast
import doctest
import importlib
import inspect
import json
import operator
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import masgrad as mg
from masgrad import cli

ROOT = Path(__file__).parent.parent


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_masgrad_imports_nothing_heavy():
    """The bar is 0.4 s; a list of modules is what a busy machine cannot blur."""
    heavy = "{'jax', 'numpy', 'scipy', 'matplotlib', 'pandas', 'equinox', 'typer'}"
    assert python(f"import sys, masgrad; print({heavy} & set(sys.modules))") == "set()\n"
    rest = heavy.replace(", 'typer'", "")
    assert python(f"import sys, masgrad.cli; print({rest} & set(sys.modules))") == "set()\n"


def test_public_names_resolve_and_are_typed():
    stub = ast.parse((ROOT / "src/masgrad/__init__.pyi").read_text())
    typed = {a.asname for n in stub.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert typed | {"__version__"} == set(mg.__all__) == set(dir(mg))
    for name in mg.__all__:
        assert getattr(mg, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = mg.nonsense


PUBLIC = [n for n in mg.__all__ if n[0] != "_"] + [f"theory.{n}" for n in mg.theory.__all__]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented_and_their_examples_run(name):
    thing = operator.attrgetter(name)(mg)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    home = thing if inspect.ismodule(thing) else importlib.import_module(thing.__module__)
    finder = doctest.DocTestFinder(recurse=False)
    for test in finder.find(thing, name, module=home, globs=dict(vars(home))):
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
        assert result.failed == 0


def run_blocks(text: str, scope: dict) -> None:
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, scope)


def test_the_fit_pages_examples_run(capsys):
    scope: dict = {}
    run_blocks((ROOT / "docs/fit.md").read_text(), scope)
    assert scope["ratio"].mean[0] == pytest.approx(2 / 3, abs=0.02)
    r = scope["r"]
    assert np.abs((r.params - [0.0, 5.0, 0.0, 1.0, 2.0]) / r.bse).max() < 6
    assert r.params["site"].shape == (3,) and 0.5 < scope["half"].mean[0] < 2
    whole = mg.fit(scope["saturation"], scope["table"])
    np.testing.assert_allclose(r.params, whole.params, atol=1e-6)
    np.testing.assert_allclose(r.bse, whole.bse, rtol=1e-6)
    assert "51000" in capsys.readouterr().out


def test_the_glm_pages_examples_run(capsys):
    scope: dict = {}
    run_blocks((ROOT / "docs/glm.md").read_text(), scope)
    out = capsys.readouterr().out
    assert "region[T.south]" in out and "order of rows" in out
    assert np.abs(scope["r"].params - [1.0, 0.5, 0.0, 0.0, -1.0]).max() < 0.3


def test_the_penalty_pages_examples_run(capsys):
    scope: dict = {}
    run_blocks((ROOT / "docs/penalties.md").read_text(), scope)
    r = scope["r"]
    assert (r.penalized_params[1:3] != 0).all() and (r.penalized_params == 0).sum() > 5
    assert (scope["chain"].final == 0).mean() > 0.1
    assert "cv chose" in capsys.readouterr().out


def test_the_panel_pages_examples_run(capsys):
    scope: dict = {}
    run_blocks((ROOT / "docs/panels.md").read_text(), scope)
    r, out = scope["r"], capsys.readouterr().out
    assert abs(r.params["x"] - 1) < 5 * r.bse["x"] and "firm (400), year (10)" in out
    poisson = scope["poisson"]
    assert abs(poisson.params["x"] - 0.2) < 5 * poisson.bse["x"]
    assert "were left out for missing values: x" in out


def test_the_page_of_three_hospitals_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    run_blocks((ROOT / "docs/hospitals.md").read_text(), scope)
    second, whole, out = scope["second"], scope["whole"], capsys.readouterr().out
    assert np.abs((second.params - whole.params) / whole.bse).max() < 1e-6
    assert scope["first"].fit_info.remainder < 0.05 and scope["test"].pvalue < 0.001
    assert "sums at a point 2000" in out and "treatment = 'trial' (4)" in out


@pytest.mark.long
def test_the_theory_pages_examples_run(capsys):
    scope: dict = {}
    run_blocks((ROOT / "docs/theory.md").read_text(), scope)
    assert np.abs(scope["chain"].final.std(0) / scope["law"].sd - 1).max() < 0.3
    assert scope["field"].curl > 0.001 and "Acceleration" in capsys.readouterr().out


def test_the_readmes_examples_run_and_it_stays_short(capsys):
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 100
    scope: dict = {}
    run_blocks(text, scope)
    law = scope["law"]
    assert (scope["chain"].cov()[-1].diagonal() ** 0.5 / law.sd).min() > 0.5
    assert len(capsys.readouterr().out.splitlines()) >= 1
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / target).exists(), target


def masgrad(*args: str, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "masgrad.cli", *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | env
    )


def test_command_line(tmp_path):
    assert "paper" in masgrad("--help").stdout
    assert masgrad("--version").stdout == f"masgrad {mg.__version__}\n"
    cache, out = tmp_path / "cache", tmp_path / "new"
    args = ("paper", "linear", "--quick", "--out", str(out))
    done = masgrad(*args, XDG_CACHE_HOME=str(cache))
    assert len(list((cache / "masgrad" / "xla").iterdir())) > 4  # compiled programs are kept
    assert done.returncode == 0, done.stderr
    assert "diff_MasGrad" in done.stdout and "reproduced" in done.stdout
    assert (out / "linear.png").stat().st_size > 20_000
    assert len(json.loads((out / "linear.json").read_text())) > 3


@pytest.mark.long
def test_the_spread_over_seeds(tmp_path):
    done = masgrad("paper", "linear", "--quick", "--seeds", "2", "--out", str(tmp_path))
    assert done.returncode == 0
    spread = json.loads((tmp_path / "linear.json").read_text())["spread"]
    assert spread["seeds"] == [1, 2]
    assert len(set(spread["numbers"]["slope_ratio"]["values"])) == 2
    assert all(sum(count.values()) == 2 for count in spread["verdicts"].values())


@pytest.mark.long
@pytest.mark.parametrize(
    "name, words", [("rotation", "descent"), ("rates", "gradient descent"), ("laws", "integral")]
)
def test_the_studies_run(tmp_path, name, words):
    done = masgrad("paper", name, "--quick", "--out", str(tmp_path))
    assert done.returncode == 0 and words in done.stdout, done.stderr
    assert (tmp_path / f"{name}.png").stat().st_size > 20_000


CONSTANTS = ("--gamma", "2", "--gap", "1", "--dim", "4", "--v-max", "1.5", "--epsilon", "0.1")


def test_plan_prints_a_table(tmp_path):
    """From constants, and from a file: what the library says for the same rows."""
    done = masgrad("plan", "--alpha", "0.5", *CONSTANTS, "--delta", "0.3")
    assert done.returncode == 0, done.stderr
    cells = [[c.strip() for c in line.split("│")] for line in done.stdout.splitlines()]
    values = [(row[1], row[2]) for row in cells if len(row) == 5]
    for line in (("T", "12"), ("n", "480"), ("beta", "1920"), ("n T", "5,760"), ("T", "681")):
        assert line in values
    assert "stated are 654" in done.stdout
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    table["y"] = rng.poisson(np.exp(0.3 * table["a"]))
    table.to_parquet(tmp_path / "rows.parquet")
    wanted = ("--response", "y", "--model", "poisson", "--epsilon", "0.05", "--half-width", "0.02")
    done = masgrad("plan", str(tmp_path / "rows.parquet"), *wanted)
    assert done.returncode == 0, done.stderr
    X = np.column_stack([np.ones(300), table[["a", "b"]]])
    s = mg.theory.survey(mg.Poisson(), (X, table["y"]))
    plan = s.plan_convex(0.05)
    needed = mg.theory.rows_for_width(mg.Poisson(), (X, table["y"]), s.optimum, 0.02)
    for number in (plan.steps, plan.batch_size, plan.samples, needed.rows):
        assert f"{number:,}" in done.stdout
    assert "Intercept" in done.stdout


@pytest.mark.parametrize(
    "args, words",
    [
        (("--alpha", "0", *CONSTANTS), "strongly convex"),
        (("--alpha", "0.5", *CONSTANTS[2:]), "--gamma"),
        (CONSTANTS, "--delta"),
        (("none.csv", "--response", "y"), "none.csv"),
        (("none.csv",), "--response"),
        (("rows.txt", "--response", "y"), ".parquet"),
        (("rows.csv", "--response", "z"), "no column 'z'"),
        (("rows.csv", "--response", "y"), "'name' is not numeric"),
        (("rows.csv", "--response", "y", "--columns", "x"), "'x' has no value at row 1"),
        (("broken.csv", "--response", "y"), "broken.csv"),
        (("empty.csv", "--response", "y"), "no rows"),
        (("flat.csv", "--response", "y"), "--no-intercept"),
        (("flat.csv", "--response", "y", "--epsilon", "0.1", "--rows", "5"), "not both"),
        (("flat.csv", "--response", "y", "--level", "2"), "level=2"),
        (("broken.parquet", "--response", "y"), "broken.parquet cannot be read"),
        (("rows.csv", "--response", "y", "--columns", "y"), "name the response"),
        ((*CONSTANTS[:8], "--delta", "0.01", "--rows", "100"), "one step takes 10000"),
        (("--alpha", "0.5", *CONSTANTS, "--rows", "0"), "rows=0"),
        (("rows.csv", "--response", "y", "--model", "probit"), "probit"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("x,name,y\n1,a,2\n,b,3\n")
    Path("rows.txt").write_text("")
    Path("broken.csv").write_text("")
    Path("empty.csv").write_text("x,y\n")
    Path("flat.csv").write_text("x,y\n1,2\n1,3\n")
    Path("broken.parquet").write_text("PAR1 and nothing more PAR1")
    done = CliRunner().invoke(cli.app, ["plan", *args])
    assert done.exit_code != 0
    said = done.output + str(done.exception)
    assert words in said


def test_command_line_errors_are_messages(tmp_path):
    assert masgrad("paper", "logistic", "--seed", "-1").returncode == 2
    unknown = masgrad("paper", "quadratic")
    assert unknown.returncode != 0 and "quadratic" in unknown.stderr
    assert masgrad("paper", "laws", "--seeds", "3").returncode == 2
    (tmp_path / "file").write_text("")
    blocked = masgrad("paper", "logistic", "--out", str(tmp_path / "file"))
    assert blocked.returncode == 1
    for done in (unknown, blocked):
        assert "Traceback" not in done.stderr and done.stdout == ""

"""The package from outside: names, docstrings, README, command line, light imports."""

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import masgrad as mg

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


@pytest.mark.parametrize("name", [n for n in mg.__all__ if n[0] != "_"])
def test_public_names_are_documented_and_their_examples_run(name):
    thing = getattr(mg, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    home = thing if inspect.ismodule(thing) else importlib.import_module(thing.__module__)
    finder = doctest.DocTestFinder(recurse=False)
    for test in finder.find(thing, name, module=home, globs=dict(vars(home))):
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
        assert result.failed == 0


def test_the_readmes_examples_run_and_it_stays_short(capsys):
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 100
    scope: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, scope)
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
    cache = tmp_path / "cache"
    out = ("--quick", "--out", str(tmp_path / "new"))
    done = masgrad("paper", "logistic", *out, XDG_CACHE_HOME=str(cache))
    assert len(list((cache / "masgrad" / "xla").iterdir())) > 4  # compiled programs are kept
    assert done.returncode == 0, done.stderr
    assert "diff_MasGrad" in done.stdout and "W2" in done.stdout
    assert (tmp_path / "new" / "logistic.png").stat().st_size > 20_000
    done = masgrad("paper", "rotation", *out)
    assert done.returncode == 0 and "descent" in done.stdout, done.stderr
    assert (tmp_path / "new" / "rotation.png").stat().st_size > 20_000


def test_command_line_errors_are_messages(tmp_path):
    assert masgrad("paper", "logistic", "--seed", "-1").returncode == 2
    unknown = masgrad("paper", "quadratic")
    assert unknown.returncode != 0 and "quadratic" in unknown.stderr
    (tmp_path / "file").write_text("")
    blocked = masgrad("paper", "logistic", "--out", str(tmp_path / "file"))
    assert blocked.returncode == 1
    for done in (unknown, blocked):
        assert "Traceback" not in done.stderr and done.stdout == ""

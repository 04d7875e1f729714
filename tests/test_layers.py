"""Data flow one way: a short test that reads imports."""

import ast
import re
from pathlib import Path

import masgrad

ROOT = Path(masgrad.__file__).parent
# A file may import from its own layer and from those before it.
LAYERS = [
    [
        "version",
        "types",
        "errors",
        "files",
        "interrupts",
        "checks",
        "cores",
        "progress",
    ],
    ["stores"],
    ["distributed"],
    ["checkpoints"],
    ["data"],
    ["models"],
    ["covariance"],
    ["penalties"],
    ["kernels"],
    ["chains"],
    ["inference"],
    ["examples"],
    ["fitting"],
    ["theory"],
    ["plots", "planner", "modes"],
    ["paper"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# The same within data, by the second component.
DATA = [
    ["designs"],
    ["groupings"],
    [
        "arrays",
        "left_out",
        "regression",
        "source",
        "stream",
        "table",
        "simulate",
    ],
    ["tables"],
    ["formula", "matrices", "views", "shards"],
    ["opening"],
    ["table_rows"],
    ["table_source"],
    ["column_source"],
]


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """First component below masgrad of everything that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("masgrad.")}
    return found


def against_the_flow(path: Path) -> set[str]:
    own = layer_of(path)
    return {n for n in imported(path) if LEVEL[n] > LEVEL[own] or (LEVEL[n] == LEVEL[own] != 0)} - {
        own
    }


def test_no_import_goes_against_the_flow():
    files = [p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py"]
    assert len(files) > 25
    assert {layer_of(p) for p in files} == set(LEVEL)
    wrong = {str(p.relative_to(ROOT)): against_the_flow(p) for p in files}
    assert {k: v for k, v in wrong.items() if v} == {}


def test_data_become_rows_one_way():
    """Within data: arrays, then tables, then formulas, then the source that joins the two."""
    level = {name: k for k, names in enumerate(DATA) for name in names}
    files = [p for p in (ROOT / "data").rglob("*.py") if p != ROOT / "data" / "__init__.py"]
    second = {p: p.relative_to(ROOT / "data").parts[0].removesuffix(".py") for p in files}
    assert set(second.values()) == set(level)
    for path, own in second.items():
        used = re.findall(r"from masgrad\.data\.(\w+)", path.read_text())
        assert [name for name in used if level[name] > level[own]] == [], path


# Public signatures that callers use by position.
EXCEPTIONS = {
    "chains/run.py:run",  # kernel, model, data, theta0, steps, batch_size, chains, seed
    "theory/processes/bounds.py:wasserstein_bound",  # the seven symbols of the lemma, in its order
}


def positional(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    """The parameters that a caller may pass by position, but for self and cls."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def test_no_function_has_more_than_six_positional_parameters():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    long = {
        f"{path.relative_to(ROOT)}:{getattr(node, 'name', 'lambda')}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, kinds) and len(positional(node)) > 6
    }
    assert long == EXCEPTIONS


def test_the_check_sees_an_arrow_against_the_flow(tmp_path, monkeypatch):
    monkeypatch.setattr("test_layers.ROOT", tmp_path)
    (tmp_path / "models").mkdir()
    bad = tmp_path / "models" / "bad.py"
    bad.write_text("from masgrad.chains.run import run\nfrom masgrad.data import arrays\n")
    assert against_the_flow(bad) == {"chains"}


def test_no_module_shadows_a_public_name():
    modules = {p.stem for p in ROOT.iterdir() if p.suffix in ("", ".py")}
    assert not modules & (set(masgrad.__all__) - {"errors", "theory"})

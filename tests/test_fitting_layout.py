"""The house of `fitting`: its order, its records, and how many rooms a fit passes."""

import ast
import dataclasses
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import masgrad

ROOT = Path(masgrad.__file__).parent
FITTING = ROOT / "fitting"
ORDER = (
    *(
        "options",
        "journal",
        "keywords",
        "rows",
        "sources",
        "task",
        "objective",
        "spread",
        "identification",
        "optimise",
    ),
    *(
        "uncertainty",
        "status",
        "warn",
        "fitted",
        "later_rows",
        "assemble",
        "fit",
        "figures",
        "penalised",
        "merging",
    ),
    *("results", "levels", "effects", "api", "commands"),
)
"""A file may import from its own part of `fitting` and from those before it."""

FOR_THEIR_WEIGHT = {
    "masgrad.data.column_source",
    "masgrad.data.groupings.given",
    "masgrad.data.left_out",
    "masgrad.data.formula.terms",
    "masgrad.data.shards.shards",
    "masgrad.data.table_source",
    "masgrad.data.tables.frames",
    "masgrad.distributed.cluster",
    "masgrad.models.mixture",
    "masgrad.models.network",
    "masgrad.penalties.penalty",
    "masgrad.fitting.effects.fits.fit",
    "masgrad.fitting.effects.results.result",
    "masgrad.fitting.effects.results.storage",
    "masgrad.fitting.levels.fit",
    "masgrad.fitting.merging.merge",
    "masgrad.fitting.levels.result",
    "masgrad.fitting.penalised.path_plot",
    "masgrad.fitting.rows.dask_arrays",
    "masgrad.fitting.spread.keys",
    "masgrad.fitting.spread.spread",
    "masgrad.fitting.results.named",
    "masgrad.fitting.results.views.plots",
}
"""Imported inside a function because they bring NumPy (to the command line), pyarrow, JAX, pandas
or matplotlib, or a package that few fits need; nothing else is."""

MODULES = [p for p in ROOT.rglob("*.py") if p.name != "__init__.py"]


def name_of(path):
    return ".".join(("masgrad", *path.relative_to(ROOT).with_suffix("").parts))


KNOWN = {name_of(p): p for p in MODULES}


def imports(path, inside_functions):
    """Modules of masgrad that a file imports when it runs, at its top or inside functions."""
    found, tree = set(), ast.parse(path.read_text())
    typing_only = [
        n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)
    ]
    skipped = {child for node in typing_only for child in ast.walk(node)}
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    inner = {child for node in functions for child in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node in skipped:
            continue
        if (node in inner) == inside_functions:
            parts = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= parts & KNOWN.keys()
    return found


def test_no_import_goes_against_the_order_of_a_fit():
    level = {name: k for k, name in enumerate(ORDER)}
    files = [p for p in FITTING.rglob("*.py") if p != FITTING / "__init__.py"]
    part = {name_of(p): p.relative_to(FITTING).parts[0].removesuffix(".py") for p in files}
    assert set(part.values()) == set(ORDER)
    for path in files:
        own = level[part[name_of(path)]]
        used = imports(path, False) | imports(path, True)
        assert {n for n in used if n in part and level[part[n]] > own} == set(), path


def test_no_import_goes_in_a_circle():
    """Imports inside functions count as well: none of them breaks a cycle."""
    graph = {name: imports(path, False) | imports(path, True) for name, path in KNOWN.items()}
    order = list(TopologicalSorter(graph).static_order())  # a CycleError names the circle
    assert set(order) == KNOWN.keys()


def test_imports_inside_functions_are_for_their_weight():
    inside = {n for p in FITTING.rglob("*.py") for n in imports(p, True)}
    assert inside == FOR_THEIR_WEIGHT


def test_folders_and_files_are_small():
    for folder in (FITTING, *(p for p in FITTING.rglob("*") if p.is_dir()), ROOT / "data"):
        assert len([p for p in folder.glob("*.py") if p.name != "__init__.py"]) <= 13, folder
    for path in (*FITTING.rglob("*.py"), *(ROOT / "data").rglob("*.py")):
        assert len(path.read_text().splitlines()) <= 310, path


def test_records_are_frozen_and_the_monitor_has_one_writer():
    for name in KNOWN:
        if name.startswith("masgrad.fitting.") and not name.endswith("plots"):
            for value in vars(importlib.import_module(name)).values():
                own = getattr(value, "__module__", "").startswith("masgrad.fitting")
                if own and isinstance(value, type) and dataclasses.is_dataclass(value):
                    assert value.__dataclass_params__.frozen, value  # pyright: ignore
    for path in FITTING.rglob("*.py"):
        if path.name not in ("monitor.py", "passes.py", "reader.py"):
            assert written(path) == set(), path


def written(path):
    """Attributes that a file assigns on anything but `self`, such as monitor.interrupted."""
    nodes = ast.walk(ast.parse(path.read_text()))
    stored = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    allowed = {"self", "function", "warnings"}
    return {ast.unparse(n) for n in stored if ast.unparse(n.value) not in allowed}


FIT = """
import inspect, os, sys, tempfile, threading
import numpy as np, pandas as pd, masgrad as mg

rng, N = np.random.default_rng(0), {N}
table = pd.DataFrame({{"a": rng.normal(size=N), "g": rng.choice(list("uvw"), N)}})
table["y"] = (rng.random(N) < 1 / (1 + np.exp(-table.a))).astype(float)
folder = tempfile.mkdtemp()
table.to_parquet(folder + "/rows.parquet")
root, passed = os.path.dirname(mg.__file__), set()

def see(frame, event, arg):
    code = frame.f_code
    function = code.co_flags & inspect.CO_OPTIMIZED  # rather than the body of a module or a class
    if event == "call" and function and code.co_filename.startswith(root):
        passed.add(code.co_filename)

glm = mg.glm
threading.setprofile(see)
sys.setprofile(see)
glm("y ~ a + C(g)", folder + "/rows.parquet", family="binomial")
sys.setprofile(None)
print(len(passed), *sorted({{m.split(".")[1] for m in sys.modules if m.startswith("masgrad.")}}))
"""


@pytest.mark.parametrize("N", [1000, 50_000])
def test_a_fit_passes_few_files_and_loads_no_kernels(N):
    done = subprocess.run(
        [sys.executable, "-c", FIT.format(N=N)], capture_output=True, text=True, check=True
    )
    passed, *loaded = done.stdout.split()
    assert int(passed) <= 68
    assert not {"kernels", "chains", "theory", "paper"} & set(loaded)

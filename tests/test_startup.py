"""A process that fits once: the libraries that it does not load, and doors that load JAX later.

A list of modules is what a busy machine cannot blur; seconds are in benchmarks/startup.md.
"""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import masgrad as mg

HEAVY = (
    *("jax", "equinox", "pandas", "pyarrow", "formulaic", "narwhals", "matplotlib", "sklearn"),
    *("scipy.stats", "scipy.optimize", "scipy.sparse", "rich", "typer"),
    *("dask", "distributed", "fsspec"),
)
"""Each takes as long to import as a fit of 100,000 rows, or half of it."""

ROWS = """
import sys
import numpy as np, masgrad as mg

rng = np.random.default_rng(0)
X = rng.normal(size=(500, 3))
y = (rng.random(500) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.0]))).astype(float)
"""


def loaded(code: str, folder: Path) -> set[str]:
    """The heavy libraries that a process has loaded after this code."""
    code += f"\nprint('loaded:', *({set(HEAVY)!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder
    )
    return set(done.stdout.rsplit("loaded:", 1)[1].split())


@pytest.mark.parametrize(
    "use",
    [
        "r.conf_int(), r.pvalues, str(r.summary())",
        "r.conf_int(method='bonferroni'), r.wald_test(np.eye(3))",
        "r.predict(X), r.update((X, y))",
        "r.save('r.json'), mg.load('r.json')",
    ],
)
def test_a_fit_of_arrays_and_its_use_load_nothing_heavy(use, tmp_path):
    assert loaded(f"{ROWS}r = mg.fit(mg.Logistic(), (X, y))\n{use}", tmp_path) == set()


@pytest.mark.parametrize("penalty", ["L1('bic')", "L2(0.1)", "GroupLasso(0.01, [0, 0, 1])"])
def test_fits_with_a_penalty_load_nothing_heavy(penalty, tmp_path):
    assert loaded(f"{ROWS}mg.fit(mg.Logistic(), (X, y), penalty=mg.{penalty})", tmp_path) == set()


def test_sums_of_columns_in_a_csv_file_load_pyarrow_and_typer_alone(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y,a,g\n" + "".join(f"{k % 7},{k % 5},{'uvw'[k % 3]}\n" for k in range(100)))
    code = f"""
import sys
from masgrad import cli
cli.app(["fit", {str(path)!r}, "--formula", "y ~ a + C(g)", "--quiet"], standalone_mode=False)
"""
    assert loaded(code, tmp_path) <= {"pyarrow", "typer", "rich"}


@pytest.mark.parametrize(
    "later",
    [
        "mg.fit(mg.Logistic(), (X, y)).predict(X, 0.95).to_numpy()",
        pytest.param(
            "mg.fit(mg.Logistic(), (X, y)).law.push(lambda theta: theta[0] / theta[1]).cov",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "mg.run(mg.madprox(0.1, penalty), mg.Logistic(), (X, y), np.zeros(3), 20, 10, 3).theta",
            marks=pytest.mark.long,
        ),
        "mg.moments(mg.Logistic(), np.ones(3), (X, y)).root().matrix()",
    ],
)
def test_doors_are_float64_whether_jax_is_loaded_before_or_behind_them(later):
    """JAX may come after the package and its penalties; no digit depends on it."""
    code = f"{ROWS}mg.fit(mg.Logistic(), (X, y))\npenalty = mg.L1(0.01)\nfound = {later}\n"
    code += "assert found.dtype == float\nprint(found.tobytes().hex())"
    first, second = (
        subprocess.run(
            [sys.executable, "-c", before + code], capture_output=True, text=True, check=True
        ).stdout
        for before in ("import jax\n", "")
    )
    assert first == second != ""


@pytest.mark.parametrize(
    "model",
    [
        *(mg.Logistic(), mg.Tweedie(1.5), mg.TraceRegression(2, 3)),
        *(mg.GaussianMixture(2, 0.5), mg.ReluNetwork(2, 3), mg.CustomLoss(np.dot, 2)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_are_records_that_compare_and_travel(model):
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert other == model and hash(other) == hash(model)
    assert model != mg.Linear()
    with pytest.raises(AttributeError):
        model.family = None

"""`mg.landscape`: stationary points against closed forms, SciPy and refits without a row."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import masgrad as mg
from masgrad.errors import InputError, InputTypeError, InterruptedWarning
from test_package import run_blocks

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

import landscape as study

UNITS = mg.Exchangeable([[0, 2, 4], [1, 3, 5]], flips=True)


def three_clusters(rows=1500):
    rng = np.random.default_rng(0)
    return rng.choice([-8.0, 0.0, 3.5], rows) + 1.2 * rng.normal(size=rows)


def double_well(theta, z):
    """Two wells along the first axis, of unequal depth, and a parabola along the second."""
    return (theta[0] ** 2 - 1) ** 2 / 4 + 0.1 * theta[0] * z[0] + (theta[1] - z[1]) ** 2 / 2


@pytest.fixture(scope="module")
def wells():
    z = 1 + 0.1 * np.random.default_rng(1).normal(size=(400, 2))
    return z, mg.landscape(mg.CustomLoss(double_well, 2), z, starts=8)


def test_the_stationary_points_of_a_double_well_are_the_roots_of_a_cubic(wells):
    z, found = wells
    slope = 0.1 * z[:, 0].mean()
    roots = np.sort(np.roots([1.0, 0.0, -1.0, slope]).real)
    risks = [mg.CustomLoss(double_well, 2).risk([t, z[:, 1].mean()], z) for t in roots]
    order = np.argsort(risks)
    assert np.allclose([point.theta[0] for point in found], roots[order], atol=1e-9)
    assert np.allclose([point.theta[1] for point in found], z[:, 1].mean(), atol=1e-9)
    assert np.allclose([point.risk for point in found], np.array(risks)[order], atol=1e-12)
    assert [point.kind for point in found] == ["minimum", "minimum", "saddle"]
    assert found[2].signature == (1, 1, 0)
    assert found[0].share + found[1].share == 1.0 and found.lost == 0
    assert found.is_morse and all(point.is_matched for point in found)


def test_records_are_sequences_with_results_at_minima(wells):
    _, found = wells
    assert len(found) == 3 and list(found) == [found[k] for k in range(3)] == list(found.modes)
    assert found[-1].result is None
    for point in found.minima:
        assert np.allclose(point.result.params, point.theta, atol=1e-6)
        assert (np.abs(point.result.conf_int().mean(1) - point.theta) < 1e-6).all()
    text = found.summary()
    assert text.count("minimum") == 2 and "Strongly Morse as far as was seen" in text
    assert "2 minima, 1 saddles" in repr(found) and "saddle" in repr(found[2])


def test_the_saddle_of_two_components_is_at_the_mean_of_the_rows():
    rng = np.random.default_rng(0)
    z = rng.choice([-1.5, 1.8], 1000) + rng.normal(size=1000)
    model = mg.GaussianMixture(2, 1.0)
    low, saddle = mg.landscape(model, z, starts=4)
    best = minimize(lambda t: model.risk(t, z), [-1.0, 1.0], method="BFGS", tol=1e-9)
    assert np.allclose(low.theta, np.sort(best.x), atol=1e-5) and low.share == 1.0
    assert np.allclose(saddle.theta, z.mean(), atol=1e-9) and saddle.signature == (1, 1, 0)


def test_three_components_have_a_minimum_that_is_only_local():
    """Two components may share the far cluster; its result is that minimum's own."""
    z, model = three_clusters(), mg.GaussianMixture(3, 1.0)
    starts = np.array([[-8.0, 0.0, 3.5], [-9.0, -7.0, 1.5], [1.5, -7.0, -9.0], [3.5, 0.0, -8.0]])
    found = mg.landscape(model, z, starts)
    assert len(found.minima) == 2
    for point, start in zip(found.minima, starts, strict=False):
        own = minimize(lambda t: model.risk(t, z), start, method="BFGS", tol=1e-9)
        assert point.risk == pytest.approx(own.fun, abs=1e-9) and point.share == 0.5
        assert np.allclose(point.theta, own.x, atol=1e-4)
        assert np.allclose(point.result.params, own.x, atol=1e-4)
    assert found.minima[1].risk > found.minima[0].risk + 0.5


def test_equal_points_are_one_also_without_a_declared_symmetry():
    population = study.POPULATIONS["network"]
    rows = population.draw(np.random.default_rng(0), 500)
    starts = np.random.default_rng(1).normal(size=(5, 7))
    flipped = starts * np.array([-1.0, 1, -1, 1, -1, 1, 1])
    copies = np.concatenate([starts, starts[:, [1, 0, 3, 2, 5, 4, 6]], flipped])
    keywords = {"saddles": False, "halves": False, "results": False}
    declared, found = (
        mg.landscape(population.model, rows, copies, symmetry=symmetry, **keywords)
        for symmetry in (UNITS, None)
    )
    assert [point.risk for point in found] == pytest.approx([point.risk for point in declared])
    assert [point.share for point in found] == [point.share for point in declared]
    for point in declared:
        assert (UNITS(point.theta) == point.theta).all()


def test_units_change_places_and_signs():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=7)
    images = [theta, *UNITS.neighbours(theta)]
    assert len(images) == 4
    for image in images:
        assert (UNITS(image) == UNITS(theta)).all()
        noisy = image + 1e-3 * rng.normal(size=7)
        assert np.allclose(UNITS.nearest(theta, noisy), image)
    X = rng.normal(size=(50, 2))
    for model, data, p in (
        (mg.GaussianMixture(3, 1.0), X[:, 0], 3),
        (mg.ReluNetwork(2, 3), (X, X[:, 0]), 9),
    ):
        at = rng.normal(size=p)
        own = mg.Exchangeable(model.units(model.rows(data)))
        for image in own.neighbours(at):
            assert (image != at).any()
            assert model.risk(image, data) == pytest.approx(model.risk(at, data))


def test_components_with_known_unequal_weights_do_not_change_places():
    """Each order of the means is a minimum of its own."""
    rng = np.random.default_rng(1)
    z = np.where(rng.random(1000) < 0.3, -2.0, 2.0) + rng.normal(size=1000)
    model = mg.GaussianMixture(2, 1.0, weights=[0.3, 0.7])
    found = mg.landscape(model, z, starts=8, halves=False)
    best, other = (point.theta for point in found.minima)
    assert best[0] < 0 < best[1] and other[0] > 0 > other[1]


def test_a_mixture_of_more_components_than_clusters_is_not_strongly_morse():
    """Two equal means are a minimum of fourth order in the population: H is 0 along one axis."""
    z = np.random.default_rng(0).normal(size=2000)
    found = mg.landscape(mg.GaussianMixture(2, 1.0), z, starts=4, results=False)
    merged = min(found, key=lambda point: np.ptp(point.theta))
    assert np.allclose(merged.theta, z.mean()) and not merged.is_morse and not found.is_morse
    assert "doubtful" in found.summary()


def log_cosh(theta, z):
    return jnp.log(jnp.cosh(theta[0] - z))


@pytest.mark.long
def test_the_margin_is_a_ratio_to_the_jackknifes_standard_error():
    z, model = np.random.default_rng(0).gamma(2.0, size=150), mg.CustomLoss(log_cosh, 1)

    def curvature(rows):
        root = minimize(lambda t: model.risk(t, rows), [2.0], method="BFGS", tol=1e-10).x
        return float(np.mean(np.cosh(root - rows) ** -2.0))

    left_out = np.array([curvature(np.delete(z, i)) for i in range(len(z))])
    error = np.sqrt((len(z) - 1) * left_out.var())
    (point,) = mg.landscape(model, z, starts=2, halves=False, results=False)
    assert point.margin == pytest.approx(curvature(z) / error, rel=0.03)


def test_a_convex_loss_has_one_point_that_is_its_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    (point,) = mg.landscape(mg.Logistic(), (X, y), starts=3, weights=np.full(300, 2.0))
    r = mg.fit(mg.Logistic(), (X, y), weights=np.full(300, 2.0))
    assert np.allclose(point.theta, r.params, atol=1e-8) and point.share == 1.0
    assert np.allclose(point.result.bse, r.bse, rtol=1e-8)


def test_many_rows_are_searched_in_part_and_fitted_as_a_whole():
    z = np.tile(three_clusters(3000), 4)
    found = mg.landscape(mg.GaussianMixture(3, 1.0), z, starts=2, saddles=False, halves=False)
    assert found.rows == 8192 and found.nobs == 12_000 and "8,192 pilot rows" in found.summary()
    whole = mg.fit(mg.GaussianMixture(3, 1.0), z, start=found[0].theta)
    assert found[0].result.nobs == 12_000
    assert np.allclose(found[0].result.params, whole.params)


def test_ctrl_c_gives_what_was_found(monkeypatch):
    import masgrad.modes.search as search

    descend, calls = search.descend, []

    def interrupted(surface, phi):
        calls.append(phi)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return descend(surface, phi)

    monkeypatch.setattr(search, "descend", interrupted)
    with pytest.warns(InterruptedWarning, match="found until then"):
        found = mg.landscape(mg.GaussianMixture(2, 1.0), three_clusters(200), starts=5)
    assert found.interrupted and found.starts == 2 and len(found) >= 1
    assert not found.is_morse and "Interrupted" in found.summary()


def test_a_fit_that_refuses_leaves_a_note(monkeypatch):
    def refuses(*args, **keywords):
        raise InputError("no intervals here")

    monkeypatch.setattr("masgrad.modes.api.fit", refuses)
    z = three_clusters(200)
    found = mg.landscape(mg.GaussianMixture(3, 1.0), z, starts=2, saddles=False, halves=False)
    assert found[0].result is None and "no intervals here" in found.summary()


def test_the_picture_is_saved(tmp_path, wells):
    _, found = wells
    found.plot(tmp_path / "wells.png")
    assert (tmp_path / "wells.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="a name that ends in"):
        found.plot(tmp_path / "wells.txt")


@pytest.mark.parametrize(
    "change, words, error",
    [
        ({"starts": 0}, "starts=0; at least 1", InputError),
        ({"starts": "many"}, "whole number", InputTypeError),
        ({"starts": [[0.0, 1.0]]}, r"theta has shape \(2,\)", InputError),
        ({"starts": [0.0, 1.0, 2.0]}, r"starts has shape \(3,\)", InputError),
        ({"symmetry": 3}, "a function from theta", InputTypeError),
        ({"symmetry": lambda t: t[:2]}, r"returns shape \(2,\)", InputError),
        ({"symmetry": lambda t: t + 1}, "changes the mean loss", InputError),
        ({"symmetry": mg.Exchangeable([[2], [3]])}, "names parameter 3", InputError),
        ({"penalty": mg.L2(1.0)}, "penalty", InputTypeError),
        ({"start": [0.0]}, "did you mean 'starts'", InputTypeError),
        ({"model": mg.ReluNetwork(1, 2)}, "ReluNetwork has kinks", InputError),
        ({"data": iter([np.ones(9)])}, "an iterator can be read once", InputError),
    ],
)
def test_what_cannot_be_searched_is_refused(change, words, error):
    model = mg.GaussianMixture(3, 1.0)
    given = {"model": model, "data": three_clusters(100), "starts": 1} | change
    with pytest.raises(error, match=words):
        mg.landscape(**given)


def test_a_loss_with_kinks_loses_its_starts_and_says_so():
    """A median: the mean gradient of |z - t| over an odd number of rows jumps over 0."""
    z = np.random.default_rng(0).normal(size=101)
    found = mg.landscape(mg.CustomLoss(lambda t, z: jnp.abs(z - t[0]), 1), z, starts=3)
    assert len(found) == 0 and found.lost == 3
    assert "have kinks" in found.summary()


@pytest.mark.parametrize("units", [[0, 1], [[0.5], [1.0]], [[0, 1], [1, 2]], [[-1], [0]]])
def test_units_that_are_none_are_refused(units):
    with pytest.raises(InputError, match="units="):
        mg.Exchangeable(units)


def test_the_pages_examples_run(capsys):
    scope: dict = {}
    page = Path(__file__).resolve().parents[1] / "docs/landscape.md"
    run_blocks(page.read_text(), scope)
    text = capsys.readouterr().out
    assert [line.split()[1] for line in text.splitlines()[3:8]] == [p.kind for p in scope["found"]]
    assert text.splitlines()[2] in page.read_text()  # the header of the table that it shows
    assert [point.kind for point in scope["found"].minima] == ["minimum"] * 2


def test_the_studys_modes_are_the_truth_where_the_model_is(monkeypatch):
    """The quadrature of the coverage study, and one of its replications."""
    monkeypatch.setattr(study, "SEARCHES", 4)
    ((theta, _),) = study.modes("two")
    assert np.allclose(theta, [-1.5, 1.5], atol=1e-4)
    record = study.replicate("two", 0)
    assert len(record["modes"]) == 1 and len(record["modes"][0]) == 2
    assert record["without"] == record["others"] == 0

"""Losses that need not be convex: minima from any start, and no saddle among the estimates."""

import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError
from masgrad.fitting.optimise.nonconvex.trust_region import Quadratic

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import nonconvex
import nonconvex_problems

# The step.


@pytest.mark.parametrize("seed", range(8))
def test_the_step_is_the_lowest_point_of_the_ball(rng, seed):
    """Against many points of the ball, for definite, indefinite and singular H."""
    rng = np.random.default_rng(seed)
    values = np.sort(rng.normal(size=4) + (2 if seed < 2 else 0))
    values[seed % 4] = 0.0 if seed == 5 else values[seed % 4]
    values = np.sort(values)
    model, radius = Quadratic(values, rng.normal(size=4)), float(rng.uniform(0.1, 3))
    u = model.minimum(radius)
    assert np.linalg.norm(u) <= radius * 1.001
    w = rng.normal(size=(200_000, 4))
    w *= radius * rng.random((len(w), 1)) ** 0.25 / np.linalg.norm(w, axis=1, keepdims=True)
    lowest = (w @ model.slope + np.square(w) @ values / 2).min()
    assert model(u) <= lowest + 1e-9


def test_the_step_leaves_a_saddle_and_a_maximum():
    """The hard case: the gradient is 0 along the negative eigenvector, or altogether."""
    u = Quadratic(np.array([-1.0, 2.0]), np.array([0.0, 0.5])).minimum(2.0)
    np.testing.assert_allclose(np.linalg.norm(u), 2.0)
    np.testing.assert_allclose(u[1], -0.5 / 3)
    np.testing.assert_allclose(np.abs(Quadratic(np.array([-3.0]), np.zeros(1)).minimum(0.7)), 0.7)
    assert not Quadratic(np.array([0.0, 1.0]), np.zeros(2)).minimum(5.0).any()


def test_the_step_is_newtons_where_it_fits():
    model = Quadratic(np.array([1.0, 4.0]), np.array([1.0, -2.0]))
    np.testing.assert_allclose(model.minimum(10.0), [-1.0, 0.5])


# No saddle is an estimate.


def line(rng, N=3000):
    x = rng.normal(size=N)
    return {"x": x, "y": 2 * x + rng.normal(size=N)}


def test_a_product_of_coefficients(rng):
    """At 0, a saddle, the diagonal of H vanishes and the rest does not."""
    rows = line(rng)
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z["y"] - t[2] - z["x"] * t[0] * t[1]) ** 2, dim=3)
    with pytest.warns(IdentificationWarning, match="flat in 1 of 3 directions"):
        r = mg.fit(loss, rows)
    plain = mg.fit(mg.Linear(), (np.column_stack([np.ones(3000), rows["x"]]), rows["y"]))
    np.testing.assert_allclose([r.params[2], r.bse[2]], [plain.params[0], plain.bse[0]], rtol=1e-6)
    assert np.isinf(r.bse[:2]).all()
    law = r.law.push(lambda t: t[0] * t[1])
    np.testing.assert_allclose([law.mean[0], law.sd[0]], [plain.params[1], plain.bse[1]], rtol=1e-6)
    best = np.mean((rows["y"] - plain.predict(np.column_stack([np.ones(3000), rows["x"]]))) ** 2)
    np.testing.assert_allclose(loss.risk(r.theta, rows), best / 2)


def test_a_start_at_which_the_gradient_of_every_row_vanishes(rng):
    """There V is 0, and steps are measured in the units of theta."""
    rows = line(rng)

    def loss(t, z):
        return 0.5 * (z["y"] - z["x"] * t[0] * t[1]) ** 2 + (t[0] - t[1]) ** 2

    r = mg.fit(mg.CustomLoss(loss, 2), rows)
    slope = mg.fit(mg.Linear(), (rows["x"][:, None], rows["y"]))
    law = r.law.push(lambda t: t[0] * t[1])
    np.testing.assert_allclose(r.params[0], r.params[1], rtol=1e-9)
    np.testing.assert_allclose([law.mean[0], law.sd[0]], [slope.params[0], slope.bse[0]], rtol=1e-6)


# Units, plateaus, rows in any order.


def student(t, z):
    """Of the t law with 3 degrees of freedom, with the logarithm of its scale."""
    u = (z["y"] - t[0] - t[1] * z["x"]) / jnp.exp(t[2])
    return 2 * jnp.log1p(u**2 / 3) + t[2]


def heavy(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return {"x": x, "y": 5 + 2 * x + rng.standard_t(3, size=n)}


@pytest.mark.parametrize("size", [1e-6, 1e-4, 1e5])
@pytest.mark.parametrize("n", [500, 40_000])
def test_a_scale_far_from_its_start_is_identified(size, n):
    """At the estimate gradients of the scale are `size` times those of the others."""
    rows = heavy(n)
    begin = {"start": [0.0, 0.0, 0.0]} if size < 1 else {"starts": 3}
    plain = mg.fit(mg.CustomLoss(student, 3), rows, start=[5.0, 2.0, 0.0])
    r = mg.fit(mg.CustomLoss(student, 3), rows | {"y": rows["y"] * size}, **begin)
    units = np.array([size, size, 1.0])
    away = (r.params - [0, 0, np.log(size)]) / units - plain.params
    assert np.abs(away / plain.bse).max() < 2e-3
    np.testing.assert_allclose(r.bse / units, plain.bse, rtol=1e-3)


def test_a_far_start_of_a_scale():
    rows = heavy(500)
    found = [
        mg.fit(mg.CustomLoss(student, 3), rows, start=[0.0, 0.0, t]) for t in (0.0, 10.0, 15.0)
    ]
    np.testing.assert_allclose([r.params for r in found], [found[0].params] * 3, rtol=1e-6)


def test_a_flat_valley_has_no_interval():
    """A tanh unit on noise: weights go to infinity, ever more slowly, and the loss hardly falls."""
    rng = np.random.default_rng(5)
    rows = {"x": rng.normal(size=3000), "y": rng.normal(size=3000)}

    def loss(t, z):
        return 0.5 * (z["y"] - t[3] - t[2] * jnp.tanh(t[0] * z["x"] + t[1])) ** 2

    refused = 0
    for start in np.random.default_rng(1).normal(size=(8, 4)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                r = mg.fit(mg.CustomLoss(loss, 4), rows, start=start)
        except InputError as error:
            assert "still falls" in str(error)
            refused += 1
            continue
        assert r.status is mg.Status.NOT_IDENTIFIED
        far = np.abs(r.params) > 100
        assert (r.bse[far] > np.abs(r.params[far])).all()
    assert refused <= 2


def test_a_curvature_within_its_sampling_error_has_a_note():
    """Two components for one cluster: at equal means H is 0 along their difference."""
    said = []
    for apart in (0.0, 2.0):
        for seed in range(4):
            rng = np.random.default_rng(seed)
            z = rng.choice([0.0, apart], 2000) + rng.normal(size=2000)
            said.append("H has an eigenvalue of" in mg.fit(mg.GaussianMixture(2, 1.0), z).summary())
    assert said == [True] * 4 + [False] * 4


@pytest.mark.parametrize("level", [2.0, 5.0, 10.0])
def test_a_redescending_loss_with_a_rare_dummy(level):
    """A first step that is long in theta, where gradients are small, ended on the plateau."""
    rng = np.random.default_rng(0)
    rare = (rng.random(20_000) < 0.02) * 1.0
    X = np.column_stack([np.ones(20_000), rng.normal(size=20_000), rare])
    rows = {"x": X, "y": X @ [level, 1, -1] + rng.standard_t(3, size=20_000)}
    model = mg.CustomLoss(lambda t, z: 1 - jnp.exp(-(((z["y"] - z["x"] @ t) / 2) ** 2) / 2), 3)
    r = mg.fit(model, rows)
    best = mg.fit(model, rows, start=[level, 1.0, -1.0])
    np.testing.assert_allclose(r.params, best.params, atol=1e-6)
    assert r.status is mg.Status.CONVERGED


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
@pytest.mark.parametrize("by", ["x", "y"])
def test_a_sorted_file_of_one_piece(by, tmp_path):
    """Its pilot rows are the first ones, which say nothing of the others."""
    frame = pd.DataFrame(heavy(100_000)).sort_values(by)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=len(frame))
    model = mg.CustomLoss(student, 3)
    plain = mg.fit(model, frame)
    for begin in ({}, {"start": [5.0, 2.0, 0.0]}, {"passes": "converge"}):
        r = mg.fit(model, tmp_path / "rows.parquet", **begin)
        assert np.abs((r.params - plain.params) / plain.bse).max() < 0.01
        np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
def test_a_sorted_stream_of_a_mixture():
    rng = np.random.default_rng(0)
    z = np.sort(np.where(rng.random(60_000) < 0.5, -2.0, 2.0) + rng.normal(size=60_000))
    model = mg.GaussianMixture(2, 1.0)
    r = mg.fit(model, mg.Stream(lambda: (z[k : k + 5000] for k in range(0, 60_000, 5000))))
    plain = mg.fit(model, z)
    assert np.abs((r.params - plain.params) / plain.bse).max() < 0.01


def test_random_starts_are_in_the_units_of_columns():
    """A column in units of a millionth: starts of size 1 were all on the plateau."""
    rows = heavy(2000)
    rows = {"x": rows["x"] * 1e6, "y": rows["y"] - 5}
    model = mg.CustomLoss(
        lambda t, z: 1 - jnp.exp(-(((z["y"] - t[0] - t[1] * z["x"]) / 3) ** 2) / 2), 2
    )
    r = mg.fit(model, rows, starts=10)
    np.testing.assert_allclose(r.params * [1, 1e6], [0.0, 2.0], atol=0.2)
    assert len(mg.landscape(model, rows, starts=5, halves=False, saddles=False).minima) >= 1


def test_a_start_and_starts_exclude_each_other():
    model = mg.CustomLoss(lambda t, z: (t[0] ** 2 - z) ** 2, 1)
    with pytest.raises(InputError, match="two ways to begin"):
        mg.fit(model, np.ones(50), start=[1.0], starts=3)


def test_a_small_entry_of_a_flat_direction_counts():
    """Functions that are constant along it have their errors whichever way it points."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    rows = {"x": x, "y": x @ [2.0, 1e-4] + 0.1 * rng.normal(size=500)}

    def loss(t, z):  # t[0] may take any share of the first slope
        return 0.5 * (z["y"] - z["x"][0] * t[0] * t[1] - z["x"][1] * t[2] * t[1]) ** 2

    for scale in (1.0, 3e3):
        with pytest.warns(IdentificationWarning):
            r = mg.fit(mg.CustomLoss(loss, 3), rows, start=[scale, 2 / scale, 1e-4 * scale])
        law = r.law.push(lambda t: jnp.array([t[0] * t[1], t[2] * t[1]]))
        plain = mg.fit(mg.Linear(), (x, rows["y"]))
        np.testing.assert_allclose(law.sd, plain.bse, rtol=1e-4)
        assert np.isinf(r.bse).all()


def test_units_of_a_fit_are_in_order():
    """Components of a mixture and hidden units are those of their representative."""
    rng = np.random.default_rng(3)
    z = rng.choice([4.0, -1.0, -7.0], 2000) + rng.normal(size=2000)
    means = [mg.fit(mg.GaussianMixture(3, 1.0), z, seed=seed).params for seed in range(4)]
    np.testing.assert_allclose(means, [means[0]] * 4, rtol=1e-8)
    assert (np.diff(means[0]) > 0).all()
    assert mg.fit(mg.GaussianMixture(3, 1.0), z, start=[4.0, -1.0, -7.0]).params[0] > 3


def product(t, z):
    return 0.5 * (z["y"] - t[2] - z["x"] * t[0] * t[1]) ** 2


@pytest.mark.parametrize("order", [None, "x"])
def test_a_product_of_coefficients_in_many_rows(order):
    """Reads that end beside the minimum, where the flat direction has a curvature, gave sorted rows
    standard errors of 0.001 for coefficients that are not identified."""
    rows = line(np.random.default_rng(909), 100_000)
    by = slice(None) if order is None else np.argsort(rows["x"])
    rows = {name: column[by] for name, column in rows.items()}
    with pytest.warns(IdentificationWarning, match="flat in 1 of 3 directions"):
        r = mg.fit(mg.CustomLoss(product, dim=3), rows)
    X = np.column_stack([np.ones(100_000), rows["x"]])
    plain, law = mg.fit(mg.Linear(), (X, rows["y"])), r.law.push(lambda t: t[0] * t[1])
    found = [r.params[2], r.bse[2], law.mean[0], law.sd[0]]
    exact = [plain.params[0], plain.bse[0], plain.params[1], plain.bse[1]]
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-8)
    assert np.isinf(r.bse[:2]).all() and r.status is mg.Status.NOT_IDENTIFIED
    assert r.fit_info.remainder < 1e-6


def test_flat_directions_of_rows_that_are_read_too_seldom():
    """One read, or a number of them, cannot tell flat directions from others."""
    rows = line(np.random.default_rng(909), 100_000)
    model = mg.CustomLoss(product, dim=3)
    with pytest.raises(InputError, match=r"with 1 read flat directions .* read again"):
        mg.fit(model, rows, passes=1)
    with pytest.raises(InputError, match="with 2 reads flat directions"):
        mg.fit(model, rows, passes=2)


def test_flat_directions_of_the_pilot_rows_alone():
    """A dummy that none of the pilot rows has is identified by the others."""
    rng = np.random.default_rng(4)
    rows = line(rng, 200_000) | {"rare": np.zeros(200_000)}
    at = np.arange(150_000, 150_060)
    rows["rare"][at] = 1.0
    rows["y"][at] += 5.0

    def loss(t, z):
        return jnp.sqrt(1 + (z["y"] - t[0] - t[1] * z["x"] - t[2] * z["rare"]) ** 2)

    model = mg.CustomLoss(loss, dim=3)
    r = mg.fit(model, rows)
    m = mg.moments(model, r.theta, rows)
    bread = np.linalg.inv(m.hessian)
    errors = np.sqrt(np.diag(bread @ (m.cov + np.outer(m.mean, m.mean)) @ bread) / m.count)
    np.testing.assert_allclose(r.bse, errors, rtol=1e-3)
    assert np.abs(bread @ m.mean / errors).max() < 1e-3
    assert abs(r.params[2] - 5) < 5 * errors[2]


def test_ctrl_c_while_a_flat_loss_is_read(monkeypatch):
    """The minimum of the pilot rows is kept, and says what it is."""
    from masgrad.fitting.objective.reader import Reader

    real, reads = Reader.read, []

    def read(self, *args, **options):
        reads.append(0)
        self.monitor.interrupted |= len(reads) == 3
        return real(self, *args, **options)

    monkeypatch.setattr(Reader, "read", read)
    with pytest.warns(mg.errors.MasgradWarning):
        r = mg.fit(mg.CustomLoss(product, dim=3), line(np.random.default_rng(909), 100_000))
    assert r.status is mg.Status.INTERRUPTED and r.nobs < 100_000
    assert np.isinf(r.bse[:2]).all() and abs(r.params[2]) < 0.1


def test_a_tanh_network_from_0(rng):
    """All weights 0 is a saddle, at which the bias alone has a slope."""
    rows = line(rng)
    rows["y"] = np.tanh(1.5 * rows["x"]) + 0.2 + 0.3 * rng.normal(size=3000)

    def loss(t, z):
        mean = t[6] + jnp.tanh(t[:2] * z["x"] + t[2:4]) @ t[4:6]
        return 0.5 * (z["y"] - mean) ** 2 + 0.5e-3 * jnp.sum(t**2)

    model = mg.CustomLoss(loss, 7)
    r = mg.fit(model, rows)
    assert np.linalg.eigvalsh(mg.moments(model, r.theta, rows).hessian)[0] > 0
    assert np.abs(model.gradients(r.theta, rows).mean(0)).max() < 1e-8
    assert model.risk(r.theta, rows) < 0.06
    assert any("Local" in note for note in r.notes)
    # one unit is hardly needed: smooth, and far from a quadratic within one standard error
    assert any("not near a quadratic" in note for note in r.notes)


@pytest.mark.parametrize("start", [0.0, np.pi / 2])
def test_a_loss_without_noise(rng, start):
    z = rng.normal(size=400)
    r = mg.fit(mg.CustomLoss(lambda t, z: jnp.cos(t[0]) + 0 * z, 1), z, start=[start])
    np.testing.assert_allclose(np.abs(r.params), np.pi)
    np.testing.assert_allclose(r.bse, 0.0, atol=1e-12)


# Far and rough starts.


def huber(t, z):
    away = jnp.abs(z["y"] - t[0] - z["x"] * t[1])
    return jnp.where(away < 1.345, 0.5 * away**2, 1.345 * (away - 0.6725))


def pseudo_huber(t, z):
    return jnp.sqrt(1 + (z["y"] - t[0] - z["x"] * t[1]) ** 2) - 1


def quantile(t, z):
    u = z["y"] - t[0] - z["x"] * t[1]
    return 0.9 * u + 0.1 * jax.nn.softplus(-u / 0.1)


@pytest.mark.parametrize(
    ("loss", "shift", "slope"),
    [
        (huber, 10, 0),
        (huber, 1000, 0),
        (pseudo_huber, 1e6, 0),
        (quantile, 5, 0),
        (huber, 0, 1e4),
        (quantile, 1000, 1e4),
    ],
)
def test_far_starts(rng, loss, shift, slope):
    """The estimate moves with the data: as from a start nearby, with the same errors."""
    near = line(rng)
    far = {"x": near["x"], "y": near["y"] + shift + slope * near["x"]}
    model = mg.CustomLoss(loss, 2)
    a, b = mg.fit(model, near), mg.fit(model, far)
    np.testing.assert_allclose((b.params - a.params - [shift, slope]) / a.bse, 0, atol=1e-3)
    np.testing.assert_allclose(b.bse, a.bse, rtol=1e-3)


def test_far_from_collinear_columns(rng):
    """A year, columns of small and of similar values: V says where gradients vary."""
    year, z = rng.normal(2000, 10, 2000), rng.normal(size=(2000, 2))
    X = np.column_stack([np.ones(2000), year, 1e-3 * z[:, 0], z[:, 1], z[:, 1] + 0.1 * z[:, 0]])
    y = X @ [5, 1, 200, 3, -2] + rng.normal(size=2000)

    def loss(t, z):
        away = jnp.abs(z[1] - z[0] @ t)
        return jnp.where(away < 1, 0.5 * away**2, away - 0.5)

    X = X[:, :4]
    r = mg.fit(mg.CustomLoss(loss, 4), (X, y))
    gradient = mg.CustomLoss(loss, 4).gradients(r.theta, (X, y)).mean(0)
    assert np.abs(gradient / np.abs(X).max(0)).max() < 1e-8


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda t, z: jnp.exp(-t[0]) * (1 + z**2), "keeps falling"),
        (lambda t, z: t[0] * (1 + z**2), "the loss is linear, or has kinks"),
        (lambda t, z: jnp.maximum(0.5 * (z - t[0]), 0.5 * (t[0] - z)), "has kinks"),
    ],
)
def test_what_has_no_minimum_or_no_curvature(rng, loss, said):
    with pytest.raises(InputError, match=said):
        mg.fit(mg.CustomLoss(loss, 1), rng.normal(size=500))


# Kinks.


def test_a_kink_is_called_one(rng):
    """The Hessian that autodiff sees is that of the ridge alone."""
    z = rng.normal(size=4000)
    with pytest.raises(InputError, match="kinks"):
        mg.fit(mg.CustomLoss(lambda t, z: jnp.abs(z - t[0]) + 0.05 * t[0] ** 2, 1), z)


# Several starts.


def double_well(t, z):
    """Two minima, of which the one from 0 is the higher."""
    return 0.25 * t[0] ** 4 - 2 * t[0] ** 2 - 0.8 * t[0] + t[0] * z


def test_starts_of_a_custom_loss_find_the_lowest_minimum(rng):
    z = 1.2 + rng.normal(size=1000)
    model = mg.CustomLoss(lambda t, z: double_well(t, z), 1)
    low = minimize(lambda t: model.risk(t, z), [-2.0]).x
    near = mg.fit(model, z, start=[2.0])
    assert near.params[0] > 0
    several = mg.fit(model, z, starts=10)
    np.testing.assert_allclose(several.params, low, atol=1e-4)
    assert any("of 10 starts ended at this risk" in note for note in several.notes)


def test_starts_are_not_for_linear_predictors(rng):
    X = rng.normal(size=(50, 2))
    with pytest.raises(InputError, match="starts=3 is for losses that need not be convex"):
        mg.fit(mg.Linear(), (X, X[:, 0]), starts=3)
    with pytest.raises(InputError, match="starts"):
        mg.fit(mg.GaussianMixture(2, 1.0), X[:, 0], starts=0)


@pytest.mark.parametrize("seed", range(3))
def test_weakly_separated_mixtures(seed):
    """Means half a standard deviation apart: the merged point is a saddle of most draws."""
    rng = np.random.default_rng(100 + seed)
    z = np.where(rng.random(3000) < 0.5, 0.0, 0.5) + rng.normal(size=3000)
    model = mg.GaussianMixture(2, 1.0)
    r = mg.fit(model, z)
    best = min(
        minimize(lambda t: model.risk(t, z), s, tol=1e-12).fun for s in ([-1, 1.5], [0, 0.5])
    )
    assert model.risk(r.params, z) <= best + 1e-9


def test_the_local_note_is_where_the_loss_is_not_known_to_be_convex(rng):
    x = rng.normal(size=300)
    y = np.exp(0.3 * x) + 0.1 * rng.normal(size=300)
    X = np.column_stack([np.ones(300), x])
    of = {
        "logarithmic": mg.fit(mg.GLM("gaussian", "log"), (X, y)),
        "linear": mg.fit(mg.Linear(), (X, y)),
    }
    local = {name: any("Local" in note for note in r.notes) for name, r in of.items()}
    assert local == {"logarithmic": True, "linear": False}


# Ten problems, against BFGS from the same starts.


@pytest.mark.parametrize("number", [0, 3, 5, 9])
def test_minima_as_often_as_bfgs(number):
    problem = nonconvex_problems.problems(seed=77)[number]
    bfgs, fit = nonconvex.compare(problem, 4, seed=77)
    assert [end.kind for end in fit] == ["minimum"] * 4
    best = min(end.risk for end in bfgs + fit)
    at_best = [sum(end.risk <= best + 1e-6 for end in ends) for ends in (bfgs, fit)]
    assert at_best[1] >= at_best[0] - 1  # basins differ


@pytest.mark.long
def test_minima_as_often_as_bfgs_of_all_problems():
    found = [nonconvex.compare(problem, 20, seed=5) for problem in nonconvex_problems.problems(5)]
    minima = np.array([[sum(e.kind == "minimum" for e in ends) for ends in pair] for pair in found])
    assert (minima[:, 1] >= minima[:, 0]).all()
    lowest = []
    for pair in found:
        best = min(end.risk for ends in pair for end in ends) + 1e-6
        lowest.append([sum(end.risk <= best for end in ends) for ends in pair])
    lowest = np.array(lowest)
    assert (lowest[:, 1] >= lowest[:, 0] - 2).all()  # basins differ
    assert lowest[:, 1].sum() >= lowest[:, 0].sum()
    assert not any(end.kind == "saddle" for _, fit in found for end in fit)

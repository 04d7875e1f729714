"""Least-squares moments in one pass: against `moments`, extended precision, and any partition."""

import itertools
import pickle
import re
from fractions import Fraction
from unittest import mock

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import masgrad as mg
import scenarios
from masgrad.covariance import fourth_moments, least_squares
from masgrad.covariance.least_squares import LeastSquaresMoments

N, P = 4000, 4
SCALES = np.logspace(-7, 7, P)


def gap(got, wanted):
    """Largest error of (b, Sigma), in units of the gradient's root mean square and sd."""
    (b, cov), (b0, cov0) = got, wanted
    sd = np.sqrt(np.diag(cov0))
    scaled = np.abs(cov - cov0) / np.outer(sd, sd)
    return float(max((np.abs(b - b0) / np.sqrt(b0**2 + sd**2)).max(), scaled.max()))


def of_rows(theta, X, y):
    """b and Sigma from the gradients, in extended precision, with x'theta - y summed about 0."""
    c, level = X.mean(0), y.mean()
    s = sum(map(Fraction.__mul__, map(Fraction, c), map(Fraction, theta))) - Fraction(level)
    X, y, theta = (np.asarray(a, np.longdouble) for a in (X, y, theta))
    G = X * (((X - c) * theta).sum(1) - (y - level) + float(s))[:, None]
    b = G.mean(0)
    G = G - b
    return b, (G[:, :, None] * G[:, None, :]).sum(0) / (len(y) - 1)


def by_moments(theta, X, y):
    m = mg.moments(mg.Linear(), theta, (X, y))
    return m.mean, m.cov


def at(rows, theta):
    return rows.mean(theta), rows.cov(theta)


def regression(rng, offset: object = 0.0, scale: object = 1.0, noise=1.0, size=N):
    """Rows centre + scale * z with coefficients of order 1 / scale."""
    X = offset + scale * (rng.normal(size=(size, P)) @ (np.eye(P) + 0.2 * rng.normal(size=(P, P))))
    return X, X @ (np.linspace(1.0, 2.0, P) / scale) + noise * rng.normal(size=size)


def groups(rng):
    """Indicators of groups, in the order of the groups: centred columns that sum to 0."""
    X = np.eye(P)[np.sort(rng.integers(0, P, N))]
    return X, X @ np.arange(1.0, P + 1) + 1e-5 * rng.normal(size=N)


def jump(rng):
    """The first rows are elsewhere."""
    X, _ = regression(rng)
    X = X + 1e6 * (np.arange(N) > 1500)[:, None] * np.array([0.0, 1.0, 0.0, 0.0])
    return X, X @ np.array([1.0, 1e-6, 1.0, 1.0]) + rng.normal(size=N)


def constant(rng):
    X, _ = regression(rng, np.array([0.0, 0.0, 1e3, -1e3]))
    X[:, 0] = 0.1
    return X, X @ np.ones(P) + rng.normal(size=N)


def collinear(rng):
    """A column is another one up to a thousandth."""
    X, _ = regression(rng)
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    return X, X @ np.ones(P) + rng.normal(size=N)


def ordered(rows):
    order = np.argsort(rows[0][:, 0])
    return rows[0][order], rows[1][order]


CASES = {
    "plain": lambda rng: regression(rng),
    "offset 1e3": lambda rng: regression(rng, 1e3),
    "offset 1e6": lambda rng: regression(rng, 1e6),
    "offsets": lambda rng: regression(rng, np.array([0.0, 1e3, -1e6, 1.0])),
    "scales": lambda rng: regression(rng, 0.0, SCALES),
    "offset 1e3 scales": lambda rng: regression(rng, 1e3 * SCALES, SCALES),
    "noiseless": lambda rng: regression(rng, noise=1e-5),
    "noiseless offset 1e3": lambda rng: regression(rng, 1e3, noise=1e-5),
    "noiseless offset 1e6": lambda rng: regression(rng, 1e6, noise=1e-5),
    "sorted": lambda rng: ordered(regression(rng)),
    "sorted noiseless offset 1e3": lambda rng: ordered(regression(rng, 1e3, noise=1e-5)),
    "groups": groups,
    "jump": jump,
    "constant column": constant,
    "collinear": collinear,
}
BEYOND_MOMENTS = ("noiseless offset 1e3", "noiseless offset 1e6", "sorted noiseless offset 1e3")
"""Here x'theta - y cancels in every row of `moments`, which is off by 4e-9, 2e-6 and 3e-9."""


def ways(X, y):
    """At once; in blocks; in shards that are merged."""
    at_once = LeastSquaresMoments(P).update(X, y)
    in_blocks, shards = LeastSquaresMoments(P), LeastSquaresMoments(P)
    for start in range(0, len(y), 700):
        in_blocks = in_blocks.update(X[start : start + 700], y[start : start + 700])
    for start in range(0, len(y), 1300):
        piece = LeastSquaresMoments(P).update(X[start : start + 1300], y[start : start + 1300])
        shards = shards.merge(piece)
    return at_once, in_blocks, shards


def some_thetas(rng, X, y):
    scale = np.abs(X).max(0)
    optimum = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    return np.zeros(P), optimum, optimum * (1 + 100 * rng.normal(size=P))


@pytest.mark.parametrize("case", CASES)
def test_the_moments_are_those_of_the_rows(case, rng):
    X, y = CASES[case](rng)
    for theta in some_thetas(rng, X, y):
        for rows in ways(X, y):
            assert rows.count == N
            if case not in BEYOND_MOMENTS:
                assert gap(at(rows, theta), by_moments(theta, X, y)) < 1e-9
            assert gap(at(rows, theta), of_rows(theta, X, y)) < 1e-9


def test_the_record_is_that_of_moments(rng):
    X, y = scenarios.regression(rng, N=3000)
    rows, theta = LeastSquaresMoments(4).update(X, y), rng.normal(size=4)
    got, wanted = rows.moments(theta), mg.moments(mg.Linear(), theta, (X, y))
    assert isinstance(got, mg.Moments) and got.count == wanted.count == rows.count
    np.testing.assert_allclose(got.scatter, wanted.scatter, rtol=1e-9)
    np.testing.assert_allclose(got.fisher, wanted.fisher, rtol=1e-9)
    np.testing.assert_allclose(got.hessian, wanted.hessian, rtol=1e-12)
    np.testing.assert_array_equal(got.theta, theta)
    np.testing.assert_array_equal(got.cov, got.cov.T)
    for value in (got.mean, got.cov, rows.mean(theta), rows.hessian, rows.optimum()):
        assert type(value) is np.ndarray and value.dtype == np.float64
    assert got.merge(wanted).count == 6000


def test_the_papers_cross_term_must_be_symmetrised(rng):
    """-2 Cov(x x'theta, x y) is not symmetric; with its half and transpose the sum is Cov(g)."""
    X, y = scenarios.regression(rng, misspecified=True)
    theta = rng.normal(size=4)
    quadratic, product = X * (X @ theta)[:, None], X * y[:, None]
    both = np.cov(quadratic.T, product.T)
    cross = both[:4, 4:]
    paper = both[:4, :4] + both[4:, 4:] - 2 * cross
    symmetrised = both[:4, :4] + both[4:, 4:] - cross - cross.T
    cov = LeastSquaresMoments(4).update(X, y).cov(theta)
    np.testing.assert_allclose(cov, symmetrised, rtol=1e-10, atol=1e-10)
    assert np.abs(paper - paper.T).max() > 0.1
    assert np.abs(paper - cov).max() > 0.1


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    cuts=st.lists(st.integers(0, 300), min_size=1, max_size=8),
    blocks=st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any),
    shift=st.sampled_from([0.0, 1e6]),
    buffer=st.sampled_from([1, 16, 1024]),
    order=st.randoms(use_true_random=False),
)
def test_any_partition_in_any_grouping_gives_the_same_moments(cuts, blocks, shift, buffer, order):
    X, y = scenarios.regression(np.random.default_rng(5), p=3)
    X = X + np.array([0.0, shift, 0.0])
    whole = LeastSquaresMoments(3).update(X, y)
    edges = [0, *sorted(cuts), 300]
    with mock.patch.object(least_squares, "BUFFER_ROWS", buffer):
        parts = [read(X[a:b], y[a:b], blocks) for a, b in itertools.pairwise(edges)]
        while len(parts) > 1:
            a = parts.pop(order.randrange(len(parts)))
            parts.append(a.merge(parts.pop(order.randrange(len(parts)))))
    merged = parts[0]
    assert merged.count == 300
    for theta in (np.zeros(3), whole.optimum(), np.array([0.3, 0.2 / max(shift, 1.0), -9.0])):
        assert gap(at(merged, theta), at(whole, theta)) < 1e-10
    np.testing.assert_allclose(merged.hessian, whole.hessian, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(merged.optimum(), whole.optimum(), rtol=1e-7)


def read(X, y, blocks):
    """Rows in blocks of these sizes, over and over."""
    rows, start = LeastSquaresMoments(X.shape[1]), 0
    while start < len(y):
        for size in blocks:
            rows, start = (
                rows.update(X[start : start + size], y[start : start + size]),
                start + size,
            )
    return rows


def test_updates_leave_the_old_object_and_the_data_alone(rng):
    X, y = scenarios.regression(rng, N=1500)  # summed in part, in part waiting
    theta = np.ones(4)
    wanted = of_rows(theta, np.tile(X, (2, 1)), np.tile(y, 2))
    first = LeastSquaresMoments(4).update(X, y)
    cov = first.cov(theta)
    second = first.update(X, y)
    X[:], y[:] = 0.0, 0.0
    np.testing.assert_array_equal(first.cov(theta), cov)
    assert (first.count, second.count) == (1500, 3000)
    assert gap(at(second, theta), wanted) < 1e-9
    with pytest.raises(AttributeError):
        first.dim = 3


def test_a_long_stream_away_from_its_first_rows_keeps_its_digits(rng, monkeypatch):
    """In the frame of the first four rows the sums lose three digits more."""
    monkeypatch.setattr(least_squares, "BUFFER_ROWS", 4)
    later = np.arange(40_000) > 3
    X = rng.normal(size=(40_000, 2)) + later[:, None] * np.array([0.0, 1e6])
    y = later * rng.normal(size=40_000)
    rows = LeastSquaresMoments(2)
    for X_block, y_block in zip(np.split(X, 8), np.split(y, 8), strict=True):
        rows = rows.update(X_block, y_block)
    for theta in (np.zeros(2), np.array([1.0, 1.0])):
        assert gap(at(rows, theta), of_rows(theta, X, y)) < 5e-14


def test_a_constant_column_has_no_spread_of_rounding_errors(rng):
    """0.1 is not the rounded mean of 700 times 0.1; what is left would be divided by itself."""
    X, y = constant(rng)
    X, y = X[:700], y[:700]
    rows = LeastSquaresMoments(P).update(X, y)
    assert fourth_moments.Frame.of(X, y).centre[0] == 0.1 != X.mean(0)[0]
    np.testing.assert_allclose(rows.optimum(), np.linalg.lstsq(X, y)[0], rtol=1e-7)


def test_a_direction_that_only_noise_determines_does_not_tilt_the_frame(rng):
    """Its coefficient, of order 1e5, would cancel at every theta of order 1."""
    X, y = scenarios.regression(rng, N=3000)
    X[:, 1] = X[:, 0] + 1e-7 * rng.normal(size=3000)
    rows = LeastSquaresMoments(4).update(X, y)
    for theta in (np.zeros(4), rng.normal(size=4)):
        assert gap(at(rows, theta), by_moments(theta, X, y)) < 1e-11


def test_the_frame_stays_where_the_rows_are_near_it(rng):
    X, y = scenarios.regression(rng, N=20_000)
    rows = LeastSquaresMoments(4).update(X[:2048], y[:2048])
    with mock.patch.object(fourth_moments, "translate", side_effect=AssertionError("moved")):
        assert rows.update(X[2048:], y[2048:]).cov(np.zeros(4)).shape == (4, 4)


def test_few_rows(rng):
    X, y = scenarios.regression(rng)
    for n in (2, 3, 5, 6):
        rows = LeastSquaresMoments(4).update(X[:n], y[:n])
        for theta in (np.zeros(4), rng.normal(size=4)):
            assert gap(at(rows, theta), by_moments(theta, X[:n], y[:n])) < 1e-9
    one = LeastSquaresMoments(4).update(X[:1], y[:1])
    np.testing.assert_allclose(one.mean(np.ones(4)), X[0] * (X[0].sum() - y[0]), rtol=1e-12)
    np.testing.assert_allclose(one.hessian, np.outer(X[0], X[0]), rtol=1e-12)


@pytest.mark.parametrize("case", ["plain", "scales", "offset 1e6", "groups", "constant column"])
def test_the_optimum_is_the_least_squares_estimate(case, rng):
    X, y = CASES[case](rng)
    scale = np.abs(X).max(0)
    wanted = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    for rows in ways(X, y):
        np.testing.assert_allclose(rows.optimum(), wanted, rtol=1e-8)


def test_of_many_optima_it_is_the_shortest(rng):
    X, y = scenarios.regression(rng)
    X[:, 2], X[:, 3] = X[:, 0] - 3 * X[:, 1], 0.0
    for n in (300, 2, 1):
        got = LeastSquaresMoments(4).update(X[:n], y[:n]).optimum()
        np.testing.assert_allclose(got, np.linalg.pinv(X[:n]) @ y[:n], rtol=1e-10, atol=1e-12)
    assert np.array_equal(
        LeastSquaresMoments(2).update(np.zeros((3, 2)), np.ones(3)).optimum(), [0, 0]
    )


def test_the_population_is_one_product_for_all_chains(rng):
    X, y = regression(rng, np.array([0.0, 1e3, -1e3, 1.0]), SCALES)
    rows = LeastSquaresMoments(P).update(X, y)
    thetas = rows.optimum()[:, None] * rng.normal(size=(P, 7))
    population = rows.population()
    assert all(
        type(a) is np.ndarray and a.dtype.kind in "fi" and a.dtype.itemsize == 8
        for a in jax.tree.leaves(population)
    )
    with jax.enable_x64(True):
        call = eqx.filter_jit(lambda f, thetas: jax.vmap(f, 1, -1)(thetas))
        b, cov = map(np.asarray, call(population, thetas))
        products = [
            e.params["dimension_numbers"][1]
            for e in jax.make_jaxpr(jax.vmap(population, 1, -1))(thetas).eqns
            if e.primitive.name == "dot_general"
        ]
    assert len(products) == 3 and set(products) == {((), ())}  # no product is batched over chains
    for k in range(7):
        assert gap((b[:, k], cov[:, :, k]), at(rows, thetas[:, k])) < 1e-12
        assert gap(population(thetas[:, k]), at(rows, thetas[:, k])) < 1e-12


def test_a_simulator_takes_the_population_as_its_moments(rng):
    X, y = scenarios.regression(rng)
    population = LeastSquaresMoments(4).update(X, y).population()
    simulator = mg.Simulator(
        lambda key, n: (jax.random.normal(key, (n, 4)), jax.random.normal(key, (n,))),
        lambda theta: population(theta),
    )
    step = {"theta0": np.zeros(4), "steps": 3, "batch_size": 25, "chains": 2}
    online = mg.run(mg.diffusion(mg.masgrad(0.1)), mg.Linear(), simulator, **step)
    table = mg.run(mg.diffusion(mg.masgrad(0.1)), mg.Linear(), (X, y), **step)
    np.testing.assert_allclose(online.theta, table.theta, rtol=1e-9)


def bytes_held(rows):
    return int(re.fullmatch(r".*, ([\d,]+) bytes held\)", repr(rows))[1].replace(",", ""))


def test_memory_is_constant_and_refused_when_it_is_too_much(rng):
    rows, held = LeastSquaresMoments(40), []
    for _ in range(3):
        X = rng.normal(size=(2000, 40))
        rows = rows.update(X, X.sum(1))
        held.append(bytes_held(rows))
    assert rows.count == 6000 and max(held) < 2e6
    one_by_one = LeastSquaresMoments(2)
    for x in X[:1500, :2]:
        one_by_one = one_by_one.update(x[None], x[:1])
    assert bytes_held(one_by_one) < 8 * 3 * 1024
    assert one_by_one.update(X[:0, :2], X[:0, 0]) is one_by_one
    with pytest.raises(mg.errors.InputError, match=r"dim=1000 would take 315 GiB.*allows 1 GiB.*"):
        LeastSquaresMoments(1000)
    small = LeastSquaresMoments(40, memory=2_000_000).update(X, X.sum(1))
    assert small.cov(np.zeros(40)).shape == (40, 40)
    with pytest.raises(mg.errors.InputError, match=r"population.*GiB.*memory=5930568.*mg.moments"):
        small.population()


def test_shards_come_back_from_other_processes(rng):
    X, y = scenarios.regression(rng, N=1500)
    rows = LeastSquaresMoments(4).update(X, y)
    back = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(back.cov(np.ones(4)), rows.cov(np.ones(4)))
    assert back.merge(rows).count == 3000


def nan_at(row, column):
    X = np.ones((3, 2))
    X[row, column] = np.nan
    return X


@pytest.mark.parametrize(
    "X, y, error, message",
    [
        (np.ones((3, 4)), np.ones(3), ValueError, r"\(3, 4\); rows of 2 columns"),
        (np.ones(3), np.ones(3), ValueError, r"\(3,\); rows of 2 columns"),
        (np.ones((0, 3)), np.ones(0), ValueError, "no rows"),
        (np.ones((3, 2)), np.ones(2), ValueError, "X has 3, y has 2"),
        (np.ones((3, 2)), np.ones((3, 1)), ValueError, "y.ravel"),
        (np.ones((1, 2)), 1.0, ValueError, "y is a scalar"),
        (nan_at(2, 1), np.ones(3), ValueError, "X holds nan at row 2, column 1"),
        (np.ones((3, 2)), [1.0, np.inf, 1.0], ValueError, "y holds inf at row 1"),
        ([["a", "b"]], [1.0], TypeError, "X has dtype"),
        (np.full((3, 2), 1e80), np.ones(3), ValueError, "1.0e[+]80.*rescale"),
    ],
)
def test_rows_that_cannot_be_used(X, y, error, message):
    with pytest.raises(error, match=message) as caught:
        LeastSquaresMoments(2).update(X, y)
    assert isinstance(caught.value, mg.errors.MasgradError)


def test_what_else_is_refused(rng):
    empty = LeastSquaresMoments(2)
    assert empty.count == 0 and empty.update(np.ones((0, 2)), np.ones(0)).count == 0
    assert repr(empty) == "LeastSquaresMoments(dim=2, count=0, 0 bytes held)"
    for question in (empty.mean, empty.cov, empty.moments):
        with pytest.raises(ValueError, match="no rows yet"):
            question([0.0, 0.0])
    one = empty.update([[1.0, 2.0]], [3.0])
    for question in (lambda: one.cov([0.0, 0.0]), one.population):
        with pytest.raises(ValueError, match="one row has no covariance; at least 2 rows"):
            question()
    for theta, message in (([1.0], r"\(1,\); these moments need \(2,\)"), ([1, np.nan], "is nan")):
        with pytest.raises(ValueError, match=message):
            one.mean(theta)
    with pytest.raises(ValueError, match="cov is not finite"):
        one.merge(one.update([[2.0, 2.0]], [1.0])).moments([1e200, 0.0])
    with pytest.raises(ValueError, match="2 and 3 parameters"):
        one.merge(LeastSquaresMoments(3))
    with pytest.raises(TypeError, match="got Moments"):
        one.merge(one.moments([0.0, 0.0]))
    for dim in (0, 2.0, "2", True):
        with pytest.raises(ValueError, match="whole number of columns"):
            LeastSquaresMoments(dim)


@pytest.mark.parametrize("size", [1e5, 1e6])
def test_lost_digits_are_reported(rng, size):
    """One row 1e5 times as long as the others: fourth powers cancel at the optimum; it warns."""
    X = rng.normal(size=(4000, 4))
    y = X.sum(1) + rng.normal(size=4000)
    X[2000] *= size
    rows = LeastSquaresMoments(4).update(X, y)
    with pytest.warns(mg.errors.PrecisionWarning, match="error of about") as caught:
        got = rows.cov(rows.optimum())
    said = float(re.search(r"about (\S+) at", str(caught[0].message))[1])
    exact = of_rows(rows.optimum(), X, y)[1]
    scale = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert np.abs((got - exact) / scale).max() < 100 * said


def test_numbers_whose_fourth_powers_vanish_are_refused(rng):
    X, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    with pytest.raises(ValueError, match="column 1 of X"):
        LeastSquaresMoments(2).update(X * [1.0, 1e-90], y)
    with pytest.raises(ValueError, match="y is at most"):
        LeastSquaresMoments(2).update(X, y * 1e-90)

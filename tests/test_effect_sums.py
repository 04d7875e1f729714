"""Fixed effects by sums: against dense dummies, exact solutions and the rank of the dummies."""

from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from masgrad.data.designs.coded import CodedDesign, Group
from masgrad.fitting.effects import pairs as pair_tables
from masgrad.fitting.effects import removal, solve, system, total
from masgrad.fitting.effects.components import Components
from masgrad.fitting.effects.counting import effect_counts
from masgrad.fitting.effects.eliminate import eliminate
from masgrad.fitting.effects.pairs import Pairs, joined
from masgrad.fitting.effects.part import part_of
from masgrad.fitting.effects.total import total_of


def panel(sizes, n=400, p=3, seed=0):
    """Columns, codes, weights and responses with effects of every grouping in all of them."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], 1).astype(np.int32)
    effects = [rng.normal(size=size) for size in sizes]
    common = sum(a[codes[:, k]] for k, a in enumerate(effects))
    X = rng.normal(size=(n, p)) + 3.0 + 0.5 * np.asarray(common)[:, None]
    return X, codes, rng.uniform(0.5, 2.0, n), X @ np.arange(1.0, p + 1) + common


def dummies(codes):
    return np.hstack([np.eye(codes[:, k].max() + 1)[codes[:, k]] for k in range(codes.shape[1])])


def in_parts(X, codes, w, z, cuts=(150, 210), **options):
    """The total of the parts between these rows."""
    places = np.split(np.arange(len(X)), cuts)
    return total_of(
        part_of(X[a], codes[a], None if w is None else w[a], z[a], **options) for a in places
    )


def dense_fit(X, codes, w, z):
    """Coefficients, products within levels and fitted effects, by least squares with dummies."""
    D, root = dummies(codes), np.ones(len(X)) if w is None else np.sqrt(w)
    Z = np.column_stack([X, z]) * root[:, None]
    within = Z - (D * root[:, None]) @ np.linalg.lstsq(D * root[:, None], Z)[0]
    beta = np.linalg.lstsq(within[:, :-1], within[:, -1])[0]
    return beta, within.T @ within


@pytest.mark.parametrize("expected", [(2, 1), (40, 30)], ids=["too little", "too much"])
def test_room_for_levels_changes_no_sum(expected):
    X, codes, w, z = panel((12, 7))
    parts = [part_of(X[a], codes[a], w[a], z[a]) for a in np.split(np.arange(len(X)), (150,))]
    room = total.Room(expected)
    grown, known = total_of(parts), total_of(parts, room)
    assert known.sizes == grown.sizes
    for a, b in zip(grown.levels, known.levels, strict=True):
        assert_array_equal(a.sums, b.sums)
        assert_array_equal(a.rows, b.rows)


@pytest.mark.parametrize("most_pairs", [np.inf, 60], ids=["pairs", "components"])
def test_totals_of_shards_join(most_pairs):
    X, codes, w, z = panel((12, 9))
    codes[:, 1] = np.where(codes[:, 0] < 6, codes[:, 1] % 4, 4 + codes[:, 1] % 5)  # two components
    pieces = [part_of(X[a], codes[a], w[a], z[a]) for a in np.split(np.arange(len(X)), (90, 250))]
    one, shards = total.GrowingSums(total.Room(most_pairs=most_pairs)), []
    for piece in pieces:
        one.add(piece)
        shard = total.GrowingSums(total.Room(most_pairs=most_pairs if len(shards) else 5))
        shard.add(piece)
        shards.append(shard)
    shards[0].room = one.room
    found = reduce(total.GrowingSums.join, shards).sums(products=lambda x: x)
    known = one.sums(products=lambda x: x)
    assert_allclose(found.products, known.products, rtol=1e-12)
    for a, b in zip(found.levels, known.levels, strict=True):
        assert_allclose(a.sums, b.sums, rtol=1e-12, atol=1e-12)
        assert_array_equal(a.rows, b.rows)
    assert found.components(0, 1).count == known.components(0, 1).count == 2


def table_of(sums, k, m):
    return sums.pairs_of(k, m).matrix((sums.sizes[k], sums.sizes[m])).toarray()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(12,), (12, 7), (12, 7, 5)])
def test_sums_are_products_with_the_dummies(sizes, weighted):
    X, codes, w, z = panel(sizes)
    centre = X.mean(0)
    sums = in_parts(X, codes, w if weighted else None, z, centre=centre)
    W = np.diag(w) if weighted else np.eye(len(X))
    Z = np.column_stack([X - centre, z, np.ones(len(X))])
    assert_allclose(sums.products, Z.T @ W @ Z, rtol=1e-12, atol=1e-9)
    for k, size in enumerate(sizes):
        D = np.eye(size)[codes[:, k]]
        assert_allclose(sums.levels[k].sums, D.T @ W @ Z, rtol=1e-12, atol=1e-9)
        assert_array_equal(sums.levels[k].rows, D.sum(0))
    for k, m in combinations(range(len(sizes)), 2):
        joint = np.eye(sizes[k])[codes[:, k]].T @ W @ np.eye(sizes[m])[codes[:, m]]
        assert_allclose(table_of(sums, k, m), joint, rtol=1e-12)


def test_a_score_stands_for_weights_times_responses():
    X, codes, w, z = panel((12, 7))
    w[:3] = 0.0
    by_score, by_response = part_of(X, codes, w, score=w * z), part_of(X, codes, w, z)
    assert_allclose(by_score.products, by_response.products, rtol=1e-12)
    for a, b in zip(by_score.levels, by_response.levels, strict=True):
        assert_allclose(a.sums, b.sums, rtol=1e-12)


def test_the_score_of_a_row_without_curvature_counts():
    X, codes, _, z = panel((12, 7))
    sums = part_of(X, codes, np.zeros(len(X)), score=z)
    assert_allclose(sums.c, X.T @ z)
    assert_allclose(sums.levels[1].responses, np.bincount(codes[:, 1], z))


@pytest.mark.parametrize("score", [False, True])
def test_a_design_of_codes_has_the_sums_of_its_dense_matrix(score):
    X, codes, w, z = panel((12, 7))
    groups = [Group(1, 4, np.random.default_rng(1).integers(0, 5, len(X)))]
    design = CodedDesign(X, [0, 5, 6], groups)
    response = {"score": z} if score else {"z": z}
    a, b = (part_of(D, codes, w, **response) for D in (design, design.dense()))
    assert_allclose(a.products, b.products, rtol=1e-12, atol=1e-10)
    for own, dense in zip(a.levels, b.levels, strict=True):
        assert_allclose(own.sums, dense.sums, rtol=1e-12, atol=1e-10)


def test_the_order_of_parts_does_not_matter_and_levels_may_come_late():
    X, codes, w, z = panel((50, 9))
    order = np.argsort(codes[:, 0], kind="stable")  # the first parts meet the first levels alone
    sorted_rows = in_parts(X[order], codes[order], w[order], z[order], range(20, 400, 20))
    other = in_parts(X[order[::-1]], codes[order[::-1]], w[order[::-1]], z[order[::-1]])
    assert sorted_rows.sizes == other.sizes == (50, 9)
    for a, b in zip(sorted_rows.levels, other.levels, strict=True):
        assert_allclose(a.sums, b.sums, rtol=1e-11)
    assert_allclose(table_of(sorted_rows, 0, 1), table_of(other, 0, 1), rtol=1e-12)


def test_levels_without_rows_have_a_place_if_told():
    X, codes, w, z = panel((5, 3))
    growing = total.GrowingSums(total.Room())
    growing.add(part_of(X, codes, w, z))
    sums = growing.sums((8, 6))
    assert sums.sizes == (8, 6)
    found, known = eliminate(sums), eliminate(part_and_total(X, codes, w, z))
    assert_allclose(found.within, known.within)
    assert_array_equal(found.effects_of_x[0][5:], 0.0)


def part_and_total(X, codes, w=None, z=None, **options):
    return total_of([part_of(X, codes, w, z, **options)])


@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_joined_in_batches_are_those_joined_at_once(weighted, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 30, (2, 5000)).astype(np.int32)
    w = rng.uniform(size=5000) if weighted else None
    every = np.split(np.arange(5000), 50)
    parts = [Pairs(a[i], b[i], None if w is None else w[i]) for i in every]
    at_once = joined(parts)
    assert_allclose(
        at_once.matrix((30, 30)).toarray(), np.bincount(a * 30 + b, w, 900).reshape(30, 30)
    )
    monkeypatch.setattr(total, "PAIR_BATCH", 300)
    codes, z = np.stack([a, b], 1), np.ones(5000)
    in_batches = in_parts(np.ones((5000, 1)), codes, w, z, range(100, 5000, 100)).pairs[0]
    assert_allclose(in_batches.matrix((30, 30)).toarray(), at_once.matrix((30, 30)).toarray())
    monkeypatch.setattr(pair_tables, "SIGNED_BITS", 0)  # numbers too large to hold a row's place
    assert_array_equal(joined(parts).matrix((30, 30)).data, at_once.matrix((30, 30)).data)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(12,), (30, 7), (7, 30), (30, 7, 5)])
def test_elimination_is_least_squares_with_dummies(sizes, weighted):
    X, codes, w, z = panel(sizes)
    w, z = (w if weighted else None), z + np.random.default_rng(1).normal(size=len(z))
    done = eliminate(in_parts(X, codes, w, z, centre=X.mean(0)))
    beta, products = dense_fit(X, codes, w, z)
    assert_allclose(done.products, products, rtol=1e-10, atol=1e-9)
    own, effects = done.solution()
    assert_allclose(own, beta, rtol=1e-10)
    residuals = z - (X - X.mean(0)) @ own - sum(a[codes[:, k]] for k, a in enumerate(effects))
    weights = np.ones(len(X)) if w is None else w
    assert_allclose(dummies(codes).T @ (weights * residuals), 0, atol=1e-7)
    assert_allclose((weights * residuals) @ residuals, done.squares - beta @ done.within_z)


def test_a_start_near_the_solution_saves_iterations():
    X, codes, w, z = panel((300, 40), n=3000)
    first = eliminate(part_and_total(X, codes, w, z))
    sums = part_and_total(X, codes, w * (1 + 1e-6 * np.cos(z)), z)
    anew, warm = eliminate(sums), eliminate(sums, first)
    assert warm.iterations < anew.iterations
    assert_allclose(warm.products, anew.products, rtol=1e-10, atol=1e-8)


def chain(workers=4000, years=2, seed=0):
    """Some 2,000 firms in a row, of which workers join each two neighbours."""
    rng = np.random.default_rng(seed)
    worker = np.repeat(np.arange(workers), years * 2)
    firm = worker // 2 + np.tile(np.repeat([0, 1], years), workers)
    order = rng.permutation(len(worker))
    return np.stack([worker, firm], 1).astype(np.int32)[order]


def exact_panel(codes, seed=0):
    """Responses without errors: coefficients and all differences of effects are known."""
    rng = np.random.default_rng(seed)
    effects = [np.cumsum(rng.normal(size=codes[:, k].max() + 1)) for k in range(codes.shape[1])]
    common = sum(a[codes[:, k]] for k, a in enumerate(effects))
    X = rng.normal(size=(len(codes), 2)) + np.stack([common, -common], 1) * 0.1
    return X, X @ [2.0, -1.0] + common, effects


def test_a_long_chain_of_weakly_connected_firms_is_solved():
    codes = chain()
    X, z, effects = exact_panel(codes)
    done = eliminate(part_and_total(X, codes, None, z, centre=X.mean(0)))
    beta, found = done.solution()
    assert done.removal is not None and len(done.removal.rounds) > 0
    assert done.residual.max() < 1e-10
    assert_allclose(beta, [2.0, -1.0], rtol=1e-9)
    ends = [a[[0, -1]] for a in (found[1], effects[1])]
    assert_allclose(np.diff(ends[0]), np.diff(ends[1]), rtol=1e-7)


@pytest.mark.parametrize("cores_are_dense", [True, False])
def test_what_cannot_be_removed_is_factored_or_iterated(monkeypatch, cores_are_dense):
    monkeypatch.setattr(removal, "DENSE_LEVELS", 20)
    if not cores_are_dense:
        monkeypatch.setattr(removal, "MOST_DENSE_LEVELS", 0)
    monkeypatch.setattr(removal, "MOST_FILL", 1.5)
    monkeypatch.setattr(solve, "iterations_as_long", lambda *_: -1)
    X, codes, w, z = panel((300, 80), n=1500)
    done = eliminate(part_and_total(X, codes, w, z))
    assert done.removal is not None
    assert isinstance(done.removal.core, removal.DenseFactor) == cores_are_dense
    assert_allclose(done.products, dense_fit(X, codes, w, z)[1], rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("sizes", [(80, 40), (80, 40, 10)])
def test_elimination_alone_agrees_with_iterations(sizes, monkeypatch):
    X, codes, w, z = panel(sizes, n=300)
    sums = part_and_total(X, codes, w, z)
    monkeypatch.setattr(solve, "iterations_as_long", lambda *_: np.inf)
    iterated = eliminate(sums)
    monkeypatch.setattr(solve, "iterations_as_long", lambda *_: -1)
    monkeypatch.setattr(removal, "DENSE_LEVELS", 10)
    factored = eliminate(sums)
    assert iterated.removal is None and factored.removal is not None
    assert_allclose(factored.products, iterated.products, rtol=1e-10, atol=1e-8)


def test_without_memory_for_a_factor_iterations_go_on():
    codes = chain(workers=200)
    X, z, _ = exact_panel(codes)
    done = eliminate(part_and_total(X, codes, None, z, centre=X.mean(0)), memory=1000)
    assert done.removal is None and done.iterations > 50
    assert_allclose(done.solution()[0], [2.0, -1.0], rtol=1e-9)


def disconnected(sizes, parts, n=600):
    """Levels of several groupings in parts that do not meet."""
    X, codes, w, z = panel(sizes, n=n)
    part = np.random.default_rng(2).integers(0, parts, n)
    return X, (codes + part[:, None] * np.array(sizes)).astype(np.int32), w, z


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("sizes", [(20, 6), (20, 6, 4)])
def test_parts_that_do_not_meet_are_solved_each(sizes, alone, monkeypatch):
    X, codes, w, z = disconnected(sizes, 4)
    if alone:
        monkeypatch.setattr(solve, "iterations_as_long", lambda *_: -1)
    done = eliminate(part_and_total(X, codes, w, z))
    assert done.residual.max() < 1e-9
    assert_allclose(done.products, dense_fit(X, codes, w, z)[1], rtol=1e-9, atol=1e-8)


def test_effects_that_others_determine_do_no_harm(monkeypatch):
    """Regions of workers, and workers who stay: two groupings beyond the connected components."""
    X, codes, w, z = panel((60, 8), n=900)
    region = codes[:, :1] // 5
    codes = np.hstack([codes, region, (codes[:, 1:] + region) % 3]).astype(np.int32)
    known = dense_fit(X, codes, w, z)[1]
    for limit in (None, 0):
        if limit is not None:
            monkeypatch.setattr(solve, "iterations_as_long", lambda *_: -1)
        done = eliminate(part_and_total(X, codes, w, z))
        assert_allclose(done.products, known, rtol=1e-9, atol=1e-8)


def test_columns_that_hardly_vary_within_levels_are_marked():
    X, codes, _, z = panel((40, 9), p=4, n=800)
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=40)[codes[:, 0]], rng.normal(size=9)[codes[:, 1]]
    X[:, 1], X[:, 2] = a + b, a + b + 1e-4 * rng.normal(size=len(X))
    for sums in (part_and_total(X, codes, None, z, centre=X.mean(0)),):
        done = eliminate(sums)
        assert_array_equal(done.constant, [False, True, False, False])
        assert_array_equal(done.weak, [False, True, True, False])
        beta, _ = done.solution()
        assert beta[1] == 0
        assert np.isfinite(beta).all()


@pytest.mark.parametrize("k", [0, 1])
def test_a_column_of_one_grouping_is_constant(k):
    X, codes, w, z = panel((4000, 300), n=20_000)
    X[:, 0] = np.random.default_rng(3).normal(size=4000)[codes[:, k]]
    done = eliminate(part_and_total(X, codes, w, z, centre=X.mean(0)))
    assert_array_equal(done.constant, [True, False, False])
    assert done.residual.max() < 1e-9


def test_threads_change_no_digit():
    X, codes, w, z = panel((20_000, 300), n=120_000)
    sums = part_and_total(X, codes, w, z)
    one, two = (eliminate(sums, threads=threads) for threads in (1, 2))
    assert len(sums.pairs[0]) > system.FEWEST_IN_PIECES
    assert_array_equal(one.products, two.products)


@pytest.mark.parametrize("parts", [1, 3])
def test_components_count_the_redundant_effects_of_two_groupings(parts):
    X, codes, w, z = disconnected((20, 6), parts)
    sums = part_and_total(X, codes, w, z)
    counts = effect_counts(sums)
    D = np.hstack([np.eye(int(c.max()) + 1)[c] for c in codes.T])
    assert counts.redundant == parts
    assert counts.parameters == np.linalg.matrix_rank(D)


@pytest.mark.parametrize("parts", [1, 3])
def test_three_groupings_use_no_more_effects_than_counted(parts):
    X, codes, w, z = disconnected((20, 6, 4), parts)
    counts = effect_counts(part_and_total(X, codes, w, z))
    rank = np.linalg.matrix_rank(dummies(codes))
    assert counts.redundant == 2 * parts
    assert counts.parameters >= rank


def test_components_leave_out_levels_without_weight():
    first, second = np.array([[0, 1, 2], [0, 0, 1]], np.int32)
    pairs = Pairs(first, second, np.array([1.0, 1.0, 0.0]))
    found = Components.of(pairs, (3, 2))
    assert found.count == 1
    assert_array_equal(found.first, [0, 0, -1])
    assert_array_equal(found.second, [0, -1])


@pytest.mark.long
@pytest.mark.parametrize("effects", ["a", "a + b", "a + b + c"])
def test_coefficients_are_those_of_pyfixest(effects):
    import pandas as pd
    from pyfixest import feols

    X, codes, w, z = panel((300, 40, 12), n=5000)
    z = z + np.random.default_rng(5).normal(size=len(z))
    table = pd.DataFrame(np.column_stack([X, z, w]), columns=["x0", "x1", "x2", "z", "w"])
    table[["a", "b", "c"]] = codes
    known: Any = feols(  # pyright: ignore[reportCallIssue]
        f"z ~ x0 + x1 + x2 | {effects}", table, weights="w", fixef_tol=1e-13, fixef_rm="none"
    )
    k = effects.count("+") + 1
    beta, _ = eliminate(part_and_total(X, codes[:, :k], w, z, centre=X.mean(0))).solution()
    assert_allclose(beta, known.coef().to_numpy(), rtol=1e-9)

"""Pairs of levels that do not fit memory: reads of the rows stand in for products with them."""

import warnings

import numpy as np
import pytest

import masgrad as mg
from masgrad.fitting.effects.components import Components, GrowingComponents
from masgrad.fitting.effects.pairs import Pairs
from test_effect_separation import table as separated_table
from test_effects import panel

WITHOUT_ROOM = ("masgrad.fitting.effects.fits.first.BYTES_OF_PAIR", 2**60)


@pytest.mark.parametrize(
    ("formula", "family", "asked"),
    [
        ("y ~ x1 + x2 | firm + year", "gaussian", {"cov_type": "nonrobust"}),
        ("y ~ x1 + x2 | firm + year + g", "gaussian", {"clusters": ["firm", "year"]}),
        ("y ~ x1 + x2 | firm + year", "gaussian", {"weights": "w", "clusters": "g"}),
        ("c ~ x1 + x2 | firm + year + g", "poisson", {"clusters": "firm"}),
        ("d ~ x1 + x2 | firm + year", "binomial", {"offset": "o"}),
        ("y ~ x1 | firm", "gaussian", {}),
    ],
)
def test_fits_are_those_with_pairs(formula, family, asked, monkeypatch):
    table = panel(900, firms=90, seed=5)
    asked = {"family": family, "passes": "converge"} | asked
    with_pairs = mg.glm(formula, table, **asked)
    monkeypatch.setattr(*WITHOUT_ROOM)
    r = mg.glm(formula, table, **asked)
    assert ("do not fit memory" in " ".join(r.notes)) == ("+ year" in formula)
    assert np.abs((r.params - with_pairs.params) / with_pairs.bse).max() < 1e-6
    np.testing.assert_allclose(r.bse, with_pairs.bse, rtol=1e-6)
    assert (r.nobs, r.absorbed, r.df) == (with_pairs.nobs, with_pairs.absorbed, with_pairs.df)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mg.errors.MissingWarning)
        np.testing.assert_allclose(r.predict(table), with_pairs.predict(table), rtol=1e-5)


def test_parts_that_do_not_meet_are_counted(monkeypatch):
    table = panel(800, firms=60, seed=6)
    table["year"] += 100 * (table.firm % 3)  # three connected components
    with_pairs = mg.glm("y ~ x1 | firm + year", table)
    monkeypatch.setattr(*WITHOUT_ROOM)
    r = mg.glm("y ~ x1 | firm + year", table)
    assert r.effects.redundant == with_pairs.effects.redundant == 3
    np.testing.assert_allclose(r.bse, with_pairs.bse, rtol=1e-7)


def test_separated_rows_are_found(monkeypatch):
    table = separated_table(7)
    monkeypatch.setattr(*WITHOUT_ROOM)
    with pytest.warns(mg.errors.SeparationWarning):
        r = mg.glm("y ~ x + d | firm + year", table, family="poisson")
    assert r.nobs == len(table) - table.d.sum()


def test_components_that_grow_are_those_of_all_pairs(rng):
    first, second = rng.integers(0, 300, 250), rng.integers(0, 200, 250)
    weights = (rng.random(250) < 0.9) * 1.0
    pairs = Pairs(first.astype(np.int32), second.astype(np.int32), weights)
    grown = GrowingComponents(pairs.only(np.arange(250) % 5 == k) for k in range(5))
    live = [np.bincount(c, weights, size) > 0 for c, size in ((first, 300), (second, 200))]
    found, expected = grown.components(*live), Components.of(pairs, (300, 200))
    assert found.count == expected.count
    for a, b in ((found.first, expected.first), (found.second, expected.second)):
        np.testing.assert_array_equal(a < 0, b < 0)
        assert len(np.unique(np.stack([a, b]), axis=1).T) == len(np.unique(b))


def test_a_large_residual_is_said(monkeypatch):
    monkeypatch.setattr(*WITHOUT_ROOM)
    monkeypatch.setattr("masgrad.fitting.effects.by_reading.MOST_READS", 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mg.glm("y ~ x1 | firm + year", panel(900, firms=90, seed=5))
    assert any("ended at a relative residual" in str(w.message) for w in said)

"""Separated responses: seen, told from nearly separated ones, and not built upon."""

import numpy as np
import pytest

import masgrad as mg
from masgrad.errors import IdentificationWarning, InputError, SeparationWarning


@pytest.mark.parametrize("rows", [1000, 20_000, 100_000])
def test_complete_separation_is_seen_however_many_rows_there_are(rows):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (X[:, 1] > 0.5).astype(float)))
    assert np.isinf(r.bse).all()  # the plane may be turned a little every way


@pytest.mark.parametrize("rows", [1000, 20_000])
def test_complete_separation_of_rows_that_are_read_once(rows):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    y = (X[:, 1] + X[:, 2] > 0).astype(float)
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), iter([(X[:500], y[:500]), (X[500:], y[500:])]))
    assert np.isinf(r.bse).all()


@pytest.mark.parametrize("rows", [1000, 100_000])
def test_of_a_level_without_zeros_only_its_own_coefficient_is_lost(rows):
    rng = np.random.default_rng(0)
    level = rng.random(rows) < 0.1
    X = np.column_stack([np.ones(rows), rng.normal(size=rows), level])
    y = np.where(level, 1.0, rng.random(rows) < 1 / (1 + np.exp(-X[:, 1])))
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, y))
    rest = mg.fit(mg.Logistic(), (X[~level, :2], y[~level]), "converge")
    assert np.isinf(r.bse[2])
    assert np.abs((r.params[:2] - rest.params) / rest.bse).max() < 0.01
    np.testing.assert_allclose(r.bse[:2], rest.bse, rtol=5e-3)


def test_a_column_of_zeros_beside_a_separated_one():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(500), rng.normal(size=500), np.zeros(500)])
    y = (rng.random(500) < 0.5).astype(float)
    X[:, 2] = (X[:, 1] > 1) * y
    with pytest.warns(SeparationWarning):
        plain = mg.fit(mg.Logistic(), (X, y))
    with pytest.warns(Warning) as said:
        r = mg.fit(mg.Logistic(), (np.column_stack([X, np.zeros(500)]), y))
    assert {w.category for w in said} == {SeparationWarning, IdentificationWarning}
    np.testing.assert_allclose(r.bse, [*plain.bse[:2], np.inf, np.nan], rtol=1e-6)


def test_nearly_separated_responses_are_not_called_separated(recwarn):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    y = (rng.random(20_000) < 1 / (1 + np.exp(-60 * (X[:, 1] - 0.5)))).astype(float)
    r = mg.fit(mg.Logistic(), (X, y))
    assert np.isfinite(r.bse).all() and not recwarn.list


def test_a_result_without_an_estimate_is_not_updated():
    x = np.arange(40.0)
    X = np.column_stack([np.ones(40), x])
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (x > 20).astype(float)))
    with pytest.raises(InputError, match="no estimate"):
        r.update((X, (x > 10).astype(float)))

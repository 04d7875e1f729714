"""Separated responses: seen, told from nearly separated ones, and not built upon."""

import numpy as np
import pytest

import masgrad as mg
from masgrad.errors import InputError, SeparationWarning


@pytest.mark.parametrize("rows", [1000, 20_000, 100_000])
def test_complete_separation_is_seen_however_many_rows_there_are(rows):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(rows), rng.normal(size=(rows, 2))])
    with pytest.warns(SeparationWarning):
        r = mg.fit(mg.Logistic(), (X, (X[:, 1] > 0.5).astype(float)))
    assert np.isinf(r.bse[:2]).all()


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

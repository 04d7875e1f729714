"""H and M in single precision: only where standard errors do not notice."""

import numpy as np
import pytest

import masgrad as mg
from masgrad.errors import InputError
from masgrad.fitting.optimise import single_precision
from masgrad.models.gram import SinglePrecision


def rows(rng, n=120_000, p=6, shift=0.0, value=1.0):
    X = rng.standard_normal((n, p)) + shift
    X[:, 0] = value
    X[:, 2] = 0.9 * X[:, 1] + 0.4 * X[:, 2]
    t = (X[:, 1:] - shift) @ rng.uniform(-0.3, 0.3, p - 1)
    return X, (rng.random(n) < 1 / (1 + np.exp(-t))) * 1.0


@pytest.fixture
def used(monkeypatch):
    """Whether reads took single precision."""
    seen, grams = [], SinglePrecision.grams

    def counted(self, X, w, v):
        found = grams(self, X, w, v)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(SinglePrecision, "grams", counted)
    return seen


@pytest.mark.parametrize(("shift", "value"), [(0.0, 1.0), (20.0, -3.0)])
def test_its_sums_have_seven_digits(rng, shift, value):
    X, _ = rows(rng, 5000, shift=shift, value=value)
    w, v = rng.random(5000), rng.random(5000)
    centre = np.where(np.arange(6) == 0, 0.0, shift).astype(np.float32)
    H, M, largest = SinglePrecision(centre, 0, value).grams(X, w, v)
    D = X - centre
    for ours, weight in ((H, w), (M, v)):
        theirs = X.T @ (weight[:, None] * X)
        size = np.sqrt(np.diag(D.T @ (weight[:, None] * D)))
        J = np.eye(6)
        J[0, 1:] = -centre[1:] / value  # the errors are those of centred columns
        error = J.T @ (ours - theirs) @ J
        assert np.abs(error / np.outer(size, size)).max() < 1e-6
    assert (largest >= np.abs(X * np.sqrt(w)[:, None]).max(0) * (1 - 1e-5)).all()


def test_overflows_and_changing_constants_are_left_to_double_precision(rng):
    X, _ = rows(rng, 100)
    single, one = SinglePrecision(np.zeros(6, np.float32), 0), np.ones(100)
    assert single.grams(X, one, one) is not None
    assert single.grams(X * 1e30, one, one) is None
    X[50, 0] = 2.0
    assert single.grams(X, one, one) is None


@pytest.mark.parametrize("model", [mg.Logistic(), mg.Linear(), mg.Poisson()])
def test_estimates_and_errors_are_those_of_double_precision(rng, model, used):
    X, y = rows(rng, shift=3.0)
    r = mg.fit(model, (X, y))
    assert any(used)
    used.clear()
    wanted = mg.fit(model, (X, y), precision="double")
    assert not used
    np.testing.assert_allclose(r.bse, wanted.bse, rtol=1e-5)
    assert np.abs((r.params - wanted.params) / wanted.bse).max() < 1e-4


@pytest.mark.parametrize(
    "options",
    [{"cov_type": "HC3"}, {"passes": "converge"}, {"passes": "newton"}, {"precision": "double"}],
)
def test_what_asks_for_digits_gets_them(rng, options, used):
    X, y = rows(rng)
    mg.fit(mg.Logistic(), (X, y), **options)
    assert not any(used)


def test_nearly_collinear_columns_are_summed_in_double_precision(rng):
    """Their standard errors would lose two digits; of a shift beyond float32 likewise."""
    X, y = rows(rng)
    X[:, 2] = X[:, 1] + 1e-3 * X[:, 2]
    r, wanted = (mg.fit(mg.Logistic(), (X, y), precision=p) for p in ("auto", "double"))
    np.testing.assert_array_equal(r.bse, wanted.bse)
    X, y = rows(rng, shift=500.0)
    r, wanted = (mg.fit(mg.Logistic(), (X, y), precision=p) for p in ("auto", "double"))
    np.testing.assert_array_equal(r.bse, wanted.bse)


def test_rows_that_turn_out_to_be_worse_conditioned_are_read_again(rng, monkeypatch):
    X, y = rows(rng)
    before = mg.fit(mg.Logistic(), (X, y))
    monkeypatch.setattr(single_precision, "WORSE_CONDITION", 0.0)
    after = mg.fit(mg.Logistic(), (X, y))
    assert after.fit_info.reads == before.fit_info.reads + 1
    double = mg.fit(mg.Logistic(), (X, y), precision="double")
    np.testing.assert_allclose(after.bse, double.bse, rtol=1e-10)  # the start's H is single still


def test_another_precision_is_refused():
    with pytest.raises(InputError, match="precision='float16' is not known; use one of auto"):
        mg.fit(mg.Linear(), (np.ones((3, 1)), np.ones(3)), precision="float16")

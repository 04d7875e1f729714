"""The benchmark of fits: all programs are given one problem, and bars are judged as they say."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmarks"))

from fit_growth import slope
from fit_peers import CONVERGED, FIT, GLUM, distance, programs_of, statsmodels_arrays
from fit_problems import PROBLEMS, Arrays, draw
from fit_report import Bar

ROWS = 20_000
HC1 = 0.01
"""Above the factor N / (N - p) of glum's covariance, for at most 252 columns."""


@pytest.mark.parametrize("name", PROBLEMS)
def test_programs_of_a_problem_estimate_the_same(name):
    programs = programs_of(draw(name, ROWS, seed=1))
    exact = programs[CONVERGED]()
    for program in (FIT, GLUM):
        away, off = distance(programs[program](), exact)
        assert away < 0.01, program
        assert off < HC1, program


@pytest.mark.parametrize("name", ["strong", "poisson", "gamma"])
def test_statsmodels_is_given_the_same_problem(name):
    data = draw(name, 2_000, seed=1)
    assert isinstance(data, Arrays)
    away, off = distance(statsmodels_arrays(data), programs_of(data)[CONVERGED]())
    assert away < 1e-4
    assert off < HC1


def test_a_seed_draws_the_same_rows_again():
    one, again, other = (draw("poisson", 100, seed) for seed in (1, 1, 2))
    assert isinstance(one, Arrays) and isinstance(again, Arrays) and isinstance(other, Arrays)
    np.testing.assert_array_equal(one.X, again.X)
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.array_equal(one.X, other.X)


def test_slopes_are_powers():
    sizes = np.array([10, 100, 1000])
    assert slope(sizes, 3 * sizes**1.5) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("measured", "at_least", "verdict"),
    [
        (7, True, "yes"), (5, True, "NO"), (10, True, "yes, with the aim"),
        (7, False, "NO"), (5, False, "yes"), (1, False, "yes, with the aim"),
    ],
)  # fmt: skip
def test_bars_are_lower_or_upper_bounds(measured, at_least, verdict):
    aim = 10 if at_least else 2
    assert Bar("a bar", measured, 6, aim, at_least=at_least).verdict == verdict

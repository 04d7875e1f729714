"""The keywords of `fit`: one place, which the doors, updates and the command line read."""

import inspect

import numpy as np
import pytest
from typer.testing import CliRunner

import masgrad as mg
from masgrad import cli
from masgrad.errors import InputError, InputTypeError
from masgrad.fitting.api import PATH_KEYWORDS
from masgrad.fitting.options import KEYWORDS, Options
from masgrad.fitting.results.update import UPDATE_KEYWORDS


def rows(N=80):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, X @ [1.0, 2.0] + rng.normal(size=N)


def test_fit_shows_every_keyword_with_its_default_and_meaning():
    shown = inspect.signature(mg.fit).parameters
    assert list(shown) == ["model", "data", *KEYWORDS]
    words = " ".join(mg.fit.__doc__.split())
    for name, field in KEYWORDS.items():
        assert shown[name].default == field.default
        assert f" {name}: {field.metadata['meaning']}" in words


def test_the_path_shows_its_own():
    shown = inspect.signature(mg.penalty_path).parameters
    assert list(shown) == ["model", "data", "penalty", "weights", "count", *PATH_KEYWORDS]
    assert shown["memory"].default == KEYWORDS["memory"].default


def test_the_command_line_has_the_defaults_of_fit():
    shown = inspect.signature(cli.fit).parameters
    for name in ("passes", "cov_type", "method", "memory", "seed"):
        assert shown[name].default == KEYWORDS[name].default
    said = " ".join(
        CliRunner().invoke(cli.app, ["fit", "--help"], env={"COLUMNS": "500"}).output.split()
    )
    assert "Memory for reading and keeping rows" in said


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda **k: mg.fit(mg.Linear(), rows(), **k), "cov_type"),
        (lambda **k: mg.penalty_path(mg.Linear(), rows(), mg.L1(0.1), **k), "there are penalty"),
        (lambda **k: mg.fit(mg.Linear(), rows()).update(rows(), **k), "cov_type"),
    ],
)
def test_a_keyword_that_is_not_one_is_a_type_error(call, near):
    with pytest.raises(InputTypeError, match=rf"unexpected keyword argument 'covtype'.*{near}"):
        call(covtype="HC1")


def test_updates_take_no_penalty_and_no_formula():
    assert set(KEYWORDS) - set(UPDATE_KEYWORDS) == {"penalty", "formula", "at"}
    with pytest.raises(InputTypeError, match="penalty"):
        mg.fit(mg.Linear(), rows()).update(rows(), penalty=mg.L1(0.1))


def test_options_are_checked_once_and_stay():
    options = Options(memory="1GB", threads=3, passes=4)
    assert options.memory == 2**30 and options.most_reads == 4 and not options.open_ended
    assert Options(**vars(options)) == options


def test_responses_in_the_place_of_passes_are_told_where_they_belong():
    X, y = rows()
    for wrong in (y, list(y)):
        with pytest.raises(InputTypeError, match=r"passes=.*Is it y\?.*fit\(model, \(X, y\)\)"):
            mg.fit(mg.Linear(), X, wrong)


@pytest.mark.parametrize("memory", ["infMB", "nanGB", "-1GB", float("inf"), float("nan")])
def test_memory_is_a_finite_size(memory):
    with pytest.raises(InputError, match="memory="):
        mg.fit(mg.Linear(), rows(), memory=memory)

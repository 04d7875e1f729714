"""One seed and one false-alarm rate for the whole suite.

`make test SEED=n` varies the seed. A statistical test is marked `statistical(n)` with the number of
comparisons that one case of it makes; all comparisons together share FALSE_ALARMS, and collection
fails when they ask for more than BUDGET.
"""

import os

import jax
import numpy as np
import pytest

FALSE_ALARMS = 1e-4
BUDGET = 200
SEED = int(os.environ.get("MASGRAD_SEED", "0"))


def alpha() -> float:
    """The level at which one comparison may reject."""
    return FALSE_ALARMS / BUDGET


@pytest.fixture
def seed() -> int:
    return SEED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


@pytest.fixture
def compiled(caplog):
    """A function that makes a call and says what JAX compiled for it."""

    def lines(call):
        caplog.clear()
        with jax.log_compiles():
            call()
        said = (record.getMessage() for record in caplog.records)
        return [line for line in said if line.startswith("Compiling")]

    assert lines(lambda: jax.jit(lambda x: x + 1)(0.0))  # JAX still says it in these words
    return lines


def pytest_configure(config):
    config.addinivalue_line("markers", "statistical(n): makes n comparisons with sampling error")


def pytest_collection_modifyitems(items):
    asked = sum(m.args[0] for item in items for m in item.iter_markers("statistical"))
    if asked > BUDGET:
        raise pytest.UsageError(f"{asked} statistical comparisons share a budget of {BUDGET}")

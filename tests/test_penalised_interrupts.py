"""Penalised fits that are read once, or stopped: all rows count, and Ctrl-C is told."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import InterruptedWarning
from masgrad.fitting.penalised.path import Criterion
from masgrad.fitting.sources import take_sample

N = 60_000
Status = mg.Status


def logistic(separated=False):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ [0.3, 1.0, -0.5]))).astype(float)
    return X, (X[:, 1] > 0.2).astype(float) if separated else y


def stream(X, y, stop_at=None):
    """Blocks of 5,000 rows; Ctrl-C comes at one of them, counted over all reads."""
    given = []

    def blocks():
        for i in range(0, N, 5000):
            given.append(i)
            if len(given) == stop_at:
                raise KeyboardInterrupt
            yield X[i : i + 5000], y[i : i + 5000]

    return mg.Stream(blocks)


@pytest.mark.parametrize("penalty", [mg.L2(0.01), mg.L1(0.01), mg.NonNegative()])
@pytest.mark.parametrize("given", ["array", "stream", "file"])
def test_a_penalised_fit_in_single_reads_has_all_rows(penalty, given, tmp_path):
    X, y = logistic()
    whole = mg.fit(mg.Logistic(), (X, y), cov_type="HC1")
    if given == "file":
        table = pd.DataFrame({"a": X[:, 1], "b": X[:, 2], "y": y})
        table.to_parquet(tmp_path / "rows.parquet", row_group_size=10_000)
        r = mg.glm("y ~ a + b", tmp_path / "rows.parquet", "binomial", passes=1, penalty=penalty)
    else:
        data = (X, y) if given == "array" else stream(X, y)
        r = mg.fit(mg.Logistic(), data, passes=1, penalty=penalty)
    assert r.nobs == N
    np.testing.assert_allclose(r.bse, whole.bse, rtol=0.02)
    assert np.abs((np.asarray(r.params) - whole.params) / whole.bse).max() < 0.5


def test_penalties_with_kinks_sample_rows_at_random_however_many_reads(monkeypatch):
    """Their reads are of all rows: a sample of whole blocks would see less of sorted ones."""
    X, y = logistic()
    singles = []

    def spy(source, single, memory, rng):
        singles.append(single)
        return take_sample(source, single, memory, rng)

    monkeypatch.setattr("masgrad.fitting.fit.take_sample", spy)
    mg.fit(mg.Logistic(), (X, y), passes=1, penalty=mg.L1(0.001))
    mg.fit(mg.Logistic(), (X, y), passes=1)
    assert singles == [False, True]


def test_ctrl_c_on_a_path_is_an_interruption(monkeypatch):
    X, y = logistic()
    asked = []

    def stop(self, split, points, ended=Criterion.has_ended):
        asked.append(len(points))
        if len(points) == 5:
            raise KeyboardInterrupt
        return ended(self, split, points)

    monkeypatch.setattr("masgrad.fitting.penalised.path.Criterion.has_ended", stop)
    with pytest.warns(InterruptedWarning, match="path was stopped"):
        r = mg.fit(mg.Logistic(), (X[:2000], y[:2000]), penalty=mg.L1("cv"))
    assert r.status is Status.INTERRUPTED and r.path.stopped


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
@pytest.mark.parametrize("penalty", [None, mg.L2(0.01), mg.L1(0.01)])
@pytest.mark.parametrize("separated", [False, True])
def test_ctrl_c_at_any_block_is_told_or_raised(penalty, separated):
    """At every fourteenth block of the reads: before there is an estimate it is raised."""
    X, y = logistic(separated)
    kept = 0
    for stop_at in range(4, 200, 14):
        try:
            with pytest.warns() as seen:
                r = mg.fit(mg.Logistic(), stream(X, y, stop_at), penalty=penalty)
        except KeyboardInterrupt:
            continue
        except pytest.fail.Exception:  # nothing was said: then it came to its end
            break
        if InterruptedWarning not in {w.category for w in seen}:
            break
        assert r.status is Status.INTERRUPTED
        kept += 1
    assert kept >= 2


def test_hc3_is_not_read_after_ctrl_c():
    X, y = logistic()
    with pytest.warns(InterruptedWarning):
        r = mg.fit(mg.Logistic(), stream(X, y, 30), cov_type="HC3")
    assert r.cov_type == "HC0" and "HC3 was stopped" in r.summary()
    part = mg.fit(mg.Logistic(), (X, y)).bse * np.sqrt(N / r.nobs)
    np.testing.assert_allclose(r.bse, part, rtol=0.1)


def test_new_rows_do_not_mend_an_interrupted_fit():
    X, y = logistic()
    with pytest.warns(InterruptedWarning):
        r = mg.fit(mg.Logistic(), stream(X, y, 30))
    assert r.update((X[:5000], y[:5000])).status is Status.INTERRUPTED

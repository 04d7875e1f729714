"""How a fit ended: one status for every end, shown by every view, saved and loaded."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import (
    AccuracyWarning,
    IdentificationWarning,
    InterruptedWarning,
    OrderWarning,
    PerfectFitWarning,
    SeparationWarning,
)
from masgrad.fitting.status import first_of
from test_fit import pieces

SAVED = Path(__file__).parent / "saved"
Status = mg.Status


def line(N=60):
    x = np.linspace(-2, 2, N)
    return np.column_stack([np.ones(N), x]), x


def converged():
    X, x = line()
    return mg.fit(mg.Linear(), (X, x + np.sin(40 * x)))


def separated():
    X, x = line()
    with pytest.warns(SeparationWarning) as seen:
        r = mg.fit(mg.Logistic(), (X, (x > 0.1).astype(float)))
    assert Status.SEPARATED.message in str(seen[0].message)
    return r


def undecided():
    """Rows that are read once cannot be read again to verify a direction."""
    X = logistic(60_000)[0]
    blocks = pieces(X, (X[:, 1] > 0.1).astype(float), 5000)
    with pytest.warns() as seen:
        r = mg.fit(mg.Logistic(), blocks)
    assert any(Status.SEPARATION_UNDECIDED.message in str(w.message) for w in seen)
    return r


def not_identified():
    X, x = line()
    with pytest.warns(IdentificationWarning, match="0 in every row"):
        return mg.fit(mg.Linear(), (np.column_stack([X, 0 * x]), np.sin(40 * x)))


def flat():
    loss = mg.CustomLoss(lambda t, z: (z["y"] - t[0] - t[1]) ** 2, dim=2)
    with pytest.warns(IdentificationWarning, match="flat in 1 of 2"):
        return mg.fit(loss, {"y": np.random.default_rng(0).normal(size=200)})


def perfect():
    X, x = line()
    with pytest.warns(PerfectFitWarning) as seen:
        r = mg.fit(mg.Linear(), (X, 1 + 2 * x))
    assert str(seen[0].message) == Status.PERFECT_FIT.message
    return r


def penalised_target():
    X, x = line()
    return mg.fit(mg.Logistic(), (X, (x > 0.1).astype(float)), penalty=mg.L2(0.01))


def penalised_only():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(8, 12)), rng.normal(size=8)
    with pytest.warns(IdentificationWarning, match="No intervals"):
        return mg.fit(mg.Linear(), rows, penalty=mg.L1(0.1))


def logistic(N, order=False):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 3))])
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ [0.5, 1.0, -1.0, 0.5]))).astype(float)
    at = np.argsort(y, kind="stable") if order else slice(None)
    return X[at], y[at]


def ordered():
    with pytest.warns() as seen:
        r = mg.fit(mg.Logistic(), pieces(*logistic(60_000, order=True), 5000), memory="1MB")
    said = {w.category: str(w.message) for w in seen}
    assert "single read" in said[OrderWarning]
    return r


def used_up():
    """Heavy tails, which one correcting read does not reach."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(60_000), rng.normal(size=(60_000, 2)) * 3])
    y = rng.poisson(np.exp(0.2 + X[:, 1])).astype(float)
    order = np.argsort(y)
    blocks = mg.Stream(lambda: pieces(X[order], y[order], 5000))
    with pytest.warns() as seen:
        r = mg.fit(mg.Poisson(), blocks, passes=2)
    assert AccuracyWarning in {w.category for w in seen}
    return r


def one_step():
    return mg.fit(mg.Logistic(), logistic(400), penalty=mg.L1(0.05))


def approximate():
    """New rows lie elsewhere and move the estimate so far that the old cubic model misses some."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 2
    y, z = ((rng.random(300) < 1 / (1 + np.exp(-V @ [0.8, -0.6]))).astype(float) for V in (X, Z))
    return mg.fit(mg.Logistic(), (X, y)).update((Z, z))


def unused():
    """No row's loss depends on the last parameter, which has no columns to be empty."""
    loss = mg.CustomLoss(lambda t, z: (z["y"] - t[0]) ** 2, dim=2)
    with pytest.warns(IdentificationWarning, match="flat in 1 of 2"):
        r = mg.fit(loss, {"y": np.random.default_rng(0).normal(size=200)})
    assert np.isfinite(r.bse[0]) and np.isnan(r.params[1])
    return r


def interrupted():
    """Ctrl-C in the middle of the first correcting read, after the sample and MasGrad's read."""
    rows, starts = logistic(5000), []

    def blocks():
        starts.append(0)
        for block in range(20):
            if len(starts) == 3 and block == 10:
                raise KeyboardInterrupt
            yield rows

    with pytest.warns(InterruptedWarning, match="Ctrl-C"):
        return mg.fit(mg.Logistic(), mg.Stream(blocks))


ENDS = {
    converged: Status.CONVERGED,
    separated: Status.SEPARATED,
    undecided: Status.SEPARATION_UNDECIDED,
    not_identified: Status.NOT_IDENTIFIED,
    flat: Status.NOT_IDENTIFIED,
    unused: Status.NOT_IDENTIFIED,
    interrupted: Status.INTERRUPTED,
    perfect: Status.PERFECT_FIT,
    penalised_target: Status.PENALISED_TARGET,
    penalised_only: Status.PENALISED_ONLY,
    ordered: Status.UNREPRESENTATIVE,
    one_step: Status.ONE_STEP,
    used_up: Status.READS_USED_UP,
    approximate: Status.APPROXIMATE,
}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_every_end_has_its_status_in_every_view(end, tmp_path):
    r, status = end(), ENDS[end]
    assert r.status is status
    r.save(tmp_path / "r.json")
    saved = mg.load(tmp_path / "r.json")
    assert saved.status is status
    for view in (saved.summary(width=100), r.to_html(), r.to_latex(), repr(r)):
        assert str(status) in view
    assert str(status) in r.plot().get_suptitle()
    words = " ".join(saved.summary(width=100).split())
    assert (status.message in words) != status.ok


@pytest.mark.parametrize("last", ["HC3", "deviance"])
def test_ctrl_c_in_a_last_read_keeps_the_estimate(last, monkeypatch):
    """After the estimate: in the read of leverages, and in that of the deviance."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(40_000), rng.normal(size=(40_000, 2))])
    y = rng.gamma(2.0, np.exp(X @ [0.1, 0.2, -0.3]) / 2)
    plain = mg.fit(mg.Gamma("log"), (X, y), passes=3)

    def stop(*_):
        raise KeyboardInterrupt

    name = "leverage.add_offset" if last == "HC3" else "covariance.deviance_pass"
    monkeypatch.setattr(f"masgrad.fitting.uncertainty.{name}", stop)
    options = {"cov_type": "HC3", "passes": 3} if last == "HC3" else {"passes": "auto"}
    with pytest.warns(InterruptedWarning):
        r = mg.fit(mg.Gamma("log"), (X, y), **options)
    assert r.status is Status.INTERRUPTED and (last != "HC3" or r.cov_type == "HC0")
    np.testing.assert_allclose(r.params, plain.params, rtol=1e-4)
    np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-3)


def test_the_first_status_is_the_results():
    assert first_of() is Status.CONVERGED
    assert first_of(None, Status.READS_USED_UP, Status.SEPARATED) is Status.SEPARATED
    assert all(status.message for status in Status)
    assert {s for s in Status if s.ok} == {Status.CONVERGED, Status.ONE_STEP}
    assert Status("converged") is Status.CONVERGED


OLD = {
    "converged": Status.CONVERGED,
    "path": Status.ONE_STEP,
    "separated": Status.SEPARATED,
    "not_identified": Status.NOT_IDENTIFIED,
    "perfect_fit": Status.PERFECT_FIT,
    "penalised_target": Status.PENALISED_TARGET,
    "penalised_only": Status.PENALISED_ONLY,
}


@pytest.mark.parametrize("name", OLD)
def test_results_saved_before_there_were_statuses_load(name, tmp_path):
    """Files in the format "masgrad result 2", written by the code before this one."""
    r = mg.load(SAVED / f"{name}.json")
    assert r.status is OLD[name] and str(r.status) in r.summary()
    assert r.fit_info.reads >= 1 and len(r.bse) == len(r.params)
    assert (r.path is not None) == (name in ("path",))
    r.save(tmp_path / "again.json")
    again = mg.load(tmp_path / "again.json")
    np.testing.assert_array_equal(again.cov, r.cov)
    np.testing.assert_array_equal(again.local_model.hessian, r.local_model.hessian)


def test_an_old_result_predicts_and_is_updated():
    r = mg.load(SAVED / "converged.json")
    a, y = [0.1, -0.2] * 20, [1.0, 0.0, 0.0, 1.0] * 10
    table = pd.DataFrame({"a": a, "g": list("uv") * 20, "y": y})
    new = r.update(table)
    assert new.nobs == r.nobs + 40 and ((r.predict(table) > 0) & (r.predict(table) < 1)).all()


@pytest.mark.filterwarnings("ignore::masgrad.errors.MasgradWarning")
def test_a_column_that_later_rows_carry_is_not_called_empty():
    """A separated level of an iterator, which is not among the first rows."""
    rng, N = np.random.default_rng(0), 60_000
    level = (np.arange(N) >= 50_000) & (np.arange(N) < 50_200)
    X = np.column_stack([np.ones(N), rng.normal(size=N), level])
    y = np.where(level, 0, rng.poisson(0.4, N)).astype(float)
    with pytest.warns(SeparationWarning, match="no information is left along 2"):
        r = mg.fit(mg.Poisson(), pieces(X, y, 5000))
    assert np.isinf(r.bse[2]) and np.isfinite(r.bse[:2]).all()
    assert "0 in every row" not in r.summary()

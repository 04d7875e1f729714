"""How often intervals cover, in short; `make coverage` is the whole study.

Hits of one replication's coordinates are correlated, so tests are of replications' first
coordinate. Each is two-sided at the suite's level.
"""

import numpy as np
import pytest
from scipy import stats

import masgrad as mg
from conftest import alpha

THETA = np.array([0.3, -0.5, 0.8])


def heteroskedastic(rng, N):
    X = rng.normal(size=(N, 3))
    return X, X @ THETA + rng.normal(size=N) * (0.3 + np.abs(X[:, 0]))


def overdispersed(rng, N):
    X = 0.5 * rng.normal(size=(N, 3))
    return X, rng.poisson(np.exp(X @ THETA) * rng.gamma(0.5, 2.0, N)).astype(float)


def well_specified(rng, N):
    X = rng.normal(size=(N, 3))
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ THETA))).astype(float)


def covered(r):
    low, high = r.conf_int().T
    return low[0] <= THETA[0] <= high[0]


def pvalue(hits, rate=0.95):
    return stats.binomtest(int(np.sum(hits)), len(hits), rate).pvalue


def replications(seed, many=200):
    return (np.random.default_rng([seed, 31, k]) for k in range(many))


@pytest.mark.statistical(2)
@pytest.mark.parametrize(
    "model, simulate", [(mg.Linear(), heteroskedastic), (mg.Poisson(), overdispersed)]
)
def test_robust_intervals_cover_where_the_model_is_wrong(seed, model, simulate):
    """The non-robust ones do not: the test has the power to see it."""
    data = [simulate(rng, 1500) for rng in replications(seed)]
    assert pvalue([covered(mg.fit(model, d)) for d in data]) > alpha()
    assert pvalue([covered(mg.fit(model, d, cov_type="nonrobust")) for d in data]) < 1e-6


def in_one_read(X, y):
    return mg.fit(mg.Logistic(), ((X[i : i + 500], y[i : i + 500]) for i in range(0, len(y), 500)))


def updated(X, y):
    r = mg.fit(mg.Logistic(), (X[:1000], y[:1000]))
    return r.update((X[1000:3000], y[1000:3000])).update((X[3000:], y[3000:]))


def by_chains(X, y):
    return mg.fit(mg.Logistic(), (X, y), method="chains", chains=10)


@pytest.mark.statistical(1)
@pytest.mark.parametrize(
    "variant", [in_one_read, pytest.param(updated, marks=pytest.mark.long), by_chains]
)
def test_every_way_to_an_interval_covers(seed, variant, monkeypatch):
    """With a few rows kept, so that a single read of 6,000 is one."""
    monkeypatch.setattr("masgrad.fitting.sources.PILOT_ROWS", 1000)
    fits = [variant(*well_specified(rng, 6000)) for rng in replications(seed)]
    assert pvalue([covered(r) for r in fits]) > alpha()
    assert fits[0].nobs == 6000


@pytest.mark.statistical(1)
def test_joint_regions_cover(seed):
    data = (overdispersed(rng, 1500) for rng in replications(seed, 300))
    p = [mg.fit(mg.Poisson(), d).wald_test(np.eye(3), THETA).pvalue for d in data]
    assert pvalue(np.array(p) > 0.05) > alpha()
    assert stats.kstest(p, "uniform").pvalue > alpha()

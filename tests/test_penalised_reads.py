"""Reads of a penalised fit of a stream: how many, and that random rows are not called ordered."""

import warnings

import numpy as np
import pytest

import masgrad as mg


class Rows:
    """200,000 independent rows, which count how often they were started."""

    def __init__(self, model):
        self.model, self.starts = model, 0

    def __call__(self):
        self.starts += 1
        rng = np.random.default_rng(1)
        for _ in range(20):
            X = rng.standard_normal((10_000, 8))
            noise = rng.logistic(size=10_000)
            t = X[:, 0] / 2 + noise
            yield X, t if isinstance(self.model.family, type(mg.Linear().family)) else (t > 0) * 1.0


@pytest.mark.parametrize("model", [mg.Linear(), mg.Logistic()])
@pytest.mark.parametrize("lam", [0.02, "bic", "cv"])
def test_reads_are_counted_and_random_rows_do_not_drift(model, lam):
    rows = Rows(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r = mg.fit(model, mg.Stream(rows), penalty=mg.L1(lam))
    sample = 1
    assert r.fit_info.reads == rows.starts - sample
    assert abs(r.fit_info.drift) < 5

"""Proximal Newton steps over reads, and what pilot rows predict of them."""

from dataclasses import replace

import numpy as np
import pytest

import masgrad as mg
from masgrad.data.source import Arrays
from masgrad.fitting.objective.coordinates import identity
from masgrad.fitting.objective.monitor import Monitor
from masgrad.fitting.objective.objective import Objective
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.options import Options
from masgrad.fitting.penalised.coordinates import PenaltyCoordinates
from masgrad.fitting.penalised.optimum.over_reads import Reads
from masgrad.fitting.penalised.optimum.proximal_newton import optimum_in_memory
from masgrad.fitting.penalised.optimum.steps import newton_step, predicted_step
from masgrad.progress import Progress
from masgrad.types import float64
from scenarios import sparse


def problem(rng, N=40_000, lam=0.01):
    X, y = sparse(rng, N=N, family="bernoulli")
    objective = Objective(mg.Logistic(), identity(X.shape[1]))
    return objective, PenaltyCoordinates.of(objective.coordinates, mg.L1(lam)), (X, y)


@float64
def test_a_tenth_of_the_rows_predicts_most_of_what_a_step_misses(rng):
    objective, space, (X, y) = problem(rng)
    far = np.zeros(X.shape[1])
    local = objective.local_model(far, (X, y))
    exact, _ = optimum_in_memory(objective, space, (X, y), far)
    plain = newton_step(space, local, far)
    step = predicted_step(objective, space, local, plain, (X[::10], y[::10]))
    assert step is not None and step.correction > 1

    def distance(psi):
        return np.sqrt((psi - exact) @ local.hessian @ (psi - exact))

    assert distance(step.psi) < 0.2 * distance(plain.psi)


@float64
def test_from_all_rows_the_prediction_is_the_optimum(rng):
    objective, space, rows = problem(rng)
    far = np.zeros(rows[0].shape[1])
    local = objective.local_model(far, rows)
    exact, _ = optimum_in_memory(objective, space, rows, far)
    step = predicted_step(objective, space, local, newton_step(space, local, far), rows)
    assert step is not None
    away = step.psi - exact
    assert np.sqrt(away @ local.hessian @ away / len(away)) < 0.05  # ends at 0.01 standard errors
    G = step.end(space, local).gradient / local.count
    there = objective.local_model(step.psi, rows).gradient / local.count
    np.testing.assert_allclose(G, there, atol=1e-4)


@float64
def test_nothing_is_predicted_where_curvatures_grow_beyond_themselves(rng):
    X = rng.normal(size=(5000, 2))
    y = rng.poisson(np.exp(X @ [1.5, 1.0])).astype(float)
    objective = Objective(mg.Poisson(), identity(2))
    space = PenaltyCoordinates.of(objective.coordinates, mg.L1(0.01))
    far = np.zeros(2)
    local = objective.local_model(far, (X, y))
    step = newton_step(space, local, far)
    assert predicted_step(objective, space, local, step, (X, y)) is None


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("lam", [0.2, 0.02])
def test_few_reads_give_what_many_give(rng, family, lam):
    data = sparse(rng, N=60_000, family=family)
    r = mg.fit(mg.GLM(family), data, penalty=mg.L1(lam))
    many = mg.fit(mg.GLM(family), data, penalty=mg.L1(lam), passes="converge")
    assert r.fit_info.reads <= 5
    assert np.abs((r.penalized_params - many.penalized_params) / many.bse).max() < 1e-4
    assert np.abs((r.params - many.params) / many.bse).max() < 2e-3
    np.testing.assert_allclose(r.bse, many.bse, rtol=1e-3)


@pytest.mark.parametrize("N", [2000, 40_000])
@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize(("family", "power"), [("gaussian", 2), ("inverse_gaussian", -1)])
def test_falls_are_judged_in_standard_errors_whatever_the_unit_of_y(rng, N, unit, family, power):
    X, t = sparse(rng, N=N)
    y, model = np.exp(t / 4), mg.GLM(family, "log")  # the loss has the unit of y^power
    one = mg.fit(model, (X, y), penalty=mg.L1(0.01))
    other = mg.fit(model, (X, unit * y), penalty=mg.L1(0.01 * unit**power))
    assert other.fit_info.reads == one.fit_info.reads
    away = (other.penalized_params - one.penalized_params)[1:] / one.bse[1:]
    assert np.abs(away).max() < 1e-5
    np.testing.assert_allclose(other.bse, one.bse, rtol=1e-6)


@float64
def test_a_start_is_compared_with_a_loss_that_was_read(rng):
    objective, space, rows = problem(rng)
    source = Arrays(rows)
    reads = Reads(objective, Reader(source, 1, Monitor(Progress(None, False))), Options(), rows)
    before = reads.optimum(space, np.zeros(rows[0].shape[1]))
    light = space.with_lam(0.001)
    assert before.last_read is not None
    start, _ = optimum_in_memory(objective, light, rows, before.psi)
    too_low = replace(before.local_model, loss=0.5 * before.local_model.loss)
    poor = replace(before, local_model=too_low)
    for known in (before, poor):  # what is predicted at the optimum before does not matter
        found = reads.optimum(light, start, known)
        assert found.reads == 1
        np.testing.assert_allclose(found.psi, start, atol=1e-7)
    risen = replace(before, last_read=replace(before.last_read, loss=0.0))
    assert reads.optimum(light, start, risen).reads > 1

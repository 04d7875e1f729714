"""A fit with a penalty that has kinks: the penalised estimate, and intervals after it.

1. lam, if it is to be chosen: a path (`selection.py`).
2. The penalised optimum of all rows: `penalized_params` (`proximal.py`).
3. One step without the penalty, and its sandwich: `params`, `conf_int` (`debias.py`).

Where the rows alone do not determine theta (N <= p, collinear columns, separated responses) there
is no such step, and no interval: `params` are the penalised ones and their errors infinite.
"""

import time
from dataclasses import replace

import numpy as np

from masgrad.chains.progress import Progress
from masgrad.data.formulas import Terms
from masgrad.data.source import Source
from masgrad.errors import IdentificationError, InputError
from masgrad.fitting.assemble import assemble
from masgrad.fitting.debias import debias
from masgrad.fitting.estimate import Sample, take_sample
from masgrad.fitting.examine import explain
from masgrad.fitting.folds import split
from masgrad.fitting.frame import identity
from masgrad.fitting.lens import Lens, penalised_frame
from masgrad.fitting.options import Options
from masgrad.fitting.pipeline import KEEP, check_options, check_responses, check_small
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.proximal import Optimum, optimum
from masgrad.fitting.quadratic import NotConvex
from masgrad.fitting.result import Result
from masgrad.fitting.selection import COUNT, PenaltyPath, check_criterion, walk
from masgrad.fitting.separation import separating
from masgrad.fitting.shrunken import choice, point_only, said
from masgrad.fitting.threads import own_cores
from masgrad.fitting.watch import Watch
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork
from masgrad.penalties.fits import check_fits
from masgrad.penalties.penalty import Scaled

SEARCHED = 100
"""Coefficients up to which separated responses are looked for wherever they could be."""

SUSPECT = 0.1
"""Share of responses on the wrong side below which they are looked for with more of them."""


def fit_nonsmooth(model: Model, source: Source, terms: Terms | None, options: Options) -> Result:
    """The penalised estimate, and intervals after it where the data allow them."""
    began = time.perf_counter()
    problem, options = _problem(model, source, options), _with_factor(options)
    with own_cores(), Progress(None, options.progress, "rows") as bar:
        watch = Watch(bar)
        try:
            sample, lens = prepare(problem, options)
            lens, path = _chosen(problem, lens, sample, options, watch)
            found = optimum(problem, lens, sample, options.plan, watch)
            check_responses(problem)
            result = _inference(problem, terms, options, sample, found, watch, began)
        except BadBlock as bad:
            raise explain(problem, bad.rows, watch.rows) from None
        except NotConvex as error:
            raise InputError(f"{error}: the penalised fit needs a convex loss") from None
    theta = lens.theta(found.psi)
    notes = [said(lens, found, result is not None), *choice(problem, path)]
    if result is None:
        result = point_only(problem, terms, sample, found, watch, began, theta)
    return replace(result, penalized=theta, path=path, notes=(*notes, *result.notes))


def penalty_path_of(model: Model, source: Source, options: Options, count: int) -> PenaltyPath:
    """The path alone, to the penalty's lam or by its criterion."""
    problem = _problem(model, source, options)
    with own_cores(), Progress(None, options.progress, "rows") as bar:
        watch = Watch(bar)
        try:
            sample, lens = prepare(problem, options)
            return _walked(problem, lens, sample, options, watch, count)
        except BadBlock as bad:
            raise explain(problem, bad.rows, watch.rows) from None


def _problem(model: Model, source: Source, options: Options) -> Problem:
    """The loss over these rows, once it is known that it can be penalised."""
    if isinstance(model, GaussianMixture | ReluNetwork):
        raise InputError(
            f"penalty={options.penalty} needs a convex loss, and that of {type(model).__name__} is "
            "not; run mg.madprox, or add the penalty to the loss"
        )
    if not source.again:
        raise InputError(
            "a penalised fit reads the rows more than once, and an iterator can be read once; give "
            "mg.Stream(function) with a function that starts it anew"
        )
    if options.cov_type == "HC3" or options.method == "chains":
        raise InputError("a penalised fit has the cov_type 'robust', 'HC1' or 'nonrobust'")
    problem = Problem(model, source, identity(1), options.threads)
    canonical = problem.family is None or problem.family.canonical
    problem.informed = options.cov_type == "nonrobust" and not canonical
    check_options(problem, options)
    return problem


def _with_factor(options: Options) -> Options:
    """Robust errors have the factor N / (N - p) here."""
    return replace(options, cov_type="HC1") if options.cov_type == "robust" else options


def prepare(problem: Problem, options: Options) -> tuple[Sample, Lens]:
    """The kept rows, and the coordinates in which the penalty acts."""
    rng = np.random.default_rng([options.plan.seed, 0])
    sample = take_sample(problem.source, False, KEEP, options.memory // 8, rng)
    problem.kept, problem.whole = sample.rows, sample.whole
    assert options.penalty is not None
    check_fits(options.penalty, problem.model, problem.model.dim(sample.rows))
    check_small(problem, sample)
    if problem.linear and not np.isfinite(sample.rows[0]).all():
        raise BadBlock(sample.rows)
    problem.frame = penalised_frame(problem.model, sample.rows, options.penalty)
    return sample, Lens.of(problem, options.penalty)


def _chosen(
    problem: Problem, lens: Lens, sample: Sample, options: Options, watch: Watch
) -> tuple[Lens, PenaltyPath | None]:
    """The lens with a lam that is a number, and the path on which it was found."""
    penalty = lens.penalty
    if not isinstance(penalty, Scaled) or penalty.criterion is None:
        return lens, None
    path = _walked(problem, lens, sample, options, watch)
    return lens.with_lam(path.lam), path


def _walked(
    problem: Problem, lens: Lens, sample: Sample, options: Options, watch: Watch, count: int = COUNT
) -> PenaltyPath:
    penalty = lens.penalty
    if not isinstance(penalty, Scaled):
        raise InputError(f"{penalty!r} has no lam, and no path")
    criterion = penalty.criterion or ""
    check_criterion(criterion, problem.family)
    parts = split(problem, lens, sample, criterion, options.plan.seed, watch)
    end = None if criterion else float(penalty.lam)
    tell = lambda: watch.tick(int(parts.whole.count))  # noqa: E731
    path, _ = walk(lens, parts, criterion, problem.family, end, count, tell)
    return replace(path, names=problem.source.names)


def _inference(
    problem: Problem, terms: Terms | None, options: Options, sample: Sample, found: Optimum,
    watch: Watch, began: float,
) -> Result | None:  # fmt: skip
    """The result of one step without the penalty; None where there is none to make."""
    try:
        done = debias(problem, found, sample, watch)
        if _separated(problem, done.local.point, sample):
            return None
        return assemble(problem, terms, options, sample, done, watch, began)
    except IdentificationError as error:
        problem.notes.append(f"No intervals: {error}.")
        return None


def _separated(problem: Problem, phi: np.ndarray, sample: Sample) -> bool:
    """Whether 0s and 1s are separated, so that without the penalty there is no estimate."""
    family = problem.family
    if family is None or family.name != "bernoulli" or not sample.whole:
        return False
    X, y = sample.rows[0], sample.rows[1]
    wrong = ((problem.predictors(phi, sample.rows) > 0) != (y > 0.5)).mean()
    if X.shape[1] > SEARCHED and wrong > SUSPECT:
        return False
    if separating(problem, phi, sample.rows) is None:
        return False
    problem.notes.append(
        "No intervals: the responses are separated, and without the penalty there is no estimate."
    )
    return True

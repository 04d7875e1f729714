"""A fit with a penalty that has kinks: the penalised estimate, and intervals after it.

1. lam, if it is to be chosen: a path (`selection.py`).
2. The penalised optimum of all rows: `penalized_params` (`proximal.py`).
3. One step without the penalty, from a light one (`light.py`), and its sandwich: `params`,
   `conf_int` (`debias.py`).

Where the rows alone do not determine theta (N <= p, collinear columns, separated responses) there
is no such step, and no interval: `params` are the penalised ones and their errors infinite.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from masgrad.data.formula.terms import Terms
from masgrad.data.source import Source
from masgrad.errors import AccuracyWarning, IdentificationError, InputError, say
from masgrad.fitting.assemble import assemble
from masgrad.fitting.begin import begin
from masgrad.fitting.debias import debias
from masgrad.fitting.estimate import Sample, take_sample
from masgrad.fitting.examine import explain
from masgrad.fitting.folds import split
from masgrad.fitting.frame import identity
from masgrad.fitting.lens import Lens, penalised_frame
from masgrad.fitting.light import light_start
from masgrad.fitting.loose import separated_directions
from masgrad.fitting.options import Options
from masgrad.fitting.parts import Split, Sums
from masgrad.fitting.penalised import check_again, check_covariance
from masgrad.fitting.pipeline import KEEP, check_options, check_responses, check_small
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.fitting.proximal import Optimum, optimum
from masgrad.fitting.quadratic import NotConvex, Quadratic
from masgrad.fitting.result import Result
from masgrad.fitting.selection import COUNT, PenaltyPath, check_criterion, walk
from masgrad.fitting.shrunken import choice, point_only, said
from masgrad.fitting.threads import own_cores
from masgrad.fitting.watch import Watch
from masgrad.models.mixture import GaussianMixture
from masgrad.models.model import Model
from masgrad.models.network import ReluNetwork
from masgrad.penalties.fits import check_fits
from masgrad.penalties.minimise import scale, violation
from masgrad.penalties.penalty import Penalty, Scaled
from masgrad.progress import Progress

WRONG = 1e-6
"""Violation of the conditions of optimality, as a share of the largest gradient, that is told."""


def fit_nonsmooth(model: Model, source: Source, terms: Terms | None, options: Options) -> Result:
    """The penalised estimate, and intervals after it where the data allow them."""
    began = time.perf_counter()
    problem, options = _problem(model, source, options), _with_factor(options)
    watch = Watch(Progress(None, False))
    with own_cores(), _explained(problem, watch):
        lens, path, sample, known = _chosen(problem, options, watch)
        with Progress(None, options.progress, "rows") as watch.progress:
            start = _start(problem, lens, sample, options.start)
            found = optimum(problem, lens, sample, options.plan, watch, start, known)
            check_responses(problem)
            theta = lens.theta(found.psi)
            _check_optimal(lens, found)
            result = _inference(problem, terms, options, sample, lens, found, watch, began)
    penalty = options.penalty if path is None else lens_penalty(options, path)
    assert penalty is not None
    notes = [said(penalty, lens, found, result is not None), *choice(path)]
    if result is None:
        result = point_only(problem, terms, sample, found, watch, began, theta)
    more = 0 if sample.whole or path is None or known is not None else 1
    how = replace(result.how, reads=result.how.reads + more)
    return replace(result, penalized=theta, path=path, how=how, notes=(*notes, *result.notes))


def penalty_path_of(model: Model, source: Source, options: Options, count: int) -> PenaltyPath:
    """The path alone, to the penalty's lam or by its criterion."""
    problem, watch = _problem(model, source, options), Watch(Progress(None, False))
    with own_cores(), _explained(problem, watch):
        sample, lens = prepare(problem, options)
        return _walked(problem, lens, sample, options, watch, count)[0]


@contextmanager
def _explained(problem: Problem, watch: Watch) -> Iterator[None]:
    """What went wrong, in words."""
    try:
        yield
    except BadBlock as bad:
        raise explain(problem, bad.rows, watch.rows) from None
    except NotConvex as error:
        raise InputError(f"{error}: the penalised fit needs a convex loss") from None


def lens_penalty(options: Options, path: PenaltyPath) -> Penalty:
    """The penalty that was asked for, with the lam that was chosen."""
    assert isinstance(options.penalty, Scaled)
    return options.penalty.with_lam(path.lam)


def _problem(model: Model, source: Source, options: Options) -> Problem:
    """The loss over these rows, once it is known that it can be penalised."""
    if isinstance(model, GaussianMixture | ReluNetwork):
        raise InputError(
            f"penalty={options.penalty} needs a convex loss, and that of {type(model).__name__} is "
            "not; run mg.madprox, or add the penalty to the loss"
        )
    check_again(source)
    check_covariance(options)
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
    problem: Problem, options: Options, watch: Watch
) -> tuple[Lens, PenaltyPath | None, Sample, Quadratic | None]:
    """A lens with a lam that is a number, the path on which it was found, and what was read."""
    sample, lens = prepare(problem, options)
    if not isinstance(lens.penalty, Scaled) or lens.penalty.criterion is None:
        return lens, None, sample, None
    path, parts = _walked(problem, lens, sample, options, watch)
    whole = parts.whole
    known = whole.local if isinstance(whole, Sums) and whole.squared else None
    return lens.with_lam(path.lam), path, sample, known


def _walked(
    problem: Problem, lens: Lens, sample: Sample, options: Options, watch: Watch, count: int = COUNT
) -> tuple[PenaltyPath, Split]:
    """The path, and what it was made of."""
    penalty = lens.penalty
    if not isinstance(penalty, Scaled):
        raise InputError(f"{options.penalty!r} has no lam, and no path")
    criterion = penalty.criterion or ""
    check_criterion(criterion, problem.family)
    if not criterion and not penalty.lam > 0:
        raise InputError("lam=0 is no end for a path; give a number > 0")
    with Progress(None, options.progress, "rows") as watch.progress:
        parts = split(problem, lens, sample, criterion, options.plan, watch)
    watch.progress = Progress(None, False)  # a bar of lams takes its place
    end = None if criterion else float(penalty.lam)
    with Progress(count, options.progress, "lams") as bar:
        path, _ = walk(lens, parts, criterion, problem.family, end, count, bar.update)
    return replace(path, names=problem.source.names), parts


def _start(problem: Problem, lens: Lens, sample: Sample, start: Any) -> np.ndarray | None:
    """The user's own start, as the lens sees it."""
    if start is None:
        return None
    own = problem.frame.phi(problem.model.theta(start, sample.rows))
    return lens.psi(begin(problem, sample.rows, own))


def _check_optimal(lens: Lens, found: Optimum) -> None:
    """The conditions of optimality at the estimate, over all rows."""
    model, level = lens.quadratic(found.local), lens.level(found.psi)
    wrong = violation(lens.penalty, model, found.psi - level).max(initial=0.0)
    reference = scale(lens.penalty, model)
    rounding = 1e-12 * scale(lens.penalty, model._replace(c=model.c + model.A @ level))
    if wrong > max(WRONG * reference, rounding):
        say(
            AccuracyWarning,
            f"penalized_params miss the conditions of optimality by {wrong / reference:.2g} of the "
            "largest gradient: bring the columns to one scale",
        )


def _inference(
    problem: Problem, terms: Terms | None, options: Options, sample: Sample, lens: Lens,
    found: Optimum, watch: Watch, began: float,
) -> Result | None:  # fmt: skip
    """The result of one step without the penalty; None where there is none to make."""
    try:
        _check_count(found)
        flat = separated_directions(problem, options, sample, lens.theta(found.psi))
        light = light_start(problem, lens, found, sample, options.plan, watch)
        problem.one_step = True
        done = debias(problem, light, sample, watch, flat)
        return assemble(problem, terms, options, sample, done, watch, began)
    except IdentificationError as error:
        problem.notes.append(f"No intervals: {error}.")
        return None


def _check_count(found: Optimum) -> None:
    local = found.local
    if local.count <= len(local.point):
        raise IdentificationError(f"{local.count:g} rows for {len(local.point)} coefficients")

"""Where a linear predictor begins.

At zero, for canonical links without offsets: there the loss is convex and finite everywhere. Other
links may have no mean at 0, and from an offset of 100 on the scale of a logarithm Newton's steps
lead back by 1 each; so three starts are tried, and the one of lowest risk is taken: zero; the mean
response for every row, which a constant column can express; and least squares of the link of
responses that are pulled halfway to their mean (the first step of Fisher scoring). A user's own
start is a fourth.
"""

import numpy as np

from masgrad.data.arrays import blocks
from masgrad.data.regression import offset_of, weight_of
from masgrad.errors import InputError
from masgrad.fitting.problem import BadBlock, Problem
from masgrad.models.family import Family
from masgrad.types import Rows


def begin(problem: Problem, rows: Rows, own: np.ndarray | None = None) -> np.ndarray:
    """phi at which every one of these rows has a mean; `own` is where the user would begin."""
    family, p = problem.family, problem.model.dim(rows)
    if family is None:
        return np.zeros(p) if own is None else own
    if family.canonical and own is None and offset_of(rows) is None:
        return np.zeros(p)
    if not (np.isfinite(rows[0]).all() and np.isfinite(rows[1]).all()):
        raise BadBlock(rows)
    with np.errstate(all="ignore"):
        tried = [np.zeros(p), own, level(problem, rows), _least_squares(problem, family, rows)]
        tried = [phi for phi in tried if phi is not None and np.isfinite(phi).all()]
        risks = [problem.losses(phi, rows).sum() for phi in tried]
    if not np.isfinite(np.min(risks)) and not np.isfinite(family.domain).any():
        raise BadBlock(rows)
    if not np.isfinite(np.min(risks)):
        raise InputError(
            f"no start was found at which every row has a mean: the {family.link} link of the "
            f"{family.shown} family needs {_needs(family)}; give start=, use another link, or add "
            "an intercept"
        )
    return tried[int(np.nanargmin(risks))]


def level(problem: Problem, rows: Rows) -> np.ndarray | None:
    """The mean response for every row, where a constant column can express it."""
    family, k = problem.family, problem.frame.constant
    if family is None or k is None:
        return None
    offset, phi = offset_of(rows), np.zeros(problem.model.dim(rows))
    middle = 0.0 if offset is None else float(np.median(offset))
    phi[k] = family.predictor(np.float64(_mean(family, rows))) - middle
    return phi


def _mean(family: Family, rows: Rows) -> float:
    """The mean response, and a little more where it is at the end of the range."""
    y, a = rows[1], weight_of(rows)
    mean = float(np.average(y, weights=a))
    if np.isfinite(family.highest):
        return (mean * len(y) + 0.5) / (len(y) + 1)
    return max(mean, 0.1 / len(y)) if family.lowest == 0 else mean


def _least_squares(problem: Problem, family: Family, rows: Rows) -> np.ndarray:
    mean, p = _mean(family, rows), problem.model.dim(rows)
    A, b = np.zeros((p, p)), np.zeros(p)
    for block in blocks(rows):
        y, a, offset = block[1], weight_of(block), offset_of(block)
        pulled = (y + mean) / 2
        pulled = pulled if family.lowest > -np.inf else np.maximum(pulled, 0.1 * mean)
        t = family.predictor(pulled)
        w = family.information(t) * (1.0 if a is None else a)
        U = problem.features(block)
        A += U.T @ (w[:, None] * U)
        b += U.T @ (w * (t if offset is None else t - offset))
    return np.linalg.lstsq(A, b, rcond=1e-12)[0] if np.isfinite(A).all() else np.full(p, np.nan)


def _needs(family: Family) -> str:
    low, high = family.domain
    return " and ".join(
        said
        for said, known in ((f"x'theta > {low:g}", low), (f"x'theta < {high:g}", high))
        if np.isfinite(known)
    )

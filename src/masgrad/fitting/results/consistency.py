"""Whether the parts of a record that was read from a file belong together."""

import math

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.fitted import Fitted


def consistent(r: Fitted) -> Fitted:
    """The record itself, if its parts have the types and sizes that belong together."""
    p, local = len(r.theta), r.local_model
    vectors = {
        "theta": r.theta,
        "not_identified": r.not_identified,
        "centre": r.coordinates.centre,
        "scale": r.coordinates.scale,
        "point": local.point,
        "gradient": local.gradient,
    }
    matrices = {
        "cov": r.cov,
        "coordinates": r.coordinates.matrix,
        "hessian": local.hessian,
        "meat": local.meat,
    }
    optional = {
        "penalized": (r.penalized, (p,)),
        "separated": (r.separated if r.separated.size else None, (p,)),
        "recession": (r.recession if r.recession.size else None, (p, *r.recession.shape[1:2])),
        "cov_phi": (r.cov_phi, (p, p)),
        "preconditioner": (r.coordinates.preconditioner, (p, p)),
        "information": (local.information, (p, p)),
        "moments_at": (local.moments_at, (p,)),
        "max_weighted_x": (local.max_weighted_x if np.ndim(local.max_weighted_x) else None, (p,)),
    }
    shapes = {name: (array, (p,)) for name, array in vectors.items()}
    shapes |= {name: (array, (p, p)) for name, array in matrices.items()}
    shapes |= {name: pair for name, pair in optional.items() if pair[0] is not None}
    shapes["null_directions"] = r.null_directions, (p, *r.null_directions.shape[1:2])
    known = len(local.constants) in (2, 3, 3 + p)  # without marks; of any loss; of a regression
    shapes["constants"] = local.constants, local.constants.shape if known else (3 + p,)
    if r.merged is not None:
        shapes["marks"] = r.merged.marks, (r.merged.shards, 3 + p)
    for name, (array, shape) in shapes.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name} has shape {np.shape(array)}, not {shape}")
    _check_texts(r)
    numbers = (r.nobs, local.count, local.squares, local.loss, local.rows)
    if not all(_is_number(value) for value in numbers):
        raise ValueError(f"{numbers!r:.80} are no numbers")
    _check_df(r)
    return r


def check_given_model(r: Fitted) -> Fitted:
    """The record itself, if a loss that was given again has its parameters."""
    size, names = getattr(r.model, "size", len(r.theta)), getattr(r.model, "names", ())
    if size != len(r.theta):
        raise InputError(
            f"the saved result has {len(r.theta)} parameters, and the model {size}; give the loss "
            "that was fitted"
        )
    if names and r.names and names != r.names:
        first = next(j for j in range(size) if names[j] != r.names[j])
        raise InputError(
            f"parameter {first} of the saved result is {r.names[first]!r}, and that of the model "
            f"{names[first]!r}; give the loss that was fitted"
        )
    return r


def _check_texts(r: Fitted) -> None:
    """Names and notes are texts, and there is a name for every parameter or for none."""
    p, texts = len(r.theta), (r.kind, r.target, r.cov_type, *r.names, *r.notes)
    if not all(isinstance(text, str) for text in texts) or len(r.names) not in (0, p):
        raise ValueError("a name or a note is no text")
    if r.terms is not None and len(r.terms.names) != p:
        raise ValueError(f"{len(r.terms.names)} columns of X for {p} parameters")


def _check_df(r: Fitted) -> None:
    """Degrees of freedom are positive: one number, or one for each coefficient (NaN without)."""
    if isinstance(r.df, np.ndarray):
        if r.df.shape != r.theta.shape or (r.df <= 0).any():
            raise ValueError(f"df has shape {r.df.shape}, or a negative entry")
    elif r.df is not None and not (_is_number(r.df) and r.df > 0):
        raise ValueError(f"df = {r.df!r:.80} is no number of degrees of freedom")


def _is_number(value: object) -> bool:
    """Whether a value is a number that double precision can hold, or NaN."""
    try:
        return isinstance(value, int | float) and not math.isinf(float(value))
    except OverflowError:
        return False

"""Does a penalty fit a model's parameters?"""

from masgrad.errors import InputError
from masgrad.models.glm import GLM
from masgrad.models.model import Model
from masgrad.models.trace import TraceRegression
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.structured import Nuclear


def check_fits(penalty: Penalty, model: Model, p: int) -> None:
    """Check that the penalty fits the length and shape of theta; a nuclear norm needs a matrix."""
    matrix = (model.height, model.width) if isinstance(model, TraceRegression) else None
    if isinstance(penalty, Nuclear) and isinstance(model, GLM) and matrix is None:
        rows, cols = penalty.shape
        raise InputError(
            f"the nuclear norm is one of matrices, and theta is a vector of {p} coefficients here; "
            f"use mg.TraceRegression({rows}, {cols}) with X of shape (N, {rows}, {cols}), or mg.L1"
        )
    penalty.check(p, matrix)

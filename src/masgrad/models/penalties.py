"""Penalties: the objective is mean loss + lam x penalty."""

from dataclasses import dataclass

from masgrad.data.arrays import as_size


@dataclass(frozen=True)
class L2:
    """lam |theta|^2 / 2 over all coefficients but that of a constant column.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> X = np.eye(3).repeat(2, axis=0)
        >>> r = mg.fit(mg.Linear(), (X, X @ [1.0, 2.0, 3.0]), penalty=mg.L2(1 / 3))
        >>> r.penalized_params.round(6), r.params.round(6)
        (array([0.5, 1. , 1.5]), array([1., 2., 3.]))
    """

    lam: float

    def __post_init__(self):
        object.__setattr__(self, "lam", as_size("lam", self.lam))

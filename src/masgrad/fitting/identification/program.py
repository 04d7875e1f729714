"""The linear program for a recession direction, below a size and within bounds."""

import numpy as np

from masgrad.fitting.identification.rank import BORDER

LARGEST_PROGRAM = 200_000
"""Rows times columns of the largest linear program."""

PROGRAMS, PROGRAM_SECONDS, PROGRAM_STEPS = 20, 20.0, 20_000
"""Bounds on the number of programs, and on the time and the pivots of each."""


def of_length_one(signed: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1, without those that are 0."""
    size = np.linalg.norm(signed, axis=1, keepdims=True)
    return (signed / np.where(size > 0, size, 1.0))[size[:, 0] > BORDER]


def maximal_direction(Z: np.ndarray) -> np.ndarray | None:
    """c with Z c >= 0 and as many rows above 0 as can be; 0 if none can, None if it is not known.

    The sum of u with 0 <= u <= 1 and u <= Z c is largest at that number.
    """
    n, k = Z.shape
    if not n:
        return np.zeros(k)
    from scipy import sparse  # as long to import as a small fit takes, and seldom needed
    from scipy.optimize import linprog

    done = linprog(
        np.concatenate([np.zeros(k), -np.ones(n)]),
        A_ub=sparse.hstack([sparse.csr_array(-Z), sparse.identity(n)]).tocsr(),
        b_ub=np.zeros(n),
        bounds=[(None, None)] * k + [(0, 1)] * n,
        method="highs",
        options={"time_limit": PROGRAM_SECONDS, "maxiter": PROGRAM_STEPS},
    )
    if done.status != 0:
        return None
    return done.x[:k] if -done.fun > 0.5 else np.zeros(k)

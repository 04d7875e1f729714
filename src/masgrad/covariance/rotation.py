"""How far an inverse root is from the symmetric one: H = Q S with S symmetric, Q a rotation.

Any H with H'H = Sigma^-1 whitens the gradient, so a chain's noise stays isotropic under each. The
drift does not: H b is a direction of descent for every b only if the symmetric part of H is
positive definite, and S is the H for which it always is.
"""

from dataclasses import dataclass

import numpy as np

from masgrad.data.arrays import as_rows
from masgrad.errors import InputError
from masgrad.types import Array


@dataclass(frozen=True, repr=False)
class Rotation:
    """The polar decomposition H = Q S of an inverse root.

    Args:
        matrix: Q.
        symmetric: S, the symmetric inverse root.
        angle: the largest angle, in degrees, by which Q turns a vector.
        descent: smallest eigenvalue of (H + H')/2 over that of S: 1 without rotation; where it is
            negative, H b climbs for some gradient b.
    """

    matrix: np.ndarray
    symmetric: np.ndarray
    angle: float
    descent: float

    def __repr__(self) -> str:
        return f"Rotation(angle={self.angle:.1f} degrees, descent={self.descent:.3g})"


def rotation(H: Array) -> Rotation:
    """The rotation that an inverse root carries, and what it does to descent.

    Paper: Proposition 6.2 Iterative rank-one updates - the root it gives is rotated

    Args:
        H: (p, p) with H'H = Sigma^-1, such as `mg.rank_one_inverse_root(vectors)`.

    Example:
        >>> import numpy as np, masgrad as mg
        >>> r = mg.rotation(np.array([[0.0, -1.0], [1.0, 0.0]]))
        >>> round(r.angle), bool(abs(r.descent) < 1e-12)
        (90, True)
    """
    H = np.asarray(as_rows(H, ("H",)), np.float64)
    if H.ndim != 2 or H.shape[0] != H.shape[1]:
        raise InputError(f"H has shape {H.shape}; a square matrix is needed")
    left, values, right = np.linalg.svd(H)
    if not values[-1] > 0:
        raise InputError("H is singular: it is no inverse root")
    Q, S = left @ right, (right.T * values) @ right
    angles = np.degrees(np.abs(np.angle(np.linalg.eigvals(Q))))
    least = np.linalg.eigvalsh((H + H.T) / 2)[0]
    return Rotation(Q, S, float(angles.max()), float(least / values[-1]))

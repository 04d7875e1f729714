"""A law: the distribution of an estimate, which says what it is about.

`target` names it: "iterate" (where one chain is at a step), "ERM" (the optimum of these rows) or
"theta*" (the population's optimum). Mistaking one for another is the commonest wrong interval.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from masgrad.errors import InputError
from masgrad.types import Array, jax_float64

Target = Literal["iterate", "ERM", "theta*"]


@dataclass(frozen=True)
class Law:
    """A Gaussian law N(mean, cov) of an estimate.

    Args:
        mean: (p,).
        cov: (p, p).
        target: what the law is about.
        note: how it was obtained, and what was regularised on the way.
        free: directions about which nothing is known, (p, k), or None.
    """

    mean: np.ndarray
    cov: np.ndarray
    target: Target
    note: str = ""
    free: np.ndarray | None = None

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.cov))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central interval of each coordinate, (lower, upper)."""
        if not 0 < level < 1:
            raise InputError(f"level={level}; a probability between 0 and 1 is needed")
        half = ndtri((1 + level) / 2) * self.sd
        return self.mean - half, self.mean + half

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """n draws, (n, p)."""
        rng = np.random.default_rng(seed)
        return rng.multivariate_normal(self.mean, self.cov, size=n, method="eigh")

    @jax_float64
    def push(self, function: Callable[[Array], Array]) -> "Law":
        """The law of function(theta), by the delta method: N(f(mean), J cov J').

        Where some directions of theta are not identified, f must not depend on them.

        Args:
            function: JAX-traceable, from theta (p,) to a scalar or a vector.

        Example:
            >>> import jax.numpy as jnp, numpy as np
            >>> law = Law(np.array([1.0, 2.0]), 0.01 * np.eye(2), "theta*")
            >>> law.push(lambda theta: theta[1] / theta[0])
            Law of the theta*: 2 +- 0.22 (delta method)
        """
        mean, J = _linearised(function, self.mean)
        if self.free is not None and self.free.size:
            moved = np.abs(J @ self.free).max(1)
            if (moved > 1e-6 * np.maximum(np.linalg.norm(J, axis=1), 1e-300)).any():
                raise InputError(
                    "this function depends on directions of theta that are not identified; it has "
                    "no law: take one that is the same along them, such as a prediction"
                )
        note = f"{self.note}; delta method" if self.note else "delta method"
        return Law(mean, J @ self.cov @ J.T, self.target, note)

    def __repr__(self) -> str:
        rows = ", ".join(f"{m:.4g} +- {s:.2g}" for m, s in zip(self.mean, self.sd, strict=True))
        return f"Law of the {self.target}: {rows}" + (f" ({self.note})" if self.note else "")


def _linearised(
    function: Callable[[Array], Array], at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """f(at) as a vector and its Jacobian (m, p)."""
    import jax
    import jax.numpy as jnp

    flat = lambda theta: jnp.atleast_1d(function(theta)).ravel()  # noqa: E731
    try:
        value, J = np.asarray(flat(jnp.asarray(at))), np.asarray(jax.jacfwd(flat)(jnp.asarray(at)))
    except Exception as error:
        raise InputError(
            f"the function cannot be traced by JAX at theta of shape {at.shape}: "
            f"{type(error).__name__}: {error}; write it with jax.numpy"
        ) from error
    if not (np.isfinite(value).all() and np.isfinite(J).all()):
        raise InputError(f"the function or its derivative is not finite at the estimate: {value}")
    return value, J

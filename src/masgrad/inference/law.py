"""A law: the distribution of an estimate, which says what it is about.

`target` names it: "iterate" (where one chain is at a step), "ERM" (the optimum of these rows) or
"theta*" (the population's optimum). Mistaking one for another is the commonest wrong interval.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import norm

from masgrad.errors import InputError

Target = Literal["iterate", "ERM", "theta*"]


@dataclass(frozen=True)
class Law:
    """A Gaussian law N(mean, cov) of an estimate.

    Args:
        mean: (p,).
        cov: (p, p).
        target: what the law is about.
        note: how it was obtained, and what was regularised on the way.
    """

    mean: np.ndarray
    cov: np.ndarray
    target: Target
    note: str = ""

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.cov))

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Central interval of each coordinate, (lower, upper)."""
        if not 0 < level < 1:
            raise InputError(f"level={level}; a probability between 0 and 1 is needed")
        half = norm.ppf((1 + level) / 2) * self.sd
        return self.mean - half, self.mean + half

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """n draws, (n, p)."""
        rng = np.random.default_rng(seed)
        return rng.multivariate_normal(self.mean, self.cov, size=n, method="eigh")

    def __repr__(self) -> str:
        rows = ", ".join(f"{m:.4g} +- {s:.2g}" for m, s in zip(self.mean, self.sd, strict=True))
        return f"Law of the {self.target}: {rows}" + (f" ({self.note})" if self.note else "")

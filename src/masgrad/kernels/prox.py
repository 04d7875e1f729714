"""The last slot of a kernel: what a penalty h does to the point after the gradient step.

    Prox       nothing                                          the smooth processes
    Implicit   theta' = prox_{eta,V}(theta - eta V^-1 g)        MadProx
    Explicit   theta' = theta - eta V^-1 (g + z)                the sub-gradient step

MadProx's step is theta - eta V^-1 (g + z) as well, with z in the subdifferential of h at its end,
theta'; the explicit step takes z at its start, theta.
"""

import equinox as eqx

from masgrad.covariance.root import Root
from masgrad.penalties.metric import ACCURACY, prox_in_metric
from masgrad.penalties.penalty import Penalty, register_traced
from masgrad.types import Array, Vectors

register_traced()


class Prox(eqx.Module):
    """The proximal slot of a kernel, here without a penalty."""

    penalty: Penalty | None = None

    def __call__(
        self, theta: Vectors, eta: Array, root: Root | None, before: Vectors
    ) -> tuple[Vectors, Array | bool]:
        """The end point of a step, and whether its solution missed the accuracy.

        Args:
            theta: the point after the gradient step.
            eta: the step size.
            root: V, if the gradient was adjusted by its inverse.
            before: the point before the gradient step.
        """
        del eta, root, before
        return theta, False

    @property
    def note(self) -> str:
        """A remark for the trace."""
        return ""

    @property
    def said(self) -> str:
        """The remark in the representation of a kernel."""
        return f", {self.note}" if self.note else ""


class Implicit(Prox):
    """The penalty's proximal map in the V metric.

    Paper: implicit updates - theta' = theta - eta V^-1 (g + z) with z a subgradient at theta'
    """

    accuracy: float = eqx.field(static=True, default=ACCURACY)

    def __call__(
        self, theta: Vectors, eta: Array, root: Root | None, before: Vectors
    ) -> tuple[Vectors, Array | bool]:
        assert self.penalty is not None
        solved = prox_in_metric(self.penalty, root, eta, theta, before, self.accuracy)
        return solved.u, ~solved.ok

    @property
    def note(self) -> str:
        return f"prox of {self.penalty}"


class Explicit(Prox):
    """A subgradient of the penalty at the point before the step.

    Paper: explicit updates - the sub-gradient step, theta' = theta - eta V^-1 (g + z), z at theta
    """

    def __call__(
        self, theta: Vectors, eta: Array, root: Root | None, before: Vectors
    ) -> tuple[Vectors, Array | bool]:
        assert self.penalty is not None
        z = self.penalty.subgradient(before)
        return theta - eta * (z if root is None else root.solve(z)), False

    @property
    def note(self) -> str:
        return f"subgradient of {self.penalty}"

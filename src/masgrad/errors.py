"""What masgrad says when it cannot do what was asked, or would rather not do it silently.

A rejected input is a ValueError or a TypeError as well as a MasgradError. Each message has three
parts: what was given, what is needed, what to do.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class MasgradError(Exception):
    """Base of every error that masgrad raises on purpose."""


class InputError(MasgradError, ValueError):
    """A value that cannot be used."""


class IdentificationError(InputError):
    """Rows that do not determine theta: collinear columns, or fewer rows than parameters."""


class InputTypeError(MasgradError, TypeError):
    """An object of the wrong kind."""


class MasgradWarning(UserWarning):
    """Base of every warning that masgrad gives."""


class StepSizeWarning(MasgradWarning):
    """The step is so long that the linearised update does not contract at the optimum."""


class DivergenceWarning(MasgradWarning):
    """A chain left the finite numbers."""


class SingularWarning(MasgradWarning):
    """A covariance was singular, and a floor stood in for its missing eigenvalues."""


class StationarityWarning(MasgradWarning):
    """A statement about an optimum was asked for at a point that is not one."""


class InterruptedWarning(MasgradWarning):
    """A run was stopped by the user; what had been run is returned."""


class PrecisionWarning(MasgradWarning):
    """Cancellation has left a result with few correct digits."""


class LinearisationWarning(MasgradWarning):
    """A linear approximation was asked for where its law is wider than what it linearises."""


class MemoryWarning(MasgradWarning):
    """Rows are stored so that reading them takes more memory than was granted."""


class OrderWarning(MasgradWarning):
    """Rows are not in a random order, on which a single read relies."""


class SeparationWarning(MasgradWarning):
    """The loss falls for ever in some direction: there is no estimate in it."""


class PerfectFitWarning(MasgradWarning):
    """Residuals are rounding, so that there is nothing to tell standard errors from."""


class IdentificationWarning(MasgradWarning):
    """The data say nothing about some direction of theta."""


class MissingWarning(MasgradWarning):
    """Rows have no prediction: a value is missing or infinite, or the link has no mean there."""


class AccuracyWarning(MasgradWarning):
    """An estimate may be further from the optimum than was asked for."""


_SILENT = ContextVar("silent", default=False)


@contextmanager
def muted() -> Iterator[None]:
    """Say nothing in this thread: for an attempt whose failure is dealt with."""
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


def say(category: type[MasgradWarning], message: str) -> None:
    """Warn as if the caller of masgrad had: repeated calls of his own are told apart."""
    if _SILENT.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("masgrad"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)

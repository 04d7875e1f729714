"""Errors and warnings.

A rejected input is a ValueError or a TypeError as well as a MasgradError. Each message has three
parts: what was given, what is needed, what to do.
"""

import re
import sys
import warnings

UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that command a terminal, reverse its text, or cannot be encoded."""


def printable(text: str, kept: str = "") -> str:
    r"""Text from a file as it may be shown: control characters are escaped, except those kept.

    Example:
        >>> print(printable("a\x1b[31mb"))
        a\x1b[31mb
    """
    return UNSHOWN.sub(lambda c: c[0] if c[0] in kept else repr(c[0])[1:-1], text)


class MasgradError(Exception):
    """Base of every error that masgrad raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__(), "\n")


class InputError(MasgradError, ValueError):
    """An argument has an invalid value."""


class UnreadableError(InputError):
    """A file could not be read: it is damaged, or a disk or a network failed for a moment."""


class IdentificationError(InputError):
    """Theta is not identified: collinear columns, or fewer rows than parameters."""


class CheckpointError(InputError):
    """A checkpoint is damaged, or belongs to another call: other data, settings or versions."""


class InputTypeError(MasgradError, TypeError):
    """An argument has the wrong type."""


class MissingPackageError(MasgradError, ImportError):
    """A package that is installed on demand is needed."""


class ClusterError(MasgradError, RuntimeError):
    """A cluster cannot be reached, or its workers do not finish their tasks."""


class MasgradWarning(UserWarning):
    """Base of every warning that masgrad gives."""


class StepSizeWarning(MasgradWarning):
    """The step is so long that the linearised update does not contract at the optimum."""


class DivergenceWarning(MasgradWarning):
    """A chain diverged to infinity or NaN."""


class SingularWarning(MasgradWarning):
    """A covariance was singular, and its smallest eigenvalues were raised to a floor."""


class StationarityWarning(MasgradWarning):
    """A result that holds at an optimum was requested at another point."""


class InterruptedWarning(MasgradWarning):
    """The user interrupted a run; the partial result is returned."""


class PrecisionWarning(MasgradWarning):
    """A result has few correct digits because of cancellation."""


class LinearisationWarning(MasgradWarning):
    """A law is too wide for its linear approximation to hold."""


class MemoryWarning(MasgradWarning):
    """Reading the rows takes more memory than the limit, because of how they are stored."""


class OrderWarning(MasgradWarning):
    """Rows are not in a random order, which a single pass assumes."""


class SeparationWarning(MasgradWarning):
    """The loss decreases without bound in some direction, where no estimate exists."""


class PerfectFitWarning(MasgradWarning):
    """The fit is perfect: residuals are rounding errors and give no standard errors."""


class IdentificationWarning(MasgradWarning):
    """Some direction of theta is not identified by the data."""


class MissingWarning(MasgradWarning):
    """Rows without a prediction: a value is missing or infinite, or the mean is undefined."""


class AccuracyWarning(MasgradWarning):
    """An estimate may be further from the optimum than the requested accuracy."""


class CellWarning(MasgradWarning):
    """A saved result has sums over so few rows that they say much about each."""


def say(category: type[MasgradWarning], message: str) -> None:
    """Issue a warning and attribute it to the user's code: each calling line warns separately."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("masgrad"):
        frame, level = frame.f_back, level + 1
    warnings.warn(printable(message, "\n"), category, stacklevel=level)

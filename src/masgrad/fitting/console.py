"""`masgrad fit` behind the command line: a fit of files, as a table on the terminal."""

import sys
import warnings
from pathlib import Path

from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from masgrad.fitting.door import glm


def fit_files(
    data: list[str], formula: str | None, family: str | None, save: Path | None, **options
) -> None:
    """Fit, print the summary, save it if asked; without data, the bundled example."""
    if not data:
        print("No data given: doctor's visits in the RAND Health Insurance Experiment (bundled).")
        data, formula, family = [str(RANDHIE)], formula or RANDHIE_FORMULA, family or "poisson"
    with warnings.catch_warnings():
        warnings.showwarning = _show
        result = glm(formula or "", list(data), family or "gaussian", **options)
    print(result.summary())
    if save is not None:
        result.save(save)
        print(f"saved: {save}")


def _show(message, category, *_) -> None:
    """A warning as one line on stderr, without the place in our code that gave it."""
    print(f"masgrad: {category.__name__}: {message}", file=sys.stderr)

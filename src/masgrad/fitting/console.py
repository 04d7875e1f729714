"""`masgrad fit`, `show` and `predict` behind the command line."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from masgrad.errors import InputError, InterruptedWarning, MasgradWarning
from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from masgrad.fitting.door import glm
from masgrad.fitting.facts import number
from masgrad.fitting.markup import page
from masgrad.fitting.replacing import replaced
from masgrad.fitting.result import Result
from masgrad.fitting.storage import load
from masgrad.fitting.writing import write_predictions
from masgrad.penalties.penalty import Penalty
from masgrad.penalties.separable import L1, L2, ElasticNet


def fit_files(
    data: list[str],
    formula: str | None,
    family: str | None,
    save: Path | None,
    level: float = 0.95,
    quiet: bool = False,
    l1: str | None = None,
    l2: float | None = None,
    **options,
) -> bool:
    """Fit, print the summary, save it if asked; without data, the bundled example.

    Returns whether the fit came to its end, rather than being stopped by Ctrl-C.
    """
    if save is not None and not save.parent.is_dir():  # before the work, not after it
        raise FileNotFoundError(f"{save}: there is no folder {save.parent}")
    if not data:
        _tell("No data given: doctor's visits in the RAND Health Insurance Experiment.", quiet)
        data, formula, family = [str(RANDHIE)], formula or RANDHIE_FORMULA, family or "poisson"
    with _plain_warnings() as given:
        options |= {"progress": False if quiet else None, "penalty": _penalty(l1, l2)}
        result = glm(formula or "", list(data), family or "gaussian", **options)
    print(result.summary(1 - level))
    if result.penalized is not None:
        print(_shrunk(result))
    if save is not None:
        result.save(save)
        _tell(f"saved: {save}", quiet)
    return not any(issubclass(category, InterruptedWarning) for category in given)


def _penalty(l1: str | None, l2: float | None) -> Penalty | None:
    """That of --l1 and --l2; both together are an elastic net."""
    if l1 is None:
        return None if l2 is None else L2(l2)
    try:
        lam: float | str = float(l1)
    except ValueError:
        lam = l1
    if l2 is None:
        return L1(lam)
    if isinstance(lam, str):
        raise InputError(f"--l2 goes with a number for --l1, not {l1!r}")
    if not (lam >= 0 and l2 >= 0):
        raise InputError(f"--l1 {lam:g} --l2 {l2:g}: numbers >= 0 are needed")
    return ElasticNet(lam + l2, lam / (lam + l2) if lam + l2 else 1.0)


def _shrunk(result: Result) -> str:
    """The penalised coefficients that are not 0, a line each."""
    kept = [(n, w) for n, w in zip(result.labels, result.penalized, strict=True) if w != 0]  # type: ignore
    width = max((len(n) for n, _ in kept), default=0)
    lines = [f"  {name:<{width}}  {number(w):>11}" for name, w in kept]
    others = " (the others are 0)" if len(kept) < len(result.labels) else ""
    return "\n".join([f"With the penalty{others}:", *lines])


def show_result(path: Path, level: float, html: Path | None, plot: Path | None) -> None:
    """Print a saved result; write it as a page or a picture if asked."""
    result = load(path)
    print(result.summary(1 - level))
    if result.penalized is not None:
        print(_shrunk(result))
    if html is not None:
        with replaced(html) as file:
            file.write(page(f"{path.name}: {result.kind}", result.to_html(1 - level)).encode())
        _tell(f"saved: {html}")
    if plot is not None:
        result.plot(plot, 1 - level)
        _tell(f"saved: {plot}")


def predict_files(
    path: Path, data: list[str], out: Path | None, interval: float | None, which: str, quiet: bool
) -> None:
    """Predictions of a saved result for every row of some files."""
    with _plain_warnings():
        count = write_predictions(
            load(path), list(data), out, interval, which, False if quiet else None
        )
    if out is not None:
        _tell(f"saved: {out} ({count:,} rows)", quiet)


@contextmanager
def _plain_warnings() -> Iterator[list[type[Warning]]]:
    """Warnings as one line each on stderr, without the place in our code; yields their kinds."""
    given: list[type[Warning]] = []

    def show(message, category, *_) -> None:
        given.append(category)
        print(f"masgrad: {category.__name__}: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always", MasgradWarning)
        warnings.showwarning = show
        yield given


def _tell(message: str, quiet: bool = False) -> None:
    """Messages go to stderr, so that standard output is the table or the predictions alone."""
    if not quiet:
        print(message, file=sys.stderr)

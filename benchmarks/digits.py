"""Correct digits of least squares: NIST's reference data, by masgrad, statsmodels and NumPy.

    python benchmarks/digits.py            prints tables and writes them to benchmarks/digits.md

Digits are -log10 of the relative error of the worst entry. "16" is no error at all, "0" none right.
"""

import pathlib
import sys
import warnings

import numpy as np
import statsmodels.api as sm

import masgrad as mg

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))

import strd

KINDS = ("nonrobust", "HC0")


def by_masgrad(X, y):
    fits = [mg.fit(mg.Linear(), (X, y), cov_type=kind) for kind in KINDS]
    return fits[0].params, *(r.bse for r in fits)


def by_statsmodels(method):
    def fit(X, y):
        r = sm.OLS(y, X).fit(method=method)
        return r.params, r.bse, r.HC0_se

    return fit


def by_lstsq(X, y):
    return (np.linalg.lstsq(X, y)[0],)


METHODS = {
    "masgrad": by_masgrad,
    "statsmodels, default (pinv)": by_statsmodels("pinv"),
    "statsmodels, qr": by_statsmodels("qr"),
    "numpy lstsq": by_lstsq,
}


def row(name, right):
    """The digits of coefficients and of errors of each kind that the solution has, by method."""
    truth = [right.params, *(right.bse[kind] for kind in KINDS if kind in right.bse)]
    cells = []
    for fit in METHODS.values():
        found = [strd.digits(a, b) for a, b in zip(fit(*strd.data(name)), truth, strict=False)]
        cells.append(" · ".join(f"{max(0.0, d):.1f}" for d in found))
    return f"| {name} | {' | '.join(cells)} |"


def tables():
    head = f"| | {' | '.join(METHODS)} |\n|{'---|' * (len(METHODS) + 1)}"
    yield "Against NIST's certified values: coefficients · standard deviations.\n"
    yield head
    yield from (row(name, strd.certified(name)) for name in strd.CERTIFIED)
    yield (
        "\nAgainst the exact fit to the columns as given (rational arithmetic): coefficients · "
        "non-robust errors · HC0.\n"
    )
    yield head
    noisy = [name for name in strd.CERTIFIED if strd.certified(name).bse["nonrobust"].any()]
    yield from (row(name, strd.exact(*strd.data(name))) for name in noisy)


def main():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # perfect fits, singular matrices
        text = "\n".join(("# Correct digits", "", str(__doc__).split("\n\n")[2], *tables(), ""))
    print(text)
    pathlib.Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()

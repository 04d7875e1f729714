"""NIST's Statistical Reference Datasets for linear least squares, and an oracle without rounding.

The data and the certified values are those of itl.nist.gov/div898/strd, a publication of the United
States government. `exact` solves in rational arithmetic for the design matrix as it was given: what
it returns is rounded once, at the end.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import statsmodels.api as sm

LONGLEY, WAMPLER, FILIP = "longley", tuple(f"wampler{k}" for k in range(1, 6)), "filip"
EASY = ("norris", "pontius")

FILIP_Y_X = """
.8116 -6.860120914 .9072 -4.324130045 .9052 -4.358625055 .9039 -4.358426747 .8053 -6.955852379
.8377 -6.661145254 .8667 -6.355462942 .8809 -6.118102026 .7975 -7.115148017 .8162 -6.815308569
.8515 -6.519993057 .8766 -6.204119983 .8885 -5.853871964 .8859 -6.109523091 .8959 -5.79832982
.8913 -5.482672118 .8959 -5.171791386 .8971 -4.851705903 .9021 -4.517126416 .909 -4.143573228
.9139 -3.709075441 .9199 -3.499489089 .8692 -6.300769497 .8872 -5.953504836 .89 -5.642065153 .891
-5.031376979 .8977 -4.680685696 .9035 -4.329846955 .9078 -3.928486195 .7675 -8.56735134 .7705
-8.363211311 .7713 -8.107682739 .7736 -7.823908741 .7775 -7.522878745 .7841 -7.218819279 .7971
-6.920818754 .8329 -6.628932138 .8641 -6.323946875 .8804 -5.991399828 .7668 -8.781464495 .7633
-8.663140179 .7678 -8.473531488 .7697 -8.247337057 .77 -7.971428747 .7749 -7.676129393 .7796
-7.352812702 .7897 -7.072065318 .8131 -6.774174009 .8498 -6.478861916 .8741 -6.159517513 .8061
-6.835647144 .846 -6.53165267 .8751 -6.224098421 .8856 -5.910094889 .8919 -5.598599459 .8934
-5.290645224 .894 -4.974284616 .8957 -4.64454848 .9047 -4.290560426 .9129 -3.885055584 .9209
-3.408378962 .9219 -3.13200249 .7739 -8.726767166 .7681 -8.66695597 .7665 -8.511026475 .7703
-8.165388579 .7702 -7.886056648 .7761 -7.588043762 .7809 -7.283412422 .7961 -6.995678626 .8253
-6.691862621 .8602 -6.392544977 .8809 -6.067374056 .8301 -6.684029655 .8664 -6.378719832 .8834
-6.065855188 .8898 -5.752272167 .8964 -5.132414673 .8963 -4.811352704 .9074 -4.098269308 .9119
-3.66174277 .9228 -3.2644011
"""

PONTIUS_Y = """
.11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 1.30822 1.41599
1.52399 1.63194 1.73947 1.84646 1.95392 2.06128 2.16844 .11052 .22018 .32939 .43886 .54798 .65739
.76596 .87474 .98300 1.09150 1.20004 1.30818 1.41613 1.52408 1.63159 1.73965 1.84696 1.95445
2.06177 2.16829
"""

NORRIS_Y_X = """
.1 .2 338.8 337.4 118.1 118.2 888 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6
778.9 777 559.2 558.2 .3 .4 .1 .6 778.1 775.5 668.8 666.9 339.3 338 448.9 447.5 10.8 11.6 557.7
556 228.3 228.1 998 995.8 888.8 887.6 119.6 120.2 .3 .3 .6 .3 557.6 556.8 339.3 339.1 888 887.2
998.5 999 778.9 779 10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 .2 .5
"""

WAMPLER3_Y = """
760 -2042 2111 -1684 3888 1858 11379 17560 39287 64382 113159 175108 273291 400186 581243 811568
1121004 1506550 2002767 2611612 3369180
"""

CERTIFIED = {
    "norris": """
-0.262323073774029 1.00211681802045
0.232818234301152 0.429796848199937E-03
""",
    "pontius": """
0.673565789473684E-03 0.732059160401003E-06 -0.316081871345029E-14
0.107938612033077E-03 0.157817399981659E-09 0.486652849992036E-16
""",
    "longley": """
-3482258.63459582 15.0618722713733 -0.358191792925910E-01 -2.02022980381683 -1.03322686717359
-0.511041056535807E-01 1829.15146461355
890420.383607373 84.9149257747669 0.334910077722432E-01 0.488399681651699 0.214274163161675
0.226073200069370 455.478499142212
""",
    "wampler1": "1 1 1 1 1 1 0 0 0 0 0 0",
    "wampler2": "1 .1 .01 .001 .0001 .00001 0 0 0 0 0 0",
    "wampler3": """
1 1 1 1 1 1
2152.32624678170 2363.55173469681 779.343524331583 101.475507550350 5.64566512170752
0.112324854679312
""",
    "wampler4": """
1 1 1 1 1 1
215232.624678170 236355.173469681 77934.3524331583 10147.5507550350 564.566512170752
11.2324854679312
""",
    "wampler5": """
1 1 1 1 1 1
21523262.4678170 23635517.3469681 7793435.24331583 1014755.07550350 56456.6512170752
1123.24854679312
""",
    "filip": """
-1467.48961422980 -2772.17959193342 -2316.37108160893 -1127.97394098372 -354.478233703349
-75.1242017393757 -10.8753180355343 -1.06221498588947 -0.670191154593408E-01
-0.246781078275479E-02 -0.402962525080404E-04
298.084530995537 559.779865474950 466.477572127796 227.204274477751 71.6478660875927
15.2897178747400 2.23691159816033 0.221624321934227 0.142363763154724E-01 0.535617408889821E-03
0.896632837373868E-05
""",
}
"""Coefficients, and below them their standard deviations."""


@dataclass(frozen=True)
class Solution:
    """Coefficients, and their standard errors by kind of covariance."""

    params: np.ndarray
    bse: dict[str, np.ndarray]


def numbers(text):
    return np.array(text.split(), float)


def powers(x, degree):
    """Columns 1, x, ..., x^degree, as a formula's I(x**k) has them."""
    return np.column_stack([np.asarray(x, float) ** k for k in range(degree + 1)])


def data(name):
    """The design matrix and the response."""
    if name == "longley":
        longley = sm.datasets.longley.load_pandas()
        return sm.add_constant(np.asarray(longley.exog, float)), np.asarray(longley.endog, float)
    if name == "norris":
        y, x = numbers(NORRIS_Y_X).reshape(-1, 2).T
        return powers(x, 1), y
    if name == "pontius":
        return powers(np.tile(np.arange(1, 21) * 150_000.0, 2), 2), numbers(PONTIUS_Y)
    if name == "filip":
        y, x = numbers(FILIP_Y_X).reshape(-1, 2).T
        return powers(x, 10), y
    return _wampler(int(name[-1]))


def _wampler(number):
    """Polynomials of degree 5; the last three have the third one's errors times 1, 100, 10,000."""
    X = powers(np.arange(21.0), 5)
    whole = X.sum(1)
    if number == 2:
        return X, np.array([round(float(row @ 10.0 ** -np.arange(6)), 5) for row in X])
    errors = numbers(WAMPLER3_Y) - whole
    return X, whole + {1: 0, 3: 1, 4: 100, 5: 10_000}[number] * errors


def certified(name):
    """NIST's coefficients and standard deviations (non-robust, with N - p degrees of freedom)."""
    params, bse = numbers(CERTIFIED[name]).reshape(2, -1)
    return Solution(params, {"nonrobust": bse})


def digits(found, right):
    """The number of correct digits of the worst entry; 0 is right where 0 is found."""
    found, right = np.asarray(found, float), np.asarray(right, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(found == right, 0.0, np.abs(found - right) / np.abs(right))
    return float(-np.log10(np.maximum(error, 1e-16).max()))


def exact(X, y):
    """Least squares in rational arithmetic: coefficients, and errors of three kinds."""
    X, y = [[Fraction(v) for v in row] for row in X.tolist()], [Fraction(v) for v in y.tolist()]
    n, p = len(X), len(X[0])
    C = _inverse(_gram(X, [Fraction(1)] * n))
    b = [sum(row[i] * v for row, v in zip(X, y, strict=True)) for i in range(p)]
    beta = [sum(c * v for c, v in zip(row, b, strict=True)) for row in C]
    fitted = [sum(x * t for x, t in zip(row, beta, strict=True)) for row in X]
    squares = [(v - f) ** 2 for v, f in zip(y, fitted, strict=True)]
    M = _gram(X, squares)
    robust = [sum(c[i] * M[i][j] * c[j] for i in range(p) for j in range(p)) for c in C]
    variances = {
        "nonrobust": [sum(squares) / (n - p) * C[j][j] for j in range(p)],
        "HC0": robust,
        "HC1": [v * Fraction(n, n - p) for v in robust],
    }
    bse = {kind: np.sqrt([float(v) for v in found]) for kind, found in variances.items()}
    return Solution(np.array([float(t) for t in beta]), bse)


def _gram(X, w):
    p = len(X[0])
    G = {
        (i, j): sum((a * row[i] * row[j] for a, row in zip(w, X, strict=True)), Fraction(0))
        for i in range(p)
        for j in range(i + 1)
    }
    return [[G[max(i, j), min(i, j)] for j in range(p)] for i in range(p)]


def _inverse(A):
    """By Gauss and Jordan; A is positive definite."""
    p = len(A)
    rows = [row + [Fraction(int(i == j)) for j in range(p)] for i, row in enumerate(A)]
    for i in range(p):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(p):
            if k != i:
                rows[k] = [v - rows[k][i] * u for v, u in zip(rows[k], rows[i], strict=True)]
    return [row[p:] for row in rows]

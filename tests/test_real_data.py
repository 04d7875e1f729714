"""Real data: coefficients, covariances and likelihoods against statsmodels and published tables."""

from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import masgrad as mg
from glm_oracle import (
    LINKS,
    Reference,
    likelihood_scale,
    log_density,
    numerical_information,
    reference,
    sm_fit,
)
from real_data import BY_NAME, RECORDS, Record, options_of

COEFFICIENTS = 1e-4
"""In standard errors: small data are iterated to rounding."""
ERRORS = 5e-3
STATISTICS = 1e-6

every = pytest.mark.parametrize("name", [record.name for record in RECORDS])
published = pytest.mark.parametrize("name", [r.name for r in RECORDS if r.source])
with_likelihood = pytest.mark.parametrize("name", [r.name for r in RECORDS if not r.proportion])


def family_of(record: Record) -> Any:
    """masgrad's spelling of a family."""
    match record.family:
        case "negative_binomial":
            return mg.NegativeBinomial(alpha=record.parameter)
        case "tweedie":
            return mg.Tweedie(power=record.parameter)
    return record.family


@cache
def fitted(name: str, cov_type: str = "robust") -> Any:
    """masgrad's fit of a record."""
    record = BY_NAME[name]
    options = options_of(record) | ({"link": record.link} if record.link else {})
    family = family_of(record)
    return mg.glm(record.formula, record.table, family=family, cov_type=cov_type, **options)


def errors_of(cov: Any) -> np.ndarray:
    return np.sqrt(np.diag(np.asarray(cov)))


def unit(text: str) -> float:
    """One unit in the last place of a number."""
    return 10.0 ** int(Decimal(text).as_tuple().exponent)


def check_published(name: str, theta: dict[str, float], errors: dict[str, float]) -> None:
    """Agreement with what was printed, or to 0.001 standard errors: programs stop early."""
    record = BY_NAME[name]
    for column, text in record.coefficients.items():
        close = max(0.51 * unit(text), 1e-3 * errors[column])
        assert abs(theta[column] - float(text)) <= close, (column, theta[column], text)
    for column, text in record.standard_errors.items():
        close = max(0.51 * unit(text), 1e-6 * errors[column])
        assert abs(errors[column] - float(text)) <= close, (column, errors[column], text)


def by_column(ref: Reference, values: Any) -> dict[str, float]:
    return dict(zip(ref.design.names, np.asarray(values), strict=True))


# --- the references, without masgrad


def test_table_covers_families_and_links():
    pairs = {(record.family, reference(record.name).design.link) for record in RECORDS}
    assert pairs >= {
        ("gaussian", "identity"),
        ("gaussian", "log"),
        ("binomial", "logit"),
        ("binomial", "probit"),
        ("binomial", "cloglog"),
        ("poisson", "log"),
        ("poisson", "identity"),
        ("gamma", "log"),
        ("gamma", "inverse"),
        ("gamma", "identity"),
        ("inverse_gaussian", "inverse_squared"),
        ("inverse_gaussian", "log"),
        ("negative_binomial", "log"),
        ("tweedie", "log"),
    }
    assert len({record.name.split("_")[0] for record in RECORDS}) >= 24
    assert len(BY_NAME) == len(RECORDS)


@every
def test_reference_is_an_optimum(name):
    ref = reference(name)
    assert ref.fit.converged
    assert ref.parts.decrement < 1e-8
    assert ref.parts.condition < 1e10
    assert np.linalg.eigvalsh(ref.parts.observed)[0] > 0
    if ref.design.record.family == "binomial":
        assert np.abs(ref.design.predictor(ref.theta)).max() < 20  # not separated


@every
def test_information_is_the_numerical_hessian(name):
    ref = reference(name)
    size = np.sqrt(np.diag(ref.parts.expected))
    away = numerical_information(ref.design, ref.theta) - ref.parts.observed
    assert np.abs(away / np.outer(size, size)).max() < 1e-6


@every
def test_hc0_by_hand_is_that_of_statsmodels(name):
    # statsmodels' HC0 has the observed information for every link after IRLS, and counts
    # freq_weights once in the meat; a weight of 0 makes it NaN (0 / 0), so no record has one
    ref = reference(name)
    theirs = ref.covariance(sm_fit(ref.design, "HC0"))
    np.testing.assert_allclose(errors_of(theirs), errors_of(ref.parts.robust), rtol=1e-6)


@every
def test_nonrobust_by_hand_is_that_of_statsmodels(name):
    ref = reference(name)
    theirs = ref.covariance(ref.fit)
    np.testing.assert_allclose(errors_of(theirs), errors_of(ref.parts.nonrobust), rtol=1e-6)
    np.testing.assert_allclose(ref.parts.dispersion, ref.fit.scale, rtol=1e-9)


@with_likelihood
def test_likelihood_of_statsmodels_has_the_scale_that_is_said(name):
    ref = reference(name)
    m = LINKS[ref.design.link][0](ref.design.predictor(ref.theta))
    rows = log_density(ref.design.record, ref.design.y, m, likelihood_scale(ref))
    np.testing.assert_allclose(np.sum(ref.design.w * rows), ref.fit.llf, rtol=1e-9)
    np.testing.assert_allclose(ref.fit.aic, 2 * len(ref.theta) - 2 * ref.fit.llf, rtol=1e-12)


@published
def test_reference_is_as_published(name):
    ref = reference(name)
    kind = ref.design.record.errors_are
    errors = errors_of(getattr(ref.parts, kind))
    check_published(name, by_column(ref, ref.theta), by_column(ref, errors))


# --- masgrad


@every
def test_names_are_those_of_the_design(name):
    assert list(fitted(name).params.index) == reference(name).design.names


@every
def test_coefficients(name):
    ref = reference(name)
    away = np.asarray(fitted(name).params) - ref.theta
    assert np.abs(away / errors_of(ref.parts.robust)).max() < COEFFICIENTS


@every
def test_robust_errors(name):
    ours = errors_of(fitted(name).cov_params())
    np.testing.assert_allclose(ours, errors_of(reference(name).parts.robust), rtol=ERRORS)


@every
def test_nonrobust_errors(name):
    ref = reference(name)
    ours = errors_of(fitted(name, "nonrobust").cov_params())
    np.testing.assert_allclose(ours, errors_of(ref.covariance(ref.fit)), rtol=ERRORS)


@every
def test_deviance_and_dispersion(name):
    ours, theirs = fitted(name), reference(name).fit
    np.testing.assert_allclose(ours.deviance, theirs.deviance, rtol=STATISTICS)
    np.testing.assert_allclose(ours.dispersion, theirs.scale, rtol=STATISTICS)


@with_likelihood
def test_likelihood(name):
    # the dispersion in it: `likelihood_scale`. For a share with weights statsmodels takes the
    # binomial coefficients of one trial, R those of w trials; masgrad is held to neither
    ours, theirs = fitted(name), reference(name).fit
    if BY_NAME[name].family == "tweedie":  # a series in statsmodels
        assert ours.log_likelihood is None and ours.aic is None
        return
    if BY_NAME[name].family == "gaussian" and BY_NAME[name].link == "log":
        # statsmodels takes X2 / (N - p) with this link, RSS / N with the identity
        best = theirs.llf_scaled(scale=theirs.deviance / theirs.nobs)
        np.testing.assert_allclose(ours.log_likelihood, best, rtol=STATISTICS)
        return
    np.testing.assert_allclose(ours.log_likelihood, theirs.llf, rtol=STATISTICS)
    np.testing.assert_allclose(ours.aic, theirs.aic, rtol=STATISTICS)
    np.testing.assert_allclose(ours.bic, theirs.bic_llf, rtol=STATISTICS)


@every
def test_predictions(name):
    # the offset and the exposure are columns of the table
    rows = BY_NAME[name].table.head(10)
    theirs = np.asarray(reference(name).fit.fittedvalues)[:10]
    np.testing.assert_allclose(np.asarray(fitted(name).predict(rows)), theirs, rtol=1e-5)


@published
def test_estimates_are_as_published(name):
    ours = fitted(name, BY_NAME[name].errors_are)
    check_published(name, dict(ours.params), dict(ours.bse))


# --- containers and files


def spread_over_files(table: pd.DataFrame, by: str, folder: Path, suffix: str) -> Path:
    """Sorted by a category, so that no file has all of its levels."""
    table = table.sort_values(by, kind="stable").reset_index(drop=True)
    for k, part in enumerate(np.array_split(np.arange(len(table)), 4)):
        rows = table.iloc[part]
        path = folder / f"part-{k}.{suffix}"
        rows.to_parquet(path) if suffix == "parquet" else rows.to_csv(path, index=False)
    return folder


CONTAINERS = {
    "polars": lambda table, folder: pl.from_pandas(table),
    "arrow": lambda table, folder: pa.Table.from_pandas(table),
    "dataset": lambda table, folder: ds.dataset(pa.Table.from_pandas(table)),
    "dictionary": lambda table, folder: {name: table[name].to_numpy() for name in table},
    "parquet": lambda table, folder: spread_over_files(table, "District", folder, "parquet"),
    "csv": lambda table, folder: spread_over_files(table, "District", folder, "csv"),
}


@pytest.mark.filterwarnings("ignore::masgrad.errors.OrderWarning")
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_give_the_same_numbers(container, tmp_path):
    """Categories, an exposure, and in files levels that are spread unevenly."""
    record = BY_NAME["insurance"]
    wanted = fitted("insurance")
    data = CONTAINERS[container](record.table, tmp_path)
    got = mg.glm(record.formula, data, record.family, **options_of(record))
    assert tuple(got.params.index) == tuple(wanted.params.index)
    assert np.abs((got.params - wanted.params) / wanted.bse).max() < 1e-9
    np.testing.assert_allclose(got.bse, wanted.bse, rtol=1e-9)
    np.testing.assert_allclose(got.log_likelihood, wanted.log_likelihood, rtol=1e-9)


def test_arrays_give_the_same_numbers():
    ref, wanted = reference("insurance"), fitted("insurance")
    got = mg.fit(mg.Poisson(), (ref.design.X, ref.design.y), offset=ref.design.offset)
    assert np.abs((got.params - wanted.params.to_numpy()) / wanted.bse.to_numpy()).max() < 1e-9
    np.testing.assert_allclose(got.bse, wanted.bse, rtol=1e-9)

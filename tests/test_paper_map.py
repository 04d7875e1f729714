"""PAPER.md and the code agree both ways."""

import ast
import re
from pathlib import Path

import pytest

import masgrad

ROOT = Path(__file__).parent.parent
SOURCE = Path(masgrad.__file__).parent
NUMBERED = {
    "Theorem 3.1": "Non-asymptotic bound for inference",
    "Remark 3.1": "marginal result",
    "Theorem 4.1": "MasGrad: strongly convex",
    "Theorem 4.2": "Acceleration",
    "Proposition 4.1": "Moment-adjusted proximal",
    "Theorem 5.1": "MasGrad: non-convex",
    "Proposition 6.1": "Connection to self-normalized processes",
    "Proposition 6.2": "Iterative rank-one updates",
    "Lemma A.1": "Wasserstein",
    "Lemma A.2": "Relative entropy",
    "Lemma B.1": "Convergence: noiseless",
    "Lemma B.2": "consistency",
    "Lemma B.3": "Sherman-Morrison-Woodbury",
    "Lemma B.4": "Matrix-root identity",
}


def tags() -> set[tuple[str, str]]:
    """(result, qualified function) for every docstring line `Paper: result - words`."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node, qualified in walk(ast.parse(path.read_text()), module):
            for line in (ast.get_docstring(node) or "").splitlines():
                if line.strip().startswith("Paper:"):
                    match = re.fullmatch(r"Paper: (.+?) - .+", line.strip())
                    assert match, f"{qualified}: {line!r} is not 'Paper: <result> - <words>'"
                    found.add((match[1], qualified))
    return found


def walk(node, prefix):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child, f"{prefix}.{child.name}"
            yield from walk(child, f"{prefix}.{child.name}")


def table() -> list[list[str]]:
    """Cells of the rows of PAPER.md's tables that name a function."""
    lines = (ROOT / "PAPER.md").read_text().splitlines()
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return [r for r in rows if len(r) == 4 and r[1].startswith("`")]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_tag_is_in_the_table_and_every_row_is_tagged():
    listed = {(row[0], name) for row in table() for name in names(row[1])}
    assert len(listed) > 20
    assert listed == tags()


def test_numbered_results_are_the_sources():
    """Section and place of each result of the paper that the table gives with its number."""
    found = {m[1]: m[2] for row in table() if (m := re.match(r"(\w+ [\dAB]\.\d) (.+)", row[0]))}
    assert found == NUMBERED


def test_every_test_and_figure_in_the_table_exists():
    for row in table():
        assert names(row[2]), f"{row[0]}: no test"
        for test in names(row[2]):
            file, function = test.split("::")
            assert f"def {function}(" in (ROOT / "tests" / file).read_text(), test
        for figure in names(row[3]):
            assert (ROOT / figure).exists(), figure


@pytest.mark.parametrize("line", ["Paper: without words", "Paper: - no result"])
def test_the_check_sees_a_malformed_tag(line, monkeypatch, tmp_path):
    (tmp_path / "bad.py").write_text(f'def f():\n    """One line.\n\n    {line}\n    """\n')
    monkeypatch.setattr("test_paper_map.SOURCE", tmp_path)
    with pytest.raises(AssertionError, match="Paper"):
        tags()

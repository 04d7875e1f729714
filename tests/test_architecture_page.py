"""docs/architecture.md and the map of CONTRIBUTING.md say what is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import masgrad

ROOT = Path(__file__).parent.parent
SOURCE = Path(masgrad.__file__).parent
PAGES = ["docs/architecture.md", "CONTRIBUTING.md"]
FILE = r"[\w/]*\w\.pyi?"
NOT_OURS = {"a", "g", "SM", "BAD", "KERNELS", "PENALTIES", "by_hand"}
"""Names in backticks that are columns of the example, or tables of the tests."""


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def found(file: str) -> Path | None:
    """A file below the package or the repository; one without a folder anywhere in the package."""
    places = [SOURCE / file, ROOT / file]
    places += [] if "/" in file else list(SOURCE.rglob(file))
    return next((path for path in places if path.is_file()), None)


@cache
def defined(path: Path) -> set[str]:
    """Functions, methods, classes, fields and constants of a file; methods with their class too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inside = [child for child in node.body if isinstance(child, ast.FunctionDef)]
            names |= {f"{node.name}.{child.name}" for child in inside}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@cache
def anywhere() -> set[str]:
    """Whatever the package defines, its modules and its folders."""
    names = {path.stem for path in SOURCE.rglob("*")}
    return names.union(*map(defined, SOURCE.rglob("*.py")))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_exists(page):
    named = set(re.findall(FILE, text_of(page)))
    assert len(named) > 15
    assert [file for file in named if found(file) is None] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_function_is_in_its_file(page):
    named = set(re.findall(rf"({FILE}):([A-Za-z_][\w.]*\w)", text_of(page)))
    assert len(named) > 5
    assert [(f, name) for f, name in named if name not in defined(found(f))] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_backticks_exists(page):
    """`name`, `Class.method`, `module.function` below the package, and `r.attribute`."""
    prose = re.sub(r"```.*?```", "", text_of(page), flags=re.S)
    named = set(re.findall(r"`@?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)`", prose)) - NOT_OURS
    named = {name for name in named if not re.search(r"\.(pyi?|parquet)$", name)}
    assert len(named) > 10
    assert [name for name in named if not known(name)] == []


def known(name: str) -> bool:
    if name.startswith("r."):
        return set(name.split(".")[1:]) <= anywhere()
    *modules, last = name.split(".")
    path = SOURCE.joinpath(*modules).with_suffix(".py")
    return name in anywhere() or (bool(modules) and path.is_file() and last in defined(path))


def test_every_folder_and_module_is_on_the_map():
    listed = text_of("CONTRIBUTING.md").partition("## Map")[2].partition("## Where")[0]
    lines = [line for line in listed.splitlines() if line.startswith("    ")]
    first = {line.split()[0] for line in lines}
    folders = {p.parent.relative_to(SOURCE).as_posix() for p in SOURCE.rglob("__init__.py")}
    folders = {folder.removeprefix("fitting/") for folder in folders - {"."}}
    assert {f"{folder}/" for folder in folders} - first == set()
    assert {name for name in first if name.endswith("/")} - {f"{f}/" for f in folders} == set()
    modules = {word for line in lines for word in re.split("  +", line.strip())[0].split()}
    assert {path.stem for path in SOURCE.glob("[a-z]*.py")} - modules == set()


def test_the_layers_of_fitting_are_those_of_the_page():
    flow = re.search(r"    (options, keywords, rows.*?)\n\n", text_of(PAGES[0]), re.S)
    assert flow
    layers = [re.findall(r"\w+", part) for part in flow[1].split("->")]
    level = {name: k for k, names in enumerate(layers) for name in names}
    folder = SOURCE / "fitting"
    assert set(level) == {p.stem for p in folder.iterdir() if p.stem[0] != "_"}
    for path in folder.rglob("*.py"):
        own = path.relative_to(folder).parts[0].removesuffix(".py")
        wrong = [n for n in imported(path) if own != "__init__" and level[n] > level[own]]
        assert wrong == [], path


def imported(path: Path) -> list[str]:
    """Parts of `fitting` that a file imports, also inside functions, but not for annotations."""
    text = re.sub(r"^if TYPE_CHECKING:.*\n(?:    .*\n)+", "", path.read_text(), flags=re.M)
    return re.findall(r"^ *from masgrad\.fitting\.(\w+)", text, re.M)


def test_only_the_reader_writes_to_the_monitor():
    pattern = r"monitor\.(?:\w+ *[-+|]?=[^=]|(?:tick|restart|check_length|see_\w+)\()"
    writers = [p.name for p in SOURCE.rglob("*.py") if re.search(pattern, p.read_text())]
    assert sorted(writers) == ["passes.py", "reader.py"]  # of which the latter is the former


def test_the_drawing_fits_a_page():
    drawing = re.search(r"```text\n(.*?)```", text_of(PAGES[0]), re.S)
    assert drawing and max(map(len, drawing[1].splitlines())) <= 100

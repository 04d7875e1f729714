"""The files that an address at a store stands for: one file, a folder's, or those of a pattern."""

from collections.abc import Callable

from masgrad.errors import InputError
from masgrad.stores.faults import explained
from masgrad.stores.path import StorePath

WEB = ("http://", "https://")
"""Addresses in which a question mark is no pattern."""


def listed(item: StorePath, is_table: Callable[[str], bool]) -> list[StorePath]:
    """Existing files; of a folder those that are tables by their names.

    Args:
        item: a file, a folder or a pattern.
        is_table: whether a file of a folder counts, by its name.
    """
    store, path = item.place()
    with explained(item):
        store.invalidate_cache()
        if _is_pattern(item):
            found = store.glob(path, detail=True)
            kinds = {n: about.get("type") for n, about in found.items() if _is_matched(n, path)}
            if not kinds:
                raise FileNotFoundError(path)
        else:
            kinds = {path: store.info(path).get("type")}
    files = []
    for name, kind in kinds.items():
        one = item.at(name)
        files += _in_folder(one, is_table) if kind == "directory" else [one]
    return files


def _is_pattern(item: StorePath) -> bool:
    marks = "*[" if item.url.lower().startswith(WEB) else "*[?"
    return any(mark in item.url for mark in marks)


def _is_matched(name: str, pattern: str) -> bool:
    """Whether a pattern finds a name: names that begin with a dot only if it says the dot."""
    return "/." in pattern or "/." not in name


def _in_folder(folder: StorePath, is_table: Callable[[str], bool]) -> list[StorePath]:
    store, path = folder.place()
    with explained(folder):
        inside = store.ls(path, detail=True)
    names = [about["name"] for about in inside if about["type"] == "file"]
    found = [one for one in map(folder.at, names) if is_table(one.name)]
    if not found:
        raise InputError(
            f"{folder} holds no Parquet, Arrow or CSV file; of a folder with folders in it give a "
            f"pattern, '{folder}/**/*.parquet'"
        )
    return found

"""Colours of figures, and saving them."""

from pathlib import Path

from matplotlib.figure import Figure

from masgrad.errors import InputError
from masgrad.files import replaced

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#777777"
"""MasGrad's and SGD's colours in `masgrad.plots`, which colour-blind readers can tell apart."""


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix."""
    kinds, kind = figure.canvas.get_supported_filetypes(), path.suffix.lstrip(".").lower()
    if kind not in kinds:
        raise InputError(f"{path}: a name that ends in .{', .'.join(sorted(kinds))} is needed")
    with replaced(path) as file:
        figure.savefig(file, format=kind, dpi=200)

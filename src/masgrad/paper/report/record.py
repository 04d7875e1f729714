"""NAME.json: every number of an experiment with its settings, seeds and versions."""

import json
import math
import platform
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from masgrad.paper.experiment import Experiment

PACKAGES = ("masgrad", "jax", "jaxlib", "equinox", "numpy", "scipy", "scikit-learn", "matplotlib")


def record(experiment: Experiment, seed: int, quick: bool, seconds: float) -> dict:
    """The file's content: the numbers at the top, what explains them below."""
    out = {
        **experiment.numbers,
        "experiment": experiment.name,
        "title": experiment.title,
        "about": experiment.about,
        "claims": [asdict(claim) for claim in experiment.claims],
        "settings": experiment.settings,
        "seed": seed,
        "quick": quick,
        "seconds": round(seconds, 1),
        "versions": versions(),
    }
    return plain(out)


def versions() -> dict[str, str]:
    """Of Python and the packages that the numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def write_json(content: dict, path: Path) -> None:
    """Text for people and programs; a NaN would be neither."""
    path.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and what is not finite as null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

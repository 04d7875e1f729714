"""Fixed effects as JSON: keys of the levels, their effects, and what predictions need besides."""

from typing import Any

import numpy as np

from masgrad.data.groupings.combined import keys_from_json
from masgrad.data.groupings.grouping import Grouping
from masgrad.fitting.effects.results.fitted import Effects, EffectsFitted
from masgrad.fitting.effects.rows.recession import Recession
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.results.saved.arrays import pack, unpack


def effects_to_json(r: EffectsFitted) -> dict[str, Any]:
    """The effects and the squares that they leave."""
    effects = r.effects
    return {
        "groupings": [{"name": g.name, "keys": g.keys.to_json()} for g in effects.groupings],
        "values": [pack(values) for values in effects.values],
        "components": [[pack(part) for part in pair] for pair in effects.components],
        "parameters": effects.parameters,
        "residual": effects.residual,
        "small": list(effects.small),
        "recessions": [_recession_to_json(direction) for direction in effects.recessions],
        "squares_within": r.squares_within,
    }


def with_effects(fitted: Fitted, saved: dict[str, Any]) -> EffectsFitted:
    """A record that was read from a file, with the effects that `effects_to_json` made."""
    effects = Effects(
        tuple(_grouping(g) for g in saved["groupings"]),
        tuple(unpack(values) for values in saved["values"]),
        tuple(_labels(pair) for pair in saved["components"]),
        int(saved["parameters"]),
        float(saved["residual"]),
        tuple(_recession(direction) for direction in saved["recessions"]),
        tuple(map(int, saved.get("small", ()))),
    )
    _check(effects, len(fitted.theta))
    return EffectsFitted(**vars(fitted), effects=effects, squares_within=saved["squares_within"])


def _grouping(saved: dict[str, Any]) -> Grouping:
    return Grouping(saved["name"], "effects", keys_from_json(saved["keys"]))


def _labels(pair: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    first, own = (unpack(part).astype(np.int64) for part in pair)
    return first, own


def _recession_to_json(direction: Recession) -> dict[str, Any]:
    return {
        "slopes": pack(direction.slopes),
        "effects": [pack(values) for values in direction.effects],
        "ends": pack(np.array([direction.lowest, direction.highest])),  # JSON has no infinity
    }


def _recession(saved: dict[str, Any]) -> Recession:
    effects = tuple(unpack(values) for values in saved["effects"])
    return Recession(unpack(saved["slopes"]), effects, *unpack(saved["ends"]).tolist())


def _check(effects: Effects, p: int) -> None:
    """Refuse parts that do not belong together."""
    sizes = [grouping.size for grouping in effects.groupings]
    tables = [effects.values, *(direction.effects for direction in effects.recessions)]
    tables += [(first,) for first, _ in effects.components]
    tables += [(effects.values[0], *(own for _, own in effects.components))]
    for table in tables:
        lengths = [len(part) for part in table]
        if lengths != sizes[: len(lengths)]:
            raise ValueError(f"effects of {lengths} levels for {sizes} keys")
    for direction in effects.recessions:
        if direction.slopes.shape != (p,):
            raise ValueError(f"a direction of {len(direction.slopes)} slopes for {p} columns")

"""An experiment over other seeds, at the quick size: how its numbers and verdicts vary."""

from collections import Counter

import numpy as np

from masgrad.errors import MasgradError
from masgrad.paper.experiment import VERDICTS, Experiment, Report
from masgrad.paper.report.registry import Entry


def spread(entry: Entry, seed: int, count: int, report: Report) -> dict:
    """Run seeds seed + 1, ..., seed + count: the numbers' range, and verdicts by claim.

    A seed whose rows have no optimum is named and left out.
    """
    runs, failed = {}, {}
    for s in range(seed + 1, seed + 1 + count):
        try:
            runs[s] = entry.run(s, True, lambda part: None)
        except MasgradError as error:
            failed[s] = str(error)
        report(f"seed {s}")
    scalars = [flatten(run.numbers) for run in runs.values()]
    keys = dict.fromkeys(key for x in scalars for key in x)
    return {
        "quick": True,
        "seeds": list(runs),
        "failed": failed,
        "numbers": {key: _range([x.get(key) for x in scalars]) for key in keys},
        "verdicts": _verdicts(list(runs.values())),
    }


def flatten(numbers: dict, prefix: str = "") -> dict[str, float | None]:
    """The scalars among nested numbers, with dotted names; lists are left out."""
    out: dict[str, float | None] = {}
    for key, value in numbers.items():
        if isinstance(value, dict):
            out |= flatten(value, f"{prefix}{key}.")
        elif value is None or isinstance(value, int | float):
            out[f"{prefix}{key}"] = value
    return out


def _range(values: list) -> dict:
    known = [v for v in values if v is not None]
    if not known:
        return {"median": None, "min": None, "max": None, "values": values}
    middle = float(np.median(known))
    return {"median": middle, "min": min(known), "max": max(known), "values": values}


def _verdicts(runs: list[Experiment]) -> dict[str, dict[str, int]]:
    out = {}
    for claims in zip(*(run.claims for run in runs), strict=True):
        if any(claim.verdict is not None for claim in claims):
            count = Counter(claim.verdict for claim in claims)
            out[claims[0].claim] = {v: count[v] for v in VERDICTS}
    return out

"""An experiment over other seeds: how its numbers and verdicts vary.

Other seeds run at the quick size: the same rows, batches and steps, with fewer chains or starts.
"""

from collections import Counter

import numpy as np

from masgrad.paper.experiment import VERDICTS, Experiment, Report
from masgrad.paper.experiments import Entry


def spread(entry: Entry, seed: int, count: int, report: Report) -> dict:
    """Run seeds seed + 1, ..., seed + count: the numbers' range, and verdicts by claim."""
    seeds, runs = list(range(seed + 1, seed + 1 + count)), []
    for s in seeds:
        runs.append(entry.run(s, True, lambda part: None))
        report(f"seed {s}")
    scalars = [flatten(run.numbers) for run in runs]
    return {
        "seeds": seeds,
        "numbers": {key: _range([x.get(key) for x in scalars]) for key in scalars[0]},
        "verdicts": _verdicts(runs),
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
        if claims[0].verdict is not None:
            count = Counter(claim.verdict for claim in claims)
            out[claims[0].claim] = {v: count[v] for v in VERDICTS}
    return out

"""Of which shards a merged result is made, as JSON."""

from typing import Any

from masgrad.fitting.merging.record import Heterogeneity, Merged
from masgrad.fitting.results.saved.arrays import pack, unpack


def merged_to_json(merged: Merged | None) -> dict[str, Any] | None:
    """The record; None if the result is of one shard."""
    if merged is None:
        return None
    test = merged.heterogeneity
    parts = {"statistic": test.statistic, "df": test.df, "shares": pack(test.shares)}
    return {"marks": pack(merged.marks), "heterogeneity": parts}


def merged_from_json(body: dict[str, Any] | None) -> Merged | None:
    """The record of what `merged_to_json` made."""
    if body is None:
        return None
    test = body["heterogeneity"]
    found = Heterogeneity(float(test["statistic"]), int(test["df"]), unpack(test["shares"]))
    marks = unpack(body["marks"])
    if marks.ndim != 2 or found.shares.shape != marks.shape[:1]:
        raise ValueError(f"{found.shares.shape} shares of Q for {marks.shape} marks of shards")
    return Merged(marks, found)

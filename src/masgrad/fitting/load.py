"""`load`: results from files, of every kind."""

from pathlib import Path
from typing import Any

from masgrad.fitting.fitted import Fitted
from masgrad.fitting.results import storage
from masgrad.fitting.results.result import Result
from masgrad.models.model import Model


def load(path: str | Path, model: Model | None = None) -> Result:
    """A result from a file that `Result.save` wrote.

    Args:
        path: the file.
        model: needed for `update` and `predict` if the loss was a `CustomLoss`.
    """
    fitted = storage.read(path, model, _complete)
    if type(fitted) is Fitted:
        return Result.of(fitted)
    from masgrad.fitting.effects.results.result import EffectsResult  # for some results alone

    return EffectsResult.of(fitted)


def _complete(record: Fitted, body: dict[str, Any]) -> Fitted:
    """The record with its fixed effects, if it has any."""
    if "effects" not in body:
        return record
    from masgrad.fitting.effects.results.storage import with_effects  # for some results alone

    return with_effects(record, body["effects"])

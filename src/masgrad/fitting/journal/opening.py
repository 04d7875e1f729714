"""The journal of a call: opened before its data are read, and closed with its result."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from masgrad.checkpoints.digest import digest_files
from masgrad.checkpoints.fingerprint import fingerprint
from masgrad.checkpoints.saver import Saver, check_checkpoint
from masgrad.checks import as_size
from masgrad.data.tables.paths import expand, is_dataset, is_paths
from masgrad.errors import InterruptedWarning, say
from masgrad.fitting.journal.journal import NO_JOURNAL, Journal
from masgrad.fitting.journal.recorded import Recorded
from masgrad.fitting.options import Options
from masgrad.models.model import Model
from masgrad.stores.path import located

NO_MATTER = (
    *("threads", "progress", "checkpoint", "every", "resume", "storage_options"),
    *("engine", "client", "scheduler"),
)
"""Keywords that change no digit of a result."""


def journal_of(function: str, model: Model, data: Any, options: Options, **more: Any) -> Journal:
    """The journal of a call; one that knows nothing if there is no checkpoint.

    `more` is whatever else decides its digits, such as whether sums are taken shard by shard.
    """
    as_size("every", options.every, zero=True)
    if options.checkpoint is None and not options.resume:
        return NO_JOURNAL
    path = check_checkpoint(options.checkpoint, options.every, options.resume)
    assert path is not None
    asked = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in NO_MATTER}
    call = fingerprint(
        function=function,
        model=model,
        data=_as_stored(located(data, options.storage_options)),
        **asked,
        **more,
    )
    saver = Saver(path, "fit", call, options.every)
    saved = saver.begin(options.resume)
    return Recorded(saver, None if saved is None else saved[1])


def _as_stored(data: Any) -> Any:
    """Data, with files in the place of their paths."""
    if is_paths(data):
        return [digest_files(expand(data))]
    if is_dataset(data) and getattr(data, "files", None):
        local = data.filesystem.type_name == "local"
        files = digest_files([Path(name) for name in data.files]) if local else data.files
        return [files, str(data.schema)]
    return [_as_stored(part) for part in data] if isinstance(data, tuple) else data


@contextmanager
def kept(journal: Journal) -> Iterator[None]:
    """Inside, a fit keeps a journal: Ctrl-C saves it, and the end marks it as finished."""
    try:
        yield
    except KeyboardInterrupt:
        journal.stop()
        raise
    journal.finish()
    if journal.path is not None and journal.stopped:
        say(
            InterruptedWarning,
            "stopped by Ctrl-C: the fit is saved, and the same call with resume=True goes on from "
            f"{journal.path}",
        )

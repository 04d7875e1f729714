"""The first read of rows with effects: which rows and columns are kept, and sums over them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from masgrad.errors import AccuracyWarning, IdentificationError, say
from masgrad.fitting.effects.eliminate import Eliminated
from masgrad.fitting.effects.fits.columns import Slopes, only_columns, slopes_of
from masgrad.fitting.effects.fits.newton import Elimination
from masgrad.fitting.effects.rows.design import EffectDesign
from masgrad.fitting.effects.rows.facts import Facts
from masgrad.fitting.effects.rows.kept import Kept, RowFacts, has_ends, kept_rows, look_at
from masgrad.fitting.effects.rows.nesting import LevelClusters, Nesting
from masgrad.fitting.effects.rows.parts import gathered_parts, total_of_parts
from masgrad.fitting.effects.rows.reads import EffectRead, EffectReader
from masgrad.fitting.effects.rows.recession import Recession
from masgrad.fitting.identification.enough import check_responses
from masgrad.fitting.objective.reader import Reader
from masgrad.fitting.objective.totals import Addition
from masgrad.fitting.sources import Sample
from masgrad.fitting.task import Task
from masgrad.types import Rows

FACTS_SHARE = 4
"""Part of the memory that the levels of rows may take, so that they are not read again."""

BYTES_OF_PAIR = 16
"""Of a pair of levels in memory: two codes and a weight."""


@dataclass(frozen=True)
class Stage:
    """Sums over the kept rows, and what they say of the columns.

    Args:
        effects: reads the rows.
        read: the sums of a read.
        done: the columns and the responses without the effects.
        slopes: which of all columns have none.
        largest: the largest |x| of each column with a slope.
        reads: number of reads so far.
        nested: which groupings of effects are nested in clusters, (K,).
        rows: number of rows that are not separated, kept or not.
    """

    effects: EffectReader
    read: EffectRead
    done: Eliminated
    slopes: Slopes
    largest: np.ndarray
    reads: int
    nested: np.ndarray
    rows: int

    @property
    def design(self) -> EffectDesign:
        return self.effects.design

    @property
    def kept(self) -> Kept:
        assert self.design.kept is not None
        return self.design.kept

    def settled(self) -> "Stage":
        """The stage without the columns that have no slope."""
        found, columns = slopes_of(self.done), self.design.columns
        if found.kept.all():
            return self
        before = self.slopes
        slopes = Slopes(*(part.copy() for part in before))
        for part, new in zip(slopes, found, strict=True):
            part[columns] = new
        if not found.kept.any():
            by = " and ".join(grouping.name for grouping in self.design.groupings)
            raise IdentificationError(
                f"no column varies within {by}: the effects determine all of them, and no slope "
                "can be estimated; leave an effect out, or add a column that varies"
            )
        done = only_columns(self.done, found.kept)
        return replace(
            self,
            effects=replace(self.effects, design=self.design.only(found.kept)),
            read=self.read._replace(sums=done.sums),
            done=done,
            slopes=slopes,
            largest=self.largest[found.kept],
        )


def first_stage(
    task: Task,
    reader: Reader,
    sample: Sample,
    mean: float,
    elimination: Elimination,
    recessions: tuple[Recession, ...] = (),
) -> Stage:
    """The first read, and another one where columns hardly vary within levels."""
    family, again = task.model.family, reader.source.rereadable  # pyright: ignore
    steps = family if family.convex and not task.needs_information else family.scoring()
    whole = replace(EffectDesign.of(reader.source.groupings, sample.rows), recessions=recessions)
    effects = EffectReader(reader, whole, steps, task.options.memory // BYTES_OF_PAIR)
    (read, facts), reads = effects.first_read(mean, task.options.memory // FACTS_SHARE), 1
    check_responses(task.model, facts.responses)
    kept, rows = _kept(task, effects, read, facts), read.rows
    effects = replace(effects, design=replace(whole, kept=kept))
    if again and not kept.all and len(whole.groupings) > 2:
        read, reads = effects.first_read(mean, 0)[0], 2
    done = elimination.of(read.sums)
    if (weak := done.weak & ~done.constant).any():
        if again:
            effects = replace(effects, design=effects.design.shifted(done.effects_of_x))
            (read, facts), reads = effects.first_read(mean, 0), reads + 1
            done = elimination.of(read.sums)
        else:
            _say_weak(reader.source.names, weak)
    largest = np.broadcast_to(facts.largest, whole.width)
    nested = facts.nesting.nested(kept.live)
    if facts.nesting.clusters and again and not (kept.all or nested.all()):
        nested, reads = _nested_by_kept_rows(effects, kept), reads + 1
    slopes = Slopes.all(whole.width)
    return Stage(effects, read, done, slopes, largest, reads, nested, rows).settled()


def _nested_by_kept_rows(effects: EffectReader, kept: Kept) -> np.ndarray:
    """Which groupings are nested in clusters, by the kept rows alone: a read of codes."""
    groupings = effects.reader.source.groupings
    nesting = Nesting(groupings)

    def work(block: Rows) -> list[LevelClusters]:
        return nesting.of_rows(effects.design.rows(block).groups)

    def also(found: Nesting, part: list[LevelClusters]) -> Nesting:
        found.add(part)
        return found

    addition = Addition(also, lambda: Nesting(groupings), Nesting.joined)
    return total_of_parts(effects.reader, work, addition).nested(kept.live)


def _say_weak(names: tuple[str, ...], weak: np.ndarray) -> None:
    said = ", ".join(repr(names[j]) for j in np.flatnonzero(weak)[:5])
    say(
        AccuracyWarning,
        f"column {said} varies within levels by less than 1e-5 of its variation, which sums of a "
        "single read hold to few digits; let the rows be read again (a table, files, mg.Stream)",
    )


def _kept(task: Task, effects: EffectReader, read: EffectRead, facts: Facts) -> Kept:
    """The rows that are kept."""
    design, options = effects.design, task.options
    single = any((table.rows == 1).any() for table in read.sums.levels)
    if not single and not has_ends(effects.family):
        live = tuple(table.rows > 0 for table in read.sums.levels)
        return Kept(live, read.rows, read.weight)
    known = facts.rows
    look = (
        partial(gathered_parts, effects.reader, _facts(effects))
        if known is None
        else look_at(known)
    )
    kept = kept_rows(look, design.sizes, options.weights_type == "frequency", known)
    by = " and ".join(grouping.name for grouping in design.groupings)
    if not kept.rows:
        raise IdentificationError(
            f"no row is left: each is the only one of a level of {by}, or its level has responses "
            "at one end alone; leave an effect out"
        )
    return kept


def _facts(effects: EffectReader) -> Callable[[Rows], RowFacts]:
    """What decides whether rows are kept, of the rows of a part."""

    def work(block: Rows) -> RowFacts:
        rows = effects.design.rows(block)
        return RowFacts.of(rows.codes, rows.y, rows.weight, effects.family)

    return work

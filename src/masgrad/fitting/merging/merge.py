"""Results of disjoint shards, fitted apart, as one: estimate, covariance, likelihood, record.

results -> Layout -> Shard -> Combined -> Spread -> Fitted

Nothing but sums over the rows of each shard is needed. The result is a record as any other: it is
saved, merged again, and updated with rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from masgrad.data.left_out import Omitted
from masgrad.errors import AccuracyWarning, say
from masgrad.fitting.fitted import FitInfo, Fitted, with_omitted
from masgrad.fitting.merging.check import check_disjoint, check_mergeable, marks_of
from masgrad.fitting.merging.combine import Combined, combine
from masgrad.fitting.merging.heterogeneity import heterogeneity
from masgrad.fitting.merging.layout import Layout, layout_of
from masgrad.fitting.merging.record import Heterogeneity, Merged
from masgrad.fitting.merging.remainder import remainder_of
from masgrad.fitting.merging.shard import Shard, shards_of
from masgrad.fitting.merging.spread import Spread, own_meat, spread_of
from masgrad.fitting.objective.coordinates import Coordinates
from masgrad.fitting.options import TOLERANCE
from masgrad.fitting.status import LARGEST_REMAINDER, Status, first_of

SURELY_DIFFERENT = 0.001
"""Probability of the test below which a note says that the shards differ."""

ROUND = (
    "Take the sums of every shard at this result, at=result, and merge those: what is left is then "
    "of a higher order."
)


def merge(results: Sequence[Fitted], repeated: str = "error") -> Fitted:
    """The record of the rows of all results."""
    check_mergeable(results, repeated)
    layout = layout_of(results)
    marks = np.vstack([marks_of(r, A) for r, A in zip(results, layout.maps, strict=True)])
    check_disjoint(marks, repeated)
    shards, coordinates = shards_of(results, layout)
    labels = layout.names or tuple(f"theta[{j}]" for j in range(layout.size))
    done = combine(shards, labels)
    spread = spread_of(shards, done, coordinates, layout.names)
    record = _record(shards, layout, coordinates, done, spread)
    merged = Merged(marks, _test(shards, done))
    record = replace(record, merged=merged, notes=(*_notes(record, merged), *record.notes))
    if record.fit_info.remainder > LARGEST_REMAINDER:
        say(
            AccuracyWarning,
            f"the merged estimate may be {record.fit_info.remainder:.2g} standard errors from that "
            "of all rows together, because of what the shards' local models miss; "
            f"{ROUND[0].lower()}{ROUND[1:-1]}",
        )
    omitted = reduce(Omitted.plus, (r.omitted for r in results))
    return with_omitted(record, None, omitted)


def _record(
    shards: Sequence[Shard],
    layout: Layout,
    coordinates: Coordinates,
    done: Combined,
    spread: Spread,
) -> Fitted:
    """The record, without what it says of its shards."""
    results, local = [shard.fitted for shard in shards], done.local
    first, p = results[0], layout.size
    cov = coordinates.cov(spread.cov)
    se = np.sqrt(np.maximum(np.diag(cov), 0.0))
    perfect = not cov.any()
    remainder = 0.0 if perfect else remainder_of(shards, done, se, coordinates.matrix)
    return Fitted(
        model=next((r.model for r in results if r.model is not None), None),
        theta=coordinates.theta(local.point),
        cov=cov,
        nobs=sum(r.nobs for r in results),
        names=layout.names,
        cov_type=spread.cov_type,
        fit_info=_fit_info(shards, coordinates, done, remainder),
        coordinates=coordinates,
        local_model=local,
        null_directions=np.empty((p, 0)),
        not_identified=np.zeros(p, bool),
        status=_status(results, remainder, perfect),
        terms=layout.terms,
        df=spread.df,
        kind=first.kind,
        notes=spread.notes,
        has_offset=first.has_offset,
        cov_phi=None if coordinates.preconditioner is None else spread.cov,
        recession=np.empty((p, 0)),
        separated=np.zeros(p, bool),
        clusters=spread.clusters,
        weights_type=first.weights_type,
    )


def _fit_info(
    shards: Sequence[Shard], coordinates: Coordinates, done: Combined, remainder: float
) -> FitInfo:
    """How the estimate was reached: shards are read at the same time."""
    infos, local = [shard.fitted.fit_info for shard in shards], done.local
    return FitInfo(
        max(info.reads for info in infos),
        sum(info.rows_per_second for info in infos),
        local.wald_norm(local.point - done.begin),
        remainder,
        coordinates.condition(local),
        max(info.drift for info in infos),
        gradient_reads=max(info.gradient_reads for info in infos),
    )


def _status(results: Sequence[Fitted], remainder: float, perfect: bool) -> Status:
    """How it ended: a shard whose first rows were unlike the others stays so."""
    unlike = any(r.status is Status.UNREPRESENTATIVE for r in results)
    return first_of(
        Status.PERFECT_FIT if perfect else None,
        Status.UNREPRESENTATIVE if unlike else None,
        Status.MERGED_ROUGHLY if remainder > LARGEST_REMAINDER else None,
        Status.APPROXIMATE if remainder > 10 * TOLERANCE else None,
    )


def _test(shards: Sequence[Shard], done: Combined) -> Heterogeneity:
    """The test that shards have one theta*, with those of shards that were merged themselves."""
    phi, turns = done.local.point, [shard.turn for shard in shards]
    pairs = zip(shards, done.parts, strict=True)
    meats = [own_meat(shard, part, phi) for shard, part in pairs]
    between = heterogeneity(done.parts, turns, meats)
    statistic, df, shares = between.statistic, between.df, []
    for shard, share in zip(shards, between.shares, strict=True):
        before = shard.fitted.merged
        if before is None:
            shares.append(np.array([share]))
            continue
        within = before.heterogeneity
        statistic, df = statistic + within.statistic, df + within.df
        shares.append(within.shares + share / before.shards)
    return Heterogeneity(statistic, df, np.concatenate(shares))


def _notes(record: Fitted, merged: Merged) -> tuple[str, ...]:
    """What a reader of the summary should know."""
    remainder, test = record.fit_info.remainder, merged.heterogeneity
    notes = [
        f"Merged from aggregates of {merged.shards:,} shards, whose rows are taken to be different "
        "ones" + (", and whose clusters do not span shards." if record.clusters else ".")
    ]
    if 10 * TOLERANCE < remainder <= LARGEST_REMAINDER:
        notes.append(f"The merge may be off by {remainder:.2g} standard errors. {ROUND}")
    if test.pvalue < SURELY_DIFFERENT:
        notes.append(
            f"The shards differ by more than chance (p = {test.pvalue:.1e}; I^2 = "
            f"{test.i_squared:.2f}): the estimate is a mean of theirs, and its interval is about "
            "that mean for these shards, not for others."
        )
    return tuple(notes)

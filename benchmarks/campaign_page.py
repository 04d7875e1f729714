"""The page of the campaign: counts beside their bars, remainders, and the fits that failed."""

from collections.abc import Callable, Iterable

import numpy as np

from campaign_verdicts import (
    ERRORS_OFF,
    FAR,
    GOOD,
    NONE_SILENT,
    OK,
    PART_WRONG,
    RAW,
    REFUSED,
    SILENT,
    SLOW,
    VERDICTS,
    WARNED,
    Record,
)  # fmt: skip

LEAST = 1e-5
"""Distance, in standard errors, above which a stated remainder is compared with the true one."""

COVERED, MEDIAN, QUANTILE = 0.99, 4.0, 30.0
"""Bars: share of remainders that are upper bounds, and quantiles of stated over true."""

SHORT = {
    "no optimum, said so": "none, said", "silently wrong": "silent",
    "wrong with a warning": "warned", "raw exception": "raw", "standard errors off": "s.e.",
    "too slow": "slow", "no optimum, not said": "none, silent",
    "separated, finite part wrong": "part wrong", "oracle undecided": "undecided",
}  # fmt: skip


EXPLANATION = (
    "An estimate is wrong if some coefficient is more than 0.1 standard errors (robust, at the "
    "optimum) from an optimum that exists; for losses with several optima, if its loss exceeds the "
    "oracle's best of five starts by 0.005 or more, in units of the dispersion. It is silently "
    "wrong if there was no warning and the status is well; `approximate` with a remainder below "
    "0.1 counts as well. A numerical warning of NumPy that reaches the user counts as a raw "
    "exception. Optima that do not exist (separated responses, a mean on the border of its range) "
    "must be refused or told of, and the finite coefficients of separated logistic, probit, "
    "cloglog and log-linear fits be those of the other rows. `limited` are fits with `passes=2` or "
    "3: they may be far from the optimum if they say so.",
)


def page(records: list[Record], seed: int, seconds: float, command: str) -> str:
    """The page in Markdown."""
    block = [r for r in records if r.group != "small"]
    two, single = ([r for r in block if r.group == group] for group in ("two-read", "single"))
    lines = [
        "# The campaign", "",
        f"`{command}`: {len(records):,} random fits (seed {seed}) against an exact Newton oracle, "
        f"{len(block):,} of them through the block path, in {seconds / 60:.0f} minutes.", "",
        *EXPLANATION, "", *_bars(records), "", "## Counts", "",
        *_counts("Reads", records, lambda r: [r.group]), "",
        *_counts("Kinds, block path", block, _kinds), "",
        *_counts("Order, two-read", two, lambda r: [r.order]), "",
        *_counts("Order, single", single, lambda r: [r.order]), "",
        *_counts("Columns", records, lambda r: sorted(set(r.columns))), "",
        *_counts("Container", records, lambda r: [r.container]), "",
        *_counts("Family and link", records, lambda r: [r.pair]), "",
        *_remainders(records), "", *_failures(records), "",
    ]  # fmt: skip
    return "\n".join(lines)


# --- bars


def _bars(records: list[Record]) -> list[str]:
    two = [r for r in records if r.group == "two-read"]
    single = [r for r in records if r.group == "single"]
    small = [r for r in records if r.group == "small"]
    limited = [r for r in records if r.group == "limited"]
    many = [r for r in records if r.group in ("two-read", "small")]
    rows = [
        "## Bars",
        "",
        "| of | what | count | share | bar | holds |",
        "|---|---|---|---|---|---|",
    ]
    rows.append(_bar("two-read and small", SILENT, many, (SILENT,), 0.0))
    both = (WARNED, REFUSED, PART_WRONG)
    rows.append(_bar("two-read", "wrong with a warning, or refused", two, both, 0.005))
    rows.append(_bar("small", "wrong with a warning, or refused", small, both, 0.005))
    rows.append(_bar("single", SILENT, single, (SILENT,), 0.0))
    rows.append(_bar("single", "wrong or refused", single, (SILENT, *both), 0.05))
    rows.append(_bar("two or three reads", SILENT, limited, (SILENT,), 0.0))
    rows.append(_bar("all", ERRORS_OFF, records, (ERRORS_OFF,), 0.005))
    rows.append(_bar("all", RAW, records, (RAW,), 0.0))
    rows.append(_bar("all", SLOW, records, (SLOW,), 0.0))
    rows.append(_bar("all", NONE_SILENT, records, (NONE_SILENT,), 0.0))
    return rows


def _bar(of: str, what: str, records: list[Record], verdicts: tuple, bar: float) -> str:
    count = sum(r.verdict in verdicts for r in records)
    share = count / max(len(records), 1)
    holds = "yes" if share <= bar and (count == 0 or bar > 0) else "**no**"
    limit = "0" if bar == 0 else f"{100 * bar:g} %"
    return (
        f"| {of} ({len(records):,}) | {what} | {count} | {100 * share:.2f} % | {limit} | {holds} |"
    )


# --- counts


def _kinds(r: Record) -> list[str]:
    kinds = ("sorted", "rare", "few", "heavy", "noncanonical", "weighted", "offset", "collinear",
             "large", "category")  # fmt: skip
    return [k for k in kinds if k in r.tags]


def _counts(
    title: str, records: list[Record], keys: Callable[[Record], Iterable[str]]
) -> list[str]:
    used = [v for v in VERDICTS if any(r.verdict == v for r in records)]
    head = [title, "fits", *(SHORT.get(v, v) for v in used)]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    found: dict[str, list[Record]] = {}
    for r in records:
        for key in keys(r):
            found.setdefault(key, []).append(r)
    for key in sorted(found):
        counts = [sum(r.verdict == v for r in found[key]) for v in used]
        rows.append(f"| {key} | {len(found[key])} | {' | '.join(map(str, counts))} |")
    return rows


# --- remainders


def _remainders(records: list[Record]) -> list[str]:
    rows = [
        "## Stated remainders", "",
        "Stated is `fit_info.remainder`; true is the distance from the oracle, in standard errors: "
        "root mean square over whitened contrasts, and the largest over coefficients; it is to "
        f"bound both. The ratio is stated / true where the truth exceeds {LEAST:g}. Bars: "
        f"covered {100 * COVERED:g} %, median below {MEDIAN:g}, 95 % quantile below {QUANTILE:g}. "
        "Fits at another, worse, optimum are left out. A stated remainder is one number that "
        "bounds both, so that it is compared best with the larger, which is mostly the worst "
        "coefficient.", "",
        "| fits | measure | covered | compared | median ratio | 95 % quantile | holds |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for group in ("two-read", "limited", "single", "small"):
        of = [r for r in records if r.group == group]
        some = [r for r in of if np.isfinite(r.distance) and not r.elsewhere]
        rows += [_ratio_row(group, measure, some) for measure in ("rms", "distance")]
    said = [r for r in records if r.stated > FAR]
    unsaid = [r for r in said if r.status in ("converged", "one step", "approximate")]
    more = f"of which {len(unsaid)} have a status that does not say so."
    return [*rows, "", f"Stated above {FAR:g}: {len(said)} fits, {more}"]


def _ratio_row(group: str, measure: str, records: list[Record]) -> str:
    true = np.array([getattr(r, measure) for r in records])
    stated = np.array([r.stated for r in records])
    large = true > LEAST
    covered = np.where(large, stated >= true, stated >= 0)
    start = f"| {group} | {measure} | {_percent(covered)} of {len(records)} | {int(large.sum())} |"
    if not large.any():
        return f"{start} | | |"
    middle, high = np.quantile(stated[large] / true[large], [0.5, 0.95])
    holds = np.mean(covered) >= COVERED and middle < MEDIAN and high < QUANTILE
    return f"{start} {middle:.2f} | {high:.1f} | {'yes' if holds else '**no**'} |"


def _percent(flags: np.ndarray) -> str:
    return f"{100 * np.mean(flags):.1f} %" if len(flags) else "-"


# --- failures


def _failures(records: list[Record]) -> list[str]:
    failed = sorted((r for r in records if r.verdict not in GOOD), key=lambda r: (r.verdict, r.id))
    rows = ["## Fits that failed", ""]
    if not failed:
        return [*rows, "None."]
    for r in failed:
        rows.append(f"- {r.id} **{r.verdict}**: {_plain(r.detail)} -- {r.describe}")
    return rows


def _plain(text: str) -> str:
    return " ".join(text.split())[:220]


def summary(records: list[Record]) -> str:
    """One line of counts."""
    counts = {v: sum(r.verdict == v for r in records) for v in VERDICTS}
    return ", ".join(f"{n} {v}" for v, n in counts.items() if n or v == OK)

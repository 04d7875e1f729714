"""The number of lags, with what is refused and what a reader of the summary should know.

By default L = floor(4 (T / 100)^(2/9)), the rule that statsmodels and linearmodels have as well.
"""

from masgrad.errors import InputError
from masgrad.fitting.options import Options
from masgrad.fitting.uncertainty.serial.times import Times

RULE = "floor(4 (T/100)^(2/9))"


def lags_of(options: Options, times: int) -> tuple[int, str]:
    """L for T times, and where it comes from in words."""
    if options.lags is not None:
        return options.lags, ""
    return int(4 * (times / 100) ** (2 / 9)), f" (automatic: {RULE})"


def check_times(count: int, kind: str, what: str) -> None:
    if count < 2:
        raise InputError(f"cov_type={kind!r} needs at least 2 {what}, and there is {count}")


def check_lags(lags: int, length: int, what: str) -> None:
    if lags >= length:
        raise InputError(
            f"lags={lags} of {length:,} {what}: the sum over all lags is 0 at an optimum; take far "
            "fewer lags than there are times"
        )


def on_lags(kind: str, lags: int, source: str) -> str:
    return f"{kind}: Bartlett kernel, {lags} lag{'s' * (lags != 1)}{source}."


def on_gaps(name: str, axis: Times) -> tuple[str, ...]:
    """A note on times that are not one after the other, or not one apart."""
    missing = axis.length - len(axis.places)
    if axis.date:
        plain, period = axis.date.replace("-", ""), "month" if axis.date.count("-") > 1 else "year"
        return (
            f"{name} is read as whole numbers, which look like dates such as {plain}: the last of "
            f"a {period} is far from the next; give dates ({axis.date!r}), or time_gaps='rank'.",
        )
    if axis.unit is None or not (missing or axis.unit != "1"):
        return ()
    gaps = f"; {missing:,} of {axis.length:,} have no rows" if missing else ""
    return (f"One lag is {axis.unit} of {name}{gaps} (time_gaps='value').",)

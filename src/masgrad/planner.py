"""What `masgrad plan` prints: the theorems' numbers for files of rows, or for given constants."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from masgrad.checks import as_size, check_count
from masgrad.covariance.moments import moments
from masgrad.data.formula.formulas import of_columns
from masgrad.data.formula.learning import learn
from masgrad.data.opening import open_table
from masgrad.data.source import Source
from masgrad.data.table_rows import TableSource
from masgrad.data.tables.frames import names_of
from masgrad.data.tables.medium import Medium, is_number
from masgrad.data.tables.paths import expand
from masgrad.errors import InputError, InputTypeError
from masgrad.inference.lyapunov import stationary_law
from masgrad.kernels.methods import masgrad
from masgrad.models.glm import GLM
from masgrad.theory.curvature.regions import ball
from masgrad.theory.plans.budget import RowsNeeded, convex_within, nonconvex_within, rows_for_width
from masgrad.theory.plans.planning import (
    ConvexPlan,
    NonConvexPlan,
    Plan,
    plan_convex,
    plan_nonconvex,
)
from masgrad.theory.plans.survey import Survey, survey

Line = tuple[str, str, str]
"""A quantity, its value, and its meaning."""

MODELS = {"linear": "gaussian", "logistic": "bernoulli", "poisson": "poisson"}


@dataclass(frozen=True)
class Design:
    """The files to survey, and their columns that make y and X.

    Attributes:
        files: CSV or Parquet files, patterns or directories.
        response: the column y.
        columns: the columns of X, all numeric; None takes all but the response.
        intercept: whether X also has a constant column.
    """

    files: list[str]
    response: str
    columns: list[str] | None = None
    intercept: bool = True


@dataclass(frozen=True)
class Goals:
    """The accuracy asked for, or the rows to spend; checked before any file is read.

    Attributes:
        epsilon: accuracy of the risk, or of the gradient's norm.
        delta: distance to the diffusion in total variation, for a non-convex plan.
        rows: number of rows to draw at most, instead of epsilon.
        half_width: half-width of confidence intervals, for the rows that they need.
        level: level of those intervals.
    """

    epsilon: float | None = None
    delta: float | None = None
    rows: int | None = None
    half_width: float | None = None
    level: float = 0.95

    def __post_init__(self):
        if self.epsilon is not None:
            as_size("epsilon", self.epsilon)
        if self.delta is not None and not 0 < self.delta <= 1:
            raise InputError(
                f"delta={self.delta:g}; a distance in total variation, in (0, 1], is needed"
            )
        if self.rows is not None:
            check_count("rows", self.rows, 2)
        if self.half_width is not None:
            as_size("half_width", self.half_width)
        if not 0 < self.level < 1:
            raise InputError(f"level={self.level:g}; a probability between 0 and 1 is needed")


@dataclass(frozen=True)
class Constants:
    """The constants of the theorems: alpha and gamma, L(start) - min L, p, max ||V||."""

    alpha: float | None
    gamma: float
    gap: float
    dim: int
    v_max: float

    @classmethod
    def given(cls, options: dict[str, Any]) -> "Constants":
        """Those given as options of the command line; only alpha may be None."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names[1:] if options[name] is None]
        if missing:
            said = ", ".join("--" + name.replace("_", "-") for name in missing)
            raise InputError(f"without a file {said} must be given")
        return cls(**{name: options[name] for name in names})


def plan_files(
    design: Design, model: str, goals: Goals, *, radius: float | None = None, ridge: float = 0.0
) -> None:
    """Survey the files and print their constants, the plans, and the rows that a width needs."""
    if model not in MODELS:
        raise InputError(f"model={model!r}; use one of {', '.join(MODELS)}")
    if goals.epsilon is not None and goals.rows is not None:
        raise InputError("give --epsilon, the wanted accuracy, or --rows to spend, not both")
    X, y, names = read_design(design)
    loss = GLM(MODELS[model])
    found = survey(loss, (X, y), ridge=ridge)
    if radius is not None:
        region = ball(found.optimum, radius)
        found = survey(loss, (X, y), optimum=found.optimum, region=region, ridge=ridge)
        outside = "" if np.linalg.norm(found.optimum) <= radius else " (the start 0 lies outside)"
        found = replace(found, region=f"a ball of radius {radius:g} around the optimum{outside}")
    console = Console()
    console.print(_constants(found, f"{model} regression on {_title(design.files)}"))
    c = found.conditioning
    constants = Constants(c.alpha, c.gamma, found.gap, len(found.optimum), c.v_max)
    try:
        plans = _plans(constants, goals, found.rows if goals.rows is None else goals.rows)
    except InputError as error:
        if goals.epsilon is not None or goals.rows is not None:
            raise
        console.print(Text(f"No plan draws no more than this file's rows. {error}"))
        plans = []
    spread = [_spread(plan, loss, (X, y), found, ridge) for plan in plans]
    regime = [_regime(plan, found.rows) for plan in plans]
    _show(console, [(plan, list(last)) for plan, *last in zip(plans, regime, spread, strict=True)])
    if goals.half_width is not None:
        needed = rows_for_width(loss, (X, y), found.optimum, goals.half_width, goals.level)
        console.print(_widths(needed, names))


def read_design(design: Design) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """X, y and the names of X's columns, every value finite and no column constant twice."""
    response, names = design.response, design.columns
    if names is not None and (response in names or len(set(names)) < len(names)):
        raise InputError(f"columns {names} name the response {response!r}, or a column twice")
    if names is None:
        names = [name for name in names_of(design.files) if name != response]
    medium = open_table(design.files, (response, *names))
    _check_numeric(medium, names)
    if not names and not design.intercept:
        raise InputError("there is no column besides the response, and --no-intercept was given")
    source = TableSource(medium, learn(of_columns(response, names, design.intercept), medium))
    blocks = list(source.blocks())
    X, y = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    _check_finite(np.column_stack([y, X]), (response, *source.names), source)
    constant = [name for name, x in zip(source.names, X.T, strict=True) if np.ptp(x) == 0]
    if design.intercept and len(constant) > 1:
        raise InputError(
            f"column {constant[1]!r} is constant, as the intercept is; leave it out, or use "
            "--no-intercept"
        )
    return X, y, source.names


def _check_numeric(medium: Medium, names: list[str]) -> None:
    """A plan takes numbers only: a category is refused, since the reader would code it."""
    for name in names:
        if not is_number(medium.types[name]):
            raise InputTypeError(
                f"{medium.where}: column {name!r} is not numeric ({medium.types[name]}); leave it "
                "out by naming the others with --columns, or encode it as numbers first"
            )


def _check_finite(values: np.ndarray, names: tuple[str, ...], source: Source) -> None:
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    column = int(np.argmax(bad.any(0)))
    row, count = int(np.argmax(bad[:, column])), int(bad[:, column].sum())
    value = values[row, column]
    said = "has no value" if np.isnan(value) else f"holds {value:g}"
    raise InputError(
        f"column {names[column]!r} {said} at {source.place(row)} ({count} such "
        f"{'row' if count == 1 else 'rows'} in all); drop or impute those rows first"
    )


def _title(files: list[str]) -> str:
    first, *others = expand(files)
    return first.name + (f" and {len(others)} more" if others else "")


def _spread(plan: Plan, loss: GLM, data, found: Survey, ridge: float) -> Line:
    """The iterate's standard deviation beside the estimate's own, on this file."""
    kernel = masgrad(plan.step_size, ridge=ridge)
    law = stationary_law(loss, data, found.optimum, kernel, plan.batch_size)
    erm = np.sqrt(np.diag(moments(loss, found.optimum, data).sandwich) / found.rows)
    ratio = (law.sd / erm).max()
    return "sd of iterate / of ERM", f"{ratio:.2g}", "worst coordinate: below 1, nearer than noise"


def plan_constants(constants: Constants, goals: Goals) -> None:
    """Print the plans for given constants."""
    if goals.epsilon is None and goals.rows is None:
        raise InputError("give --epsilon, the wanted accuracy, or --rows, the rows to spend")
    if constants.alpha is None and goals.delta is None:
        raise InputError("give --alpha for a strongly convex plan, --delta for a non-convex one")
    rows = goals.rows
    plans = _plans(constants, goals, rows)
    _show(Console(), [(plan, [] if rows is None else [_regime(plan, rows)]) for plan in plans])


def _regime(plan: Plan, rows: int) -> Line:
    """The paper's condition for a table with this number of rows."""
    regime = plan.bootstrap(rows)
    return f"eta < n / {rows:,}", "yes" if regime.holds else "no", "the bootstrap regime: beta > N"


def _show(console: Console, plans: list[tuple[Plan, list[Line]]]) -> None:
    """Print the plans as tables with their last lines, then their assumptions, each once."""
    for plan, last in plans:
        console.print(_table(plan, last))
    notes = dict.fromkeys(note for plan, _ in plans for note in plan.notes)
    for note in notes:
        console.print(Text(f"- {note}"))


def _plans(c: Constants, goals: Goals, rows: int | None) -> list[Plan]:
    """Plans for an accuracy, or for the best accuracy within `rows`; a non-convex one if delta is
    given."""
    epsilon, delta, spend = goals.epsilon, goals.delta, 0 if rows is None else rows
    plans: list[Plan] = []
    if c.alpha is not None and epsilon is not None:
        plans.append(plan_convex(c.alpha, c.gamma, c.gap, epsilon, c.dim, c.v_max))
    elif c.alpha is not None:
        plans.append(convex_within(spend, c.alpha, c.gamma, c.gap, c.dim, c.v_max))
    if delta is not None and epsilon is not None:
        plans.append(plan_nonconvex(c.gamma, c.gap, epsilon, delta, c.dim, c.v_max))
    elif delta is not None:
        plans.append(nonconvex_within(spend, c.gamma, c.gap, delta, c.dim, c.v_max))
    return plans


def _constants(found: Survey, title: str) -> Table:
    c = found.conditioning
    return _rows(
        f"{title}: {found.rows:,} rows, {len(found.optimum)} parameters",
        [
            ("alpha", f"{c.alpha:.4g}", "smallest eigenvalue of V(w)^-1/2 H(v) V(w)^-1/2"),
            ("gamma", f"{c.gamma:.4g}", "the largest"),
            ("kappa, MasGrad", f"{c.kappa_masgrad:.4g}", "gamma / alpha"),
            ("kappa, gradient descent", f"{c.kappa_gd:.4g}", "of H alone"),
            ("step, gradient descent", f"{c.step_gd:.4g}", "1 / largest eigenvalue of H"),
            ("max ||V||", f"{c.v_max:.4g}", "largest standard deviation of a gradient"),
            ("gap", f"{found.gap:.4g}", "L(0) - min L"),
        ],
        f"over {found.region}: {c.pairs} pairs (v, w); other regions have other numbers",
    )


def _table(plan: Plan, last: list[Line]) -> Table:
    title, lines = _stated(plan)
    lines += [
        ("eta", f"{plan.step_size:.4g}", "step size, 1 / gamma"),
        ("beta", f"{plan.beta:.4g}", "inverse temperature, 2 n / eta"),
        ("n T", f"{plan.samples:,}", f"rows drawn; {_orders(plan)}"),
        ("sqrt(T / n)", f"{plan.tv_rate:.3g}", "rate of the distance to the diffusion"),
    ]
    return _rows(title, lines + last)


def _stated(plan: Plan) -> tuple[str, list[Line]]:
    if isinstance(plan, ConvexPlan):
        title = f"Strongly convex: expected risk within {plan.epsilon:.4g} of the minimum"
        if plan.epsilon >= plan.gap:
            title += f", which the start (gap {plan.gap:.4g}) has already"
        quarter = f"batch size; the proof needs {plan.batch_size_proved:,}"
        return title, [
            ("T", f"{plan.steps:,}", f"steps; risk bound there {plan.risk(plan.steps):.3g}"),
            ("n", f"{plan.batch_size:,}", quarter),
        ]
    assert isinstance(plan, NonConvexPlan)
    title = f"Non-convex: a gradient of norm {plan.epsilon:.4g} on the way, delta {plan.delta:.3g}"
    stated = f"steps of the corrected proof; stated are {plan.steps_stated:,}"
    return title, [
        ("T", f"{plan.steps:,}", stated),
        ("n", f"{plan.batch_size:,}", "batch size, T / delta^2"),
    ]


def _orders(plan: Plan) -> str:
    """The sample-complexity remarks, which leave constants out."""
    if isinstance(plan, ConvexPlan):
        return (
            f"orders: (p/eps) log(1/eps) = {plan.order:,.0f} here, p/eps = "
            f"{plan.erm_samples:,.0f} for an ERM"
        )
    assert isinstance(plan, NonConvexPlan)
    return f"order: eps^-4 delta^-2 = {plan.order:,.0f}"


def _widths(needed: RowsNeeded, names: tuple[str, ...]) -> Table:
    half, level = needed.half_width[0], needed.level
    each = zip(names, needed.per_coordinate, strict=True)
    lines = [(name, f"{count:,}", "") for name, count in each]
    lines.append(("all of them", f"{needed.rows:,}", f"{level:.0%} intervals of +- {half:.4g}"))
    title = "Rows needed for intervals"
    return _rows(title, lines, "from the sandwich H^-1 E[g g'] H^-1 of this file as a pilot")


def _rows(title: str, lines: list[Line], caption: str = "") -> Table:
    table = Table(title=Text(title), show_header=False, title_justify="left")
    table.caption = Text(caption) if caption else None
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for line in lines:
        table.add_row(*(Text(part) for part in line))
    return table

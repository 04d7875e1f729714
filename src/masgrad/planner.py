"""What `masgrad plan` prints: the theorems' numbers for a file of rows, or for given constants."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from masgrad.checks import as_size, check_count
from masgrad.covariance.moments import moments
from masgrad.data.files import as_design, read_table
from masgrad.errors import InputError
from masgrad.inference.lyapunov import stationary_law
from masgrad.kernels.methods import masgrad
from masgrad.models.glm import GLM
from masgrad.theory.budget import RowsNeeded, convex_within, nonconvex_within, rows_for_width
from masgrad.theory.planning import ConvexPlan, NonConvexPlan, Plan, plan_convex, plan_nonconvex
from masgrad.theory.regions import ball
from masgrad.theory.survey import Survey, survey

Line = tuple[str, str, str]
"""A quantity, its value, and what it is."""

MODELS = {"linear": "gaussian", "logistic": "bernoulli", "poisson": "poisson"}


def plan_file(
    path: Path,
    response: str,
    model: str,
    columns: list[str] | None,
    intercept: bool,
    radius: float | None,
    ridge: float,
    epsilon: float | None,
    delta: float | None,
    rows: int | None,
    half_width: float | None,
    level: float,
) -> None:
    """Survey a file and print its constants, its plans and the rows that a width needs."""
    if model not in MODELS:
        raise InputError(f"model={model!r}; use one of {', '.join(MODELS)}")
    if epsilon is not None and rows is not None:
        raise InputError("give --epsilon, the wanted accuracy, or --rows to spend, not both")
    _check_wishes(epsilon, delta, rows, half_width, level)
    X, y, names = as_design(read_table(path), response, columns, intercept)
    loss = GLM(MODELS[model])
    found = survey(loss, (X, y), ridge=ridge)
    if radius is not None:
        region = ball(found.optimum, radius)
        found = survey(loss, (X, y), optimum=found.optimum, region=region, ridge=ridge)
        outside = "" if np.linalg.norm(found.optimum) <= radius else " (the start 0 lies outside)"
        found = replace(found, region=f"a ball of radius {radius:g} around the optimum{outside}")
    console = Console()
    console.print(_constants(found, model, path))
    c = found.conditioning
    constants = (c.alpha, c.gamma, found.gap, len(found.optimum), c.v_max)
    try:
        plans = _plans(*constants, epsilon, delta, found.rows if rows is None else rows)
    except InputError as error:
        if epsilon is not None or rows is not None:
            raise
        console.print(Text(f"No plan draws no more than this file's rows. {error}"))
        plans = []
    spread = [_spread(plan, loss, (X, y), found, ridge) for plan in plans]
    regime = [_regime(plan, found.rows) for plan in plans]
    _show(console, [(plan, list(last)) for plan, *last in zip(plans, regime, spread, strict=True)])
    if half_width is not None:
        needed = rows_for_width(loss, (X, y), found.optimum, half_width, level)
        console.print(_widths(needed, names))


def _check_wishes(epsilon, delta, rows, half_width, level) -> None:
    """What can be refused before the file is read."""
    if epsilon is not None:
        as_size("epsilon", epsilon)
    if delta is not None and not 0 < delta <= 1:
        raise InputError(f"delta={delta:g}; a distance in total variation, in (0, 1], is needed")
    if rows is not None:
        check_count("rows", rows, 2)
    if half_width is not None:
        as_size("half_width", half_width)
    if not 0 < level < 1:
        raise InputError(f"level={level:g}; a probability between 0 and 1 is needed")


def _spread(plan: Plan, loss: GLM, data, found: Survey, ridge: float) -> Line:
    """The iterate's standard deviation beside the estimate's own, on this file."""
    kernel = masgrad(plan.step_size, ridge=ridge)
    law = stationary_law(loss, data, found.optimum, kernel, plan.batch_size)
    erm = np.sqrt(np.diag(moments(loss, found.optimum, data).sandwich) / found.rows)
    ratio = (law.sd / erm).max()
    return "sd of iterate / of ERM", f"{ratio:.2g}", "worst coordinate: below 1, nearer than noise"


def plan_constants(
    alpha: float | None,
    gamma: float | None,
    gap: float | None,
    dim: int | None,
    v_max: float | None,
    epsilon: float | None,
    delta: float | None,
    rows: int | None,
) -> None:
    """Print the plans for given constants."""
    wanted = {"--gamma": gamma, "--gap": gap, "--dim": dim, "--v-max": v_max}
    missing = [name for name, value in wanted.items() if value is None]
    if gamma is None or gap is None or dim is None or v_max is None:
        raise InputError(f"without a file {', '.join(missing)} must be given")
    if epsilon is None and rows is None:
        raise InputError("give --epsilon, the wanted accuracy, or --rows, how many there are")
    if alpha is None and delta is None:
        raise InputError("give --alpha for a strongly convex plan, --delta for a non-convex one")
    plans = _plans(alpha, gamma, gap, dim, v_max, epsilon, delta, rows)
    _show(Console(), [(plan, [] if rows is None else [_regime(plan, rows)]) for plan in plans])


def _regime(plan: Plan, rows: int) -> Line:
    """The paper's condition for a table of so many rows."""
    regime = plan.bootstrap(rows)
    return f"eta < n / {rows:,}", "yes" if regime.holds else "no", "the bootstrap regime: beta > N"


def _show(console: Console, plans: list[tuple[Plan, list[Line]]]) -> None:
    """The plans as tables, each with its last lines; and below them once what they assume."""
    for plan, last in plans:
        console.print(_table(plan, last))
    notes = dict.fromkeys(note for plan, _ in plans for note in plan.notes)
    for note in notes:
        console.print(Text(f"- {note}"))


def _plans(
    alpha: float | None,
    gamma: float,
    gap: float,
    dim: int,
    v_max: float,
    epsilon: float | None,
    delta: float | None,
    rows: int | None,
) -> list[Plan]:
    """For an accuracy, or for what so many rows allow; non-convex as well where delta is given."""
    spend = 0 if rows is None else check_count("rows", rows, 2)
    plans: list[Plan] = []
    if alpha is not None and epsilon is not None:
        plans.append(plan_convex(alpha, gamma, gap, epsilon, dim, v_max))
    elif alpha is not None:
        plans.append(convex_within(spend, alpha, gamma, gap, dim, v_max))
    if delta is not None and epsilon is not None:
        plans.append(plan_nonconvex(gamma, gap, epsilon, delta, dim, v_max))
    elif delta is not None:
        plans.append(nonconvex_within(spend, gamma, gap, delta, dim, v_max))
    return plans


def _constants(found: Survey, model: str, path: Path) -> Table:
    c = found.conditioning
    return _rows(
        f"{model} regression on {path.name}: {found.rows:,} rows, {len(found.optimum)} parameters",
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
    proved = f"steps as stated; the corrected proof needs {plan.steps_proved:,}"
    return title, [
        ("T", f"{plan.steps:,}", proved),
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


def _widths(needed: RowsNeeded, names: list[str]) -> Table:
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

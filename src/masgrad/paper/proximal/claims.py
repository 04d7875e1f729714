"""The claims about MadProx, judged by the numbers of both problems; times judge none."""

from collections.abc import Callable

from masgrad.paper.experiment import Claim, judge
from masgrad.paper.experiments.convergence import or_never
from masgrad.paper.proximal.methods import METRICS

TITLES = {"lasso": "Lasso", "trace": "Trace regression"}
METRIC_NAMES = {"madprox": "dense V", "diagonal": "diagonal V", "proximal_gradient": "V = I"}
NEAR, FACTOR = 0.1, 2.0


def claims(numbers: dict[str, dict]) -> list[Claim]:
    """The paper's four claims with their verdicts, then the measurements that are not judged."""
    judged = (_enough_steps, _monotone, _condition_numbers, _fewer_steps)
    unjudged = [Claim(words, _each(numbers, told), None) for told, words in UNJUDGED.items()]
    return [claim(numbers) for claim in judged] + unjudged


def _enough_steps(x: dict[str, dict]) -> Claim:
    def measured(n: dict) -> str:
        return "; ".join(
            f"{name} T = {n[f'theory_steps_{key}']}, reached after {_steps(n, key)}"
            for key, name in METRIC_NAMES.items()
        )

    holds = {key: all(n[f"gap_over_epsilon_{key}"] <= 1 for n in x.values()) for key in METRICS}
    return Claim(
        "The gap is at most epsilon after the proposition's T (epsilon: 1e-6 of the first gap)",
        _each(x, measured),
        judge(all(holds.values()), holds["madprox"]),
    )


def _monotone(x: dict[str, dict]) -> Claim:
    count = {key: sum(n[f"increases_{key}"] for n in x.values()) for key in (*METRICS, "fista")}
    measured = ", ".join(f"{name} {count[key]}" for key, name in METRIC_NAMES.items())
    return Claim(
        "With eta = 1/gamma no step of MadProx increases the loss",
        f"steps that do, beyond rounding: {measured}; FISTA, beside it, {count['fista']}",
        judge(not any(count[key] for key in METRICS), not count["madprox"]),
    )


def _condition_numbers(x: dict[str, dict]) -> Claim:
    def measured(n: dict) -> str:
        return (
            f"{n['kappa_madprox']:.4g} and sqrt({n['kappa_gd']:.4g}), a ratio of "
            f"{n['kappa_ratio']:.2f}; V of these rows at the optimum {n['kappa_ratio_of_rows']:.2f}"
        )

    fixed = all(abs(n["kappa_ratio"] - 1) <= NEAR for n in x.values())
    of_rows = all(_near(n["kappa_ratio_of_rows"]) for n in x.values())
    text = _each(x, measured)
    return Claim("kappa_MadProx is about sqrt(kappa_GD)", text, judge(fixed and of_rows, fixed))


def _fewer_steps(x: dict[str, dict]) -> Claim:
    def fewer(n: dict) -> float:
        return or_never(n["steps_proximal_gradient"]) / or_never(n["steps_madprox"])

    def expected(n: dict) -> float:
        return n["kappa_gd"] / n["kappa_madprox"]

    def measured(n: dict) -> str:
        return (
            f"{_steps(n, 'madprox')} steps, proximal gradient {_steps(n, 'proximal_gradient')}: "
            f"{fewer(n):.1f} times as many; ratio of condition numbers {expected(n):.1f}"
        )

    near = all(_near(fewer(n) / expected(n)) for n in x.values())
    return Claim(
        "The number of proximal steps scales with the adjusted condition number",
        _each(x, measured),
        judge(near, all(fewer(n) > 1 for n in x.values())),
    )


def _inner_problem(n: dict) -> str:
    longer = f"{_step_ratio(n, 'step_seconds', 'madprox', 'proximal_gradient'):.1f} times"
    if "step_seconds_on_moments_madprox" in n:
        cheap = _step_ratio(n, "step_seconds_on_moments", "madprox", "proximal_gradient")
        longer += f" ({cheap:.1f} on moments)"
    return (
        f"{n['inner_steps_madprox']:.0f} inner steps a step, which takes {longer} as long as "
        f"one of proximal gradient; until 1e-6 {_times(n, 'madprox', 'proximal_gradient')}"
    )


def _diagonal(n: dict) -> str:
    return (
        f"{_step_ratio(n, 'step_seconds', 'diagonal', 'madprox'):.2f} of dense V's time a step "
        f"({n['inner_steps_diagonal']:.0f} inner steps); kappa {n['kappa_diagonal']:.3g} = "
        f"{n['kappa_ratio_diagonal']:.1f} sqrt(kappa_GD), {_steps(n, 'diagonal')} steps, "
        f"{_times(n, 'diagonal')}"
    )


def _fista(n: dict) -> str:
    return (
        f"{_steps(n, 'fista')} steps against MadProx's {_steps(n, 'madprox')}; "
        f"{_times(n, 'fista', 'madprox')}"
    )


def _explicit(n: dict) -> str:
    what = "nonzeros" if "nonzeros" in n else "rank"
    left = {key: n[f"{what}_{key}"] for key in ("explicit", "subgradient", "madprox")}
    return (
        f"gap {n['final_gap_explicit']:.1e} at step {n['last_step_explicit']} with dense V and "
        f"MadProx's eta, {n['final_gap_subgradient']:.1e} at step {n['last_step_subgradient']} "
        f"with V = I and shrinking eta; {what} {left['explicit']} and {left['subgradient']}, "
        f"MadProx {left['madprox']}, the optimum {n[what]}"
    )


UNJUDGED: dict[Callable[[dict], str], str] = {
    _inner_problem: "A proximal step can be hard for a V that is not diagonal (times, not judged)",
    _diagonal: "diag(V) saves time in each step (times, not judged); no sqrt(kappa) is claimed "
    "for it",
    _fista: "Beside the paper: FISTA accelerates too, without V and without an inner problem",
    _explicit: "Beside the paper: explicit sub-gradient steps have a floor, and no zeros or low "
    "rank",
}
"""The claims without a verdict, by what each says of a problem's numbers."""


def _each(x: dict[str, dict], measured: Callable[[dict], str]) -> str:
    return ". ".join(f"{TITLES[name]}: {measured(n)}" for name, n in x.items())


def _near(ratio: float) -> bool:
    return 1 / FACTOR <= ratio <= FACTOR


def _steps(n: dict, key: str) -> str:
    steps = n[f"steps_{key}"]
    return f"more than {n[f'last_step_{key}']}" if steps is None else str(steps)


def _step_ratio(n: dict, name: str, key: str, other: str) -> float:
    return n[f"{name}_{key}"] / n[f"{name}_{other}"]


def _times(n: dict, *keys: str) -> str:
    """Milliseconds until 1e-6 on the rows, and on their moments where these were run."""

    def one(name: str) -> str:
        parts = (n[f"{name}_{key}"] for key in keys)
        return " against ".join("never" if t is None else f"{1e3 * t:.3g} ms" for t in parts)

    on_moments = f"seconds_on_moments_{keys[0]}" in n
    return one("seconds") + (f" (on moments {one('seconds_on_moments')})" if on_moments else "")

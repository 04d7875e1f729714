"""The paper's experiments by name, in its order."""

from collections.abc import Callable
from typing import NamedTuple

from masgrad.paper.experiment import Experiment, Report
from masgrad.paper.experiments.linear import linear_experiment
from masgrad.paper.experiments.logistic import logistic_experiment
from masgrad.paper.experiments.mixture import mixture_experiment
from masgrad.paper.experiments.network import network_experiment
from masgrad.paper.proximal.experiment import proximal_experiment


class Entry(NamedTuple):
    """An experiment that can be run.

    Args:
        run: (seed, quick, report) -> Experiment.
        parts: how often it calls `report`, in full; and `quick_parts`.
        headline: the numbers to print, with dots into nested ones.
    """

    run: Callable[[int, bool, Report], Experiment]
    parts: int
    quick_parts: int
    headline: tuple[str, ...]

    def length(self, quick: bool) -> int:
        return self.quick_parts if quick else self.parts


_MIXTURE = (
    "reached_masgrad", "reached_sgd", "median_step_masgrad", "median_step_sgd",
    "median_step_all_masgrad", "median_step_all_sgd",
)  # fmt: skip
_PROXIMAL = (
    "kappa_gd", "kappa_ratio", "kappa_ratio_diagonal", "kappa_ratio_of_rows",
    "theory_steps_madprox", "steps_madprox", "steps_diagonal", "steps_proximal_gradient",
    "steps_fista", "inner_steps_madprox", "seconds_madprox", "seconds_diagonal",
    "seconds_proximal_gradient", "seconds_fista",
)  # fmt: skip
_BASINS = (
    "polished_early_masgrad", "polished_early_sgd", "polished_late_masgrad", "polished_late_sgd",
    "late_masgrad", "late_sgd",
)  # fmt: skip
ENTRIES = {
    "linear": Entry(
        linear_experiment, 4, 4,
        (
            "condition_number", "kappa_masgrad", "slope_masgrad", "slope_sgd", "slope_ratio",
            "floor_masgrad", "floor_sgd", "floor_step_masgrad", "floor_step_sgd",
            "reject_share_masgrad", "reject_share_sgd", "reject_share_baseline",
        ),
    ),
    "logistic": Entry(
        logistic_experiment, 9, 9,
        (
            "stationary_step_masgrad", "stationary_step_sgd", "final_error_masgrad",
            "final_error_sgd", "slope_ratio", "reject_share_masgrad", "reject_share_sgd",
            "reject_share_baseline",
        ),
    ),
    "mixture": Entry(
        mixture_experiment, 8, 8,
        tuple(f"{case}.{key}" for case in ("easy", "hard") for key in _MIXTURE),
    ),
    "network": Entry(
        network_experiment, 12, 6,
        (
            "experiments", "wins", "wins_masgrad", "wins_by_half", "median_loss_diff_masgrad",
            "median_loss_masgrad", "median_loss_sgd", "dead_starts",
            *(f"basins.{key}_better" for key in _BASINS),
        ),
    ),
    "proximal": Entry(
        proximal_experiment, 14, 14,
        tuple(f"{problem}.{key}" for problem in ("lasso", "trace") for key in _PROXIMAL),
    ),
}  # fmt: skip

"""Numbers from the theorems, and the distances they are about.

regions        points over which extrema are taken: ball, path, segments
conditioning   alpha, gamma, and the condition numbers of MasGrad and gradient descent
acceleration   the constant C of kappa_MasGrad < C sqrt(kappa_GD)
planning       T, n, eta and beta of the convex and non-convex theorems; budget: the inverse;
                   bootstrap: batches from a table; baseline: what SGD needs
survey         all of that for a model and data
total_variation    Theorem 1's constant to leading order, from third_cumulants of the gradient
bounds         between a discretised and a continuous-time diffusion; smoothness: their constants
coupling       the same measured, on one Brownian path
invariant      where a process stays in continuous time: laws that are not Gaussian
distances      between samples; rates: how they fall with n
reach          rows n T to an accuracy, each method at its own best n and eta
"""

from masgrad.theory.acceleration import Acceleration, acceleration, well_specified
from masgrad.theory.baseline import SGDPlan, plan_sgd_nonconvex, sgd_step
from masgrad.theory.bootstrap import Bootstrap
from masgrad.theory.bounds import (
    TotalVariationRate,
    convex_expansion,
    entropy_bound,
    smooth_expansion,
    strongly_convex_expansion,
    tv_rate,
    wasserstein_bound,
)
from masgrad.theory.budget import RowsNeeded, convex_within, nonconvex_within, rows_for_width
from masgrad.theory.conditioning import Conditioning, Extremum, conditioning
from masgrad.theory.coupling import Coupled, coupled
from masgrad.theory.distances import (
    Closeness,
    closeness,
    energy,
    exact_wasserstein2,
    kolmogorov_smirnov,
    sliced_wasserstein2,
    wasserstein2,
)
from masgrad.theory.invariant import InvariantLaw, invariant_law, spherical_law
from masgrad.theory.planning import (
    ConvexPlan,
    NonConvexPlan,
    plan_convex,
    plan_nonconvex,
    prox_steps,
)
from masgrad.theory.rates import ClosenessRate, Power, closeness_rate
from masgrad.theory.reach import Reach, Setting, rows_to_reach
from masgrad.theory.regions import Segments, ball, path, segments
from masgrad.theory.smoothness import Smoothness, field_and_jacobian, smoothness
from masgrad.theory.survey import Survey, survey
from masgrad.theory.total_variation import TotalVariationConstant, tv_constant

__all__ = [
    "Acceleration",
    "Bootstrap",
    "Closeness",
    "ClosenessRate",
    "Conditioning",
    "ConvexPlan",
    "Coupled",
    "Extremum",
    "InvariantLaw",
    "NonConvexPlan",
    "Power",
    "Reach",
    "RowsNeeded",
    "SGDPlan",
    "Segments",
    "Setting",
    "Smoothness",
    "Survey",
    "TotalVariationConstant",
    "TotalVariationRate",
    "acceleration",
    "ball",
    "closeness",
    "closeness_rate",
    "conditioning",
    "convex_expansion",
    "convex_within",
    "coupled",
    "energy",
    "entropy_bound",
    "exact_wasserstein2",
    "field_and_jacobian",
    "invariant_law",
    "kolmogorov_smirnov",
    "nonconvex_within",
    "path",
    "plan_convex",
    "plan_nonconvex",
    "plan_sgd_nonconvex",
    "prox_steps",
    "rows_for_width",
    "rows_to_reach",
    "segments",
    "sgd_step",
    "sliced_wasserstein2",
    "smooth_expansion",
    "smoothness",
    "spherical_law",
    "strongly_convex_expansion",
    "survey",
    "tv_constant",
    "tv_rate",
    "wasserstein2",
    "wasserstein_bound",
    "well_specified",
]

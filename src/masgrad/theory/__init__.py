"""Numbers from the theorems, and the distances they are about.

curvature    alpha, gamma and the condition numbers of MasGrad and gradient descent over a region
                 (regions: ball, path, segments); the constant of the acceleration theorem
plans        T, n, eta and beta of the convex and non-convex theorems (planning), the inverse
                 (budget), batches from a table (bootstrap), SGD's (baseline), rows to an accuracy
                 at the best n and eta (reach); survey: all that they need, for a model and data
processes    a chain, its diffusion and the process in continuous time: bounds between two, with
                 their constants (smoothness), the same measured on one Brownian path (coupling),
                 Theorem 1's constant (total_variation), laws that are not Gaussian (invariant)
samples      distances between samples, and rates: how they fall with n
"""

from masgrad.theory.curvature.acceleration import Acceleration, acceleration, well_specified
from masgrad.theory.curvature.conditioning import Conditioning, Extremum, conditioning
from masgrad.theory.curvature.regions import Segments, ball, path, segments
from masgrad.theory.plans.baseline import SGDPlan, plan_sgd_nonconvex, sgd_step
from masgrad.theory.plans.bootstrap import Bootstrap
from masgrad.theory.plans.budget import RowsNeeded, convex_within, nonconvex_within, rows_for_width
from masgrad.theory.plans.planning import (
    ConvexPlan,
    NonConvexPlan,
    plan_convex,
    plan_nonconvex,
    prox_steps,
)
from masgrad.theory.plans.reach import Reach, Setting, rows_to_reach
from masgrad.theory.plans.survey import Survey, survey
from masgrad.theory.processes.bounds import (
    TotalVariationRate,
    convex_expansion,
    entropy_bound,
    smooth_expansion,
    strongly_convex_expansion,
    tv_rate,
    wasserstein_bound,
)
from masgrad.theory.processes.coupling import Coupled, coupled
from masgrad.theory.processes.invariant import InvariantLaw, invariant_law, spherical_law
from masgrad.theory.processes.smoothness import Smoothness, field_and_jacobian, smoothness
from masgrad.theory.processes.total_variation import TotalVariationConstant, tv_constant
from masgrad.theory.samples.distances import (
    Closeness,
    closeness,
    energy,
    exact_wasserstein2,
    kolmogorov_smirnov,
    sliced_wasserstein2,
    wasserstein2,
)
from masgrad.theory.samples.rates import ClosenessRate, Power, closeness_rate

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

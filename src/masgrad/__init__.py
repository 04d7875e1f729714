"""masgrad: statistical inference by moment-adjusted stochastic gradients.

Public names resolve on first use (PEP 562), so that `import masgrad` stays light; the types of
all of them are in `__init__.pyi`.
"""

import importlib

from masgrad.version import __version__

_HOMES = {
    "masgrad.models.glm": (
        "GLM",
        "Gamma",
        "InverseGaussian",
        "Linear",
        "Logistic",
        "NegativeBinomial",
        "Poisson",
        "Tweedie",
    ),
    "masgrad.penalties.separable": ("L1", "L2", "Box", "ElasticNet", "NonNegative"),
    "masgrad.penalties.structured": ("GroupLasso", "Nuclear"),
    "masgrad.models.mixture": ("GaussianMixture",),
    "masgrad.models.network": ("ReluNetwork",),
    "masgrad.models.trace": ("TraceRegression",),
    "masgrad.models.custom": ("CustomLoss",),
    "masgrad.data.simulate": ("Simulator",),
    "masgrad.covariance.moments": ("Moments", "moments"),
    "masgrad.covariance.choose": ("sample_root",),
    "masgrad.covariance.least_squares": ("LeastSquaresMoments",),
    "masgrad.covariance.rank_one": ("rank_one_inverse_root",),
    "masgrad.covariance.rotation": ("Rotation", "rotation"),
    "masgrad.covariance.self_normalised": ("SelfNormalised", "consistent_root", "self_normalised"),
    "masgrad.kernels.methods": (
        "adagrad",
        "madprox",
        "masgrad",
        "natural_gradient",
        "sgd",
        "sgld",
        "subgradient",
    ),
    "masgrad.kernels.momentum": ("fista", "nesterov"),
    "masgrad.kernels.diffusion": ("diffusion",),
    "masgrad.chains.run": ("run",),
    "masgrad.chains.resume": ("resume",),
    "masgrad.chains.trace": ("Summary", "Trace"),
    "masgrad.data.stream": ("Block", "Stream"),
    "masgrad.fitting.api": ("fit", "glm", "penalty_path", "load"),
    "masgrad.fitting.penalised.path": ("PenaltyPath",),
    "masgrad.fitting.results.result": ("Result",),
    "masgrad.fitting.status": ("Status",),
    "masgrad.modes.api": ("landscape",),
    "masgrad.modes.records": ("Landscape", "StationaryPoint"),
    "masgrad.models.symmetry": ("Exchangeable",),
    "masgrad.inference.law": ("Law",),
    "masgrad.inference.iterate": ("iterate_law",),
    "masgrad.inference.lyapunov": ("stationary_law",),
}
_NAMES = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("errors", "theory")

__all__ = ["__version__", *sorted(_NAMES), *_MODULES]  # pyright: ignore


def __getattr__(name: str):
    if name in _MODULES:
        return importlib.import_module(f"masgrad.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'masgrad' has no attribute {name!r}")
    value = getattr(importlib.import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

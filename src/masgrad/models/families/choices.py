"""Families and links by name."""

from masgrad.models.families.binary import Binary
from masgrad.models.families.canonical import Bernoulli, Gaussian, Poisson
from masgrad.models.families.positive import (
    Gamma,
    GaussianPositive,
    InverseGaussian,
    NegativeBinomial,
    PoissonPower,
    Tweedie,
)

ALIASES = {
    "normal": "gaussian",
    "binomial": "bernoulli",
    "inversegaussian": "inverse_gaussian",
    "negativebinomial": "negative_binomial",
    "negbinomial": "negative_binomial",
}

CANONICAL_FAMILIES = {"gaussian": Gaussian, "bernoulli": Bernoulli, "poisson": Poisson}

GENERAL_FAMILIES = {
    "gaussian": GaussianPositive,
    "bernoulli": Binary,
    "poisson": PoissonPower,
    "gamma": Gamma,
    "inverse_gaussian": InverseGaussian,
    "tweedie": Tweedie,
    "negative_binomial": NegativeBinomial,
}

LINKS: dict[str, tuple[str, ...]] = {
    "gaussian": ("identity", "log", "inverse"),
    "bernoulli": ("logit", "probit", "cloglog", "log", "identity"),
    "poisson": ("log", "identity", "sqrt"),
    "gamma": ("inverse", "log", "identity"),
    "inverse_gaussian": ("inverse_squared", "log", "inverse", "identity"),
    "tweedie": ("log", "identity", "inverse"),
    "negative_binomial": ("log", "identity", "inverse"),
}
"""The links of each family; the first is the default."""

PARAMETERS = {"tweedie": "power", "negative_binomial": "alpha"}

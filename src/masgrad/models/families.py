"""Families and links by name."""

import re

from masgrad.errors import InputError
from masgrad.models.binary import Binary
from masgrad.models.canonical import Bernoulli, Gaussian, Poisson
from masgrad.models.family import SHOWN_NAMES, Family
from masgrad.models.positive import (
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


def as_family(family: "Family | str", link: str | None = None) -> Family:
    """A family, or its name with its parameter, such as "tweedie(1.6)", and a link."""
    if isinstance(family, Family):
        return family if link is None else make_family(family.name, link, family.parameter)
    if not isinstance(family, str):
        raise InputError(f"family={family!r:.60}; a name is needed, such as 'poisson'")
    said = re.fullmatch(r"\s*([A-Za-z_ -]+?)\s*(?:\((.*)\))?\s*", family)
    name = re.sub(r"[ -]", "_", said[1].lower()) if said else family
    name = ALIASES.get(name, name)
    if name not in LINKS:
        known = ", ".join(sorted([*LINKS, "binomial"]))
        raise InputError(f"family={family!r} is not known; use one of {known}")
    return make_family(name, link, _number(family, said[2]) if said and said[2] else None)


def _number(family: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"family={family!r}: {text!r} is not a number; write it as in 'tweedie(1.5)'"
        ) from None


def make_family(name: str, link: str | None, parameter: float | None = None) -> Family:
    """The family with this name, link and parameter."""
    link = LINKS[name][0] if link is None else link
    shown = SHOWN_NAMES.get(name, name)
    if link not in LINKS[name]:
        known = ", ".join(LINKS[name])
        raise InputError(f"link={link!r} is not known for the {shown} family; use one of {known}")
    if parameter is None:
        given = {}
    elif name in PARAMETERS:
        given = {PARAMETERS[name]: parameter}
    else:
        raise InputError(f"the {shown} family has no parameter, and {parameter:g} was given")
    canonical = CANONICAL_FAMILIES.get(name)
    if canonical is not None and link == canonical().link:
        return canonical()
    return GENERAL_FAMILIES[name](link=link, **given)

"""The united parameters of several results, and the map to those of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from masgrad.errors import InputError
from masgrad.fitting.fitted import Fitted
from masgrad.fitting.merging.terms import map_to, united_terms

if TYPE_CHECKING:
    from masgrad.data.formula.terms import Terms


@dataclass(frozen=True)
class Layout:
    """United parameters theta, (p,).

    Args:
        names: of the parameters, or ().
        terms: of the formula, if there is one.
        maps: A_k with theta_k = A_k theta, (p_k, p), of each result.
    """

    names: tuple[str, ...]
    terms: "Terms | None"
    maps: tuple[np.ndarray, ...]

    @property
    def size(self) -> int:
        """p."""
        return self.maps[0].shape[1]


def layout_of(results: Sequence[Fitted]) -> Layout:
    """The parameters of all results, united by their names."""
    terms = [r.terms for r in results if r.terms is not None]
    if terms and len(terms) < len(results):
        raise InputError(
            "some of these results were fitted by a formula and others without one; fit all shards "
            "by the same formula"
        )
    if terms:
        both = united_terms(terms)
        return Layout(both.names, both, tuple(map_to(own, both) for own in terms))
    first = results[0]
    return Layout(first.names, None, tuple(_by_names(first, r, k) for k, r in enumerate(results)))


def _by_names(first: Fitted, other: Fitted, k: int) -> np.ndarray:
    """The map by names where there is no formula; by places where there are no names."""
    p = len(first.theta)
    if len(other.theta) != p:
        raise InputError(
            f"result 0 has {p} parameters and result {k} has {len(other.theta)}; give all shards "
            "the same columns, of 0 where a shard has none of them"
        )
    if not (first.names and other.names):
        return np.eye(p)
    lacking = [name for name in first.names if name not in other.names]
    if lacking:
        raise InputError(
            f"result 0 has the parameter {lacking[0]!r}, which result {k} has not; give all shards "
            "the same columns, of 0 where a shard has none of them"
        )
    return np.eye(p)[[first.names.index(name) for name in other.names]]

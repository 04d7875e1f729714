"""A block of a stream whose parts have names: responses, weights, offsets, keys of groups."""

from typing import Any, NamedTuple


class Block(NamedTuple):
    """One block of the rows of a stream.

    Args:
        X: the design (n, p); for other losses than regressions the rows themselves.
        y: responses, (n,); None for other losses.
        weights: (n,).
        offset: a known part of the linear predictor, (n,).
        clusters: the key of each row's cluster, (n,); several arrays in a list, or by name in a
            dictionary, for several groupings.
        time: the time of each row, (n,).
        unit: the unit of a panel to which each row belongs, (n,).

    Example:
        >>> import numpy as np, masgrad as mg
        >>> def blocks():
        ...     rng = np.random.default_rng(0)
        ...     for k in range(20):
        ...         X, firm = rng.normal(size=(500, 2)), rng.integers(100, size=500)
        ...         y = X @ [1.0, 2.0] + np.sin(firm) + rng.normal(size=500)
        ...         yield mg.Block(X, y, clusters=firm)
        >>> r = mg.fit(mg.Linear(), mg.Stream(blocks))
        >>> r.cov_type, r.df
        ('CR1', 99)
    """

    X: Any
    y: Any = None
    weights: Any = None
    offset: Any = None
    clusters: Any = None
    time: Any = None
    unit: Any = None

    @property
    def data(self) -> Any:
        """(X, y), or the rows of another loss."""
        return self.X if self.y is None else (self.X, self.y)

    @property
    def groups(self) -> dict[str, Any]:
        """What rows are grouped by, by role."""
        return {"clusters": self.clusters, "unit": self.unit, "time": self.time}

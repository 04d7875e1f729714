"""A design matrix of numbers and categories, in which categories stay codes.

A category of L levels is L columns of 0 and 1, of which each row has one that is not 0. So X'WX has
a diagonal block for every category, weighted cross tables between two of them, and weighted sums by
level beside the numbers (`group_sums`): p^2 products for each row become one or two additions.
Categories are summed two by two where their cross table is small (`pairs`).
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from masgrad.data.designs.group_sums import FEW_COLUMNS, sums, sums_of_rows, table
from masgrad.data.designs.pairs import Pair
from masgrad.data.designs.structured import Structured


class Group(NamedTuple):
    """Columns of which each row has at most one that is not 0.

    Args:
        start: the first of the columns.
        size: their number.
        codes: the column of each row, (n,), counted from `start`; `size` for none.
        value: what stands there, (n,), finite if there is no column; None for 1.
    """

    start: int
    size: int
    codes: np.ndarray
    value: np.ndarray | None = None

    @property
    def columns(self) -> slice:
        return slice(self.start, self.start + self.size)

    def weighted(self, w: np.ndarray) -> np.ndarray:
        """w times the values."""
        return w if self.value is None else w * self.value

    def chosen(self, rows: Any) -> "Group":
        value = None if self.value is None else self.value[rows]
        return self._replace(codes=self.codes[rows], value=value)


class CodedDesign(Structured):
    """Numbers and groups of columns.

    Args:
        numbers: columns that are written out, (n, q), best contiguous.
        at: their places among the columns of X, (q,).
        groups: the others.

    Example:
        >>> g = Group(1, 2, np.array([0, 2, 1]))
        >>> CodedDesign(np.ones((3, 1)), [0], [g]).dense()
        array([[1., 1., 0.],
               [1., 0., 0.],
               [1., 0., 1.]])
    """

    def __init__(
        self, numbers: np.ndarray, at: Sequence[int] | np.ndarray, groups: Sequence[Group]
    ):
        self.numbers, self.at, self.groups = numbers, np.asarray(at, np.intp), tuple(groups)
        self.shape = len(numbers), len(at) + sum(group.size for group in groups)
        self.gram_is_cheap = len(at) <= FEW_COLUMNS and len(groups) <= 2

    def dense(self) -> np.ndarray:
        X = np.zeros(self.shape)
        X[:, self.at] = self.numbers
        for group in self.groups:
            rows = np.flatnonzero(group.codes < group.size)
            value = 1.0 if group.value is None else group.value[rows]
            X[rows, group.start + group.codes[rows]] = value
        return X

    @cached_property
    def _pairs(self) -> list[tuple[Group, Group, Pair]]:
        """Groups without values, two by two, if their cross table has fewer cells than rows."""
        plain = [group for group in self.groups if group.value is None]
        pairs = zip(plain[::2], plain[1::2], strict=False)
        small = [(a, b) for a, b in pairs if (a.size + 1) * (b.size + 1) <= len(self)]
        return [(a, b, Pair.of(a.codes, a.size, b.codes, b.size)) for a, b in small]

    @cached_property
    def _alone(self) -> list[Group]:
        """The other groups."""
        paired = {group.start for a, b, _ in self._pairs for group in (a, b)}
        return [group for group in self.groups if group.start not in paired]

    @cached_property
    def _ones(self) -> int | None:
        """Which of the numbers is 1 in every row: the intercept."""
        return next((j for j, x in enumerate(self.numbers.T) if (x == 1.0).all()), None)

    def times(self, B: np.ndarray) -> np.ndarray:
        out = self.numbers @ B[self.at]
        pairs, alone = (self._pairs, self._alone) if B.ndim == 1 else ([], self.groups)
        for a, b, pair in pairs:
            out += pair.chosen(B[a.columns], B[b.columns])
        for group in alone:
            levels = np.concatenate([B[group.columns], np.zeros_like(B[:1])])
            part = levels.take(group.codes, 0, mode="clip")  # unlike an index it frees the GIL
            if group.value is not None:
                part = part * (group.value if B.ndim == 1 else group.value[:, None])
            out += part
        return out

    def left(self, A: np.ndarray) -> np.ndarray:
        out = np.empty((*A.shape[:-1], self.shape[1]))
        out[..., self.at] = A @ self.numbers
        if A.ndim == 1:
            for a, b, pair in self._pairs:
                out[a.columns], out[b.columns], _ = pair.sums(A)
            for group in self._alone:
                out[group.columns] = sums(group.codes, group.size, group.weighted(A))
            return out
        one = np.ones(len(self))
        for group in self.groups:
            codes, size = group.codes, group.size
            out[:, group.columns] = sums_of_rows(codes, size, group.weighted(one), A.T).T
        return out

    def gram(self, w: np.ndarray) -> np.ndarray:
        p, at = self.shape[1], self.at
        G, Z = np.zeros((p, p)), w * self.numbers.T
        G[np.ix_(at, at)] = Z @ self.numbers
        for a, b, pair in self._pairs:
            self._add_pair(G, a, b, pair, w, Z)
        for group in self._alone:
            columns, once = group.columns, group.weighted(w)
            beside = sums_of_rows(group.codes, group.size, once, self.numbers)
            G[columns, at], G[at, columns] = beside, beside.T
            _set_diagonal(G, group, sums(group.codes, group.size, group.weighted(once)))
        paired = {(a.start, b.start) for a, b, _ in self._pairs}
        for a, b in combinations(self.groups, 2):
            if (a.start, b.start) not in paired:
                both = b.weighted(a.weighted(w))
                _set_table(G, a, b, table(a.codes, a.size, b.codes, b.size, both))
        return G

    def _add_pair(
        self, G: np.ndarray, a: Group, b: Group, pair: Pair, w: np.ndarray, Z: np.ndarray
    ) -> None:
        """Fill in what two groups have with each other, with themselves and with the numbers."""
        of_a, of_b, both = own = pair.sums(w)
        _set_diagonal(G, a, of_a)
        _set_diagonal(G, b, of_b)
        _set_table(G, a, b, both)
        for j, z in zip(self.at, range(len(Z)), strict=True):
            beside = own if z == self._ones else pair.sums(Z[z])
            for group, column in zip((a, b), beside, strict=False):
                G[group.columns, j] = G[j, group.columns] = column

    def sums_by(self, codes: np.ndarray, size: int, w: np.ndarray) -> np.ndarray:
        """Weighted sums of the rows of each level of a category, (size, p)."""
        numbers = sums_of_rows(codes, size, w, self.numbers)
        if not self.groups:
            return numbers
        out = np.empty((size, self.shape[1]))
        out[:, self.at] = numbers
        for group in self.groups:
            both = group.weighted(w)
            out[:, group.columns] = table(codes, size, group.codes, group.size, both)
        return out

    def only(self, columns: np.ndarray) -> "CodedDesign":
        """Some of the columns, given in ascending order."""
        kept = np.flatnonzero(np.isin(self.at, columns))
        at = np.searchsorted(columns, self.at[kept])
        groups = [_part(group, columns) for group in self.groups]
        adjacent = len(kept) and len(kept) == kept[-1] - kept[0] + 1
        chosen = slice(kept[0], kept[-1] + 1) if adjacent else kept  # a view, if it can be one
        return CodedDesign(self.numbers[:, chosen], at, [g for g in groups if g.size])

    def largest(self, s: np.ndarray) -> np.ndarray:
        out, whole = np.empty(self.shape[1]), s.max(initial=0.0)
        for j, place in enumerate(self.at):
            out[place] = whole if j == self._ones else _largest(self.numbers[:, j] * s)
        for group in self.groups:
            out[group.columns] = whole if group.value is None else _largest(group.value * s)
        return out

    def row_peaks(self, centre: np.ndarray, scale: np.ndarray, unit: np.ndarray) -> np.ndarray:
        at = self.at
        peaks = np.square((self.numbers - centre[at]) / scale[at]) * unit[at]
        out = peaks.max(1, initial=0.0)
        for group in self.groups:
            c, s, u = (a[group.columns] for a in (centre, scale, unit))
            np.maximum(out, (np.square(c / s) * u).max(initial=0.0), out=out)
            if group.value is None:
                levels = np.append(np.square((1.0 - c) / s) * u, 0.0)
                part = levels.take(group.codes, mode="clip")
            else:
                c, s, u = (np.append(a, k).take(group.codes) for a, k in ((c, 0), (s, 1), (u, 0)))
                part = np.square((group.value - c) / s) * u
            np.maximum(out, part, out=out)
        return out

    def standardised(self, centre: np.ndarray, scale: np.ndarray) -> "CodedDesign":
        numbers = (self.numbers - centre[self.at]) / scale[self.at]
        return CodedDesign(numbers, self.at, [_over(group, scale) for group in self.groups])

    def power(self, k: int) -> "CodedDesign":
        values = (None if g.value is None else np.abs(g.value) ** k for g in self.groups)
        pairs = zip(self.groups, values, strict=True)
        groups = [group._replace(value=value) for group, value in pairs]
        return CodedDesign(np.abs(self.numbers) ** k, self.at, groups)

    @property
    def written(self) -> tuple[np.ndarray, np.ndarray]:
        return self.at, self.numbers

    def is_finite(self) -> bool:
        values = (group.value for group in self.groups if group.value is not None)
        return all(np.isfinite(a).all() for a in (self.numbers, *values))

    def chosen(self, rows: Any) -> "CodedDesign":
        groups = [group.chosen(rows) for group in self.groups]
        return CodedDesign(self.numbers.T[:, rows].T, self.at, groups)  # columns stay contiguous

    def followed_by(self, others: Sequence["CodedDesign"]) -> "CodedDesign":
        parts = (self, *others)
        groups = [_joined(of) for of in zip(*(part.groups for part in parts), strict=True)]
        numbers = np.concatenate([part.numbers.T for part in parts], axis=1).T
        return CodedDesign(numbers, self.at, groups)

    def column(self, j: int) -> np.ndarray:
        where = np.flatnonzero(self.at == j)
        return self.numbers[:, where[0]] if len(where) else super().column(j)


def _largest(z: np.ndarray) -> float:
    """The largest absolute value, and 0 of none."""
    return max(z.max(initial=0.0), -z.min(initial=0.0))


def _set_diagonal(G: np.ndarray, group: Group, values: np.ndarray) -> None:
    where = np.arange(group.start, group.start + group.size)
    G[where, where] = values


def _set_table(G: np.ndarray, a: Group, b: Group, values: np.ndarray) -> None:
    """The two blocks between two groups."""
    G[a.columns, b.columns], G[b.columns, a.columns] = values, values.T


def _part(group: Group, columns: np.ndarray) -> Group:
    """Some columns of the group; rows of the others have none."""
    start, stop = np.searchsorted(columns, [group.start, group.start + group.size])
    size = int(stop - start)
    if size in (0, group.size):
        return group._replace(start=int(start), size=size)
    codes = np.full(group.size + 1, size)
    codes[columns[start:stop] - group.start] = np.arange(size)
    return group._replace(start=int(start), size=size, codes=codes[group.codes])


def _over(group: Group, scale: np.ndarray) -> Group:
    """The group's columns over their scales."""
    each = np.append(1 / scale[group.columns], 0.0).take(group.codes, mode="clip")
    return group._replace(value=group.weighted(each))


def _joined(groups: Sequence[Group]) -> Group:
    """The same columns over the rows of several groups."""
    codes = np.concatenate([group.codes for group in groups])
    values = [group.value for group in groups if group.value is not None]
    assert len(values) in (0, len(groups))
    return groups[0]._replace(codes=codes, value=np.concatenate(values) if values else None)

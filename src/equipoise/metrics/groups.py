"""Which items are popular: rules that split a catalog, and means by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.checks import (
    check_choice,
    check_item_vector,
    check_share,
    check_user_items,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.results import FloatArray, GroupResult, IntArray
from equipoise.spectral.norms import column_norms

# rule -> default thresholds (top, bottom)
_DEFAULTS: dict[str, tuple[float, float | None]] = {
    "interactions": (0.1, 0.1),
    "items": (0.1, 0.1),
    "head80": (0.8, None),
}
POPULARITY_RULES = tuple(_DEFAULTS)
#: rule -> which popularity of `Interactions` it sorts by
POPULARITY_OF_RULE = {"interactions": "sum", "items": "norm", "head80": "count"}


@dataclass(frozen=True, eq=False)
class ItemGroups:
    """Which items belong to which group: a partition, or several groups per item, or none.

    Attributes
    ----------
    names : tuple of str
        Group names.
    membership : csr_array of shape (m, groups)
        How much each item counts in each group: 0 or 1, or shares of 1. It may be given as one
        group index per item instead.
    rule : str
        How the groups were made.

    Examples
    --------
    >>> groups = ItemGroups(("rock", "jazz"), [0, 1, 0])
    >>> groups.sizes, groups.items("rock").tolist()
    ({'rock': 2, 'jazz': 1}, [0, 2])
    >>> ItemGroups(("rock", "jazz"), [[1, 0], [1, 1], [0, 0]]).sizes
    {'rock': 2, 'jazz': 1}
    """

    names: tuple[str, ...]
    membership: Any
    rule: str = "given"

    def __post_init__(self) -> None:
        names = tuple(map(str, self.names))
        if len(set(names)) < len(names) or not names:
            raise InvalidDataError(f"group names must differ, at least one, got {names}.")
        S = self.membership
        if not (sp.issparse(S) or np.ndim(S) == 2):
            S = _from_codes(np.asarray(S), len(names))
        S = sp.csr_array(S, dtype=np.float64)
        S.sum_duplicates()
        S.eliminate_zeros()
        if S.shape[1] != len(names):
            raise InvalidDataError(
                f"membership must have one column for each of the {len(names)} group names, "
                f"got shape {S.shape}."
            )
        if S.nnz and not (np.all(np.isfinite(S.data)) and S.data.min() > 0):
            raise InvalidDataError("membership must be finite and at least 0.")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "membership", S)

    def __len__(self) -> int:
        return int(self.membership.shape[0])

    @property
    def codes(self) -> IntArray:
        """Index of each item's group; refused unless every item is in exactly one."""
        S = self.membership
        if not np.all(np.diff(S.indptr) == 1):
            raise InvalidDataError("each item must be in exactly one group for this.")
        return S.indices.astype(np.intp)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of items in each group."""
        counts = np.bincount(self.membership.indices, minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))

    def items(self, name: str) -> IntArray:
        """Item indices of one group, ascending."""
        check_choice("group", name, self.names)
        inside = self.membership.indices == self.names.index(name)
        return np.repeat(np.arange(len(self)), np.diff(self.membership.indptr))[inside]

    def take(self, items: IntArray) -> ItemGroups:
        """Return the groups of some items, in their order."""
        return ItemGroups(self.names, self.membership[items], self.rule)

    def sums(
        self, users: Any, items: Any, n_users: int, weights: FloatArray | None = None
    ) -> FloatArray:
        """Sum the weights of pairs of users and items, users × groups; weights are 1 by default."""
        values = np.ones(len(items)) if weights is None else weights
        pairs = sp.csr_array((values, (users, items)), shape=(n_users, len(self)))
        return np.asarray((pairs @ self.membership).toarray())


def _from_codes(codes: Any, n_groups: int) -> sp.csr_array:
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise InvalidDataError(
            f"codes must be one group index per item, got shape {codes.shape} "
            f"of dtype {codes.dtype}."
        )
    if len(codes) and (codes.min() < 0 or codes.max() >= n_groups):
        raise InvalidDataError(
            f"codes must lie between 0 and {n_groups - 1} "
            f"({n_groups} names), got {codes.min()} to {codes.max()}."
        )
    entries = (np.ones(len(codes)), codes.astype(np.intp), np.arange(len(codes) + 1))
    return sp.csr_array(entries, shape=(len(codes), n_groups))


def popularity_groups(
    popularity: Any,
    rule: str = "interactions",
    *,
    top: float | None = None,
    bottom: float | None = None,
) -> ItemGroups:
    """Split the items by popularity.

    Items are sorted by popularity, ties by smaller index first. Then

    - ``"interactions"`` (the published code): *popular* until ``top`` (10 %) of all interactions is
      covered, including the item that reaches it; *niche* after all but ``bottom`` (10 %) is
      covered; *medium* between. Popularity is the column sum: the number of interactions in 0/1
      data, the sum of their values otherwise.
    - ``"items"`` (the paper's text): *popular* are the first ``int(top · m)`` items, *niche* the
      last ``int(bottom · m)``. Popularity is the column norm.
    - ``"head80"`` (Elliot): *head* until ``top`` (80 %) of the interactions is covered, *tail*
      the rest. Popularity is the number of positive entries.

    Parameters
    ----------
    popularity : sparse matrix (n, m) or array-like of shape (m,)
        The users × items matrix, from which the rule takes its measure, or the measure itself.
    rule : {"interactions", "items", "head80"}
        See above.
    top, bottom : float, optional
        Thresholds in (0, 1).

    Examples
    --------
    Of 100 in all, the first item covers 10 %, and 90 % is covered after the fourth.

    >>> popularity_groups([50, 20, 12, 8, 6, 4]).sizes
    {'popular': 1, 'medium': 3, 'niche': 2}
    >>> popularity_groups([50, 20, 10, 5, 3, 2], rule="head80").items("head").tolist()
    [0, 1, 2]
    """
    check_choice("rule", rule, POPULARITY_RULES)
    measure = _measure(popularity, rule)
    order = np.argsort(-measure, kind="stable")
    upper, lower = _thresholds(rule, top, bottom)
    if rule == "items":
        head, tail = int(upper * len(measure)), len(measure) - int(lower * len(measure))
    else:
        head, tail = _covering(measure[order], upper), _covering(measure[order], 1 - lower)
    codes = np.empty(len(measure), dtype=np.intp)
    codes[order] = np.searchsorted([head, max(tail, head)], np.arange(len(measure)), side="right")
    if rule == "head80":
        return ItemGroups(("head", "tail"), np.minimum(codes, 1), f"head80({upper:g})")
    return ItemGroups(("popular", "medium", "niche"), codes, f"{rule}({upper:g}, {lower:g})")


def _measure(popularity: Any, rule: str) -> FloatArray:
    if sp.issparse(popularity) or np.ndim(popularity) == 2:
        X = check_user_items(popularity, "popularity")
        if rule == "interactions":
            measure = np.asarray(X.sum(axis=0, dtype=np.float64))
        elif rule == "items":
            measure = column_norms(X)
        else:
            measure = np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)
    else:
        measure = check_item_vector(popularity, None, "popularity")
    if not measure.any():
        raise InvalidDataError("popularity is zero for every item: there is nothing to sort by.")
    return measure


def _thresholds(rule: str, top: float | None, bottom: float | None) -> tuple[float, float]:
    default_top, default_bottom = _DEFAULTS[rule]
    upper = check_share(default_top if top is None else top, "top")
    if default_bottom is None:
        if bottom is not None:
            raise InvalidParameterError(
                f"rule {rule!r} has two groups and no bottom threshold: leave bottom out."
            )
        return upper, 1 - upper
    lower = check_share(default_bottom if bottom is None else bottom, "bottom")
    if upper + lower > 1:
        raise InvalidParameterError(
            f"top and bottom must not overlap: {upper:g} + {lower:g} is more than 1."
        )
    return upper, lower


def _covering(descending: FloatArray, share: float) -> int:
    """Return how many leading items it takes to cover a share of the total."""
    covered = np.cumsum(descending)
    # 0.9 · 10 may come out a bit above 9: without the slack an exact cover would be missed
    reached = covered >= share * covered[-1] * (1 - 1e-12)
    return int(np.argmax(reached)) + 1


def mean_by_group(
    values: ArrayLike, groups: ItemGroups, *, metric: str = "mean"
) -> GroupResult[Any]:
    """Mean of a per-item metric within each group; nan items are left out.

    Parameters
    ----------
    values : array-like of shape (m,) or (ranks, m)
        One value per item, e.g. from `item_auc`.
    groups : ItemGroups
        The partition.
    metric : str
        The name for the result.

    Examples
    --------
    >>> groups = ItemGroups(("popular", "niche"), [0, 0, 1, 1])
    >>> result = mean_by_group([0.9, 0.7, 0.6, float("nan")], groups, metric="item auc")
    >>> result.by_group["popular"], result.by_group["niche"], round(result.overall, 4)
    (0.8, 0.6, 0.7333)
    """
    per_item = np.asarray(values, dtype=np.float64)
    if per_item.ndim not in (1, 2) or per_item.shape[-1] != len(groups):
        raise InvalidDataError(
            f"values must have one entry for each of the {len(groups)} grouped items, "
            f"got shape {per_item.shape}."
        )
    by_group = {name: nan_mean(per_item[..., groups.items(name)]) for name in groups.names}
    return GroupResult(nan_mean(per_item), by_group, metric, f"item mean, groups: {groups.rule}")


def nan_mean(values: FloatArray) -> Any:
    """Mean over the last axis without its nan; nan, and no warning, where nothing is left."""
    known = ~np.isnan(values)
    mean = ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1))
    return float(mean) if np.ndim(mean) == 0 else mean


def ratio(part: ArrayLike, whole: ArrayLike) -> FloatArray:
    """Divide; nan where the divisor is not positive."""
    part, whole = np.broadcast_arrays(
        np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    )
    quotient = np.full(part.shape, np.nan)
    np.divide(part, whole, out=quotient, where=whole > 0)
    return quotient

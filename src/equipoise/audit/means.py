"""Weighted means of columns by group of items or users, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.intervals import Interval, bootstrap_sums
from equipoise.metrics.results import ALL

Floats = NDArray[np.float64]
Intervals = dict[str, dict[str, Interval]]  # of every metric, by group

# Percentiles of so many draws have an error of about a tenth of the interval's width.
RESAMPLES = 500
bootstrap = partial(bootstrap_sums, resamples=RESAMPLES)


def weighted_means(
    columns: Sequence[tuple[Floats, Floats]],
    members: sp.csr_array,
    seed: int,
    more: Callable[[Floats], Floats] | None = None,
) -> list[Interval]:
    """Bootstrap weighted means, column by column and in each of them group by group.

    Parameters
    ----------
    columns : sequence of (values, weights)
        One value and one weight per item or user; nan is left out.
    members : csr_array of shape (items or users, groups)
        How much each of them counts in each group.
    seed : int
        Same seed, same draws.
    more : callable, optional
        From means of shape (draws, columns, groups) to those with further columns.
    """
    sums_and_weights = [
        members.multiply(column[:, None])
        for values, weights in columns
        for column in (np.nan_to_num(values) * weights, ~np.isnan(values) * weights)
    ]

    def means(sums: Floats) -> Floats:
        pairs = sums.reshape(len(sums), len(columns), 2, -1)
        found = ratio(pairs[:, :, 0], pairs[:, :, 1])
        return (found if more is None else more(found)).reshape(len(sums), -1)

    return bootstrap(sp.csr_array(sp.hstack(sums_and_weights)), means, seed=seed)


def mean_intervals(
    columns: Sequence[Floats], seed: int, members: sp.csr_array | None = None
) -> list[Interval]:
    """Bootstrap the means of columns, by group if there are members; nan is left out."""
    ones = np.ones(len(columns[0]))
    groups = sp.csr_array(ones[:, None]) if members is None else members
    drawn = weighted_means([(column, ones) for column in columns], groups, seed)
    counts = np.concatenate([(~np.isnan(column)).astype(int) @ (groups > 0) for column in columns])
    return [replace(one, n_users=int(n)) for one, n in zip(drawn, counts, strict=True)]


def masks(
    groups: ItemGroups, items: NDArray[np.intp] | None = None
) -> dict[str, NDArray[np.bool_]]:
    """Return a mask of the items for all, and one for each group; `items` selects some of them."""
    codes = groups.codes if items is None else groups.codes[items]
    return {ALL: codes >= 0} | {name: codes == code for code, name in enumerate(groups.names)}


def named(
    values: Iterable[Interval], metrics: Sequence[str], groups: Sequence[str | None]
) -> Intervals:
    """Divide a flat list among metrics and groups; values of a group without a name are dropped.

    Examples
    --------
    >>> one, other = Interval(0.5, 0.4, 0.6), Interval(0.1, 0.0, 0.2)
    >>> named([one, other], ["recall"], ["niche", None]) == {"recall": {"niche": one}}
    True
    """
    found: Intervals = {metric: {} for metric in metrics}
    for (metric, group), value in zip(product(metrics, groups), values, strict=True):
        if group is not None:
            found[metric][group] = value
    return found

"""Bootstrap over users: intervals of means, and paired comparisons of two models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import check_share, check_whole_number
from equipoise.exceptions import InvalidDataError
from equipoise.memory import slices

DEFAULT_RESAMPLES = 10_000

# Users drawn at a time: 32 MB of indices.
_DRAWS_AT_ONCE = 2**22

# Counts that are kept for the next table of as many rows, one byte each; and how many columns of a
# table are dense at a time.
_MOST_KEPT, _COLUMNS_AT_ONCE = 2**25, 32


class Bootstrap(TypedDict, total=False):
    """Options of `bootstrap_mean` and `compare`."""

    confidence: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Interval:
    """A mean and its bootstrap interval.

    Attributes
    ----------
    mean, low, high : float
        The mean over users, and the percentiles (1 ± confidence) / 2; nan without an interval.
    confidence : float
        E.g. 0.95.
    n_users : int
        Users the mean is over; 0 if that is not known.
    """

    mean: float
    low: float
    high: float
    confidence: float = 0.95
    n_users: int = 0

    @property
    def error(self) -> float:
        """The standard error, from the width of the interval."""
        return (self.high - self.low) / (2 * NormalDist().inv_cdf((1 + self.confidence) / 2))

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean:.4f}"
        return f"{self.mean:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True)
class Comparison:
    """Two models on the same users.

    Attributes
    ----------
    first, second : float
        Their means over the users that both are defined for.
    difference : Interval
        Of first - second.
    p_value : float
        Two-sided, under "the models are equally good on average".
    """

    first: float
    second: float
    difference: Interval
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether the p-value is below 1 - confidence."""
        return self.p_value < 1 - self.difference.confidence

    def __str__(self) -> str:
        return (
            f"{self.first:.4f} against {self.second:.4f}: difference {self.difference}, "
            f"p = {self.p_value:.4f}"
        )


def bootstrap_mean(
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> Interval:
    """Confidence interval of a mean over users; nan users are left out.

    Parameters
    ----------
    values : array-like of shape (n,)
        One number per user, e.g. ``ndcg_at_k(...).per_user``.
    confidence : float
        In (0, 1).
    resamples : int
        How often n users are drawn with replacement.
    seed : int
        Same seed, same interval.

    Examples
    --------
    >>> bootstrap_mean([1.0, 1.0, 1.0]).low
    1.0
    """
    known = _per_user(values, "values")
    return _bootstrap(known[~np.isnan(known)], confidence, resamples, seed)[0]


def compare(
    first: ArrayLike,
    second: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Paired bootstrap between two models, by user.

    With d_u the difference for user u and d̄ its mean, users are drawn n at a time with
    replacement. The interval is that of the percentiles of the means d̄* of the draws, and

        p = (1 + #{b : |d̄*_b − d̄| ≥ |d̄|}) / (1 + B)

    where B is the number of draws: how often chance alone moves the mean as far as it lies from
    zero. Users that are nan in either model are left out.

    Parameters
    ----------
    first, second : array-like of shape (n,)
        One number per user, in the same order of users.
    confidence, resamples, seed
        As in `bootstrap_mean`.

    Examples
    --------
    Every user gains a tenth:

    >>> result = compare([0.5, 0.3, 0.9, 0.2], [0.4, 0.2, 0.8, 0.1])
    >>> round(result.difference.mean, 6), round(result.difference.low, 6), result.significant
    (0.1, 0.1, True)

    Gains and losses cancel:

    >>> compare([0.2, 0.4], [0.4, 0.2]).p_value
    1.0
    """
    a, b = _per_user(first, "first"), _per_user(second, "second")
    if a.shape != b.shape:
        raise InvalidDataError(
            f"first and second must have the same users, got {len(a)} and {len(b)} values."
        )
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    interval, means = _bootstrap(a - b, confidence, resamples, seed)
    # slack for rounding: the same users in another order may have another last bit
    distance = abs(interval.mean) * (1 - 1e-12)
    as_far = int(np.sum(np.abs(means - interval.mean) >= distance))
    p_value = (1 + as_far) / (1 + resamples)
    return Comparison(float(a.mean()), float(b.mean()), interval, p_value)


def bootstrap_sums(
    table: Any,
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """Confidence intervals of functions of column sums, e.g. ratios of them.

    Parameters
    ----------
    table : sparse or dense array of shape (n, columns)
        One row per user or item, which are drawn n at a time with replacement.
    statistic : callable
        From sums of shape (draws, columns) to values of shape (draws, values).
    confidence, resamples, seed
        As in `bootstrap_mean`.

    Examples
    --------
    Hits over held-out items, the same for every user:

    >>> (recall,) = bootstrap_sums([[1, 2], [2, 4]], lambda sums: sums[:, :1] / sums[:, 1:])
    >>> recall.mean, recall.low
    (0.5, 0.5)
    """
    check_share(confidence, "confidence")
    check_whole_number("resamples", resamples, 1)
    rows = sp.csr_array(table, dtype=np.float64)
    n = rows.shape[0]
    found = statistic(np.asarray(rows.sum(axis=0))[None])[0]
    if n < 2:
        return [Interval(float(v), float("nan"), float("nan"), confidence, n) for v in found]
    kept = n * resamples <= _MOST_KEPT
    draws = _kept_counts(n, resamples, seed) if kept else _counts(n, resamples, seed)
    columns = sp.csc_array(rows)
    drawn = [statistic(_sums(times.astype(np.float64), columns)) for times in draws]
    values = np.concatenate(drawn)
    limits = np.full((2, len(found)), np.nan)
    known = ~np.isnan(values).all(axis=0)
    values = values[:, known]
    quantile = np.nanquantile if np.isnan(values).any() else np.quantile  # far faster, same numbers
    limits[:, known] = quantile(values, _levels(confidence), axis=0)
    return [
        Interval(float(v), float(low), float(high), confidence, n)
        for v, low, high in zip(found, *limits, strict=True)
    ]


def _counts(n: int, resamples: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    """Yield how often each of n is drawn, (draws, n), some draws at a time."""
    rng = np.random.default_rng(seed)
    step = max(1, min(resamples, _DRAWS_AT_ONCE // n))
    for part in slices(resamples, step):
        draws = part.stop - part.start
        cells = rng.integers(n, size=(draws, n)) + n * np.arange(draws)[:, None]
        times = np.bincount(cells.ravel(), minlength=draws * n).reshape(draws, n)
        yield times.astype(np.uint8)  # 256 draws of one among more are impossible in practice


@lru_cache(maxsize=4)
def _kept_counts(n: int, resamples: int, seed: int) -> list[NDArray[np.uint8]]:
    """Keep `_counts`: an audit bootstraps many tables of the same users or items."""
    return list(_counts(n, resamples, seed))


def _sums(times: NDArray[np.float64], columns: sp.csc_array) -> NDArray[np.float64]:
    """Return the sums of the drawn rows; a dense product is ten times faster than a sparse one."""
    n = columns.shape[1]
    sums = np.empty((len(times), n))
    for part in slices(n, _COLUMNS_AT_ONCE):
        sums[:, part] = times @ columns[:, part].toarray()
    return sums


def _bootstrap(
    values: NDArray[np.float64], confidence: float, resamples: int, seed: int
) -> tuple[Interval, NDArray[np.float64]]:
    """Return the interval of a mean, and the means of all draws."""
    check_share(confidence, "confidence")
    check_whole_number("resamples", resamples, 1)
    n = len(values)
    if n < 2:
        raise InvalidDataError(
            f"a bootstrap by user needs at least two users with a value, got {n}."
        )
    rng, step = np.random.default_rng(seed), max(1, _DRAWS_AT_ONCE // n)
    means = np.empty(resamples)
    for part in slices(resamples, step):
        drawn = rng.integers(n, size=(part.stop - part.start, n), dtype=np.int32)
        means[part] = values[drawn].mean(axis=1)
    low, high = np.quantile(means, _levels(confidence))
    return Interval(float(values.mean()), float(low), float(high), confidence, n), means


def _levels(confidence: float) -> list[float]:
    return [(1 - confidence) / 2, (1 + confidence) / 2]


def _per_user(values: ArrayLike, name: str) -> NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InvalidDataError(f"{name} must be one number per user, got shape {vector.shape}.")
    return vector

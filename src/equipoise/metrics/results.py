"""What a metric returns: a number that knows its name and its convention, whole or by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.exceptions import InvalidParameterError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

# One number, or one number per rank of the model.
Value = TypeVar("Value", float, FloatArray)


@dataclass(frozen=True)
class MetricResult:
    """One metric over all users.

    Attributes
    ----------
    metric : str
        The name, e.g. ``"ndcg"``.
    value : float
        The mean over users (or the pooled value, where the convention says so).
    convention : str
        Which of the definitions in use was computed.
    k : int or None
        Length of the lists it was computed at.
    per_user : ndarray or None
        One value per user, nan for a user the metric is not defined for.

    Examples
    --------
    >>> recall = MetricResult("recall", 0.5625, "standard", k=3)
    >>> recall.name, float(recall)
    ('recall@3', 0.5625)
    """

    metric: str
    value: float
    convention: str
    k: int | None = None
    per_user: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The metric and its cut-off, e.g. ``recall@20``."""
        return self.metric if self.k is None else f"{self.metric}@{self.k}"

    def __float__(self) -> float:
        return self.value

    def row(self) -> dict[str, str | int | float | None]:
        """Return one row of a tidy table: metric, k, convention, value."""
        return {
            "metric": self.metric,
            "k": self.k,
            "convention": self.convention,
            "value": self.value,
        }


@dataclass(frozen=True)
class MetricTable:
    """Several metrics computed in one pass, found by name: ``table["recall@20"]``."""

    results: tuple[MetricResult, ...]

    def __getitem__(self, name: str) -> MetricResult:
        for result in self.results:
            if result.name == name:
                return result
        names = ", ".join(result.name for result in self.results)
        raise InvalidParameterError(f"No metric {name!r} in this table. It has: {names}.")

    def __iter__(self) -> Iterator[MetricResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def rows(self) -> list[dict[str, str | int | float | None]]:
        """Return the tidy table, one row per metric and k."""
        return [result.row() for result in self.results]


@dataclass(frozen=True)
class GroupResult(Generic[Value]):
    """A metric by group, in Fairlearn's words.

    Attributes
    ----------
    overall : float or ndarray
        The metric over everything, not the mean of the groups.
    by_group : mapping of str to float or ndarray
        The metric within each group; nan where a group has nothing to measure.
    difference : float or ndarray
        Largest minus smallest group value; groups that are nan are left out.
    ratio : float or ndarray
        Smallest over largest group value; nan where the largest is 0.
    metric, convention : str
        What was computed, and by which definition.

    Examples
    --------
    >>> result = GroupResult(0.5, {"high": 0.8, "low": 0.2}, "recall", "pooled")
    >>> round(result.difference, 3), result.ratio
    (0.6, 0.25)
    """

    overall: Value
    by_group: Mapping[str, Value]
    metric: str
    convention: str
    difference: Value = field(init=False)
    ratio: Value = field(init=False)

    def __post_init__(self) -> None:
        values = np.stack([np.asarray(value, dtype=float) for value in self.by_group.values()])
        # fmax and fmin skip nan without the warning that nanmax gives when all are nan
        highest, lowest = np.fmax.reduce(values), np.fmin.reduce(values)
        ratio = np.divide(lowest, highest, out=np.full_like(highest, np.nan), where=highest != 0)
        object.__setattr__(self, "difference", _plain(highest - lowest))
        object.__setattr__(self, "ratio", _plain(ratio))


def _plain(value: FloatArray) -> float | FloatArray:
    """Turn an array without axes into a float, so that scalars stay scalars."""
    return float(value) if np.ndim(value) == 0 else value

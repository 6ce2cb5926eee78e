"""What a table of interactions looks like, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class MinMedianMax(NamedTuple):
    """Smallest, middle and largest of some counts."""

    min: int
    median: float
    max: int

    def __str__(self) -> str:
        """Return e.g. ``'1 / 4.5 / 20'``."""
        return f"{self.min:,} / {self.median:,g} / {self.max:,}"


@dataclass(frozen=True, slots=True)
class Description:
    """Counts of a users × items table; print it to read it.

    Attributes
    ----------
    n_users, n_items, n_interactions : int
    density : float
        n_interactions / (n_users · n_items).
    items_per_user, users_per_item : MinMedianMax
        Minimum, median and maximum.
    popularity_deciles : tuple of 10 floats
        Share of all interactions held by each tenth of the items, most popular first.
    has_timestamps, has_names : bool
    """

    n_users: int
    n_items: int
    n_interactions: int
    density: float
    items_per_user: MinMedianMax
    users_per_item: MinMedianMax
    popularity_deciles: tuple[float, ...]
    has_timestamps: bool
    has_names: bool

    def facts(self) -> dict[str, str]:
        """Return the numbers as text, by name."""
        deciles = " ".join(f"{share:.1%}" for share in self.popularity_deciles)
        extras = ["timestamps"] * self.has_timestamps + ["names"] * self.has_names
        return {
            "users": f"{self.n_users:,}",
            "items": f"{self.n_items:,}",
            "interactions": f"{self.n_interactions:,} (density {self.density:.3%})",
            "items per user": f"{self.items_per_user} (min / median / max)",
            "users per item": f"{self.users_per_item} (min / median / max)",
            "share by tenth": f"{deciles} (of items, most popular first)",
            "also has": ", ".join(extras) or "neither timestamps nor names",
        }

    def __str__(self) -> str:
        """Return the numbers as aligned lines."""
        return "\n".join(f"{name:<17}{text}" for name, text in self.facts().items())


def describe(
    items_per_user: NDArray[np.integer],
    users_per_item: NDArray[np.integer],
    *,
    has_timestamps: bool,
    has_names: bool,
) -> Description:
    """Summarize a table by the counts of its rows and columns.

    Examples
    --------
    >>> counts = np.array([2, 1])
    >>> summary = describe(counts, counts, has_timestamps=False, has_names=False)
    >>> summary.users_per_item, summary.popularity_deciles[0]
    (MinMedianMax(min=1, median=1.5, max=2), 0.6666666666666666)
    """
    n, m, nnz = len(items_per_user), len(users_per_item), int(users_per_item.sum())
    return Description(
        n_users=n,
        n_items=m,
        n_interactions=nnz,
        density=nnz / (n * m),
        items_per_user=_min_median_max(items_per_user),
        users_per_item=_min_median_max(users_per_item),
        popularity_deciles=_shares_by_tenth(users_per_item),
        has_timestamps=has_timestamps,
        has_names=has_names,
    )


def _min_median_max(counts: NDArray[np.integer]) -> MinMedianMax:
    return MinMedianMax(int(counts.min()), float(np.median(counts)), int(counts.max()))


def _shares_by_tenth(counts: NDArray[np.integer]) -> tuple[float, ...]:
    tenths = np.array_split(np.sort(counts)[::-1], 10)
    total = max(int(counts.sum()), 1)
    return tuple(float(tenth.sum() / total) for tenth in tenths)

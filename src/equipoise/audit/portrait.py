"""The data before any model: size, density, and how unequal the items are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import Floats, Group, Portrait
from equipoise.audit.plan import Study
from equipoise.metrics import gini

# Points of the popularity curve at most: more would not be seen.
_POINTS = 201


def portrait_of(study: Study, source: str) -> Portrait:
    """Describe the data as they are audited."""
    data = study.data
    mass = data.popularity("sum")
    descending = np.sort(mass)[::-1]
    curve = popularity_curve(descending)
    head = max(1, round(0.1 * data.n_items))
    return Portrait(
        source=source,
        n_users=data.n_users,
        n_items=data.n_items,
        n_interactions=data.nnz,
        density=data.density,
        gini=gini(mass).value,
        head_share=float(descending[:head].sum() / descending.sum()),
        popularity_curve=curve,
        groups=_groups(study),
    )


def popularity_curve(descending: NDArray[np.float64]) -> Floats:
    """Share of the items, most popular first, against their share of the mass.

    Examples
    --------
    >>> popularity_curve(np.array([3.0, 1.0])).tolist()
    [[0.0, 0.0], [0.5, 0.75], [1.0, 1.0]]
    """
    n_items = len(descending)
    covered = np.append(0.0, np.cumsum(descending))
    places = np.unique(np.linspace(0, n_items, min(_POINTS, n_items + 1)).round().astype(int))
    return np.column_stack([places / n_items, covered[places] / covered[-1]])


def _groups(study: Study) -> tuple[Group, ...]:
    mass = study.fitted.popularity("sum")
    total = mass.sum()
    return tuple(
        Group(name, len(members), float(mass[members].sum() / total))
        for name in study.groups.names
        for members in [study.groups.items(name)]
    )

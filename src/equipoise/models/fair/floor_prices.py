"""What a floor costs: the objective that is left, for each group and each floor up to its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.models.fair.group_pca import Goal
from equipoise.models.fair.max_min_pca import MaxMinItemWeightedPCA
from equipoise.progress import Progress, task
from equipoise.spectral.groups.families import ItemFamily
from equipoise.spectral.groups.minmax import ky_fan_bound
from equipoise.spectral.lapack import Eigenpairs

# The last floor tried, relative to the limit: beyond, only directions of this group are left in the
# projection. Nobody needs a share above 1, which an approximation that overshoots has.
_LAST = 0.98

# Largest gap of a fit: prices are read to three digits.
_TOL = 1e-4


@dataclass(frozen=True)
class FloorPrice:
    """The price of a floor for one group of items.

    Attributes
    ----------
    group : str
        Its name.
    share : float
        Its retained share without a floor.
    limit : float
        No projection of this rank gives the group more.
    floors : tuple of float
        From `share` up to nearly `limit`.
    kept : tuple of float
        The objective at each floor, relative to that without a floor: 1 at the first.
    """

    group: str
    share: float
    limit: float
    floors: tuple[float, ...]
    kept: tuple[float, ...]


def price_of_floors(
    interactions: Interactions,
    groups: Groups,
    n_components: int = 32,
    *,
    gamma: float = -1.0,
    points: int = 5,
    worst: int | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[FloorPrice, ...]:
    """Return the price of a floor for each group, one group at a time.

    Each point is the optimum of `MaxMinItemWeightedPCA` with a floor for this group only. All of
    them share the data and the components without a floor.

    Parameters
    ----------
    interactions : Interactions
        The data.
    groups : Groups
        Of items.
    n_components : int
        The rank.
    gamma : float
        γ of the objective.
    points : int
        Floors per group, the share without a floor included.
    worst : int, optional
        Price only so many groups, those with the smallest shares; all by default.
    settings : mapping of str to value, optional
        Other parameters of `MaxMinItemWeightedPCA`, e.g. ``{"value_transform": "binary"}``.
    progress : Progress, optional
        One step per group.

    Examples
    --------
    >>> from equipoise.data.synthetic import listening
    >>> plays = listening(n_users=200, n_items=60)
    >>> prices = price_of_floors(plays, Groups.by_popularity(plays, 3), 4, points=3)
    >>> all(price.share <= price.limit and price.kept[0] == 1 for price in prices)
    True
    """
    check_whole_number("points", points, least=2)
    options = {"tol": _TOL, **(settings or {})}
    model = MaxMinItemWeightedPCA(
        n_components, groups=groups, floors=0.0, base_gamma=gamma, **options
    )
    model._validate_params()
    items = model._item_shares(model._accept(interactions), fits=4 * groups.n_groups)
    solver = model._eigen_solver(items.gram)
    S = np.column_stack([model._objective(model.item_norms_**2), items.weights])
    family = ItemFamily(items.gram, S)  # the objective, and the share of every group

    def best_for(place: int) -> Eigenpairs:
        operator = family.operator(np.eye(family.k)[place])
        return solver(operator, n_components, np.sqrt(model.tol) / 100)  # errors are its square

    free = best_for(0)
    utilities = family.compress(free.vectors, family.image(free.vectors))
    objective, *shares = np.trace(utilities, axis1=1, axis2=2).tolist()
    order = np.argsort(shares, kind="stable") if worst else np.arange(groups.n_groups)
    prices = []
    with task(progress, "Prices of floors", len(order[:worst])) as pricing:
        for place in order[:worst].tolist():
            name = groups.names[place]
            pricing.note(name)
            alone = best_for(place + 1)
            both = ItemFamily(items.gram, S[:, [0, place + 1]])
            limit = ky_fan_bound(alone, n_components)
            share = min(shares[place], limit)
            floors = np.linspace(share, max(share, _LAST * min(limit, 1.0)), points).tolist()
            kept, near = [1.0], free.vectors
            for floor in floors[1:]:
                goal = Goal(both, np.eye(2), np.array([0.0, -floor]), ("objective", name))
                found = model._maximize(goal, solver, np.hstack([near, alone.vectors]))
                kept.append(found.value / objective)
                near = found.vectors
            prices.append(FloorPrice(name, share, limit, tuple(floors), tuple(kept)))
            pricing.advance()
    return tuple(prices)

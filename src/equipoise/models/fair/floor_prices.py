"""What a floor costs: the objective that is left, for each group and each floor up to its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.models.fair.group_pca import GroupCertificate
from equipoise.models.fair.max_min_pca import MaxMinItemWeightedPCA
from equipoise.progress import Progress, task

# The last floor tried: beyond, only directions of this group are left in the projection.
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
        No projection of this rank gives the group more; proven as `certificate_.how` states.
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

    Each point is an exact fit of `MaxMinItemWeightedPCA` with a floor for this group only.

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

    def certify(group: Groups, floors: float | None) -> GroupCertificate:
        gamma_of = None if floors is None else gamma
        model = MaxMinItemWeightedPCA(
            n_components,
            groups=group,
            floors=floors,
            base_gamma=gamma_of,
            **{"tol": _TOL, **(settings or {})},
        )
        certificate: GroupCertificate = model.fit(interactions).certificate_
        return certificate

    free = certify(groups, 0.0)
    shares = dict(zip(free.names[1:], free.values[1:], strict=True))
    wanted = sorted(groups.names, key=shares.__getitem__)[:worst] if worst else groups.names
    prices = []
    with task(progress, "Prices of floors", len(wanted)) as pricing:
        for name in wanted:
            pricing.note(name)
            own = groups.select([name])
            limit = certify(own, None).dual_bound
            share = min(shares[name], limit)
            floors = np.linspace(share, max(share, _LAST * limit), points).tolist()
            kept = [certify(own, floor).objective / free.objective for floor in floors[1:]]
            prices.append(FloorPrice(name, share, limit, tuple(floors), (1.0, *kept)))
            pricing.advance()
    return tuple(prices)

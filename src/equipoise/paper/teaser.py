"""What Figure 1 is made of: PCA of the whole LastFM matrix at every rank, item by item."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import SolverWarning
from equipoise.metrics import (
    components_to_reach,
    diagonal_by_group,
    item_error,
    popularity_groups,
    projection_diagonal,
)
from equipoise.models import VanillaPCA
from equipoise.paper.protocol import GROUPS

Floats = NDArray[np.float64]

#: the one artist that the text names; the other seven are chosen by their place in popularity
NAMED_ARTIST = "Claudia Leitte"
_PLACES = (1, 3, 10, 30, 100, 300, 900)

_SHARE = 0.1
_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Teaser:
    """PCA of one matrix at every rank r = 0, …, m.

    Attributes
    ----------
    popularity : ndarray of shape (m,)
        p_j = ‖X_·j‖₂.
    halving : ndarray of shape (m,)
        Components until the item's error is at most half of what it was.
    artists : dict of str to ndarray of shape (m + 1,)
        Normalized item error of eight artists at every rank.
    overall : ndarray of shape (m + 1,)
        ‖X − XP_r‖² / ‖X‖².
    spectrum : ndarray of shape (m,)
        σ_i² / ‖X‖².
    uneven : float
        Share of items whose error does *not* fall with diminishing returns.
    diagonal : dict of str to dict of str to ndarray of shape (m + 1,)
        Rule of the groups -> group -> mean diagonal entry of P_r.
    """

    popularity: Floats
    halving: Floats
    artists: dict[str, Floats]
    overall: Floats
    spectrum: Floats
    uneven: float
    diagonal: dict[str, dict[str, Floats]]

    @property
    def by_popularity(self) -> NDArray[np.intp]:
        """Items, most popular first."""
        return np.argsort(-self.popularity, kind="stable")

    def mean_halving(self, part: Literal["top", "bottom", "not top"]) -> float:
        """Mean components to halve the error over tenths of the items by norm."""
        tenth = int(_SHARE * len(self.popularity))
        places = {"top": slice(tenth), "bottom": slice(-tenth, None), "not top": slice(tenth, None)}
        return float(self.halving[self.by_popularity[places[part]]].mean())

    def components_below(self, artist: str, error: float) -> int:
        """The first rank at which an artist's error is below a bound."""
        return int(np.argmax(self.artists[artist] < error))


def measure_teaser(data: Interactions) -> Teaser:
    """Fit PCA at full rank once; everything else is running sums."""
    X = data.matrix
    with warnings.catch_warnings():  # at full rank, fewer positive eigenvalues are no surprise
        warnings.simplefilter("ignore", SolverWarning)
        model = VanillaPCA(n_components=data.n_items, solver="dense", tol=_TOLERANCE).fit(X)
    U = model.components_.T
    errors = item_error(X, U)
    popularity = data.popularity("norm")
    total = popularity**2
    diagonal = projection_diagonal(U)
    groups = {rule: popularity_groups(X, rule) for rule in ("mass", "items")}
    return Teaser(
        popularity=popularity,
        halving=components_to_reach(errors, 0.5),
        artists={name: errors[:, j] for name, j in _eight(data, popularity).items()},
        overall=errors @ total / total.sum(),
        spectrum=model.eigenvalues_ / total.sum(),
        uneven=_share_uneven(errors),
        diagonal={
            rule: {g: diagonal_by_group(diagonal, chosen).by_group[g] for g in GROUPS}
            for rule, chosen in groups.items()
        },
    )


def _eight(data: Interactions, popularity: Floats) -> dict[str, int]:
    """Seven artists from hit to niche, and the one of the text where the data have her."""
    order = np.argsort(-popularity, kind="stable")
    names: NDArray[Any] = data.item_ids if data.item_names is None else data.item_names
    chosen = [int(order[place - 1]) for place in _PLACES if place <= len(order)]
    chosen += np.flatnonzero(names == NAMED_ARTIST)[:1].tolist()
    return {str(names[j]): j for j in chosen}


def _share_uneven(errors: Floats) -> float:
    """Share of items with a component that helps more than the one before it."""
    gains = -np.diff(errors, axis=0)
    # a gain that differs in the twelfth digit is rounding
    return float(np.mean(np.any(np.diff(gains, axis=0) > 1e-9, axis=0)))

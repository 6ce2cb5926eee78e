"""What an audit found: one typed summary that the page, Markdown and JSON all say.

Axes, everywhere: *variant* is one fitted model (Item-Weighted PCA at each γ is a variant of its
own), *rank* the number of leading components that are used, *item* a column of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Kind = Literal["pca", "normalized", "item-weighted", "factors", "scores"]


@dataclass(frozen=True)
class Group:
    """Items of similar popularity, from the most popular group to the least.

    Attributes
    ----------
    name : str
        popular, medium or niche.
    n_items : int
        How many items.
    mass : float
        Their share of the sum of all values.
    """

    name: str
    n_items: int
    mass: float


@dataclass(frozen=True)
class Portrait:
    """The data, before any model.

    Attributes
    ----------
    source : str
        What was read, as the user named it.
    n_users, n_items, n_interactions : int
        Size.
    density : float
        Share of the cells that are filled.
    gini : float
        Of the items' popularity: 0 all equal, 1 one item has everything.
    head_share : float
        Share of the mass that the most popular tenth of the items has.
    popularity_curve : ndarray of shape (points, 2)
        Share of the items (most popular first) against their share of the mass.
    groups : tuple of Group
        By popularity, popular first.
    """

    source: str
    n_users: int
    n_items: int
    n_interactions: int
    density: float
    gini: float
    head_share: float
    popularity_curve: Floats
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Settings:
    """What was asked for, and what was decided for the user.

    Attributes
    ----------
    rank : int
        The rank that the headline, tables and neighbours speak of.
    rank_chosen_by : str
        "given" or how it was chosen, in words.
    gamma : float
        The γ that they speak of.
    k : int
        Length of the recommended lists.
    groups : str
        The rule: mass or items.
    seed : int
        Of the hold-out and of every sample.
    notes : tuple of str
        Every sample, limit and preparation, in words.
    """

    rank: int
    rank_chosen_by: str
    gamma: float
    k: int
    groups: str
    seed: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class OwnedComponent:
    """A component (counted from 0) that one item has for itself: its weight there is above ½.

    The weight is the item's share of the component's squared length; `item` is a position in
    `Items`.
    """

    component: int
    item: int
    weight: float


@dataclass(frozen=True)
class Variant:
    """One fitted model, measured at every rank of `ranks`.

    Attributes
    ----------
    key : str
        Identifier, e.g. "pca", "item-weighted:-1", "factors:0".
    label : str
        What people call it, e.g. "Item-Weighted PCA", "als.npz". Not trusted: may be a path.
    kind : str
        What it is; a full item × item matrix ("scores") has one rank, the number of items.
    gamma : float or None
        γ of an Item-Weighted PCA.
    ranks : tuple of int
        In rising order; what the arrays below are measured at. Common to all variants but where a
        file holds fewer factors.
    specialization : ndarray of shape (ranks,)
        Mean of the largest tenth of the projector's diagonal.
    diagonal, error, auc, precision : dict of group to ndarray of shape (ranks,)
        Means over the items of a group, and "all". NaN where not defined.
    halving : dict of group to float
        Mean number of components until an item's error is halved; see `halving_by_item`.
    accuracy : dict of metric to ndarray of shape (ranks,)
        On the hold-out: recall, ndcg, precision, mrr at `Settings.k`, and popularity metrics of
        the lists: arp, aplt, coverage, gini.
    owned : tuple of OwnedComponent
        Components at `Settings.rank` that one item owns, most popular item first.
    diagonal_by_item, error_by_item : ndarray of shape (ranks, items)
        The same for each item of `Items`.
    auc_by_item : ndarray of shape (items,)
        In-sample AUC at `Settings.rank`; NaN for items not in the sample.
    halving_by_item : ndarray of shape (items,)
        Components until the error is halved; inf where those that were looked at do not suffice.
    neighbours : ndarray of int, shape (items, neighbours)
        Positions in `Items` (−1: none) of the nearest items at `Settings.rank`, nearest first.
    depth : int
        How many components were looked at: what `halving` counts up to.
    not_halved : dict of group to int
        Items whose error all of them do not halve. They count as `depth` in `halving`, which is
        then a lower bound.
    """

    key: str
    label: str
    kind: Kind
    gamma: float | None
    ranks: tuple[int, ...]
    specialization: Floats
    diagonal: Mapping[str, Floats]
    error: Mapping[str, Floats]
    auc: Mapping[str, Floats]
    precision: Mapping[str, Floats]
    halving: Mapping[str, float]
    accuracy: Mapping[str, Floats]
    owned: tuple[OwnedComponent, ...]
    diagonal_by_item: Floats
    error_by_item: Floats
    auc_by_item: Floats
    halving_by_item: Floats
    neighbours: NDArray[np.int32]
    depth: int = 0
    not_halved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Items:
    """The items that the report shows one by one: all, or a stated sample with all extremes.

    Attributes
    ----------
    ids, names : ndarray of shape (items,)
        As the data call them. Not trusted.
    columns : ndarray of int
        Their columns in the data.
    popularity : ndarray of float
        p_j, the norm of the item's column in what the models were fitted on.
    n_users : ndarray of int
        Who touched the item, held-out interactions included.
    group : ndarray of int
        Position in `Portrait.groups`.
    """

    ids: NDArray[Any]
    names: NDArray[Any]
    columns: NDArray[np.int64]
    popularity: Floats
    n_users: NDArray[np.int64]
    group: NDArray[np.int8]


@dataclass(frozen=True)
class Recommendation:
    """One recommended item and the items of the user that speak for it most."""

    item: int
    score: float
    because: tuple[int, ...]


@dataclass(frozen=True)
class UserView:
    """One user: history, what was held out, and what each variant recommends.

    Items are positions in `Items`. `recommended` maps the keys of the variants at
    `Settings.gamma` to their lists, best first.
    """

    user: str
    history: tuple[int, ...]
    held_out: tuple[int, ...]
    recommended: Mapping[str, tuple[Recommendation, ...]]


@dataclass(frozen=True)
class Headline:
    """One of the three numbers that matter: the number as text, and what it says."""

    number: str
    says: str


@dataclass(frozen=True)
class Advice:
    """The setting that is recommended, and the calls that apply it."""

    gamma: float
    rank: int
    python: str
    command: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """What it all means, in plain words."""

    headlines: tuple[Headline, Headline, Headline]
    sentences: tuple[str, ...]
    advice: Advice


@dataclass(frozen=True)
class Findings:
    """Everything that an audit found.

    Attributes
    ----------
    portrait : Portrait
        The data.
    settings : Settings
        Rank, γ, k, and every sample that was taken.
    variants : tuple of Variant
        PCA, Normalized PCA, Item-Weighted PCA at every γ of the slider, then files of factors.
    items : Items
        What the report shows one by one.
    users : tuple of UserView
        A few users, drawn at random.
    verdict : Verdict
        In words.
    version : str
        Of equipoise.
    """

    portrait: Portrait
    settings: Settings
    variants: tuple[Variant, ...]
    items: Items
    users: tuple[UserView, ...]
    verdict: Verdict
    version: str

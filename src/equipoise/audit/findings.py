"""What an audit found: one typed summary that the page, Markdown and JSON render.

A *variant* is one model with one setting: Item-Weighted PCA at each exponent γ is a separate
variant. A *size* is the number of leading components in use. An *item* is a column of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.metrics import Results

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Items of similar popularity.

    Attributes
    ----------
    name : str
        popular, medium or niche.
    n_items : int
        Number of items.
    share : float
        Their share of the interactions: of the sum of all values.
    """

    name: str
    n_items: int
    share: float


@dataclass(frozen=True, eq=False)
class DataSummary:
    """The data, before any model.

    Attributes
    ----------
    source : str
        Name of the data, as the user gave it.
    n_users, n_items, n_interactions : int
        Size.
    density : float
        Share of the cells that are filled.
    gini : float
        Of the items' popularity: 0 all equal, 1 one item has everything.
    head_share : float
        Share of the interactions (of the sum of all values) of the most popular tenth of the items.
    popularity_curve : ndarray of shape (points, 2)
        Share of the items, most popular first, and their share of the interactions.
    groups : tuple of Group
        From popular to niche.
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
    """The requested and the chosen settings.

    Attributes
    ----------
    audited : mapping of str to value
        The setting of Item-Weighted PCA that headlines, tables and neighbors are about.
    size_parameter : str
        Its parameter for the number of components.
    size_chosen_by : str
        "given", or how the size was chosen.
    k : int
        Length of the recommended lists.
    groups : str
        The rule of the popularity groups: interactions or items.
    seed : int
        Of the hold-out and of every sample.
    notes : tuple of str
        Every sample, limit and preparation.
    """

    audited: Mapping[str, Any]
    size_parameter: str
    size_chosen_by: str
    k: int
    groups: str
    seed: int
    notes: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of components that headlines, tables and neighbors are about."""
        return int(self.audited[self.size_parameter])

    @property
    def weighting(self) -> dict[str, Any]:
        """The audited setting without the number of components."""
        return {name: v for name, v in self.audited.items() if name != self.size_parameter}


@dataclass(frozen=True)
class OwnedComponent:
    """A component (counted from 0) of whose squared length one item has more than half.

    `weight` is the item's share; `item` is a position in `Items`.
    """

    component: int
    item: int
    weight: float


@dataclass(frozen=True, eq=False)
class Variant:
    """One model with one setting, measured at every size of `sizes`.

    Attributes
    ----------
    key : str
        Identifier, e.g. "pca", "item-weighted:-1", "given:0".
    label : str
        Name for people, e.g. "Item-Weighted PCA", "als.npz". Not trusted: may be a path.
    kind : str
        Name in the registry of models; of given models "factors", "scores" (an item × item matrix)
        or "model" (any other recommender). The last two have one size only.
    settings : mapping of str to value
        Parameters that differ between variants of one kind.
    sizes : tuple of int
        Ascending. The same for all variants, except given models.
    results : Results
        Means of every metric at every size: in-sample metrics of items for all items and by
        popularity group, metrics of the lists on the hold-out. nan where not defined.
    components_to_half : dict of group to float
        Mean number of components until an item's error is halved.
    not_halved : dict of group to int
        Items whose error all components do not halve. They count as `depth` in
        `components_to_half`, which is then a lower bound.
    depth : int
        Number of components that were computed.
    owned : tuple of OwnedComponent
        At `Settings.size`, most popular item first.
    self_reconstruction_by_item, error_by_item : ndarray of shape (sizes, items)
        For each item of `Items`.
    auc_by_item : ndarray of shape (items,)
        In-sample AUC at `Settings.size`; nan for items that are not in the sample.
    components_to_half_by_item : ndarray of shape (items,)
        inf where all components do not suffice.
    neighbors : ndarray of int, shape (items, neighbors)
        Positions in `Items` (−1: none) of the nearest items at `Settings.size`, nearest first.
    """

    key: str
    label: str
    kind: str
    settings: Mapping[str, Any]
    sizes: tuple[int, ...]
    results: Results
    components_to_half: Mapping[str, float]
    not_halved: Mapping[str, int]
    depth: int
    owned: tuple[OwnedComponent, ...]
    self_reconstruction_by_item: Floats
    error_by_item: Floats
    auc_by_item: Floats
    components_to_half_by_item: Floats
    neighbors: NDArray[np.int32]

    @cached_property
    def means(self) -> dict[str, dict[str, Floats]]:
        """`results` as arrays over the sizes, by metric and group."""
        values: dict[str, dict[str, list[float]]] = {}
        for row in self.results:
            values.setdefault(row.metric, {}).setdefault(row.group, []).append(row.value)
        return {
            metric: {group: np.array(each) for group, each in by_group.items()}
            for metric, by_group in values.items()
        }

    def at(self, size: int) -> int:
        """Return the position of a size, or of the largest below it; 0 if there is none."""
        return max(0, int(np.searchsorted(self.sizes, size, side="right")) - 1)


@dataclass(frozen=True, eq=False)
class Items:
    """The items that the report lists: all, or a sample that contains all extremes.

    Attributes
    ----------
    ids, names : ndarray of shape (items,)
        As in the data. Not trusted.
    columns : ndarray of int
        Their columns in the data.
    popularity : ndarray of float
        p_j, the norm of the item's column in the data that the models were fitted on.
    n_users : ndarray of int
        Number of users, held-out interactions included.
    group : ndarray of int
        Position in `DataSummary.groups`.
    """

    ids: NDArray[Any]
    names: NDArray[Any]
    columns: NDArray[np.int64]
    popularity: Floats
    n_users: NDArray[np.int64]
    group: NDArray[np.int8]


@dataclass(frozen=True)
class Recommendation:
    """One recommended item, and the user's items that contribute most to its score."""

    item: int
    score: float
    because: tuple[int, ...]


@dataclass(frozen=True)
class UserView:
    """One user: history, held-out items, and the lists of the compared variants by key.

    Items are positions in `Items`, best first.
    """

    user: str
    history: tuple[int, ...]
    held_out: tuple[int, ...]
    recommended: Mapping[str, tuple[Recommendation, ...]]


@dataclass(frozen=True)
class Headline:
    """One of the three main numbers, as text, and what it means."""

    number: str
    meaning: str


@dataclass(frozen=True)
class Advice:
    """The recommended setting; `equipoise.audit.advice` renders it as calls.

    Attributes
    ----------
    model : str
        Name in the registry of models.
    settings : mapping of str to value
        Parameters of the model.
    source : str
        Name of the data.
    data_options : mapping of str to value
        How the data were read and prepared, by the names of the command-line options.
    why : str
        The reason.
    """

    model: str
    settings: Mapping[str, Any]
    source: str
    data_options: Mapping[str, Any]
    why: str


@dataclass(frozen=True)
class Verdict:
    """The findings in words."""

    headlines: tuple[Headline, Headline, Headline]
    sentences: tuple[str, ...]
    advice: Advice


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """Everything that an audit found.

    Attributes
    ----------
    data : DataSummary
        The data.
    settings : Settings
        The audited setting, and every sample that was taken.
    variants : tuple of Variant
        PCA, Normalized PCA, Item-Weighted PCA at every exponent, then the given models.
    items : Items
        The items that the report lists.
    users : tuple of UserView
        A few users, drawn at random.
    verdict : Verdict
        In words.
    version : str
        Of equipoise.
    """

    data: DataSummary
    settings: Settings
    variants: tuple[Variant, ...]
    items: Items
    users: tuple[UserView, ...]
    verdict: Verdict
    version: str

    def __repr__(self) -> str:
        data, setting = self.data, ", ".join(f"{k}={v}" for k, v in self.settings.audited.items())
        return (
            f"Findings({data.source}: {data.n_users:,} users × {data.n_items:,} items; {setting}; "
            f"{len(self.variants)} variants)"
        )

    @property
    def results(self) -> Results:
        """Every mean as one tidy table: models × settings × metrics × groups."""
        return Results(tuple(row for variant in self.variants for row in variant.results))

    @property
    def compared(self) -> tuple[Variant, ...]:
        """One variant of each model: of Item-Weighted PCA the one at the audited setting."""
        audited = self.settings.audited.items()
        return tuple(each for each in self.variants if each.settings.items() <= audited)

    @property
    def baseline(self) -> Variant:
        """PCA."""
        return self.variants[0]

    @property
    def weighted(self) -> Variant:
        """Item-Weighted PCA at the audited setting."""
        return next(each for each in self.compared if each.settings)

    def changes(self) -> dict[str, Floats]:
        """Return what changes for each item from PCA to Item-Weighted PCA, by metric."""
        before, after, size = self.baseline, self.weighted, self.settings.size
        old, new = before.at(size), after.at(size)
        return {
            "self_reconstruction": after.self_reconstruction_by_item[new]
            - before.self_reconstruction_by_item[old],
            "item_error": after.error_by_item[new] - before.error_by_item[old],
            "item_auc": after.auc_by_item - before.auc_by_item,
        }

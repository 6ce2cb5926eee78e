"""What an audit found: one typed summary that the page, Markdown and JSON render.

A *variant* is one model with one setting: Item-Weighted PCA at each exponent γ is a separate
variant. A *size* is the number of leading components in use. An *item* is a column of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.group_section import GroupSection
from equipoise.display import Displayed, Shown
from equipoise.files import by_ending, write_whole
from equipoise.metrics import Results
from equipoise.metrics.intervals import Interval
from equipoise.metrics.results import ALL

if TYPE_CHECKING:
    import polars as pl

    from equipoise.audit.models.audited import AuditedModel
    from equipoise.audit.verdict import Answer

Floats = NDArray[np.float64]

#: what the three sentences of the answer are about
QUESTIONS = ("What is wrong?", "For whom?", "What to do?")


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
        Their share of the interactions.
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
        Share of the interactions of the most popular tenth of the items.
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

    @property
    def size(self) -> str:
        """Users, items and interactions, in words."""
        return (
            f"{self.n_users:,} users × {self.n_items:,} items, {self.n_interactions:,} interactions"
        )


@dataclass(frozen=True)
class Settings:
    """The requested and the chosen settings.

    Attributes
    ----------
    audited : mapping of str to value
        The best setting of Item-Weighted PCA on validation: where the charts begin.
    size_parameter : str
        Its parameter for the number of components.
    size_chosen_by : str
        How the size was chosen.
    preparation : str
        How the rows of the compared PCAs are prepared, in words.
    k : int
        Length of the recommended lists.
    groups : str
        The rule of the popularity groups: interactions or items.
    seed : int
        Of the hold-out and of every sample.
    depth : str
        quick, standard or deep.
    notes : tuple of str
        Every sample and limit.
    metrics : mapping of str to str
        Name of each metric of lists that was added, and its label with cut-off and convention.
    """

    audited: Mapping[str, Any]
    size_parameter: str
    size_chosen_by: str
    preparation: str
    k: int
    groups: str
    seed: int
    depth: str
    notes: tuple[str, ...]
    metrics: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of components at which the charts begin."""
        return int(self.audited[self.size_parameter])

    @property
    def weighting(self) -> dict[str, Any]:
        """The audited setting without the number of components."""
        return {name: v for name, v in self.audited.items() if name != self.size_parameter}

    def compares(self, model: AuditedModel | Variant, chosen: Iterable[str]) -> bool:
        """Whether a model is compared.

        Item-Weighted PCA is compared only at its best exponent, or if it is chosen.
        """
        best = model.kind != "item-weighted" or self.weighting.items() <= model.settings.items()
        return best or model.key in chosen


@dataclass(frozen=True)
class OwnedComponent:
    """A component (counted from 0) of whose squared length one item has more than half.

    `weight` is the item's share; `item` is a position in `Items`, of a model without such a list
    the column of the data.
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
        Identifier, e.g. "pca", "as-given", "item-weighted:-1", "advised", "given:0".
    label : str
        Name for people, e.g. "Item-Weighted PCA", "als.npz". Not trusted: may be a path.
    kind : str
        Name in the registry of models; "as-given" for PCA of values as given next to PCA of
        prepared values, "advised" for an advised model that is none of the measured PCAs, or of
        a larger rank; of given models "factors", "scores" (an item × item matrix) or "model" (any
        other recommender). The last two have one size only.
    settings : mapping of str to value
        Parameters that differ between variants of one kind.
    size : int
        The size that tables, `owned`, `auc_by_item`, `neighbors` and `intervals` are about.
    sizes : tuple of int
        Ascending. The same for all variants, except given models and an advised one.
    results : Results
        Means of every metric at every size: in-sample metrics of items for all items and by
        popularity group, metrics of the lists. nan where not defined.
    intervals : mapping of metric to mapping of group to Interval
        95 % intervals of the means at `size`: bootstrap over items for metrics of items, over
        users for metrics of lists.
    no_accuracy : str
        Why there is no accuracy on held-out items; empty if there is.
    components_to_half : dict of group to float
        Mean number of components until an item's error is halved.
    not_halved : dict of group to int
        Items whose error all components do not halve. They count as `depth` in
        `components_to_half`, which is then a lower bound.
    depth : int
        Number of components that were computed.
    owned : tuple of OwnedComponent
        At `size`, most popular item first.
    self_reconstruction_by_item, error_by_item : ndarray of shape (sizes, items)
        For each item of `Items`.
    auc_by_item : ndarray of shape (items,)
        In-sample AUC at `size`; nan for items that are not in the sample.
    components_to_half_by_item : ndarray of shape (items,)
        inf where all components do not suffice.
    neighbors : ndarray of int, shape (items, neighbors)
        Positions in `Items` (−1: none) of the nearest items at `size`, nearest first;
        without columns for a variant that is not compared.
    """

    key: str
    label: str
    kind: str
    settings: Mapping[str, Any]
    size: int
    sizes: tuple[int, ...]
    results: Results
    intervals: Mapping[str, Mapping[str, Interval]]
    no_accuracy: str
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

    @property
    def at(self) -> int:
        """Position of `size` among the sizes."""
        return self.sizes.index(self.size)

    @property
    def has_components(self) -> bool:
        """Whether the model has components to count."""
        return not np.isnan(self.components_to_half[ALL])

    def mean(self, metric: str, group: str = ALL) -> float:
        """Return a mean at `size`; nan if it is not defined."""
        if metric == "components_to_half":
            return self.components_to_half[group]
        values = self.means.get(metric, {}).get(group)
        return float("nan") if values is None else float(values[self.at])


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
        Number of users in the data that the models were fitted on.
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

    item: Any
    score: float
    because: tuple[Any, ...]


@dataclass(frozen=True)
class UserView:
    """One user: history, held-out items, and the lists of the compared variants by key.

    Items are positions in `Items`, best first; `renamed` gives columns or ids.
    """

    user: str
    history: tuple[Any, ...]
    held_out: tuple[Any, ...]
    recommended: Mapping[str, tuple[Recommendation, ...]]

    def renamed(self, item: Callable[[int], Any]) -> UserView:
        """Return the view with other numbers of the items, or with their ids."""

        def each(items: Iterable[int]) -> tuple[Any, ...]:
            return tuple(map(item, items))

        recommended = {
            key: tuple(Recommendation(item(r.item), r.score, each(r.because)) for r in listed)
            for key, listed in self.recommended.items()
        }
        return UserView(self.user, each(self.history), each(self.held_out), recommended)


@dataclass(frozen=True)
class Entry:
    """A model at its best preparation and setting on validation.

    Attributes
    ----------
    model : str
        Name in the registry of models; the key of a given model.
    title : str
        Its name for people. Not trusted.
    settings : mapping of str to value
        Parameters, the preparation of rows included; empty for a given model.
    preparation : str
        The preparation in words.
    validation : float
        NDCG@k on the validation part; nan for a given model.
    test : Interval or None
        NDCG@k on held-out items; None if the model has seen them or nothing is held out.
    gain : Interval or None
        NDCG@k minus that of the subject, paired by user.
    edge : tuple of str
        Parameters whose best value is the last that was tried.
    """

    model: str
    title: str
    settings: Mapping[str, Any]
    preparation: str
    validation: float
    test: Interval | None
    gain: Interval | None
    edge: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """A possible finding, and whether the data support it.

    Attributes
    ----------
    name : str
        "structure" (other items predict who has an item), "niche" (niche items are not
        reconstructed), "memorized" (popular items are reconstructed from themselves), "owned"
        (components belong to single items), "preparation" (the preparation of the values explains
        that) or "accuracy" (the advised model finds more held-out items).
    value : Interval
        The number that the finding is about.
    shuffled : float
        The same number on shuffled data with as many users per item and items per user; nan where
        the comparison is between models.
    stated : bool
        Whether the number exceeds what chance gives.
    why_not : str
        The reason if it is not stated.
    """

    name: str
    value: Interval
    shuffled: float
    stated: bool
    why_not: str = ""


@dataclass(frozen=True)
class Advice:
    """The recommended model; `equipoise.audit.advice` renders it as calls.

    Attributes
    ----------
    model : str
        Name in the registry of models; empty if a given model is to be kept.
    settings : mapping of str to value
        Parameters of the model, the preparation of rows included.
    source : str
        Name of the data.
    data_options : mapping of str to value
        How the data were read, by the names of the command-line options.
    keep : bool
        Whether nothing is better than the subject beyond chance.
    score : Interval or None
        NDCG@k of the recommended model on held-out items.
    gain : Interval or None
        NDCG@k minus that of the subject, paired by user.
    edge : tuple of str
        Parameters whose best value is the last that was tried.
    check : mapping of str to value
        Options of ``equipoise evaluate`` that repeat the measurement of `score`; empty if there is
        none.
    """

    model: str
    settings: Mapping[str, Any]
    source: str
    data_options: Mapping[str, Any]
    keep: bool = False
    score: Interval | None = None
    gain: Interval | None = None
    edge: tuple[str, ...] = ()
    check: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Mitigation:
    """The re-ranking that shows most long-tail items at a small loss of accuracy.

    Attributes
    ----------
    spec : str
        The re-ranker, as in ``--rerank``.
    tried : int
        How many were compared.
    tail, tail_before : Interval, float
        Difference of the share of long-tail items in the lists, and the share before.
    ndcg, ndcg_before : Interval, float
        Difference of NDCG, and the value before.
    k : int
        Length of the lists.
    """

    spec: str
    tried: int
    tail: Interval
    tail_before: float
    ndcg: Interval
    ndcg_before: float
    k: int

    @property
    def change(self) -> str:
        """What it raises, and the price."""
        after = self.tail_before + self.tail.mean
        return (
            f"raises the share of long-tail items in the lists of {self.k} from "
            f"{self.tail_before:.1%} to {after:.1%} (difference {self.tail.low:+.1%} to "
            f"{self.tail.high:+.1%}), at a price of {self.ndcg.mean:+.4f} NDCG@{self.k} "
            f"({self.ndcg.low:+.4f} to {self.ndcg.high:+.4f}, from {self.ndcg_before:.4f})"
        )

    def __str__(self) -> str:
        return (
            f"Without retraining, --rerank {self.spec} {self.change}. It was chosen from "
            f"{self.tried} on up to 500 of the tested users and measured on the others, "
            f"{self.tail.n_users:,} users."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Findings(Displayed):
    """Everything that an audit found.

    Attributes
    ----------
    data : DataSummary
        The data.
    settings : Settings
        The settings, and every sample that was taken.
    variants : tuple of Variant
        PCA, Normalized PCA and Item-Weighted PCA at several exponents with the best preparation
        of rows, PCA of values as given if that is another one, the advised model if it is none of
        these, then the given models.
    subject_key, advised_key : str
        Keys of the audited model and of the advised one.
    contest : tuple of Entry
        Every model at its best, best first.
    evidence : tuple of Evidence
        Every possible finding.
    items : Items
        The items that the report lists.
    users : tuple of UserView
        A few users, drawn at random.
    advice : Advice
        The recommended model.
    version : str
        Of equipoise.
    groups : tuple of GroupSection
        The measures by group of items and by group of users.
    mitigation : Mitigation or str
        What re-ranking the lists of the subject would change, and its price; or why nothing is
        offered.
    manifest : mapping of str to value
        What others need to check the audit; see `equipoise.audit.dossier.manifest`.
    """

    data: DataSummary
    settings: Settings
    variants: tuple[Variant, ...]
    subject_key: str
    advised_key: str
    contest: tuple[Entry, ...]
    evidence: tuple[Evidence, ...]
    items: Items
    users: tuple[UserView, ...]
    advice: Advice
    version: str
    groups: tuple[GroupSection, ...] = ()
    mitigation: Mitigation | str = ""
    manifest: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        data, stated = self.data, sum(each.stated for each in self.evidence)
        return (
            f"Findings({data.source}: {data.n_users:,} users × {data.n_items:,} items; "
            f"{self.subject.label}, rank {self.subject.size}; {stated} of {len(self.evidence)} "
            f"findings stated; {len(self.variants)} variants)"
        )

    @property
    def results(self) -> Results:
        """Every mean as one tidy table: models × settings × metrics × groups."""
        return Results(tuple(row for variant in self.variants for row in variant.results))

    def to_polars(self) -> pl.DataFrame:
        """Return `results` as a polars data frame."""
        return self.results.to_polars()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the report: a page (.html), Markdown (.md) or JSON (.json)."""
        write_whole(Path(path), report_writer(path)(self).encode())
        return Path(path)

    @property
    def answer(self) -> Answer:
        """What is wrong, for whom, and what to do, in words."""
        from equipoise.audit.verdict import answer

        return answer(self)

    def _shown(self) -> Shown:
        rows = list(zip(QUESTIONS, self.answer, strict=True))
        return Shown(
            repr(self), ["", ""], rows, ('The whole report: findings.save("report.html").',)
        )

    @property
    def subject(self) -> Variant:
        """The audited model: the first given one, else PCA of values as given."""
        return self.variant(self.subject_key)

    @property
    def advised(self) -> Variant:
        """The advised model, which is the subject if nothing is better."""
        return self.variant(self.advised_key)

    @property
    def keys(self) -> set[str]:
        """Keys of the compared variants."""
        return {each.key for each in self.compared}

    def variant(self, key: str) -> Variant:
        """Return the variant with this key."""
        return next(each for each in self.variants if each.key == key)

    @property
    def compared(self) -> tuple[Variant, ...]:
        """One variant of each model: of Item-Weighted PCA at its best exponent, or the advised."""
        chosen = (self.subject_key, self.advised_key)
        return tuple(v for v in self.variants if self.settings.compares(v, chosen))

    def changes(self) -> dict[str, Floats]:
        """Return what changes for each item from the subject to the advised model, by metric."""
        before, after = self.subject, self.advised
        return {
            "self_reconstruction": after.self_reconstruction_by_item[after.at]
            - before.self_reconstruction_by_item[before.at],
            "item_error": after.error_by_item[after.at] - before.error_by_item[before.at],
            "item_auc": after.auc_by_item - before.auc_by_item,
        }


def report_writer(path: str | PathLike[str]) -> Callable[[Findings], str]:
    """Return what writes a report by the ending of its file; a device or a pipe gets a page."""
    from equipoise.audit.report import render
    from equipoise.audit.report.to_json import to_json
    from equipoise.audit.report.to_markdown import to_markdown

    formats = {".html": render, ".md": to_markdown, ".json": to_json, ".htm": render, "": render}
    return by_ending(path, formats)

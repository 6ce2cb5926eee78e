"""What PCA does to hits and to niche items, and what Item-Weighted PCA changes: one comparison."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import SolverWarning
from equipoise.metrics import (
    components_to_reach,
    item_auc,
    item_error,
    mean_by_group,
    popularity_groups,
    recall_at_k,
    specialization,
)
from equipoise.metrics.groups import ItemGroups
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.models.projection import ProjectionModel

PCA, NORMALIZED, WEIGHTED = "PCA", "Normalized PCA", "Item-Weighted PCA"
MODELS: dict[str, type[ProjectionModel]] = {
    PCA: VanillaPCA,
    NORMALIZED: NormalizedPCA,
    WEIGHTED: ItemWeightedPCA,
}

# Components looked at for "how many halve the error"; items that need more count as this many.
_DEPTH = 1024

Progress = Callable[[str], None]

# What the words of the table mean, for readers who have not seen the paper.
GLOSSARY = (
    "Specialization: mean of the largest tenth of the entries on the projector's diagonal; lower "
    "means that components are shared by more items. Rebuilt from itself: an item's own entry "
    "there; 1 is a component of its own. Error halved after: how many components it takes until "
    "half of an item's squared norm is rebuilt. Item AUC: how well the other items tell who "
    "touched an item; higher is better, as with recall. High and low popularity: the items that "
    "make up the first and the last tenth of the mass, which is the sum of all values."
)


@dataclass(frozen=True)
class ModelSummary:
    """One model's line of the comparison.

    Attributes
    ----------
    name : str
        What the model is called.
    specialization : float
        Mean of the largest tenth of the projector's diagonal: how far components memorise items.
    diagonal : dict
        Mean diagonal entry by popularity group.
    halving : dict
        Mean number of components until an item's error is halved, by popularity group.
    auc : dict
        Mean in-sample item AUC by popularity group: how well the *other* items tell who likes an
        item, the diagonal set to zero.
    recall : float
        Recall@k on held-out interactions.
    diagonal_by_item, halving_by_item : ndarray of shape (n_items,)
        The same numbers for each item.
    """

    name: str
    specialization: float
    diagonal: dict[str, float]
    halving: dict[str, float]
    auc: dict[str, float]
    recall: float
    diagonal_by_item: NDArray[np.float64]
    halving_by_item: NDArray[np.float64]

    def as_dict(self) -> dict[str, Any]:
        """The line as plain values, without the items."""
        return {
            "model": self.name,
            "specialization": self.specialization,
            "diagonal": self.diagonal,
            "components_to_halve_error": self.halving,
            "item_auc": self.auc,
            "recall": self.recall,
        }


@dataclass(frozen=True)
class Comparison:
    """The three models on one data set.

    Attributes
    ----------
    n_users, n_items, n_interactions : int
        Size of the data.
    rank, k : int
        Components of the models, and length of the recommended lists.
    group_sizes : dict
        Items in each popularity group.
    popularity : ndarray of shape (n_items,)
        p_j in the fitted matrix.
    item_names : ndarray of shape (n_items,)
        What the items are called.
    models : tuple of ModelSummary
        PCA, Normalized PCA, Item-Weighted PCA.
    """

    n_users: int
    n_items: int
    n_interactions: int
    rank: int
    k: int
    group_sizes: dict[str, int]
    popularity: NDArray[np.float64]
    item_names: NDArray[Any]
    models: tuple[ModelSummary, ...]

    def __getitem__(self, name: str) -> ModelSummary:
        return next(model for model in self.models if model.name == name)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values, for JSON."""
        return {
            "users": self.n_users,
            "items": self.n_items,
            "interactions": self.n_interactions,
            "rank": self.rank,
            "k": self.k,
            "group_sizes": self.group_sizes,
            "models": [model.as_dict() for model in self.models],
        }

    def in_words(self) -> str:
        """What the numbers mean, in one paragraph; each effect is told as it was measured."""
        pca, norm, ours = self[PCA], self[NORMALIZED], self[WEIGHTED]
        kept = "more than" if pca.halving["low"] > self.rank else "within"
        return (
            f"PCA halves the error of a popular item with {pca.halving['high']:.0f} components and "
            f"of a niche one with {pca.halving['low']:.0f}, {kept} the {self.rank} that the model "
            f"keeps; and it rebuilds {pca.diagonal['high']:.0%} of a popular item from that item "
            "alone, which tells nothing about who else might like it. Item-Weighted PCA "
            f"{_moves('specialization', pca.specialization, ours.specialization)}, "
            f"{_moves('what popular items memorise', pca.diagonal['high'], ours.diagonal['high'])}"
            f" and {_moves(f'Recall@{self.k}', pca.recall, ours.recall)}; how well other items "
            f"tell who likes a niche one (AUC) goes from {pca.auc['low']:.3f} to "
            f"{ours.auc['low']:.3f}. Its weights buy similarity between items, not "
            f"reconstruction: a niche item's error is halved after {ours.halving['low']:.0f} "
            f"components. Normalized PCA has specialization {norm.specialization:.3f}, niche AUC "
            f"{norm.auc['low']:.3f} and Recall@{self.k} {norm.recall:.3f}."
        )


def compare(
    interactions: Interactions,
    *,
    rank: int = 16,
    k: int = 20,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Fit PCA, Normalized PCA and Item-Weighted PCA, and measure both unfairness mechanisms.

    Rows are divided by their sums, so that heavy users count as much as others; then a fifth of
    each user's items is held out, as in the published experiments. Popularity groups are cut at
    10 % and 90 % of the mass.

    Parameters
    ----------
    interactions : Interactions
        Users × items.
    rank : int
        Components of each model.
    k : int
        Length of the recommended lists.
    seed : int
        Of the hold-out.
    progress : callable, optional
        Called with each model's name before it is fitted.
    """
    split = interactions.normalize_rows().holdout(seed=seed)
    train, test = split.train_validation, split.test
    groups = popularity_groups(train.matrix, rule="mass")
    lines = []
    for name, model in MODELS.items():
        if progress is not None:
            progress(name)
        lines.append(_summarize(name, model, train, test, groups, rank, k))
    names = interactions.item_ids if interactions.item_names is None else interactions.item_names
    return Comparison(
        n_users=interactions.n_users,
        n_items=interactions.n_items,
        n_interactions=interactions.nnz,
        rank=rank,
        k=k,
        group_sizes=groups.sizes,
        popularity=train.popularity("norm"),
        item_names=names,
        models=tuple(lines),
    )


def _summarize(
    name: str,
    model: type[ProjectionModel],
    train: Interactions,
    test: Interactions,
    groups: ItemGroups,
    rank: int,
    k: int,
) -> ModelSummary:
    """One fit at full depth; the model at the wanted rank is its prefix."""
    with warnings.catch_warnings():  # at full depth, fewer positive eigenvalues are the rule
        warnings.simplefilter("ignore", SolverWarning)
        deep = model(n_components=min(_DEPTH, train.n_items)).fit(train.matrix)
    fitted = deep.truncate(min(rank, deep.n_components_))
    inputs = deep.preprocess(train.matrix)
    errors = item_error(inputs, deep.components_.T)
    halving = components_to_reach(errors, 0.5, unreached=float(deep.n_components_))
    diagonal = fitted.projection_diagonal()
    auc = item_auc(train.matrix, fitted.components_.T, inputs=inputs)
    top = fitted.recommend(train.matrix, N=k).ids
    return ModelSummary(
        name=name,
        specialization=float(specialization(diagonal)),
        diagonal=dict(mean_by_group(diagonal, groups).by_group),
        halving=dict(mean_by_group(halving, groups).by_group),
        auc=dict(mean_by_group(auc, groups).by_group),
        recall=float(recall_at_k(top, test.matrix, k)),
        diagonal_by_item=diagonal,
        halving_by_item=halving,
    )


def _moves(what: str, before: float, after: float) -> str:
    if f"{before:.3f}" == f"{after:.3f}":
        return f"leaves {what} at {before:.3f}"
    verb = "raises" if after > before else "lowers"
    change = f" ({(after - before) / before:+.0%})" if before else ""
    return f"{verb} {what} from {before:.3f} to {after:.3f}{change}"

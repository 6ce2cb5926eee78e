"""Measures everything that the claims and figures on real data need, each thing once."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.split import holdout
from equipoise.evaluation import Results, default_models, evaluate
from equipoise.exceptions import SolverWarning
from equipoise.metrics import (
    components_to_reach,
    item_error,
    mean_by_group,
    popularity_groups,
    self_reconstruction,
)
from equipoise.models import VanillaPCA
from equipoise.models.peers.weighted_mf import WeightedMF
from equipoise.paper import protocol
from equipoise.paper.protocol import DATASETS, GROUPS, ITEM_METRICS, RULES, USER_METRICS
from equipoise.progress import Progress, task

Floats = NDArray[np.float64]
Load = Callable[[str], Interactions]
Curves = dict[str, dict[int, float]]  # metric -> rank -> value
Sweep = dict[str, dict[float, float]]  # metric -> γ -> value

# A projection with a mean diagonal entry of 1 is the identity.
_IDENTITY = 1 - 1e-9


class Point(NamedTuple):
    """Identifies one number of an evaluation; `rule` cuts the popularity groups."""

    metric: str
    model: str
    rank: int
    group: str = "all"
    rule: str = "interactions"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The three PCAs on one data set, by the published protocol.

    Attributes
    ----------
    dataset : str
        ``"lastfm"`` or ``"movielens"``.
    data : Interactions
        The matrix before the split.
    values : dict of Point to float
        At all ranks for groups by sum of values, at r = 30 for groups by number of items.
    group_sizes : dict of str to dict of str to int
        Rule -> group -> number of items.
    item_ranks, user_ranks : tuple of int
        Ranks of the in-sample and of the out-of-sample figures.
    """

    dataset: str
    data: Interactions
    values: dict[Point, float]
    group_sizes: dict[str, dict[str, int]]
    item_ranks: tuple[int, ...]
    user_ranks: tuple[int, ...]

    @property
    def title(self) -> str:
        """The name of the data set in the paper."""
        return DATASETS[self.dataset].title

    def value(
        self, metric: str, model: str, rank: int, group: str = "all", rule: str = "interactions"
    ) -> float:
        """One number."""
        return self.values[Point(metric, model, rank, group, rule)]

    def curve(
        self, metric: str, model: str, ranks: Sequence[int], group: str = "all"
    ) -> list[float]:
        """A metric over ranks."""
        return [self.value(metric, model, rank, group) for rank in ranks]


@dataclass(frozen=True, eq=False)
class FullRankPCA:
    """PCA of one matrix at every rank r = 0, …, m, item by item (Figure 1).

    Attributes
    ----------
    item_norms : ndarray of shape (m,)
        p_j = ‖X_·j‖₂.
    components_to_half_error : ndarray of shape (m,)
        Components until the item's error is at most half of its initial value.
    artists : dict of str to ndarray of shape (m + 1,)
        Normalized item error of eight artists at every rank.
    overall : ndarray of shape (m + 1,)
        ‖X − XP_r‖² / ‖X‖².
    spectrum : ndarray of shape (m,)
        σ_i² / ‖X‖².
    uneven : float
        Share of items whose error does *not* fall with diminishing returns.
    diagonal : dict of str to dict of str to ndarray of shape (m + 1,)
        Rule -> group -> mean diagonal entry of P_r.
    """

    item_norms: Floats
    components_to_half_error: Floats
    artists: dict[str, Floats]
    overall: Floats
    spectrum: Floats
    uneven: float
    diagonal: dict[str, dict[str, Floats]]

    def mean_components(self, part: Literal["top", "bottom", "not top"]) -> float:
        """Mean components to half error over tenths of the items by norm."""
        tenth = len(self.item_norms) // 10
        parts = {"top": slice(tenth), "bottom": slice(-tenth, None), "not top": slice(tenth, None)}
        order = np.argsort(-self.item_norms, kind="stable")
        return float(self.components_to_half_error[order[parts[part]]].mean())


def fit_full_rank_pca(data: Interactions) -> FullRankPCA:
    """Fit PCA at full rank once; the other ranks are its prefixes."""
    X = data.matrix
    with _expected_warnings():
        model = VanillaPCA(n_components=data.n_items, solver="dense", tol=1e-8).fit(X)
    U = model.components_.T
    errors, diagonal, norms = item_error(X, U), self_reconstruction(U), data.popularity("norm")
    total = norms**2
    by_rule = {rule: mean_by_group(diagonal, popularity_groups(X, rule)) for rule in RULES}
    return FullRankPCA(
        item_norms=norms,
        components_to_half_error=components_to_reach(errors, 0.5),
        artists={name: errors[:, j] for name, j in _eight_artists(data, norms).items()},
        overall=errors @ total / total.sum(),
        spectrum=model.eigenvalues_ / total.sum(),
        uneven=_share_uneven(errors),
        diagonal={rule: {g: d.by_group[g] for g in GROUPS} for rule, d in by_rule.items()},
    )


def _eight_artists(data: Interactions, item_norms: Floats) -> dict[str, int]:
    """Seven artists from popular to niche, and the one of the text if the data contain her."""
    order = np.argsort(-item_norms, kind="stable")
    names: NDArray[Any] = data.item_ids if data.item_names is None else data.item_names
    chosen = [int(order[place - 1]) for place in protocol.ARTIST_PLACES if place <= len(order)]
    chosen += np.flatnonzero(names == protocol.NAMED_ARTIST)[:1].tolist()
    return {str(names[j]): j for j in chosen}


def _share_uneven(errors: Floats) -> float:
    """Share of items with a component that lowers the error more than the previous one did."""
    gains = -np.diff(errors, axis=0)
    # A difference in the tenth digit is rounding.
    return float(np.mean(np.any(np.diff(gains, axis=0) > 1e-9, axis=0)))


def load_paper_matrix(name: str) -> Interactions:
    """Load a data set of `load_dataset`, preprocessed as in the paper."""
    from equipoise.data.catalog import load_dataset

    return load_dataset(name, preprocessing="paper")


@dataclass
class ExperimentRunner:
    """Measures on demand; results in the cache folder are not computed again.

    Parameters
    ----------
    cache : path, optional
        The folder from which `equipoise.evaluate` resumes.
    quick : bool
        Fewer ranks in the in-sample figures; every number that a claim needs is measured.
    progress : Progress, optional
        Receives the tasks; silent by default.
    load : callable
        Maps a name of `load_dataset` to the paper's matrix.
    """

    cache: Path | None = None
    quick: bool = False
    progress: Progress | None = None
    load: Load = load_paper_matrix
    _data: dict[str, Interactions] = field(default_factory=dict, init=False)

    def data(self, dataset: str) -> Interactions:
        """The paper's matrix."""
        if dataset not in self._data:
            with task(self.progress, f"Reading {DATASETS[dataset].title}"):
                self._data[dataset] = self.load(DATASETS[dataset].catalog)
        return self._data[dataset]

    def fingerprints(self) -> dict[str, str]:
        """Name in `load_dataset` -> SHA-256 of the matrix and its ids."""
        return {DATASETS[name].catalog: data.fingerprint() for name, data in self._data.items()}

    @cached_property
    def pca(self) -> FullRankPCA:
        """The numbers of Figure 1."""
        data = self.data("lastfm")
        with task(self.progress, "LastFM: PCA at every rank"):
            return fit_full_rank_pca(data)

    @cached_property
    def lastfm(self) -> Evaluation:
        """The numbers of Figures 2, 3, 4 and 6 on LastFM."""
        return self._measure("lastfm")

    @cached_property
    def movielens(self) -> Evaluation:
        """The same on MovieLens."""
        return self._measure("movielens")

    @property
    def evaluations(self) -> tuple[Evaluation, Evaluation]:
        """LastFM and MovieLens."""
        return self.lastfm, self.movielens

    @cached_property
    def sweep(self) -> Sweep:
        """The numbers of Figure 8."""
        return self._curves(
            "movielens",
            "gamma",
            models={protocol.ITEM_WEIGHTED: default_models()[protocol.ITEM_WEIGHTED]},
            grid={"gamma": protocol.GAMMAS, "n_components": [protocol.USER_RANK]},
            metrics=protocol.GAMMA_METRICS,
        )

    @cached_property
    def weighted_mf(self) -> dict[str, Curves]:
        """Data set -> curves of Weighted MF in Figure 7; empty if `implicit` is not installed.

        Item factors equal those of the published code to the bit. Its user factors are half a
        step behind its items; here they are exact, which moves the third or fourth decimal.
        """
        if importlib.util.find_spec("implicit") is None:
            return {}
        quick, full = protocol.QUICK_WEIGHTED_MF_RANKS, protocol.WEIGHTED_MF_RANKS
        return {
            dataset: self._curves(
                dataset,
                "n_components",
                models={protocol.WEIGHTED_MF: WeightedMF.published(random_state=0)},
                grid={"n_components": quick if self.quick else full},
                metrics=tuple(USER_METRICS),
            )
            for dataset in DATASETS
        }

    def _curves(
        self, dataset: str, across: str, *, metrics: Sequence[str], **options: Any
    ) -> dict[str, dict[Any, float]]:
        """Return each metric by the values of one setting."""
        found = self._evaluate(dataset, metrics=metrics, **options)
        return {m: {row.settings[across]: row.value for row in found.select(m)} for m in metrics}

    def _measure(self, dataset: str) -> Evaluation:
        data = self.data(dataset)
        for_items, for_users = (
            protocol.item_ranks(data.n_items, quick=self.quick),
            protocol.user_ranks(data.n_items),
        )
        options = {
            "interactions": (sorted({*for_items, *for_users}), (*USER_METRICS, *ITEM_METRICS)),
            "items": ([protocol.ITEM_RANK], ITEM_METRICS),
        }
        values: dict[Point, float] = {}
        for rule, (ranks, metrics) in options.items():
            grid = {"n_components": ranks}
            found = self._evaluate(dataset, grid=grid, metrics=metrics, groups=rule)
            values |= _points(found, rule)
        X = holdout(data, seed=protocol.SEED).train_validation
        groups = {rule: popularity_groups(X.matrix, rule) for rule in RULES}
        return Evaluation(
            dataset,
            data,
            _with_ties_resolved(values, X, {g: groups["interactions"].items(g) for g in GROUPS}),
            {rule: {g: len(groups[rule].items(g)) for g in GROUPS} for rule in RULES},
            for_items,
            for_users,
        )

    def _evaluate(self, dataset: str, **options: Any) -> Results:
        split = holdout(self.data(dataset), seed=protocol.SEED)
        with _expected_warnings(), task(self.progress, DATASETS[dataset].title) as measuring:
            found = evaluate(
                split, zero_division=0, cache=self.cache, progress=measuring, **options
            )
        if not found.complete:  # `evaluate` turns Ctrl-C into fewer rows
            raise KeyboardInterrupt
        return found


def recorded_lightgcn() -> tuple[str, Curves]:
    """Data set and curves of a LightGCN training run that takes hours (``lightgcn.json``)."""
    text = (resources.files("equipoise.paper") / "lightgcn.json").read_text(encoding="utf-8")
    run = json.loads(text)
    curves = {
        metric: {int(rank): value for rank, value in curve.items()}
        for metric, curve in run["curves"].items()
    }
    return run["dataset"], curves


def _points(results: Results, rule: str) -> dict[Point, float]:
    labels = {label.partition("@")[0]: label for label in (*USER_METRICS, *ITEM_METRICS)}
    return {
        Point(
            labels[row.metric], row.model, row.settings["n_components"], row.group, rule
        ): row.value
        for row in results
    }


def _with_ties_resolved(
    values: dict[Point, float], fitted: Interactions, groups: dict[str, NDArray[np.intp]]
) -> dict[Point, float]:
    """Replace rounding noise at full rank by the expected value of random ties.

    At full rank P is the identity and P′ = 0: every score is 0 up to rounding, which differs
    between machines. With ties in random order, the AUC is 1/2 and the precision of an item is
    the share of users who have it.
    """
    X, m = fitted.matrix, fitted.n_items
    share = np.bincount(X.indices, minlength=m) / X.shape[0]
    tied = [
        model
        for model in protocol.MODELS
        if values[Point("self_reconstruction", model, m)] >= _IDENTITY
    ]
    resolved = dict(values)
    for group, items in {"all": np.arange(m), **groups}.items():
        for model in tied:
            resolved[Point("item_auc", model, m, group)] = 0.5
            resolved[Point("item_precision@20", model, m, group)] = float(share[items].mean())
    return resolved


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """At rank m the weighted problem has fewer positive eigenvalues than components."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        yield

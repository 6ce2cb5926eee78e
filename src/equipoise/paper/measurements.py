"""Everything that the claims and figures on real data are read off, measured when first asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.data.interactions import Interactions
from equipoise.data.split import holdout
from equipoise.evaluation import Results, default_models, evaluate
from equipoise.exceptions import SolverWarning
from equipoise.metrics import popularity_groups
from equipoise.paper.protocol import (
    DATASETS,
    GAMMA_METRICS,
    GAMMAS,
    GROUPS,
    ITEM_METRICS,
    ITEM_RANK,
    ITEM_WEIGHTED,
    MODELS,
    PCA,
    USER_METRICS,
    USER_RANK,
    item_ranks,
    user_ranks,
)
from equipoise.paper.teaser import Teaser, measure_teaser
from equipoise.progress import Progress, task

# A projection with a mean diagonal entry of 1 is the identity.
_IDENTITY = 1 - 1e-9

Load = Callable[[str], Interactions]


class Point(NamedTuple):
    """Which number of an evaluation."""

    metric: str
    model: str
    rank: int
    group: str = "all"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The three models on one data set, by the published protocol.

    Attributes
    ----------
    dataset : str
        ``"lastfm"`` or ``"movielens"``.
    n_users, n_items, n_entries : int
        Size of the matrix before the split.
    most_items : int
        The largest number of items that a user has.
    fingerprint : str
        SHA-256 of the matrix and its ids.
    group_sizes : dict of str to dict of str to int
        Rule ("mass", "items") -> group -> number of items.
    values : dict of Point to float
        Popularity groups cut by mass, as in the published code.
    by_items : dict of Point to float
        In-sample metrics at r = 30 with the groups of the text: tenths of the items by norm.
    """

    dataset: str
    n_users: int
    n_items: int
    n_entries: int
    most_items: int
    fingerprint: str
    group_sizes: dict[str, dict[str, int]]
    values: dict[Point, float]
    by_items: dict[Point, float]

    @property
    def title(self) -> str:
        """What the paper calls the data."""
        return DATASETS[self.dataset].title

    def value(self, metric: str, model: str, rank: int, group: str = "all") -> float:
        """One number, with the published code's groups."""
        return self.values[Point(metric, model, rank, group)]

    def text_value(self, metric: str, model: str, group: str) -> float:
        """One number at r = 30, with the text's groups."""
        return self.by_items[Point(metric, model, ITEM_RANK, group)]

    def curve(
        self, metric: str, model: str, ranks: Sequence[int], group: str = "all"
    ) -> list[float]:
        """A metric over ranks."""
        return [self.value(metric, model, rank, group) for rank in ranks]

    @cached_property
    def item_ranks(self) -> tuple[int, ...]:
        """The ranks of the in-sample figures."""
        quick = Point("specialization", ITEM_WEIGHTED, 2) not in self.values
        return item_ranks(self.n_items, quick=quick)

    @cached_property
    def user_ranks(self) -> tuple[int, ...]:
        """The ranks of the out-of-sample figures."""
        return user_ranks(self.n_items)


@dataclass(frozen=True, eq=False)
class Measurements:
    """All that the claims about real data are functions of.

    Attributes
    ----------
    teaser : Teaser
        PCA of the whole LastFM matrix.
    lastfm, movielens : Evaluation
        The three models on the two splits.
    sweep : dict of str to dict of float to float
        Metric -> γ -> value, for MovieLens at r = 32.
    """

    teaser: Teaser
    lastfm: Evaluation
    movielens: Evaluation
    sweep: dict[str, dict[float, float]]

    @property
    def evaluations(self) -> tuple[Evaluation, Evaluation]:
        """LastFM and MovieLens."""
        return (self.lastfm, self.movielens)


class Laboratory:
    """Measures on demand, each thing once; what a cache folder knows is not computed again.

    Parameters
    ----------
    cache : path, optional
        A folder for `equipoise.evaluation.evaluate` to resume from.
    quick : bool
        Fewer ranks in the in-sample figures; every number that a claim needs is measured.
    progress : Progress, optional
        Receives the tasks; silent by default.
    load : callable, optional
        From a name in the catalogue to the paper's matrix.
    """

    def __init__(
        self,
        cache: Path | None = None,
        *,
        quick: bool = False,
        progress: Progress | None = None,
        load: Load | None = None,
    ) -> None:
        self.cache = cache
        self.quick = quick
        self._progress = progress
        self._load = load or load_papers_matrix
        self._data: dict[str, Interactions] = {}
        self._evaluations: dict[str, Evaluation] = {}

    def data(self, dataset: str) -> Interactions:
        """The paper's matrix."""
        if dataset not in self._data:
            with task(self._progress, f"Reading {DATASETS[dataset].title}"):
                self._data[dataset] = self._load(DATASETS[dataset].catalogue)
        return self._data[dataset]

    def fingerprints(self) -> dict[str, str]:
        """Name in the catalogue -> SHA-256 of the matrix and its ids, of all that was read."""
        return {DATASETS[name].catalogue: data.fingerprint() for name, data in self._data.items()}

    @cached_property
    def teaser(self) -> Teaser:
        """What Figure 1 shows."""
        data = self.data("lastfm")
        with task(self._progress, "LastFM: PCA at every rank"):
            return measure_teaser(data)

    def evaluation(self, dataset: str) -> Evaluation:
        """What Figures 2, 3, 4 and 6 show."""
        if dataset not in self._evaluations:
            self._evaluations[dataset] = self._evaluate(dataset, self.data(dataset))
        return self._evaluations[dataset]

    @cached_property
    def sweep(self) -> dict[str, dict[float, float]]:
        """What Figure 8 shows."""
        split = holdout(self.data("movielens"))
        models = {ITEM_WEIGHTED: default_models()[ITEM_WEIGHTED]}
        with _expected_warnings(), task(self._progress, "MovieLens, γ from −2 to 0") as measuring:
            found = evaluate(
                split,
                models,
                ranks=[USER_RANK],
                gammas=GAMMAS,
                metrics=GAMMA_METRICS,
                empty="zero",
                cache=self.cache,
                progress=measuring,
            )
        _whole(found)
        return {
            metric: {row.gamma or 0.0: row.value for row in found.select(metric)}
            for metric in GAMMA_METRICS
        }

    def measurements(self) -> Measurements:
        """Everything at once, for the claims."""
        return Measurements(
            self.teaser, self.evaluation("lastfm"), self.evaluation("movielens"), self.sweep
        )

    def _evaluate(self, dataset: str, data: Interactions) -> Evaluation:
        split = holdout(data)
        ranks = {*user_ranks(data.n_items), *item_ranks(data.n_items, quick=self.quick)}
        title = DATASETS[dataset].title
        with _expected_warnings(), task(self._progress, title, 2) as measuring:
            by_mass = evaluate(
                split,
                ranks=sorted(ranks),
                metrics=(*USER_METRICS, *ITEM_METRICS),
                groups="mass",
                empty="zero",
                cache=self.cache,
                progress=measuring,
            )
            measuring.advance()
            by_items = evaluate(
                split,
                ranks=[ITEM_RANK],
                metrics=ITEM_METRICS,
                groups="items",
                cache=self.cache,
                progress=measuring,
            )
        return Evaluation(
            dataset=dataset,
            n_users=data.n_users,
            n_items=data.n_items,
            n_entries=data.nnz,
            most_items=int(np.diff(data.matrix.indptr).max()),
            fingerprint=data.fingerprint(),
            group_sizes={"mass": _sizes(by_mass), "items": _sizes(by_items)},
            values=_with_ties_settled(_points(by_mass), split.train_validation),
            by_items=_points(by_items),
        )


def load_papers_matrix(name: str) -> Interactions:
    """The matrix by its name in the catalogue, prepared as the paper does."""
    from equipoise.data.catalog import load_dataset

    return load_dataset(name, preprocessing="paper")


def _points(results: Results) -> dict[Point, float]:
    labels = {(label.partition("@")[0]): label for label in (*USER_METRICS, *ITEM_METRICS)}
    return {
        Point(labels[row.metric], row.model, row.rank or 0, row.group): row.value
        for row in _whole(results)
    }


def _with_ties_settled(values: dict[Point, float], fitted: Interactions) -> dict[Point, float]:
    """Put what ties mean in the place of rounding noise.

    At full rank P is the identity and P′ = 0: every score is 0, and the noise that a computer
    finds instead differs from machine to machine. Among ties in random order AUC is 1/2 and the
    precision of an item is the share of users who have it.
    """
    X, m = fitted.matrix, fitted.n_items
    share = np.bincount(X.indices, minlength=m) / X.shape[0]
    groups = popularity_groups(X, "mass")
    members = {"all": np.arange(m), **{name: groups.items(name) for name in GROUPS}}
    settled = dict(values)
    for model in MODELS:
        if values[Point("diagonal", model, m)] < _IDENTITY:
            continue
        for group, items in members.items():
            settled[Point("item_auc", model, m, group)] = 0.5
            settled[Point("item_precision@20", model, m, group)] = float(share[items].mean())
    return settled


def _sizes(results: Results) -> dict[str, int]:
    rows = results.select("diagonal", model=PCA, rank=ITEM_RANK)
    return {row.group: row.n for row in rows if row.group in GROUPS}


def _whole(results: Results) -> Results:
    """Pass results on, or go on with the interruption that `evaluate` turned into fewer rows."""
    if not results.complete:
        raise KeyboardInterrupt
    return results


@contextmanager
def _expected_warnings() -> Iterator[None]:
    """At rank m the weighted problem has fewer positive eigenvalues, and the figures say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        yield

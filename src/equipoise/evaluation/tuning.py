"""`tune`: find the best setting of a model on the validation part, then score it once on test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np

from equipoise import __version__
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.cache import FORMAT, Cache, number_or_nan, number_or_none
from equipoise.evaluation.case import Case, as_split
from equipoise.evaluation.goal import BestSoFar, Goal, Limits
from equipoise.evaluation.grid import Filter, Grid, Place
from equipoise.evaluation.measures import measure_items, measure_lists
from equipoise.evaluation.prefixes import Prefixes, top_items_by_rank
from equipoise.evaluation.runner import evaluate
from equipoise.evaluation.search import search, search_space
from equipoise.evaluation.trials import Trial, Tuning
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import EMPTY_POLICIES, RANKING_METRICS, ItemGroups
from equipoise.models import ItemWeightedPCA, Recommender
from equipoise.models.item_weighted_pca import SpectralFilter
from equipoise.models.preference import ValueTransform
from equipoise.models.registry import find_model
from equipoise.progress import Progress, task

# Components to this accuracy rank items as exact ones do but for near-ties; the choice is
# refitted at the model's own tolerance before it is scored on test.
_SEARCH_TOLERANCE = 1e-5

Scores = dict[str, float]

# The model whose fits along γ, ranks and filters share their work.
OUR_MODEL = "item-weighted"


def tune(
    data: Interactions | Split,
    model: str | Recommender = OUR_MODEL,
    *,
    grid: Mapping[str, Sequence[Any]] | None = None,
    maximize: str = "ndcg@20",
    subject_to: Limits | None = None,
    trade_off: Sequence[str] = ("aplt",),
    gammas: Sequence[float] | None = None,
    ranks: Sequence[int] | None = None,
    filters: Sequence[Filter | tuple[SpectralFilter, float]] | None = None,
    user_scalings: Sequence[float] | None = None,
    value_transforms: Sequence[ValueTransform | None] | None = None,
    k: int = 20,
    test_metrics: Sequence[str] = (),
    groups: str | ItemGroups = "mass",
    empty: str = "nan",
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Search the parameters of a model on the validation part.

    Models are fitted on train and look for the validation items; the test items are touched
    once, by the choice, refitted on train + validation. Everything in the grid is tried. For
    Item-Weighted PCA that is γ × rank × spectral filter × user scaling × value transform: one fit
    at the largest rank serves every rank and every filter, and fits along γ share what they can.

    Parameters
    ----------
    data : Split or Interactions
        Interactions are split as the paper does: see `equipoise.data.holdout`.
    model : str or Recommender
        A name as in ``equipoise models``, or an unfitted model, whose parameters stay as they are
        where the grid does not name them.
    grid : mapping of str to sequence, optional
        Values of the model's parameters, every combination of which is tried. By default the
        model's own search space (`equipoise.models.registry`), plus, where values differ and the
        model can transform them, every value transform.
    maximize : str
        ``name[@k][:convention][/group]``, e.g. ``"recall@10"`` or ``"group_recall/low"``; with a
        minus in front, less is better.
    subject_to : mapping of str to (str, float), optional
        Limits, e.g. ``{"aplt": (">=", 0.3), "item_auc/low": (">=", 0.9)}``.
    trade_off : sequence of str
        Metrics (more is better) that the frontier weighs against the objective.
    ranks : sequence of int, optional
        Values of n_components, for any model that has it.
    gammas, filters, user_scalings, value_transforms : sequence, optional
        The grid of ``"item-weighted"``, instead of `grid`. By default 8 γ from 0 to -2, ranks
        4, 8, …, 128, the hard filter, four powers and three ridges, four scalings; and, where
        values differ, every value transform.
    k : int
        Cut-off of the metrics that name none.
    test_metrics : sequence of str
        What to measure on test, besides the ranking metrics and the targets of the search.
    groups, empty, cache, progress
        As in `evaluate`.

    Examples
    --------
    >>> from equipoise.data import synthetic
    >>> tuning = tune(synthetic.scale(200, 40, 1500), maximize="recall@5", ranks=[2, 4, 8],
    ...               gammas=[0.0, -1.0], user_scalings=[0.0], value_transforms=[None])
    >>> len(tuning.trials), tuning.test.row("recall@5").n <= 200
    (48, True)
    >>> tuning.model().n_components == tuning.choice.rank
    True
    >>> tune(synthetic.scale(200, 40, 1500), "pca", grid={"n_components": [2, 4]}).constructor()
    'VanillaPCA(n_components=2)'
    """
    if empty not in EMPTY_POLICIES:
        raise InvalidParameterError(f"empty must be one of {list(EMPTY_POLICIES)}, got {empty!r}.")
    split = as_split(data)
    goal = Goal.parse(maximize, subject_to, trade_off, k)
    train = split.train.matrix
    scored = partial(evaluate, split, groups=groups, empty=empty, cache=cache)
    if model == OUR_MODEL and grid is None:
        ours = Grid.of(train, gammas, ranks, filters, user_scalings, value_transforms)
        case = Case.of(split, "validation", groups)
        with task(progress, "Tuning", len(ours.places)) as tuning:
            trials, complete = _Search(case, goal, ours, empty, cache, tuning).run()
    else:
        _refuse_our_axes(gammas, filters, user_scalings, value_transforms)
        base = find_model(model).make() if isinstance(model, str) else model
        space = search_space(base, grid, ranks, train)
        on_validation = partial(scored, part="validation")
        trials, complete = search(base, space, goal, on_validation, progress)
    table = [trial.scores for trial in trials]
    choice = trials[goal.best(table)]
    frontier = tuple(trials[i] for i in goal.frontier(table))
    test = None
    if complete and split.test.nnz:
        targets = [target.spec.label for target in goal.targets]
        test = scored(
            {"tuned": choice.model()},
            ranks=None if choice.rank is None else [choice.rank],
            metrics=[*dict.fromkeys([*RANKING_METRICS, *targets, *test_metrics])],
            k=k,
            per_user=True,
            progress=progress,
        )
    return Tuning(tuple(trials), choice, frontier, goal, test, complete)


def _refuse_our_axes(*axes: object) -> None:
    if any(axis is not None for axis in axes):
        raise InvalidParameterError(
            "gammas, filters, user_scalings and value_transforms are the grid of 'item-weighted'. "
            "Say what to search by name: grid={parameter: [values, …]}."
        )


@dataclass
class _Search:
    """The search for an Item-Weighted PCA: what stays the same from fit to fit."""

    case: Case
    goal: Goal
    grid: Grid
    empty: str
    folder: str | PathLike[str] | None
    progress: Progress

    def __post_init__(self) -> None:
        self.cache = None if self.folder is None else Cache(self.folder)
        self.fingerprint = None if self.cache is None else self.case.fingerprint()
        self.specs = tuple(dict.fromkeys(target.spec for target in self.goal.targets))
        self.longest = max((s.k or 0 for s in self.specs if not s.is_item_side), default=0)
        # scores in float32: half the memory traffic, and ties that it makes are rare
        self.seen = self.case.seen.astype(np.float32)
        self.best = BestSoFar(self.goal)

    def run(self) -> tuple[list[Trial], bool]:
        """Try everything, or what there is time for; trials in the order of the grid."""
        scores: dict[Place, list[Scores]] = {}
        complete = True
        try:
            for (t, a), group in groupby(self.grid.places, key=lambda place: place[:2]):
                for g, found in self._along_gamma(t, a, [place[2] for place in group]):
                    scores[t, a, g] = found
        except KeyboardInterrupt:
            if not scores:
                raise
            complete = False
        trials = [
            Trial(parameters, found, ItemWeightedPCA())
            for place in sorted(scores)
            for parameters, found in zip(self.grid.parameters(place), scores[place], strict=True)
        ]
        return trials, complete

    def _along_gamma(
        self, t: int, a: int, wanted: Sequence[int]
    ) -> Iterator[tuple[int, list[Scores]]]:
        """Yield the position of each γ and the scores of all filters and ranks there."""
        base = ItemWeightedPCA(
            max(self.grid.ranks),
            user_scaling=self.grid.scalings[a],
            value_transform=self.grid.transforms[t],
            tol=_SEARCH_TOLERANCE,
        )
        setting = f"{base.value_transform or 'values as they are'}, a={base.user_scaling:g}"
        pending = []
        for g in wanted:
            stored = self._recall(base, g)
            if stored is None:
                pending.append(g)
            else:
                self._tried(stored)
                yield g, stored
        if not pending:
            return
        self._note(f"fitting with {setting}")
        path = base.fit_path(
            self.case.fitted.matrix,
            [self.grid.gammas[g] for g in pending],
            progress=self.progress,
        )
        for g, model in zip(pending, path, strict=True):
            self._note(f"scoring γ = {model.gamma:g}, {setting}")
            found = self._scores(model)
            self._remember(base, g, found)
            self._tried(found)
            yield g, found

    def _scores(self, model: ItemWeightedPCA) -> list[Scores]:
        """Every filter at every rank from one fit."""
        ranks = self.grid.ranks
        whole = Prefixes.of(model, np.float32)
        coordinates = whole.coordinates(self.seen)
        near = None
        found: list[Scores] = []
        for one in self.grid.filters:
            prefixes = whole.graded(one.strengths(model))
            by_rank = measure_items(prefixes, self.case, ranks, self.specs)
            if self.longest:
                near = top_items_by_rank(
                    prefixes, self.seen, ranks, self.longest, coordinates=coordinates, near=near
                )
                for measures, lists in zip(by_rank, near, strict=True):
                    measures += measure_lists(lists, self.case, self.specs, empty=self.empty)
            targets = self.goal.targets
            found += [{t.label: t.read(measures) for t in targets} for measures in by_rank]
        return found

    def _key(self, base: ItemWeightedPCA, g: int) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": __version__,
            "tuning": self.fingerprint,
            "model": base.get_params(deep=False) | {"gamma": self.grid.gammas[g]},
            "ranks": list(self.grid.ranks),
            "filters": [list(one) for one in self.grid.filters],
            "targets": [target.label for target in self.goal.targets],
            "empty": self.empty,
        }

    def _recall(self, base: ItemWeightedPCA, g: int) -> list[Scores] | None:
        stored = None if self.cache is None else self.cache.load(self._key(base, g))
        if stored is None:
            return None
        # in the order of the goal, as when it was measured: JSON files are sorted by name
        names = [target.label for target in self.goal.targets]
        return [{name: number_or_nan(one[name]) for name in names} for one in stored]

    def _remember(self, base: ItemWeightedPCA, g: int, found: list[Scores]) -> None:
        if self.cache is not None:
            plain = [{name: number_or_none(v) for name, v in one.items()} for one in found]
            self.cache.store(self._key(base, g), plain)

    def _tried(self, found: list[Scores]) -> None:
        self.best.add(found)
        self._note("")
        self.progress.advance()

    def _note(self, doing: str) -> None:
        self.progress.note("; ".join(filter(None, [str(self.best), doing])))

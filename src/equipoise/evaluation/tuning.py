"""`tune`: find the best setting of a model on the validation part, then score it once on test."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from sklearn.base import clone

from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.cache import Cache
from equipoise.evaluation.goal import BestSoFar, Goal, Limits
from equipoise.evaluation.plan import Grid, expand, plan
from equipoise.evaluation.runner import Run, evaluate
from equipoise.evaluation.task import Task, as_split
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import RANKING_METRICS, ItemGroups, Metric, Results
from equipoise.metrics.ranking import check_zero_division
from equipoise.metrics.results import write_table
from equipoise.models import Recommender
from equipoise.models.registry import find_model
from equipoise.progress import Progress
from equipoise.progress import task as progress_task

# Values in this range have scores that neither overflow nor vanish in float32.
_SMALL, _LARGE = 1e-15, 1e15


@dataclass(frozen=True)
class Trial:
    """One setting of a model and its scores on validation.

    Attributes
    ----------
    settings : mapping of str to value
        The parameters that were searched.
    scores : mapping of str to float
        The objective, the limited metrics and those of the trade-off.
    base : Recommender
        The unfitted model that the settings belong to.
    """

    settings: Mapping[str, Any]
    scores: Mapping[str, float]
    base: Recommender = field(compare=False, repr=False)

    def model(self) -> Recommender:
        """Return the unfitted model."""
        made: Recommender = clone(self.base).set_params(**self.settings)
        return made

    def row(self) -> dict[str, Any]:
        """Return one row of a table: settings, then scores; nan becomes None."""
        scores = {k: None if math.isnan(value) else value for k, value in self.scores.items()}
        return {**self.settings, **scores}


@dataclass(frozen=True)
class Tuning:
    """What `tune` returns.

    Attributes
    ----------
    trials : tuple of Trial
        Every setting that was tried.
    choice : Trial
        The best that meets the limits.
    frontier : tuple of Trial
        Those that no other beats in all targets at once, best objective first.
    goal : Goal
        What was searched for.
    test : Results or None
        The choice, refitted on train + validation, on the test part; None without a test part
        and after an interruption.
    complete : bool
        False after an interruption: the choice is the best of the trials until then.
    """

    trials: tuple[Trial, ...]
    choice: Trial
    frontier: tuple[Trial, ...]
    goal: Goal
    test: Results | None
    complete: bool = True

    def model(self) -> Recommender:
        """Return the chosen model, unfitted: ``tuning.model().fit(interactions)``."""
        return self.choice.model()

    def constructor(self) -> str:
        """Return the choice as a line of Python: what differs from the defaults."""
        model = self.model()
        default = type(model)().get_params(deep=False)
        values = {**self.choice.settings, **model.get_params(deep=False)}
        given = [
            f"{name}={value!r}"
            for name, value in values.items()
            if repr(value) != repr(default[name])
        ]
        return f"{type(model).__name__}({', '.join(given)})"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the trials that are not on the frontier, for JSON."""
        return {
            "complete": self.complete,
            "model": type(self.choice.base).__name__,
            "maximize": ("-" if self.goal.sign < 0 else "") + self.goal.target.label,
            "subject_to": [str(limit) for limit in self.goal.limits],
            "n_trials": len(self.trials),
            "choice": self.choice.row(),
            "frontier": [trial.row() for trial in self.frontier],
            "test": None if self.test is None else self.test.to_dicts(),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text; equal results give equal text."""
        return json.dumps(self.to_dict(), indent=1, default=str)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write every trial with a header; nan is empty."""
        rows = [trial.row() for trial in self.trials]
        write_table(path, list(dict.fromkeys(name for row in rows for name in row)), rows)


def tune(
    data: Interactions | Split,
    model: str | Recommender = "item-weighted",
    *,
    grid: Grid | None = None,
    maximize: str = "ndcg@20",
    subject_to: Limits | None = None,
    trade_off: Sequence[str] = ("aplt",),
    k: int = 20,
    test_metrics: Sequence[str | Metric] = (),
    groups: str | ItemGroups = "interactions",
    zero_division: float = np.nan,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Search the parameters of a model on the validation part.

    Models are fitted on train and look for the validation items. The test items are used once, by
    the choice, refitted on train + validation. Everything in the grid is tried. One fit of a PCA
    gives every smaller number of components and every spectral filter, and fits of Item-Weighted
    PCA along γ share XᵀX. The data may be in memory, on disk or on a cluster.

    Parameters
    ----------
    data : Split or Interactions
        Interactions are split like in the paper: see `equipoise.data.holdout`.
    model : str or Recommender
        A name as in ``equipoise models``, or an unfitted model, which keeps its own value of the
        parameters that are not in the grid.
    grid : mapping of str to sequence, or list of such mappings; optional
        Values of the model's parameters, of which every combination is tried. By default the
        model's own search space (`search_space`).
    maximize : str
        ``name[@k][:convention][/group]``, e.g. ``"recall@10"`` or ``"group_recall/niche"``; a
        leading minus minimizes.
    subject_to : mapping of str to (str, float), optional
        Limits, e.g. ``{"aplt": (">=", 0.3), "item_auc/niche": (">=", 0.9)}``.
    trade_off : sequence of str
        Metrics (more is better) that the frontier weighs against the objective.
    k : int
        Cut-off of the metrics without their own.
    test_metrics : sequence of str or Metric
        What to measure on test, in addition to the ranking metrics and the targets of the search.
    groups, zero_division, cache, progress
        As in `evaluate`.

    Examples
    --------
    >>> from equipoise.data import synthetic
    >>> data = synthetic.scale(200, 40, 1500)
    >>> grid = {"gamma": [0.0, -1.0], "n_components": [2, 4, 8]}
    >>> tuning = tune(data, grid=grid, maximize="recall@5")
    >>> len(tuning.trials), tuning.test.row("recall@5").n <= 200
    (6, True)
    >>> tuning.model().gamma == tuning.choice.settings["gamma"]
    True
    >>> tune(data, "pca", grid={"n_components": [2, 4]}).constructor()
    'VanillaPCA(n_components=2)'
    """
    check_zero_division(zero_division)
    split = as_split(data)
    goal = Goal.parse(maximize, subject_to, trade_off, k)
    task = Task.of(split, "validation", groups)
    base = find_model(model).make() if isinstance(model, str) else model
    space = base.search_space(task.fitted) if grid is None else grid
    stored = None if cache is None else Cache(cache)
    trials, complete = search(task, base, space, goal, zero_division, stored, progress)
    table = [trial.scores for trial in trials]
    choice = trials[goal.best(table)]
    frontier = tuple(trials[i] for i in goal.frontier(table))
    test = None
    if complete and split.test.nnz:
        targets = [target.request.label for target in goal.targets]
        test = evaluate(
            split,
            {"tuned": choice.model()},
            grid={name: [value] for name, value in choice.settings.items()},
            metrics=[*dict.fromkeys([*RANKING_METRICS, *targets, *test_metrics])],
            k=k,
            groups=groups,
            zero_division=zero_division,
            per_user=True,
            cache=cache,
            progress=progress,
        )
    return Tuning(tuple(trials), choice, frontier, goal, test, complete)


def search(
    task: Task,
    base: Recommender,
    grid: Grid,
    goal: Goal,
    zero_division: float = np.nan,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> tuple[list[Trial], bool]:
    """Try every setting of a grid on a task.

    Returns
    -------
    list of Trial
        In the order of the grid.
    bool
        False after an interruption: the trials until then are returned. An interruption before
        the first trial is passed on.
    """
    settings = expand(grid)
    _refuse_item_metrics(base, goal)
    fits = plan({type(base).__name__: base.for_search()}, grid, task.n_items)
    found: dict[int, Mapping[str, float]] = {}
    best = BestSoFar(goal)
    complete = True
    with progress_task(progress, "Tuning", len(fits)) as tuning:
        requests = tuple({target.request.label: target.request for target in goal.targets}.values())
        run = Run(
            task,
            requests,
            zero_division,
            single_precision=_SMALL <= task.seen.largest_value() <= _LARGE,
            cache=cache,
            progress=tuning,
        )
        try:
            for fit, scored in run.scored(fits):
                table = [
                    {target.label: target.read(one.rows) for target in goal.targets}
                    for one in scored
                ]
                found |= zip(fit.positions, table, strict=True)
                best.add(table)
                tuning.note(str(best))
                tuning.advance()
        except KeyboardInterrupt:
            if not found:
                raise
            complete = False
    return [Trial(settings[place], found[place], base) for place in sorted(found)], complete


def _refuse_item_metrics(base: Recommender, goal: Goal) -> None:
    """Refuse a goal that needs components where the model has none."""
    for target in goal.targets:
        if target.request.metric.is_item_side and base.nested_parameter is None:
            raise InvalidParameterError(
                f"{target.label} needs a projection (one of the PCAs), which "
                f"{type(base).__name__} is not. Choose a metric of its lists, e.g. ndcg@20 or "
                "group_recall/niche."
            )

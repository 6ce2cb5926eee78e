"""`tune`: find the best setting of a model on the validation part, then score it once on test."""

from __future__ import annotations

import json
import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise import defaults
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.display import Displayed, Shown
from equipoise.evaluation.cache import Cache
from equipoise.evaluation.closeness import Shift, validation_shift
from equipoise.evaluation.goal import Goal, Limits
from equipoise.evaluation.plan import Grid, KeptFits, expand, plan
from equipoise.evaluation.runner import Run, evaluate
from equipoise.evaluation.task import Task, as_split
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import RANKING_METRICS, ItemGroups, Metric, Results
from equipoise.metrics.ranking import check_zero_division
from equipoise.metrics.results import write_table
from equipoise.models import Recommender
from equipoise.models.estimator import clone
from equipoise.models.pca.projection import ProjectionModel
from equipoise.models.registry import find_model
from equipoise.progress import Progress
from equipoise.progress import task as progress_task

if TYPE_CHECKING:
    import polars as pl

# Settings of the frontier in a table.
_MOST_SHOWN = 10

# Grids of a search; it is sent the best settings after each.
Steps = Generator[Grid, dict[str, Any], None]

# Scores per setting of a search: about as many as a fit takes time for. Where all users need more,
# a sample of them is scored, but at least of the second size.
_SCORES, _FEWEST_USERS = 10**8, 2_000

# Settings that are compared on more users after a search on a sample, and how many times as many.
# On Gowalla, the best settings differ by about their standard errors on 3,000 users.
_FINALISTS, _FINAL_USERS = 3, 5


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
        return clone(self.base).set_params(**self.settings)

    def row(self) -> dict[str, Any]:
        """Return one row of a table: settings, then scores; nan becomes None."""
        scores = {k: None if math.isnan(value) else value for k, value in self.scores.items()}
        return {**self.settings, **scores}


@dataclass(frozen=True, repr=False)
class Tuning(Displayed):
    """What `tune` returns.

    Attributes
    ----------
    trials : tuple of Trial
        Every setting that was tried.
    choice : Trial
        The best that meets the limits.
    frontier : tuple of Trial
        Those that no other beats in all targets at once, best objective first; scored on the same
        users as the choice.
    goal : Goal
        What was searched for.
    test : Results or None
        The choice, refitted on train + validation, on the test part; None without a test part
        and after an interruption.
    complete : bool
        False after an interruption: the choice is the best of the trials until then.
    shift : Shift or None
        How close validation and test items are to the training items: where they differ, the
        choice may not suit the test part. See `validation_shift`.
    """

    trials: tuple[Trial, ...]
    choice: Trial
    frontier: tuple[Trial, ...]
    goal: Goal
    test: Results | None
    complete: bool = True
    shift: Shift | None = None

    def __repr__(self) -> str:
        label = self.goal.target.label
        return (
            f"Tuning({self.constructor()}: {label} {self.choice.scores[label]:.4f} on validation, "
            f"best of {len(self.trials):,} settings)"
        )

    def to_polars(self) -> pl.DataFrame:
        """Return every trial as a row of a polars data frame: settings, then scores."""
        import polars as pl

        return pl.DataFrame([trial.row() for trial in self.trials], strict=False)

    def table(self) -> Shown:
        """Return the choice and the frontier, whose settings may have different names."""
        trials = (self.choice, *self.frontier[:_MOST_SHOWN])
        settings = dict.fromkeys(name for trial in trials for name in trial.settings)
        columns = [*settings, *self.choice.scores]
        rows = [dict.fromkeys(settings, "–") | trial.row() for trial in trials]
        marked = [
            (
                "" if place else "choice",
                *(str(v) if v is None else v for v in map(row.get, columns)),
            )
            for place, row in enumerate(rows)
        ]
        title = f"Best of {len(self.trials):,} settings on validation, and the frontier"
        return Shown(title, ["", *columns], marked)

    def _shown(self) -> Shown:
        return self.table()._replace(title=repr(self))

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
            # parameters of a model inside are part of that model
            if name in default and repr(value) != repr(default[name])
        ]
        return f"{type(model).__name__}({', '.join(given)})"

    def edges(self) -> dict[str, float]:
        """Return the chosen numbers that are the smallest or largest tried, by parameter.

        A better value may be beyond them. A value of 0, which switches its parameter off, is left
        out.
        """
        return {name: v for name, v in self.choice.settings.items() if v and self._is_edge(name, v)}

    def _is_edge(self, name: str, value: Any) -> bool:
        tried = {trial.settings.get(name) for trial in self.trials}
        numbers = [v for v in tried if isinstance(v, int | float) and not isinstance(v, bool)]
        return len(numbers) > 1 and value in (min(numbers), max(numbers))

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
            "shift": None if self.shift is None else _shift_to_dict(self.shift),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text; equal results give equal text."""
        return json.dumps(self.to_dict(), indent=1, default=str)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write every trial with a header; nan is empty."""
        rows = [trial.row() for trial in self.trials]
        write_table(path, list(dict.fromkeys(name for row in rows for name in row)), rows)


def _shift_to_dict(shift: Shift) -> dict[str, Any]:
    parts = {name: one._asdict() for name, one in shift._asdict().items()}
    return {**parts, "differs": shift.differs}


def tune(
    data: Interactions | Split,
    model: str | Recommender = defaults.MODEL,
    *,
    grid: Grid | Steps | None = None,
    maximize: str = defaults.MAXIMIZE,
    subject_to: Limits | None = None,
    trade_off: Sequence[str] = defaults.TRADE_OFF,
    k: int = defaults.MEASURED_K,
    test_metrics: Sequence[str | Metric] = (),
    groups: str | ItemGroups = defaults.GROUPS,
    zero_division: float = defaults.ZERO_DIVISION,
    users: int | None = None,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Search the parameters of a model on the validation part.

    Models are fitted on train and look for the validation items. The test items are used once, by
    the choice, refitted on train + validation. Everything in the grid is tried. One fit of a PCA
    gives every smaller number of components and every spectral filter, and fits of Item-Weighted
    PCA along γ share XᵀX. Floors that cannot be met are left out. The data may be in memory, on
    disk or on a cluster.

    Parameters
    ----------
    data : Split or Interactions
        Interactions are split by the defaults of `equipoise.data.holdout`.
    model : str or Recommender
        A name as in ``equipoise models``, or an unfitted model, which keeps its own value of the
        parameters that are not in the grid.
    grid : mapping of str to sequence, list of such mappings, or generator of them; optional
        Values of the model's parameters, of which every combination is tried. A generator is sent
        the best settings after each of its steps. By default `search_steps` of the model.
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
    users : int, optional
        Score at most this many users on validation, drawn at random from those with held-out
        items. The three best settings and the frontier are then scored on five times as many, and
        the choice and the frontier are those of these scores. By default all users up to 10⁸ scores
        (users × items) or if there are limits, otherwise as many as that gives, at least 2,000. All
        users count on test.
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
    stored = None if cache is None else Cache(cache)
    steps = base.search_steps(task.fitted) if grid is None else _as_steps(grid)
    if users is None and not goal.limits:
        users = max(_FEWEST_USERS, _SCORES // task.n_items)
    few, more = (task, task) if users is None else map(task.sample, (users, _FINAL_USERS * users))
    options = (zero_division, stored, progress, KeptFits())
    trials, complete = _search_steps(few, base, steps, goal, *options)
    finalists = trials
    if few.seen.n_users < more.seen.n_users and complete:
        table = [trial.scores for trial in trials]
        order = sorted(range(len(trials)), key=lambda i: -goal.objective(table[i]))
        best = dict.fromkeys([*order[:_FINALISTS], *goal.frontier(table)])
        grids = [_alone(trials[i].settings) for i in best]
        finalists, complete = search(more, base, grids, goal, *options)
    table = [trial.scores for trial in finalists]
    choice = finalists[goal.best(table)]
    frontier = tuple(finalists[i] for i in goal.frontier(table))
    test = None
    if complete and split.test.nnz:
        targets = [target.request.label for target in goal.targets]
        test = evaluate(
            split,
            {"tuned": choice.model()},
            grid=_alone(choice.settings),
            metrics=[*dict.fromkeys([*RANKING_METRICS, *targets, *test_metrics])],
            k=k,
            groups=groups,
            zero_division=zero_division,
            per_user=True,
            cache=cache,
            progress=progress,
        )
    shift = validation_shift(split) if split.test.nnz else None
    return Tuning(tuple(trials), choice, frontier, goal, test, complete, shift)


def _alone(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the grid of one setting."""
    return {name: [value] for name, value in settings.items()}


def _as_steps(grid: Grid | Steps) -> Steps:
    if isinstance(grid, Generator):
        yield from grid
    else:
        yield grid


def _search_steps(
    task: Task,
    base: Recommender,
    steps: Steps,
    goal: Goal,
    *options: Any,
) -> tuple[list[Trial], bool]:
    """Search one grid after the other; each may depend on the best settings before it."""
    trials: list[Trial] = []
    grid = next(steps)
    while True:
        tried = [trial.settings for trial in trials]
        new = [_alone(one) for one in expand(grid) if one not in tried]
        best_so_far = goal.best_so_far(trial.scores for trial in trials)
        name = f"Tuning, {best_so_far}" if trials else "Tuning"
        try:
            found, complete = (
                search(task, base, new, goal, *options, name=name) if new else ([], True)
            )
        except KeyboardInterrupt:
            if not trials:
                raise
            return trials, False
        trials += found
        if not complete:
            return trials, False
        best = max(trials, key=lambda trial: goal.objective(trial.scores))
        try:
            grid = steps.send(dict(best.settings))
        except StopIteration:
            return trials, True


def search(
    task: Task,
    base: Recommender,
    grid: Grid,
    goal: Goal,
    zero_division: float = np.nan,
    cache: Cache | None = None,
    progress: Progress | None = None,
    kept: KeptFits | None = None,
    *,
    name: str = "Tuning",
) -> tuple[list[Trial], bool]:
    """Try every setting of a grid on a task; `name` is shown with the progress.

    Fits in `kept`, of the same training data, are used again.

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
    complete = True
    with progress_task(progress, name, len(fits)) as tuning:
        requests = tuple({target.request.label: target.request for target in goal.targets}.values())
        run = Run(
            task,
            requests,
            zero_division,
            searching=True,
            cache=cache,
            kept=kept or KeptFits(0),
            progress=tuning,
        )
        try:
            for fit, scored in run.scored(fits):
                table = [
                    {target.label: target.read(one.rows) for target in goal.targets}
                    for one in scored
                ]
                if table:  # empty for settings that cannot be met
                    found |= zip(fit.positions, table, strict=True)
                    tuning.note(goal.best_so_far(found.values()))
                tuning.advance()
        except KeyboardInterrupt:
            if not found:
                raise
            complete = False
    if not found:
        raise InvalidParameterError(
            "no setting of the grid can be met: lower the floors, or allow more components."
        )
    return [Trial(settings[place], found[place], base) for place in sorted(found)], complete


def _refuse_item_metrics(base: Recommender, goal: Goal) -> None:
    """Refuse a goal that needs components where the model has none."""
    for target in goal.targets:
        nested = isinstance(base, ProjectionModel) and base.nested_parameter is not None
        if target.request.metric.is_item_side and not nested:
            raise InvalidParameterError(
                f"{target.label} needs a projection (one of the PCAs), which "
                f"{type(base).__name__} is not. Choose a metric of its lists, e.g. ndcg@20 or "
                "group_recall/niche."
            )

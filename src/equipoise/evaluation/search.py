"""A search over the parameters of any model: every combination of a grid, fitted and scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import scipy.sparse as sp
from sklearn.base import clone

from equipoise.evaluation.goal import BestSoFar, Goal
from equipoise.evaluation.grid import default_transforms
from equipoise.evaluation.jobs import default_ranks, has_rank
from equipoise.evaluation.results import Results
from equipoise.evaluation.trials import Trial
from equipoise.exceptions import InvalidParameterError
from equipoise.models import Recommender
from equipoise.models.projection import ProjectionModel
from equipoise.models.registry import BY_CLASS
from equipoise.progress import Progress, task

Space = dict[str, tuple[Any, ...]]

_RANK = "n_components"


def search_space(
    base: Recommender,
    grid: Mapping[str, Sequence[Any]] | None,
    ranks: Sequence[int] | None,
    train: sp.csr_array,
) -> Space:
    """The values to try of each parameter: those given, or the model's defaults for this data.

    Parameters
    ----------
    base : Recommender
        The model; what the grid leaves out keeps its value.
    grid : mapping of str to sequence, optional
        By default the registry's, without ranks above the number of items, and with every value
        transform where the model has them and values differ.
    ranks : sequence of int, optional
        Short for ``n_components`` in the grid.
    train : csr_array
        The data.
    """
    space = _default_space(base, train) if grid is None else {k: tuple(v) for k, v in grid.items()}
    if ranks is not None:
        space[_RANK] = tuple(ranks)
    known = base.get_params(deep=False)
    for name, values in space.items():
        if name not in known:
            raise InvalidParameterError(
                f"{type(base).__name__} has no parameter {name!r} to search. "
                f"It has: {', '.join(known)}."
            )
        if not values:
            raise InvalidParameterError(f"the search has no values of {name}: give at least one.")
    return space


def _default_space(base: Recommender, train: sp.csr_array) -> Space:
    name = type(base).__name__
    if name not in BY_CLASS:
        raise InvalidParameterError(
            f"{name} has no search space of its own. Pass grid={{parameter: [values, …]}}."
        )
    space: Space = dict(BY_CLASS[name].search)
    if _RANK in space:
        space[_RANK] = default_ranks(train.shape[1], space[_RANK])
    transforms = default_transforms(train)
    if "value_transform" in base.get_params(deep=False) and len(transforms) > 1:
        space["value_transform"] = transforms
    return space


def search(
    base: Recommender,
    space: Space,
    goal: Goal,
    evaluate: Callable[..., Results],
    progress: Progress | None = None,
) -> tuple[list[Trial], bool]:
    """Try every combination; return the trials in the order of the grid, and whether they are all.

    Parameters
    ----------
    base : Recommender
        The model.
    space : mapping of str to tuple
        Of `search_space`.
    goal : Goal
        What to read off each trial.
    evaluate : callable
        `equipoise.evaluation.evaluate` on the validation part: it fits, caches and is
        interrupted; it is called with models, ranks, metrics and progress.
    progress : Progress, optional
        Receives one step per setting, with the best result so far.
    """
    _check_targets(base, goal)
    names = [name for name in space if name != _RANK]
    settings = [
        dict(zip(names, values, strict=True)) for values in product(*(space[n] for n in names))
    ]
    models = {
        _label(base, setting, i, len(settings)): clone(base).set_params(**setting)
        for i, setting in enumerate(settings)
    }
    by_label = dict(zip(models, settings, strict=True))
    metrics = [target.spec.label for target in goal.targets]
    trials: list[Trial] = []
    complete, best = True, BestSoFar(goal)
    with task(progress, "Tuning", len(models)) as tuning:
        for label, model in models.items():
            results = evaluate(
                {label: model}, ranks=_ranks(base, space), metrics=metrics, progress=tuning
            )
            found = list(_trials(results, base, by_label[label], space, goal))
            trials += found
            complete = results.complete
            if not complete:
                break
            best.add(trial.scores for trial in found)
            tuning.note(str(best))
            tuning.advance()
    if not trials:  # interrupted before the first score
        raise KeyboardInterrupt
    return trials, complete


def _trials(
    results: Results, base: Recommender, setting: Mapping[str, Any], space: Space, goal: Goal
) -> Iterator[Trial]:
    """Read one trial per rank off the results of one setting."""
    for rank, rows in groupby(results, key=lambda row: row.rank):
        measures = list(rows)
        scores = {target.label: target.read(measures) for target in goal.targets}
        tried = {name: rank if name == _RANK else setting[name] for name in space}
        yield Trial(tried, scores, base)


def _ranks(base: Recommender, space: Space) -> tuple[int, ...] | None:
    if not has_rank(base):
        return None
    own: int = base.get_params(deep=False)[_RANK]
    return space.get(_RANK, (own,))


def _label(base: Recommender, setting: Mapping[str, Any], position: int, total: int) -> str:
    """Numbered, because two long arrays may look the same."""
    shown = ", ".join(f"{name}={value!r}" for name, value in setting.items())
    return f"{type(base).__name__} {position + 1}/{total}" + (f" ({shown})" if shown else "")


def _check_targets(base: Recommender, goal: Goal) -> None:
    for target in goal.targets:
        if target.spec.is_item_side and not isinstance(base, ProjectionModel):
            raise InvalidParameterError(
                f"{target.label} is a number of projections (the PCAs); {type(base).__name__} is "
                "none. Choose a metric of its lists, e.g. ndcg@20 or group_recall/low."
            )

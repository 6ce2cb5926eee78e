"""A search over the parameters of any model: every combination of a grid, fitted and scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import scipy.sparse as sp
from sklearn.base import clone

from equipoise.evaluation.goal import Goal
from equipoise.evaluation.grid import default_transforms
from equipoise.evaluation.jobs import default_ranks, has_rank
from equipoise.evaluation.results import Results
from equipoise.evaluation.trials import Trial
from equipoise.exceptions import InvalidParameterError
from equipoise.models import Recommender
from equipoise.models.projection import ProjectionModel
from equipoise.models.registry import BY_CLASS

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
    base: Recommender, space: Space, goal: Goal, evaluate: Callable[..., Results]
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
        `equipoise.evaluation.evaluate` on the validation part: it fits, caches, reports progress
        and is interrupted; it is called with models, ranks and metrics.
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
    results = evaluate(
        models,
        ranks=_ranks(base, space),
        metrics=[target.spec.label for target in goal.targets],
    )
    trials = []
    for (label, rank), rows in groupby(results, key=lambda row: (row.model, row.rank)):
        measures = list(rows)
        scores = {target.label: target.read(measures) for target in goal.targets}
        tried = {name: rank if name == _RANK else by_label[label][name] for name in space}
        trials.append(Trial(tried, scores, base))
    if not trials:  # interrupted before the first score
        raise KeyboardInterrupt
    return trials, results.complete


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

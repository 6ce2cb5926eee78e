"""`equipoise tune DATA`: the best setting of a model for this data, chosen on validation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

from equipoise.cli import console
from equipoise.cli.options import (
    Cutoff,
    Data,
    DataOptions,
    GridOptions,
    Groups,
    SplitOptions,
    TableOptions,
    ZeroDivision,
    option,
    show_value,
    words,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from equipoise.data import Split
    from equipoise.evaluation import Trial, Tuning

_LIMIT = re.compile(r"\s*([^<>=\s]+)\s*(>=|<=|>|<)\s*(\S+)\s*")
_TUNE = "equipoise.evaluation:tune"


def tune(
    data: Data,
    reading: DataOptions,
    splitting: SplitOptions,
    results_to: TableOptions,
    k: Cutoff,
    groups: Groups,
    zero_division: ZeroDivision,
    trying: GridOptions,
    model: Annotated[
        str, option("Name from equipoise models.", "NAME", default_of=f"{_TUNE}.model")
    ],
    maximize: Annotated[
        str,
        option(
            "A metric, e.g. recall@10 or item_auc/niche; a leading - minimizes.",
            "METRIC",
            default_of=f"{_TUNE}.maximize",
        ),
    ],
    subject_to: Annotated[
        list[str] | None, option("A limit, e.g. 'aplt>=0.3'; may be repeated.", "METRIC>=NUMBER")
    ] = None,
    trade_off: Annotated[str, option("Metrics that the frontier compares.", "METRICS")] = "aplt",
) -> int:
    """Choose the parameters of a model, by default Item-Weighted PCA, on validation data.

    The choice is scored once on test data.
    """
    from equipoise import evaluation

    results_to.check(reading.files(data))
    limits = dict(_limit(text) for text in subject_to or [])
    axes = trying.axes()
    split = splitting.split(reading.read(data))
    _refuse_empty_validation(split, splitting.validation)
    tuning = evaluation.tune(
        split,
        model,
        grid=_grid(model, split, axes, whole=trying.grid is not None),
        maximize=maximize,
        subject_to=limits,
        trade_off=words(trade_off),
        k=k,
        groups=groups,
        zero_division=zero_division,
        cache=results_to.cache,
        progress=console.progress(),
    )
    if results_to.csv is not None:
        tuning.write_csv(results_to.csv)
    if results_to.plot is not None:
        from equipoise.evaluation.plot import plot_tuning

        plot_tuning(tuning, results_to.plot)
    if results_to.as_json:
        console.write(tuning.to_json())
    else:
        _print(tuning)
    return 0 if tuning.complete else results_to.interrupted(len(tuning.trials))


def _print(tuning: Tuning) -> None:
    targets = [target.label for target in tuning.goal.targets]
    columns = ("", *_shown(tuning.choice), *targets)
    table = console.new_table(
        *columns,
        right=set(columns) - {""},
        title=f"Best of {len(tuning.trials)} settings on validation, and the frontier",
    )
    for mark, trial in [("choice", tuning.choice), *(("", t) for t in tuning.frontier[:10])]:
        scores = (f"{trial.scores[target]:.4f}" for target in targets)
        table.add_row(mark, *_shown(trial).values(), *scores)
    console.out.print(table)
    if tuning.test is not None:
        for row in tuning.test.select(group="all"):
            text = f"{row.value:.4f}"
            if row.per_user is not None and row.n > 1:
                text = str(tuning.test.interval(row))
            console.out.print(f"test {row.name:<14}{text}", highlight=False, markup=False)
    console.out.print(f"\n{tuning.constructor()}", highlight=False, markup=False, soft_wrap=True)


def _shown(trial: Trial) -> dict[str, str]:
    return {name: show_value(value) for name, value in trial.settings.items()}


def _grid(
    model: str, split: Split, axes: dict[str, list[Any]], *, whole: bool
) -> list[dict[str, Any]] | None:
    """Return --grid; without it, the model's search space with --ranks and --gammas."""
    from equipoise.models.registry import find_model

    if whole or not axes:
        return [axes] if axes else None
    return [{**space, **axes} for space in find_model(model).make().search_space(split.train)]


def _refuse_empty_validation(split: Split, validation: float) -> None:
    if split.validation.nnz == 0:
        raise InvalidDataError(
            f"--validation {validation:g} leaves nothing to tune on: users have too few items for "
            "that share. Use a larger share, e.g. --validation 0.2, or drop users with few items "
            "(--min-items-per-user)."
        )


def _limit(text: str) -> tuple[str, tuple[str, float]]:
    found = _LIMIT.fullmatch(text)
    try:
        if found is None:
            raise ValueError(text)
        return found[1], (found[2], float(found[3]))
    except ValueError:
        raise InvalidParameterError(
            f"--subject-to takes METRIC>=NUMBER (or <=, >, <), e.g. 'aplt>=0.3', got {text!r}."
        ) from None

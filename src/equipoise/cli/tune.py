"""`equipoise tune DATA`: the best setting of a model for this data, chosen on validation."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli import options as shared
from equipoise.exceptions import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from equipoise.data import Split
    from equipoise.evaluation import Trial, Tuning

_LIMIT = re.compile(r"\s*([^<>=\s]+)\s*(>=|<=|>|<)\s*(\S+)\s*")


def tune(
    data: shared.Data,
    model: Annotated[str, typer.Option(help="As `equipoise models` lists it.")] = "item-weighted",
    grid: Annotated[
        list[str] | None,
        typer.Option(help="What to try, e.g. regularization=100,500; may be repeated."),
    ] = None,
    maximize: Annotated[
        str,
        typer.Option(help="A metric, e.g. recall@10 or item_auc/niche; a leading - minimizes."),
    ] = "ndcg@20",
    subject_to: Annotated[
        list[str] | None, typer.Option(help="A limit, e.g. 'aplt>=0.3'; may be repeated.")
    ] = None,
    trade_off: Annotated[str, typer.Option(help="What the frontier weighs it against.")] = "aplt",
    ranks: Annotated[str | None, typer.Option(help="Default: 4 to 128.")] = None,
    gammas: Annotated[
        str | None, typer.Option(help="Of item-weighted, as the next three; default: 0 to -2.")
    ] = None,
    filters: Annotated[
        str | None, typer.Option(help="E.g. hard,power:0.25,ridge:0.1.", metavar="LIST")
    ] = None,
    user_scalings: Annotated[str | None, typer.Option(help="Default: 0,0.25,0.5,0.75.")] = None,
    value_transforms: Annotated[
        str | None, typer.Option(help="Of none, binary, log1p, one_plus; default: by the data.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Cut-off of metrics that name none.", min=1)] = 20,
    user: shared.User = None,
    item: shared.Item = None,
    value: shared.Value = None,
    timestamp: shared.Timestamp = None,
    delimiter: shared.Delimiter = None,
    file_format: shared.Format = None,
    query: shared.Query = None,
    min_items_per_user: shared.MinItems = 0,
    min_users_per_item: shared.MinUsers = 0,
    binarize: shared.Binarize = False,
    normalize_rows: shared.Normalize = False,
    method: shared.Method = "per_user_random",
    test: shared.TestShare = 0.2,
    validation: shared.ValidationShare = 0.1,
    seed: shared.Seed = 1024,
    groups: shared.Groups = "interactions",
    zero_division: shared.ZeroDivision = math.nan,
    cache: shared.Folder = None,
    as_json: shared.AsJson = False,
    csv: shared.Csv = None,
    plot: shared.Plot = None,
) -> int:
    """Choose the parameters of a model, by default Item-Weighted PCA, on validation.

    The choice is scored once on test.
    """
    from equipoise import evaluation

    shared.check_table_paths(data, file_format, cache, csv, plot, as_json)
    axes = {
        "n_components": None if ranks is None else shared.integers(ranks, "--ranks"),
        "gamma": None if gammas is None else shared.numbers(gammas, "--gammas"),
        "user_scaling": None
        if user_scalings is None
        else shared.numbers(user_scalings, "--user-scalings"),
        "value_transform": None
        if value_transforms is None
        else [None if word == "none" else word for word in shared.words(value_transforms)],
    }
    kinds = [shared.spectral_filter(f, "--filters") for f in shared.words(filters or "")]
    limits = dict(_limit(text) for text in subject_to or [])
    interactions = shared.read(data, user, item, value, timestamp, file_format, query, delimiter)
    interactions = shared.prepare(
        interactions, min_items_per_user, min_users_per_item, binarize, normalize_rows
    )
    split = shared.hold_out(interactions, method, test, validation, seed)
    _refuse_empty_validation(split, validation)
    tuning = evaluation.tune(
        split,
        model,
        grid=_grid(model, split, grid, axes, kinds),
        maximize=maximize,
        subject_to=limits,
        trade_off=shared.words(trade_off),
        k=k,
        groups=groups,
        zero_division=zero_division,
        cache=cache,
        progress=console.progress(),
    )
    if csv is not None:
        tuning.write_csv(csv)
    if plot is not None:
        from equipoise.evaluation.plot import plot_tuning

        plot_tuning(tuning, plot)
    if as_json:
        console.write(tuning.to_json())
    else:
        _print(tuning)
    return 0 if tuning.complete else shared.interrupted(len(tuning.trials), cache)


def _print(tuning: Tuning) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    targets = [target.label for target in tuning.goal.targets]
    table = Table(
        box=SIMPLE_HEAD,
        title=f"Best of {len(tuning.trials)} settings on validation, and the frontier",
    )
    for name in ("", *_shown(tuning.choice), *targets):
        table.add_column(name, justify="left" if name == "" else "right")
    for mark, trial in [("choice", tuning.choice), *(("", t) for t in tuning.frontier[:10])]:
        scores = (f"{trial.scores[target]:.4f}" for target in targets)
        table.add_row(mark, *_shown(trial).values(), *scores)
    console.out.print(table)
    if tuning.test is not None:
        for row in tuning.test.select(group="all"):
            name = row.name
            text = f"{row.value:.4f}"
            if row.per_user is not None and row.n > 1:
                text = str(tuning.test.interval(row))
            console.out.print(f"test {name:<14}{text}", highlight=False, markup=False)
    console.out.print(f"\n{tuning.constructor()}", highlight=False, markup=False, soft_wrap=True)


def _shown(trial: Trial) -> dict[str, str]:
    """Return the settings of a trial by the heads of their columns."""
    return {name: _word(value) for name, value in trial.settings.items()}


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _grid(
    model: str,
    split: Split,
    given: list[str] | None,
    axes: dict[str, list[Any] | None],
    filters: list[tuple[str, float]],
) -> list[dict[str, Any]]:
    """Return --grid, or the model's search space, with the axes that other options set."""
    from equipoise.models.registry import find_model

    base = find_model(model).make()
    own = dict(_axis(text) for text in given or [])
    space: list[dict[str, Any]]
    space = [own] if given is not None else [*base.search_space(split.train)]
    if filters:
        rest = {k: v for k, v in space[0].items() if k not in base.free_parameters}
        space = [
            {**rest, "spectral_filter": (kind,), "filter_strength": (strength,)}
            for kind, strength in filters
        ]
    set_axes = {name: tuple(values) for name, values in axes.items() if values is not None}
    return [{**one, **set_axes} for one in space]


def _axis(text: str) -> tuple[str, list[Any]]:
    name, given, values = text.partition("=")
    if not given or not name.strip() or not shared.words(values):
        raise InvalidParameterError(
            f"--grid takes PARAMETER=VALUE,VALUE,…, e.g. regularization=100,500, got {text!r}."
        )
    return name.strip(), [shared.plain_value(word) for word in shared.words(values)]


def _refuse_empty_validation(split: Split, validation: float) -> None:
    if split.validation.nnz == 0:
        raise InvalidDataError(
            f"--validation {validation:g} leaves nothing to tune on: users have too few items for "
            "that share. Hold out a larger one, e.g. --validation 0.2, or leave out users with few "
            "items (--min-items-per-user)."
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

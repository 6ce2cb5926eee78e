"""`equipoise evaluate DATA`: models × ranks × metrics on held-out interactions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli import console
from equipoise.cli.options import (
    AsJson,
    Binarize,
    Csv,
    Data,
    Delimiter,
    Folder,
    Format,
    Groups,
    Item,
    Method,
    MinItems,
    MinUsers,
    Normalize,
    Plot,
    Query,
    Seed,
    TestShare,
    Timestamp,
    User,
    ValidationShare,
    Value,
    ZeroDivision,
    check_table_paths,
    hold_out,
    integers,
    interrupted,
    numbers,
    prepare,
    read,
    words,
)
from equipoise.exceptions import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.data import Interactions
    from equipoise.evaluation import Cost, Result, Results
    from equipoise.evaluation.plan import Model

# As many as fit beside the models' names on 80 columns.
_RANKS_ACROSS = 6


def evaluate(
    data: Data,
    models: Annotated[
        str, typer.Option(help="Names as `equipoise models` lists them, or all.")
    ] = "pca,normalized,item-weighted",
    ranks: Annotated[str | None, typer.Option(help="E.g. 8,16,32; default: 4 to 128.")] = None,
    gammas: Annotated[str, typer.Option(help="Of Item-Weighted PCA, e.g. -1,-0.5.")] = "-1",
    metrics: Annotated[
        str | None, typer.Option(help=r"name\[@k]\[:convention], e.g. ndcg,recall@10,item_auc.")
    ] = None,
    k: Annotated[str, typer.Option("-k", help="Cut-offs of metrics that name none.")] = "20",
    item_sample: Annotated[
        int | None, typer.Option(help="Item AUC and precision of so many items.", min=1)
    ] = None,
    user: User = None,
    item: Item = None,
    value: Value = None,
    timestamp: Timestamp = None,
    delimiter: Delimiter = None,
    file_format: Format = None,
    query: Query = None,
    min_items_per_user: MinItems = 0,
    min_users_per_item: MinUsers = 0,
    binarize: Binarize = False,
    normalize_rows: Normalize = False,
    method: Method = "per_user_random",
    test: TestShare = 0.2,
    validation: ValidationShare = 0.1,
    seed: Seed = 1024,
    groups: Groups = "interactions",
    zero_division: ZeroDivision = math.nan,
    cache: Folder = None,
    costs: Annotated[
        bool, typer.Option("--costs", help="Show seconds, memory and size of every fit too.")
    ] = False,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> int:
    """Score models, by default the three PCAs, at many ranks on held-out interactions."""
    from equipoise import evaluation

    check_table_paths(data, file_format, cache, csv, plot, as_json)
    chosen = named_models(models)
    chosen_ranks = None if ranks is None else integers(ranks, "--ranks")
    exponents, cutoffs = numbers(gammas, "--gammas"), integers(k, "-k")
    measured = evaluation.DEFAULT_METRICS if metrics is None else words(metrics)
    interactions = read(data, user, item, value, timestamp, file_format, query, delimiter)
    interactions = prepare(
        interactions, min_items_per_user, min_users_per_item, binarize, normalize_rows
    )
    split = hold_out(interactions, method, test, validation, seed)
    results = evaluation.evaluate(
        split,
        chosen,
        grid=_grid(chosen, interactions, chosen_ranks, exponents),
        metrics=measured,
        k=cutoffs,
        groups=groups,
        zero_division=zero_division,
        item_sample=item_sample,
        cache=cache,
        progress=console.progress(),
    )
    if csv is not None:
        results.write_csv(csv)
    if plot is not None and results.rows:
        from equipoise.evaluation.plot import plot_results

        plot_results(results, plot)
    if as_json:
        console.write(results.to_json(costs=costs))
    else:
        _print(results)
        if costs:
            console.out.print(_cost_table(results.costs))
    return 0 if results.complete else interrupted(len(results), cache)


def _grid(
    models: Mapping[str, Model],
    interactions: Interactions,
    ranks: Sequence[int] | None,
    gammas: Sequence[float],
) -> dict[str, Sequence[float]]:
    """Return --gammas and --ranks, for models that have them."""
    from equipoise.models.base import Recommender, possible_sizes

    grid = {
        "gamma": gammas,
        "n_components": possible_sizes(interactions.n_items) if ranks is None else ranks,
    }
    each = [one for one in models.values() if isinstance(one, Recommender)]
    known = {name for model in each for name in model.get_params(deep=False)}
    return {name: values for name, values in grid.items() if name in known}


def _print(results: Results) -> None:
    """One table for every few ranks: metrics and models down, ranks across."""
    rows = results.select(group="all").rows
    ranks = sorted({_rank(row) for row in rows}, key=lambda rank: rank or 0)
    for start in range(0, len(ranks), _RANKS_ACROSS):
        console.out.print(_table(rows, ranks[start : start + _RANKS_ACROSS]))


def _table(rows: Sequence[Result], ranks: Sequence[int | None]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rank", overflow="fold")
    for rank in ranks:
        table.add_column("-" if rank is None else str(rank), justify="right", no_wrap=True)
    metrics: dict[str, dict[str, dict[int | None, float]]] = {}
    for row in rows:
        convention = row.convention.partition(",")[0]
        title = row.name + ("" if convention == "standard" else f" ({convention})")
        lines = metrics.setdefault(title, {})
        lines.setdefault(_line(row), {})[_rank(row)] = row.value
    for title, lines in metrics.items():
        table.add_row(f"[bold]{title}")
        for model, values in lines.items():
            shown = [f"{values[rank]:.4f}" if rank in values else "" for rank in ranks]
            table.add_row(f"  {model}", *shown)
    return table


def _rank(row: Result | Cost) -> int | None:
    rank: int | None = row.settings.get("n_components")
    return rank


def _line(row: Result | Cost) -> str:
    gamma = row.settings.get("gamma")
    return row.model if gamma is None else f"{row.model} γ={gamma:g}"


def _cost_table(costs: Sequence[Cost]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("cost of a fit", overflow="fold")
    for name in ("rank", "seconds", "peak MB", "numbers kept"):
        table.add_column(name, justify="right", no_wrap=True)
    for cost in costs:
        table.add_row(
            _line(cost),
            "-" if _rank(cost) is None else str(_rank(cost)),
            f"{cost.fit_seconds:.3f}",
            "?" if cost.peak_bytes is None else f"{cost.peak_bytes / 1e6:.1f}",
            f"{cost.parameters_kept:,}",
        )
    return table


def named_models(names: str) -> dict[str, Model]:
    """Models by their names on the command line; those that are not installed are left out."""
    from equipoise.evaluation.plan import models_by_key
    from equipoise.models.registry import find_models

    try:
        wanted = find_models(words(names))
    except InvalidParameterError as error:
        raise InvalidParameterError(f"--models: {error}") from None
    missing = [entry for entry in wanted if not entry.installed]
    notes = [f"{one.title} is not installed: {one.install_command}" for one in missing]
    if missing and len(missing) == len(wanted):
        raise MissingExtraError("; ".join(notes))
    for note in notes:
        console.say(f"left out: {note}")
    return models_by_key(entry.key for entry in wanted if entry.installed)

"""`equipoise evaluate DATA`: models × ranks × metrics on held-out interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from equipoise.cli import console
from equipoise.cli.options import (
    CUTOFF,
    Data,
    DataOptions,
    GridOptions,
    Groups,
    SplitOptions,
    TableOptions,
    ZeroDivision,
    flag,
    numbers,
    option,
    show_value,
    words,
)
from equipoise.exceptions import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.evaluation import Cost, Result, Results
    from equipoise.evaluation.plan import Model

# As many as fit next to the names of the models on 80 columns.
_RANKS_ACROSS = 6


def evaluate(
    data: Data,
    reading: DataOptions,
    splitting: SplitOptions,
    results_to: TableOptions,
    groups: Groups,
    zero_division: ZeroDivision,
    trying: GridOptions,
    models: Annotated[
        str, option("Names from equipoise models, or all.", "NAMES")
    ] = "pca,normalized,item-weighted",
    metrics: Annotated[
        str | None, option(r"name\[@k]\[:convention], e.g. ndcg,recall@10,item_auc.", "LIST")
    ] = None,
    k: Annotated[str, option(CUTOFF, "LIST", "-k")] = "20",
    item_sample: Annotated[
        int | None, option("Measure item AUC and precision on N items.", "N", min=1)
    ] = None,
    costs: Annotated[bool, flag("Show time, memory and size of each fit, too.", "--costs")] = False,
) -> int:
    """Score models, by default the three PCAs, at many ranks on held-out interactions."""
    from equipoise import evaluation

    results_to.check(reading.files(data))
    chosen = named_models(models)
    axes, cutoffs = trying.axes(), numbers(k, "-k", int)
    interactions = reading.read(data)
    results = evaluation.evaluate(
        splitting.split(interactions),
        chosen,
        grid=_with_sizes(axes, chosen, interactions.n_items),
        metrics=evaluation.DEFAULT_METRICS if metrics is None else words(metrics),
        k=cutoffs,
        groups=groups,
        zero_division=zero_division,
        item_sample=item_sample,
        cache=results_to.cache,
        progress=console.progress(),
    )
    if results_to.csv is not None:
        results.write_csv(results_to.csv)
    if results_to.plot is not None and results.rows:
        from equipoise.evaluation.plot import plot_results

        plot_results(results, results_to.plot)
    if results_to.as_json:
        console.write(results.to_json(costs=costs))
    else:
        _print(results)
        if costs:
            console.out.print(_cost_table(results.costs))
    return 0 if results.complete else results_to.interrupted(len(results))


def _with_sizes(
    axes: dict[str, list[Any]], models: Mapping[str, Model], n_items: int
) -> dict[str, Any] | None:
    """Add the default sizes to other values, for models that have a size."""
    from equipoise.models.base import Recommender, possible_sizes

    each = [model for model in models.values() if isinstance(model, Recommender)]
    sizes = {model.size_parameter for model in each if model.size_parameter is not None}
    return {**dict.fromkeys(sizes, possible_sizes(n_items)), **axes} if axes else None


def _print(results: Results) -> None:
    """Print one table per few ranks: metrics and models down, ranks across."""
    rows = results.select(group="all").rows
    ranks = sorted({_rank(row) for row in rows}, key=lambda rank: rank or 0)
    for start in range(0, len(ranks), _RANKS_ACROSS):
        console.out.print(_table(rows, ranks[start : start + _RANKS_ACROSS]))


def _table(rows: Sequence[Result], ranks: Sequence[int | None]) -> Table:
    across = ["-" if rank is None else str(rank) for rank in ranks]
    table = console.new_table("rank", *across, right=across)
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
    others = {name: value for name, value in row.settings.items() if name != "n_components"}
    return " ".join([row.model, *(f"{name}={show_value(v)}" for name, v in others.items())])


def _cost_table(costs: Sequence[Cost]) -> Table:
    numbers = ("rank", "seconds", "peak MB", "numbers kept")
    table = console.new_table("cost of a fit", *numbers, right=numbers)
    for cost in costs:
        table.add_row(
            _line(cost),
            show_value(_rank(cost)),
            f"{cost.fit_seconds:.3f}",
            "?" if cost.peak_bytes is None else f"{cost.peak_bytes / 1e6:.1f}",
            f"{cost.parameters_kept:,}",
        )
    return table


def named_models(names: str) -> dict[str, Model]:
    """Return the models with these names; leave out those that are not installed."""
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

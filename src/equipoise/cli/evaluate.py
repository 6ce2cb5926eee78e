"""`equipoise evaluate [DATA]` and `equipoise split DATA`: models on held-out interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.cli import console
from equipoise.cli import options as opt
from equipoise.exceptions import InvalidParameterError, MissingExtraError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.evaluation import Cost, Result, Results
    from equipoise.evaluation.plan import Model

# As many as fit next to the names of the models on 80 columns.
_RANKS_ACROSS = 6

# the number of components of a model, and of the model inside a re-ranked one
_SIZES = ("n_components", "model__n_components")


def evaluate(
    reading: opt.DataOptions,
    splitting: opt.SplitOptions,
    results_to: opt.TableOptions,
    groups: str,
    grouping: opt.GroupOptions,
    zero_division: float,
    trying: opt.GridOptions,
    data: str | None = None,
    models: str = "pca,normalized,item-weighted",
    metrics: str | None = None,
    k: str = "20",
    item_sample: int | None = None,
    rerank: list[str] | None = None,
    costs: bool = False,
) -> int:
    """Score models, by default the three PCAs, at many ranks on held-out interactions."""
    from equipoise import evaluation

    results_to.check()
    chosen = named_models(models)
    axes, cutoffs = trying.axes(), opt.numbers(k, "-k", int)
    split = splitting.read(data, reading)
    own = grouping.read(split.train)
    if rerank:
        chosen |= _reranked(chosen, rerank, own["items"])
        axes |= {f"model__{name}": values for name, values in axes.items()}
    results = evaluation.evaluate(
        split,
        chosen,
        grid=_with_sizes(axes, chosen, split.train.n_items),
        metrics=evaluation.DEFAULT_METRICS if metrics is None else opt.words(metrics),
        k=cutoffs,
        groups=groups if own["items"] is None else own["items"],
        user_groups=own["users"],
        zero_division=zero_division,
        item_sample=item_sample,
        cache=results_to.cache,
        progress=console.progress(),
    )
    results_to.write(results, "plot_results" if results.rows else None)
    if results_to.as_json:
        console.write(results.to_json(costs=costs))
    else:
        _print(results)
        if any(own.values()):
            console.out.print(_group_table(results))
        if costs:
            console.out.print(_cost_table(results.costs))
    return 0 if results.complete else results_to.interrupted(f"{len(results)} rows are done")


def _reranked(models: Mapping[str, Any], specs: Sequence[str], groups: Any) -> dict[str, Model]:
    """Return every model with every re-ranker."""
    from equipoise.reranking import Reranked, make_reranker

    for spec in specs:
        make_reranker(spec)  # refused before anything is fitted
    more = {} if groups is None else {"groups": groups}
    return {
        f"{name} + {spec}": Reranked(model, spec, **more)
        for name, model in models.items()
        for spec in specs
    }


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


def _group_table(results: Results) -> Table:
    """One line per metric and group, one column per model, each at its largest rank."""
    rows = [row for row in results if row.group != "all"]
    largest = {row.model: max(_rank(r) or 0 for r in rows if r.model == row.model) for row in rows}
    last = [row for row in rows if (_rank(row) or 0) == largest[row.model]]
    columns = list(dict.fromkeys(map(_line, last)))
    table = console.new_table("by group, at the largest rank", *columns, "n", right=[*columns, "n"])
    for name in dict.fromkeys(row.name for row in last):
        table.add_row(f"[bold]{name}")
        own = [row for row in last if row.name == name]
        for group in dict.fromkeys(row.group for row in own):
            values = {_line(row): f"{row.value:.4f}" for row in own if row.group == group}
            n = next(row.n for row in own if row.group == group)
            shown = [values.get(column, "") for column in columns]
            table.add_row(f"  {console.escape_markup(group)}", *shown, f"{n:,}")
    return table


def _rank(row: Result | Cost) -> int | None:
    return next((row.settings[name] for name in _SIZES if name in row.settings), None)


def _line(row: Result | Cost) -> str:
    others = {name: value for name, value in row.settings.items() if name not in _SIZES}
    return " ".join([row.model, *(f"{name}={opt.show_value(v)}" for name, v in others.items())])


def _cost_table(costs: Sequence[Cost]) -> Table:
    numbers = ("rank", "seconds", "peak MB", "numbers kept")
    table = console.new_table("cost of a fit", *numbers, right=numbers)
    for cost in costs:
        table.add_row(
            _line(cost),
            opt.show_value(_rank(cost)),
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
        wanted = find_models(opt.words(names))
    except InvalidParameterError as error:
        raise InvalidParameterError(f"--models: {error}") from None
    missing = [entry for entry in wanted if not entry.installed]
    notes = [f"{one.title} is not installed: {one.install_command}" for one in missing]
    if missing and len(missing) == len(wanted):
        raise MissingExtraError("; ".join(notes))
    for note in notes:
        console.say(f"left out: {note}")
    return models_by_key(entry.key for entry in wanted if entry.installed)


def split(
    data: str,
    reading: opt.DataOptions,
    splitting: opt.HoldoutOptions,
    out: Path,
) -> None:
    """Hold out interactions: write train, validation and test as Parquet, with their ids.

    Fit a model of your own on the training part. Other commands take the files as --train,
    --validation and --test.
    """
    outputs = {name: out / f"{name}.parquet" for name in ("train", "validation", "test", "history")}
    if out.is_dir():
        opt.check_outputs(outputs)
    parts = splitting.hold_out(reading.read(data))
    for path in parts.write(out):
        console.write(str(path))
    for line in parts.describe().splitlines():
        console.say(line)

"""`equipoise split`, `evaluate` and `tune`: models on held-out interactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.display import Shown
from equipoise.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError

# As many as fit next to the names of the models on 80 columns.
_RANKS_ACROSS = 6

# the number of components of a model, and of the model inside a re-ranked one
_SIZES = ("n_components", "model__n_components")

_BEYOND = "Better values may be beyond it: try --ranks, --gammas or --grid."


def evaluate(
    reading: opt.DataOptions,
    splitting: opt.SplitOptions,
    results_to: opt.TableOptions,
    grouping: opt.GroupOptions,
    trying: opt.GridOptions,
    data: str | None = None,
    groups: str = defaults.GROUPS,
    zero_division: float = defaults.ZERO_DIVISION,
    models: str = "pca,normalized,item-weighted",
    metrics: str | None = None,
    k: str = str(defaults.MEASURED_K),
    item_sample: int | None = None,
    rerank: list[str] | None = None,
) -> int:
    """Score models, by default the three PCAs, at many ranks on held-out interactions."""
    results_to.check()
    chosen = named_models(models)
    axes, cutoffs = trying.axes(), opt.numbers(k, "-k", int)
    wanted = lib.evaluation.DEFAULT_METRICS if metrics is None else opt.words(metrics)
    lib.parse_metrics(wanted, cutoffs)  # refused before the data are read
    lib.check_choice("--groups", groups, lib.metrics.POPULARITY_RULES)
    lib.check_zero_division(zero_division)
    for spec in rerank or []:
        lib.make_reranker(spec)
    split = splitting.read(data, reading)
    own = grouping.read(split.train)
    if rerank:
        chosen |= _reranked(chosen, rerank, own["items"])
        axes |= {f"model__{name}": values for name, values in axes.items()}
    results = lib.evaluation.evaluate(
        split,
        chosen,
        grid=_with_sizes(axes, chosen, split.train.n_items),
        metrics=wanted,
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
        console.write(results.to_json())
    else:
        _print(results)
        if any(own.values()):
            _print_groups(results)
    return 0 if results.complete else results_to.interrupted(f"{len(results)} rows are done")


def _reranked(models: Mapping[str, Any], specs: Sequence[str], groups: Any) -> dict[str, lib.Model]:
    """Return every model with every re-ranker."""
    more = {} if groups is None else {"groups": groups}
    return {
        f"{name} + {spec}": lib.Reranked(model, spec, **more)
        for name, model in models.items()
        for spec in specs
    }


def _with_sizes(
    axes: dict[str, list[Any]], models: Mapping[str, lib.Model], n_items: int
) -> dict[str, Any] | None:
    """Add the default sizes to other values, for models that have a size."""
    each = [model for model in models.values() if isinstance(model, lib.Recommender)]
    sizes = {model.size_parameter for model in each if model.size_parameter is not None}
    return {**dict.fromkeys(sizes, lib.possible_sizes(n_items)), **axes} if axes else None


def _print(results: lib.evaluation.Results) -> None:
    """Print one table per few ranks: metrics and models down, ranks across."""
    rows = results.select(group="all").rows
    ranks = sorted({_rank(row) for row in rows}, key=lambda rank: rank or 0)
    cells = [(_title(row), _line(row), str(_rank(row) or "-"), f"{row.value:.4f}") for row in rows]
    for start in range(0, len(ranks), _RANKS_ACROSS):
        across = [str(rank or "-") for rank in ranks[start : start + _RANKS_ACROSS]]
        _print_pivot("rank", across, cells)


def _print_groups(results: lib.evaluation.Results) -> None:
    """Print one line per metric and group, one column per model, each at its largest rank."""
    rows = [row for row in results if row.group != "all"]
    largest = {row.model: max(_rank(r) or 0 for r in rows if r.model == row.model) for row in rows}
    last = [row for row in rows if (_rank(row) or 0) == largest[row.model]]
    cells = [(row.name, row.group, _line(row), f"{row.value:.4f}") for row in last]
    cells += [(row.name, row.group, "n", f"{row.n:,}") for row in reversed(last)]
    _print_pivot("by group, at the largest rank", dict.fromkeys(cell[2] for cell in cells), cells)


def _print_pivot(
    corner: str, columns: Iterable[str], cells: Iterable[tuple[str, str, str, str]]
) -> None:
    """Print cells (heading, line, column, text) as lines below their headings."""
    from rich.text import Text

    blocks: dict[str, dict[str, dict[str, str]]] = {}
    for heading, line, column, text in cells:
        blocks.setdefault(heading, {}).setdefault(line, {})[column] = text
    rows: list[list[Any]] = []
    for heading, lines in blocks.items():
        rows.append([Text(heading, "bold")])
        rows += [
            [f"  {line}", *(found.get(c, "") for c in columns)] for line, found in lines.items()
        ]
    console.print_table(Shown("", [corner, *columns], rows))


def _title(row: lib.evaluation.Result) -> str:
    convention = row.convention.partition(",")[0]
    return row.name + ("" if convention == "standard" else f" ({convention})")


def _rank(row: lib.evaluation.Result) -> int | None:
    return next((row.settings[name] for name in _SIZES if name in row.settings), None)


def _line(row: lib.evaluation.Result) -> str:
    others = {name: value for name, value in row.settings.items() if name not in _SIZES}
    return " ".join([row.model, *(f"{name}={opt.show_value(v)}" for name, v in others.items())])


def named_models(names: str) -> dict[str, lib.Model]:
    """Return the models with these names; leave out those that are not installed."""
    try:
        wanted = lib.find_models(opt.words(names))
    except InvalidParameterError as error:
        raise InvalidParameterError(f"--models: {error}") from None
    missing = [entry for entry in wanted if not entry.installed]
    notes = [f"{one.title} is not installed: {one.install_command}" for one in missing]
    if missing and len(missing) == len(wanted):
        raise MissingExtraError("; ".join(notes))
    for note in notes:
        console.say(f"left out: {note}")
    return lib.models_by_key(entry.key for entry in wanted if entry.installed)


def tune(
    reading: opt.DataOptions,
    splitting: opt.SplitOptions,
    results_to: opt.TableOptions,
    grouping: opt.GroupOptions,
    trying: opt.GridOptions,
    data: str | None = None,
    model: str = defaults.MODEL,
    k: int = defaults.MEASURED_K,
    groups: str = defaults.GROUPS,
    zero_division: float = defaults.ZERO_DIVISION,
    maximize: str = defaults.MAXIMIZE,
    subject_to: list[str] | None = None,
    rerank: str | None = None,
    trade_off: str = ",".join(defaults.TRADE_OFF),
    out: Path | None = None,
) -> int:
    """Choose the parameters of a model, by default Item-Weighted PCA, on validation data.

    The choice is scored once on test data. Prints the command that fits it on all of DATA.
    """
    results_to.check(out)
    conditions = map(lib.goal.parse_condition, subject_to or [])
    limits = {name: (sign, bound) for name, sign, bound in conditions}
    axes = trying.axes()
    # refused before the data are read
    lib.goal.Goal.parse(maximize, limits, opt.words(trade_off), k)
    lib.check_choice("--groups", groups, lib.metrics.POPULARITY_RULES)
    lib.check_zero_division(zero_division)
    base = _base(model, rerank)
    splitting.check(data, reading)
    table = None if data is None else reading.read(data)
    split = splitting.read_parts(reading) if table is None else splitting.hold_out(table)
    _refuse_empty_validation(split)
    own_groups = grouping.parameters(lib.find_model(model), split.train) if rerank is None else {}
    base.set_params(**own_groups)
    if rerank is not None:
        axes = {name if name == "reranker" else f"model__{name}": v for name, v in axes.items()}
    tuning = lib.evaluation.tune(
        split,
        base if own_groups or rerank is not None else model,
        grid=_grid(base, split, axes, whole=trying.grid is not None),
        maximize=maximize,
        subject_to=limits,
        trade_off=opt.words(trade_off),
        k=k,
        groups=groups,
        zero_division=zero_division,
        cache=results_to.cache,
        progress=console.progress(),
    )
    results_to.write(tuning, "plot_tuning")
    source = opt.shown(str(data or splitting.train))
    settings = {_written(name): value for name, value in tuning.choice.settings.items()}
    if rerank is not None:
        settings.setdefault("rerank", rerank)
    advice = lib.Advice(model, settings, source, reading.given() | grouping.given())
    if results_to.as_json:
        found = {**tuning.to_dict(), "edges": tuning.edges(), "command": lib.advice.command(advice)}
        console.write_json(found, indent=1)
    else:
        _print_tuning(tuning)
        console.write(lib.advice.command(advice))
    edges = {n: v for n, v in tuning.edges().items() if v != split.train.n_items}
    if edges:
        chosen = ", ".join(f"{name} = {opt.show_value(value)}" for name, value in edges.items())
        console.say(f"warning: at the edge of the values tried: {chosen}. {_BEYOND}")
    if tuning.shift is not None and tuning.shift.differs:
        console.say(f"warning: {tuning.shift}")
    if out is not None and tuning.complete:
        table = split.train if table is None else table
        saved = tuning.model().fit(table, progress=console.progress()).save(out)
        console.say(f"Model: {saved.resolve()}")
    if tuning.complete:
        return 0
    unwritten = "" if out is None else f"; {out} is not written"
    done = f"the choice is the best of the {len(tuning.trials)} settings tried so far{unwritten}"
    return results_to.interrupted(done)


def _print_tuning(tuning: lib.evaluation.Tuning) -> None:
    console.print_table(tuning.table())
    if tuning.test is not None:
        for row in tuning.test.select(group="all"):
            text = f"{row.value:.4f}"
            if row.per_user is not None and row.n > 1:
                text = str(tuning.test.interval(row))
            console.out().print(f"test {row.name:<14}{text}", markup=False)
    console.out().print(f"\n{tuning.constructor()}", markup=False, soft_wrap=True)


def _base(model: str, rerank: str | None) -> lib.Recommender:
    """Return the unfitted model, with its re-ranker."""
    made = lib.find_model(model).make()
    if rerank is None:
        return made
    lib.make_reranker(rerank)  # refused before anything is fitted
    return lib.Reranked(made, rerank)


def _written(name: str) -> str:
    """Return a parameter as `equipoise fit` names it."""
    return "rerank" if name == "reranker" else name.removeprefix("model__")


def _grid(
    model: lib.Recommender, split: lib.Split, axes: dict[str, list[Any]], *, whole: bool
) -> list[dict[str, Any]] | None:
    """Return --grid; without it, the model's search space with --ranks and --gammas."""
    if whole or not axes:
        return [axes] if axes else None
    return [{**space, **axes} for space in model.search_space(split.train)]


def _refuse_empty_validation(split: lib.Split) -> None:
    if split.validation.nnz == 0:
        raise InvalidDataError(
            "--validation leaves nothing to tune on: it names no file, or its share of a user's "
            "items is less than one item. Use a larger share, e.g. --validation 0.2, or drop users "
            "with few items (--min-items-per-user)."
        )


def split(data: str, reading: opt.DataOptions, splitting: opt.HoldoutOptions, out: Path) -> None:
    """Hold out interactions: write train, validation and test as Parquet, with their ids.

    Fit a model of your own on the training part. Other commands take the files as --train,
    --validation and --test.
    """
    outputs = {name: out / f"{name}.parquet" for name in ("train", "validation", "test", "history")}
    if out.is_dir():
        opt.check_outputs(outputs)
    splitting.plan()  # refused before the data are read
    parts = splitting.hold_out(reading.read(data))
    for path in parts.write(out):
        console.write(str(path))
    for line in parts.describe().splitlines():
        console.say(line)

"""`equipoise evaluate DATA`: models × ranks × metrics on held-out interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli import console
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.data import Interactions, Split
    from equipoise.evaluation import Progress, Results, Row
    from equipoise.evaluation.jobs import Model

INTERRUPTED = 130

# As many as fit beside the models' names on 80 columns.
_RANKS_ACROSS = 6

Data = Annotated[str, typer.Argument(help="File, folder, glob or database URL.", metavar="DATA")]
User = Annotated[str | None, typer.Option(help="Column of the users.")]
Item = Annotated[str | None, typer.Option(help="Column of the items.")]
Value = Annotated[str | None, typer.Option(help="Column of the values; '' for none.")]
Timestamp = Annotated[str | None, typer.Option(help="Column of the times.")]
Format = Annotated[
    str | None, typer.Option("--format", help="csv, parquet, lightgcn, movielens, lastfm, sqlite.")
]
Query = Annotated[str | None, typer.Option(help="SQL, for a database.")]
MinItems = Annotated[int, typer.Option(help="Keep users with so many items.", min=0)]
MinUsers = Annotated[int, typer.Option(help="Then keep items with so many users.", min=0)]
Binarize = Annotated[bool, typer.Option("--binarize", help="Count every interaction as 1.")]
Normalize = Annotated[
    bool, typer.Option("--normalize-rows", help="Divide every user's values by their sum.")
]
Method = Annotated[
    str, typer.Option(help="per_user_random, leave_last_n, temporal or by_user.", metavar="NAME")
]
TestShare = Annotated[float, typer.Option("--test", help="Share to report on.", min=0, max=1)]
ValidationShare = Annotated[
    float, typer.Option("--validation", help="Share to tune on.", min=0, max=1)
]
Seed = Annotated[int, typer.Option(help="Seed of the split.", min=0)]
Groups = Annotated[str, typer.Option(help="Popularity groups: mass, items or head80.")]
Empty = Annotated[
    str, typer.Option(help="Users without held-out items: nan (left out) or zero (as the paper).")
]
Folder = Annotated[Path | None, typer.Option("--cache", help="Folder to resume from.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write the whole table here.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Draw into this .png, .svg or .pdf.")]


def evaluate(
    data: Data,
    models: Annotated[
        str, typer.Option(help="Of pca, normalized, item-weighted.")
    ] = "pca,normalized,item-weighted",
    ranks: Annotated[str | None, typer.Option(help="E.g. 8,16,32; default: 4 to 128.")] = None,
    gammas: Annotated[str, typer.Option(help="Of Item-Weighted PCA, e.g. -1,-0.5.")] = "-1",
    metrics: Annotated[
        str | None, typer.Option(help="name[@k][:convention], e.g. ndcg,recall@10,item_auc.")
    ] = None,
    k: Annotated[str, typer.Option("-k", help="Cut-offs of metrics that name none.")] = "20",
    item_sample: Annotated[
        int | None, typer.Option(help="Item AUC and precision of so many items.", min=1)
    ] = None,
    user: User = None,
    item: Item = None,
    value: Value = None,
    timestamp: Timestamp = None,
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
    groups: Groups = "mass",
    empty: Empty = "nan",
    cache: Folder = None,
    as_json: AsJson = False,
    csv: Csv = None,
    plot: Plot = None,
) -> int:
    """Score PCA, Normalized PCA and Item-Weighted PCA at many ranks on held-out interactions."""
    from equipoise import evaluation

    chosen = named_models(models)
    chosen_ranks = None if ranks is None else integers(ranks, "--ranks")
    exponents, cutoffs = numbers(gammas, "--gammas"), integers(k, "-k")
    measured = evaluation.DEFAULT_METRICS if metrics is None else words(metrics)
    interactions = read(data, user, item, value, timestamp, file_format, query)
    interactions = prepare(
        interactions, min_items_per_user, min_users_per_item, binarize, normalize_rows
    )
    split = hold_out(interactions, method, test, validation, seed)
    with progress_bar() as report:
        results = evaluation.evaluate(
            split,
            chosen,
            ranks=chosen_ranks,
            gammas=exponents,
            metrics=measured,
            k=cutoffs,
            groups=groups,
            empty=empty,
            item_sample=item_sample,
            cache=cache,
            progress=report,
        )
    if csv is not None:
        results.write_csv(csv)
    if plot is not None and results.rows:
        from equipoise.evaluation.plot import plot_results

        plot_results(results, plot)
    if as_json:
        console.out.print(results.to_json(), highlight=False, soft_wrap=True, markup=False)
    else:
        _print(results)
    return 0 if results.complete else interrupted(len(results), cache)


def _print(results: Results) -> None:
    """One table for every few ranks: metrics and models down, ranks across."""
    rows = results.select(group="all").rows
    ranks = sorted({row.rank for row in rows}, key=lambda rank: rank or 0)
    for start in range(0, len(ranks), _RANKS_ACROSS):
        console.out.print(_table(rows, ranks[start : start + _RANKS_ACROSS]))


def _table(rows: Sequence[Row], ranks: Sequence[int | None]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("rank", overflow="fold")
    for rank in ranks:
        table.add_column("-" if rank is None else str(rank), justify="right", no_wrap=True)
    metrics: dict[str, dict[str, dict[int | None, float]]] = {}
    for row in rows:
        convention = row.convention.partition(",")[0]
        title = row.metric if row.k is None else f"{row.metric}@{row.k}"
        title += "" if convention == "standard" else f" ({convention})"
        model = row.model if row.gamma is None else f"{row.model} γ={row.gamma:g}"
        lines = metrics.setdefault(title, {})
        lines.setdefault(model, {})[row.rank] = row.value
    for title, lines in metrics.items():
        table.add_row(f"[bold]{title}")
        for model, values in lines.items():
            shown = [f"{values[rank]:.4f}" if rank in values else "" for rank in ranks]
            table.add_row(f"  {model}", *shown)
    return table


def interrupted(n_done: int, cache: Path | None) -> int:
    """Say what is there after Ctrl-C, and return the exit code."""
    advice = "Run again with the same --cache to go on." if cache else "--cache DIR would keep it."
    console.err.print(f"interrupted: {n_done} rows were done. {advice}", highlight=False)
    return INTERRUPTED


def read(
    data: str,
    user: str | None,
    item: str | None,
    value: str | None,
    timestamp: str | None,
    file_format: str | None,
    query: str | None,
) -> Interactions:
    """Read the table that the command line names."""
    from equipoise.data import Interactions

    console.err.print(f"Reading {data} …", highlight=False, markup=False)
    return Interactions.read(
        data,
        user=user,
        item=item,
        value=value,
        timestamp=timestamp,
        format=file_format,
        query=query,
    )


def prepare(
    interactions: Interactions,
    min_items_per_user: int,
    min_users_per_item: int,
    binarize: bool,
    normalize_rows: bool,
) -> Interactions:
    """Filter, binarize, normalize, in this order."""
    if min_items_per_user or min_users_per_item:
        interactions = interactions.filter(min_users_per_item, min_items_per_user)
    if binarize:
        interactions = interactions.binarize()
    if normalize_rows:
        interactions = interactions.normalize_rows()
    console.err.print(repr(interactions), highlight=False, markup=False)
    return interactions


def hold_out(
    interactions: Interactions, method: str, test: float, validation: float, seed: int
) -> Split:
    """Split as the command line says."""
    from equipoise.data import holdout

    return holdout(interactions, method=method, test=test, validation=validation, seed=seed)  # type: ignore[arg-type]  # holdout refuses other names


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar with the remaining time on stderr, fed by the callback."""
    with console.progress() as bar:
        task = bar.add_task("Starting", total=None)

        def report(step: Progress) -> None:
            bar.update(task, description=step.doing, completed=step.done, total=step.total)

        yield report


def named_models(names: str) -> dict[str, Model]:
    """Models by their names on the command line."""
    from equipoise.evaluation import default_models

    known = dict(zip(("pca", "normalized", "item-weighted"), default_models().items(), strict=True))
    wanted = words(names)
    for name in wanted:
        if name not in known:
            raise InvalidParameterError(
                f"--models: unknown model {name!r}. Known: {', '.join(known)}."
            )
    return dict(known[name] for name in wanted)


def words(text: str) -> list[str]:
    """Split at commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def integers(text: str, option: str) -> list[int]:
    """Read whole numbers between commas."""
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise InvalidParameterError(
            f"{option} takes whole numbers with commas between them, got {text!r}."
        ) from None


def numbers(text: str, option: str) -> list[float]:
    """Read numbers between commas."""
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise InvalidParameterError(
            f"{option} takes numbers with commas between them, got {text!r}."
        ) from None

"""`equipoise fit DATA --out model.eqp`: learn a model, show its certificate, save it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli import options as shared
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from equipoise.data import Interactions
    from equipoise.models import Recommender
    from equipoise.models.registry import ModelEntry

Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Write the model here, e.g. plays.eqp.", rich_help_panel=shared.OUTPUT
    ),
]
Key = Annotated[str, typer.Option("--model", help="Which one; see equipoise models.")]
Rank = Annotated[
    int | None, typer.Option("--rank", help="Components; default: the model's own.", min=1)
]
Gamma = Annotated[
    float | None,
    typer.Option(
        "--gamma",
        help="An item counts by its popularity to this power; 0 is plain PCA. [default: -1]",
    ),
]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        help="How much later components count: hard (all alike), power:S or ridge:RHO.",
        metavar="FILTER",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="Any other parameter, may be repeated.", metavar="NAME=VALUE"),
]

_PAST_ONE_MEMORY = "Past one memory"
Memory = Annotated[
    str | None,
    typer.Option(
        help="Stream DATA from disk in blocks, so that so much memory does, e.g. 4GB.",
        metavar="SIZE",
        rich_help_panel=_PAST_ONE_MEMORY,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Fit on the Dask cluster at this address; DATA is Parquet that its workers reach.",
        metavar="TCP://HOST:PORT",
        rich_help_panel=_PAST_ONE_MEMORY,
    ),
]


def fit(
    data: shared.Data,
    out: Out,
    model: Key = "item-weighted",
    rank: Rank = None,
    gamma: Gamma = None,
    spectral_filter: Filter = None,
    settings: Set = None,
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
    memory: Memory = None,
    scheduler: Scheduler = None,
    as_json: shared.AsJson = False,
) -> None:
    """Fit a model on all of DATA, print how good the solution provably is, and save it."""
    from equipoise.cli import paths
    from equipoise.models.registry import find_model

    entry = find_model(model)
    unfitted = entry.make(**_parameters(entry, rank, gamma, spectral_filter, settings))
    paths.check(outputs={"--out": out}, data=data, file_format=file_format, printed=as_json)
    if memory is None and scheduler is None:
        interactions = shared.read(
            data, user, item, value, timestamp, file_format, query, delimiter
        )
    else:
        columns = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        layout = {"delimiter": delimiter, "format": file_format, "query": query}
        interactions = _read_blocks(data, memory, scheduler, columns, layout)
    interactions = shared.prepare(
        interactions, min_items_per_user, min_users_per_item, binarize, normalize_rows
    )
    started = time.perf_counter()
    fitted = unfitted.fit(interactions, progress=console.progress())
    facts = _facts(fitted, entry, interactions, time.perf_counter() - started)
    saved = fitted.save(out).resolve()
    if as_json:
        text = json.dumps(facts | {"saved": str(saved)}, ensure_ascii=False)
        console.write(text)
        return
    console.print_facts(facts, f"{entry.title} of {shared.shown(data)}")
    console.write(f"Model: {saved}")


def _read_blocks(
    data: str,
    memory: str | None,
    scheduler: str | None,
    columns: dict[str, Any],
    layout: dict[str, Any],
) -> Interactions:
    """Read data past one memory; refuses what only a whole read can do."""
    from equipoise.data import Interactions

    usable = ("delimiter", "format") if memory is not None else ()
    idle = [name for name, value in layout.items() if value is not None and name not in usable]
    if idle:
        raise InvalidParameterError(
            f"--{idle[0]} cannot be used with {'--memory' if memory else '--scheduler'}. Leave it "
            "out, or turn the data into Parquet first."
        )
    given = {name: layout[name] for name in usable}
    return Interactions.read(
        data, memory=memory, client=scheduler, progress=console.progress(), **columns, **given
    )


def _parameters(
    entry: ModelEntry,
    rank: int | None,
    gamma: float | None,
    spectral_filter: str | None,
    settings: list[str] | None,
) -> dict[str, Any]:
    """Constructor arguments; refuses those that the model does not have."""
    given: dict[str, Any] = {"n_components": rank, "gamma": gamma}
    if spectral_filter is not None:
        kind, strength = shared.spectral_filter(spectral_filter, "--filter")
        given |= {"spectral_filter": kind, "filter_strength": strength}
    given = {name: value for name, value in given.items() if value is not None}
    given |= dict(_setting(text) for text in settings or [])
    known = entry.load_class()._get_param_names()
    for name in given:
        if name not in known:
            raise InvalidParameterError(
                f"{entry.title} has no parameter {name!r}. It has: {', '.join(known)}."
            )
    return given


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (name.strip() and sign):
        raise InvalidParameterError(f"--set takes NAME=VALUE, got {text!r}.")
    return name.strip(), shared.plain_value(value.strip())


def _facts(
    model: Recommender,
    entry: ModelEntry,
    interactions: Interactions,
    seconds: float,
) -> dict[str, Any]:
    """What is worth knowing about the fit; models without a certificate have fewer facts."""
    facts: dict[str, Any] = {
        "model": entry.key,
        "users": interactions.n_users,
        "items": interactions.n_items,
        "interactions": interactions.nnz,
    }
    if hasattr(model, "n_components_"):
        facts["rank"] = model.n_components_
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        facts |= {
            "objective": certificate.objective,
            "upper bound": certificate.dual_bound,
            "relative gap": certificate.gap,
            "largest residual": certificate.max_residual,
            "passes over the data": certificate.passes,
        }
    return facts | {"seconds": round(seconds, 3)}

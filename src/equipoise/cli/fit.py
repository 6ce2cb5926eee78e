"""`equipoise fit DATA --out model.eqp`: learn a model, show its certificate, save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.exceptions import InvalidParameterError

# parameters that have an option of their own
_OPTIONS = {
    "n_components": "rank",
    "gamma": "gamma",
    "spectral_filter": "filter",
    "floors": "floor",
}


def fit(
    data: str,
    reading: opt.DataOptions,
    grouping: opt.GroupOptions,
    out: Path,
    model: str = defaults.MODEL,
    rank: int | None = None,
    gamma: float | None = None,
    spectral_filter: str | None = None,
    settings: list[str] | None = None,
    floors: list[str] | None = None,
    rerank: str | None = None,
    keep_sums: bool = False,
    as_json: bool = False,
) -> None:
    """Fit a model on all of DATA, print its certificate of optimality, and save it."""
    entry = lib.find_model(model)
    parameters = _parameters(entry, rank, gamma, spectral_filter, settings)
    if floors:
        parameters |= _allowed(entry, {"floors": _floors(floors)})
    unfitted = entry.make(**parameters)
    if rerank is not None:
        lib.make_reranker(rerank)  # refused before the data are read
    opt.check_outputs({"--out": out})
    interactions = reading.read(data)
    _refuse_large_rank(unfitted, rank, interactions.n_items)
    if rerank is None:
        unfitted.set_params(**grouping.parameters(entry, interactions))
    else:
        unfitted = lib.Reranked(unfitted, rerank, **opt.rerank_groups(grouping.item_groups))
    started = time.perf_counter()
    fitted = unfitted.fit(interactions, progress=console.progress())
    facts: dict[str, Any] = {
        "model": entry.key,
        "users": interactions.n_users,
        "items": interactions.n_items,
        "interactions": interactions.nnz,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if hasattr(fitted, "n_components_"):
        facts["rank"] = fitted.n_components_
    if keep_sums:
        _keep_sums(fitted, interactions)
    saved = fitted.save(out).resolve()
    title = f"{entry.title} of {opt.shown(data)}"
    certificate = getattr(fitted, "certificate_", None)
    console.print_model(facts, title, saved, certificate, as_json=as_json)


def _keep_sums(fitted: lib.Recommender, interactions: lib.Interactions) -> None:
    if not isinstance(fitted, lib.ProjectionModel):
        raise InvalidParameterError(
            f"--keep-sums: {type(fitted).__name__} cannot be updated. Leave the option out."
        )
    fitted.keep_gram(interactions)


def _parameters(
    entry: lib.ModelEntry,
    rank: int | None,
    gamma: float | None,
    spectral_filter: str | None,
    settings: list[str] | None,
) -> dict[str, Any]:
    """Return constructor arguments; refuse those that the model does not have."""
    given: dict[str, Any] = {"n_components": rank, "gamma": gamma}
    if spectral_filter is not None:
        kind, _, strength = spectral_filter.partition(":")
        problem = "--filter takes hard, power:S or ridge:RHO"
        given |= {"spectral_filter": kind, "filter_strength": opt.number(strength or "0", problem)}
    given = {name: value for name, value in given.items() if value is not None}
    for text in settings or []:
        name, value = opt.assignment(text, "--set")
        given[name] = opt.plain_value(value)
    return _allowed(entry, given)


def _allowed(entry: lib.ModelEntry, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments; refuse those that the model does not have."""
    known = entry.parameters()
    for name in given:
        if name not in known:
            problem = f"{entry.title} has no parameter {name!r}. It has: {', '.join(known)}."
            if name in _OPTIONS:
                problem = f"{entry.title} has no {_OPTIONS[name]}; drop --{_OPTIONS[name]}."
            raise InvalidParameterError(problem)
    return given


def _floors(texts: list[str]) -> float | dict[str, float]:
    """Return one floor for all groups, or floors by name."""
    by_name: dict[str, float] = {}
    for text in texts:
        name, _, share = text.rpartition("=")
        by_name[name] = opt.number(share, "--floor takes a share like 0.2, or NAME=SHARE")
    if "" in by_name and len(texts) > 1:
        raise InvalidParameterError("--floor takes one share for all groups, or names for each.")
    return by_name.get("", by_name)


def _refuse_large_rank(model: lib.Recommender, rank: int | None, n_items: int) -> None:
    size = model.get_params(deep=False).get("n_components", 0)
    if size > n_items:
        default = "The default rank, " if rank is None else "--rank "
        raise InvalidParameterError(
            f"{default}{size}{',' * (rank is None)} exceeds your {n_items:,} items. "
            f"Use --rank {n_items} or less."
        )

"""`equipoise fit DATA --out model.eqp`: learn a model, show its certificate, save it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from equipoise.cli import console
from equipoise.cli import options as shared
from equipoise.cli.options import (
    GAMMA,
    AsJson,
    Data,
    DataOptions,
    check_outputs,
    option,
    output,
    shown,
)
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from equipoise.data import Interactions
    from equipoise.models import Recommender
    from equipoise.models.registry import ModelEntry


def fit(
    data: Data,
    reading: DataOptions,
    out: Annotated[
        Path, output("Write the model to this file, e.g. plays.eqp.", "FILE", "--out", "-o")
    ],
    model: Annotated[
        str, option("Name of the model; see equipoise models.", "NAME")
    ] = "item-weighted",
    rank: Annotated[
        int | None, option("Components (default: the model's own).", "N", min=1)
    ] = None,
    gamma: Annotated[
        float | None, option(f"{GAMMA[:-1]} (default: the model's own).", "GAMMA")
    ] = None,
    spectral_filter: Annotated[
        str | None,
        option(
            "Weights of the components: hard (all 1), power:S or ridge:RHO.", "FILTER", "--filter"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, option("Any other parameter; may be repeated.", "NAME=VALUE", "--set")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model on all of DATA, print its certificate of optimality, and save it."""
    from equipoise.models.registry import find_model

    entry = find_model(model)
    unfitted = entry.make(**_parameters(entry, rank, gamma, spectral_filter, settings))
    check_outputs({"--out": out}, reading.files(data))
    interactions = reading.read(data)
    started = time.perf_counter()
    fitted = unfitted.fit(interactions, progress=console.progress())
    facts = _facts(fitted, entry, interactions, time.perf_counter() - started)
    saved = fitted.save(out).resolve()
    if as_json:
        console.write_json(facts | {"saved": str(saved)})
        return
    console.print_facts(facts, f"{entry.title} of {shown(data)}")
    console.write(f"Model: {saved}")


def _parameters(
    entry: ModelEntry,
    rank: int | None,
    gamma: float | None,
    spectral_filter: str | None,
    settings: list[str] | None,
) -> dict[str, Any]:
    """Return constructor arguments; refuse those that the model does not have."""
    given: dict[str, Any] = {"n_components": rank, "gamma": gamma}
    if spectral_filter is not None:
        kind, _, strength = spectral_filter.partition(":")
        given |= {"spectral_filter": kind, "filter_strength": _strength(strength, spectral_filter)}
    given = {name: value for name, value in given.items() if value is not None}
    for text in settings or []:
        name, value = shared.assignment(text, "--set")
        given[name] = shared.plain_value(value)
    known = entry.load_class()._get_param_names()
    for name in given:
        if name not in known:
            raise InvalidParameterError(
                f"{entry.title} has no parameter {name!r}. It has: {', '.join(known)}."
            )
    return given


def _strength(text: str, given: str) -> float:
    try:
        return float(text or 0)
    except ValueError:
        raise InvalidParameterError(
            f"--filter takes hard, power:S or ridge:RHO, got {given!r}."
        ) from None


def _facts(
    model: Recommender,
    entry: ModelEntry,
    interactions: Interactions,
    seconds: float,
) -> dict[str, Any]:
    """Return the sizes of the fit and, if the model has one, its certificate."""
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

"""`equipoise inspect`, `update`, `serve` and `export`: a model in production."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.exceptions import InvalidParameterError
from equipoise.files import require_writable

# Over all data, in an update with --all.
_PASSES = 2


def inspect(model: Path, as_json: bool = False) -> None:
    """Show what a model file contains: class, parameters, sizes, preparation, certificate."""
    saved = lib.read_model(model)
    certificate = saved.scalars.get("certificate_", {})
    ids = saved.arrays.get("item_ids_")
    facts: dict[str, Any] = {
        "model": saved.model,
        "items": saved.scalars["n_features_in_"],
        "first item": None if ids is None else ids[0],
        "written by": f"equipoise {saved.version}",
        "bytes": model.stat().st_size,
    }
    if "gram_" in saved.arrays:
        facts["sums for update"] = "kept"
    facts |= {name: value for name, value in saved.parameters.items() if value is not None}
    facts |= {f"certificate: {name}": value for name, value in certificate.items()}
    if as_json:
        steps = [{"step": step.name, **step.settings} for step in saved.preparation]
        console.write_json(facts | {"preparation": steps})
        return
    console.print_facts(facts, f"{model}")
    console.write("Preparation, which rows to serve get as well:")
    for step in saved.preparation:
        console.write(f"  {step}")
    if not saved.preparation:
        console.write("  none is recorded")


def update(
    model: Path,
    data: str,
    reading: opt.DataOptions,
    out: Path | None = None,
    refit_above: float | None = None,
    passes: int = _PASSES,
    all_data: bool = False,
    replaced: str | None = None,
    items_only: bool = False,
    as_json: bool = False,
) -> None:
    """Add DATA, the rows of new users, to a model; the model must be of fit --keep-sums.

    With --all, DATA are all data, old and new, and any PCA is updated in a few passes; the output
    certifies what a refit would gain. With --items-only, only items that the model lacks get
    vectors, by projection. DATA are read and prepared as for the fit.
    """
    target = model if out is None else out
    if target.resolve() == model.resolve():
        require_writable(target)
    else:
        opt.check_outputs({"--out": out})
    fitted = lib.load(model)
    facts: dict[str, Any]
    if not isinstance(fitted, lib.ProjectionModel):
        raise InvalidParameterError(
            f"{type(fitted).__name__} cannot be updated. Fit it again: equipoise fit."
        )
    mode = "with --all" if all_data else "with --items-only" if items_only else "without --all"
    idle = {
        "--items-only": items_only and all_data,
        "--replaced": replaced is not None and (all_data or items_only),
        "--refit-above": refit_above is not None and not all_data,
        "--passes": passes != _PASSES and not all_data,
    }
    if any(idle.values()):
        names = ", ".join(name for name, is_idle in idle.items() if is_idle)
        raise InvalidParameterError(f"{names} cannot be used {mode}. Leave one of them out.")
    interactions = reading.like(fitted).read(data)
    started = time.perf_counter()
    if items_only:
        new = fitted.add_items(interactions)
        facts = {"largest error": float(new.projection_errors_.max(initial=0.0))}
    else:
        found = fitted.update(
            interactions,
            all_data=all_data,
            replaced=None if replaced is None else reading.like(fitted).read(replaced),
            passes=passes,
            refit_above=refit_above,
            progress=console.progress(),
        )
        new = found.model
        facts = {
            "refitted": found.refitted,
            "passes over the data": found.passes,
            "certified loss": found.loss,
            "bound from": new.certificate_.how,
        }
        if hasattr(fitted, "gram_") and not hasattr(new, "gram_"):
            console.say("note: the updated model keeps no sums; fit --keep-sums stores them again.")
    sizes = {"items": new.n_features_in_, "new items": new.n_features_in_ - fitted.n_features_in_}
    seconds = {"seconds": round(time.perf_counter() - started, 3)}
    saved = new.save(target).resolve()
    console.print_model(sizes | facts | seconds, f"Update of {model}", saved, as_json=as_json)


def serve(
    model: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    reload_seconds: float = 1.0,
    max_users: int = 256,
    max_k: int = 1000,
    mmap: bool = False,
) -> None:
    """Serve a model over HTTP: /recommend, /similar, /explain, /health, /metrics, /openapi.json.

    A file that replaces MODEL is verified and then takes over. Ctrl-C stops after open requests.
    With --mmap, replace MODEL by renaming another file, as all commands do; do not overwrite it.
    """
    limits = lib.service.Limits(users=max_users, k=max_k)
    lib.service.serve(model, host, port, reload_seconds=reload_seconds, limits=limits, mmap=mmap)


def export(model: Path, out: Path) -> None:
    """Write the item vectors of a model with their ids, for programs without equipoise."""
    opt.check_outputs({"--out": out})
    fitted = lib.load(model)
    console.say(f"Vectors: {lib.export_vectors(fitted, out).resolve()}")

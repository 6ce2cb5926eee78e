"""`equipoise similar MODEL ITEM`: the nearest items."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equipoise.cli import console
from equipoise.cli import options as shared


def similar(
    model: shared.ModelFile,
    item: Annotated[str, typer.Argument(help="Id of the item.", metavar="ITEM")],
    n: shared.Length = 10,
    names: shared.Names = None,
    as_json: shared.AsJson = False,
) -> None:
    """List the items most similar to one, by the model."""
    from equipoise.cli import ids, paths
    from equipoise.models import load

    paths.check(inputs={"--names": names})
    fitted = load(model)
    (wanted,) = ids.matched([item], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, names)
    found = fitted.similar_items(wanted, k=min(n, fitted.n_features_in_))
    rows = [
        {"item": each, "similarity": float(score)}
        | ({} if called is None else {"name": called[each]})
        for each, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)
        if score == score  # a short list ends in NaN
    ]
    if not rows:
        kind = type(fitted).__name__
        console.say(f"note: {kind} knows no item that is similar to {wanted}.")
    if as_json:
        text = json.dumps(rows, ensure_ascii=False, default=str)
        console.write(text)
        return
    if not rows:
        return
    name = "" if called is None else f" ({called[wanted]})"
    console.print_rows(rows, f"Most similar to {wanted}{name}")

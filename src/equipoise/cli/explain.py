"""`equipoise similar MODEL ITEM` and `equipoise explain MODEL DATA USER ITEM`: ask a model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli.options import (
    AsJson,
    Data,
    DataOptions,
    DropUnknown,
    Length,
    ModelFile,
    Names,
    Top,
    load_model,
)

User = Annotated[str, typer.Argument(help="Id of the user.", metavar="USER")]
Item = Annotated[str, typer.Argument(help="Id of the item.", metavar="ITEM")]


def similar(
    model: ModelFile, item: Item, n: Length, names: Names = None, as_json: AsJson = False
) -> None:
    """List the items most similar to one, according to the model."""
    from equipoise.cli import ids

    fitted = load_model(model, "Give the file that equipoise fit wrote.")
    (wanted,) = ids.matched([item], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, names)
    found = fitted.similar_items(wanted, min(n, fitted.n_features_in_))
    rows: list[dict[str, Any]] = [
        {"item": each, "similarity": float(score)}
        | ({} if called is None else {"name": called[each]})
        for each, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)
        if score == score  # a short list ends in NaN
    ]
    if not rows:
        console.say(f"note: {type(fitted).__name__} finds no item similar to {wanted}.")
    if as_json:
        console.write_json(rows)
    elif rows:
        name = "" if called is None else f" ({called[wanted]})"
        console.print_rows(rows, f"Most similar to {wanted}{name}")


def explain(
    model: ModelFile,
    data: Data,
    user_id: User,
    item_id: Item,
    reading: DataOptions,
    top: Top = 10,
    names: Names = None,
    as_json: AsJson = False,
    drop_unknown_items: DropUnknown = False,
) -> None:
    """Split a user's score for an item into the contributions of the user's own items."""
    from equipoise.cli import ids

    fitted = load_model(model)
    (wanted,) = ids.matched([item_id], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, reading.like(fitted).names(data, names))
    interactions = ids.aligned(reading.like(fitted).read(data), fitted, drop_unknown_items)
    (who,) = ids.matched([user_id], interactions.user_ids, "user")
    why = fitted.explain(interactions.select_users([who]), wanted, top)
    rows = [
        {"item": each, "contribution": part, "share": part / why.score if why.score else None}
        | ({} if called is None else {"name": called[each]})
        for each, part in zip(why.ids.tolist(), why.contributions.tolist(), strict=True)
    ]
    if as_json:
        facts = {"user": who, "item": wanted, "score": why.score, "because": rows}
        console.write_json({**facts, "rest": why.rest})
        return
    name = "" if called is None else f" ({called[wanted]})"
    console.print_rows(rows, f"Why {wanted}{name} scores {why.score:.4g} for {who}")
    console.out.print(f"all other items {why.rest:.4g}", highlight=False)

"""`equipoise explain MODEL DATA --user U --item I`: what a score is made of."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equipoise.cli import console
from equipoise.cli import options as shared


def explain(
    model: shared.ModelFile,
    data: shared.Data,
    user: Annotated[str, typer.Option("--user", help="Id of the user.", metavar="ID")],
    item: Annotated[str, typer.Option("--item", help="Id of the item.", metavar="ID")],
    n: shared.Length = 10,
    names: shared.Names = None,
    as_json: shared.AsJson = False,
    user_column: shared.UserColumn = None,
    item_column: shared.ItemColumn = None,
    value: shared.Value = None,
    timestamp: shared.Timestamp = None,
    delimiter: shared.Delimiter = None,
    file_format: shared.Format = None,
    query: shared.Query = None,
    binarize: shared.Binarize = False,
    normalize_rows: shared.Normalize = False,
    drop_unknown_items: shared.DropUnknown = False,
) -> None:
    """Split a user's score for an item into what each of the user's own items contributes."""
    from equipoise.cli import ids, paths
    from equipoise.cli.lists import reasons
    from equipoise.models import load

    paths.check(inputs={"--names": names})
    fitted = load(model)
    (wanted,) = ids.matched([item], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, names)
    interactions = shared.read(
        data, user_column, item_column, value, timestamp, file_format, query, delimiter
    )
    interactions = shared.prepare(interactions, 0, 0, binarize, normalize_rows)
    interactions = ids.aligned(interactions, fitted, drop_unknown_items)
    (who,) = ids.matched([user], interactions.user_ids, "user")
    why = fitted.explain(interactions.select_users([who]), wanted, k=n)
    rows = reasons(why, called)
    if as_json:
        told = {"user": who, "item": wanted, "score": why.score, "because": rows, "rest": why.rest}
        text = json.dumps(told, ensure_ascii=False, default=str)
        console.write(text)
        return
    name = "" if called is None else f" ({called[wanted]})"
    console.print_rows(rows, f"Why {wanted}{name} scores {why.score:.4g} for {who}")
    console.out.print(f"all else {why.rest:.4g}", highlight=False)

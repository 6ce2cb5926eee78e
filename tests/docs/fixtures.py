"""Example files for the pages: readers use their own files, the tests use these."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl

from equipoise.data.synthetic import listening


def _table() -> pl.DataFrame:
    plays = listening(n_users=90, n_items=60)
    entries = plays.matrix.tocoo()
    return pl.DataFrame(
        {
            "user": plays.user_ids[entries.row].astype(str),
            "item": plays.item_ids[entries.col].astype(str),
            "plays": entries.data,
        }
    )


def _new_rows(path: Path) -> None:
    rows = _table().filter(pl.col("user") == "listener-0003")
    rows.with_columns(pl.lit("a new listener").alias("user")).write_parquet(path)


def _names(path: Path) -> None:
    plays = listening(n_users=90, n_items=60)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name"])
        writer.writerows(zip(plays.item_ids, plays.item_names, strict=True))


def _labels(ids: str, column: str) -> Callable[[Path], None]:
    """Write a file of attributes: a column of ids of the plays, and one of labels."""

    def write(path: Path) -> None:
        known = _table()[ids].unique(maintain_order=True)
        labels = [f"{column} {place % 2}" for place in range(len(known))]
        pl.DataFrame({ids: known, column: labels}).write_csv(path)

    return write


FILES: dict[str, Callable[[Path], None]] = {
    "plays.parquet": lambda path: _table().write_parquet(path),
    "plays.csv": lambda path: _table().write_csv(path),
    "new.parquet": _new_rows,
    "names.csv": _names,
    "artists.csv": _labels("item", "label"),
    "users.csv": _labels("user", "age"),
    "users.txt": lambda path: path.write_text("listener-0003\nlistener-0001\n") and None,
}


def write_fixtures(folder: Path, text: str) -> None:
    """Write the files that a page names into a folder."""
    for filename, make in FILES.items():
        if filename in text:
            make(folder / filename)

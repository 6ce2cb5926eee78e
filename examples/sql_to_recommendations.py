"""From a database to recommendations: a query is read, a table of lists is written.

A SQLite file needs only a query. With EQUIPOISE_POSTGRES_URL set, the same rows are read
from that PostgreSQL server too, from a table that is dropped again (pip install "equipoise[sql]").
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import polars as pl

from equipoise import Interactions, ItemWeightedPCA
from equipoise.data.synthetic import listening

QUERY = "SELECT listener AS user_id, artist AS item_id, plays AS value FROM {} ORDER BY number"


def main() -> None:
    shop = Path("plays.sqlite")
    shop.unlink(missing_ok=True)
    with sqlite3.connect(shop) as database:
        database.execute("CREATE TABLE plays (number, listener, artist, plays)")
        database.executemany("INSERT INTO plays VALUES (?, ?, ?, ?)", log())

    plays = Interactions.read(shop, query=QUERY.format("plays"))
    model = ItemWeightedPCA(n_components=8).fit(plays.normalize_rows())
    people = plays.select_users(plays.user_ids[:3]).normalize_rows()
    table = pl.DataFrame(
        [
            {"listener": user, "rank": rank, "artist": artist, "score": float(score)}
            for user, ids, scores in zip(
                people.user_ids, *model.recommend(people, k=3), strict=True
            )
            for rank, (artist, score) in enumerate(zip(ids, scores, strict=True), start=1)
        ]
    )
    with sqlite3.connect(shop) as database:
        database.execute("CREATE TABLE recommended (listener, rank, artist, score)")
        database.executemany("INSERT INTO recommended VALUES (?, ?, ?, ?)", table.rows())

    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True, tbl_rows=20)
    pl.Config(tbl_hide_column_data_types=True, float_precision=4)
    print(plays, table, sep="\n")
    if url := os.environ.get("EQUIPOISE_POSTGRES_URL"):
        print("The same data come from PostgreSQL:", from_postgres(url) == plays)


def log() -> list[tuple[int, str, str, float]]:
    """What a player wrote down: who played what, how often."""
    plays = listening(n_users=500, n_items=150)
    entries = plays.matrix.tocoo()
    users, items = plays.user_ids[entries.row].tolist(), plays.item_ids[entries.col].tolist()
    return list(zip(range(entries.nnz), users, items, entries.data.tolist(), strict=True))


def from_postgres(url: str) -> Interactions:
    import sqlalchemy as sql

    engine, name = sql.create_engine(url), f"example_plays_{os.getpid()}"
    kinds = {"number": sql.Integer, "listener": sql.Text, "artist": sql.Text, "plays": sql.Float}
    table = sql.Table(name, sql.MetaData(), *(sql.Column(*column) for column in kinds.items()))
    table.create(engine)
    try:
        with engine.begin() as server:
            server.execute(table.insert(), [dict(zip(kinds, row, strict=True)) for row in log()])
        return Interactions.read(url, query=QUERY.format(name))
    finally:
        table.drop(engine)


if __name__ == "__main__":
    main()

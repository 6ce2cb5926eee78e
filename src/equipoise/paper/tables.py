"""The paper's tables: two comparisons with the literature, the letters, the data sets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

import polars as pl

from equipoise.data.interactions import Interactions
from equipoise.paper.protocol import DATASETS


class PaperTable(NamedTuple):
    """A table of the paper: its name for files, its heading and its content."""

    name: str
    title: str
    table: pl.DataFrame


_TITLES = {
    "table1": "Table 1: notions of fair PCA",
    "table2": "Table 2: re-weighting for dimensionality reduction",
    "table3": "Table 3: letters, and their names here",
}


def literature_tables() -> list[PaperTable]:
    """Tables 1 to 3, which need no data."""
    folder = resources.files("equipoise.paper") / "literature"
    texts = {name: (folder / f"{name}.csv").read_bytes() for name in _TITLES}
    return [PaperTable(name, _TITLES[name], pl.read_csv(text)) for name, text in texts.items()]


def data_table(data: Mapping[str, Interactions]) -> PaperTable:
    """Table 4: the data sets after preprocessing."""
    rows = [
        (DATASETS[name].title, one.n_users, one.n_items, one.nnz, DATASETS[name].entry_type)
        for name, one in data.items()
    ]
    columns = ["dataset", "users", "items", "entries", "entry type"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return PaperTable("table4", "Table 4: data sets after preprocessing", table)

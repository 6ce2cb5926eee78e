"""The paper's tables: two comparisons with the literature, the letters, the data as counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.paper.measurements import Evaluation
from equipoise.paper.protocol import DATASETS
from equipoise.paper.tidy import Tidy


class PaperTable(NamedTuple):
    """A table of the paper: name for files, heading, content."""

    name: str
    title: str
    table: Tidy


def literature_tables() -> tuple[PaperTable, ...]:
    """Tables 1 to 3, which need no data."""
    return (
        PaperTable(
            "table1",
            "Table 1: notions of fair PCA",
            Tidy.of(
                ("fairness notion", "with respect to", "requires group labels"),
                [
                    ("obfuscate group identifiability", "users", "yes"),
                    ("balance error across groups", "users", "yes"),
                    ("increase collaboration (Item-Weighted PCA)", "items", "no"),
                ],
            ),
        ),
        PaperTable(
            "table2",
            "Table 2: re-weighting for dimensionality reduction",
            Tidy.of(
                ("algorithm", "convex problem", "hard rank", "beyond missing data"),
                [
                    ("inverse propensity weighting", "no", "yes", "no"),
                    ("weighted matrix factorization", "no", "yes", "yes"),
                    ("max-margin matrix factorization", "yes", "no", "yes"),
                    ("Item-Weighted PCA", "yes", "yes", "yes"),
                ],
            ),
        ),
        PaperTable("table3", "Table 3: letters, and their names here", _letters()),
    )


def _letters() -> Tidy:
    rows = [
        ("n, m", "number of users and items", "Interactions.n_users, .n_items"),
        ("X", "user preference matrix", "Interactions.matrix"),
        ("X̂", "approximated preference matrix", "model.reconstruct(X)"),
        ("r", "number of principal components", "n_components"),
        ("P", "projection matrix", "model.components_.T @ model.components_, never built"),
        ("P′", "P with its diagonal set to zero", "inside item_auc and item_precision"),
        ("U", "matrix of r principal components", "model.components_.T"),
        ("σ_i", "singular values", "VanillaPCA.singular_values_"),
        ("w_j", "weight of item j", "model.item_weights_"),
        ("p_j", "popularity of item j", "model.popularity_"),
        ("γ", "exponent of popularity in the weights", "gamma"),
        ("y", "binary interaction label", "X > 0"),
        ("ε", "tolerance of the reconstruction error", "error_budget"),
    ]
    return Tidy.of(("letter", "meaning", "name here"), rows)


def data_table(evaluations: Sequence[Evaluation]) -> PaperTable:
    """Table 4: the data sets after pre-processing, counted."""
    rows = [
        (e.title, e.n_users, e.n_items, e.n_entries, DATASETS[e.dataset].entry_type)
        for e in evaluations
    ]
    columns = ("dataset", "users", "items", "entries", "entry type")
    return PaperTable("table4", "Table 4: data sets after pre-processing", Tidy.of(columns, rows))

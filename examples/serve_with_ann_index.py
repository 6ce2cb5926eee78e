"""Serve through a nearest-neighbor index: usearch and faiss, compared with exact search.

`to_ann(model)` gives item vectors whose inner products with a user's vector are the model's
scores. An index finds the best items without scoring all of them. It may miss some: the example
measures the recall of each index against the exact lists.

Needs: pip install "equipoise[ann]"
"""

from __future__ import annotations

import polars as pl

from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import listening
from equipoise.serving import to_ann

N = 10


def main() -> None:
    plays = listening(n_users=1000, n_items=3000)
    model = ItemWeightedPCA(n_components=32).fit(plays.normalize_rows())
    visitors = listening(n_users=300, n_items=3000, seed=7).normalize_rows()  # all new

    vectors = to_ann(model)
    indexes = {
        "usearch": vectors.usearch(),
        "usearch, searching longer": vectors.usearch(expansion_search=256),
        "faiss HNSW32": vectors.faiss("HNSW32"),
        "faiss Flat (exact)": vectors.faiss("Flat"),
    }
    lines = [
        {
            "index": name,
            f"recall@{N}": vectors.recall_of(index, visitors, k=N),
            "recall@100": vectors.recall_of(index, visitors, k=100),
        }
        for name, index in indexes.items()
    ]
    print(f"{vectors.item_vectors.shape[0]:,} items, vectors of {vectors.item_vectors.shape[1]}:")
    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True)
    pl.Config(tbl_hide_column_data_types=True, float_precision=4)
    print(pl.DataFrame(lines))

    one = visitors.select_users(visitors.user_ids[:1])
    found = vectors.search(indexes["usearch"], one, k=3)
    exact = model.recommend(one, k=3)
    print("\nThe list of one visitor, without what the visitor knows:")
    columns = {"from the index": found.ids[0], "score": found.scores[0]}
    print(pl.DataFrame(columns | {"exactly": exact.ids[0], "its score": exact.scores[0]}))


if __name__ == "__main__":
    main()

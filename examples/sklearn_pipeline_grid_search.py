"""A scikit-learn pipeline and its grid search, with a recommender at the end.

Cross-validation splits *users*: each fold is evaluated on users that the model has never seen. Some
items of each user are held out, and the score is how many of them are in a list of ten. The search
is scikit-learn's own.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer

from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import listening
from equipoise.metrics import recall_at_k


def main() -> None:
    plays = listening(n_users=1200, n_items=300).matrix

    pipeline = Pipeline([("rows", Normalizer()), ("model", ItemWeightedPCA())])
    space = {
        "rows__norm": ["l1", "l2"],
        "model__n_components": [4, 8, 16],
        "model__gamma": [0.0, -1.0, -1.5],  # 0 is plain PCA
    }
    search = GridSearchCV(pipeline, space, scoring=recall_of_hidden, cv=3).fit(plays)

    table = pl.DataFrame(search.cv_results_["params"]).with_columns(
        pl.Series("recall@10", search.cv_results_["mean_test_score"]),
        pl.Series("± over folds", search.cv_results_["std_test_score"]),
    )
    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True, tbl_rows=20)
    pl.Config(tbl_hide_column_data_types=True, float_precision=3)
    print(table.sort("recall@10", descending=True))
    print(f"\nbest: {search.best_params_}")


def recall_of_hidden(pipeline: Pipeline, plays: sp.csr_array) -> float:
    """Hide a fifth of each user's items, recommend from the rest, count what comes back."""
    left = plays.copy()
    left.data[np.random.default_rng(0).random(plays.nnz) < 0.2] = 0.0
    left.eliminate_zeros()
    hidden = plays - left
    lists = pipeline["model"].recommend(pipeline["rows"].transform(left), k=10).ids
    return recall_at_k(lists, hidden, k=10).value


if __name__ == "__main__":
    main()

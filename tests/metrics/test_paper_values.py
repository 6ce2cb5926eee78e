"""The paper's numbers, from a dense eigen-solver and the metrics alone.

Last.fm rows are divided by their sum before the split. Normalized PCA scores with X diag(1/p).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from tests.golden import AT_RANK_30, AT_RANK_32

from equipoise.metrics import (
    components_to_reach,
    item_collaboration,
    item_error,
    mean_by_group,
    popularity_groups,
    ranking_metrics,
    self_reconstruction,
    specialization,
)

pytestmark = pytest.mark.data


class Fitted(NamedTuple):
    U: np.ndarray
    inputs: sp.csr_array


@pytest.fixture(scope="module")
def fit(request):
    """Fit a model with dense LAPACK, once for both tests that use it."""
    done = {}

    def run(dataset, model) -> Fitted:
        if (dataset, model) not in done:
            X = request.getfixturevalue(dataset).fitted
            C = (X.T @ X).toarray()
            w = 1 / np.sqrt(np.diag(C))
            M = {
                "pca": C,
                "norm": C * np.outer(w, w),
                "iw": C * (w[:, None] + w) / 2,
            }[model]
            inputs = (X @ sp.diags_array(w)).tocsr() if model == "norm" else X
            done[dataset, model] = Fitted(np.linalg.eigh(M)[1][:, :-33:-1], inputs)
        return done[dataset, model]

    return run


def test_the_protocol_gives_the_published_counts(lastfm, movielens):
    assert lastfm.unsplit.shape == (1867, 1529)
    assert lastfm.unsplit.nnz == 62975
    assert (lastfm.fitted.nnz, lastfm.test.nnz) == (51139, 11836)
    assert movielens.unsplit.shape == (6040, 1200)
    assert (movielens.fitted.nnz, movielens.test.nnz) == (279968, 66950)
    assert (np.diff(lastfm.test.indptr) == 0).sum() == 22
    assert (np.diff(movielens.test.indptr) == 0).sum() == 28


def test_the_published_rule_gives_the_published_group_sizes(lastfm, movielens):
    assert list(popularity_groups(lastfm.fitted).sizes.values()) == [7, 893, 629]
    assert list(popularity_groups(movielens.fitted).sizes.values()) == [14, 580, 606]


def test_popular_items_need_78_components_and_unpopular_ones_758(lastfm):
    X = lastfm.unsplit
    U = np.linalg.eigh((X.T @ X).toarray())[1][:, ::-1]
    needed = components_to_reach(item_error(X, U))
    by_group = mean_by_group(needed, popularity_groups(X, rule="items")).by_group
    assert popularity_groups(X, rule="items").sizes == {
        "popular": 152,
        "medium": 1225,
        "niche": 152,
    }
    assert by_group["popular"] == pytest.approx(77.743, abs=5e-4)
    assert by_group["niche"] == pytest.approx(758.348, abs=1e-3)
    assert not np.isnan(needed).any()


@pytest.mark.parametrize(("dataset", "model"), AT_RANK_30)
def test_in_sample_item_metrics_at_rank_30(request, fit, dataset, model):
    data = request.getfixturevalue(dataset)
    U, inputs = fit(dataset, model)
    groups = popularity_groups(data.fitted)
    scored = item_collaboration(data.fitted, U[:, :30], inputs=inputs)
    auc, precision = (mean_by_group(v, groups) for v in (scored.auc, scored.precision))
    found = (
        specialization(self_reconstruction(U, ranks=[30])[0]),
        auc.overall,
        auc.by_group["niche"],
        precision.overall,
        precision.by_group["niche"],
    )
    assert tuple(round(value, 4) for value in found) == AT_RANK_30[dataset, model]


@pytest.mark.parametrize(("dataset", "model"), AT_RANK_32)
def test_user_metrics_at_rank_32(request, fit, dataset, model):
    data = request.getfixturevalue(dataset)
    U, inputs = fit(dataset, model)
    scores = (inputs @ U) @ U.T
    scores[data.fitted.nonzero()] = -np.inf
    table = ranking_metrics(
        np.argsort(-scores, axis=1, kind="stable")[:, :20],
        data.test,
        metrics=("recall", "precision", "ndcg", "mrr"),
        conventions={"mrr": "lightgcn"},
        zero_division=0,
    )
    assert tuple(round(result.value, 4) for result in table) == AT_RANK_32[dataset, model]

"""The largest contributions to lists, compared with sorting each user's contributions."""

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import EASE, ItemKNN, ItemWeightedPCA
from equipoise.models import Ranking
from equipoise.models.explanations import PaddedRows, largest_contributions


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = rng.integers(1, 9, (30, 17)) * (rng.random((30, 17)) < 0.4)
    X[4] = 0  # a user without items
    return sp.csr_array(X.astype(float))


def by_hand(parts, row, k):
    order = np.argsort(-np.abs(parts), kind="stable")[:k]
    return row.indices[order].tolist(), parts[order].tolist()


@pytest.mark.parametrize("k", [1, 3, 8, 9, None])
def test_blocks_of_users_give_what_each_user_gives_alone(rows, k):
    B = np.random.default_rng(0).integers(-3, 4, (17, 17)).astype(float)  # with ties
    lists = np.random.default_rng(1).integers(-1, 17, (30, 5))

    def contributions(some, wanted):
        columns, stored = PaddedRows.of(some)
        values = PaddedRows.spread(some.data, stored)
        return B[columns[:, None], wanted[..., None]] * values[:, None]

    columns, values = largest_contributions(contributions, rows, lists, k, block_bytes=20_000)
    for user, wanted in enumerate(lists):
        row = rows[[user]]
        for place, item in enumerate(wanted):
            some = columns[user, place] >= 0
            np.testing.assert_array_equal(np.isnan(values[user, place]), ~some)
            found = columns[user, place][some].tolist(), values[user, place][some].tolist()
            expected = ([], []) if item < 0 else by_hand(row.data * B[row.indices, item], row, k)
            assert found == expected


@pytest.mark.parametrize(
    "model",
    [ItemWeightedPCA(5, value_transform="log1p", spectral_filter="ridge"), EASE(2.0), ItemKNN(6)],
)
def test_all_contributions_add_up_to_the_scores(model, rows):
    fitted = model.fit(rows)
    lists = fitted.recommend(rows, k=4, fallback=None)
    found = fitted.explain_lists(rows, lists, k=None)
    np.testing.assert_allclose(np.nansum(found.contributions, axis=2), lists.scores, atol=1e-12)
    np.testing.assert_allclose(found.rest, 0, atol=1e-12)
    counts = np.diff(rows.indptr)
    np.testing.assert_array_equal((found.ids >= 0).sum(axis=2), np.tile(counts, (4, 1)).T)


def test_short_lists_have_no_explanation_where_they_have_no_item(rows):
    model = ItemWeightedPCA(5).fit(rows)
    found = model.explain_lists(rows[[0]], Ranking(np.array([[2, -1]]), np.array([[1, np.nan]])))
    assert np.isnan(found.scores[0, 1])
    assert found.of(0, 1).ids.size == 0
    assert found.of(0, 0).ids.size == rows[[0]].nnz

"""One contract for every model: what a user may rely on whichever they pick."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import equipoise
from equipoise import Interactions
from equipoise.exceptions import InvalidDataError, SolverWarning, UnknownIdError
from equipoise.models import Recommender
from equipoise.models.registry import MODELS
from equipoise.testing import CHECKS
from tests.contract.variants import BASELINES, VARIANTS, build, named


def learned(model: Recommender) -> dict[str, np.ndarray]:
    """Every array that the model keeps, sparse ones spread out."""
    arrays = {name: getattr(model, name) for name in model._arrays if hasattr(model, name)}
    return {k: v.toarray() if sp.issparse(v) else np.asarray(v) for k, v in arrays.items()}


def assert_same(first: Recommender, second: Recommender) -> None:
    arrays, others = learned(first), learned(second)
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


def checkerboard(n: int = 24) -> np.ndarray:
    """Even users like even items and odd users odd ones; user i has not touched item i yet."""
    X = np.add.outer(np.arange(n), np.arange(n)) % 2 == 0
    X = X.astype(float)
    np.fill_diagonal(X, 0.0)
    return X


def test_every_model_of_the_registry_is_held_to_the_contract():
    assert {key for key, _ in VARIANTS.values()} == set(MODELS)


@pytest.mark.parametrize("name", [p for p in named() if p.values[0] not in BASELINES])
def test_checkerboard_top_one_is_the_one_item_left_out(name):
    X = checkerboard()
    model = build(name, n_components=2, max_epochs=50).fit(X)
    np.testing.assert_array_equal(model.recommend(X, k=1).ids[:, 0], np.arange(len(X)))


@pytest.mark.parametrize("name", [p for p in named() if "n_components" in VARIANTS[p.values[0]][1]])
def test_a_rank_above_the_number_of_items_is_refused(name, X):
    message = "n_components=3 must be at most the number of items, 2"
    with pytest.raises(ValueError, match=message):
        build(name).fit(X[:, :2])


@pytest.mark.medium
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", named())
def test_every_model_passes_the_public_contract(name, check):
    check(build(name))


@pytest.mark.parametrize("name", named())
class TestContract:
    def test_column_names_are_saved_too(self, name, X, tmp_path):
        frame = pd.DataFrame(X, columns=[f"song-{j}" for j in range(14)])
        loaded = equipoise.load(build(name).fit(frame).save(tmp_path / "model.eqp"))
        np.testing.assert_array_equal(loaded.feature_names_in_, frame.columns)

    def test_batch_equals_single_rows(self, name, X):
        model = build(name).fit(X)
        batch = model.recommend(X, k=4)
        for i in (0, 7, 39):
            single = model.recommend(X[i], k=4)
            assert single.ids.shape == (4,)
            np.testing.assert_array_equal(single.ids, batch.ids[i])
            np.testing.assert_allclose(single.scores, batch.scores[i], rtol=1e-11)

    @pytest.mark.parametrize(
        "as_sparse", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix]
    )
    def test_sparse_equals_dense(self, name, X, as_sparse):
        dense, sparse = build(name).fit(X), build(name).fit(as_sparse(X))
        assert_same(dense, sparse)
        np.testing.assert_array_equal(
            dense.recommend(X).scores, sparse.recommend(as_sparse(X)).scores
        )

    def test_same_data_and_seed_give_the_same_bits(self, name, X):
        for seed in (None, 5):
            first, again = (build(name, random_state=seed).fit(X) for _ in range(2))
            assert_same(first, again)
            np.testing.assert_array_equal(first.recommend(X).scores, again.recommend(X).scores)

    def test_ids_in_and_ids_out(self, name, plays, X):
        by_id = build(name).fit(plays).recommend(plays, k=3)
        by_column = build(name).fit(X).recommend(X, k=3)
        assert by_id.ids.shape == (40, 3)
        translated = np.array([[f"song-{j}" for j in row] for row in by_column.ids], dtype=object)
        complete = by_column.ids >= 0
        np.testing.assert_array_equal(by_id.ids[complete], translated[complete])

    def test_unknown_items_are_refused_by_name(self, name, plays):
        model = build(name).fit(plays)
        stranger = Interactions.from_pairs(["new"], ["song-999"])
        with pytest.raises(UnknownIdError, match="song-999"):
            model.recommend(stranger)
        with pytest.raises(UnknownIdError, match="song-999"):
            model.similar_items("song-999")
        with pytest.raises(UnknownIdError, match="song-999"):
            model.recommend(plays, filter_items=["song-999"])
        with pytest.raises(UnknownIdError, match="column numbers, 0 to 13"):
            build(name).fit(plays.matrix).similar_items(14)

    def test_no_seen_item_is_recommended_and_rows_are_padded(self, name, X):
        ids, scores = build(name).fit(X).recommend(X, k=14)
        for row, best, score in zip(X, ids, scores, strict=True):
            left = best[best >= 0]
            assert not np.any(row[left] > 0)
            assert len(left) == np.count_nonzero(row == 0)
            assert np.all(np.isnan(score[best < 0]))

    def test_seen_items_come_back_when_asked_for(self, name, X):
        ids = build(name).fit(X).recommend(X, k=14, filter_already_liked_items=False).ids
        np.testing.assert_array_equal(np.sort(ids, axis=1), np.tile(np.arange(14), (40, 1)))

    def test_users_without_items_get_a_list_too(self, name, X):
        ids, scores = build(name).fit(X).recommend(np.zeros(14), k=14)
        assert sorted(ids) == list(range(14))
        assert np.all(np.isfinite(scores))

    def test_contributions_and_the_rest_sum_to_the_score(self, name, plays):
        model = build(name).fit(plays)
        user = plays.select_users(["user-5"])
        ids, scores = model.recommend(user, k=3)
        for item, score in zip(ids[0], scores[0], strict=True):
            whole = model.explain(user, item, k=None)
            assert whole.score == pytest.approx(score, rel=1e-6, abs=1e-10)
            assert whole.contributions.sum() + whole.rest == pytest.approx(whole.score, abs=1e-10)
            assert set(whole.ids) == set(plays.item_ids[user.matrix.indices])
            short = model.explain(user, item, k=2)
            assert len(short.ids) == min(2, user.nnz)
            assert short.contributions.sum() + short.rest == pytest.approx(whole.score, abs=1e-10)

    def test_explaining_several_users_at_once_is_refused(self, name, X):
        model = build(name).fit(X)
        with pytest.raises(InvalidDataError, match="items of one user, got 40 rows"):
            model.explain(X, 0)

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda X: X * np.nan, "NaN"),
            (lambda X: X + np.inf, "infinity"),
            (lambda X: X - 5, "Negative values in data passed to"),
            (lambda X: X * 0, "no interaction"),
            (lambda X: X[:0], "0 sample"),
        ],
    )
    def test_bad_data_are_refused(self, name, X, spoil, message):
        with pytest.raises(ValueError, match=message):
            build(name).fit(spoil(X))

    def test_rows_of_another_width_are_refused(self, name, X):
        model = build(name).fit(X)
        with pytest.raises(ValueError, match="13 features"):
            model.recommend(X[:, :13])

    def test_data_are_left_as_they_were(self, name, X):
        sparse = sp.csr_matrix(X)
        sparse.data[0] = 0.0  # a stored zero
        before = sparse.copy()
        build(name).fit(sparse).recommend(sparse)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(sparse, part), getattr(before, part))


@pytest.mark.parametrize(
    ("key", "parameters"),
    [
        ("pca", {"n_components": 3}),
        ("gfcf", {"n_components": 3}),
        ("trace-norm", {"max_components": 1}),
        ("ips-mf", {"n_components": 1, "regularization": 1e9}),
    ],
)
def test_a_warning_points_at_the_line_that_called_fit(key, parameters):
    two_tastes = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]])  # rank two
    with pytest.warns(SolverWarning) as caught:
        MODELS[key].make(**parameters).fit(two_tastes)
    assert [warning.filename for warning in caught] == [__file__]

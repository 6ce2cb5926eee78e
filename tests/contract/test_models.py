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
from equipoise.testing import check_recommender
from tests.contract.variants import BASELINES, VARIANTS, build, named

COMPUTE_IN_FLOAT64 = {*BASELINES, "lightgcn"}


def learned(model: Recommender) -> dict[str, np.ndarray]:
    """Every array that the model keeps, sparse ones spread out."""
    kept = {k: v for k, v in vars(model).items() if k.endswith("_")}
    arrays = {k: v for k, v in kept.items() if isinstance(v, np.ndarray) or sp.issparse(v)}
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


def reads_values(name: str) -> bool:
    """Whether the model squares values as they are: no 0/1, no logarithm."""
    key, parameters = VARIANTS[name]
    return key not in {*BASELINES, "lightgcn"} and "value_transform" not in parameters


def test_every_model_of_the_registry_is_held_to_the_contract():
    assert {key for key, _ in VARIANTS.values()} == set(MODELS)


@pytest.mark.parametrize("name", [p for p in named() if p.values[0] not in BASELINES])
def test_checkerboard_top_one_is_the_one_item_left_out(name):
    X = checkerboard()
    model = build(name, n_components=2, max_epochs=50).fit(X)
    np.testing.assert_array_equal(model.recommend(X, k=1).ids[:, 0], np.arange(len(X)))


@pytest.mark.parametrize("name", [p for p in named() if "n_components" in VARIANTS[p.values[0]][1]])
def test_a_rank_above_the_number_of_items_is_refused(name, X):
    with pytest.raises(ValueError, match="at most the number of items, 2"):
        build(name).fit(X[:, :2])


@pytest.mark.parametrize("name", [p for p in named() if reads_values(p.values[0])])
def test_values_whose_squares_overflow_are_refused(name, X):
    with pytest.raises(InvalidDataError, match=r"^values (as large as|from) "):
        build(name).fit(X * 1e200)


@pytest.mark.medium
@pytest.mark.parametrize("name", named())
def test_every_model_passes_the_public_contract(name):
    check_recommender(build(name))


@pytest.mark.parametrize("name", named())
class TestContract:
    """Beyond `equipoise.testing`: bits, padded lists, ids of both kinds, words of errors."""

    def test_column_names_are_saved_too(self, name, X, tmp_path):
        frame = pd.DataFrame(X, columns=[f"song-{j}" for j in range(14)])
        loaded = equipoise.load(build(name).fit(frame).save(tmp_path / "model.eqp"))
        np.testing.assert_array_equal(loaded.feature_names_in_, frame.columns)

    def test_item_weights_are_the_weights_of_items_in_the_objective(self, fitted, X):
        if hasattr(fitted, "item_weights_"):
            weights = fitted.item_weights_
            assert weights.shape == (X.shape[1],)
            assert weights.dtype == np.float64
            assert np.all((weights >= 0) & np.isfinite(weights))
            assert weights.any()

    def test_batch_equals_single_rows(self, fitted, X):
        batch = fitted.recommend(X, k=4)
        for i in (0, 7, 39):
            single = fitted.recommend(X[i], k=4)
            assert single.ids.shape == (4,)
            np.testing.assert_array_equal(single.ids, batch.ids[i])
            np.testing.assert_allclose(single.scores, batch.scores[i], rtol=1e-11)

    def test_sparse_equals_dense(self, name, fitted, X):
        expected = fitted.recommend(X).scores
        for as_sparse in (sp.csr_matrix, sp.coo_array):
            sparse = build(name).fit(as_sparse(X))
            assert_same(fitted, sparse)
            np.testing.assert_array_equal(expected, sparse.recommend(as_sparse(X)).scores)

    def test_same_data_and_seed_give_the_same_bits(self, name, fitted, X):
        pairs = [(fitted, build(name).fit(X))]
        if "random_state" in fitted.get_params():
            pairs += [tuple(build(name, random_state=5).fit(X) for _ in range(2))]
        for first, again in pairs:
            assert_same(first, again)
            np.testing.assert_array_equal(first.recommend(X).scores, again.recommend(X).scores)

    def test_ids_in_and_ids_out(self, fitted, fitted_by_id, plays, X):
        by_id, by_column = fitted_by_id.recommend(plays, k=3), fitted.recommend(X, k=3)
        assert by_id.ids.shape == (40, 3)
        translated = np.array([[f"song-{j}" for j in row] for row in by_column.ids], dtype=object)
        complete = by_column.ids >= 0
        np.testing.assert_array_equal(by_id.ids[complete], translated[complete])

    def test_unknown_items_are_refused_by_name(self, fitted, fitted_by_id, plays):
        unknown = Interactions.from_pairs(["new"], ["song-999"])
        with pytest.raises(UnknownIdError, match="song-999"):
            fitted_by_id.recommend(unknown)
        with pytest.raises(UnknownIdError, match="song-999"):
            fitted_by_id.similar_items("song-999")
        with pytest.raises(UnknownIdError, match="song-999"):
            fitted_by_id.recommend(plays, filter_items=["song-999"])
        with pytest.raises(UnknownIdError, match="0 to 13"):
            fitted.similar_items(14)

    def test_no_seen_item_is_recommended_and_rows_are_padded(self, fitted, X):
        ids, scores = fitted.recommend(X, k=14)
        for row, best, score in zip(X, ids, scores, strict=True):
            left = best[best >= 0]
            assert not np.any(row[left] > 0)
            assert len(left) == np.count_nonzero(row == 0)
            assert np.all(np.isnan(score[best < 0]))

    def test_seen_items_come_back_when_asked_for(self, fitted, X):
        ids = fitted.recommend(X, k=14, filter_already_liked_items=False).ids
        np.testing.assert_array_equal(np.sort(ids, axis=1), np.tile(np.arange(14), (40, 1)))

    def test_users_without_items_get_a_list_too(self, fitted):
        ids, scores = fitted.recommend(np.zeros(14), k=14)
        assert sorted(ids) == list(range(14))
        assert np.all(np.isfinite(scores))

    def test_contributions_and_the_rest_sum_to_the_score(self, fitted_by_id, plays):
        user = plays.select_users(["user-5"])
        ids, scores = fitted_by_id.recommend(user, k=3)
        for item, score in zip(ids[0], scores[0], strict=True):
            whole = fitted_by_id.explain(user, item, k=None)
            assert whole.score == pytest.approx(score, rel=1e-6, abs=1e-10)
            assert whole.contributions.sum() + whole.rest == pytest.approx(whole.score, abs=1e-10)
            assert set(whole.ids) == set(plays.item_ids[user.matrix.indices])
            short = fitted_by_id.explain(user, item, k=2)
            assert len(short.ids) == min(2, user.nnz)
            assert short.contributions.sum() + short.rest == pytest.approx(whole.score, abs=1e-10)

    def test_lists_are_explained_like_their_items_one_by_one(self, fitted_by_id, plays):
        users = plays.select_users(["user-5", "user-7"])
        lists = fitted_by_id.recommend(users, k=3)
        explained = fitted_by_id.explain_lists(users, lists, k=2)
        assert explained.scores.shape == (2, 3)
        for row, (user, ids) in enumerate(zip(users.user_ids, lists.ids, strict=True)):
            alone = users.select_users([user])
            for place, item in enumerate(ids):
                why, expected = explained.of(row, place), fitted_by_id.explain(alone, item, k=2)
                np.testing.assert_array_equal(why.ids, expected.ids)
                np.testing.assert_allclose(why.contributions, expected.contributions, rtol=1e-9)
                assert (why.score, why.rest) == pytest.approx((expected.score, expected.rest))

    def test_explaining_several_users_at_once_is_refused(self, fitted, X):
        with pytest.raises(InvalidDataError, match="one user, got 40 rows"):
            fitted.explain(X, 0)

    def test_bad_data_are_refused(self, name, X):
        for bad, message in (
            (X * np.nan, "NaN"),
            (X + np.inf, "infinity"),
            (X - 5, "Negative values"),
            (X * 0, "no interaction"),
            (X[:0], "0 sample"),
        ):
            with pytest.raises(ValueError, match=message):
                build(name).fit(bad)

    def test_rows_of_another_width_are_refused(self, fitted, X):
        with pytest.raises(ValueError, match="13 features"):
            fitted.recommend(X[:, :13])

    def test_rows_that_are_not_finite_are_refused(self, fitted, X):
        for bad in (np.nan, np.inf):
            X[3, 5] = bad
            for form in (np.asarray, sp.csr_array):
                with pytest.raises(ValueError, match="Input X contains"):
                    fitted.recommend(form(X))

    def test_float32_data_give_float32_scores_near_the_float64_ones(self, name, fitted, X):
        narrow = X.astype(np.float32)
        scores = build(name).fit(narrow).recommend(narrow, 14, filter_already_liked_items=False)
        expected = fitted.score_items(X)
        assert scores.scores.dtype == (np.float64 if name in COMPUTE_IN_FLOAT64 else np.float32)
        found = np.take_along_axis(expected, scores.ids, axis=1)
        np.testing.assert_allclose(scores.scores, found, rtol=1e-3, atol=1e-3 * expected.max())

    def test_an_item_that_nobody_touched_is_similar_to_none(self, name, X):
        X[:, 6] = 0
        model = build(name).fit(X)
        np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
        assert 6 not in model.similar_items(3, k=13).ids

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

"""`ImplicitLike` compared with implicit's own model: same arguments, same arrays, same meaning."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import equipoise
from equipoise import ItemWeightedPCA, Popularity, WeightedMF
from equipoise.data.synthetic import listening
from equipoise.exceptions import (
    ArtifactError,
    InvalidDataError,
    InvalidParameterError,
    UnknownIdError,
)
from equipoise.serving.implicit import ImplicitLike

als = pytest.importorskip(
    "implicit.cpu.als", reason='ImplicitLike was NOT compared: pip install "equipoise[als]"'
)
FLOOR = np.finfo(np.float32).min


@pytest.fixture(scope="module")
def X() -> sp.csr_matrix:
    plays = listening(n_users=300, n_items=80).binarize().matrix
    return sp.csr_matrix(plays.astype(np.float32).toarray())


@pytest.fixture(scope="module")
def theirs(X):
    model = als.AlternatingLeastSquares(factors=8, random_state=0)
    model.fit(X, show_progress=False)
    return model


@pytest.fixture(scope="module")
def ours(X):
    model = ImplicitLike(ItemWeightedPCA(n_components=8))
    model.fit(X, show_progress=False)
    return model


def test_recommend_takes_the_arguments_of_implicit_in_its_order_with_its_defaults(theirs):
    shape = [(p.name, p.default) for p in inspect.signature(theirs.recommend).parameters.values()]
    parameters = inspect.signature(ImplicitLike.recommend).parameters.values()
    assert [(p.name, p.default) for p in parameters][1:] == shape


PAIR = [3, 7]
CALLS = {
    "one user": lambda model, X: model.recommend(3, X[3]),
    "one user, fewer": lambda model, X: model.recommend(3, X[3], 4),
    "a batch": lambda model, X: model.recommend(np.array(PAIR), X[PAIR], N=5),
    "a list": lambda model, X: model.recommend(PAIR, X[PAIR], N=5),
    "seen items too": lambda model, _: model.recommend(
        PAIR, None, N=5, filter_already_liked_items=False
    ),
    "without some": lambda model, X: model.recommend(PAIR, X[PAIR], filter_items=[0, 40]),
    "only some": lambda model, X: model.recommend(PAIR, X[PAIR], items=[61, 60, 62], N=5),
    "a row passed": lambda model, X: model.recommend(0, X[9], recalculate_user=True),
    "similar": lambda model, _: model.similar_items(5, N=4),
    "similar to two": lambda model, _: model.similar_items([5, 6], N=4),
    "similar, only some": lambda model, _: model.similar_items(5, items=[1, 5, 7], N=3),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_same_call_returns_the_same_kind_of_arrays(call, ours, theirs, X):
    for mine, other in zip(call(ours, X), call(theirs, X), strict=True):
        assert mine.shape == other.shape
        # with `items`, implicit's numbers are int64 and not int32 as otherwise
        assert mine.dtype == (np.int32 if other.dtype == np.int64 else other.dtype)


def test_items_and_scores_are_those_of_the_model(ours, X):
    ids, scores = ours.recommend(np.arange(20), X[:20], N=6)
    exact = ours.model.recommend(X[:20], k=6)
    np.testing.assert_array_equal(ids, exact.ids)
    np.testing.assert_allclose(scores, exact.scores, rtol=1e-6)


def test_the_same_least_squares_behind_both_faces_agree(theirs, X):
    model = WeightedMF(8, alpha=1.0, confidence="proportional")
    model.fit(X)
    model.item_factors_ = theirs.item_factors.copy()
    ids, scores = ImplicitLike(model).recommend(np.arange(50), X[:50], recalculate_user=True)
    expected = theirs.recommend(np.arange(50), X[:50], recalculate_user=True)
    np.testing.assert_allclose(scores, expected[1], atol=1e-4)
    assert (ids == expected[0]).mean() > 0.99  # float32 there, float64 here: near ties may swap


def test_users_are_scored_by_their_rows_of_the_training_data(ours, X):
    ids, _ = ours.recommend(3, X[9], filter_already_liked_items=True)
    assert not set(ids) & set(X[9].indices)
    everything, _ = ours.recommend(3, None, N=80, filter_already_liked_items=False)
    left = [item for item in everything if item not in set(X[9].indices)]
    assert ids.tolist() == left[:10]


def test_with_recalculate_user_the_row_passed_is_what_counts(ours, X):
    ids, scores = ours.recommend(999_999, X[9], recalculate_user=True)
    again = ours.recommend(9, X[9])
    np.testing.assert_array_equal(ids, again[0])
    np.testing.assert_array_equal(scores, again[1])


def test_an_item_is_most_similar_to_itself_as_in_implicit(ours, theirs):
    for model in (ours, theirs):
        ids, scores = model.similar_items([5, 6], N=3)
        assert ids[:, 0].tolist() == [5, 6]
        np.testing.assert_allclose(scores[:, 0], 1.0, atol=1e-5)


def test_places_that_cannot_be_filled_have_the_score_of_implicit(ours, theirs, X):
    kept = len(X[3].indices)
    for model in (ours, theirs):
        _, scores = model.recommend(3, X[3], N=80)
        assert (scores == FLOOR).sum() == kept
    assert (ours.recommend(3, X[3], N=80)[0][-kept:] == -1).all()


def test_the_evaluation_of_implicit_takes_it(X):
    evaluation = pytest.importorskip("implicit.evaluation")
    train, test = evaluation.train_test_split(X, 0.8, random_state=0)
    refitted = ImplicitLike(ItemWeightedPCA(n_components=8))
    refitted.fit(train)
    measured = evaluation.ranking_metrics_at_k(refitted, train, test, K=10, show_progress=False)
    floor = ImplicitLike(Popularity())
    floor.fit(train)
    worst = evaluation.ranking_metrics_at_k(floor, train, test, K=10, show_progress=False)
    assert measured["ndcg"] > worst["ndcg"] > 0


def test_a_model_from_a_file_serves_rows(ours, X, tmp_path):
    ours.model.save(tmp_path / "songs.eqp")
    served = ImplicitLike(equipoise.load(tmp_path / "songs.eqp"))
    ids, _ = served.recommend(0, X[3], recalculate_user=True)
    np.testing.assert_array_equal(ids, ours.recommend(3, X[3])[0])
    with pytest.raises(InvalidParameterError, match="fitted elsewhere"):
        served.recommend(0, X[3])


class TestRefusals:
    def test_a_model_that_is_not_fitted(self, X):
        model = ImplicitLike(ItemWeightedPCA(n_components=8))
        with pytest.raises(NotFittedError, match="ItemWeightedPCA instance is not fitted"):
            model.recommend(0, X[0], recalculate_user=True)
        with pytest.raises(NotFittedError, match="ItemWeightedPCA instance is not fitted"):
            model.similar_items(0)

    def test_rows_of_another_format(self, ours, X):
        with pytest.raises(InvalidDataError, match="CSR sparse matrix, got ndarray"):
            ours.recommend(3, X[3].toarray())

    def test_rows_for_another_number_of_users(self, ours, X):
        with pytest.raises(InvalidDataError, match="2 users, got 3"):
            ours.recommend([3, 4], X[:3])

    @pytest.mark.parametrize("user", [-1, 300, 2.5])
    def test_users_beyond_the_training_data(self, ours, X, user):
        with pytest.raises(UnknownIdError, match="users are numbers from 0 to 299"):
            ours.recommend(user, X[3])

    def test_items_beyond_the_catalog(self, ours, X):
        with pytest.raises(UnknownIdError, match=r"items are numbers .* got .*80"):
            ours.recommend(3, X[3], items=[1, 80])

    def test_items_to_take_and_to_leave_at_once(self, ours, X):
        with pytest.raises(InvalidParameterError, match="items or filter_items, not both"):
            ours.recommend(3, X[3], items=[1], filter_items=[2])

    def test_a_model_without_vectors_for_similar_users(self, X):
        model = ImplicitLike(Popularity())
        model.fit(X)
        with pytest.raises(NotImplementedError, match="user vectors"):
            model.similar_users(0)

    def test_a_file_of_another_program(self, tmp_path):
        (tmp_path / "other.npz").write_bytes(b"PK something")
        with pytest.raises(ArtifactError, match="equipoise model"):
            ImplicitLike.load(tmp_path / "other.npz")


def test_a_recalculated_item_has_the_vector_of_the_fit(ours, X):
    users = sp.csr_matrix(X.T)[[5, 6]]
    again = ours.similar_items([5, 6], N=6, recalculate_item=True, item_users=users)
    fitted = ours.similar_items([5, 6], N=6)
    np.testing.assert_array_equal(again[0], fitted[0])
    np.testing.assert_allclose(again[1], fitted[1], atol=1e-4)


def test_similar_users_are_the_nearest_by_the_cosine_of_their_coordinates(ours, X):
    coordinates = ours.model.transform(X)
    unit = coordinates / np.linalg.norm(coordinates, axis=1, keepdims=True)
    ids, scores = ours.similar_users(7, N=5)
    cosines = unit @ unit[7]
    np.testing.assert_allclose(scores, np.sort(cosines)[::-1][:5], atol=1e-5)
    assert ids[0] == 7

"""Vectors for an index: their inner products are the model's scores, and what a search loses."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import EASE, Interactions, ItemWeightedPCA, VanillaPCA
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models.registry import MODELS
from equipoise.serving import to_ann
from tests.contract.variants import VARIANTS, build, named

# Their scores are not inner products of short vectors.
WITHOUT_FACTORS = {"ease", "gfcf", "item-knn", "local-global", "popularity", "random"}


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=300, n_items=200).normalize_rows()


@pytest.fixture(scope="module")
def vectors(plays):
    return to_ann(ItemWeightedPCA(n_components=8).fit(plays))


class Backwards:
    """An exact index that answers as faiss does, worst item first."""

    def __init__(self, item_vectors: np.ndarray) -> None:
        self.item_vectors = item_vectors
        self.asked: list[int] = []

    def search(self, queries, count):
        self.asked.append(count)
        scores = queries @ self.item_vectors.T
        keys = np.argsort(-scores, axis=1, kind="stable")[:, :count][:, ::-1]
        return np.take_along_axis(scores, keys, 1), keys


class Blind(Backwards):
    """An index that never finds the best item of anybody."""

    def search(self, queries, count):
        scores, keys = super().search(queries, count)
        keys[:, -1] = -1
        return scores, keys


@pytest.mark.parametrize(
    "name", [p for p in named() if VARIANTS[p.values[0]][0] not in WITHOUT_FACTORS]
)
class TestVectors:
    def test_inner_products_are_the_scores_and_an_index_takes_them_as_they_are(self, name, X):
        model = build(name).fit(X)
        unseen = np.vstack([X[:5], np.roll(X[5:10], 1, axis=1)])
        vectors = to_ann(model)
        products = vectors.user_vectors(unseen) @ vectors.item_vectors.T
        expected = model._scores(sp.csr_array(unseen))
        np.testing.assert_allclose(products, expected, rtol=0, atol=2e-6 * np.abs(expected).max())
        for array in (vectors.item_vectors, vectors.user_vectors(X)):
            assert array.dtype == np.float32
            assert array.flags.c_contiguous
        assert vectors.metric == "ip"
        assert vectors.item_ids.tolist() == list(range(14))

    def test_an_exact_index_gives_the_recommendations_of_the_model(self, name, X):
        model = build(name).fit(X)
        vectors = to_ann(model)
        for seen in (True, False):
            wanted = {"k": 5, "filter_already_liked_items": seen}
            exact = model.recommend(X, **wanted)
            found = vectors.search(Backwards(vectors.item_vectors), X, **wanted)
            np.testing.assert_allclose(found.scores, exact.scores, rtol=1e-5, atol=1e-5)
            places = found.ids >= 0
            chosen = np.take_along_axis(model._scores(sp.csr_array(X)), found.ids, 1)
            np.testing.assert_allclose(chosen[places], exact.scores[places], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("key", sorted(WITHOUT_FACTORS))
def test_models_without_factors_say_so(key, X):
    name = next(name for name, (of, _) in VARIANTS.items() if of == key)
    model = build(name).fit(X)
    said = f"{type(model).__name__} has no item vectors .* Use recommend, which is exact"
    with pytest.raises(InvalidParameterError, match=said):
        to_ann(model)


def test_every_model_either_has_vectors_or_says_that_it_has_none():
    with_factors = {key for key, _ in VARIANTS.values()} - WITHOUT_FACTORS
    assert with_factors | WITHOUT_FACTORS == set(MODELS)


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(ValueError, match="not fitted yet"):
        to_ann(EASE())


class TestSearch:
    def test_ids_are_those_of_the_data(self, vectors, plays):
        some = plays.select_users(plays.user_ids[:7])
        found = vectors.search(Backwards(vectors.item_vectors), some, k=4)
        assert found.ids.tolist() == vectors.model.recommend(some, k=4).ids.tolist()
        assert vectors.item_ids.tolist() == plays.item_ids.tolist()

    def test_a_user_with_many_seen_items_does_not_make_all_others_fetch_as_many(self, vectors):
        rows = np.zeros((3, 200))
        rows[0, :2] = rows[1, :3] = rows[2, :150] = 1.0
        index = Backwards(vectors.item_vectors)
        found = vectors.search(index, rows, k=10)
        assert sorted(index.asked) == [13, 160]
        np.testing.assert_array_equal(found.ids, vectors.model.recommend(rows, k=10).ids)

    def test_places_that_cannot_be_filled_are_marked_as_in_recommend(self, vectors):
        rows = np.full((2, 200), 1 / 200)
        rows[0, :3] = 0.0
        found = vectors.search(Backwards(vectors.item_vectors), rows, k=5)
        exact = vectors.model.recommend(rows, k=5)
        assert found.ids.tolist() == exact.ids.tolist()
        assert found.ids[0, 3:].tolist() == found.ids[1, :2].tolist() == [None, None]
        assert np.isnan(found.scores).sum() == 7

    def test_users_in_many_blocks_get_the_same_lists(self, vectors, plays):
        index = Backwards(vectors.item_vectors)
        expected = vectors.search(index, plays, k=6).ids.tolist()
        index.asked.clear()
        small = replace(vectors, block_bytes=4 * 8 * 256)
        assert small.search(index, plays, k=6).ids.tolist() == expected
        assert len(index.asked) > 10

    def test_one_user_by_ids_gets_the_list_of_a_row(self, vectors):
        index = Backwards(vectors.item_vectors)
        for given in (["artist-0003", "artist-0010"], {"artist-0003": 2, "artist-0010": 1.0}):
            exact = vectors.model.recommend(given, k=4)
            found = vectors.search(index, given, k=4)
            assert found.ids.tolist() == exact.ids.tolist()
            np.testing.assert_allclose(found.scores, exact.scores, rtol=1e-5)
        again = vectors.search(index, {**given, "new": 1.0}, k=4, unknown="drop")
        assert again.ids.tolist() == vectors.model.recommend(given, k=4).ids.tolist()
        with pytest.raises(UnknownIdError, match="new"):
            vectors.search(index, ["new"])

    def test_users_without_items_get_the_fallback_of_recommend(self, vectors, plays):
        index, group = Backwards(vectors.item_vectors), plays.item_ids[5:9].tolist()
        for fallback in ("popularity", group):
            exact = vectors.model.recommend([], k=3, fallback=fallback)
            found = vectors.search(index, ["new"], k=3, unknown="drop", fallback=fallback)
            assert found.fallback
            assert found.ids.tolist() == exact.ids.tolist()
        rows = np.zeros((3, 200))
        rows[1, 7] = 1.0
        found, exact = vectors.search(index, rows, k=3), vectors.model.recommend(rows, k=3)
        assert found.fallback.tolist() == exact.fallback.tolist() == [True, False, True]
        assert found.ids.tolist() == exact.ids.tolist()
        assert not np.any(vectors.search(index, rows, k=3, fallback=None).fallback)

    def test_an_index_of_another_model_is_refused(self, vectors, plays):
        larger = Backwards(np.tile(vectors.item_vectors, (2, 1)))
        with pytest.raises(InvalidDataError, match=r"200 items: .* another model"):
            vectors.search(larger, plays, k=200)

    def test_a_count_below_one_is_refused(self, vectors, plays):
        with pytest.raises(InvalidParameterError, match="k=0 must be a whole number"):
            vectors.search(Backwards(vectors.item_vectors), plays, k=0)


class TestRecall:
    def test_an_exact_index_misses_nothing(self, vectors, plays):
        assert vectors.recall_of(Backwards(vectors.item_vectors), plays) == 1.0

    def test_an_index_that_misses_one_of_four_has_a_recall_of_three_quarters(self, vectors, plays):
        index = Blind(vectors.item_vectors)
        recall = vectors.recall_of(index, plays, k=4, filter_already_liked_items=False)
        assert recall == 0.75

    def test_ties_cost_no_recall(self):
        model = VanillaPCA(n_components=1).fit(np.ones((3, 6)))
        vectors = to_ann(model)
        index = Backwards(vectors.item_vectors[::-1])  # other items of the same score
        assert vectors.recall_of(index, np.ones((1, 6)), k=2, filter_already_liked_items=False) == 1

    def test_users_without_items_do_not_count(self, vectors, plays):
        rows = plays.matrix.toarray()[:20]
        index = Blind(vectors.item_vectors)
        alone = vectors.recall_of(index, rows)
        rows = np.vstack([rows, np.zeros((100, 200))])
        assert vectors.recall_of(index, rows) == alone < 1

    def test_one_user_is_enough(self, vectors, plays):
        row = plays.matrix.toarray()[0]
        assert vectors.recall_of(Backwards(vectors.item_vectors), row) == 1.0

    def test_users_who_have_seen_everything_are_refused(self, vectors):
        with pytest.raises(InvalidDataError, match="have seen all"):
            vectors.recall_of(Backwards(vectors.item_vectors), np.full((2, 200), 1 / 200))


class TestRealIndexes:
    def test_usearch_finds_nearly_all(self, vectors, plays):
        pytest.importorskip(
            "usearch", reason='usearch was NOT tested: pip install "equipoise[ann]"'
        )
        index = vectors.usearch(threads=1)
        assert len(index) == 200
        assert vectors.recall_of(index, plays) > 0.95
        alone = vectors.search(index, plays.select_users(plays.user_ids[:1]), k=3)
        assert alone.ids.shape == (1, 3)

    def test_one_user_among_others_may_need_many_more_items(self, vectors):
        pytest.importorskip("usearch", reason="usearch was NOT tested")
        X = np.eye(20, 200)
        X[3, :150] = 1.0  # searched for in a batch of one
        found = vectors.search(vectors.usearch(threads=1), X, k=3)
        alone = vectors.search(vectors.usearch(threads=1), X[3], k=3)
        np.testing.assert_array_equal(found.ids[3], alone.ids)

    def test_usearch_comes_back_from_its_file(self, vectors, plays, tmp_path):
        usearch = pytest.importorskip("usearch.index", reason="usearch was NOT tested")
        index = vectors.usearch(threads=1, expansion_search=100)
        index.save(str(tmp_path / "items.usearch"))
        again = usearch.Index.restore(str(tmp_path / "items.usearch"))
        expected = vectors.search(index, plays).ids
        np.testing.assert_array_equal(vectors.search(again, plays).ids, expected)

    @pytest.mark.parametrize(
        ("factory", "least"), [("Flat", 1.0), ("HNSW32", 0.95), ("IVF4,Flat", 0.3)]
    )
    def test_faiss_finds_what_its_kind_promises(self, vectors, plays, factory, least):
        pytest.importorskip("faiss", reason='faiss was NOT tested: pip install "equipoise[ann]"')
        index = vectors.faiss(factory)
        assert index.ntotal == 200
        assert least <= vectors.recall_of(index, plays) <= 1.0

    @pytest.mark.parametrize(
        ("module", "build"), [("usearch.index", "usearch"), ("faiss", "faiss")]
    )
    @pytest.mark.medium
    def test_without_the_extra_the_error_names_it(self, module, build):
        code = (
            f"import sys; sys.modules[{module!r}] = None\n"
            "import numpy as np, equipoise\n"
            "from equipoise.serving import to_ann\n"
            "vectors = to_ann(equipoise.VanillaPCA(1).fit(np.eye(3)))\n"
            f"try:\n    vectors.{build}()\n"
            "except ImportError as error:\n    print(error)"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert 'pip install "equipoise[ann]"' in run.stdout

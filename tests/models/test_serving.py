"""What the guide to serving promises: threads, visitors, users of whom nothing is known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from equipoise import EASE, Interactions, ItemKNN, ItemWeightedPCA, load
from equipoise.data.block_ops import binarized
from equipoise.data.preparation import Step
from equipoise.data.synthetic import listening
from equipoise.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    UnknownIdError,
)
from equipoise.reranking import Reranked


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=400, n_items=120)


@pytest.fixture(scope="module")
def path(plays, tmp_path_factory):
    model = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    return model.save(tmp_path_factory.mktemp("models") / "artists.eqp")


def popular(plays: Interactions) -> Interactions:
    return plays.filter(min_users_per_item=60)


FITTED = {
    "binarize": lambda p: p.binarize(),
    "normalize": lambda p: p.normalize_rows(),
    "binarize, normalize": lambda p: p.binarize().normalize_rows(),
    "normalize, binarize": lambda p: p.normalize_rows().binarize(),
    "filter": popular,
    "filter, normalize": lambda p: popular(p).normalize_rows(),
    "normalize, filter": lambda p: popular(p.normalize_rows()),
    "filter, binarize, normalize": lambda p: popular(p).binarize().normalize_rows(),
}


def test_threads_that_share_a_loaded_model_get_what_one_alone_gets(plays, path):
    users = [plays.select_users(plays.user_ids[i : i + 20]) for i in range(0, 400, 20)]
    expected = [load(path).recommend(some, k=5).ids for some in users]
    shared = load(path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda some: shared.recommend(some, k=5).ids, users * 3))
    for ids, right in zip(found, expected * 3, strict=True):
        np.testing.assert_array_equal(ids, right)


def test_a_user_without_known_items_gets_popular_items_marked_as_a_fallback(plays, path):
    model = load(path)
    users = np.bincount(plays.matrix.indices, minlength=120)
    best = plays.item_ids[np.argsort(-users, kind="stable")]
    nobody, both = model.recommend([], k=4), model.recommend(np.eye(2, 120, k=-1), k=4)
    assert nobody.ids.tolist() == best[:4].tolist()
    assert nobody.scores.tolist() == np.sort(users)[::-1][:4].tolist()
    assert bool(nobody.fallback)
    assert both.fallback.tolist() == [True, False]
    assert both.ids[0].tolist() == best[:4].tolist()
    assert model.recommend(plays, k=4).fallback is False
    group = best[[9, 30, 5]].tolist()
    assert model.recommend(["new"], k=3, unknown="drop", fallback=group).ids.tolist() == [
        best[5],
        best[9],
        best[30],
    ]
    unmarked = model.recommend([], k=2, fallback=None)
    assert unmarked.scores.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("model", [EASE(10.0), ItemKNN(10), Reranked(EASE(10.0), "fair:0.5")])
def test_every_model_has_the_fallback(plays, model, tmp_path):
    fitted = model.fit(plays)
    expected = plays.item_ids[np.argsort(-plays.popularity("count"), kind="stable")[:4]]
    for one in (fitted, load(fitted.save(tmp_path / "one.eqp"))):
        found = one.recommend([], k=4)
        assert found.ids.tolist() == expected.tolist()
        assert bool(found.fallback)


@pytest.mark.parametrize("steps", ["raw", *FITTED])
def test_ids_of_one_user_are_served_as_interactions(plays, steps):
    fitted = FITTED.get(steps, lambda p: p)(plays)
    model = ItemWeightedPCA(8, user_scaling=0.5).fit(fitted)
    user = plays.user_ids[3]
    raw = plays.select_users([user])
    row = raw.matrix.tocoo()
    basket = dict(zip(plays.item_ids[row.col].tolist(), row.data.tolist(), strict=True))
    expected, found = model.recommend(raw, k=5), model.recommend(basket, k=5)
    assert found.ids.tolist() == expected.ids[0].tolist()
    np.testing.assert_allclose(found.scores, expected.scores[0], rtol=1e-9)
    ones = model.recommend(raw.with_preparation(()).transform(binarized).with_preparation(()), k=5)
    assert model.recommend(list(basket), k=5).ids.tolist() == ones.ids[0].tolist()


def test_a_list_of_ids_counts_repeated_ids_and_refuses_unknown_ones(plays):
    model = ItemWeightedPCA(8).fit(plays)
    a, b = plays.item_ids[:2].tolist()
    np.testing.assert_allclose(model.score_items([a, b, a]), model.score_items({a: 2, b: 1}))
    with pytest.raises(UnknownIdError, match="new"):
        model.recommend([a, "new"])
    assert (
        model.recommend([a, "new"], unknown="drop").ids.tolist()
        == model.recommend([a]).ids.tolist()
    )
    with pytest.raises(InvalidDataError, match="at least 0"):
        model.recommend({a: -1})


def test_a_set_or_a_mapping_of_numbers_are_ids(plays):
    numbered = Interactions.from_sparse(plays.matrix, item_ids=np.arange(120) + 1000)
    model = ItemWeightedPCA(8).fit(numbered)
    expected = model.recommend(Interactions.from_pairs(["u"], [1007]), k=3).ids[0]
    assert model.recommend({1007}, k=3).ids.tolist() == expected.tolist()
    assert model.recommend({1007: 1.0}, k=3).ids.tolist() == expected.tolist()


def test_equal_data_give_equal_files(plays, path, tmp_path):
    again = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    assert again.save(tmp_path / "again.eqp").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", FITTED)
def test_raw_rows_get_the_lists_of_prepared_rows_also_after_load(plays, name, tmp_path):
    prepared = FITTED[name](plays)
    model = ItemWeightedPCA(8).fit(prepared)
    raw = plays.select_users(prepared.user_ids)
    expected = model.score_items(prepared.matrix)
    loaded = load(model.save(tmp_path / "model.eqp"))
    assert loaded.preparation_ == model.preparation_ == prepared.preparation
    for served in (model, loaded):
        for rows in (raw, prepared):
            np.testing.assert_allclose(served.score_items(rows), expected, rtol=1e-9, atol=1e-12)
            assert (
                served.recommend(rows, k=3).ids.tolist()
                == model.recommend(prepared, k=3).ids.tolist()
            )


def test_detected_columns_are_recorded_and_other_values_refused(tmp_path):
    rows = {"listener": list("aabbc"), "artist": list("xyxzy"), "plays": [3, 1, 2, 5, 4]}
    table = pl.DataFrame(rows)
    table.write_csv(tmp_path / "plays.csv")
    found = {"detected_user": "listener", "detected_item": "artist", "detected_value": "plays"}
    recorded = [Step("read", {**found, "duplicates": "sum"})]
    for source in (table, table.to_pandas(), tmp_path / "plays.csv"):
        assert list(Interactions.read(source).preparation) == recorded
    assert list(Interactions.read(tmp_path / "plays.csv", memory="1GB").preparation) == recorded
    model = ItemWeightedPCA(2).fit(tmp_path / "plays.csv")
    loaded = load(model.save(tmp_path / "model.eqp"))
    assert list(loaded.preparation_) == recorded
    with pytest.raises(InvalidDataError, match=r"value='rating'.*value='plays'.*rename"):
        loaded.recommend(Interactions.read(table.rename({"plays": "rating"})))
    ones = ItemWeightedPCA(2).fit(table.drop("plays"))
    with pytest.raises(InvalidDataError, match=r"value='plays'.*value=''"):
        ones.recommend(table)
    ids = Interactions.read(table.drop("plays").filter(listener="a"))
    assert (
        loaded.recommend(ids, k=1).ids[0].tolist() == loaded.recommend(["x", "y"], k=1).ids.tolist()
    )
    renamed = Interactions.read(table.rename({"listener": "user", "artist": "item"}))
    assert loaded.recommend(renamed, k=1).ids.tolist() == loaded.recommend(table, k=1).ids.tolist()


@pytest.mark.parametrize("name", ["binarize", "normalize", "binarize, normalize"])
def test_raw_rows_of_a_matrix_are_prepared_too(plays, name):
    prepared = FITTED[name](plays)
    model = ItemWeightedPCA(8).fit(prepared)
    expected = model.score_items(prepared)
    np.testing.assert_allclose(model.score_items(plays.matrix), expected, rtol=1e-9)
    np.testing.assert_allclose(model.score_items(plays.matrix.toarray()[7]), expected[7], rtol=1e-9)


def test_rows_of_a_holdout_are_served_as_they_were_fitted(plays):
    train = plays.normalize_rows().holdout(seed=1).train  # rows that sum to less than 1
    model = ItemWeightedPCA(8).fit(train)
    np.testing.assert_array_equal(model.read_rows(train).data, train.matrix.data)
    np.testing.assert_array_equal(model.read_rows(train.matrix).data, train.matrix.data)


@pytest.mark.parametrize(
    ("fitted", "served", "words"),
    [
        (lambda p: p, Interactions.binarize, "binarized"),
        (lambda p: p, Interactions.normalize_rows, "divided by their sums"),
        (Interactions.normalize_rows, Interactions.binarize, "binarized"),
        (FITTED["normalize, filter"], popular, "sums over all items"),
    ],
)
def test_rows_whose_preparation_cannot_be_undone_are_refused(plays, fitted, served, words):
    model = ItemWeightedPCA(8).fit(fitted(plays))
    with pytest.raises(InvalidDataError, match=words):
        model.recommend(served(plays), k=3)


@pytest.mark.parametrize(
    ("at_the_fit", "served"),
    [
        ({"duplicates": "max"}, {}),
        ({"value": "plays"}, {"value": ""}),
        ({"value": "plays"}, {"value": "hours"}),
    ],
)
def test_rows_that_were_read_in_another_way_are_refused(at_the_fit, served):
    table = {
        "user": [1, 1, 2, 2],
        "item": ["a", "b", "a", "b"],
        "plays": [1, 2, 3, 4],
        "hours": [1, 1, 2, 2],
    }
    explicit = {"value": "plays"}
    model = ItemWeightedPCA(1).fit(Interactions.read(table, **explicit | at_the_fit))
    rows = Interactions.read(table, **explicit | served)
    with pytest.raises(InvalidDataError, match="differ in meaning"):
        model.recommend(rows, k=1)
    strict = ItemWeightedPCA(1).fit(Interactions.read(table, value="plays", duplicates="error"))
    strict.recommend(Interactions.read(table, value="plays"), k=1)  # there were no duplicates
    counted = ItemWeightedPCA(1).fit(Interactions.read(table, **explicit | at_the_fit).binarize())
    counted.recommend(rows, k=1)  # values do not matter


def test_a_matrix_without_the_sums_over_all_items_is_refused(plays):
    kept = popular(plays)
    model = ItemWeightedPCA(8).fit(FITTED["normalize, filter"](plays))
    with pytest.raises(InvalidDataError, match="not divided by its sum"):
        model.recommend(kept.matrix, k=3)


@pytest.mark.parametrize(
    ("model", "served"),
    [
        (ItemWeightedPCA(8, value_transform="binary"), Interactions.binarize),
        (
            ItemWeightedPCA(8, value_transform="binary", user_scaling=0.5),
            Interactions.normalize_rows,
        ),
        (EASE(10.0, value_transform="binary"), Interactions.binarize),
    ],
)
def test_a_model_that_ignores_values_serves_rows_of_any_values(plays, model, served):
    model = clone(model).fit(plays)
    np.testing.assert_array_equal(model.score_items(served(plays)), model.score_items(plays))


@pytest.mark.parametrize("gamma", [0.0, -1.0])
def test_new_items_are_projected_with_the_stated_formula_and_error(plays, gamma):
    known, new = plays.item_ids[:-6], plays.item_ids[-6:]
    first = plays.select_items(known).with_preparation(())  # as if there had been no others
    model = ItemWeightedPCA(6, gamma=gamma, solver="dense").fit(first)
    larger = model.add_items(plays)
    assert larger.item_ids_.tolist() == plays.item_ids.tolist()
    # the definition, with dense matrices
    X = plays.matrix.toarray()
    norms = np.linalg.norm(X, axis=0)
    w = norms**gamma
    M = (w[:, None] + w) / 2 * (X.T @ X)
    U, theta = model.components_.T, model.eigenvalues_
    expected = M[-6:, :-6] @ U / theta
    np.testing.assert_allclose(larger.components_[:, -6:].T, expected, rtol=1e-8, atol=1e-10)
    extended = np.vstack([U, expected])
    residuals = np.linalg.norm(M @ extended - extended * theta, axis=0) / theta[0]
    rows = plays.matrix[:, :-6], plays.matrix[:, -6:]
    errors = model.project_items(*map(sp.csr_array, rows)).errors
    assert np.all(residuals <= errors * (1 + 1e-9) + 1e-12)
    np.testing.assert_allclose(errors, residuals, rtol=0.2, atol=1e-6)
    assert larger.recommend([new[0]], k=3).ids.tolist()
    with pytest.raises(UnknownIdError):
        model.recommend([new[0]], k=3)


def test_items_are_not_projected_by_models_whose_weights_are_not_a_rule(plays):
    weighted = ItemWeightedPCA(4, item_weights=np.ones(120)).fit(plays)
    with pytest.raises(InvalidParameterError, match="without a fit"):
        weighted.add_items(plays)

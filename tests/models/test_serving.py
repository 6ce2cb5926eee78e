"""What the guide to serving promises: threads, visitors, users of whom nothing is known."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

from equipoise import EASE, Interactions, ItemKNN, ItemWeightedPCA, Popularity, Random, load
from equipoise.data.synthetic import listening
from equipoise.exceptions import PreparationWarning


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=400, n_items=120)


@pytest.fixture(scope="module")
def path(plays, tmp_path_factory):
    model = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    return model.save(tmp_path_factory.mktemp("models") / "artists.eqp")


def test_threads_that_share_a_loaded_model_get_what_one_alone_gets(plays, path):
    users = [plays.select_users(plays.user_ids[i : i + 20]) for i in range(0, 400, 20)]
    expected = [load(path).recommend(some, k=5).ids for some in users]
    shared = load(path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda some: shared.recommend(some, k=5).ids, users * 3))
    for ids, right in zip(found, expected * 3, strict=True):
        np.testing.assert_array_equal(ids, right)


def test_someone_of_whom_nothing_is_known_gets_the_head_of_the_catalogue(plays, path):
    model = load(path)
    basket = Interactions.from_pairs(["nobody"], ["brand-new"])
    stranger = basket.align_items(model.item_ids_, unknown="drop")
    ids, scores = model.recommend(stranger, k=4)
    assert ids[0].tolist() == plays.item_ids[:4].tolist()
    assert scores[0].tolist() == [0.0] * 4


def test_equal_data_give_equal_files(plays, path, tmp_path):
    again = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    assert again.save(tmp_path / "again.eqp").read_bytes() == path.read_bytes()


PREPARATIONS = {"binarize": Interactions.binarize, "normalize_rows": Interactions.normalize_rows}


@pytest.mark.parametrize("model", [ItemWeightedPCA(8), EASE(10.0), ItemKNN(10)], ids=repr)
@pytest.mark.parametrize("name", PREPARATIONS)
def test_raw_rows_for_a_model_of_prepared_rows_give_one_warning(plays, name, model):
    model = clone(model).fit(PREPARATIONS[name](plays))
    with pytest.warns(PreparationWarning, match=rf"{name}\(\)") as caught:
        model.recommend(plays, k=3)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PreparationWarning)
        model.recommend(plays, k=3)


@pytest.mark.parametrize("name", PREPARATIONS)
def test_explain_warns_of_raw_rows_too(plays, name):
    model = ItemWeightedPCA(8).fit(PREPARATIONS[name](plays))
    with pytest.warns(PreparationWarning, match=name):
        model.explain(plays.select_users(plays.user_ids[:1]), plays.item_ids[0])


def dropped(plays: Interactions) -> Interactions:
    """Shares of which some were left out: rows that sum to less than 1."""
    return plays.normalize_rows().select_items(plays.item_ids[5:])


@pytest.mark.parametrize(
    ("model", "fitted", "served"),
    [
        (ItemWeightedPCA(8), lambda p: p, lambda p: p),
        (ItemWeightedPCA(8), lambda p: p, Interactions.binarize),
        (ItemWeightedPCA(8), Interactions.binarize, Interactions.binarize),
        (ItemWeightedPCA(8), Interactions.normalize_rows, Interactions.normalize_rows),
        (ItemWeightedPCA(8), Interactions.normalize_rows, dropped),
        (ItemWeightedPCA(8, value_transform="binary"), Interactions.binarize, lambda p: p),
        (
            ItemWeightedPCA(8, value_transform="binary", user_scaling=0.5),
            Interactions.normalize_rows,
            lambda p: p,
        ),
        (EASE(10.0, value_transform="binary"), Interactions.binarize, lambda p: p),
        (Popularity(), Interactions.binarize, lambda p: p),
        (Random(), Interactions.normalize_rows, lambda p: p),
    ],
)
def test_rows_that_are_prepared_or_need_not_be_give_no_warning(plays, model, fitted, served):
    model = clone(model).fit(fitted(plays))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PreparationWarning)
        model.recommend(served(plays), k=3)

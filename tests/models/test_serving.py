"""What the guide to serving promises: threads, visitors, users of whom nothing is known."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from equipoise import Interactions, ItemWeightedPCA, load
from equipoise.data.synthetic import listening


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=400, n_items=120)


@pytest.fixture(scope="module")
def path(plays, tmp_path_factory):
    model = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    return model.save(tmp_path_factory.mktemp("models") / "artists.eqp")


def test_threads_that_share_a_loaded_model_get_what_one_alone_gets(plays, path):
    users = [plays.select_users(plays.user_ids[i : i + 20]) for i in range(0, 400, 20)]
    expected = [load(path).recommend(some, N=5).ids for some in users]
    shared = load(path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda some: shared.recommend(some, N=5).ids, users * 3))
    for ids, right in zip(found, expected * 3, strict=True):
        np.testing.assert_array_equal(ids, right)


def test_someone_of_whom_nothing_is_known_gets_the_head_of_the_catalogue(plays, path):
    model = load(path)
    basket = Interactions.from_pairs(["nobody"], ["brand-new"])
    stranger = basket.align_items(model.item_ids_, unknown="drop")
    ids, scores = model.recommend(stranger, N=4)
    assert ids[0].tolist() == plays.item_ids[:4].tolist()
    assert scores[0].tolist() == [0.0] * 4


def test_equal_data_give_equal_files(plays, path, tmp_path):
    again = ItemWeightedPCA(n_components=8, value_transform="log1p").fit(plays)
    assert again.save(tmp_path / "again.eqp").read_bytes() == path.read_bytes()

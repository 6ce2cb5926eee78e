"""The paper's matrices and its split, from the files as published."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.data import Interactions

pytestmark = pytest.mark.data


@pytest.fixture
def lastfm(data_dir):
    data = Interactions.read(data_dir / "lastfm-2k")
    return data.filter(min_items_per_user=10, min_users_per_item=10)


@pytest.fixture
def movielens(data_dir):
    folder = data_dir / "ml-1m"
    ratings = folder / "ratings.dat"
    source = ratings if ratings.exists() else folder / "interactions.csv"
    return Interactions.read(source, names=folder / "movies.dat").binarize()


def test_lastfm_as_published(data_dir):
    raw = Interactions.read(data_dir / "lastfm-2k" / "user_artists.dat")
    assert (raw.n_users, raw.n_items, raw.nnz) == (1892, 17632, 92834)


def test_lastfm_is_the_papers_matrix(lastfm):
    assert (lastfm.shape, lastfm.nnz) == ((1867, 1529), 62975)
    assert lastfm.item_names[0] == "Duran Duran"


def test_lastfm_is_split_as_published(lastfm):
    split = lastfm.holdout(seed=1024)
    assert (split.train_validation.nnz, split.test.nnz) == (51139, 11836)
    assert np.count_nonzero(np.diff(split.test.matrix.indptr) == 0) == 22


def test_movielens_is_the_papers_matrix_and_split_as_published(movielens):
    assert (movielens.n_users, movielens.n_items, movielens.nnz) == (6040, 3706, 1000209)
    filtered = movielens.filter(min_users_per_item=5)
    assert filtered.n_items == 3416
    sample = filtered.sample_items(1200, seed=2020)
    assert (sample.shape, sample.nnz) == ((6040, 1200), 346918)
    split = sample.holdout(seed=1024)
    assert (split.train_validation.nnz, split.test.nnz) == (279968, 66950)
    assert np.count_nonzero(np.diff(split.test.matrix.indptr) == 0) == 28


def test_movielens_titles_are_decoded(movielens):
    names = dict(zip(movielens.item_ids.tolist(), movielens.item_names, strict=True))
    assert names[1] == "Toy Story (1995)"
    assert any("é" in name for name in names.values())

"""The catalog, where its data sets are looked for, and the paper's two matrices by name."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from equipoise import Interactions
from equipoise.data.catalog import (
    CATALOG,
    DatasetNotFoundError,
    cache_folder,
    entry,
    load_dataset,
    locate,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError, MissingExtraError

# Two users, two movies, three ratings, in the layout of each publisher's archive
FILES = {
    "lastfm-2k": {
        "user_artists.dat": "userID\tartistID\tweight\n2\t51\t5\n2\t52\t3\n3\t51\t4\n",
        "artists.dat": "id\tname\turl\tpictureURL\n51\tCafé Tacvba\tu\tp\n52\tB\tu\tp\n",
    },
    "ml-100k": {
        "u.data": "2\t51\t5\t874965758\n2\t52\t3\t874965759\n3\t51\t4\t874965760\n",
        "u.item": "51|Café Tacvba|01-Jan-1995||http://x|0|1\n52|B|||http://y|1|0\n",
    },
    "ml-1m": {
        "ratings.dat": "2::51::5::978300760\n2::52::3::978302109\n3::51::4::978301968\n",
        "movies.dat": "51::Café Tacvba::Comedy\n52::B::Drama\n",
    },
    "ml-20m": {
        "ratings.csv": "userId,movieId,rating,timestamp\n2,51,5.0,1\n2,52,3.0,2\n3,51,4.0,3\n",
        "movies.csv": 'movieId,title,genres\n51,"Café Tacvba",Comedy\n52,B,Drama\n',
    },
}
FILES["ml-25m"] = FILES["ml-20m"]
ENCODINGS = {"u.item": "iso-8859-1", "movies.dat": "iso-8859-1"}


def small(name: str):
    return replace(CATALOG[name], users=2, items=2, interactions=3)


def put(name: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in FILES[name].items():
        (folder / file).write_text(text, encoding=ENCODINGS.get(file, "utf-8"))
    return folder


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without any data; returns where its cache would be."""
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("dataset", CATALOG.values(), ids=lambda dataset: dataset.name)
def test_every_entry_is_complete_and_consistent(dataset):
    kind, _, digest = dataset.hash.partition(":")
    assert len(digest) == {"sha256": 64, "md5": 32}[kind]
    assert re.fullmatch("[0-9a-f]+", digest)
    assert dataset.url.startswith("https://files.grouplens.org/")
    assert dataset.archive_name.endswith(".zip")
    assert dataset.terms.startswith("https://")
    unpacked = [member.rpartition("/")[2] for member in dataset.members]
    assert unpacked == [dataset.names, dataset.tables[0]]  # the interactions come last
    assert dataset.interactions <= dataset.users * dataset.items


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidParameterError, match=r"no data set 'netflix'.*lastfm-2k, ml-100k"):
        entry("netflix")


@pytest.mark.parametrize("name", FILES)
def test_each_publishers_layout_is_read_with_values_and_names(name, tmp_path):
    put(name, tmp_path / name)
    loaded = load_dataset(small(name), data_dir=tmp_path)
    assert loaded.matrix.toarray().tolist() == [[5.0, 3.0], [4.0, 0.0]]
    assert loaded.item_names.tolist() == ["Café Tacvba", "B"]
    assert (loaded.timestamps is None) == (name == "lastfm-2k")


def test_names_are_optional(tmp_path):
    put("ml-1m", tmp_path)
    (tmp_path / "movies.dat").unlink()
    assert load_dataset(small("ml-1m"), data_dir=tmp_path).item_names is None


def test_the_data_folder_may_be_the_folder_of_the_data_set_or_the_one_around_it(tmp_path):
    home = put("ml-1m", tmp_path / "ml-1m")
    assert locate("ml-1m", tmp_path) == home
    assert locate("ml-1m", home) == home


def test_equipoise_data_comes_before_the_cache(nowhere, tmp_path, monkeypatch):
    assert locate("ml-1m") is None
    cached = put("ml-1m", nowhere / "ml-1m")
    assert locate("ml-1m") == cached
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "own"))
    assert locate("ml-1m") == cached
    own = put("ml-1m", tmp_path / "own" / "ml-1m")
    assert locate("ml-1m") == own


def test_a_folder_that_is_named_is_the_only_one_looked_at(nowhere, tmp_path):
    put("ml-1m", nowhere / "ml-1m")
    with pytest.raises(DatasetNotFoundError, match=r"get ml-1m --out .*elsewhere"):
        load_dataset("ml-1m", data_dir=tmp_path / "elsewhere")


def test_missing_data_says_where_it_looked_and_what_to_run(nowhere):
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset("ml-1m", preprocessing="paper")
    message = str(caught.value)
    assert f"no ratings.dat or interactions.csv in {nowhere / 'ml-1m'}" in message
    assert "Run: equipoise datasets get ml-1m" in message
    assert "set EQUIPOISE_DATA" in message


def test_without_pooch_there_is_no_cache_but_the_rest_works(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUIPOISE_CACHE", raising=False)
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"equipoise\[datasets\]"):
        cache_folder()
    with pytest.raises(DatasetNotFoundError, match=r"Run: equipoise datasets get ml-1m"):
        load_dataset("ml-1m")
    put("ml-1m", tmp_path)
    assert load_dataset(small("ml-1m"), data_dir=tmp_path).nnz == 3


def test_the_publishers_file_is_preferred_to_the_table_of_pairs(tmp_path):
    put("ml-1m", tmp_path)
    (tmp_path / "interactions.csv").write_text("user_id,movie_id\n9,9\n")
    assert load_dataset(small("ml-1m"), data_dir=tmp_path).user_ids.tolist() == [2, 3]


def test_other_counts_than_the_published_ones_are_refused(tmp_path):
    put("ml-1m", tmp_path)
    with pytest.raises(
        InvalidDataError,
        match=r"ratings\.dat: 2 users x 2 items .*6,040 users",
    ):
        load_dataset("ml-1m", data_dir=tmp_path)


def test_the_paper_used_two_of_them(tmp_path):
    with pytest.raises(InvalidParameterError, match="is for lastfm-2k and ml-1m"):
        load_dataset("ml-100k", preprocessing="paper", data_dir=tmp_path)
    with pytest.raises(InvalidParameterError, match="preprocessing must be one of"):
        load_dataset("ml-1m", preprocessing="none", data_dir=tmp_path)


def pairs_of(path: Path, separator: str) -> list[tuple[int, int]]:
    lines = path.read_text().splitlines()[1:]
    return [(int(a), int(b)) for a, b, *_ in (line.split(separator) for line in lines)]


@pytest.mark.data
def test_lastfm_of_the_paper(data_dir):
    plays = load_dataset("lastfm-2k", preprocessing="paper", data_dir=data_dir)
    assert (plays.shape, plays.nnz) == ((1867, 1529), 62975)
    np.testing.assert_allclose(np.asarray(plays.matrix.sum(axis=1)).ravel(), 1.0)
    assert plays.item_names[0] == "Duran Duran"
    # the same by counting lines
    pairs = pairs_of(data_dir / "lastfm-2k" / "user_artists.dat", "\t")
    artists_of = Counter(user for user, _ in pairs)
    kept = [(user, artist) for user, artist in pairs if artists_of[user] >= 10]
    users_of = Counter(artist for _, artist in kept)
    expected = dict.fromkeys(artist for _, artist in pairs if users_of[artist] >= 10)
    assert plays.item_ids.tolist() == list(expected)


@pytest.mark.data
def test_movielens_of_the_paper(data_dir):
    watched = load_dataset("ml-1m", preprocessing="paper", data_dir=data_dir)
    assert (watched.shape, watched.nnz) == ((6040, 1200), 346918)
    assert set(watched.matrix.data) == {1.0}
    assert watched.timestamps is None
    assert watched.item_names is not None


@pytest.mark.data
def test_equipoise_data_is_where_the_paper_comes_from(data_dir, monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIPOISE_DATA", str(data_dir))
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path))
    assert load_dataset("lastfm-2k").nnz == 92834


@pytest.mark.data
def test_ratings_dat_and_the_table_of_pairs_give_the_same_matrix(data_dir, tmp_path):
    pairs = pairs_of(data_dir / "ml-1m" / "interactions.csv", ",")
    ratings = (
        f"{user}::{movie}::{1 + row % 5}::{row}\n" for row, (user, movie) in enumerate(pairs)
    )
    (tmp_path / "ratings.dat").write_text("".join(ratings))
    published = load_dataset("ml-1m", data_dir=tmp_path)
    assert (published.shape, published.nnz) == ((6040, 3706), 1000209)
    assert published.timestamps is not None
    watched = load_dataset("ml-1m", preprocessing="paper", data_dir=tmp_path)
    local = load_dataset("ml-1m", preprocessing="paper", data_dir=data_dir)
    unnamed = Interactions(local.matrix, local.user_ids, local.item_ids)
    assert unnamed == watched
    # and its columns are those of the published code, by counting lines
    users_of = Counter(movie for _, movie in pairs)
    movies = [movie for movie in users_of if users_of[movie] >= 5]  # in order of appearance
    drawn = np.random.default_rng(2020).choice(len(movies), 1200, replace=False)
    assert watched.item_ids.tolist() == [movies[place] for place in drawn]


@pytest.mark.data
def test_rows_in_another_order_are_not_the_papers_sample(data_dir, tmp_path):
    header, *rows = (data_dir / "ml-1m" / "interactions.csv").read_text().splitlines()
    (tmp_path / "interactions.csv").write_text("\n".join([header, *reversed(rows)]))
    with pytest.raises(InvalidDataError, match=r"after the paper's preprocessing: .*another order"):
        load_dataset("ml-1m", preprocessing="paper", data_dir=tmp_path)

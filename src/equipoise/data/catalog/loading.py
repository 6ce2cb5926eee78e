"""Find a data set of the catalog on this machine and load it, as published or as in the paper."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from equipoise.data.catalog.entries import Dataset, entry
from equipoise.data.interactions import Interactions
from equipoise.exceptions import (
    EquipoiseError,
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    require_extra,
)

Preprocessing = Literal["paper"]
# Movies in the paper's sample, and the seed that draws them
_N_MOVIES, _MOVIE_SEED = 1200, 2020


class DatasetNotFoundError(EquipoiseError, FileNotFoundError):
    """A data set of the catalog is not on this machine."""


def cache_folder() -> Path:
    """Return where downloads go: EQUIPOISE_CACHE, or the system's cache folder."""
    if folder := os.environ.get("EQUIPOISE_CACHE"):
        return Path(folder).expanduser().absolute()
    pooch = require_extra("pooch", "datasets", "the cache of downloaded data sets")
    return Path(pooch.os_cache("equipoise"))


def _candidates(dataset: Dataset, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders that may hold a data set, in search order; only `data_dir` if given."""
    if data_dir is not None:
        given = Path(data_dir).expanduser()
        return [given / dataset.name, given]
    places = []
    if folder := os.environ.get("EQUIPOISE_DATA"):
        places.append(Path(folder).expanduser() / dataset.name)
    # without pooch, nothing was downloaded to the system's cache
    with contextlib.suppress(MissingExtraError):
        places.append(cache_folder() / dataset.name)
    return places


def locate(name: str | Dataset, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder that holds a data set, None if it is not on this machine."""
    dataset = entry(name)
    places = _candidates(dataset, data_dir)
    return next((place for place in places if dataset.table_in(place) is not None), None)


def _not_found(dataset: Dataset, data_dir: str | os.PathLike[str] | None) -> DatasetNotFoundError:
    """Return the error that lists the folders searched and what to run."""
    places = ", ".join(str(place) for place in _candidates(dataset, data_dir))
    where = f"no {' or '.join(dataset.tables)} in {places}" if places else "no folder to search"
    put = "" if data_dir is None else f" --out {data_dir}"
    return DatasetNotFoundError(
        f"{dataset.name} is not on this machine: {where}. Run: equipoise datasets get "
        f"{dataset.name}{put} - or put its files into a folder {dataset.name} and set "
        "EQUIPOISE_DATA to its parent folder."
    )


class Counts(NamedTuple):
    """The size of a table."""

    users: int
    items: int
    interactions: int


class Preparation(NamedTuple):
    """How the paper prepares a data set, and the size of the result."""

    prepare: Callable[[Interactions], Interactions]
    counts: Counts


def _lastfm(plays: Interactions) -> Interactions:
    return plays.filter(min_items_per_user=10, min_users_per_item=10).normalize_rows()


def _movielens(ratings: Interactions) -> Interactions:
    watched = ratings.binarize().filter(min_users_per_item=5)
    # the paper uses no times; without them both files of the catalog give the same data
    return watched.sample_items(_N_MOVIES, seed=_MOVIE_SEED).without_timestamps()


PAPER = {
    "lastfm-2k": Preparation(_lastfm, Counts(1_867, 1_529, 62_975)),
    "ml-1m": Preparation(_movielens, Counts(6_040, _N_MOVIES, 346_918)),
}


def load_dataset(
    name: str | Dataset,
    preprocessing: Preprocessing | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Load a data set of the catalog from this machine; `fetch` downloads it.

    Parameters
    ----------
    name : str or Dataset
        "lastfm-2k", "ml-100k", "ml-1m", "ml-20m", "ml-25m", or an entry of your own.
    preprocessing : {None, "paper"}
        None: as published, values and times included. "paper", for two of them:

        - lastfm-2k: listeners of at least 10 artists, then artists with at least 10 of those
          listeners; each row divided by its sum. 1,867 × 1,529 with 62,975 entries.
        - ml-1m: every rating counts 1; of the movies with at least 5 users, 1,200 drawn with
          seed 2020. 6,040 × 1,200 with 346,918 entries.
    data_dir : path, optional
        The only folder to search: that of the data set, or its parent. By default the subfolder
        `name` of EQUIPOISE_DATA is searched, then the cache.

    Raises
    ------
    DatasetNotFoundError
        If it is not on this machine; the message shows what to run.
    InvalidDataError
        If the numbers of users, items or interactions differ from the published ones.

    Notes
    -----
    ml-1m is read from the publisher's `ratings.dat` or, if that is missing, an `interactions.csv`
    of users and movies. The order of rows matters to "paper": movies are sampled in the order in
    which they first appear.
    """
    dataset = entry(name)
    preparation = _preparation(dataset, preprocessing)
    folder = locate(dataset, data_dir)
    table = None if folder is None else dataset.table_in(folder)
    if table is None:
        raise _not_found(dataset, data_dir)
    published = _read(dataset, table)
    _check(published, Counts(dataset.users, dataset.items, dataset.interactions), table)
    if preparation is None:
        return published
    prepared = preparation.prepare(published)
    _check(prepared, preparation.counts, table, after=" after the paper's preprocessing")
    return prepared


def _preparation(dataset: Dataset, preprocessing: str | None) -> Preparation | None:
    if preprocessing is None:
        return None
    if preprocessing != "paper":
        raise InvalidParameterError(f"preprocessing={preprocessing!r}; use None or 'paper'.")
    if dataset.name not in PAPER:
        raise InvalidParameterError(
            f"preprocessing='paper' is for {' and '.join(PAPER)}, the paper's data; "
            f"{dataset.name} is not among them. Use None and filter as you like."
        )
    return PAPER[dataset.name]


def _read(dataset: Dataset, table: Path) -> Interactions:
    names = table.with_name(dataset.names)
    return Interactions.read(table, names=names if names.is_file() else None)


def _check(found: Interactions, expected: Counts, table: Path, after: str = "") -> None:
    counts = Counts(found.n_users, found.n_items, found.nnz)
    if counts != expected:
        raise InvalidDataError(
            f"{table}{after}: {_format(counts)}, not the published {_format(expected)}. The "
            "file is incomplete, changed or in another order: download it again, or read it as "
            "your own data with Interactions.read."
        )


def _format(counts: Counts) -> str:
    return f"{counts.users:,} users x {counts.items:,} items with {counts.interactions:,} entries"

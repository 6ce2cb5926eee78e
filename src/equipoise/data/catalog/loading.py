"""A data set of the catalogue as `Interactions`: as published, or as the paper prepared it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from equipoise.data.catalog.entries import Dataset, entry
from equipoise.data.catalog.places import locate, not_found
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError

Preprocessing = Literal["paper"]
# Movies in the paper's sample, and the seed that draws them
_N_MOVIES, _MOVIE_SEED = 1200, 2020


class Counts(NamedTuple):
    """What a table must come to."""

    users: int
    items: int
    interactions: int


class Recipe(NamedTuple):
    """How the paper prepares a data set, and what comes out."""

    prepare: Callable[[Interactions], Interactions]
    counts: Counts


def _lastfm(plays: Interactions) -> Interactions:
    return plays.filter(min_items_per_user=10, min_users_per_item=10).normalize_rows()


def _movielens(ratings: Interactions) -> Interactions:
    watched = ratings.binarize().filter(min_users_per_item=5)
    # the paper has no times; without them the two files of the catalogue mean the same
    return replace(watched.sample_items(_N_MOVIES, seed=_MOVIE_SEED), timestamps=None)


PAPER = {
    "lastfm-2k": Recipe(_lastfm, Counts(1_867, 1_529, 62_975)),
    "ml-1m": Recipe(_movielens, Counts(6_040, _N_MOVIES, 346_918)),
}


def load_dataset(
    name: str | Dataset,
    preprocessing: Preprocessing | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
) -> Interactions:
    """Load a data set of the catalogue; nothing is downloaded, see `fetch` for that.

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
        Look here and nowhere else: the folder of the data set, or the one around it. By default
        the subfolder `name` of EQUIPOISE_DATA is looked at, then the cache.

    Raises
    ------
    DatasetNotFoundError
        If it is not on this machine; the message says what to run.
    InvalidDataError
        If users, items or interactions are not as many as published.

    Notes
    -----
    ml-1m is read from the publisher's `ratings.dat` or, if that is not there, an
    `interactions.csv` of users and movies. Order matters to "paper": the sample counts movies in
    the order in which the file first names them.
    """
    dataset = entry(name)
    recipe = _recipe(dataset, preprocessing)
    folder = locate(dataset, data_dir)
    table = None if folder is None else dataset.table_in(folder)
    if table is None:
        raise not_found(dataset, data_dir)
    published = _read(dataset, table)
    _check(published, Counts(dataset.users, dataset.items, dataset.interactions), table)
    if recipe is None:
        return published
    prepared = recipe.prepare(published)
    _check(prepared, recipe.counts, table, after=" after the paper's preprocessing")
    return prepared


def _recipe(dataset: Dataset, preprocessing: str | None) -> Recipe | None:
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
            f"{table}{after}: {_in_words(counts)}, not the published {_in_words(expected)}. The "
            "file is incomplete, changed or in another order: get it again from its publisher, or "
            "read it as data of your own with Interactions.read."
        )


def _in_words(counts: Counts) -> str:
    return f"{counts.users:,} users x {counts.items:,} items with {counts.interactions:,} entries"

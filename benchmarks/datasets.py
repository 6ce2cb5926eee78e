"""The matrices that benchmarks run on: the paper's two, other public ones, and synthetic ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equipoise import Interactions

# Seed of the paper's split, which the numbers on pages are measured on.
PAPER_SEED = 1024


class DataSet(NamedTuple):
    """A matrix to run on, by name."""

    name: str
    load: Callable[[], Interactions]
    needs_data: bool


def last_fm() -> Interactions:
    """Plays of artists with ten listeners or more, each row divided by its sum (the paper's)."""
    from equipoise import Interactions

    plays = Interactions.read(_folder() / "lastfm-2k" / "user_artists.dat")
    return plays.filter(min_items_per_user=10, min_users_per_item=10).normalize_rows()


def movie_lens() -> Interactions:
    """Who rated what, 0/1, movies with five users or more."""
    from equipoise import Interactions

    ratings = Interactions.read(_folder() / "ml-1m" / "interactions.csv")
    return ratings.binarize().filter(min_users_per_item=5)


def movie_lens_sample() -> Interactions:
    """The paper's 1,200 of those movies."""
    return movie_lens().sample_items(1200, seed=2020)


def sparse(name: str) -> Interactions:
    """All interactions of a set that is published in three parts, as lines ``user item 1``."""
    import numpy as np
    import scipy.sparse as sp

    from equipoise import Interactions

    files = [_folder() / "sparse" / name / f"{part}.txt" for part in ("train", "valid", "test")]
    parts = [np.loadtxt(file, dtype=np.int64, usecols=(0, 1)) for file in files]
    users, items = np.unique(np.vstack(parts), axis=0).T
    return Interactions.from_sparse(sp.csr_array((np.ones(len(users)), (users, items))))


def synthetic(n_users: int, n_items: int, nnz: int) -> Interactions:
    """Zipf popularity and interests from broad to narrow; see `equipoise.data.synthetic.scale`."""
    from equipoise.data.synthetic import scale

    return scale(n_users, n_items, nnz, seed=0)


LAST_FM = DataSet("Last.fm", last_fm, needs_data=True)
MOVIE_LENS = DataSet("MovieLens, paper's sample", movie_lens_sample, needs_data=True)
MOVIE_LENS_FULL = DataSet("MovieLens", movie_lens, needs_data=True)
CITEULIKE = DataSet("CiteULike", partial(sparse, "citeulike"), needs_data=True)
AMAZON_BEAUTY = DataSet("Amazon Beauty", partial(sparse, "amazon-beauty"), needs_data=True)
SYNTHETIC_SMALL = DataSet(
    "synthetic, small", partial(synthetic, 5_000, 2_500, 100_000), needs_data=False
)
GOWALLA_SHAPE = DataSet(
    "Gowalla's shape", partial(synthetic, 30_000, 41_000, 1_000_000), needs_data=False
)
ML20M_SHAPE = DataSet(
    "ml-20m's shape", partial(synthetic, 138_000, 27_000, 20_000_000), needs_data=False
)


def available(wanted: Sequence[DataSet]) -> list[DataSet]:
    """Those that is available here; what is left out is said aloud."""
    if "EQUIPOISE_DATA" in os.environ:
        return list(wanted)
    from rich.console import Console

    for left_out in (data for data in wanted if data.needs_data):
        Console(stderr=True).print(
            f"[bold red]SKIPPED: {left_out.name}.[/bold red] Set EQUIPOISE_DATA to the folder that "
            "holds lastfm-2k/, ml-1m/ and sparse/ to measure it."
        )
    return [data for data in wanted if not data.needs_data]


def _folder() -> Path:
    return Path(os.environ["EQUIPOISE_DATA"])

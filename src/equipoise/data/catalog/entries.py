"""The data sets: address, hash, size, license, citation, and which files are needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equipoise.exceptions import InvalidParameterError


@dataclass(frozen=True, slots=True)
class Dataset:
    """One data set as its publisher offers it.

    Attributes
    ----------
    name : str
        Its name, also that of its folder.
    what : str
        One line of description.
    users, items, interactions : int
        Size of the published file; checked on every load.
    archive_bytes : int or None
        Size of the archive; None if unknown.
    license, terms : str
        A summary of the license, and the address of the full terms.
    citation : str
        What to cite, as requested by the publisher.
    url, hash : str
        Address of the zip archive; its hash, as ``"sha256:…"`` or, where the publisher gives no
        better, ``"md5:…"``.
    members : tuple of str
        Files to unpack, in this order. The interactions come last: a folder that has them is
        complete.
    readme : str
        The publisher's description, unpacked if the archive has it.
    tables : tuple of str
        Names of the file of interactions, in search order: the publisher's, then equivalents.
    names : str
        File with the names of the items; optional when loading.
    """

    name: str
    what: str
    users: int
    items: int
    interactions: int
    archive_bytes: int | None
    license: str
    terms: str
    citation: str
    url: str
    hash: str
    members: tuple[str, ...]
    readme: str
    tables: tuple[str, ...]
    names: str

    @property
    def archive_name(self) -> str:
        """File name of the archive: the last part of its address."""
        return self.url.rpartition("/")[2]

    def table_in(self, folder: Path) -> Path | None:
        """Return the file of interactions in a folder, None if there is none."""
        there = (folder / table for table in self.tables)
        return next((path for path in there if path.is_file()), None)


_HETREC = (
    "I. Cantador, P. Brusilovsky, T. Kuflik. 2nd Workshop on Information Heterogeneity and Fusion "
    "in Recommender Systems (HetRec 2011). RecSys 2011. Data: Last.fm, https://www.last.fm"
)
_MOVIELENS = (
    "F. M. Harper, J. A. Konstan. The MovieLens Datasets: History and Context. ACM Transactions "
    "on Interactive Intelligent Systems 5 (4), 2015. https://doi.org/10.1145/2827872"
)
_MOVIELENS_LICENSE = (
    "research; no redistribution and no commercial use without permission; acknowledgment required"
)
_PUBLISHER = "https://files.grouplens.org/datasets"

_ENTRIES = (
    Dataset(
        name="lastfm-2k",
        what="Last.fm: how often listeners played artists (HetRec 2011)",
        users=1_892,
        items=17_632,
        interactions=92_834,
        archive_bytes=None,
        license="non-commercial use; ask Last.fm for other uses",
        terms="https://grouplens.org/datasets/hetrec-2011/",
        citation=_HETREC,
        url=f"{_PUBLISHER}/hetrec2011/hetrec2011-lastfm-2k.zip",
        hash="sha256:6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
        members=("artists.dat", "user_artists.dat"),
        readme="readme.txt",
        tables=("user_artists.dat",),
        names="artists.dat",
    ),
    Dataset(
        name="ml-100k",
        what="MovieLens 100K: ratings of movies, 1997–1998",
        users=943,
        items=1_682,
        interactions=100_000,
        archive_bytes=4_924_029,
        license=_MOVIELENS_LICENSE,
        terms=f"{_PUBLISHER}/movielens/ml-100k-README.txt",
        citation=_MOVIELENS,
        url=f"{_PUBLISHER}/movielens/ml-100k.zip",
        hash="sha256:50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        members=("ml-100k/u.item", "ml-100k/u.data"),
        readme="ml-100k/README",
        tables=("u.data",),
        names="u.item",
    ),
    Dataset(
        name="ml-1m",
        what="MovieLens 1M: ratings of movies, 2000–2003",
        users=6_040,
        items=3_706,
        interactions=1_000_209,
        archive_bytes=5_917_549,
        license=_MOVIELENS_LICENSE,
        terms=f"{_PUBLISHER}/movielens/ml-1m-README.txt",
        citation=_MOVIELENS,
        url=f"{_PUBLISHER}/movielens/ml-1m.zip",
        hash="sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        members=("ml-1m/movies.dat", "ml-1m/ratings.dat"),
        readme="ml-1m/README",
        tables=("ratings.dat", "interactions.csv"),
        names="movies.dat",
    ),
    Dataset(
        name="ml-20m",
        what="MovieLens 20M: ratings of movies, 1995–2015",
        users=138_493,
        items=26_744,
        interactions=20_000_263,
        archive_bytes=198_702_078,
        license=_MOVIELENS_LICENSE,
        terms=f"{_PUBLISHER}/movielens/ml-20m-README.html",
        citation=_MOVIELENS,
        url=f"{_PUBLISHER}/movielens/ml-20m.zip",
        hash="md5:cd245b17a1ae2cc31bb14903e1204af3",
        members=("ml-20m/movies.csv", "ml-20m/ratings.csv"),
        readme="ml-20m/README.txt",
        tables=("ratings.csv",),
        names="movies.csv",
    ),
    Dataset(
        name="ml-25m",
        what="MovieLens 25M: ratings of movies, 1995–2019",
        users=162_541,
        items=59_047,
        interactions=25_000_095,
        archive_bytes=261_978_986,
        license=_MOVIELENS_LICENSE,
        terms=f"{_PUBLISHER}/movielens/ml-25m-README.html",
        citation=_MOVIELENS,
        url=f"{_PUBLISHER}/movielens/ml-25m.zip",
        hash="md5:6b51fb2759a8657d3bfcbfc42b592ada",
        members=("ml-25m/movies.csv", "ml-25m/ratings.csv"),
        readme="ml-25m/README.txt",
        tables=("ratings.csv",),
        names="movies.csv",
    ),
)
CATALOG: dict[str, Dataset] = {dataset.name: dataset for dataset in _ENTRIES}


def entry(name: str | Dataset) -> Dataset:
    """Return the data set of that name; an entry of your own is returned unchanged.

    Examples
    --------
    >>> entry("ml-1m").interactions
    1000209
    """
    if isinstance(name, Dataset):
        return name
    if name not in CATALOG:
        raise InvalidParameterError(
            f"there is no data set {name!r} in the catalog, which has {', '.join(CATALOG)}. Read "
            "your own files with Interactions.read."
        )
    return CATALOG[name]

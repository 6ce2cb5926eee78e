"""Public data sets by name: list, download and load them; the paper's two matrices."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from equipoise.checks import check_choice
from equipoise.data.interactions import Interactions
from equipoise.exceptions import (
    EquipoiseError,
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    OutputError,
    require_extra,
)
from equipoise.progress import Progress, task

__all__ = [
    "CATALOG",
    "Dataset",
    "DatasetNotFoundError",
    "DownloadError",
    "cache_folder",
    "entry",
    "fetch",
    "load_dataset",
    "locate",
]

_CHUNK_BYTES = 1 << 16
# Movies in the paper's sample, and the seed that draws them
_N_MOVIES, _MOVIE_SEED = 1200, 2020


class DatasetNotFoundError(EquipoiseError, FileNotFoundError):
    """A data set of the catalog is not on this machine."""


class DownloadError(EquipoiseError, ConnectionError):
    """A file could not be downloaded: no connection, a broken one, or the server refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    members : sequence of str
        Files to unpack, in this order. The interactions come last: a folder that has them is
        complete.
    readme : str
        The publisher's description, unpacked if the archive has it.
    tables : sequence of str
        Names of the file of interactions, in search order: the publisher's, then equivalents.
    names : str
        File with the names of the items; optional when loading.
    """

    name: str
    what: str
    users: int
    items: int
    interactions: int
    archive_bytes: int | None = None
    license: str
    terms: str
    citation: str
    url: str
    hash: str
    members: list[str]
    readme: str
    tables: list[str]
    names: str

    @property
    def archive_name(self) -> str:
        """File name of the archive: the last part of its address."""
        return self.url.rpartition("/")[2]

    def table_in(self, folder: Path) -> Path | None:
        """Return the file of interactions in a folder, None if there is none."""
        there = (folder / table for table in self.tables)
        return next((path for path in there if path.is_file()), None)


def _read_catalog() -> dict[str, Dataset]:
    text = (resources.files("equipoise.data") / "datasets.toml").read_text(encoding="utf-8")
    return {name: Dataset(name=name, **fields) for name, fields in tomllib.loads(text).items()}


#: The data sets by name.
CATALOG = _read_catalog()


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


def _lastfm(plays: Interactions) -> Interactions:
    return plays.filter(min_items_per_user=10, min_users_per_item=10).normalize_rows()


def _movielens(ratings: Interactions) -> Interactions:
    watched = ratings.binarize().filter(min_users_per_item=5)
    # the paper uses no times; without them both files of the catalog give the same data
    return watched.sample_items(_N_MOVIES, seed=_MOVIE_SEED).without_timestamps()


# How the paper prepares a data set, and the number of users, items and interactions of the result
_PAPER = {
    "lastfm-2k": (_lastfm, (1_867, 1_529, 62_975)),
    "ml-1m": (_movielens, (6_040, _N_MOVIES, 346_918)),
}


def load_dataset(
    name: str | Dataset,
    preprocessing: Literal["paper"] | None = None,
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
    check_choice("preprocessing", preprocessing, (None, "paper"))
    if preprocessing and dataset.name not in _PAPER:
        raise InvalidParameterError(
            f"preprocessing='paper' is for {' and '.join(_PAPER)}, the paper's data; "
            f"{dataset.name} is not among them. Use None and filter as you like."
        )
    folder = locate(dataset, data_dir)
    table = None if folder is None else dataset.table_in(folder)
    if table is None:
        raise _not_found(dataset, data_dir)
    names = table.with_name(dataset.names)
    loaded = Interactions.read(table, names=names if names.is_file() else None)
    _check_size(loaded, (dataset.users, dataset.items, dataset.interactions), str(table))
    if preprocessing is None:
        return loaded
    prepare, size = _PAPER[dataset.name]
    prepared = prepare(loaded)
    _check_size(prepared, size, f"{table} after the paper's preprocessing")
    return prepared


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


def _check_size(found: Interactions, expected: tuple[int, int, int], table: str) -> None:
    size = (*found.shape, found.nnz)
    if size != expected:
        is_there, published = (
            f"{users:,} users x {items:,} items with {entries:,} entries"
            for users, items, entries in (size, expected)
        )
        raise InvalidDataError(
            f"{table}: {is_there}, not the published {published}. The file is incomplete, changed "
            "or in another order: download it again, or read it as your own data with "
            "Interactions.read."
        )


def fetch(
    name: str | Dataset,
    folder: str | os.PathLike[str] | None = None,
    *,
    retries: int = 1,
    timeout: tuple[float, float] = (10, 60),
    progress: Progress | None = None,
) -> Path:
    """Download a data set, unless it is there, and return the folder with its files.

    Parameters
    ----------
    name : str or Dataset
        One of the catalog, or an entry of your own.
    folder : path, optional
        Where to put the folder of the data set; by default the cache, see `cache_folder`. An
        archive that you put there is used instead of a download, if its hash is correct.
    retries : int
        How often a broken download is started again.
    timeout : tuple of float
        Seconds to connect, and between two chunks of the response.
    progress : Progress, optional
        Receives the progress of the download, in bytes.

    Raises
    ------
    DownloadError
        If there is no connection, it breaks repeatedly, or the server refuses.
    InvalidDataError
        If the archive is not the published one. Nothing of it is kept.
    OutputError
        If the disk is full or the folder cannot be written to.

    Notes
    -----
    Two processes may fetch the same data set at the same time. Both download it. Each
    file gets its name when it is complete, the interactions last.
    """
    dataset = entry(name)
    root = cache_folder() if folder is None else Path(folder).expanduser().absolute()
    home = root / dataset.name
    if dataset.table_in(home) is not None:
        return home
    require_extra("pooch", "datasets", "downloading a data set")
    with _explained(dataset, root), task(progress, f"Getting {dataset.name}") as getting:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".equipoise-", dir=root) as scratch:
            brought = (root / dataset.archive_name).is_file()
            stream = partial(_stream, getting, timeout)
            archive = _download(dataset, root if brought else Path(scratch), retries, stream)
            getting.note("unpacking")
            _unpack(dataset, archive, Path(scratch), home)
    return home


@contextlib.contextmanager
def _explained(dataset: Dataset, root: Path) -> Iterator[None]:
    """Turn what pooch, requests and zipfile raise into errors that name what to do."""
    requests = require_extra("requests", "datasets", "downloading a data set")
    try:
        yield
    except requests.exceptions.RequestException as error:
        reason = f"no connection to {urlsplit(dataset.url).netloc} ({type(error).__name__})."
        if error.response is not None:
            reason = f"{dataset.url} returns {error.response.status_code} {error.response.reason}."
        raise DownloadError(
            f"{reason} Try again, or put the file here: {root / dataset.archive_name} (from "
            f"{dataset.url}), or set EQUIPOISE_DATA to a folder that holds {dataset.name}."
        ) from error
    except OSError as error:
        raise OutputError(
            f"{root} cannot be written to: {error.strerror or error}. Free space on the disk, or "
            "choose another folder with --out or EQUIPOISE_CACHE."
        ) from error
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InvalidDataError(
            f"{dataset.url} is not the published archive of {dataset.name}, and nothing of it was "
            f"kept: {error}. Try again later; the publisher may have changed the file."
        ) from error


def _stream(
    progress: Progress, timeout: tuple[float, float], url: str, output: str, _: Any
) -> None:
    """Download one file, as pooch asks for it."""
    requests = require_extra("requests", "datasets", "downloading a data set")
    with requests.get(url, stream=True, timeout=timeout) as response:
        response.raise_for_status()
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        with task(progress, "Downloading", total) as downloading, open(output, "wb") as file:
            for chunk in response.iter_content(_CHUNK_BYTES):
                file.write(chunk)
                downloading.advance(len(chunk))


def _download(
    dataset: Dataset, folder: Path, retries: int, stream: Callable[[str, str, Any], None]
) -> Path:
    """Return the archive; pooch retries, checks the hash, and only then gives it its name."""
    pooch = require_extra("pooch", "datasets", "downloading a data set")
    source = pooch.create(
        path=folder,
        base_url="",
        urls={dataset.archive_name: dataset.url},
        registry={dataset.archive_name: dataset.hash},
        retry_if_failed=retries,
    )
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)  # `progress` reports what pooch would print
    try:
        return Path(source.fetch(dataset.archive_name, downloader=stream))
    finally:
        logger.setLevel(level)


def _unpack(dataset: Dataset, archive: Path, scratch: Path, home: Path) -> None:
    """Unpack the files that are needed; each gets its name when it is complete."""
    with zipfile.ZipFile(archive) as zipped:
        readme = [dataset.readme] if dataset.readme in zipped.namelist() else []
        members = [*readme, *dataset.members]  # the interactions are last
        unpacked = [Path(zipped.extract(member, scratch / "unpacked")) for member in members]
    home.mkdir(exist_ok=True)
    for path in unpacked:
        os.replace(path, home / path.name)

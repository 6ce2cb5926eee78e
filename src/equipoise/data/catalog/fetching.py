"""Download a data set from its publisher with pooch, and unpack the files that are needed."""

from __future__ import annotations

import logging
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from equipoise.data.catalog.entries import Dataset, entry
from equipoise.data.catalog.loading import cache_folder
from equipoise.exceptions import EquipoiseError, InvalidDataError, OutputError, require_extra
from equipoise.progress import Progress, task

# Seconds to connect, and between two chunks of the response
_TIMEOUT = (10, 60)
_RETRIES = 1
_CHUNK_BYTES = 1 << 16


class DownloadError(EquipoiseError, ConnectionError):
    """A file could not be downloaded: no connection, a broken one, or the server refused."""


def fetch(
    name: str | Dataset,
    folder: str | os.PathLike[str] | None = None,
    *,
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
    pooch = require_extra("pooch", "datasets", "downloading a data set")
    with _explained(dataset, root), task(progress, f"Getting {dataset.name}") as getting:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".equipoise-", dir=root) as scratch:
            brought = (root / dataset.archive_name).is_file()
            archive = _download(pooch, dataset, root if brought else Path(scratch), getting)
            getting.note("unpacking")
            _unpack(dataset, archive, Path(scratch), home)
    return home


@contextmanager
def _explained(dataset: Dataset, root: Path) -> Iterator[None]:
    """Turn what pooch, requests and zipfile raise into errors that name what to do."""
    requests = require_extra("requests", "datasets", "downloading a data set")
    try:
        yield
    except requests.exceptions.RequestException as error:
        raise DownloadError(
            f"{_reason(dataset.url, error)} Try again, or put the file here: "
            f"{root / dataset.archive_name} (from {dataset.url}), or set EQUIPOISE_DATA to a "
            f"folder that holds {dataset.name}."
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


def _reason(url: str, error: Any) -> str:
    if error.response is not None:
        return f"{url} returns {error.response.status_code} {error.response.reason}."
    return f"no connection to {urlsplit(url).netloc} ({type(error).__name__})."


def _download(pooch: Any, dataset: Dataset, folder: Path, progress: Progress) -> Path:
    """Return the archive; pooch retries, checks the hash, and only then gives it its name."""
    requests = require_extra("requests", "datasets", "downloading a data set")

    def stream(url: str, output: str, _: Any) -> None:
        with requests.get(url, stream=True, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            length = response.headers.get("Content-Length", "")
            total = int(length) if length.isdecimal() else None
            with task(progress, "Downloading", total) as downloading, open(output, "wb") as file:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    file.write(chunk)
                    downloading.advance(len(chunk))

    source = pooch.create(
        path=folder,
        base_url="",
        urls={dataset.archive_name: dataset.url},
        registry={dataset.archive_name: dataset.hash},
        retry_if_failed=_RETRIES,
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

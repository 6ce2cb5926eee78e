"""Get a data set from its publisher: download, check the hash, and only then unpack."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.data.catalog.entries import Dataset, entry
from equipoise.data.catalog.places import cache_folder
from equipoise.data.catalog.transfer import DownloadError, Progress, ResumingDownloader
from equipoise.data.catalog.turns import alone
from equipoise.data.catalog.unpacking import unpack
from equipoise.exceptions import InvalidDataError, require_extra


def _say_nothing(stage: str, done: int, total: int | None) -> None:
    """Be the progress of whoever asked for none."""


def fetch(
    name: str | Dataset,
    folder: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = _say_nothing,
) -> Path:
    """Download a data set, unless it is there, and return the folder with its files.

    Parameters
    ----------
    name : str or Dataset
        One of the catalogue, or an entry of your own.
    folder : path, optional
        Where to put the folder of the data set; by default the cache, see `cache_folder`. An
        archive that you put there yourself is used instead of a download, if its hash is right.
    progress : callable, optional
        Told (what is going on, bytes so far, bytes in all or None).

    Raises
    ------
    DownloadError
        If there is no connection, it breaks, or the server refuses. What came is kept, and the
        next call continues from there.
    InvalidDataError
        If the archive is not the published one; none of its files is kept.
    OutputError
        If the disk is full or the folder cannot be written to.
    """
    dataset = entry(name)
    root = cache_folder() if folder is None else Path(folder).expanduser().absolute()
    home = root / dataset.name
    if dataset.table_in(home) is None:
        with alone(root / f".{dataset.name}.lock", lambda: progress("Waiting", 0, None)):
            # whoever was before us may have done the work
            if dataset.table_in(home) is None:
                _obtain(dataset, root, progress)
    return home


def _obtain(dataset: Dataset, root: Path, progress: Progress) -> None:
    pooch = require_extra("pooch", "datasets", "downloading a data set")
    brought = root / dataset.archive_name
    if brought.exists():
        _check_hash(pooch, dataset, brought)
        unpack(dataset, brought, root / dataset.name)
        return
    archive = _download(pooch, dataset, root, progress)
    progress("Unpacking", 0, None)
    unpack(dataset, archive, root / dataset.name)
    archive.unlink()


def _check_hash(pooch: Any, dataset: Dataset, archive: Path) -> None:
    kind, _, published = dataset.hash.partition(":")
    found = pooch.file_hash(archive, alg=kind)
    if found != published:
        raise InvalidDataError(
            f"{archive} is not the published archive: its {kind} is {found}, not {published}. "
            "Delete it and try again."
        )


def _download(pooch: Any, dataset: Dataset, root: Path, progress: Progress) -> Path:
    downloader = ResumingDownloader(root / f"{dataset.archive_name}.part", progress)
    try:
        return _retrieve(pooch, dataset, root, downloader)
    except ValueError as mismatch:
        if not downloader.resumed:
            raise _wrong_hash(dataset, mismatch) from mismatch
    # the part from an earlier attempt may have been of another file: once more, from the start
    try:
        return _retrieve(pooch, dataset, root, downloader)
    except ValueError as mismatch:
        raise _wrong_hash(dataset, mismatch) from mismatch


def _retrieve(pooch: Any, dataset: Dataset, root: Path, downloader: ResumingDownloader) -> Path:
    """Let pooch download to a temporary file, check the hash, and only then rename it."""
    try:
        with _quiet(pooch.get_logger()):
            # hidden: it is removed once unpacked, unlike an archive that the user brought
            archive = pooch.retrieve(
                dataset.url,
                known_hash=dataset.hash,
                fname=f".{dataset.archive_name}",
                path=root,
                downloader=downloader,
            )
    except DownloadError as error:
        raise DownloadError(
            f"{error} Try again, or put the file here: {root / dataset.archive_name} (from "
            f"{dataset.url}), or set EQUIPOISE_DATA to a folder that holds {dataset.name}."
        ) from error
    return Path(archive)


def _wrong_hash(dataset: Dataset, mismatch: ValueError) -> InvalidDataError:
    return InvalidDataError(
        f"what {dataset.url} sent is not the published archive, and nothing of it was kept. Try "
        f"again; if it stays so, the publisher has changed the file. ({mismatch})"
    )


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from announcing on stderr what `progress` tells."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)

"""Where data sets are looked for: a folder given, EQUIPOISE_DATA, the cache of downloads."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from equipoise.data.catalog.entries import Dataset, entry
from equipoise.exceptions import EquipoiseError, MissingExtraError, require_extra


class DatasetNotFoundError(EquipoiseError, FileNotFoundError):
    """A data set of the catalogue is not on this machine."""


def cache_folder() -> Path:
    """Return where downloads go: EQUIPOISE_CACHE, else the system's folder for caches."""
    told = os.environ.get("EQUIPOISE_CACHE")
    if told:
        return Path(told).expanduser().absolute()
    pooch = require_extra("pooch", "datasets", "the cache of downloaded data sets")
    return Path(pooch.os_cache("equipoise"))


def candidates(dataset: Dataset, data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Return the folders that may hold a data set, in the order in which they are looked at.

    A `data_dir` is the only place looked at: whoever names a folder does not want another one.
    """
    if data_dir is not None:
        given = Path(data_dir).expanduser()
        return [given / dataset.name, given]
    places = []
    if told := os.environ.get("EQUIPOISE_DATA"):
        places.append(Path(told).expanduser() / dataset.name)
    # without the extra nothing was ever downloaded to the system's cache
    with contextlib.suppress(MissingExtraError):
        places.append(cache_folder() / dataset.name)
    return places


def locate(name: str | Dataset, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the folder that holds a data set, None if it is not on this machine."""
    dataset = entry(name)
    places = candidates(dataset, data_dir)
    return next((place for place in places if dataset.table_in(place) is not None), None)


def not_found(dataset: Dataset, data_dir: str | os.PathLike[str] | None) -> DatasetNotFoundError:
    """Return the error that says where it was looked for and what to run."""
    places = ", ".join(str(place) for place in candidates(dataset, data_dir))
    where = f"no {' or '.join(dataset.tables)} in {places}" if places else "nowhere to look"
    put = "" if data_dir is None else f" --out {data_dir}"
    return DatasetNotFoundError(
        f"{dataset.name} is not on this machine: {where}. Run: equipoise datasets get "
        f"{dataset.name}{put} - or put its files into a folder {dataset.name} and set "
        "EQUIPOISE_DATA to the folder around it."
    )

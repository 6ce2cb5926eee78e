"""Public data sets by name: list, download and load them; the paper's two matrices."""

from __future__ import annotations

from equipoise.data.catalog.entries import CATALOG, Dataset, entry
from equipoise.data.catalog.fetching import DownloadError, fetch
from equipoise.data.catalog.loading import (
    DatasetNotFoundError,
    cache_folder,
    load_dataset,
    locate,
)

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

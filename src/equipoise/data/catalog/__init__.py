"""Data sets by name: what there is, how to get it, and the paper's two matrices."""

from __future__ import annotations

from equipoise.data.catalog.entries import CATALOG, Dataset, entry
from equipoise.data.catalog.fetching import fetch
from equipoise.data.catalog.loading import load_dataset
from equipoise.data.catalog.places import DatasetNotFoundError, cache_folder, locate
from equipoise.data.catalog.transfer import DownloadError

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

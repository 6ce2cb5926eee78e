"""Models with one interface: fit on users × items, recommend, explain, save, load.

Each name is imported when it is first used, so a missing extra matters only to its own model.
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

from equipoise.models.registry import BY_CLASS

if TYPE_CHECKING:
    from equipoise.models.base import Recommender as Recommender
    from equipoise.models.explanations import Explanation as Explanation
    from equipoise.models.explanations import Explanations as Explanations
    from equipoise.models.fair.covariance_regularized_pca import (
        CovarianceRegularizedPCA as CovarianceRegularizedPCA,
    )
    from equipoise.models.fair.fair_pca import FairPCA as FairPCA
    from equipoise.models.fair.floor_prices import FloorPrice as FloorPrice
    from equipoise.models.fair.floor_prices import price_of_floors as price_of_floors
    from equipoise.models.fair.hidden_groups_pca import HiddenGroupsPCA as HiddenGroupsPCA
    from equipoise.models.fair.long_tail_regularized_pca import (
        LongTailRegularizedPCA as LongTailRegularizedPCA,
    )
    from equipoise.models.fair.max_min_pca import MaxMinItemWeightedPCA as MaxMinItemWeightedPCA
    from equipoise.models.item_vectors import Factors as Factors
    from equipoise.models.item_vectors import ItemItem as ItemItem
    from equipoise.models.item_weighted_pca import ItemWeightedPCA as ItemWeightedPCA
    from equipoise.models.local_global import Evidence as Evidence
    from equipoise.models.local_global import LocalGlobal as LocalGlobal
    from equipoise.models.pca import NormalizedPCA as NormalizedPCA
    from equipoise.models.pca import VanillaPCA as VanillaPCA
    from equipoise.models.peers.baselines import Popularity as Popularity
    from equipoise.models.peers.baselines import Random as Random
    from equipoise.models.peers.ease import EASE as EASE
    from equipoise.models.peers.gfcf import GFCF as GFCF
    from equipoise.models.peers.item_knn import ItemKNN as ItemKNN
    from equipoise.models.peers.lightgcn import LightGCN as LightGCN
    from equipoise.models.peers.reweighted_mf import IPSMF as IPSMF
    from equipoise.models.peers.reweighted_mf import PopularityWeightedMF as PopularityWeightedMF
    from equipoise.models.peers.trace_norm import TraceNormMF as TraceNormMF
    from equipoise.models.peers.weighted_mf import WeightedMF as WeightedMF
    from equipoise.models.ranking import Ranking as Ranking

_ELSEWHERE = {
    "Evidence": "equipoise.models.local_global",
    "Explanation": "equipoise.models.explanations",
    "Explanations": "equipoise.models.explanations",
    "Factors": "equipoise.models.item_vectors",
    "FloorPrice": "equipoise.models.fair.floor_prices",
    "ItemItem": "equipoise.models.item_vectors",
    "Ranking": "equipoise.models.ranking",
    "Recommender": "equipoise.models.base",
    "price_of_floors": "equipoise.models.fair.floor_prices",
}
_HOME = _ELSEWHERE | {name: entry.module for name, entry in BY_CLASS.items()}

__all__ = ["load", *_HOME]


def load(path: str | PathLike[str], *, mmap: bool = False, verify: bool = True) -> Recommender:
    """Load a saved model of any class.

    Classes of other packages load if they are registered under the entry point
    ``equipoise.models``.

    Parameters
    ----------
    path : path
        A file that `Recommender.save` wrote.
    mmap : bool
        Keep large arrays in the pages of the file: they are read when they are used, and processes
        share them. The file may be replaced (as `save` does), not overwritten.
    verify : bool
        Compare every entry with its hash, and build the index of ids. Without, loading takes the
        same time for every size of the arrays, the index is built at the first use, and damage to
        the file goes unnoticed.
    """
    from equipoise.models.persistence import read_model

    return read_model(path, mmap=mmap, verify=verify).restore(path)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

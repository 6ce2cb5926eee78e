"""Models with one interface: fit on users × items, recommend, explain, save, load.

Each name is imported when it is first used, so a missing extra matters only to its own model.
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

from equipoise.models.registry import BY_CLASS

if TYPE_CHECKING:
    from equipoise.models.base import Explanation as Explanation
    from equipoise.models.base import Recommender as Recommender
    from equipoise.models.fair.fair_pca import FairPCA as FairPCA
    from equipoise.models.fair.hidden_groups_pca import HiddenGroupsPCA as HiddenGroupsPCA
    from equipoise.models.fair.max_min_pca import MaxMinItemWeightedPCA as MaxMinItemWeightedPCA
    from equipoise.models.item_vectors import Factors as Factors
    from equipoise.models.item_vectors import ItemItem as ItemItem
    from equipoise.models.item_weighted_pca import ItemWeightedPCA as ItemWeightedPCA
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
    "Explanation": "equipoise.models.base",
    "Factors": "equipoise.models.item_vectors",
    "ItemItem": "equipoise.models.item_vectors",
    "Ranking": "equipoise.models.ranking",
    "Recommender": "equipoise.models.base",
}
_HOME = _ELSEWHERE | {name: entry.module for name, entry in BY_CLASS.items()}

__all__ = ["load", *_HOME]


def load(path: str | PathLike[str]) -> Recommender:
    """Load a saved model of any class.

    Classes of other packages load if they are registered under the entry point
    ``equipoise.models``.

    Parameters
    ----------
    path : path
        A file that `Recommender.save` wrote.
    """
    from equipoise.models.persistence import find_class, read_model, refuse_damaged_model

    saved = read_model(path)
    with refuse_damaged_model(path):
        return find_class(saved.model)._deserialize(saved)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise.models' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Estimators with one face: fit on users × items, recommend, explain, save, load.

Each name is imported when it is first used, so that a model whose extra is missing stands in
nobody's way.
"""

from __future__ import annotations

import importlib
from os import PathLike
from typing import TYPE_CHECKING, Any

from equipoise.models.registry import BY_CLASS

if TYPE_CHECKING:
    from equipoise.models.ease import EASE as EASE
    from equipoise.models.floors import Popularity as Popularity
    from equipoise.models.floors import Random as Random
    from equipoise.models.gfcf import GFCF as GFCF
    from equipoise.models.item_knn import ItemKNN as ItemKNN
    from equipoise.models.item_weighted_pca import ItemWeightedPCA as ItemWeightedPCA
    from equipoise.models.lightgcn import LightGCN as LightGCN
    from equipoise.models.lists import write_lists as write_lists
    from equipoise.models.pca import NormalizedPCA as NormalizedPCA
    from equipoise.models.pca import VanillaPCA as VanillaPCA
    from equipoise.models.ranking import Ranking as Ranking
    from equipoise.models.recommender import Explanation as Explanation
    from equipoise.models.recommender import Recommender as Recommender
    from equipoise.models.reweighted_mf import IPSMF as IPSMF
    from equipoise.models.reweighted_mf import PopularityWeightedMF as PopularityWeightedMF
    from equipoise.models.trace_norm import TraceNormMF as TraceNormMF
    from equipoise.models.weighted_mf import WeightedMF as WeightedMF

_ELSEWHERE = {
    "Explanation": "equipoise.models.recommender",
    "Ranking": "equipoise.models.ranking",
    "Recommender": "equipoise.models.recommender",
    "write_lists": "equipoise.models.lists",
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

"""equipoise: audit low-rank recommenders item by item, and fix them with Item-Weighted PCA.

The public API. Each name is imported when it is first used, which keeps ``import equipoise`` fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise import metrics as metrics
    from equipoise.audit import audit as audit  # the module can be called, too
    from equipoise.data.catalog import load_dataset as load_dataset
    from equipoise.data.groups import Groups as Groups
    from equipoise.data.interactions import Interactions as Interactions
    from equipoise.data.split import holdout as holdout
    from equipoise.evaluation import compare as compare
    from equipoise.evaluation import evaluate as evaluate
    from equipoise.evaluation import tune as tune
    from equipoise.exceptions import EquipoiseError as EquipoiseError
    from equipoise.models import EASE as EASE
    from equipoise.models import GFCF as GFCF
    from equipoise.models import IPSMF as IPSMF
    from equipoise.models import CovarianceRegularizedPCA as CovarianceRegularizedPCA
    from equipoise.models import FairPCA as FairPCA
    from equipoise.models import HiddenGroupsPCA as HiddenGroupsPCA
    from equipoise.models import ItemKNN as ItemKNN
    from equipoise.models import ItemWeightedPCA as ItemWeightedPCA
    from equipoise.models import LightGCN as LightGCN
    from equipoise.models import LocalGlobal as LocalGlobal
    from equipoise.models import LongTailRegularizedPCA as LongTailRegularizedPCA
    from equipoise.models import MaxMinItemWeightedPCA as MaxMinItemWeightedPCA
    from equipoise.models import NormalizedPCA as NormalizedPCA
    from equipoise.models import Popularity as Popularity
    from equipoise.models import PopularityWeightedMF as PopularityWeightedMF
    from equipoise.models import Random as Random
    from equipoise.models import TraceNormMF as TraceNormMF
    from equipoise.models import VanillaPCA as VanillaPCA
    from equipoise.models import WeightedMF as WeightedMF
    from equipoise.models import load as load
    from equipoise.models.sdp import solve_sdp as solve_sdp
    from equipoise.reranking import Reranked as Reranked

__version__ = "0.1.0"

_HOME = {
    "Interactions": "equipoise.data.interactions",
    "Groups": "equipoise.data.groups",
    "holdout": "equipoise.data.split",
    "load_dataset": "equipoise.data.catalog",
    "compare": "equipoise.evaluation",
    "evaluate": "equipoise.evaluation",
    "tune": "equipoise.evaluation",
    "EquipoiseError": "equipoise.exceptions",
    "ItemWeightedPCA": "equipoise.models",
    "LocalGlobal": "equipoise.models",
    "VanillaPCA": "equipoise.models",
    "NormalizedPCA": "equipoise.models",
    "MaxMinItemWeightedPCA": "equipoise.models",
    "FairPCA": "equipoise.models",
    "HiddenGroupsPCA": "equipoise.models",
    "CovarianceRegularizedPCA": "equipoise.models",
    "LongTailRegularizedPCA": "equipoise.models",
    "EASE": "equipoise.models",
    "GFCF": "equipoise.models",
    "IPSMF": "equipoise.models",
    "ItemKNN": "equipoise.models",
    "LightGCN": "equipoise.models",
    "Popularity": "equipoise.models",
    "PopularityWeightedMF": "equipoise.models",
    "Random": "equipoise.models",
    "TraceNormMF": "equipoise.models",
    "WeightedMF": "equipoise.models",
    "load": "equipoise.models",
    "Reranked": "equipoise.reranking",
    "solve_sdp": "equipoise.models.sdp",
}

_MODULES = ("audit", "metrics")

__all__ = ["__version__", *_MODULES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"equipoise.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

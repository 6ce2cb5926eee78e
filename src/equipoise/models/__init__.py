"""Estimators with one face: fit on users × items, recommend, explain, save, load."""

from __future__ import annotations

from os import PathLike

from equipoise.exceptions import ArtefactError
from equipoise.models.item_weighted_pca import ItemWeightedPCA
from equipoise.models.pca import NormalizedPCA, VanillaPCA
from equipoise.models.persistence import read_artefact
from equipoise.models.ranking import Ranking
from equipoise.models.recommender import Explanation, Recommender

__all__ = [
    "Explanation",
    "ItemWeightedPCA",
    "NormalizedPCA",
    "Ranking",
    "Recommender",
    "VanillaPCA",
    "load",
]

_MODELS: dict[str, type[Recommender]] = {
    model.__name__: model for model in (ItemWeightedPCA, VanillaPCA, NormalizedPCA)
}


def load(path: str | PathLike[str]) -> Recommender:
    """Read whatever model a file holds.

    Parameters
    ----------
    path : path
        A file that `Recommender.save` wrote.
    """
    artefact = read_artefact(path)
    if artefact.model not in _MODELS:
        raise ArtefactError(
            f"{path} holds a {artefact.model!r}, which this version does not know "
            f"(known: {', '.join(_MODELS)}). Upgrade equipoise."
        )
    return _MODELS[artefact.model]._thawed(artefact)

"""Any model as a model of RecTools. Importing this needs RecTools."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError, InvalidParameterError, require_extra
from equipoise.models.base import Recommender
from equipoise.models.ranking import Ranking
from equipoise.models.registry import entry_of, find_model

require_extra("rectools", "rectools", "The adapter for RecTools")

from rectools.dataset import Dataset  # noqa: E402
from rectools.models.base import ModelBase, ModelConfig  # noqa: E402

Triplet = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


class EquipoiseModelConfig(ModelConfig):
    """A model by its name in the registry, with the parameters of its constructor."""

    model: str
    parameters: dict[str, Any]


class EquipoiseModel(ModelBase[EquipoiseModelConfig]):
    """A model with the interface of RecTools' models: data sets in, data frames out.

    Users are scored by their rows in the data set that is passed to `recommend`, which may contain
    users who were not in `fit`. Its items must be those of `fit`, in the same order.

    Parameters
    ----------
    model : Recommender
        Not fitted.
    verbose : int
        As in RecTools; nothing is printed.
    """

    config_class = EquipoiseModelConfig

    def __init__(self, model: Recommender, verbose: int = 0) -> None:
        super().__init__(verbose=verbose)
        self.model = model

    def _get_config(self) -> EquipoiseModelConfig:
        entry = entry_of(type(self.model))
        if entry is None:
            raise InvalidParameterError(
                f"{type(self.model).__name__} has no name that a configuration could contain. "
                "Register it under the entry point 'equipoise.models'."
            )
        return EquipoiseModelConfig(
            cls=type(self),
            verbose=self.verbose,
            model=entry.key,
            parameters=self.model.get_params(deep=False),
        )

    @classmethod
    def _from_config(cls, config: EquipoiseModelConfig) -> Self:
        return cls(find_model(config.model).make(**config.parameters), verbose=config.verbose)

    def _fit(self, dataset: Dataset) -> None:
        self.model.fit(_matrix(dataset))
        self.item_ids = dataset.item_id_map.external_ids[: self.model.n_features_in_]

    def _recommend_u2i(
        self,
        user_ids: NDArray[Any],
        dataset: Dataset,
        k: int,
        filter_viewed: bool,
        sorted_item_ids_to_recommend: NDArray[Any] | None,
    ) -> Triplet:
        rows = self._same_items(dataset)[user_ids]
        seen = rows if filter_viewed else None
        ranking = self.model.rank(rows, k, seen=seen, items=sorted_item_ids_to_recommend)
        return _triplet(user_ids, ranking)

    def _recommend_i2i(
        self,
        target_ids: NDArray[Any],
        dataset: Dataset,
        k: int,
        sorted_item_ids_to_recommend: NDArray[Any] | None,
    ) -> Triplet:
        self._same_items(dataset)
        found = [
            self.model.similar_items(
                item, k, include_itself=True, items=sorted_item_ids_to_recommend
            )
            for item in np.asarray(target_ids).tolist()
        ]
        return _triplet(target_ids, Ranking(*map(np.stack, zip(*found, strict=True))))

    def _same_items(self, dataset: Dataset) -> sp.csr_array:
        matrix = _matrix(dataset)
        if not np.array_equal(dataset.item_id_map.external_ids[: matrix.shape[1]], self.item_ids):
            raise InvalidDataError(
                "the data set has other items than the one that was fitted, or another order. "
                "Build it with the same item ids: IdMap(model.item_ids)."
            )
        return matrix


def _matrix(dataset: Dataset) -> sp.csr_array:
    return sp.csr_array(dataset.get_user_item_matrix(include_weights=True))


def _triplet(targets: NDArray[Any], ranking: Ranking) -> Triplet:
    """Return one entry per recommendation: target, item, score."""
    there = ranking.ids >= 0
    owners = np.repeat(np.asarray(targets), there.sum(axis=1))
    return owners, ranking.ids[there], ranking.scores[there]

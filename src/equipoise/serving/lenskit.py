"""Any model as a scorer in a LensKit pipeline. Importing this needs LensKit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise import defaults
from equipoise.exceptions import InvalidDataError, require_extra
from equipoise.models.base import Recommender
from equipoise.models.registry import find_model

require_extra("lenskit", "lenskit", "The adapter for LensKit")

from lenskit.data import Dataset, ItemList, RecQuery, Vocabulary  # noqa: E402
from lenskit.pipeline import Component  # noqa: E402
from lenskit.training import Trainable, TrainingOptions  # noqa: E402
from pydantic import BaseModel  # noqa: E402


class EquipoiseConfig(BaseModel):
    """The model and its data.

    Attributes
    ----------
    model : str
        A name that ``equipoise models`` lists.
    parameters : dict
        Arguments of its constructor.
    field : str or None
        The attribute of interactions that contains their values, e.g. ``"rating"``; None counts
        each as 1.
    """

    model: str = defaults.MODEL
    parameters: dict[str, Any] = {}
    field: str | None = None


class EquipoiseScorer(Component[ItemList], Trainable):
    """Scores items from the items of the query's history.

    Users are not stored: every user is scored by the history in the query, also users who were not
    in the training data. Items that are not in the training data, and users without history, get
    NaN.
    """

    config: EquipoiseConfig
    items: Vocabulary
    model: Recommender

    def train(self, data: Dataset, options: TrainingOptions | None = None) -> None:
        """Fit the model on the interactions of a data set."""
        if hasattr(self, "model") and options is not None and not options.retrain:
            return
        matrix = data.interaction_matrix(format="scipy", layout="csr", field=self.config.field)
        entry = find_model(self.config.model)
        self.model = entry.make(**self.config.parameters).fit(sp.csr_array(matrix))
        self.items = data.items

    def __call__(self, query: RecQuery, items: ItemList) -> ItemList:
        """Score these items for one user."""
        row = self._row(query)
        if row is None or row.nnz == 0:
            return ItemList(items, scores=np.nan)
        scores = self.model.score_items(row)[0]
        numbers = items.numbers(vocabulary=self.items, missing="negative")
        return ItemList(items, scores=np.where(numbers < 0, np.nan, scores[numbers]))

    def _row(self, query: RecQuery) -> sp.csr_array | None:
        history = query.query_items
        if history is None or len(history) == 0:
            return None
        columns = history.numbers(vocabulary=self.items, missing="negative")
        known = columns >= 0
        values = self._values(history)[known]
        entries = (values, (np.zeros(len(values), int), columns[known]))
        return sp.csr_array(entries, shape=(1, len(self.items)))

    def _values(self, history: ItemList) -> NDArray[Any]:
        if self.config.field is None:
            return np.ones(len(history))
        values = history.field(self.config.field)
        if values is None:
            raise InvalidDataError(
                f"the items of this query have no {self.config.field!r}, which the model was "
                "fitted on. Pass them with it, or configure the scorer with field=None."
            )
        return np.asarray(values, dtype=np.float64)

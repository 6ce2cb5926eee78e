"""The door of every model: parameters and data are checked here, and trusted from here on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._tags import Tags
from sklearn.utils.validation import validate_data

from equipoise.data.interactions import Interactions
from equipoise.data.sparse_checks import refuse_broken_structure
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.preference import Preparation, preparation_of
from equipoise.progress import NoProgress, Progress, task


class Estimator(BaseEstimator, ABC):
    """A model that learns from users × items, with scikit-learn's manners.

    A subclass learns from what was let in (`_fit`), and declares what it learned and a saved model
    holds: `_scalars` by their types, `_arrays` by their axes, a letter each (m items, r
    components; equal letters, equal lengths) and, behind a colon, another kind than floats.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _arrays: ClassVar[dict[str, str]] = {"feature_names_in_": "m:OU"}
    _scalars: ClassVar[dict[str, type]] = {"n_features_in_": int}

    item_ids_: NDArray[Any] | None
    n_features_in_: int
    _progress: Progress = NoProgress()

    # How the rows of the fit were prepared; None if unknown, and after a warning about it.
    # It is not saved: a loaded model gives no such warning.
    _preparation: Preparation | None = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None) -> Self:  # noqa: ARG002
        """Learn from users × items.

        Parameters
        ----------
        X : Interactions, or sparse or dense matrix of shape (n_users, n_items)
            Non-negative; nothing stored means no interaction. `Interactions` may be in memory, on
            disk or on a cluster; a model that needs the whole matrix loads it if it fits.
        y : ignored
            For scikit-learn's pipelines.
        progress : Progress, optional
            Receives the progress; silent by default. See `equipoise.progress`.
        """
        with self._reporting_to(progress, f"Fitting {type(self).__name__}"):
            self._fit(self._accept(X))
        return self

    @contextmanager
    def _reporting_to(
        self, progress: Progress | None, name: str, total: float | None = None
    ) -> Iterator[Progress]:
        """Let `_fit` report a task to `_progress`, of which the fitted model keeps no trace."""
        with task(progress, name, total) as self._progress:
            try:
                yield self._progress
            finally:
                del self._progress

    @abstractmethod
    def _fit(self, data: Interactions) -> None:
        """Learn from data that `_accept` has checked.

        A model sees rows by block (`map`, `total`) and the product XᵀXV (`gram`). One that needs
        the whole matrix calls `data.require_matrix`.
        """

    def _validate_params(self) -> None:
        """Check the constructor's arguments; a complaint is one of ours, like all others."""
        try:
            super()._validate_params()
        except ValueError as error:
            raise InvalidParameterError(str(error)) from None
        rank = self.get_params(deep=False).get("n_components", 1)
        if not isinstance(rank, int | np.integer) or isinstance(rank, bool):
            raise InvalidParameterError(
                f"The 'n_components' parameter of {type(self).__name__} must be a whole number, "
                f"got {rank!r}."
            )

    def _accept(self, X: Any) -> Interactions:
        """Check the training data; a matrix becomes `Interactions` of one block."""
        self._forget_items()
        if isinstance(X, Interactions):
            data = X
            self.item_ids_ = X.item_ids
            self.n_features_in_ = X.n_items
        else:
            self.item_ids_ = None
            data = Interactions.wrap(self._checked(X, reset=True))
        if data.nnz == 0:
            raise InvalidDataError(
                f"the {data.n_users} × {data.n_items} matrix passed to {type(self).__name__} holds "
                "no interaction: every entry is 0. Check which column holds the values."
            )
        self._check_rank(data.n_items)
        self._preparation = preparation_of(data)
        return data

    def _check_rank(self, n_items: int) -> None:
        rank = self.get_params(deep=False).get("n_components", 1)
        if rank > n_items:
            raise InvalidParameterError(
                f"n_components={rank} must be at most the number of items, "
                f"{n_items} (n_features={n_items}). Pass a smaller n_components (--rank)."
            )

    def _forget_items(self) -> None:
        self.__dict__.pop("_item_lookup", None)
        self.__dict__.pop("feature_names_in_", None)

    def _generator(self) -> np.random.Generator:
        """A fresh generator: None means a fixed seed, so that a fit is the same every time."""
        seed = self.get_params(deep=False).get("random_state")
        if isinstance(seed, np.random.RandomState):
            return np.random.default_rng(seed.randint(2**31))
        return np.random.default_rng(0 if seed is None else seed)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def _read(self, user_items: Any) -> sp.csr_array:
        """Check rows to serve: canonical CSR, finite, non-negative, the columns of the model."""
        if isinstance(user_items, Interactions):
            if self.item_ids_ is not None:
                user_items = user_items.align_items(self.item_ids_)
            advice = (
                "Select some users, or write the lists of all with equipoise.models.write_lists."
            )
            user_items = user_items.require_matrix(type(self).__name__, advice)
        return self._checked(user_items, reset=False)

    def _checked(self, matrix: Any, *, reset: bool) -> sp.csr_array:
        if sp.issparse(matrix):
            refuse_broken_structure(matrix)
        checked = validate_data(
            self, matrix, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset
        )
        X = sp.csr_array(checked)
        if not X.has_canonical_format or (X.nnz and X.data.min() <= 0):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        if X.nnz and X.data.min() < 0:
            user = int(np.searchsorted(X.indptr, X.data.argmin(), side="right")) - 1
            raise InvalidDataError(
                f"Negative values in data passed to {type(self).__name__}: preferences must be "
                f"at least 0, got {X.data.min()} in row {user}. "
                "Shift or clip the values, or leave disliked items out."
            )
        return X

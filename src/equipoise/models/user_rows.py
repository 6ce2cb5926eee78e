"""What callers pass to a model: rows of users, and ids of items, as the columns of the model.

A model fitted on `Interactions` takes and returns ids. A model fitted on a matrix takes and returns
column numbers. Rows are users everywhere.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import is_whole_number
from equipoise.data.identifiers import Lookup
from equipoise.data.interactions import Interactions
from equipoise.data.preparation import State, Step, remaining_steps, state_of
from equipoise.data.rows import Prepare, RowBlock
from equipoise.data.validation import refuse_broken_structure
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models.estimator import Estimator, check_is_fitted

_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))

#: rows to serve: data, a matrix, one dense row, or the ids of one user with or without values
UserItems: TypeAlias = Interactions | ArrayLike | sp.csr_array | Mapping[Any, float] | Sequence[Any]

# Values of float32 that were divided by their sum add up to 1 with an error of about 1e-7.
_SUM_TOLERANCE = 1e-6


class RowReader(Estimator):
    """How a model reads training data, rows to serve, and items: checked, with its columns."""

    item_ids_: NDArray[Any] | None
    item_counts_: NDArray[np.int32]  # users of each item
    n_features_in_: int
    preparation_: tuple[Step, ...] = ()

    def _accept(self, X: Any) -> Interactions:
        """Check the training data; a matrix becomes `Interactions` of one block."""
        self.__dict__.pop("_item_lookup", None)
        self.__dict__.pop("feature_names_in_", None)
        X = Interactions.accept(X)
        if isinstance(X, Interactions):
            data = X
            self.item_ids_ = X.item_ids
            self.n_features_in_ = X.n_items
            self.preparation_ = X.preparation
        else:
            self.item_ids_ = None
            self.preparation_ = ()
            data = Interactions.wrap(self._checked(X, reset=True))
        if data.nnz == 0:
            raise InvalidDataError(
                f"the {data.n_users} × {data.n_items} matrix passed to {type(self).__name__} "
                "contains no interaction: every entry is 0. Check which column contains the values."
            )
        rank = self.get_params(deep=False).get("n_components", 1)
        if rank > data.n_items:
            raise InvalidParameterError(
                f"n_components={rank} must be at most the number of items, "
                f"{data.n_items} (n_features={data.n_items}). Pass a smaller n_components (--rank)."
            )
        self.item_counts_ = data.popularity("count").astype(np.int32)
        return data

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def read_rows(
        self, user_items: UserItems, *, unknown: Literal["error", "drop"] = "error"
    ) -> sp.csr_array:
        """Return users' rows as the model reads them: checked CSR with the model's columns.

        Parameters
        ----------
        user_items : Interactions, matrix, one dense row, or the items of one user
            A list of text ids, a set of ids, or a mapping from ids to values is one user; a model
            that was fitted on a matrix takes column numbers. `Interactions` are prepared and
            aligned as `prepare` does. A matrix must have the model's columns. It has no record of
            its preparation: rows whose values show that they are not prepared like the training
            data (a sum above 1, a value that is not 1) are.
        unknown : {"error", "drop"}
            What to do with items that the model lacks; see `prepare`.
        """
        if "n_features_in_" not in vars(self):
            check_is_fitted(self)
        ids = _ids_in(user_items)
        if ids is not None:
            values = list(user_items.values()) if isinstance(user_items, Mapping) else None
            return self._read_basket(ids, values, unknown)
        accepted = Interactions.accept(user_items)
        if self.is_one_user(accepted):
            is_sparse = sp.issparse(accepted)
            accepted = accepted.reshape(1, -1) if is_sparse else np.atleast_2d(accepted)
        return self._read(accepted, unknown)

    def is_one_user(self, user_items: Any) -> bool:
        """Whether these are one dense row or the items of one user; the lists of it are 1-D."""
        if isinstance(user_items, list | tuple | dict | set | frozenset | Mapping):
            first: Any = next(iter(user_items), None)
            return isinstance(first, str) or np.ndim(first) == 0
        return not isinstance(user_items, Interactions | str) and np.ndim(user_items) == 1

    def _read_basket(
        self, ids: list[Any], given: list[Any] | None, unknown: Literal["error", "drop"]
    ) -> sp.csr_array:
        """Return the row of one user, whose ids are looked up in an index that is built once."""
        values = np.ones(len(ids)) if given is None else np.asarray(given, dtype=np.float64)
        if given is not None and not (np.isfinite(values).all() and values.min(initial=0) >= 0):
            raise InvalidDataError("values of items must be finite and at least 0.")
        state = state_of(self.preparation_)
        known = self._columns(ids, unknown="drop" if state.selected else unknown)
        order = known.argsort(kind="stable")
        columns, sums = known[order], values[order]
        if (columns[1:] == columns[:-1]).any():  # repeated ids add up
            columns, first = np.unique(columns, return_index=True)
            sums = np.add.reduceat(sums, first)
        kept = (columns >= 0) & (sums > 0)
        if state.binary:
            sums = np.minimum(np.ceil(sums), 1.0)
        if state.scaled is not None:
            every = sums if state.scaled == "all" else sums[kept]
            sums = sums / (float(every.sum()) or 1.0)
        if not kept.all():
            columns, sums = columns[kept], sums[kept]
        row = copy.copy(_empty_row(self.n_features_in_))
        index = row.indices.dtype
        row.data, row.indices = sums, columns.astype(index)
        row.indptr = np.array([0, len(columns)], index)
        return row

    def _read(self, user_items: Any, unknown: Literal["error", "drop"] = "error") -> sp.csr_array:
        if not isinstance(user_items, Interactions):
            return prepare_matrix(self._checked(user_items, reset=False), self.preparation_)
        advice = "Select some users, or write all lists with equipoise.serving.write_lists."
        prepared = self.prepare(user_items, unknown=unknown)
        return self._checked(prepared.require_matrix(type(self).__name__, advice), reset=False)

    def prepare(
        self, interactions: Interactions, *, unknown: Literal["error", "drop"] = "error"
    ) -> Interactions:
        """Return data with the model's items as columns, prepared like the training data.

        `Interactions` record what was done to them. The steps of the training data that are missing
        are applied, in their order; rows that were prepared in another way are refused if that
        cannot be undone.

        Parameters
        ----------
        interactions : Interactions
            The users to serve; in memory, on disk or on a cluster.
        unknown : {"error", "drop"}
            What to do with items that the model lacks. They are left out in any case if items were
            left out of the training data, for example by `filter`.
        """
        check_is_fitted(self)
        interactions = Interactions.require(interactions)
        wanted, done = self.preparation_, interactions.preparation
        if done != wanted and self.get_params(deep=False).get("value_transform") == "binary":
            wanted = (*wanted, Step("binarize", {}))  # all values count 1, whatever they were
        if state_of(wanted).selected:
            unknown = "drop"
        data = interactions
        for step in remaining_steps(done, wanted):
            if step == "binarize":
                data = data.binarize()
            elif step == "normalize_rows":
                data = data.normalize_rows()
            elif self.item_ids_ is not None:
                data = data.align_items(self._item_lookup, unknown=unknown)
        return data.with_preparation(self.preparation_)

    def _checked(self, matrix: Any, *, reset: bool) -> sp.csr_array:
        """Return canonical CSR, finite and non-negative."""
        if sp.issparse(matrix):
            refuse_broken_structure(matrix)
        X = _plain(matrix)
        if X is None or not self._nothing_to_check(X, reset=reset):
            X = self._checked_by_sklearn(matrix, reset=reset)
        elif reset:
            self.n_features_in_ = X.shape[1]
        if not X.has_canonical_format or (X.nnz and X.data.min() <= 0):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        if X.nnz and X.data.min() < 0:
            user = int(np.searchsorted(X.indptr, X.data.argmin(), side="right")) - 1
            raise InvalidDataError(
                f"Negative values in data passed to {type(self).__name__}: values must be "
                f"at least 0, got {X.data.min()} in row {user}. "
                "Shift or clip the values, or leave disliked items out."
            )
        return X

    def _nothing_to_check(self, X: sp.csr_array, *, reset: bool) -> bool:
        """Return whether `validate_data`, which needs scikit-learn, would change nothing."""
        return (
            min(X.shape) > 0
            and (reset or X.shape[1] == self.n_features_in_)
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X.data).all())
        )

    def _checked_by_sklearn(self, matrix: Any, *, reset: bool) -> sp.csr_array:
        """Read what is not a plain matrix, and refuse what cannot be read, as scikit-learn does."""
        from sklearn.utils.validation import validate_data

        floats = [np.float64, np.float32]
        checked = validate_data(self, matrix, accept_sparse="csr", dtype=floats, reset=reset)
        return sp.csr_array(checked)

    @cached_property
    def _item_lookup(self) -> Lookup:
        return Lookup(np.asarray(self.item_ids_), "item")

    def _column(self, item: Any) -> int:
        return int(self._columns([item])[0])

    def _columns(
        self, items: Iterable[Any], unknown: Literal["error", "drop"] = "error"
    ) -> NDArray[np.intp]:
        """Return the column numbers of items given by id, or by number without ids.

        With ``unknown="drop"``, −1 stands for an item that the model lacks.
        """
        try:
            wanted = items if isinstance(items, np.ndarray) else list(items)
        except TypeError:
            raise InvalidParameterError(
                f"items must be a list, got {items!r}. Pass [{items!r}]."
            ) from None
        if self.item_ids_ is not None:
            lookup = self._item_lookup
            return lookup.find(wanted) if unknown == "drop" else lookup.require(wanted)
        for item in wanted:
            if not (is_whole_number(item) and 0 <= item < self.n_features_in_):
                raise UnknownIdError(
                    f"unknown item {item!r}: a model fitted on a matrix identifies items by their "
                    f"column numbers, 0 to {self.n_features_in_ - 1}. "
                    "Fit on Interactions to use ids."
                )
        return np.asarray(wanted, dtype=np.intp)

    def _excluded(
        self, filter_items: Iterable[Any] | None, items: Iterable[Any] | None
    ) -> NDArray[np.bool_] | None:
        if filter_items is None and items is None:
            return None
        excluded = np.full(self.n_features_in_, items is not None)
        if items is not None:
            excluded[self._columns(items)] = False
        if filter_items is not None:
            excluded[self._columns(filter_items)] = True
        return excluded

    def _named(self, columns: NDArray[Any]) -> NDArray[Any]:
        return columns if self.item_ids_ is None else ids_of(columns, self.item_ids_)


def by_column(model: Any) -> Any:
    """Return a copy of a fitted model that counts items by column, whatever their ids."""
    copied = copy.copy(model)
    copied.item_ids_ = None
    copied.__dict__.pop("_item_lookup", None)
    return copied


def prepare_matrix(user_items: sp.csr_array, steps: Sequence[Step]) -> sp.csr_array:
    """Prepare the rows of a matrix whose values show that they are not prepared like this.

    A matrix has no record. Rows that sum to 1 or less count as normalized: dropping items of a
    normalized row leaves such sums.

    Examples
    --------
    >>> rows = sp.csr_array([[3.0, 1.0], [0.5, 0.0]])
    >>> prepare_matrix(rows, [Step("normalize_rows", {})]).toarray().tolist()
    [[0.75, 0.25], [0.5, 0.0]]
    """
    state = state_of(steps)
    if state == State(selected=state.selected):
        return user_items
    X = user_items
    if state.scaled is None:
        return with_values(X, np.ones_like(X.data))
    sums = row_sums(X)
    ready = sums <= 1 + _SUM_TOLERANCE
    if ready.all() and not state.binary:
        return X
    counts = np.diff(X.indptr)
    owner = np.repeat(np.arange(len(counts)), counts)  # the row of each stored entry
    if state.binary:  # the values of a prepared row are equal
        means = (sums / np.maximum(counts, 1))[owner]
        ready[owner[np.abs(X.data - means) > _SUM_TOLERANCE * means]] = False
    if ready.all():
        return X
    if state.selected and state.scaled == "all":
        raise InvalidDataError(
            f"row {int(ready.argmin())} is not divided by its sum. The rows of the fit were "
            "divided by sums over all items, also those left out later. Pass raw Interactions "
            "with all items, or prepared rows."
        )
    scaled = 1.0 / counts[owner] if state.binary else X.data / sums[owner]
    return with_values(X, np.where(ready[owner], X.data, scaled))


@lru_cache(maxsize=16)
def _empty_row(n_items: int) -> sp.csr_array:
    """Return a row to copy: building one takes SciPy longer than all else that a user needs."""
    row = sp.csr_array((1, n_items))
    row.has_canonical_format = True
    return row


def with_values(user_items: sp.csr_array, values: NDArray[Any]) -> sp.csr_array:
    """Return the rows with other values at the same places, in the same precision."""
    parts = (values.astype(user_items.dtype, copy=False), user_items.indices, user_items.indptr)
    return sp.csr_array(parts, shape=user_items.shape)


def ids_of(columns: NDArray[Any], item_ids: NDArray[Any]) -> NDArray[Any]:
    """Replace column numbers by ids; −1 stays −1, or becomes None if ids cannot be negative.

    Examples
    --------
    >>> ids_of(np.array([1, -1]), np.array([10, 20])).tolist()
    [20, -1]
    >>> ids_of(np.array([1, -1]), np.array(["a", "b"])).tolist()
    ['b', None]
    """
    signed = item_ids.dtype.kind in "if"
    ids: NDArray[Any] = item_ids[columns]
    ids = ids if signed else ids.astype(object, copy=False)
    ids[columns < 0] = -1 if signed else None
    return ids


def _ids_in(user_items: Any) -> list[Any] | None:
    """Return the ids in {item: value}, in a set, or in a list of text; None for rows of numbers."""
    if isinstance(user_items, Mapping | set | frozenset):
        return list(user_items)
    if not isinstance(user_items, str | list | tuple | np.ndarray):
        return None
    first = next(iter(user_items), None)
    of_several_users = isinstance(first, list | tuple) and any(isinstance(i, str) for i in first)
    if isinstance(user_items, str) or of_several_users:
        raise InvalidDataError(
            f"{user_items!r:.60} is not one user's items. Pass {{item: value}} or a list of item "
            "ids for one user, or Interactions, e.g. interactions.select_users(users)."
        )
    nothing = isinstance(user_items, list | tuple) and not user_items
    return list(user_items) if isinstance(first, str) or nothing else None


def _plain(matrix: Any) -> sp.csr_array | None:
    """Return a matrix of real numbers as CSR of floats; None for data frames, lists and others."""
    is_matrix = sp.issparse(matrix) or type(matrix) is np.ndarray
    if not is_matrix or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        return None
    floats = matrix if matrix.dtype in _FLOATS else matrix.astype(np.float64)
    return sp.csr_array(floats)


# Value transforms and user scaling depend on one user's row only, so they apply to new users too.
ValueTransform = Literal["binary", "log1p", "one_plus", "shares"]
VALUE_TRANSFORMS: tuple[ValueTransform, ...] = get_args(ValueTransform)

_TRANSFORMS: dict[ValueTransform, Callable[[sp.csr_array], NDArray[Any]]] = {
    "binary": lambda rows: np.ones_like(rows.data),
    "log1p": lambda rows: np.log1p(rows.data),
    "one_plus": lambda rows: rows.data + 1,
    "shares": lambda rows: rows.data / np.repeat(row_sums(rows), np.diff(rows.indptr)),
}


def has_different_values(data: Interactions) -> bool:
    """Whether not all stored values are equal: only then does a value transform matter."""
    ranges = [found for found in data.map(_range_of_values) if found is not None]
    return len({value for pair in ranges for value in pair}) > 1


def _range_of_values(block: RowBlock) -> tuple[float, float] | None:
    values = block.matrix.data
    return (float(values.min()), float(values.max())) if len(values) else None


def row_sums(user_items: sp.csr_array) -> NDArray[np.float64]:
    """Return the sum of each row; infinite where it overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(user_items.sum(axis=1, dtype=np.float64)).ravel()


@dataclass(eq=False, repr=False, kw_only=True)
class TransformsValues:
    """Mixin of models with a parameter `value_transform`, and perhaps `user_scaling`."""

    value_transform: ValueTransform | None = None

    user_scaling = 0.0  # a parameter of those models that declare it

    def preprocess(self, user_items: sp.csr_array) -> sp.csr_array:
        """Return the rows that the model computes with: values transformed, rows scaled."""
        transform = self._row_transform()
        return user_items if transform is None else transform(user_items)

    def _row_transform(self) -> Prepare | None:
        """Return a function of rows that can be sent to other processes; None for no change."""
        if self.value_transform is None and self.user_scaling == 0:
            return None
        return partial(
            transform_rows, value_transform=self.value_transform, user_scaling=self.user_scaling
        )


def transform_rows(
    user_items: sp.csr_array, value_transform: ValueTransform | None, user_scaling: float = 0.0
) -> sp.csr_array:
    """Transform the stored values, then divide each row by (its number of items)^user_scaling.

    Parameters
    ----------
    user_items : csr_array of shape (n_users, n_items)
        Canonical, positive entries.
    value_transform : {"binary", "log1p", "one_plus", "shares"} or None
        x ↦ 1, log(1 + x), 1 + x, x divided by the sum of its row, or x.
    user_scaling : float
        The exponent a; 0 leaves the rows unchanged, ½ makes 0/1 rows unit vectors.

    Examples
    --------
    >>> plays = sp.csr_array([[3.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    >>> transform_rows(plays, "one_plus").toarray().tolist()
    [[4.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0]]
    >>> transform_rows(plays, "shares").toarray().tolist()
    [[0.75, 0.0, 0.25, 0.0], [0.0, 1.0, 0.0, 0.0]]
    >>> transform_rows(plays, "binary", 1.0).toarray().tolist()
    [[0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    values = user_items.data
    if value_transform is not None:
        values = _TRANSFORMS[value_transform](user_items).astype(values.dtype, copy=False)
    if user_scaling != 0:
        counts = np.diff(user_items.indptr)
        divisors = np.maximum(counts, 1).astype(values.dtype) ** values.dtype.type(user_scaling)
        values = values / np.repeat(divisors, counts)
    return user_items if values is user_items.data else with_values(user_items, values)


def normalize_degrees(user_items: sp.csr_array) -> sp.csr_array:
    """Return D_U^{-½} R D_I^{-½}; D_U and D_I contain the sums of rows and columns of R.

    Examples
    --------
    >>> R = sp.csr_array([[1.0, 1.0], [0.0, 1.0]])
    >>> normalize_degrees(R).toarray().round(4).tolist()
    [[0.7071, 0.5], [0.0, 0.7071]]
    """
    of_users = invert(np.sqrt(user_items.sum(axis=1, dtype=np.float64)))
    of_items = invert(np.sqrt(user_items.sum(axis=0, dtype=np.float64)))
    by_user = np.repeat(of_users, np.diff(user_items.indptr))
    return with_values(user_items, user_items.data * by_user * of_items[user_items.indices])


def invert(values: NDArray[Any]) -> NDArray[Any]:
    """Return 1 / values, and 0 for a value of 0: a node without edges."""
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)

"""Parameters of models: the type of a field states which values are allowed; value transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints_of

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare, RowBlock
from equipoise.models.estimator import Interval, StrOptions

Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
Finite = Annotated[float, Interval(Real, None, None, closed="neither")]
NonNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
Share = Annotated[float, Interval(Real, 0, 1, closed="both")]
Tolerance = Annotated[float, Interval(Real, 1e-12, 1e-2, closed="both")]
Values = Annotated[ArrayLike, "array-like"]
RandomState = Annotated[Any, "random_state"]
ItemWeights = Annotated[
    NDArray[Any] | Callable[[NDArray[np.float64]], NDArray[Any]], "array-like", callable
]

Model = TypeVar("Model", bound=type)


def estimator(model_class: Model) -> Model:
    """Make the fields of a dataclass the parameters of a scikit-learn estimator.

    Parameters are checked by the types of their fields when the model is fitted. ``Annotated``
    types contain constraints of scikit-learn; other types are their own.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @estimator
    ... @dataclass(eq=False, repr=False)
    ... class Scaled:
    ...     factor: Positive | None = 1.0
    >>> Scaled(factor=2.0).factor
    2.0
    >>> [str(each) for each in Scaled._parameter_constraints["factor"]]
    ['a float in the range (0.0, inf)', 'None']
    """
    made: Any = model_class
    hints, parameters = hints_of(made, include_extras=True), inspect.signature(made).parameters
    made._parameter_constraints = {name: _allowed(hints[name]) for name in parameters}
    return made


def _allowed(hint: Any) -> list[Any]:
    """Return the constraints of a type."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return list(hint.__metadata__)
    if origin in (Union, UnionType):
        return [each for part in parts for each in _allowed(part)]
    if origin is Literal:
        return [StrOptions(set(parts))]
    plain: dict[Any, Any] = {NoneType: None, bool: "boolean", Any: object}
    return [plain.get(hint, origin or hint)]


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


class TransformsValues:
    """Mixin of models with a parameter `value_transform`, and perhaps `user_scaling`."""

    value_transform: ValueTransform | None = None
    user_scaling: float = 0.0

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
    if values is user_items.data:
        return user_items
    return sp.csr_array((values, user_items.indices, user_items.indptr), shape=user_items.shape)


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
    values = (user_items.data * by_user * of_items[user_items.indices]).astype(user_items.dtype)
    return sp.csr_array((values, user_items.indices, user_items.indptr), shape=user_items.shape)


def invert(values: NDArray[Any]) -> NDArray[Any]:
    """Return 1 / values, and 0 for a value of 0: a node without edges."""
    return np.divide(1, values, out=np.zeros_like(values), where=values > 0)

"""Parameters of models: the type of a field states which values are allowed, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)
from typing import get_type_hints as hints_of

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


@dataclass_transform(eq_default=False)
def estimator(model_class: Model) -> Model:
    """Make a class whose fields are the parameters of a scikit-learn estimator.

    Parameters are checked by the types of their fields when the model is fitted. ``Annotated``
    types contain constraints of scikit-learn; other types are their own.

    Examples
    --------
    >>> @estimator
    ... class Scaled:
    ...     factor: Positive | None = 1.0
    >>> Scaled(factor=2.0).factor
    2.0
    >>> [str(each) for each in Scaled._parameter_constraints["factor"]]
    ['a float in the range (0.0, inf)', 'None']
    """
    made: Any = dataclass(eq=False, repr=False)(model_class)
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
    plain: dict[Any, Any] = {NoneType: None, bool: "boolean"}
    return [plain.get(hint, origin or hint)]

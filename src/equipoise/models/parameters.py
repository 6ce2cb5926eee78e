"""Parameters of models: the type of a field states which values are allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from inspect import signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import is_whole_number
from equipoise.exceptions import InvalidParameterError
from equipoise.models.estimator import Estimator


@dataclass(frozen=True)
class Rule:
    """A rule for a parameter, with the interface of scikit-learn's constraints.

    Attributes
    ----------
    text : str
        Completes "must be …".
    test : callable
        Whether the rule allows a value.
    """

    text: str
    test: Callable[[Any], bool]

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether the rule allows this value."""
        return bool(self.test(val))

    def __str__(self) -> str:
        return self.text


def interval(bounds: str) -> Rule:
    """Return the rule for numbers in an interval such as ``"[0, inf)"``; NaN is in none.

    Examples
    --------
    >>> rule = interval("(0, 1]")
    >>> str(rule), rule.is_satisfied_by(0.0), rule.is_satisfied_by(1)
    ('a float in the range (0, 1]', False, True)
    """
    low, high = map(float, bounds[1:-1].split(","))

    def test(value: Any) -> bool:
        if not isinstance(value, Real):
            return False
        number: Any = value
        above = low <= number if bounds[0] == "[" else low < number
        return bool(above and (number <= high if bounds[-1] == "]" else number < high))

    return Rule(f"a float in the range {bounds}", test)


def one_of(*words: str) -> Rule:
    """Return the rule for one of some words."""
    shown = ", ".join(map(repr, sorted(words)))
    return Rule(f"a str among {{{shown}}}", lambda value: isinstance(value, str) and value in words)


Count = Annotated[
    int, Rule("an int in the range [1, inf)", lambda value: is_whole_number(value) and value >= 1)
]
Finite = Annotated[float, interval("(-inf, inf)")]
NonNegative = Annotated[float, interval("[0, inf)")]
Positive = Annotated[float, interval("(0, inf)")]
Share = Annotated[float, interval("[0, 1]")]
Tolerance = Annotated[float, interval("[1e-12, 0.01]")]


def _is_array_like(value: Any) -> bool:
    listed = any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
    return listed and not np.isscalar(value) and not sp.issparse(value)


def _is_random_state(value: Any) -> bool:
    is_seed = isinstance(value, Integral) and 0 <= int(value) < 2**32
    return value is None or is_seed or isinstance(value, np.random.RandomState)


_ARRAY_LIKE = Rule("an array-like", _is_array_like)
Values = Annotated[ArrayLike, _ARRAY_LIKE]
RandomState = Annotated[
    Any, Rule("a whole number below 2³², a RandomState or None", _is_random_state)
]
ItemWeights = Annotated[
    NDArray[Any] | Callable[[NDArray[np.float64]], NDArray[Any]],
    _ARRAY_LIKE,
    Rule("a callable", callable),
]

# What counts as a value of some types: NumPy's numbers, too
_KINDS: dict[Any, tuple[type, ...]] = {bool: (bool, np.bool_), int: (Integral,), float: (Real,)}
_KINDS[Any] = (object,)


@cache
def rules_of(model_class: type) -> dict[str, list[Any]]:
    """Return the rules of each parameter of a model that is a dataclass: the types of its fields.

    ``Annotated`` types contain rules; other types are their own.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Scaled:
    ...     factor: Positive | None = 1.0
    >>> [str(each) for each in rules_of(Scaled)["factor"]]
    ['a float in the range (0, inf)', 'None']
    """
    try:
        hints = hints_of(model_class, include_extras=True) if is_dataclass(model_class) else {}
    except NameError:  # types that are imported for type checkers only
        return {}
    names = signature(model_class).parameters.keys() & hints.keys()
    return {name: _allowed(hints[name]) for name in names}


def _allowed(hint: Any) -> list[Rule]:
    """Return the rules of a type: a value must satisfy one of them."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return [one for one in hint.__metadata__ if isinstance(one, Rule)] or _allowed(parts[0])
    if origin in (Union, UnionType):
        return [each for part in parts for each in _allowed(part)]
    if origin is Literal:
        return [one_of(*parts)]
    if hint is NoneType:
        return [Rule("None", lambda value: value is None)]
    kinds = _KINDS.get(hint, (origin or hint,))
    if not all(isinstance(one, type) for one in kinds):
        kinds = (object,)  # isinstance takes no other types, such as a NewType
    return [Rule(f"an instance of {one.__qualname__!r}", partial(_is_a, one)) for one in kinds]


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind)


def check_parameters(model: Estimator, constraints: Mapping[str, list[Any]]) -> None:
    """Refuse parameters that satisfy none of their rules.

    Rules are the types of fields, or are declared as in scikit-learn.
    """
    model_class: Any = type(model)
    declared = {**rules_of(model_class), **constraints}
    for name, value in model.get_params(deep=False).items():
        allowed = [_rule(one) for one in declared.get(name, ())]
        if allowed and not any(one.is_satisfied_by(value) for one in allowed):
            rules = ", ".join(map(str, allowed[:-1])) + " or " * (len(allowed) > 1)
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(model).__name__} must be {rules}{allowed[-1]}. "
                f"Got {value!r} instead."
            )


def _rule(given: Any) -> Any:
    """Return a rule of this module unchanged, and the one that scikit-learn makes of another."""
    if isinstance(given, Rule):
        return given
    from sklearn.utils._param_validation import make_constraint

    return make_constraint(given)

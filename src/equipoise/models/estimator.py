"""The scikit-learn estimator API, without the time to import scikit-learn (more than a second).

Models follow scikit-learn's rules for estimators: parameters in ``__init__``, `get_params`,
declared constraints, tags. They pass its checks and work in its pipelines and searches.
scikit-learn is imported only where it is needed: for tags, `transform`, data frames and errors.
"""

from __future__ import annotations

import copy
import inspect
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

from numpy.typing import NDArray

from equipoise.exceptions import InvalidParameterError

_T = TypeVar("_T")

# Longer parameters, such as arrays, are cut in the middle when a model is printed.
_LONGEST_REPR = 120


class Estimator:
    """Base class with the methods that scikit-learn requires of an estimator."""

    if TYPE_CHECKING:  # what a class learns, and what only some classes have

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(_parameters(cls.__init__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, by name.

        Parameters
        ----------
        deep : bool
            Add the parameters of parameters that are estimators, as ``model__n_components``.
        """
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": v for inner, v in value.get_params().items()}
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``model__n_components`` sets that of the parameter ``model``.

        Parameters
        ----------
        **params
            Names and values.
        """
        known = self._get_param_names()
        inner: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in known:
                raise InvalidParameterError(
                    f"Invalid parameter {name!r} for estimator {self}. "
                    f"Valid parameters are: {known!r}."
                )
            if nested:
                inner[name][rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        values, defaults = self.get_params(deep=False), _parameters(type(self).__init__)
        changed = [
            f"{name}={_shortened(repr(values[name]))}"
            for name, default in sorted(defaults.items())
            if default is inspect.Parameter.empty or repr(values[name]) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class Transformer(Estimator):
    """Adds what scikit-learn requires of a class with `transform`, which returns an array."""

    # scikit-learn reads this to decide whether set_output works
    _sklearn_auto_wrap_output_keys = frozenset({"transform"})

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Return `transform` of the data that the model is fitted on.

        Parameters
        ----------
        X, y, **fit_params
            As in `fit`.
        """
        return self.fit(X, y, **fit_params).transform(X)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set what `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, optional
            An array, or a data frame of this library; None leaves it as it is.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of `transform`, such as ``itemweightedpca0``.

        Parameters
        ----------
        input_features : array of str, optional
            Names of the items, which must equal those of the fit.
        """
        from sklearn.base import ClassNamePrefixFeaturesOutMixin

        return ClassNamePrefixFeaturesOutMixin.get_feature_names_out(self, input_features)

    def _in_container(self, values: NDArray[Any], X: Any) -> Any:
        """Return what `transform` of X computed in the container that the user has set."""
        from sklearn.utils._set_output import _wrap_data_with_container

        return _wrap_data_with_container("transform", values, X, self)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags


def clone(value: _T) -> _T:
    """Return an unfitted copy of an estimator; a deep copy of anything else."""
    if isinstance(value, type):
        return value
    if isinstance(value, list | tuple) and type(value) in (list, tuple):  # not named tuples
        return type(value)([clone(one) for one in value])
    if isinstance(value, Estimator):
        copied = type(value)(**{k: clone(v) for k, v in value.get_params(deep=False).items()})
        if hasattr(value, "_sklearn_output_config"):
            copied._sklearn_output_config = dict(value._sklearn_output_config)
        return copied
    if hasattr(value, "get_params"):
        from sklearn.base import clone as clone_of_sklearn

        return clone_of_sklearn(value)
    return copy.deepcopy(value)


def check_is_fitted(model: Any) -> None:
    """Raise scikit-learn's NotFittedError for a model that has not learned anything yet."""
    if any(name.endswith("_") and not name.startswith("__") for name in vars(model)):
        return
    from sklearn.exceptions import NotFittedError

    raise NotFittedError(
        f"This {type(model).__name__} instance is not fitted yet. Call 'fit' with appropriate "
        "arguments before using this estimator."
    )


@cache
def _parameters(constructor: Callable[..., None]) -> dict[str, Any]:
    """Return the parameters of a constructor with their defaults."""
    if constructor is object.__init__:
        return {}
    given = list(inspect.signature(constructor).parameters.values())[1:]
    return {one.name: one.default for one in given if one.kind != one.VAR_KEYWORD}


def _shortened(text: str) -> str:
    half = _LONGEST_REPR // 2
    return text if len(text) <= _LONGEST_REPR else f"{text[:half]}...{text[-half:]}"

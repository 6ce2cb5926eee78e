"""What has to be fitted: models × settings, with one fit for all settings that can share it."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import is_whole_number
from equipoise.exceptions import InvalidParameterError
from equipoise.models import Recommender
from equipoise.models.base import possible_sizes
from equipoise.models.estimator import clone
from equipoise.models.registry import find_models

Model = Recommender | NDArray[Any]
Models = Mapping[str, Model] | Sequence[Recommender | str] | Recommender | str
Settings = dict[str, Any]
Grid = Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]

# Numbers in kept fits: 128 MB in float64.
_MOST_NUMBERS = 2**24


class Fit(NamedTuple):
    """One fit, and the settings that are read off it.

    Attributes
    ----------
    name : str
        The model in the table.
    model : Recommender or ndarray
        Unfitted, at the largest size; or recommended lists of any other model.
    settings : tuple of mapping
        Parameters of each variant. They differ in the size and in free parameters only.
    positions : tuple of int
        Their places among all settings of the model.
    """

    name: str
    model: Model
    settings: tuple[Settings, ...]
    positions: tuple[int, ...]

    def key(self) -> dict[str, Any] | None:
        """Return what identifies the fit in a cache; None if nothing safe does."""
        if not isinstance(self.model, Recommender):
            digest = hashlib.sha256(np.ascontiguousarray(self.model).tobytes()).hexdigest()
            return {"lists": digest}
        parameters = self.model.get_params(deep=False)
        plain = [{k: _plain(v) for k, v in each.items()} for each in (parameters, *self.settings)]
        if any(value is _UNSAFE for each in plain for value in each.values()):
            return None
        return {"model": type(self.model).__name__, "parameters": plain[0], "settings": plain[1:]}

    def batch_key(self) -> str:
        """Return a text that is equal for fits that share their work."""
        if not isinstance(self.model, Recommender):
            return self.name
        shared = self.model.shared_parameters
        own = {k: v for k, v in self.model.get_params(deep=False).items() if k not in shared}
        return repr((self.name, _identity(own), None if shared else self.positions))


class KeptFits:
    """Fitted projections of one data set, for later fits that differ in nothing that is fitted.

    A fit gives every smaller size and every value of the free parameters. The newest fits are kept.
    """

    def __init__(self, most_numbers: int = _MOST_NUMBERS) -> None:
        self._most = most_numbers
        self._fits: dict[str, Recommender] = {}
        self._added: list[str] = []

    def find(self, unfitted: Recommender) -> Recommender | None:
        """Return a fit of at least this size, with the free parameters of this model."""
        found = self._fits.get(_fitted_part(unfitted))
        if found is None or _size(found) < _size(unfitted):
            return None
        return _with_free_parameters(found, unfitted)

    def keep(self, fitted: Recommender) -> None:
        """Keep a fit if it has smaller sizes; the oldest fits make place for it."""
        if fitted.nested_parameter is None:
            return
        key = _fitted_part(fitted)
        self._added.append(key)
        self._fits.pop(key, None)
        self._fits[key] = fitted
        while sum(each.stored_numbers() for each in self._fits.values()) > self._most:
            del self._fits[next(iter(self._fits))]

    def branch(self) -> KeptFits:
        """Return a copy for one of several concurrent runs; see `join`."""
        other = KeptFits(self._most)
        other._fits = dict(self._fits)
        return other

    def join(self, branch: KeptFits) -> None:
        """Keep what a branch has added; the order of these calls decides which are the newest."""
        for key in branch._added:
            if key in branch._fits:
                self.keep(branch._fits[key])


def covers(model: Recommender, wanted: Recommender) -> bool:
    """Whether a fit of a model gives another one: smaller, or with other free parameters."""
    return _fitted_part(model) == _fitted_part(wanted) and _size(model) >= _size(wanted)


def variant_of(fitted: Recommender, wanted: Recommender) -> Recommender:
    """Return the model that a fit covers, as if it was fitted."""
    variant, low_rank = _with_free_parameters(fitted, wanted), fitted.low_rank()
    # data of few users have fewer components than a model asks for
    own = _size(fitted) if low_rank is None else len(low_rank.components)
    return variant.truncate(_size(wanted)) if _size(wanted) < own else variant


def _with_free_parameters(fitted: Recommender, wanted: Recommender) -> Recommender:
    parameters = wanted.get_params(deep=False)
    free = {name: parameters[name] for name in wanted.free_parameters}
    variant: Recommender = copy.copy(fitted).set_params(**free)
    return variant


def _fitted_part(model: Recommender) -> str:
    """Return a text that is equal for models of which one fit gives all, up to its size."""
    free = {*model.free_parameters, model.nested_parameter}
    own = {k: v for k, v in model.get_params(deep=False).items() if k not in free}
    return f"{type(model).__name__} {_identity(own)}"


_UNSAFE = object()


def _identity(settings: Settings) -> str:
    """Return a text that is equal for equal parameters: arrays by content, functions by object."""
    plain = {name: _plain(value) for name, value in settings.items()}
    return repr({k: id(settings[k]) if v is _UNSAFE else v for k, v in plain.items()})


def _plain(value: Any) -> Any:
    """Return a parameter as JSON, or _UNSAFE: the name of a function does not identify it."""
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Recommender):  # the model that another one contains
        own = {k: _plain(v) for k, v in value.get_params(deep=False).items()}
        unsafe = any(each is _UNSAFE for each in own.values())
        return _UNSAFE if unsafe else {"model": type(value).__name__, "parameters": own}
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return _UNSAFE
    return value


def default_models() -> dict[str, Model]:
    """The three models of the paper."""
    return models_by_key(["pca", "normalized", "item-weighted"])


def models_by_key(keys: Iterable[str]) -> dict[str, Model]:
    """Models by their names on the command line, with their titles in the registry.

    Examples
    --------
    >>> {title: type(model).__name__ for title, model in models_by_key(["pca", "ease"]).items()}
    {'PCA': 'VanillaPCA', 'EASE': 'EASE'}
    """
    return {entry.title: entry.make().for_evaluation() for entry in find_models(keys)}


def named_models(models: Models | None) -> dict[str, Model]:
    """Return models by name; refuse what is neither a model nor an array of lists."""
    if models is None:
        return default_models()
    if isinstance(models, Mapping):
        named = dict(models)
    else:
        named = _listed([models] if isinstance(models, Recommender | str) else list(models))
    for name, model in named.items():
        if isinstance(model, list):
            named[name] = model = np.array(model)
        if not isinstance(model, Recommender | np.ndarray):
            raise InvalidParameterError(
                f"model {name!r} must be an equipoise model, or an array of recommended lists "
                f"(users × k item columns, best first), got {type(model).__name__}."
            )
    if not named:
        raise InvalidParameterError("models is empty. Pass at least one, or leave it out.")
    return named


def _listed(models: Sequence[Recommender | str]) -> dict[str, Model]:
    named: dict[str, Model] = {}
    for model in models:
        new = models_by_key([model]) if isinstance(model, str) else {type(model).__name__: model}
        if set(new) & set(named):
            raise InvalidParameterError(
                "two of the models have the same class, and rows would have the same name. "
                'Name them: models={"one": …, "other": …}.'
            )
        named |= new
    return named


def expand(grid: Grid) -> list[Settings]:
    """Return every combination of a grid, or of several grids one after the other.

    Examples
    --------
    >>> expand({"a": [1, 2], "b": [3]})
    [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    >>> expand([{"a": [1]}, {"b": 2}])
    [{'a': 1}, {'b': 2}]
    """
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    settings: list[Settings] = []
    for one in grids:
        tried = {name: _as_list(values) for name, values in one.items()}
        for name, values in tried.items():
            if not values:
                raise InvalidParameterError(
                    f"the grid needs at least one value of {name}, got {one[name]!r}."
                )
        settings += [dict(zip(tried, chosen, strict=True)) for chosen in product(*tried.values())]
    return _unique(settings)


def _as_list(values: Any) -> list[Any]:
    single = isinstance(values, str) or not isinstance(values, Iterable)
    return [values] if single else list(values)


def with_sizes(grid: Grid | None, sizes: Any, models: Iterable[Model]) -> Grid | None:
    """Return the grid with these sizes of all models that have a size; None leaves it unchanged."""
    if sizes is None:
        return grid
    each = [model for model in models if isinstance(model, Recommender)]
    own = {model.size_parameter: sizes for model in each if model.size_parameter is not None}
    grids = [grid or {}] if grid is None or isinstance(grid, Mapping) else grid
    return [{**one, **own} for one in grids]


def _unique(settings: Iterable[Settings]) -> list[Settings]:
    return list({_identity(one): one for one in settings}.values())


def plan(models: Mapping[str, Model], grid: Grid | None, n_items: int) -> list[Fit]:
    """List every fit; each model takes the parameters of the grid that it has.

    Without a grid, models are fitted at the usual sizes that are possible with `n_items`.
    """
    combinations = None if grid is None else expand(grid)
    if combinations is not None:
        _refuse_unknown(combinations, models)
    return [
        fit
        for name, model in models.items()
        for fit in _fits(name, model, _settings_of(model, combinations, n_items), n_items)
    ]


def _refuse_unknown(settings: Sequence[Settings], models: Mapping[str, Model]) -> None:
    known = {
        name
        for model in models.values()
        if isinstance(model, Recommender)
        for name in model.get_params()
    }
    for name in dict.fromkeys(name for one in settings for name in one):
        if name not in known:
            classes = ", ".join(type(model).__name__ for model in models.values())
            raise InvalidParameterError(
                f"no model has a parameter {name!r}: {classes}. "
                f"They have: {', '.join(sorted(known))}."
            )


def _settings_of(model: Model, settings: list[Settings] | None, n_items: int) -> list[Settings]:
    if not isinstance(model, Recommender):
        return [{}]
    if settings is None:
        size = model.size_parameter
        return [{}] if size is None else [{size: each} for each in possible_sizes(n_items)]
    known = model.get_params()
    own = [{name: value for name, value in one.items() if name in known} for one in settings]
    return _unique(own)


def _fits(name: str, model: Model, settings: list[Settings], n_items: int) -> Iterator[Fit]:
    if not isinstance(model, Recommender):
        yield Fit(name, model, ({},), (0,))
        return
    groups: dict[str, list[tuple[int, Settings, Recommender]]] = {}
    for position, one in enumerate(settings):
        made: Recommender = clone(model).set_params(**one)
        _check_size(made, n_items)
        groups.setdefault(_fitted_part(made), []).append((position, one, made))
    for members in groups.values():
        positions, chosen, models = zip(*members, strict=True)
        yield Fit(name, max(models, key=_size), chosen, positions)


def _size(model: Recommender) -> int:
    return model.get_params().get(model.size_parameter or "", 0)


def _check_size(model: Recommender, n_items: int) -> None:
    name = model.size_parameter
    if name is None:
        return
    size = model.get_params()[name]
    if not is_whole_number(size) or not 1 <= size <= n_items:
        raise InvalidParameterError(
            f"{name} (--ranks, --grid) must be a whole number from 1 to {n_items}, the number of "
            f"items, got {size!r}."
        )


def batches(fits: Iterable[Fit]) -> list[list[Fit]]:
    """Put fits together that share their work."""
    found: dict[str, list[Fit]] = {}
    for fit in fits:
        found.setdefault(fit.batch_key(), []).append(fit)
    return list(found.values())

"""What a model file must hold to become a model: right names, types, and shapes that agree.

A file from a stranger may carry hashes that are right and contents that are not. Whatever would
fail later, or shadow a method, is refused before the model exists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from os import PathLike
from typing import Any, get_args

from numpy.typing import NDArray

from equipoise.data.identifiers import as_id_array, duplicate_at
from equipoise.exceptions import ArtefactError, EquipoiseError
from equipoise.models.persistence import Artefact
from equipoise.spectral.certificate import Certificate
from equipoise.spectral.eigen import BoundMethod

_ITEM_IDS, _NAMES = "item_ids_", "feature_names_in_"
# What an axis is as long as, where a learned number says so
_LENGTHS = {"m": "n_features_in_", "r": "n_components_"}
_KINDS = {int: "a whole number from 0 on", float: "a number", str: "text", dict: "a record"}


@contextmanager
def thawing(path: str | PathLike[str], model: str) -> Iterator[None]:
    """Say of a complaint which file it is about."""
    try:
        yield
    except (ValueError, TypeError, KeyError, EquipoiseError) as error:
        reason = str(error).rstrip(".")
        raise ArtefactError(
            f"{path} is no {model} that can be used: {reason}. It was not written by equipoise as "
            "it is; get it again from where it came, or fit the model again."
        ) from error


def check_contents(
    artefact: Artefact,
    parameters: Collection[str],
    scalars: Mapping[str, type],
    arrays: Mapping[str, str],
) -> None:
    """Refuse a file whose contents are not those of its model.

    Parameters
    ----------
    artefact : Artefact
        What the file holds.
    parameters : collection of str
        Names of the constructor's arguments.
    scalars : mapping
        The type of each learned number.
    arrays : mapping
        The axes of each learned array, as `Estimator._arrays` declares them.

    Raises
    ------
    ValueError
        With what is wrong; the file is named by `thawing`.
    """
    _require(isinstance(artefact.parameters, dict), "its parameters have no names")
    _require(isinstance(artefact.scalars, dict), "its numbers have no names")
    _check_names("parameter", artefact.parameters, parameters, required=())
    _check_names("number", artefact.scalars, scalars, required=scalars)
    known = {*arrays, *parameters, _ITEM_IDS}
    _check_names("array", artefact.arrays, known, required=set(arrays) - {_NAMES})
    for name, kind in scalars.items():
        _require(
            _is_of(artefact.scalars[name], kind),
            f"{name} is {artefact.scalars[name]!r:.40}, and is to be {_KINDS[kind]}",
        )
    lengths = {axis: artefact.scalars[name] for axis, name in _LENGTHS.items() if name in scalars}
    _require(lengths["m"] > 0 and lengths.get("r", 0) >= 0, "it has no items")
    for name, declared in arrays.items():
        if name in artefact.arrays:
            _check_array(name, artefact.arrays[name], declared, lengths)
    _check_ids(artefact.arrays.get(_ITEM_IDS), lengths["m"])


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _check_names(
    what: str, found: Collection[str], known: Collection[str], required: Collection[str]
) -> None:
    strange = sorted(set(found) - set(known))
    missing = sorted(set(required) - set(found))
    _require(not strange, f"it holds the {what} {strange[:1]}, which this model does not have")
    _require(not missing, f"it lacks the {what} {missing[:1]}")


def _is_of(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        # all that models count or draw; 64 bits hold them
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
    return isinstance(value, kind)


def _check_array(name: str, array: Any, declared: str, lengths: dict[str, int]) -> None:
    axes, _, kinds = declared.partition(":")
    _require(array.dtype.kind in (kinds or "f"), f"{name} is of type {array.dtype}")
    _require(
        not (array.dtype.kind == "f" and array.dtype.itemsize < 4),
        f"{name} is of type {array.dtype}, which models are not computed in",
    )
    _require(len(array.shape) == len(axes), f"{name} has {len(array.shape)} dimensions")
    for axis, length in zip(axes, array.shape, strict=True):
        wanted = int(axis) if axis.isdecimal() else lengths.setdefault(axis, length)
        _require(length == wanted, f"{name} has the shape {array.shape}, which does not fit")


def _check_ids(ids: NDArray[Any] | None, n_items: int) -> None:
    if ids is None:
        return
    _require(ids.shape == (n_items,), f"{_ITEM_IDS} has the shape {ids.shape}")
    _require(ids.dtype.kind in "biufMmO", f"{_ITEM_IDS} is of type {ids.dtype}")
    as_id_array(ids, "item")
    _require(duplicate_at(ids, "item") is None, f"{_ITEM_IDS} holds an id twice")


def read_certificate(record: Any) -> Certificate:
    """Return a stored certificate; refuse one of other fields or types."""
    numbers = {field.name for field in fields(Certificate)} - {"method"}
    _check_names("field of certificate_", record, {*numbers, "method"}, {*numbers, "method"})
    for name in numbers:
        kind = int if name == "sweeps" else float
        _require(_is_of(record[name], kind), f"{name} of certificate_ is {record[name]!r:.40}")
    known = record["method"] in get_args(BoundMethod)
    _require(known, f"method of certificate_ is {record['method']!r:.40}")
    return Certificate(**record)

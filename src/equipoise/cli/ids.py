"""Ids and names of items and users: from the text that people type to the ids of data and model."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.cli import options as opt
from equipoise.data import Interactions
from equipoise.data.identifiers import Lookup, name_a_few
from equipoise.data.names import names_for
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models import Recommender

# difflib compares letter by letter: enough ids to find a typing error, few enough to be quick
_COMPARED = 4000


def item_ids(model: Recommender) -> NDArray[Any]:
    """Return the ids of a model's items, or column numbers if it was fitted on a matrix."""
    return np.arange(model.n_features_in_) if model.item_ids_ is None else model.item_ids_


def item_names(model: Recommender, names: Any) -> Mapping[Any, str] | None:
    """Return the name of each item id of a model; None without names."""
    if names is None:
        return None
    known = item_ids(model)
    return dict(zip(known.tolist(), names_for(known, names), strict=True))


def matched(texts: Iterable[str], known: NDArray[Any], role: str) -> list[Any]:
    """Return the ids that are spelled like this, in the type of the known ids.

    Parameters
    ----------
    texts : iterable of str
        As typed.
    known : ndarray
        All ids.
    role : str
        ``"user"`` or ``"item"``: how an error names them.

    Examples
    --------
    >>> matched(["7"], np.array([5, 7]), "item")
    [7]
    >>> matched(["2020-01-02"], np.array(["2020-01-02"], dtype="datetime64[s]"), "user")
    [np.datetime64('2020-01-02T00:00:00')]
    """
    asked = list(texts)
    if known.dtype.kind == "O":
        spelled = {str(value): value for value in known}
        found = [spelled.get(text) for text in asked]
    else:
        found = [_typed(text, known.dtype) for text in asked]
        lookup = Lookup(known, role)
        found = [None if value is None or lookup.find([value])[0] < 0 else value for value in found]
    for text, value in zip(asked, found, strict=True):
        if value is None:
            raise UnknownIdError(_unknown(text, known, role))
    return found


def _typed(text: str, dtype: np.dtype[Any]) -> Any:
    """Return the text as a value of this type, None if it is not one."""
    if dtype.kind == "b":
        return {"true": True, "false": False}.get(text.strip().lower())
    try:
        value = np.array(text.strip()).astype(dtype)[()]
    except (ValueError, OverflowError):
        return None
    if value != value:  # NaN, NaT
        return None
    return value if dtype.kind in "mM" else value.item()


def _unknown(text: str, known: NDArray[Any], role: str) -> str:
    spelled = {str(value).casefold(): value for value in known}
    by_length = sorted(spelled, key=lambda each: abs(len(each) - len(text)))[:_COMPARED]
    similar = [spelled[each] for each in difflib.get_close_matches(text.casefold(), by_length)]
    hint = f"Did you mean {name_a_few(similar)}? " if similar else ""
    short = text if len(text) <= 80 else f"{text[:80]}…"
    return (
        f"unknown {role} {short!r}. {hint}The {len(known)} {role}s are like {name_a_few(known, 3)}."
    )


def wanted(texts: str | None, known: NDArray[Any], role: str, option: str) -> list[Any] | None:
    """Return the ids between commas; None if the option was not given."""
    if texts is None:
        return None
    if not opt.words(texts):
        raise InvalidParameterError(f"{option} takes {role} ids separated by commas.")
    return matched(opt.words(texts), known, role)


def listed(path: Path, role: str) -> list[str]:
    """Read ids from a text file or an open pipe, one per line; empty lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidDataError(
            f"{path} is not UTF-8 text. Give a text file with one {role} id per line."
        ) from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise InvalidDataError(f"{path} is empty. Put one {role} id on each line.")
    return found


def aligned(interactions: Interactions, model: Recommender, drop_unknown: bool) -> Interactions:
    """Prepare data like those of the fit, in the model's columns; refuse items that it lacks.

    Such items are left out if items were left out before the fit.
    """
    known, given = item_ids(model), interactions.item_ids
    if not (Lookup(known, "item").find(given) >= 0).any():
        raise UnknownIdError(
            f"the model has none of the items in DATA: its items are like {name_a_few(known, 3)}, "
            f"those in DATA like {name_a_few(given, 3)}. Check the column of the items (--item), "
            "and that the model was fitted on such data."
        )
    unknown: Literal["error", "drop"] = "drop" if drop_unknown else "error"
    if model.item_ids_ is None:
        return interactions.align_items(known, unknown=unknown)
    return model.prepare(interactions, unknown=unknown)

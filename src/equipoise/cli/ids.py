"""From the text that people type to the ids that data and models have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equipoise.data import Interactions
    from equipoise.models import Recommender

# difflib compares letter by letter: enough spellings to find the slip, few enough to be quick
_SPELLINGS_TRIED = 4000
_LONGEST_SPELLING = 80
_SUGGESTIONS = 3
_LEAST_SIMILARITY = 0.6

_KINDS = {
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers",
    "M": "dates",
    "b": "True and False",
    "O": "text",
}


def item_ids(model: Recommender) -> NDArray[Any]:
    """What a model calls its items: ids, or column numbers if it was fitted on a matrix."""
    return np.arange(model.n_features_in_) if model.item_ids_ is None else model.item_ids_


def item_names(model: Recommender, names: Path | None) -> Mapping[Any, str] | None:
    """Names by item id from a file; None if there is no file."""
    if names is None:
        return None
    from equipoise.data.names import names_for

    known = item_ids(model)
    return dict(zip(known.tolist(), names_for(known, names), strict=True))


def matched(texts: Iterable[str], known: NDArray[Any], role: str) -> list[Any]:
    """Return the ids that are spelled so, in the type of those that are known.

    Parameters
    ----------
    texts : iterable of str
        As typed.
    known : ndarray
        All ids there are.
    role : str
        ``"user"`` or ``"item"``: how an error names them.

    Examples
    --------
    >>> matched(["7"], np.array([5, 7]), "item")
    [7]
    >>> matched(["2020-01-02"], np.array(["2020-01-02"], dtype="datetime64[s]"), "user")
    [np.datetime64('2020-01-02T00:00:00')]
    """
    from equipoise.data.identifiers import Lookup

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
            raise UnknownIdError(_complaint(text, known, role))
    return found


def listed(path: Path, role: str) -> list[str]:
    """Read ids from a text file, one on each line; empty lines count for nothing."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidDataError(
            f"{path} is not UTF-8 text. Give a text file with one {role} id on each line."
        ) from None
    except OSError as error:
        raise InvalidDataError(f"{path} cannot be read: {error.strerror}.") from None
    found = [line.strip() for line in lines if line.strip()]
    if not found:
        raise InvalidDataError(f"{path} is empty. Put one {role} id on each line.")
    return found


def aligned(interactions: Interactions, model: Recommender, drop_unknown: bool) -> Interactions:
    """Give the data the columns of the model, in its order; refuse items it does not know."""
    from equipoise.data.identifiers import name_a_few

    catalogue = item_ids(model)
    ours = interactions.align_items(catalogue, unknown="drop")
    known = set(catalogue.tolist())
    strangers = [item for item in interactions.item_ids.tolist() if item not in known]
    if not ours.nnz:
        raise UnknownIdError(
            f"not one item of the data is known to the model: its items are like "
            f"{name_a_few(catalogue, 3)}, the data's like {name_a_few(strangers, 3)}. "
            "Check the column of the items (--item), and that the model is one for these data."
        )
    if strangers and not drop_unknown:
        raise UnknownIdError(
            f"{len(strangers)} of the data's {interactions.n_items} items are not known to the "
            f"model: {name_a_few(strangers)}. Leave them out with --drop-unknown-items, or fit "
            "the model again with them."
        )
    return ours


def _typed(text: str, dtype: np.dtype[Any]) -> Any:
    """The text as a value of this type, None if it cannot be one."""
    text = text.strip()
    try:
        if dtype.kind in "iu":
            # int() would also take 1_000 and digits of other scripts
            return int(text) if re.fullmatch(r"[+-]?[0-9]{1,40}", text) else None
        if dtype.kind == "b":
            return {"true": True, "false": False}.get(text.lower())
        value = np.array(text, dtype=dtype)[()] if dtype.kind in "mM" else float(text)
    except (ValueError, OverflowError):
        return None
    return None if np.isnan(value) else value


def _complaint(text: str, known: NDArray[Any], role: str) -> str:
    from equipoise.data.identifiers import name_a_few

    near = _near(text, known)
    hint = f"Near by: {name_a_few(near)}. " if near else ""
    kind = _KINDS.get(known.dtype.kind, str(known.dtype))
    return (
        f"unknown {role} {_shortened(text)!r}. {hint}The {len(known)} {role}s are {kind} like "
        f"{name_a_few(known, 3)}; type one of them as it is spelled."
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SPELLING else f"{text[:_LONGEST_SPELLING]}…"


def _near(text: str, known: NDArray[Any]) -> Sequence[Any]:
    """Ids that could have been meant: the next numbers or dates, or similar spellings."""
    if known.dtype.kind == "O":
        return [] if len(text) > _LONGEST_SPELLING else _similar(text, list(map(str, known)))
    value = _typed(text, known.dtype)
    if value is None or known.dtype.kind == "b":
        return []
    unit = known.dtype if known.dtype.kind in "mM" else np.dtype(np.float64)
    distance = np.abs(known.astype(unit) - np.asarray(value, dtype=unit))
    return list(known[np.argsort(distance, kind="stable")[:_SUGGESTIONS]])


def _similar(text: str, spellings: list[str]) -> list[str]:
    """Same letters in another case first, then the most similar of those of similar length."""
    folded = text.casefold()
    same = [each for each in spellings if each.casefold() == folded]
    if same:
        return same[:_SUGGESTIONS]
    by_length = sorted(spellings, key=lambda each: abs(len(each) - len(text)))
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(folded)
    scored = []
    for each in by_length[:_SPELLINGS_TRIED]:
        matcher.set_seq1(each.casefold())
        if matcher.quick_ratio() >= _LEAST_SIMILARITY:
            scored.append((-matcher.ratio(), each))
    return [each for ratio, each in sorted(scored)[:_SUGGESTIONS] if -ratio >= _LEAST_SIMILARITY]


def wanted(texts: str | None, known: NDArray[Any], role: str, option: str) -> list[Any] | None:
    """Ids between commas; None if the option was not given."""
    if texts is None:
        return None
    from equipoise.cli.options import words

    spelled = words(texts)
    if not spelled:
        raise InvalidParameterError(f"{option} takes {role} ids with commas between them.")
    return matched(spelled, known, role)

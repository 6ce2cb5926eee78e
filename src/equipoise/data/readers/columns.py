"""Which column is the user, the item, the value, the time: by name, by position, or by guess."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from equipoise.exceptions import InvalidDataError


class Columns(NamedTuple):
    """What the caller said: a name, a position from 0, ``""`` for "there is none", or nothing."""

    user: str | int | None = None
    item: str | int | None = None
    value: str | int | None = None
    timestamp: str | int | None = None


class Resolved(NamedTuple):
    """Positions of the columns in the table at hand."""

    user: int
    item: int
    value: int | None
    timestamp: int | None

    def taken(self) -> dict[str, int]:
        """Return role → position, without the roles that no column plays."""
        return {role: place for role, place in self._asdict().items() if place is not None}


# One inner tuple per meaning. The first meaning found wins over all others; within the rest, two
# meanings in one table (artist_id and track_id) are a question only the caller can answer.
_MEANINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "user": (
        ("userid", "user", "uid", "users", "useridx", "userindex", "username", "u"),
        ("customerid", "customer", "customers"),
        ("memberid", "member"),
        ("clientid", "client"),
        ("accountid", "account"),
        ("visitorid", "visitor"),
        ("listenerid", "listener"),
        ("readerid", "reader"),
        ("reviewerid", "reviewer"),
        ("playerid", "player"),
        ("sessionid", "session"),
    ),
    "item": (
        ("itemid", "item", "iid", "items", "itemidx", "itemindex", "i"),
        ("movieid", "movie"),
        ("artistid", "artist"),
        ("trackid", "track"),
        ("songid", "song"),
        ("albumid", "album"),
        ("productid", "product", "sku", "asin", "articlenumber"),
        ("bookid", "book", "isbn"),
        ("articleid", "article"),
        ("gameid", "game"),
        ("videoid", "video"),
        ("showid", "show"),
        ("businessid", "business"),
        ("recipeid", "recipe"),
    ),
    "value": (
        ("value", "values"),
        ("rating", "ratings", "stars"),
        ("weight",),
        ("count", "counts", "n", "playcount", "plays", "listens", "views", "clicks"),
        ("quantity", "qty"),
        ("score",),
    ),
    "timestamp": (
        ("timestamp", "ts", "time", "datetime", "date", "unixtime", "createdat", "eventtime"),
    ),
}
_REQUIRED = ("user", "item")
# Digits: more columns no table has
_LONGEST_POSITION = 18
# "genre_id", "genreId", and the row numbers that pandas writes: numbers, but never a value
_ID_NAME = re.compile(r"(?:^|[\W_])[iI][dD]$|[a-z]I[dD]$|^$|^Unnamed: \d+$")


def normalized(name: str) -> str:
    """Return a name without case, spaces and punctuation: 'User_ID' and 'userId' agree.

    Examples
    --------
    >>> normalized("User_ID")
    'userid'
    """
    return re.sub(r"[\W_]+", "", name.lower())


def is_known_name(name: str) -> bool:
    """Tell whether a cell reads like the header of a column."""
    return any(
        normalized(name) in meaning for meanings in _MEANINGS.values() for meaning in meanings
    )


def names_user_and_item(cells: Sequence[str]) -> bool:
    """Tell whether a known name of a user and one of an item stand among the cells.

    Examples
    --------
    >>> names_user_and_item(["user", "movieId", "2019"]), names_user_and_item(["user", "2019"])
    (True, False)
    """
    there = {normalized(cell) for cell in cells}
    return all(any(there.intersection(words) for words in _MEANINGS[role]) for role in _REQUIRED)


def resolve(names: Sequence[str] | None, n_columns: int, asked: Columns, source: str) -> Resolved:
    """Return where each role is.

    Parameters
    ----------
    names : sequence of str or None
        Header of the table, None if it has none: then user, item, value and timestamp are
        expected in that order, or user and item alone once the caller names a column.
    n_columns : int
        Width of the table.
    asked : Columns
        What the caller named.
    source : str
        How an error calls the table.

    Examples
    --------
    >>> resolve(["rating", "movieId", "userId"], 3, Columns(), "ratings.csv")
    Resolved(user=2, item=1, value=0, timestamp=None)
    """
    named = {
        role: _asked_position(role, wish, names, n_columns, source)
        for role, wish in asked._asdict().items()
        if wish is not None
    }
    free = [place for place in range(n_columns) if place not in named.values()]
    places: dict[str, int | None] = {}
    for role in Columns._fields:
        if role in named:
            places[role] = named[role]
        elif names is None:
            # who names a column of a table without header has not the usual order in mind
            expected = role in _REQUIRED or not named
            places[role] = free.pop(0) if free and expected else None
        else:
            places[role] = _guess(role, names, source, set(named.values()))
    missing = [role for role in _REQUIRED if places[role] is None]
    if missing:
        raise InvalidDataError(_missing(missing, names, n_columns, source))
    resolved = Resolved(**places)  # type: ignore[arg-type]  # user and item are there
    _refuse_shared_column(resolved, names, source)
    return resolved


def refuse_idle_numbers(
    found: Resolved,
    names: Sequence[str] | None,
    asked: Columns,
    numeric: Sequence[int],
    source: str,
) -> None:
    """Refuse to count every row 1 while a column of numbers lies idle: it may be the value.

    Parameters
    ----------
    found, names, asked, source
        As in `resolve`.
    numeric : sequence of int
        Positions of the columns that hold numbers.
    """
    if found.value is not None or asked.value is not None:
        return
    idle = [place for place in numeric if place not in found.taken().values()]
    if names is not None:
        idle = [place for place in idle if not _names_an_id_or_time(names[place])]
    if idle:
        called = [repr(place if names is None else names[place]) for place in idle]
        raise InvalidDataError(
            f"{source}: no column is known to be the value, but there are numbers in "
            f"{', '.join(called)}. Name the value with value={called[0]} (--value), or say "
            'value="" if there is none and every row counts 1.'
        )


def _names_an_id_or_time(name: str) -> bool:
    # a column of a known name that plays no role is another user, item or time
    return is_known_name(name) or _ID_NAME.search(name) is not None


def _asked_position(
    role: str, wish: str | int, names: Sequence[str] | None, n_columns: int, source: str
) -> int | None:
    if wish == "":
        return None
    if isinstance(wish, str) and names is not None and wish in names:
        return list(names).index(wish)
    # the command line can only pass text: "2" is a position unless a column is called so
    if isinstance(wish, int) or wish.isdecimal():
        # Python refuses to turn thousands of digits into a number, or the other way round
        long = wish.bit_length() > 64 if isinstance(wish, int) else len(wish) > _LONGEST_POSITION
        if not long and 0 <= int(wish) < n_columns:
            return int(wish)
        shown = f"{role}=, a number of many digits," if long else f"{role}={wish!r}"
        raise InvalidDataError(
            f"{source}: {shown} is no position in a table of {n_columns} columns "
            f"(counted from 0). {_there_are(names, n_columns)}"
        )
    raise InvalidDataError(
        f"{source}: there is no column {wish!r} (asked for as {role}). "
        f"{_there_are(names, n_columns)} Name the right one with {role}= (--{role})."
    )


def _guess(role: str, names: Sequence[str], source: str, taken: set[int | None]) -> int | None:
    keys = {normalized(name): place for place, name in reversed(list(enumerate(names)))}
    keys = {key: place for key, place in keys.items() if place not in taken}
    first, *others = [
        [keys[word] for word in meaning if word in keys] for meaning in _MEANINGS[role]
    ]
    if first:
        return first[0]
    found = [places[0] for places in others if places]
    if len(found) > 1:
        candidates = ", ".join(names[place] for place in found)
        raise InvalidDataError(
            f"{source}: several columns could be the {role}: {candidates}. "
            f"Name one with {role}= (--{role})."
        )
    return found[0] if found else None


def _missing(roles: Sequence[str], names: Sequence[str] | None, n_columns: int, source: str) -> str:
    wanted = " and none like the ".join(roles)
    arguments = " and ".join(f"{role}=" for role in roles)
    options = " and ".join(f"--{role}" for role in roles)
    return (
        f"{source}: no column looks like the {wanted}. {_there_are(names, n_columns)} "
        f"Name {'it' if len(roles) == 1 else 'them'} with {arguments} ({options})."
    )


def _there_are(names: Sequence[str] | None, n_columns: int) -> str:
    if names is None:
        return f"The table has no header and {n_columns} column(s), counted from 0."
    return "The columns are: " + ", ".join(names) + "."


def _refuse_shared_column(resolved: Resolved, names: Sequence[str] | None, source: str) -> None:
    taken = resolved.taken()
    for role, place in taken.items():
        twins = [other for other in taken if taken[other] == place and other != role]
        if twins:
            column = place if names is None else repr(names[place])
            raise InvalidDataError(
                f"{source}: column {column} cannot be both {role} and {twins[0]}. "
                f"Name them with {role}= and {twins[0]}=."
            )

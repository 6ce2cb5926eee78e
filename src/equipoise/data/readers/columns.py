"""Which column holds the user, the item, the value, the time: by name, by position, or detected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from equipoise.exceptions import InvalidDataError


class Columns(NamedTuple):
    """Requested columns: a name, a position from 0, ``""`` for no column, None to detect."""

    user: str | int | None = None
    item: str | int | None = None
    value: str | int | None = None
    timestamp: str | int | None = None


# Meanings, separated by commas. A name of the first meaning wins over all others. Two names of
# different later meanings (artist_id and track_id) are ambiguous, and the caller has to decide.
_NAMES = {
    "user": "userid user uid users useridx userindex username u, customerid customer customers, "
    "memberid member, clientid client, accountid account, visitorid visitor, listenerid listener, "
    "readerid reader, reviewerid reviewer, playerid player, sessionid session",
    "item": "itemid item iid items itemidx itemindex i, movieid movie, artistid artist, "
    "trackid track, songid song, albumid album, productid product sku asin articlenumber, "
    "bookid book isbn, articleid article, gameid game, videoid video, showid show, "
    "businessid business, recipeid recipe",
    "value": "value values, rating ratings stars, weight, "
    "count counts n playcount plays listens views clicks, quantity qty, score",
    "timestamp": "timestamp ts time datetime date unixtime createdat eventtime",
}
_MEANINGS = {role: [words.split() for words in text.split(",")] for role, text in _NAMES.items()}
_ALL_NAMES = {word for meanings in _MEANINGS.values() for words in meanings for word in words}
_REQUIRED = ("user", "item")
# "genre_id", "genreId" and the row numbers that pandas writes are numbers but not values
_ID_NAME = re.compile(r"(?:^|[\W_])[iI][dD]$|[a-z]I[dD]$|^$|^Unnamed: \d+$")


def normalized(name: str) -> str:
    """Return a name without case, spaces and punctuation: 'User_ID' and 'userId' are equal.

    Examples
    --------
    >>> normalized("User_ID")
    'userid'
    """
    return re.sub(r"[\W_]+", "", name.lower())


def is_known_name(name: str) -> bool:
    """Return whether a cell is a usual name of a column."""
    return normalized(name) in _ALL_NAMES


def names_user_and_item(cells: Sequence[str]) -> bool:
    """Return whether the cells contain a usual name of a user column and one of an item column.

    Examples
    --------
    >>> names_user_and_item(["user", "movieId", "2019"]), names_user_and_item(["user", "2019"])
    (True, False)
    """
    found = {normalized(cell) for cell in cells}
    return all(any(found.intersection(words) for words in _MEANINGS[role]) for role in _REQUIRED)


def resolve(
    names: Sequence[str] | None, n_columns: int, asked: Columns, source: str
) -> dict[str, int]:
    """Return role → position of its column, without roles that have no column.

    Parameters
    ----------
    names : sequence of str or None
        Header of the table. Without one, the columns are user, item, value and timestamp in that
        order, or only user and item if the caller requests some column.
    n_columns : int
        Number of columns.
    asked : Columns
        The requested columns.
    source : str
        Name of the table in errors.

    Examples
    --------
    >>> resolve(["rating", "movieId", "userId"], 3, Columns(), "ratings.csv")
    {'user': 2, 'item': 1, 'value': 0}
    """
    places: dict[str, int | None] = {
        role: _asked_position(role, wish, names, n_columns, source)
        for role, wish in asked._asdict().items()
        if wish is not None
    }
    named = set(places.values())
    free = [place for place in range(n_columns) if place not in named]
    for role in Columns._fields:
        if role in places:
            continue
        if names is not None:
            places[role] = _guess(role, names, source, named)
        else:
            # if a column of a table without header is requested, the usual order does not apply
            expected = role in _REQUIRED or not named
            places[role] = free.pop(0) if free and expected else None
    missing = [role for role in _REQUIRED if places[role] is None]
    if missing:
        raise InvalidDataError(
            f"{source}: no column looks like the {' and none like the '.join(missing)}. "
            f"{_list_columns(names, n_columns)} Set {' and '.join(f'{m}=' for m in missing)} "
            f"({' and '.join(f'--{m}' for m in missing)})."
        )
    taken = {role: k for role in Columns._fields if (k := places[role]) is not None}
    for role, place in taken.items():
        first = next(other for other in taken if taken[other] == place)
        if first != role:
            column = place if names is None else repr(names[place])
            raise InvalidDataError(
                f"{source}: column {column} cannot be both {first} and {role}. "
                f"Set {first}= and {role}=."
            )
    return taken


def recorded(asked: Columns, found: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the columns of a read for its record: those requested, and those detected.

    Examples
    --------
    >>> recorded(Columns(user="who"), {"user": "who", "item": "movie"})
    {'user': 'who', 'detected_item': 'movie', 'detected_value': ''}
    """
    columns = {role: wish for role, wish in asked._asdict().items() if wish is not None}
    free = {f"detected_{role}": found[role] for role in found if role not in columns}
    if "value" not in columns:
        free.setdefault("detected_value", "")
    return columns | free


def refuse_unused_numbers(
    found: Mapping[str, int],
    names: Sequence[str] | None,
    asked: Columns,
    numeric: Sequence[int],
    source: str,
) -> None:
    """Refuse to count every row as 1 while a column of numbers is unused: it may be the value.

    Parameters
    ----------
    found : mapping
        What `resolve` returned.
    names, asked, source
        As in `resolve`.
    numeric : sequence of int
        Positions of the columns of numbers.
    """
    if "value" in found or asked.value is not None:
        return
    unused = [place for place in numeric if place not in found.values()]
    if names is not None:
        # a known name without a role is another user, item or time
        unused = [k for k in unused if not (is_known_name(names[k]) or _ID_NAME.search(names[k]))]
    if unused:
        called = [repr(place if names is None else names[place]) for place in unused]
        raise InvalidDataError(
            f"{source}: no column is known to be the value, but there are numbers in "
            f'{", ".join(called)}. Set value={called[0]} (--value), or value="" to count every '
            "row as 1."
        )


def _asked_position(
    role: str, wish: str | int, names: Sequence[str] | None, n_columns: int, source: str
) -> int | None:
    if wish == "":
        return None
    if isinstance(wish, str) and names is not None and wish in names:
        return list(names).index(wish)
    # the command line passes text: "2" is a position unless a column has that name
    if str(wish) in map(str, range(n_columns)):
        return int(wish)
    raise InvalidDataError(
        f"{source}: {role}={repr(wish)[:80]} is not one of its columns. "
        f"{_list_columns(names, n_columns)} Set {role}= (--{role}) to one of them, or to a "
        "position from 0."
    )


def _guess(role: str, names: Sequence[str], source: str, taken: set[int | None]) -> int | None:
    keys = {normalized(name): place for place, name in reversed(list(enumerate(names)))}
    keys = {key: place for key, place in keys.items() if place not in taken}
    first, *others = [[keys[word] for word in words if word in keys] for words in _MEANINGS[role]]
    if first:
        return first[0]
    found = [places[0] for places in others if places]
    if len(found) > 1:
        candidates = ", ".join(names[place] for place in found)
        raise InvalidDataError(
            f"{source}: several columns could be the {role}: {candidates}. "
            f"Choose one with {role}= (--{role})."
        )
    return found[0] if found else None


def _list_columns(names: Sequence[str] | None, n_columns: int) -> str:
    if names is None:
        return f"The table has no header and {n_columns} column(s), counted from 0."
    return "The columns are: " + ", ".join(names) + "."

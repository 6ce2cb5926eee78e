"""Which column holds the user, the item, the value, the time: by name, by position, or detected."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
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


class Header(NamedTuple):
    """The columns of a table.

    Attributes
    ----------
    source : str
        Name of the table in errors.
    names : sequence of str or None
        None without a header.
    n_columns : int
        Number of columns.
    numeric : sequence of int
        Positions of the columns of numbers.
    """

    source: str
    names: Sequence[str] | None
    n_columns: int
    numeric: Sequence[int] = ()

    def resolve(self, asked: Columns) -> dict[str, int]:
        """Return role → position of its column, without roles that have no column.

        Without a header, the columns are user, item, value and timestamp in that order, or only
        user and item if the caller requests some column.

        Examples
        --------
        >>> Header("ratings.csv", ["rating", "movieId", "userId"], 3).resolve(Columns())
        {'user': 2, 'item': 1, 'value': 0}
        """
        places: dict[str, int | None] = {
            role: self._position(role, wish)
            for role, wish in asked._asdict().items()
            if wish is not None
        }
        named = set(places.values())
        free = [place for place in range(self.n_columns) if place not in named]
        for role in Columns._fields:
            if role in places:
                continue
            if self.names is not None:
                places[role] = self._guess(role, self.names, named)
            else:
                # if a column of a table without header is requested, the usual order does not apply
                expected = role in _REQUIRED or not named
                places[role] = free.pop(0) if free and expected else None
        missing = [role for role in _REQUIRED if places[role] is None]
        if missing:
            raise InvalidDataError(
                f"{self.source}: no column looks like the {' and none like the '.join(missing)}. "
                f"{self._listed()} Set {' and '.join(f'{m}=' for m in missing)} "
                f"({' and '.join(f'--{m}' for m in missing)})."
            )
        taken = {role: k for role in Columns._fields if (k := places[role]) is not None}
        for role, place in taken.items():
            first = next(other for other in taken if taken[other] == place)
            if first != role:
                raise InvalidDataError(
                    f"{self.source}: column {self._shown(place)} cannot be both {first} and "
                    f"{role}. Set {first}= and {role}=."
                )
        if "value" not in taken and asked.value is None:
            self._refuse_unused_numbers(taken.values())
        return taken

    def called(self, places: Mapping[str, int]) -> dict[str, str | int]:
        """Return role → name of its column, or its position without a header."""
        names = self.names or range(self.n_columns)
        return {role: names[place] for role, place in places.items()}

    def _refuse_unused_numbers(self, taken: Collection[int]) -> None:
        """Refuse to count every row as 1 while there are other numbers, which may be the values."""
        unused = [k for k in self.numeric if k not in taken and not self._is_no_value(k)]
        if unused:
            shown = [self._shown(place) for place in unused]
            raise InvalidDataError(
                f"{self.source}: no column is known to be the value, but there are numbers in "
                f'{", ".join(shown)}. Set value={shown[0]} (--value), or value="" to count every '
                "row as 1."
            )

    def _is_no_value(self, place: int) -> bool:
        """Whether a name shows that a column has ids or times: of another user or item."""
        name = None if self.names is None else self.names[place]
        return name is not None and (is_known_name(name) or _ID_NAME.search(name) is not None)

    def _position(self, role: str, wish: str | int) -> int | None:
        """Return the position of a requested column, None if there is to be no such column."""
        if wish == "":
            return None
        if isinstance(wish, str) and self.names is not None and wish in self.names:
            return list(self.names).index(wish)
        # the command line passes text: "2" is a position unless a column has that name
        if str(wish) in map(str, range(self.n_columns)):
            return int(wish)
        raise InvalidDataError(
            f"{self.source}: {role}={repr(wish)[:80]} is not one of its columns. "
            f"{self._listed()} Set {role}= (--{role}) to one of them, or to a position from 0."
        )

    def _guess(self, role: str, names: Sequence[str], taken: set[int | None]) -> int | None:
        keys = {normalized(name): place for place, name in reversed(list(enumerate(names)))}
        keys = {key: place for key, place in keys.items() if place not in taken}
        first, *others = [
            [keys[word] for word in words if word in keys] for words in _MEANINGS[role]
        ]
        if first:
            return first[0]
        found = [places[0] for places in others if places]
        if len(found) > 1:
            candidates = ", ".join(names[place] for place in found)
            raise InvalidDataError(
                f"{self.source}: several columns could be the {role}: {candidates}. "
                f"Choose one with {role}= (--{role})."
            )
        return found[0] if found else None

    def _shown(self, place: int) -> str:
        return repr(place if self.names is None else self.names[place])

    def _listed(self) -> str:
        if self.names is None:
            return f"The table has no header and {self.n_columns} column(s), counted from 0."
        return "The columns are: " + ", ".join(self.names) + "."


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

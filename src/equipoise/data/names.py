"""Names of items: from a mapping, a table, a file, a column of the data, or a query."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.identifiers import is_missing
from equipoise.exceptions import InvalidDataError, explained
from equipoise.parallel import require_polars_threads

_QUERY = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_NAME_COLUMNS = ("name", "title", "itemname", "label", "artistname", "movietitle", "description")
_ID_COLUMNS = ("id", "itemid", "item", "movieid", "artistid", "trackid", "productid", "key")


class NamesByText(dict[str, str]):
    """Names by the text of ids, for ids that were read from elsewhere."""


def names_in(source: Any, names: Any, **reading: Any) -> Any:
    """Return names that are a column of the data or a query, by id; other names unchanged.

    Parameters
    ----------
    source : any source that `Interactions.read` accepts
        The data.
    names : str or anything else
        A path that exists is returned unchanged. ``SELECT id, name …`` is sent to the database.
        Other text is a column of the data; an item with several names gets the most frequent.
    reading : keyword arguments
        How the data are read.
    """
    from equipoise.data.interactions import Interactions

    is_text = isinstance(names, str) and bool(names.strip())
    if not is_text or os.path.exists(os.path.expanduser(names)):
        return names
    is_query = _QUERY.match(names) is not None
    columns = {"query": names, "item": 0, "user": 1} if is_query else {**reading, "user": names}
    try:
        named = Interactions.read(source, value="", timestamp="", **columns)
    except InvalidDataError as error:
        problem = f"there is no file {names}, and it is not a column of the data"
        problem = "the query of the names failed" if is_query else problem
        raise InvalidDataError(f"{problem} (--names). {error}") from error
    most = named.matrix.argmax(axis=0)
    return NamesByText(
        (str(item), str(named.user_ids[place]))
        for item, place in zip(named.item_ids.tolist(), most, strict=True)
    )


def names_for(item_ids: NDArray[Any], source: Any) -> NDArray[Any]:
    """Return one name per item id; an item without a name gets its id.

    Examples
    --------
    >>> names_for(np.array([7, 8]), {7: "Velvet Harbour"}).tolist()
    ['Velvet Harbour', '8']
    """
    is_path = isinstance(source, str | os.PathLike)
    known = _from_file(source) if is_path else _from_memory(source)
    by_text = is_path or isinstance(source, NamesByText)
    # ids of a file are text; a mapping or a table has ids of any type
    keys = [str(item) for item in item_ids.tolist()] if by_text else item_ids.tolist()
    found = [known.get(key) for key in keys]
    if all(map(is_missing, found)):
        if any(key in known for key in keys):
            raise InvalidDataError(
                f"the names of the {len(keys)} items are all missing (None or NaN). Give at least "
                "one, or leave the names out."
            )
        raise InvalidDataError(
            f"none of the {len(known)} names belongs to one of the {len(keys)} items: the names "
            f"have ids like {list(known)[:3]!r}, the items {keys[:3]!r}."
        )
    names = np.empty(len(keys), dtype=object)
    names[:] = [
        str(item) if is_missing(name) else str(name)
        for item, name in zip(item_ids.tolist(), found, strict=True)
    ]
    return names


def _from_memory(source: Any) -> dict[Any, Any]:
    if isinstance(source, Mapping):
        return dict(source)
    from equipoise.data.readers import tables

    if not (tables.is_pandas(source) or tables.is_table(source)):
        raise InvalidDataError(
            f"names cannot be read from {type(source).__name__}: give {{id: name}}, a table with "
            "an id and a name column, or the path of one."
        )
    table = source if tables.is_pandas(source) else tables.frame_of(source)
    header = [str(name) for name in table.columns]
    if len(set(header)) < len(header):
        raise InvalidDataError(
            f"the table of names has two columns of the same name: {', '.join(header)}. Rename one."
        )
    ids, names = (table[name].to_list() for name in _two_columns(header, "the table of names"))
    return dict(zip(ids, names, strict=True))


def _two_columns(header: Sequence[str], source: str) -> tuple[str, str]:
    from equipoise.data.readers.columns import normalized

    names = [column for column in header if normalized(column) in _NAME_COLUMNS]
    ids = id_columns([column for column in header if column not in names])
    if not (names and ids):
        raise InvalidDataError(
            f"{source} needs a column of ids (id, item_id, ...) and one of names (name, title); "
            f"it has: {', '.join(header)}."
        )
    return ids[0], names[0]


def id_columns(header: Sequence[str]) -> list[str]:
    """Return the columns that look like ids, the most usual names first."""
    from equipoise.data.readers.columns import is_known_name, normalized

    ids = [column for column in header if normalized(column) in _ID_COLUMNS]
    return ids + [column for column in header if is_known_name(column) and column not in ids]


def _from_file(source: str | os.PathLike[str]) -> dict[Any, Any]:
    table = read_columns(source)
    # no header (movies.dat): first the id, then the name
    without_header = {"0", "1"} <= table.keys()
    ids, names = ("0", "1") if without_header else _two_columns(list(table), str(source))
    return {str(key): name or None for key, name in zip(table[ids], table[names], strict=True)}


def read_columns(source: str | os.PathLike[str], *wanted: str) -> dict[str, list[Any]]:
    """Read a file of attributes; columns without a header are numbered from 0.

    A first line that contains one of the `wanted` names is a header. Cells of text files are text,
    whatever they look like.
    """
    from equipoise.data.readers import delimited, files, parquet
    from equipoise.data.readers.columns import Columns
    from equipoise.data.readers.text import open_text

    require_polars_threads()
    found = files.find(source, None)
    if len(found.paths) > 1 or found.format in ("sqlite", "lightgcn"):
        raise InvalidDataError(
            f"{source}: names and groups are read from one CSV, Parquet, movies.dat or "
            "artists.dat file; groups also from a database with query=."
        )
    path = found.paths[0]
    if found.format == "parquet":
        return parquet.read_table(path).to_dict(as_series=False)
    problem = f"{path} cannot be read for names or groups; it may be damaged or truncated"
    with explained(problem, OSError, EOFError, zlib.error):
        quoted = found.format == "csv" and path.suffix != ".dat"
        form = delimited.layout(path, None, Columns(*wanted), quoted=quoted)
        with open_text(path) as file:
            text = _decoded(file.read())
    rows = delimited.all_rows(text, form, str(path))
    header = form.names or list(map(str, range(form.n_columns)))
    return {
        name: [row[place] if place < len(row) else "" for row in rows]
        for place, name in enumerate(header)
    }


def _decoded(text: bytes) -> str:
    """Return UTF-8 text, or ISO-8859-1 if it is not UTF-8: the titles of MovieLens are."""
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return text.decode("iso-8859-1")

"""Names of items: from a mapping, a table, or a file."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.forks import require_polars_threads
from equipoise.data.identifiers import is_missing
from equipoise.exceptions import InvalidDataError, first_line

_NAME_COLUMNS = ("name", "title", "itemname", "label", "artistname", "movietitle", "description")
_ID_COLUMNS = ("id", "itemid", "item", "movieid", "artistid", "trackid", "productid", "key")


def names_for(item_ids: NDArray[Any], source: Any) -> NDArray[Any]:
    """Return one name per item id; an item without a name gets its id.

    Examples
    --------
    >>> names_for(np.array([7, 8]), {7: "Velvet Harbour"}).tolist()
    ['Velvet Harbour', '8']
    """
    by_text = isinstance(source, str | os.PathLike)
    known = _from_file(source) if by_text else _from_memory(source)
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
    if tables.is_pandas(source):
        header = [str(name) for name in source.columns]
        if len(set(header)) < len(header):
            raise InvalidDataError(
                f"the table of names has two columns of the same name: {', '.join(header)}. "
                "Rename one."
            )
        columns = {name: source.iloc[:, place].tolist() for place, name in enumerate(header)}
    else:
        columns = tables.frame_of(source).to_dict(as_series=False)
    id_column, name_column = _two_columns(list(columns), "the table of names")
    return dict(zip(columns[id_column], columns[name_column], strict=True))


def _two_columns(header: Sequence[str], source: str) -> tuple[str, str]:
    from equipoise.data.readers.columns import is_known_name, normalized

    names = [column for column in header if normalized(column) in _NAME_COLUMNS]
    ids = [column for column in header if normalized(column) in _ID_COLUMNS]
    ids += [column for column in header if is_known_name(column) and column not in ids + names]
    if not (names and ids):
        raise InvalidDataError(
            f"{source} needs a column of ids (id, item_id, ...) and one of names (name, title); "
            f"it has: {', '.join(header)}."
        )
    return ids[0], names[0]


def _from_file(source: str | os.PathLike[str]) -> dict[Any, Any]:
    from equipoise.data.readers import delimited, files, parquet
    from equipoise.data.readers.columns import Columns
    from equipoise.data.readers.text import open_text

    require_polars_threads()
    found = files.find(source, None)
    if len(found.paths) > 1 or found.format in ("sqlite", "lightgcn"):
        raise InvalidDataError(
            f"{source}: names are read from one CSV, Parquet, movies.dat or artists.dat file."
        )
    path = found.paths[0]
    if found.format == "parquet":
        return {str(key): name for key, name in _from_memory(parquet.read_table(path)).items()}
    try:
        quoted = found.format == "csv" and path.suffix != ".dat"
        form = delimited.layout(path, None, Columns(), quoted=quoted)
        with open_text(path) as file:
            text = _decoded(file.read())
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDataError(
            f"{path} cannot be read for names; it may be damaged or truncated. "
            f"({first_line(error)})"
        ) from error
    rows = delimited.all_rows(text, form, str(path))
    # without a header (movies.dat) the first column is the id, the second the name
    header = form.names or ["id", "name", *map(str, range(2, form.n_columns))]
    id_column, name_column = map(header.index, _two_columns(header, str(path)))
    return {
        row[id_column]: row[name_column] or None
        for row in rows
        if len(row) > max(id_column, name_column)
    }


def _decoded(text: bytes) -> str:
    """Return UTF-8 text, or ISO-8859-1 if it is not UTF-8: the titles of MovieLens are."""
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return text.decode("iso-8859-1")

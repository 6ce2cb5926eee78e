"""What items are called: from a mapping, a table, or a file."""

from __future__ import annotations

import io
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
    """Return one name per item id; an item without one is called by its id.

    Examples
    --------
    >>> names_for(np.array([7, 8]), {7: "Velvet Harbour"}).tolist()
    ['Velvet Harbour', '8']
    """
    by_text = isinstance(source, str | os.PathLike)
    known = _from_file(source) if by_text else _from_memory(source)
    # a file knows ids as text only; a mapping or a table knows them as they are
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
            f"are for ids like {list(known)[:3]!r}, the items are like {keys[:3]!r}."
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
            f"names cannot come from {type(source).__name__}: give {{id: name}}, a table with an "
            "id and a name column, or the path of one."
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


def _from_file(path: str | os.PathLike[str]) -> dict[Any, Any]:
    from equipoise.data.readers.encoder import POLARS_ERRORS

    try:
        return _rows_of_file(path)
    except (OSError, EOFError, zlib.error, *POLARS_ERRORS) as error:
        raise InvalidDataError(
            f"{path} cannot be read for names; it may be broken or cut off. ({first_line(error)})"
        ) from error


def _rows_of_file(source: str | os.PathLike[str]) -> dict[Any, Any]:
    import polars as pl

    from equipoise.data.readers import delimited, files, parquet
    from equipoise.data.readers.chunks import open_text
    from equipoise.data.readers.columns import Columns

    require_polars_threads()
    found = files.find(source, None)
    if len(found.paths) > 1 or found.format in ("sqlite", "lightgcn"):
        raise InvalidDataError(
            f"{source}: names come from one CSV, Parquet, movies.dat or artists.dat file."
        )
    path = found.paths[0]
    if found.format == "parquet":
        named = _from_memory(parquet.whole(path))
        return {str(key): name for key, name in named.items()}
    quoted = found.format == "csv" and path.suffix != ".dat"
    form = delimited.layout(path, None, Columns(), quoted=quoted)
    with open_text(path) as file:
        text = _decoded(file.read()).replace(form.delimiter, form.byte).encode()
    rows = pl.read_csv(
        io.BytesIO(delimited.without_outer_spaces(text, form)),
        separator=form.byte,
        quote_char='"' if quoted else None,
        has_header=form.names is not None,
        infer_schema=False,
        truncate_ragged_lines=True,
    )
    # without a header (movies.dat) the first column is the id, the second the name
    header = rows.columns
    if len(header) < 2:
        raise InvalidDataError(f"{path}: names need two columns, ids and names; it has one.")
    columns = _two_columns(header, str(path)) if form.names else (header[0], header[1])
    return dict(zip(rows[columns[0]], rows[columns[1]], strict=True))


def _decoded(text: bytes) -> str:
    """Return UTF-8 text, or ISO-8859-1 where it is not: MovieLens' titles are."""
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        return text.decode("iso-8859-1")

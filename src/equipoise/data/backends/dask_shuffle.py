"""From parts of a table to blocks of users on a cluster: two reads and one shuffle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import polars as pl

from equipoise.checks import check_unused
from equipoise.data.backends import sources
from equipoise.data.backends.dask import DaskRows, connect, reduced, spread
from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.block_ops import assemble_block, divide
from equipoise.data.interactions import Interactions
from equipoise.data.readers import Options
from equipoise.data.readers.encoder import Batch, Encoder, joined
from equipoise.data.readers.ids import ColumnVocabulary, id_array
from equipoise.data.readers.sql import without_credentials
from equipoise.data.rows import RowBlock
from equipoise.data.validation import CodedColumns, Duplicates
from equipoise.exceptions import InvalidDataError, InvalidParameterError, require_extra
from equipoise.progress import Progress, task

# Interactions per block by default, and the least and the most blocks. They do not depend on the
# workers: the same table gives the same blocks, and so the same bits, on every cluster.
_ROWS_PER_BLOCK, _LEAST_BLOCKS, _MOST_BLOCKS = 4_000_000, 8, 512
_FAN_IN = 8


# A part of the table: a function, and the place (or task) that it reads from
Part = tuple[Callable[[Any], Any], Any]


def read(
    source: Any,
    options: Options,
    client: Any,
    *,
    n_blocks: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    rows_per_task: int | None = None,
    retry: RetryPolicy | None = None,
    progress: Progress | None = None,
) -> Interactions:
    """Read Parquet files onto a cluster; see `Interactions.read`."""
    check_unused(
        options.of_text(),
        "cannot be used with client= (--scheduler): a cluster reads Parquet. Leave it out, or "
        "convert the data to Parquet first.",
    )
    connected = connect(client)
    n_rows = rows_per_task or sources.ROWS_AT_A_TIME
    with task(progress, f"Reading {without_credentials(str(source))} onto the cluster"):
        found = sources.parquet_parts(source, storage_options, n_rows)
        parts = [(partial(sources.read_part, asked=options.columns), part) for part in found]
        return _load(connected, parts, options, n_blocks, retry)


def read_frame(
    frame: Any, options: Options, client: Any, n_blocks: int | None, retry: RetryPolicy | None
) -> Interactions:
    """Take the partitions of a Dask DataFrame; see `Interactions.from_dask`."""
    connected = connect(client)
    if not hasattr(frame, "to_delayed"):
        raise InvalidParameterError(
            f"from_dask takes a Dask DataFrame, got {type(frame).__name__}. Use Interactions.read "
            "for a table in memory."
        )
    parts = [
        (partial(sources.frame_batch, number=number, asked=options.columns), partition)
        for number, partition in enumerate(frame.to_delayed())
    ]
    return _load(connected, parts, options, n_blocks, retry)


class Names(NamedTuple):
    """The users and items of a part (or of all parts so far), in order of first appearance."""

    users: pl.Series
    items: pl.Series
    columns: Mapping[str, str | int]  # role → column
    rows: int

    def encoder(self) -> Encoder:
        """Return an encoder to the codes of these ids."""
        return Encoder(
            ColumnVocabulary.of("user", self.users), ColumnVocabulary.of("item", self.items)
        )


def _load(
    client: Any,
    parts: Sequence[Part],
    options: Options,
    n_blocks: int | None,
    retry: RetryPolicy | None,
) -> Interactions:
    """Read the parts twice: for the ids, then for the rows."""
    from dask.delayed import delayed

    if not parts:
        raise InvalidDataError("the data have no rows: their files contain no row group.")
    by_part = [delayed(_names, pure=False)(*part) for part in parts]
    names = client.compute(reduced(merge_names, by_part, _FAN_IN))
    known: Names = with_retries(client, lambda: [names], RetryPolicy())[0]
    if not known.rows:
        raise InvalidDataError("the data contain no interaction: no rows, or no value above 0.")
    wanted = min(max(_LEAST_BLOCKS, known.rows // _ROWS_PER_BLOCK), _MOST_BLOCKS)
    count = min(n_blocks or wanted, len(known.users))  # no block stays without users
    futures = client.compute(_shuffled(client, parts, names, count, options.duplicates))
    rows = DaskRows(client, list(futures), retry)
    rows.sizes()  # waits for the blocks
    loaded = Interactions.from_rows(rows, id_array(known.items, "item"))
    return options.record(loaded, known.columns)


def _shuffled(
    client: Any, parts: Sequence[Part], names: Any, n_blocks: int, duplicates: Duplicates
) -> list[Any]:
    """Send all pieces of every part to their blocks, adjacent blocks to one worker."""
    from dask.delayed import delayed

    annotate = require_extra("dask", "dask", "reading onto a cluster").annotate
    token = uuid4().hex
    split = delayed(_split, pure=False, nout=n_blocks)
    pieces = [split(*part, n_blocks, names) for part in parts]
    merge = delayed(merge_pieces, pure=False)
    workers = spread(n_blocks, sorted(client.nthreads()) or [""])
    blocks = []
    for number, worker in enumerate(workers):
        with annotate(workers=[worker], allow_other_workers=True):
            own, place = [piece[number] for piece in pieces], (number, n_blocks)
            key = f"block-{token}-{number}"
            blocks.append(merge(own, place, names, duplicates, dask_key_name=key))
    return blocks


def _names(read: Callable[[Any], Batch], what: Any) -> Names:
    return names_in(read(what))


def _split(
    read: Callable[[Any], Batch], what: Any, n_blocks: int, names: Names
) -> list[CodedColumns]:
    return divide(names.encoder().encode(read(what)), n_blocks)


def names_in(batch: Batch) -> Names:
    """Return the ids of a part."""
    users, items = ColumnVocabulary("user"), ColumnVocabulary("item")
    encoder = Encoder(users, items)
    rows = len(encoder.encode(batch)["user"])
    return Names(users.known, items.known, encoder.columns, rows)


def merge_names(*parts: Names) -> Names:
    """Return the ids of adjacent parts together, in order of first appearance."""
    users, items = ColumnVocabulary("user"), ColumnVocabulary("item")
    for part in parts:
        if part.columns.keys() != parts[0].columns.keys():
            raise InvalidDataError(
                f"one part has the columns {sorted(part.columns)}, an earlier one "
                f"{sorted(parts[0].columns)}. Give every part the same columns."
            )
        users.encode(part.users)
        items.encode(part.items)
    rows = sum(part.rows for part in parts)
    return Names(users.known, items.known, parts[0].columns, rows)


def merge_pieces(
    pieces: list[CodedColumns], place: tuple[int, int], names: Names, duplicates: Duplicates
) -> RowBlock:
    """Return a block from its pieces of all parts; `place` is its number and that of blocks."""
    number, n_blocks = place
    user_ids = id_array(names.users.gather_every(n_blocks, number), "user")
    item_ids = id_array(names.items, "item")
    # copies: the pieces belong to the cluster, which may need them again
    columns = joined([dict(piece) for piece in pieces])
    return assemble_block(columns, place, user_ids, item_ids, duplicates, "the data")

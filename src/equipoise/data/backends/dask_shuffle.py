"""From parts of a table to blocks of users on a cluster: two reads and one shuffle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from numpy.typing import NDArray

from equipoise.data.assembly import Duplicates
from equipoise.data.backends import shuffle, sources
from equipoise.data.backends.dask import DaskRows, connect
from equipoise.data.backends.placement import spread
from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.readers import Options
from equipoise.data.readers.ids import ColumnVocabulary
from equipoise.data.readers.sql import without_credentials
from equipoise.exceptions import InvalidDataError, InvalidParameterError, require_extra
from equipoise.progress import Progress, task

# Interactions per block by default, and the least and the most blocks. They do not depend on the
# workers: the same table gives the same blocks, and so the same bits, on every cluster.
_ROWS_PER_BLOCK, _LEAST_BLOCKS, _MOST_BLOCKS = 4_000_000, 8, 512
_FAN_IN = 8


class Part(NamedTuple):
    """A part of the table: a function, and the place (or task) that it reads from."""

    read: Callable[[Any], Any]
    what: Any


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
) -> tuple[DaskRows, NDArray[Any]]:
    """Read Parquet files onto a cluster; see `Interactions.read`."""
    connected = connect(client)
    given = {"delimiter": options.delimiter, "format": options.format, "query": options.query}
    idle = [f"{name}=" for name, value in given.items() if value is not None]
    if idle:
        raise InvalidParameterError(
            f"{', '.join(idle)} cannot be used with client=: a cluster reads Parquet. Leave it "
            "out, or convert the data to Parquet first."
        )
    n_rows = rows_per_task or sources.ROWS_AT_A_TIME
    with task(progress, f"Reading {without_credentials(str(source))} onto the cluster"):
        found = sources.parquet_parts(source, storage_options, n_rows)
        parts = [Part(partial(sources.read_part, asked=options.columns), part) for part in found]
        rows, item_ids = _load(connected, parts, n_blocks, options.duplicates, retry)
        rows.sizes()  # waits for the blocks
    return rows, item_ids


def read_frame(
    frame: Any, options: Options, client: Any, n_blocks: int | None, retry: RetryPolicy | None
) -> tuple[DaskRows, NDArray[Any]]:
    """Take the partitions of a Dask DataFrame; see `Interactions.from_dask`."""
    connected = connect(client)
    if not hasattr(frame, "to_delayed"):
        raise InvalidParameterError(
            f"from_dask takes a Dask DataFrame, got {type(frame).__name__}. Use Interactions.read "
            "for a table in memory."
        )
    parts = [
        Part(partial(sources.frame_batch, number=number, asked=options.columns), partition)
        for number, partition in enumerate(frame.to_delayed())
    ]
    return _load(connected, parts, n_blocks, options.duplicates, retry)


def _load(
    client: Any,
    parts: Sequence[Part],
    n_blocks: int | None,
    duplicates: Duplicates,
    retry: RetryPolicy | None,
) -> tuple[DaskRows, NDArray[Any]]:
    """Read the parts twice: for the names of items, then for the rows."""
    from dask.delayed import delayed

    if not parts:
        raise InvalidDataError("the data have no rows: their files contain no row group.")
    names = client.compute(_merged([delayed(_names, pure=False)(*part) for part in parts]))
    known: shuffle.Names = with_retries(client, lambda: [names], RetryPolicy())[0]
    if not known.rows:
        raise InvalidDataError("the data contain no interaction: no rows, or no value above 0.")
    wanted = min(max(_LEAST_BLOCKS, known.rows // _ROWS_PER_BLOCK), _MOST_BLOCKS)
    futures = client.compute(_shuffled(client, parts, names, n_blocks or wanted, duplicates))
    item_ids = ColumnVocabulary.of("item", known.items).ids()
    return DaskRows(client, list(futures), retry), item_ids


def _merged(tasks: list[Any]) -> Any:
    from dask.delayed import delayed

    merge = delayed(shuffle.merge_names, pure=False)
    while True:
        tasks = [merge(*tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
        if len(tasks) == 1:
            return tasks[0]


def _shuffled(
    client: Any, parts: Sequence[Part], names: Any, n_blocks: int, duplicates: Duplicates
) -> list[Any]:
    """Send all pieces of every part to their blocks, adjacent blocks to one worker."""
    from dask.delayed import delayed

    annotate = require_extra("dask", "dask", "reading onto a cluster").annotate
    token = uuid4().hex
    split = delayed(_split, pure=False, nout=n_blocks)
    pieces = [split(*part, number, n_blocks, names) for number, part in enumerate(parts)]
    merge = delayed(shuffle.merge_pieces, pure=False)
    workers = spread(n_blocks, sorted(client.nthreads()) or [""])
    blocks = []
    for block, worker in enumerate(workers):
        with annotate(workers=[worker], allow_other_workers=True):
            own = [piece[block] for piece in pieces]
            blocks.append(merge(own, names, duplicates, dask_key_name=f"block-{token}-{block}"))
    return blocks


def _names(read: Callable[[Any], Any], what: Any) -> shuffle.Names:
    return shuffle.names_in(read(what))


def _split(
    read: Callable[[Any], Any], what: Any, number: int, n_blocks: int, names: shuffle.Names
) -> list[shuffle.Piece]:
    return shuffle.split_rows(read(what), number, n_blocks, names)

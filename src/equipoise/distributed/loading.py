"""From parts of a table to blocks of users on a cluster: two reads and one shuffle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from equipoise.data.assembly import Duplicates
from equipoise.data.readers.columns import Columns
from equipoise.data.readers.vocabulary import ColumnVocabulary
from equipoise.distributed import coding, sources
from equipoise.distributed.placement import spread
from equipoise.distributed.waiting import Patience, persistently
from equipoise.exceptions import InvalidDataError, require_extra

# Interactions a block by default, and the least and the most blocks. They do not depend on the
# workers: the same table gives the same blocks, and so the same bits, on every cluster.
_ROWS_PER_BLOCK, _LEAST_BLOCKS, _MOST_BLOCKS = 4_000_000, 8, 512
_FAN_IN = 8


class Loaded(NamedTuple):
    """Blocks on their way, and what is known of all of them."""

    futures: list[Any]
    item_ids: Any


class Part(NamedTuple):
    """A part of the table: who reads it, and from what (a place, or a task that makes it)."""

    read: Callable[[Any], Any]
    what: Any


def parquet_tasks(parts: Sequence[sources.ParquetPart], asked: Columns) -> list[Part]:
    """Return the parts of Parquet files."""
    return [Part(partial(_from_parquet, asked=asked), part) for part in parts]


def frame_tasks(frame: Any, asked: Columns) -> list[Part]:
    """Return the partitions of a Dask DataFrame."""
    return [
        Part(partial(_from_frame, number=number, asked=asked), partition)
        for number, partition in enumerate(frame.to_delayed())
    ]


def load(
    client: Any, parts: Sequence[Part], n_blocks: int | None, duplicates: Duplicates
) -> Loaded:
    """Read the parts twice: for the names of items, then for the rows."""
    from dask.delayed import delayed

    if not parts:
        raise InvalidDataError("the data have no rows: there is no row group in their files.")
    names = client.compute(_merged([delayed(_names, pure=False)(*part) for part in parts]))
    known: coding.Names = persistently(client, lambda: [names], Patience())[0]
    if not known.rows:
        raise InvalidDataError("the data hold no interaction: no rows, or not one value above 0.")
    wanted = min(max(_LEAST_BLOCKS, known.rows // _ROWS_PER_BLOCK), _MOST_BLOCKS)
    futures = client.compute(_shuffled(client, parts, names, n_blocks or wanted, duplicates))
    return Loaded(list(futures), ColumnVocabulary.of("item", known.items).ids())


def _merged(tasks: list[Any]) -> Any:
    from dask.delayed import delayed

    merge = delayed(coding.merge_names, pure=False)
    while True:
        tasks = [merge(*tasks[i : i + _FAN_IN]) for i in range(0, len(tasks), _FAN_IN)]
        if len(tasks) == 1:
            return tasks[0]


def _shuffled(
    client: Any, parts: Sequence[Part], names: Any, n_blocks: int, duplicates: Duplicates
) -> list[Any]:
    """All pieces of every part to their blocks, neighbouring blocks to one worker."""
    from dask.delayed import delayed

    annotate = require_extra("dask", "dask", "reading onto a cluster").annotate
    token = uuid4().hex
    split = delayed(_split, pure=False, nout=n_blocks)
    pieces = [split(*part, number, n_blocks, names) for number, part in enumerate(parts)]
    merge = delayed(coding.merge_pieces, pure=False)
    homes = spread(n_blocks, sorted(client.nthreads()) or [""])
    blocks = []
    for block, home in enumerate(homes):
        with annotate(workers=[home], allow_other_workers=True):
            own = [piece[block] for piece in pieces]
            blocks.append(merge(own, names, duplicates, dask_key_name=f"block-{token}-{block}"))
    return blocks


def _names(read: Callable[[Any], Any], what: Any) -> coding.Names:
    return coding.names_in(read(what))


def _split(
    read: Callable[[Any], Any], what: Any, number: int, n_blocks: int, names: coding.Names
) -> list[coding.Piece]:
    return coding.split_rows(read(what), number, n_blocks, names)


def _from_parquet(part: sources.ParquetPart, asked: Columns) -> Any:
    return sources.read_part(part, asked)


def _from_frame(frame: Any, number: int, asked: Columns) -> Any:
    return sources.frame_batch(frame, number, asked)

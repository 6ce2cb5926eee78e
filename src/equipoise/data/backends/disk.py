"""Rows on disk: blocks that one process reads one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from equipoise.data.block_ops import prepared_block, size_of
from equipoise.data.rows import BlockSize, Composed, Prepare, RowBlock, Rows, driver_bytes
from equipoise.exceptions import InvalidDataError, InvalidParameterError, explained
from equipoise.memory import require

_PARTS = ("data", "indices", "indptr", "user_ids", "order", "timestamps")


class Scratch:
    """A temporary folder that is removed when nothing refers to it any more."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="equipoise-", dir=parent))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class DiskRows(Rows):
    """Blocks in a folder, `block-00000` and so on, read one after the other.

    Parameters
    ----------
    folder : Path
        The folder.
    sizes : list of BlockSize
        The counts of the blocks.
    memory : int, optional
        Bytes that this process may take. A fit whose vectors alone take more is refused.
    scratch : Scratch, optional
        Removed with its files when no rows use it any more.
    prepare : callable, optional
        Applied to each matrix as it is read.
    """

    def __init__(
        self,
        folder: Path,
        sizes: list[BlockSize],
        memory: int | None = None,
        scratch: Scratch | None = None,
        prepare: Prepare | None = None,
    ) -> None:
        self.folder = folder
        self.memory = memory
        self.scratch = scratch
        self.prepare = prepare
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def sizes(self) -> list[BlockSize]:
        """Return the counts of every block."""
        return self._sizes

    def handles(self) -> list[Any]:
        """Return a placeholder per block: its file."""
        return [_BlockFile(block_folder(self.folder, i), self.prepare) for i in range(len(self))]

    def loaded(self, value: Any) -> Any:
        """Read a block from its file; return anything else unchanged."""
        if not isinstance(value, _BlockFile):
            return value
        return prepared_block(read_block(value.folder), value.prepare)

    def stored(self, blocks: Iterable[RowBlock]) -> DiskRows:
        """Write new blocks to a new folder next to the old one."""
        scratch = Scratch(self.folder.parent)
        sizes = write_blocks(scratch.path, blocks)
        return DiskRows(scratch.path, sizes, self.memory, scratch)

    def prepared(self, prepare: Prepare) -> DiskRows:
        """Return the same files with a function applied to each matrix as it is read."""
        if self.prepare is not None:
            prepare = Composed(self.prepare, prepare)
        return DiskRows(self.folder, self._sizes, self.memory, self.scratch, prepare)

    def memory_limit(self) -> int | None:
        """Return the memory that this process may take."""
        return self.memory

    def check_memory(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors take more than the memory allowed."""
        if self.memory is not None:
            require(
                driver_bytes(n_items, columns, width),
                f"a fit of {n_items:,} items, {width} vectors at a time, {columns} in the basis,",
                "Allow more with `memory`, or use a smaller n_components.",
                available=self.memory,
                error=InvalidParameterError,
            )


def block_folder(folder: Path, number: int) -> Path:
    """Return the folder of one block."""
    return folder / f"block-{number:05}"


class _BlockFile(NamedTuple):
    """A block that is read when it is needed."""

    folder: Path
    prepare: Prepare | None


def write_blocks(folder: Path, blocks: Iterable[RowBlock]) -> list[BlockSize]:
    """Write blocks as they come; return their counts."""
    sizes = []
    for number, block in enumerate(blocks):
        write_block(block_folder(folder, number), block)
        sizes.append(size_of(block))
    return sizes


def write_block(folder: Path, block: RowBlock) -> None:
    """Write a block as NumPy files."""
    folder.mkdir(parents=True, exist_ok=True)
    X = block.matrix
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "order": block.order}
    parts["user_ids"] = _storable(block.user_ids)
    if block.timestamps is not None:
        parts["timestamps"] = block.timestamps
    for name, part in parts.items():
        np.save(folder / f"{name}.npy", part, allow_pickle=False)
    np.save(folder / "shape.npy", np.array(X.shape))


def read_block(folder: Path) -> RowBlock:
    """Read what `write_block` wrote; refuse a block with a missing or truncated file."""
    problem = f"the block {folder} cannot be read: it is incomplete. Read the data again"
    with explained(problem, OSError, ValueError, EOFError):
        found = {
            name: np.load(folder / f"{name}.npy", allow_pickle=False)
            for name in _PARTS
            if name != "timestamps" or (folder / "timestamps.npy").is_file()
        }
        shape = tuple(np.load(folder / "shape.npy", allow_pickle=False).tolist())
    X = sp.csr_array((found["data"], found["indices"], found["indptr"]), shape=shape)
    X.has_canonical_format = True  # checked when it was written
    ids = found["user_ids"]
    ids = ids.astype(object) if ids.dtype.kind == "U" else ids
    return RowBlock(X, ids, found["order"], found.get("timestamps"))


def _storable(ids: Any) -> Any:
    """Text as NumPy's own; other objects cannot be stored without pickle."""
    if ids.dtype.kind != "O":
        return ids
    if not all(isinstance(value, str) for value in ids):
        raise InvalidDataError(
            "user ids on disk must be numbers, dates or text. Write them as text first."
        )
    return ids.astype(np.str_)

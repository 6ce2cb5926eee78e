"""Blocks of users on disk: one process reads them one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from equipoise.distributed.blocks import RowBlock, driver_bytes, pairwise_sum
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import require

_PARTS = ("data", "indices", "indptr", "user_ids", "order", "timestamps")


class Scratch:
    """A folder of our own that is gone when nobody uses it any more."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="equipoise-", dir=parent))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class DiskBlocks:
    """Blocks in a folder, `block-00000` and so on.

    Parameters
    ----------
    folder : Path
        Where they are.
    count : int
        How many.
    memory : int, optional
        Bytes that a fit may take; refused before it begins where its vectors alone take more.
    scratch : Scratch, optional
        Kept alive as long as the blocks are used.
    """

    def __init__(
        self, folder: Path, count: int, memory: int | None = None, scratch: Scratch | None = None
    ) -> None:
        self.folder = folder
        self.count = count
        self.memory = memory
        self.scratch = scratch

    def __len__(self) -> int:
        return self.count

    def read(self, number: int) -> RowBlock:
        """Return one block."""
        return read_block(self.folder / f"block-{number:05}")

    def handles(self) -> list[Any]:
        """Return what stands for each block in a question about others."""
        return [_BlockFile(self.folder / f"block-{i:05}") for i in range(self.count)]

    def collect(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return what the function says of every block, in their order."""
        return [function(self.read(i), *shared, *_own(each, i)) for i in range(self.count)]

    def total(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum over blocks, from the first to the last: two sums are held at a time."""
        total: Any = None
        for i in range(self.count):
            part = function(self.read(i), *shared, *_own(each, i))
            if i == 0:
                total = part
                continue
            if isinstance(total, np.ndarray):
                total += part  # our own: nobody else has seen it
            else:
                total = pairwise_sum(total, part)
        return total

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Sequence[Any] | None = None
    ) -> DiskBlocks:
        """Return new blocks, written to a folder beside the old ones."""
        scratch = Scratch(self.folder.parent)
        for i in range(self.count):
            block = function(self.read(i), *shared, *_own(each, i))
            write_block(scratch.path / f"block-{i:05}", block)
        return DiskBlocks(scratch.path, self.count, self.memory, scratch)

    def check_room(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors take more than the memory allowed."""
        if self.memory is not None:
            require(
                driver_bytes(n_items, columns, width),
                f"a fit of {n_items:,} items, {width} vectors at a time, {columns} in the basis,",
                "Allow more with `memory`, or use a smaller n_components.",
                available=self.memory,
                error=InvalidParameterError,
            )


class _BlockFile(NamedTuple):
    """A block that is read when its turn comes."""

    folder: Path


def _own(each: Sequence[Any] | None, number: int) -> tuple[Any, ...]:
    """What goes to this block alone, blocks among it read."""
    if each is None:
        return ()
    return tuple(
        read_block(part.folder) if isinstance(part, _BlockFile) else part for part in each[number]
    )


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
    """Read what `write_block` wrote; refuse a block of which a file is gone or cut off."""
    try:
        found = {
            name: np.load(folder / f"{name}.npy", allow_pickle=False)
            for name in _PARTS
            if name != "timestamps" or (folder / "timestamps.npy").is_file()
        }
        shape = tuple(np.load(folder / "shape.npy", allow_pickle=False).tolist())
    except (OSError, ValueError, EOFError) as error:
        raise InvalidDataError(
            f"the block {folder} cannot be read: {error}. Its files are gone or cut off; read the "
            "data anew."
        ) from error
    X = sp.csr_array((found["data"], found["indices"], found["indptr"]), shape=shape)
    X.has_canonical_format = True  # it was when it was written
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

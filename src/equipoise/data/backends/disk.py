"""Rows on disk: blocks that one process reads one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.block_ops import prepared_block, size_of
from equipoise.data.rows import BlockSize, Prepare, RowBlock, Rows, driver_bytes
from equipoise.exceptions import InvalidDataError, InvalidParameterError, explained
from equipoise.memory import require


class Scratch:
    """A temporary folder that is removed when nothing refers to it any more."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="equipoise-", dir=parent))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class DiskRows(Rows):
    """Blocks in files of a folder, `block-00000` and so on, read one after the other.

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
    """

    def __init__(
        self,
        folder: Path,
        sizes: list[BlockSize],
        memory: int | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        self.folder = folder
        self.memory = memory
        self.scratch = scratch
        self._sizes = sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def sizes(self) -> list[BlockSize]:
        """Return the counts of every block."""
        return self._sizes

    def handles(self) -> list[Any]:
        """Return a placeholder per block: its file."""
        return [_BlockFile(_block_path(self.folder, i), self._prepares) for i in range(len(self))]

    def loaded(self, value: Any) -> Any:
        """Read a block from its file; return anything else unchanged."""
        if not isinstance(value, _BlockFile):
            return value
        return prepared_block(read_block(value.path), value.prepares)

    def stored(self, blocks: Iterable[RowBlock]) -> DiskRows:
        """Write new blocks to a new folder next to the old one."""
        scratch = Scratch(self.folder.parent)
        sizes = write_blocks(scratch.path, blocks)
        return DiskRows(scratch.path, sizes, self.memory, scratch)

    def check_memory(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors take more than the memory allowed."""
        if self.memory is not None:
            require(
                driver_bytes(n_items, columns, width),
                f"a fit of {n_items:,} items, {width} vectors at a time, {columns} in the basis,",
                "Allow more memory, or fit fewer components.",
                available=self.memory,
                error=InvalidParameterError,
            )


def _block_path(folder: Path, number: int) -> Path:
    return folder / f"block-{number:05}"


class _BlockFile(NamedTuple):
    """A block that is read when it is needed."""

    path: Path
    prepares: tuple[Prepare, ...]


def write_blocks(folder: Path, blocks: Iterable[RowBlock]) -> list[BlockSize]:
    """Write blocks as they come; return their counts."""
    sizes = []
    for number, block in enumerate(blocks):
        write_block(_block_path(folder, number), block)
        sizes.append(size_of(block))
    return sizes


def append_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Append arrays to a file: their names, then each in NumPy's format."""
    with path.open("ab") as file:
        for array in (np.array(list(arrays)), *arrays.values()):
            np.save(file, array, allow_pickle=False)


def read_arrays(path: Path) -> list[dict[str, NDArray[Any]]]:
    """Return what was appended to a file, in order."""
    parts, size = [], path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < size:
            names = np.load(file, allow_pickle=False).tolist()
            parts.append({name: np.load(file, allow_pickle=False) for name in names})
    return parts


def write_block(path: Path, block: RowBlock) -> None:
    """Write a block to a new file."""
    X = block.matrix
    arrays = {"shape": np.array(X.shape), "data": X.data, "indices": X.indices, "indptr": X.indptr}
    arrays |= {"user_ids": _storable(block.user_ids), "order": block.order}
    if block.timestamps is not None:
        arrays["timestamps"] = block.timestamps
    append_arrays(path, arrays)


def read_block(path: Path) -> RowBlock:
    """Read what `write_block` wrote; refuse a missing or truncated file."""
    problem = f"the block {path} cannot be read: it is incomplete. Read the data again"
    with explained(problem, OSError, ValueError, EOFError, KeyError):
        (found,) = read_arrays(path)
        parts = (found["data"], found["indices"], found["indptr"])
        X = sp.csr_array(parts, shape=tuple(found["shape"]))
        X.has_canonical_format = True  # checked when it was written
        ids, order = found["user_ids"], found["order"]
    ids = ids.astype(object) if ids.dtype.kind == "U" else ids
    return RowBlock(X, ids, order, found.get("timestamps"))


def _storable(ids: Any) -> Any:
    """Text as NumPy's own; other objects cannot be stored without pickle."""
    if ids.dtype.kind != "O":
        return ids
    if not all(isinstance(value, str) for value in ids):
        raise InvalidDataError(
            "user ids on disk must be numbers, dates or text. Write them as text first."
        )
    return ids.astype(np.str_)

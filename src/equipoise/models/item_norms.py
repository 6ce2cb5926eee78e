"""The norms of the items' columns, p_j: what item weights are made of, and what may overflow."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.distributed.blocked import BlockedInteractions
from equipoise.distributed.blocks import Prepare, largest_value
from equipoise.exceptions import InvalidDataError
from equipoise.spectral.gram import squared_column_norms

Floats = NDArray[np.float64]


def popularity_of(X: sp.csr_array) -> Floats:
    """p_j = ‖X_·j‖₂; values whose squares leave floating point are refused."""
    with np.errstate(over="ignore"):  # refused below
        squares = squared_column_norms(X)
    if not _are_sound(squares):
        _refuse_values(float(X.data.max()))
    popularity: Floats = np.sqrt(squares)
    return popularity


def block_popularity(X: BlockedInteractions, squares: Floats, prepare: Prepare | None) -> Floats:
    """p_j from the squared norms that the blocks added up, refused as in `popularity_of`."""
    if not _are_sound(squares):
        _refuse_values(max(X.blocks.collect(largest_value, prepare)))
    popularity: Floats = np.sqrt(squares)
    return popularity


def _are_sound(squares: Floats) -> bool:
    largest = float(squares.max())
    return bool(np.isfinite(largest) and largest >= np.finfo(np.float64).tiny)


def _refuse_values(largest: float) -> None:
    raise InvalidDataError(
        f"values as large as {largest:.3g} have squares beyond floating point. "
        "Multiply the data by a constant: the components do not depend on it."
    )

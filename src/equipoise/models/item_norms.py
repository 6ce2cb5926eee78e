"""The norms of the items' columns, p_j: what item weights are made of, and what may overflow."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.distributed.blocked import BlockedInteractions
from equipoise.distributed.blocks import Prepare, column_powers, largest_value
from equipoise.exceptions import InvalidDataError
from equipoise.spectral.norms import column_norms

Floats = NDArray[np.float64]

# Below it a float64 has fewer digits than it should, down to none.
_TINY = float(np.finfo(np.float64).tiny)


def popularity_of(X: sp.csr_array) -> Floats:
    """p_j = ‖X_·j‖₂; values whose squares leave floating point are refused."""
    popularity = column_norms(X)
    with np.errstate(over="ignore", under="ignore"):  # refused below
        squares = np.square(popularity)
    if not _are_sound(squares):
        _refuse_values(float(X.data.max()))
    _refuse_vanished((popularity > 0) & (squares < _TINY), squares)
    return popularity


def block_popularity(X: BlockedInteractions, squares: Floats, prepare: Prepare | None) -> Floats:
    """p_j from the squared norms that the blocks added up, refused as in `popularity_of`."""
    if not _are_sound(squares):
        _refuse_values(max(X.blocks.collect(largest_value, prepare)))
    if np.any(vanished := squares < _TINY):
        _refuse_vanished(vanished & (X.blocks.total(column_powers, 0, prepare) > 0), squares)
    popularity: Floats = np.sqrt(squares)
    return popularity


def _are_sound(squares: Floats) -> bool:
    largest = float(squares.max())
    return bool(np.isfinite(largest) and largest >= _TINY)


def _refuse_values(largest: float) -> None:
    raise InvalidDataError(
        f"values as large as {largest:.3g} have squares beyond floating point. "
        "Multiply the data by a constant: the components do not depend on it."
    )


def _refuse_vanished(vanished: NDArray[np.bool_], squares: Floats) -> None:
    """Refuse items that somebody touched and whose norm is 0: they would count as untouched."""
    if vanished.any():
        raise InvalidDataError(
            f"the values of {int(vanished.sum())} item(s), the first in column "
            f"{int(vanished.argmax())}, are so small that their squares vanish beside norms of up "
            f"to {float(np.sqrt(squares.max())):.3g}. Leave these items out, or write their "
            "values in the unit of the others."
        )

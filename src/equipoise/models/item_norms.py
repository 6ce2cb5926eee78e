"""The norms of the items' columns, p_j: what item weights are made of, and what may overflow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError

Floats = NDArray[np.float64]

# Below it a float64 has fewer digits than it should, down to none.
_TINY = float(np.finfo(np.float64).tiny)


def item_norms(data: Interactions) -> Floats:
    """p_j = ‖X_·j‖₂; values whose squares leave floating point are refused."""
    norms = data.popularity("norm")
    with np.errstate(over="ignore", under="ignore"):  # refused below
        squares = np.square(norms)
    if not _are_sound(squares):
        _refuse_values(data.largest_value())
    _refuse_vanished((norms > 0) & (squares < _TINY), squares)
    return norms


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

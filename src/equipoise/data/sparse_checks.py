"""Check that sparse indices are in bounds.

SciPy's loops, and ours, do not check the indices of a matrix: an index out of bounds reads or
writes other memory. SciPy's own check misses some of these matrices.
"""

from __future__ import annotations

from typing import Any

from equipoise.exceptions import InvalidDataError


def refuse_broken_structure(X: Any, source: str = "the sparse matrix") -> None:
    """Refuse a sparse matrix with indices out of bounds; the error calls it `source`."""
    if not is_sound(X):
        raise InvalidDataError(
            f"{source} is broken: its indices are out of the bounds of {X.shape}. Build it "
            "again, for example from coordinates with scipy.sparse.coo_array."
        )


def is_sound(X: Any) -> bool:
    """Whether all row starts and indices of a CSR, CSC or BSR matrix are in bounds.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> X = sp.csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]))
    >>> X.indptr[1] = 5
    >>> is_sound(X)
    False
    """
    if X.format not in ("csr", "csc", "bsr"):
        return True
    n_lines, n_places = _extent(X)
    starts, places = X.indptr, X.indices
    if starts.dtype.kind != "i" or places.dtype.kind != "i" or starts.shape != (n_lines + 1,):
        return False
    if starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        return False
    n_stored = int(starts[-1])
    if n_stored > min(len(places), len(X.data)):
        return False
    used = places[:n_stored]
    return n_stored == 0 or bool(used.min() >= 0 and used.max() < n_places)


def _extent(X: Any) -> tuple[int, int]:
    """How many compressed lines there are, and how many places in each."""
    rows, columns = (1, *X.shape)[-2:]
    if X.format == "csc":
        return columns, rows
    if X.format == "bsr":
        return rows // X.blocksize[0], columns // X.blocksize[1]
    return rows, columns

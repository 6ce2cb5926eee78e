"""The parts of `Interactions`, checked, and what can be read off them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from equipoise.data import content, description, validation
from equipoise.data.identifiers import Lookup
from equipoise.exceptions import InvalidParameterError
from equipoise.spectral.norms import column_norms


@dataclass(frozen=True, eq=False, repr=False)
class InteractionTable:
    """A users × items matrix with ids: storage, counts, lookup; `Interactions` adds the verbs."""

    matrix: sparse.csr_array
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    item_names: NDArray[Any] | None = None
    timestamps: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        parts = validation.checked_parts(
            self.matrix, self.user_ids, self.item_ids, self.item_names, self.timestamps
        )
        for name, part in parts._asdict().items():
            object.__setattr__(self, name, part)

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        # through the constructor: arrays that come out of a pickle or a deep copy are writeable
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @property
    def shape(self) -> tuple[int, int]:
        """(number of users, number of items)."""
        return self.n_users, self.n_items

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    @property
    def nnz(self) -> int:
        """Number of interactions."""
        return int(self.matrix.nnz)

    @property
    def density(self) -> float:
        """Share of all user-item pairs that interacted."""
        return self.nnz / (self.n_users * self.n_items)

    def popularity(self, kind: Literal["norm", "count", "sum"] = "norm") -> NDArray[np.float64]:
        """Return how popular each item is.

        ``"norm"`` is the paper's p_j = ‖X_·j‖₂, ``"count"`` the number of its users, ``"sum"``
        the total of its values. On 0/1 data norm² = count = sum.
        """
        if kind not in ("norm", "count", "sum"):
            raise InvalidParameterError(f"kind={kind!r}; use 'norm', 'count' or 'sum'.")
        if kind == "norm":
            return column_norms(self.matrix)
        values = self.matrix.data if kind == "sum" else None
        return np.bincount(self.matrix.indices, values, self.n_items).astype(np.float64)

    def describe(self) -> description.Description:
        """Return counts, density and how concentrated popularity is; print it to read it."""
        return description.describe(
            self.matrix,
            has_timestamps=self.timestamps is not None,
            has_names=self.item_names is not None,
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of matrix and ids: equal data, equal text, on every machine."""
        return content.fingerprint(self.matrix, self.user_ids, self.item_ids)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} interactions, density {self.density:.3%})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InteractionTable):
            return NotImplemented
        return (
            self.fingerprint() == other.fingerprint()
            and content.same_optional(self.item_names, other.item_names)
            and content.same_optional(self.timestamps, other.timestamps)
        )

    @cached_property
    def _user_lookup(self) -> Lookup:
        return Lookup(self.user_ids, "user")

    @cached_property
    def _item_lookup(self) -> Lookup:
        return Lookup(self.item_ids, "item")

    def user_index(self, ids: ArrayLike) -> NDArray[np.intp]:
        """Return the row of each user id; refuse unknown ones."""
        return self._user_lookup.require(ids)

    def item_index(self, ids: ArrayLike) -> NDArray[np.intp]:
        """Return the column of each item id; refuse unknown ones."""
        return self._item_lookup.require(ids)

    def row(self, user_id: Any) -> sparse.csr_array:
        """Return the 1 × n_items row of one user."""
        return self.matrix[self.user_index([user_id])]

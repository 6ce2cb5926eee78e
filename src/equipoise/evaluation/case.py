"""What is fitted on, what users are scored from, what is to be found: the fixed part of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.split import Split, holdout
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import POPULARITY_RULES, ItemGroups, popularity_groups

Part = Literal["test", "validation"]


@dataclass(frozen=True, eq=False)
class Case:
    """One part of a split, ready to be scored.

    Attributes
    ----------
    fitted : Interactions
        What models learn from: train for the validation part, train + validation for the test.
    seen : csr_array of shape (n, n_items)
        What the users are scored from; it is left out of their lists.
    held_out : csr_array of shape (n, n_items)
        What is to be found.
    users : ndarray of shape (n,)
        Rows of the split that are scored: all, but for `by_user` splits only the held-out users.
    groups : ItemGroups
        The partition of the rows by group.
    """

    fitted: Interactions
    seen: sp.csr_array
    held_out: sp.csr_array
    users: NDArray[np.intp]
    groups: ItemGroups

    @classmethod
    def of(cls, split: Split, part: Part, groups: str | ItemGroups) -> Self:
        """Take one part of a split."""
        if part not in ("test", "validation"):
            raise InvalidParameterError(f"part must be 'test' or 'validation', got {part!r}.")
        testing = part == "test"
        fitted = split.train_validation if testing else split.train
        seen = split.seen_before_test if testing else split.seen_before_validation
        held_out = split.test if testing else split.validation
        if held_out.nnz == 0:
            raise InvalidDataError(
                f"the {part} part of the split is empty, so that nothing can be found. "
                f"Hold out a larger share: holdout(interactions, {part}=0.2)."
            )
        users = _users(held_out.matrix, everyone=split.history is None)
        return cls(
            fitted,
            seen.matrix[users],
            held_out.matrix[users],
            users,
            _groups(fitted.matrix, groups),
        )

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.fitted.n_items

    @cached_property
    def tail(self) -> ItemGroups:
        """Head and tail as Elliot cuts them, for the metrics that are defined on the two."""
        return popularity_groups(self.fitted.matrix, "head80")

    @cached_property
    def user_counts(self) -> NDArray[np.float64]:
        """Number of training users of each item."""
        return self.fitted.popularity("count")

    def fingerprint(self) -> dict[str, Any]:
        """What a cache must agree on before it may answer for this case."""
        import hashlib

        def digest(array: NDArray[Any]) -> str:
            return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()

        return {
            "fitted": self.fitted.fingerprint(),
            "seen": [digest(self.seen.indices), digest(self.seen.indptr), digest(self.seen.data)],
            "held_out": [digest(self.held_out.indices), digest(self.held_out.indptr)],
            "groups": [self.groups.rule, list(self.groups.names), digest(self.groups.codes)],
        }


def as_split(data: Interactions | Split) -> Split:
    """Return the split, or the paper's hold-out of interactions."""
    if isinstance(data, Split):
        return data
    if isinstance(data, Interactions):
        return holdout(data)
    raise InvalidDataError(
        f"expected Interactions or a Split, got {type(data).__name__}. Build them with "
        "Interactions.from_sparse(matrix), then holdout(interactions)."
    )


def _users(held_out: sp.csr_array, *, everyone: bool) -> NDArray[np.intp]:
    counts = np.diff(held_out.indptr)
    return np.arange(len(counts)) if everyone else np.flatnonzero(counts)


def _groups(fitted: sp.csr_array, groups: str | ItemGroups) -> ItemGroups:
    if isinstance(groups, ItemGroups):
        if len(groups) != fitted.shape[1]:
            raise InvalidDataError(
                f"groups covers {len(groups)} items, the data have {fitted.shape[1]}."
            )
        return groups
    if groups not in POPULARITY_RULES:
        raise InvalidParameterError(
            f"groups must be one of {list(POPULARITY_RULES)} or ItemGroups, got {groups!r}."
        )
    return popularity_groups(fitted, groups)

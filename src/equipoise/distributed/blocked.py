"""`BlockedInteractions`: users × items in blocks of users, wherever the blocks are."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.assembly import sealed
from equipoise.data.interactions import Interactions
from equipoise.distributed import reshaping
from equipoise.distributed.blocks import (
    BlockSet,
    Floats,
    Prepare,
    column_powers,
    norms_of_columns,
    shape_of,
)
from equipoise.distributed.gram import BlockedGram
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.spectral.norms import squares_are_inexact

if TYPE_CHECKING:
    from equipoise.distributed.holding_out import BlockedSplit
    from equipoise.metrics.results import MetricTable

_POWERS = {"norm": 2, "count": 0, "sum": 1}


@dataclass(frozen=True, eq=False, repr=False)
class BlockedInteractions:
    """Users × items in blocks of users.

    The counterpart of `Interactions` for data that one memory does not hold: the items are known
    here, users and entries only where their block is. Items are in the order in which
    `Interactions.read` has them.

    Attributes
    ----------
    blocks : BlockSet
        Who holds the rows.
    item_ids : ndarray
        Of the columns.
    n_users, nnz : int
        Number of rows, and of interactions.
    """

    blocks: BlockSet
    item_ids: NDArray[Any]
    n_users: int
    nnz: int

    # Threads within a block: see `BlockedGram`
    threads_per_block: ClassVar[int | None] = None

    @classmethod
    def _of(cls, blocks: BlockSet, item_ids: NDArray[Any]) -> Self:
        """Count what the blocks hold; refuse if that is nothing."""
        shapes = blocks.collect(shape_of)
        made = cls(
            blocks, item_ids, sum(each.users for each in shapes), sum(each.nnz for each in shapes)
        )
        if made.nnz == 0:
            raise InvalidDataError(
                f"there is no interaction left: {made.n_users} users x {made.n_items} items and "
                "not one value above 0. Check the input, the columns and the filters."
            )
        return made

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.item_ids)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of users, number of items)."""
        return self.n_users, self.n_items

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} interactions in {len(self.blocks)} blocks)"
        )

    def popularity(self, kind: Literal["norm", "count", "sum"] = "norm") -> Floats:
        """Return how popular each item is; as `Interactions.popularity`."""
        if kind not in _POWERS:
            raise InvalidParameterError(f"kind={kind!r}; use 'norm', 'count' or 'sum'.")
        totals: Floats = self.blocks.total(column_powers, _POWERS[kind])
        if kind != "norm":
            return totals
        norms: Floats = np.sqrt(totals)
        inexact = squares_are_inexact(totals)
        if inexact.any():  # a second pass: hypot adds squares without forming them
            norms[inexact] = reduce(np.hypot, self.blocks.collect(norms_of_columns))[inexact]
        return norms

    def gram(self, prepare: Prepare | None = None) -> BlockedGram:
        """Return who answers the solver's question about these data."""
        return BlockedGram(
            self.blocks, self.n_items, self.nnz, prepare=prepare, threads=self.threads_per_block
        )

    def binarize(self) -> Self:
        """Set every value to 1."""
        return replace(self, blocks=self.blocks.transform(reshaping.binarized))

    def normalize_rows(self) -> Self:
        """Divide each row by its sum, so that every user weighs the same."""
        return replace(self, blocks=self.blocks.transform(reshaping.normalized))

    def filter(
        self,
        min_users_per_item: int = 0,
        min_items_per_user: int = 0,
        *,
        order: Literal["users_first", "items_first"] = "users_first",
        until_stable: bool = False,
    ) -> Self:
        """Keep active users and popular items; as `Interactions.filter`."""
        from equipoise.distributed.filtering import keep_active

        kept = keep_active(
            self.blocks, self.n_items, min_items_per_user, min_users_per_item, order, until_stable
        )
        if not len(kept.items):
            raise InvalidDataError(
                f"no interaction survives min_users_per_item={min_users_per_item}, "
                f"min_items_per_user={min_items_per_user}. Lower the thresholds."
            )
        rows = [(users,) for users in kept.users]
        blocks = self.blocks.transform(reshaping.taken, kept.items, each=rows)
        return self._of(blocks, self.item_ids[kept.items])

    def holdout(self, **options: Any) -> BlockedSplit:
        """Split into train, validation and test: see `equipoise.distributed.holding_out`."""
        from equipoise.distributed.holding_out import holdout

        return holdout(self, **options)

    def recommend(self, model: Any, folder: str | os.PathLike[str], **options: Any) -> int:
        """Write the lists of all users: see `equipoise.distributed.recommending.recommend`."""
        from equipoise.distributed.recommending import recommend

        return recommend(self, model, folder, **options)

    def user_metrics(self, test: BlockedInteractions, model: Any, **options: Any) -> MetricTable:
        """Compare with held-out items: see `equipoise.distributed.measuring.user_metrics`."""
        from equipoise.distributed.measuring import user_metrics

        return user_metrics(self, test, model, **options)

    def item_error(self, item_factors: Any, **options: Any) -> Floats:
        """Item error at every rank: see `equipoise.distributed.measuring.item_error`."""
        from equipoise.distributed.measuring import item_error

        return item_error(self, item_factors, **options)

    def item_auc(self, item_factors: Any, **options: Any) -> Floats:
        """Item AUC off the diagonal: see `equipoise.distributed.auc.item_auc`."""
        from equipoise.distributed.auc import item_auc

        return item_auc(self, item_factors, **options)

    def collect(self) -> Interactions:
        """Bring everything here as `Interactions`, in the order in which a local read has it."""
        parts = self.blocks.collect(reshaping.whole)
        order = np.argsort(np.concatenate([part.order for part in parts]), kind="stable")
        matrix = sparse.vstack([part.matrix for part in parts], format="csr")
        if all(part.timestamps is not None for part in parts):
            times = np.concatenate([part.timestamps for part in parts])
        else:
            times = None
        rows = reshaping.row_taken(matrix, times, order)
        user_ids = np.concatenate([part.user_ids for part in parts])[order]
        return Interactions(sealed(rows.matrix), user_ids, self.item_ids, None, rows.timestamps)

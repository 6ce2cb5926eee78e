"""How close held-out items are to what their users have: a check of the validation part."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.data.split import Split
from equipoise.memory import slices

# Held-out pairs that are drawn: their mean affinity then has an error of about three percent.
_PAIRS = 2_000

# Each pair reads the users of all items of its user. On large data fewer pairs are drawn: at most
# so many interactions times pairs, but at least the second number of pairs.
_WORK, _FEWEST_PAIRS = 5 * 10**9, 200

# Pairs at a time, for which the overlaps with all users of a block are in memory.
_CHUNK = 250

# Parts differ if the means differ by more than this many standard errors and by this share: with
# many pairs, differences without consequences are significant too.
_ERRORS, _SHARE = 3.0, 0.1


class Closeness(NamedTuple):
    """How close the held-out items of one part are to the training items of their users.

    Attributes
    ----------
    affinity : float
        Mean cosine between a held-out item and the items of its user, over users in common.
    standard_error : float
        Of the affinity.
    unconnected : float
        Share of held-out items that no training user has together with an item of the user.
    n : int
        Number of pairs that were drawn.
    """

    affinity: float
    standard_error: float
    unconnected: float
    n: int


class Shift(NamedTuple):
    """Closeness of the validation and of the test items, both to the items of train."""

    validation: Closeness
    test: Closeness

    @property
    def differs(self) -> bool:
        """Whether settings tuned on this validation part may not suit the test part."""
        a, b = self
        error = float(np.hypot(a.standard_error, b.standard_error))
        gap = abs(a.affinity - b.affinity)
        return gap > max(_ERRORS * error, _SHARE * max(a.affinity, b.affinity))

    def __str__(self) -> str:
        parts = (
            f"{name}: affinity {one.affinity:.4f}, {one.unconnected:.1%} unconnected"
            for name, one in self._asdict().items()
        )
        advice = (
            "The parts differ: try another validation rule, e.g. method='per_user_last'."
            if self.differs
            else "The parts are alike."
        )
        return f"{'; '.join(parts)}. {advice}"


def validation_shift(split: Split, seed: int = 0) -> Shift | None:
    """Compare how close validation and test items are to the training items of their users.

    Where test items are further away (later in time, say), a random validation part favors
    settings that rely on direct co-occurrences. Only which items are held out is used, and no
    score of a model. Returns None for parts without items and for held-out users.

    Parameters
    ----------
    split : Split
        With all three parts.
    seed : int
        Draws the pairs.

    Examples
    --------
    >>> from equipoise.data import holdout, synthetic
    >>> shift = validation_shift(holdout(synthetic.scale(200, 40, 1500)))
    >>> shift.differs
    False
    """
    parts = (split.train, split.validation, split.test)
    if split.history is not None or not all(part.nnz for part in parts):
        return None
    rng = np.random.default_rng(seed)
    validation, test = (_closeness(split.train, part, rng) for part in parts[1:])
    return Shift(validation, test)


def _closeness(train: Interactions, held_out: Interactions, rng: np.random.Generator) -> Closeness:
    counts = held_out.items_per_user()
    users = np.repeat(np.arange(len(counts)), counts)
    known = np.flatnonzero(train.items_per_user()[users])  # the others have nothing to be close to
    most = max(_FEWEST_PAIRS, min(_PAIRS, _WORK // max(1, train.nnz)))
    drawn = known if len(known) <= most else rng.choice(known, most, replace=False)
    if not len(drawn):
        return Closeness(float("nan"), float("nan"), float("nan"), 0)
    distinct, row = np.unique(users[drawn], return_inverse=True)
    has, lacks = (
        part.select_users(held_out.user_ids[distinct]).collect().matrix
        for part in (train, held_out)
    )
    place = drawn - (np.cumsum(counts) - counts)[users[drawn]]  # among the items of the user
    values = affinities(train, sp.csr_array(has[row]), lacks.indices[lacks.indptr[row] + place])
    error = float(values.std() / np.sqrt(len(values)))
    return Closeness(float(values.mean()), error, float(np.mean(values == 0)), len(values))


def affinities(
    train: Interactions, profiles: sp.csr_array, items: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the mean cosine of each item to the items of its row of `profiles`.

    Reads the data once, by blocks.

    Examples
    --------
    >>> train = Interactions.from_sparse(sp.csr_array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]))
    >>> affinities(train, train.matrix[[0, 0]], np.array([1, 2])).round(4).tolist()
    [0.7071, 0.0]
    """
    norms = np.sqrt(np.maximum(train.popularity("count"), 1))
    unit = (1 / norms)[profiles.indices]
    scaled = sp.csr_array((unit, profiles.indices, profiles.indptr), shape=profiles.shape)
    common: NDArray[np.float64] = train.rows.total(_common_users, scaled, items)
    return common / norms[items] / np.maximum(np.diff(profiles.indptr), 1)


def _common_users(
    block: RowBlock, profiles: sp.csr_array, items: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return, for each row of `profiles`, its sum over the items of all users of its item."""
    X = block.matrix
    X = sp.csr_array((np.ones(X.nnz), X.indices, X.indptr), shape=X.shape)
    columns = X.tocsc()
    found = np.zeros(len(items))
    for part in slices(len(items), _CHUNK):
        overlaps = X @ profiles[part].T
        found[part] = columns[:, items[part]].multiply(overlaps).sum(axis=0)
    return found

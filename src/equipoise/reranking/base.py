"""The contract of re-rankers: longer lists with scores in, the order of shorter lists out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import slices
from equipoise.metrics import ItemGroups

Floats = NDArray[np.float64]
Positions = NDArray[np.intp]
Need = Literal["profiles", "vectors"]

# Numbers that one step of a re-ranker holds at a time: users × candidates × groups or dimensions.
_STEP_NUMBERS = 2**22


class Candidates(NamedTuple):
    """The longer lists of some users.

    Attributes
    ----------
    items : ndarray of int, shape (n, m)
        Item numbers, best first; −1 where a list is shorter.
    scores : ndarray of float, shape (n, m)
        Their scores, descending; NaN where `items` is −1.
    profiles : csr_array of shape (n, n_items) or None
        What the users already have.
    """

    items: NDArray[Any]
    scores: NDArray[Any]
    profiles: sp.csr_array | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a candidate."""
        return np.asarray(self.items >= 0)

    def relevance(self) -> Floats:
        """Return the scores scaled to [0, 1] within each list; −inf where a list is shorter.

        A list of equal scores has the relevance 1.
        """
        scores = np.asarray(self.scores, dtype=np.float64)
        known = self.known
        low = np.where(known, scores, np.inf).min(axis=1, keepdims=True)
        high = np.where(known, scores, -np.inf).max(axis=1, keepdims=True)
        width = high - low
        with np.errstate(invalid="ignore", divide="ignore"):
            scaled = np.where(width > 0, (scores - low) / width, 1.0)
        return np.where(known, scaled, -np.inf)

    def take(self, rows: slice) -> Candidates:
        """Return the lists of some users."""
        profiles = None if self.profiles is None else self.profiles[rows]
        return Candidates(self.items[rows], self.scores[rows], profiles)

    def parts(self, numbers_per_candidate: int = 1) -> Iterator[Candidates]:
        """Yield parts of the users whose arrays fit into the cache of a re-ranker's step."""
        n, m = self.items.shape
        step = max(1, _STEP_NUMBERS // max(1, m * numbers_per_candidate))
        return map(self.take, slices(n, step))


@dataclass(frozen=True, eq=False)
class ItemContext:
    """What a re-ranker knows about the items.

    Attributes
    ----------
    popularity : ndarray of shape (n_items,)
        Number of training users of each item.
    groups : ItemGroups
        Groups of the items: by popularity, or the user's own.
    vectors : ndarray of shape (n_items, d) or None
        Item vectors, for re-rankers that need similarities.
    learned : ndarray or None
        What `Reranker.learn` returned.
    """

    popularity: Floats
    groups: ItemGroups
    vectors: Floats | None = None
    learned: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if len(self.popularity) != len(self.groups):
            raise InvalidDataError(
                f"the groups have {len(self.groups)} items, the popularity has "
                f"{len(self.popularity)}. Both need one entry per item."
            )

    @property
    def shares(self) -> sp.csr_array:
        """Membership in groups, with rows that sum to 1; items in no group have empty rows."""
        S = self.groups.membership
        sums = np.asarray(S.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array(np.divide(1, sums, where=sums > 0, out=sums)) @ S)


class Reranker(ABC):
    """Base class of re-rankers.

    A subclass must provide `rerank`. Its lists must not depend on which other users are in the
    batch, and the first items of a longer list must be the shorter list. A subclass with settings
    is a dataclass, whose fields have defaults that are numbers or text: the settings of specs such
    as ``"xquad:0.3,form=smooth"``.

    Attributes
    ----------
    pool : int or None
        How many candidates it takes by default; None for all items.
    needs : frozenset
        "profiles" if it uses what users already have, "vectors" for vectors of items.
    learns : bool
        Whether `learn` must see the lists of the training users first.
    """

    pool: ClassVar[int | None] = 100
    needs: ClassVar[frozenset[Need]] = frozenset()
    learns: ClassVar[bool] = False
    #: title, paper and the specs that `tune` tries, for tables
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    search: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Return which candidates are in the new lists, in their new order.

        Parameters
        ----------
        candidates : Candidates
            Longer lists of some users.
        k : int
            Length of the new lists, at most the number of candidates.
        context : ItemContext
            What is known about the items.

        Returns
        -------
        ndarray of int, shape (n, k)
            Column numbers of `candidates`; −1 where a user has fewer than k candidates.
        """

    def learn(
        self,
        batches: Callable[[], Iterable[Candidates]],  # noqa: ARG002
        context: ItemContext,  # noqa: ARG002
    ) -> NDArray[Any] | None:
        """Learn from the lists of all training users; the result becomes ``context.learned``.

        Parameters
        ----------
        batches : callable
            Returns the lists of all users again at every call, batch by batch.
        context : ItemContext
            What is known about the items.
        """
        return None

    def settings(self) -> Mapping[str, Any]:
        """Return the settings by name."""
        return {name: getattr(self, name) for name in self.defaults()}

    @classmethod
    def defaults(cls) -> Mapping[str, Any]:
        """Return the defaults of the settings by name."""
        return {one.name: one.default for one in fields(cls)} if is_dataclass(cls) else {}


def ordered(values: Floats, known: NDArray[np.bool_], k: int) -> Positions:
    """Return the positions of the k largest values per row; equal values keep their order.

    Examples
    --------
    >>> ordered(np.array([[0.5, 2.0, 0.5]]), np.array([[True, True, True]]), 2).tolist()
    [[1, 0]]
    """
    masked = np.where(known, values, -np.inf)
    length = masked.shape[1]
    if k < length:  # sort only what is as large as the k-th largest value, in its order
        least = np.partition(masked, length - k, axis=1)[:, [length - k]]
        large = masked >= least
        count = int(large.sum(axis=1).max(initial=k))
        first = np.argsort(~large, axis=1, kind="stable")[:, :count]
    else:
        first = np.broadcast_to(np.arange(length), masked.shape)
    among = np.argsort(-np.take_along_axis(masked, first, axis=1), axis=1, kind="stable")[:, :k]
    order: Positions = np.take_along_axis(first, among, axis=1)
    return np.where(np.take_along_axis(known, order, axis=1), order, -1)


def check_strength(name: str, value: float, largest: float = 1.0) -> None:
    """Refuse a setting outside [0, largest]."""
    if not 0 <= value <= largest:
        raise InvalidParameterError(
            f"{name} of a re-ranker must be between 0 and {largest:g}, got {value!r}."
        )

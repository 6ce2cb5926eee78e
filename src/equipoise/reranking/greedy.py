"""Lists built one item at a time: xQuAD, calibrated recommendations, maximal marginal relevance."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from equipoise.checks import check_choice
from equipoise.exceptions import InvalidDataError
from equipoise.reranking.base import (
    Candidates,
    Floats,
    ItemContext,
    Need,
    Positions,
    Reranker,
    check_strength,
)

# of each step; it is sent which candidates were chosen, and for which users
Bonuses = Generator[Floats, Any, None]


@dataclass(frozen=True)
class GreedyReranker(Reranker):
    """Base class: a strength, and lists that are built part by part of the users."""

    strength: float = 0.3

    def __post_init__(self) -> None:
        check_strength("strength", self.strength)

    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Build the lists."""
        width = self._numbers_per_candidate(context)
        none = np.zeros((0, k), dtype=np.intp)
        found = [self._build(part, k, context) for part in candidates.parts(width)]
        return np.concatenate([none, *found])

    def _numbers_per_candidate(self, context: ItemContext) -> int:
        return len(context.groups.names)

    def _build(self, part: Candidates, k: int, context: ItemContext) -> Positions:
        """Add the candidate of the largest gain, one per user and step; ties by position."""
        relevance, left = part.relevance(), part.known
        bonuses, chosen = self._bonuses(part, context), None
        users = np.arange(len(left))
        found = np.full((len(left), k), -1, dtype=np.intp)
        for step in range(k):
            gains = (1 - self.strength) * relevance + self.strength * bonuses.send(chosen)
            best = np.where(left, gains, -np.inf).argmax(axis=1)
            some = left[users, best]
            found[some, step] = best[some]
            left[users, best] = False
            chosen = best, some
        return found

    @abstractmethod
    def _bonuses(self, part: Candidates, context: ItemContext) -> Bonuses:
        """Yield the bonus of every candidate in each step; it is sent what a step has chosen."""


@dataclass(frozen=True)
class GroupReranker(GreedyReranker):
    """Base class: the groups of the list are compared with those of the user's own items."""

    needs: ClassVar[frozenset[Need]] = frozenset({"profiles"})

    def _bonuses(self, part: Candidates, context: ItemContext) -> Bonuses:
        inside, own = _membership(part, context), _profile(part, context)
        counts = np.zeros_like(own)
        for step in itertools.count():
            best, some = yield self._bonus(inside, own, counts, step)
            counts[some] += inside[some, best[some]]

    @abstractmethod
    def _bonus(self, inside: Floats, own: Floats, counts: Floats, step: int) -> Floats:
        """Return the bonus from the groups of candidates, of the user, and of the list so far."""


@dataclass(frozen=True)
class XQuAD(GroupReranker):
    """Cover the groups of items that the user likes, popular and niche ones by default.

    Each step adds the candidate v that maximizes

        (1 − λ) P(v|u) + λ Σ_c P(c|u) 1[v ∈ c] N_c(S),

    where

    - P(v|u) is the score, scaled to [0, 1] within the user's candidates,
    - P(c|u) is the share of group c in the user's own items,
    - N_c(S) is 1 if the list S so far has no item of c, else 0 (binary); or 1 − |S ∩ c| / |S|
      (smooth).

    Parameters
    ----------
    strength : float
        λ; 0 keeps the lists.
    form : {"binary", "smooth"}
        How the groups in the list count.

    Notes
    -----
    The paper writes N_c as Π_{i ∈ S} (1 − P(i|c, S)), where P(i|c, S) is 1 for an item of c
    (binary) or "the ratio of items in list S that covers" c (smooth). Read literally, the smooth
    form is (1 − |S ∩ c| / |S|) to the power |S|. The one factor here is that of the public
    implementations that were found; the authors' own code was not found. The paper's groups are
    those of the default rule, ``head80``: the most popular items with 80 % of the interactions, and
    the rest.

    References
    ----------
    Himan Abdollahpouri, Robin Burke and Bamshad Mobasher, "Managing popularity bias in recommender
    systems with personalized re-ranking", FLAIRS 2019.

    Examples
    --------
    The user has one popular and one niche item. After a popular item, a niche one gains
    0.5 · 0.5 = 0.25, and 0.5 · 0.5 + 0.25 is more than 0.5 · 0.8.

    >>> from equipoise.metrics import ItemGroups
    >>> import scipy.sparse as sp
    >>> groups = ItemGroups(("head", "tail"), [0, 0, 0, 1, 1, 1])
    >>> context = ItemContext(np.ones(6), groups)
    >>> own = sp.csr_array(np.array([[1.0, 0, 0, 1.0, 0, 0]]))
    >>> lists = Candidates(np.array([[1, 2, 4, 5]]), np.array([[1.0, 0.8, 0.5, 0.0]]), own)
    >>> XQuAD(0.5).rerank(lists, 2, context).tolist()
    [[0, 2]]
    """

    title: ClassVar[str] = "xQuAD"
    paper: ClassVar[str] = "Abdollahpouri et al. 2019"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"xquad:{strength},form={form}"
        for form in ("binary", "smooth")
        for strength in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    )

    form: Literal["binary", "smooth"] = "binary"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("form", self.form, ("binary", "smooth"))

    def _bonus(self, inside: Floats, own: Floats, counts: Floats, step: int) -> Floats:
        missing = counts == 0 if self.form == "binary" else 1 - counts / max(step, 1)
        return np.asarray(np.einsum("nmg,ng->nm", inside, own * missing))


@dataclass(frozen=True)
class Calibrated(GroupReranker):
    """Bring the groups of the list close to the groups of the user's own items.

    Each step adds the candidate that maximizes, for the list S with it,

        (1 − λ) Σ_{i ∈ S} s_i − λ KL(p ‖ q̃),    q̃ = (1 − a) q + a p,    a = 0.01,

    where

    - s_i is the score, scaled to [0, 1] within the user's candidates,
    - p_g and q_g are the shares of group g in the user's own items and in S.

    With groups by popularity this is calibrated popularity (Abdollahpouri et al. 2021, with the
    Kullback–Leibler divergence in place of Jensen–Shannon's).

    Parameters
    ----------
    strength : float
        λ; 0 keeps the lists.

    References
    ----------
    Harald Steck, "Calibrated recommendations", RecSys 2018.

    Examples
    --------
    The user's items are half head, half tail, and so is the list:

    >>> from equipoise.metrics import ItemGroups
    >>> import scipy.sparse as sp
    >>> context = ItemContext(np.ones(6), ItemGroups(("head", "tail"), [0, 0, 0, 1, 1, 1]))
    >>> own = sp.csr_array(np.array([[1.0, 0, 0, 1.0, 0, 0]]))
    >>> lists = Candidates(np.array([[1, 2, 4, 5]]), np.array([[1.0, 0.8, 0.5, 0.0]]), own)
    >>> Calibrated(0.5).rerank(lists, 2, context).tolist()
    [[0, 2]]
    """

    title: ClassVar[str] = "Calibrated"
    paper: ClassVar[str] = "Steck 2018"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"calibrated:{strength}" for strength in (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
    )
    # Steck's value: it keeps the divergence finite while a group is missing from the list.
    smoothing: ClassVar[float] = 0.01

    strength: float = 0.5

    def _bonus(self, inside: Floats, own: Floats, counts: Floats, step: int) -> Floats:  # noqa: ARG002
        a = self.smoothing
        with_it = counts[:, None, :] + inside
        total = with_it.sum(axis=2, keepdims=True)
        q = np.divide(with_it, total, out=np.zeros_like(with_it), where=total > 0)
        mixed = (1 - a) * q + a * own[:, None, :]
        ratio = np.divide(own[:, None, :], mixed, out=np.ones_like(mixed), where=mixed > 0)
        return np.asarray(-np.einsum("ng,nmg->nm", own, np.log(np.maximum(ratio, 1e-300))))


@dataclass(frozen=True)
class MarginalRelevance(GreedyReranker):
    """Avoid items that are similar to those already in the list.

    Each step adds the candidate v that maximizes

        (1 − λ) s_v − λ max_{i ∈ S} cos(x_v, x_i),

    where

    - s_v is the score, scaled to [0, 1] within the user's candidates,
    - x_i is the vector of item i: its groups if they are the user's own, else that of the model,
      or of a PCA with 32 components where the model has none.

    Parameters
    ----------
    strength : float
        λ; 0 keeps the lists.

    References
    ----------
    Jaime Carbonell and Jade Goldstein, "The use of MMR, diversity-based reranking for reordering
    documents and producing summaries", SIGIR 1998.

    Examples
    --------
    The second item equals the first, the third is unrelated: 0.5 · 0.9 − 0.5 < 0.5 · 0.

    >>> from equipoise.metrics import ItemGroups
    >>> vectors = np.array([[1.0, 0], [1, 0], [0, 1]])
    >>> context = ItemContext(np.ones(3), ItemGroups(("all",), [0, 0, 0]), vectors)
    >>> lists = Candidates(np.array([[0, 1, 2]]), np.array([[1.0, 0.9, 0.0]]))
    >>> MarginalRelevance(0.5).rerank(lists, 3, context).tolist()
    [[0, 2, 1]]
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"vectors"})
    title: ClassVar[str] = "Maximal marginal relevance"
    paper: ClassVar[str] = "Carbonell & Goldstein 1998"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"mmr:{strength}" for strength in (0.05, 0.1, 0.2, 0.3, 0.5)
    )

    strength: float = 0.2

    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Build the lists."""
        vectors = _vectors(context)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
        return super().rerank(candidates, k, replace(context, vectors=unit))

    def _numbers_per_candidate(self, context: ItemContext) -> int:
        return _vectors(context).shape[1]

    def _bonuses(self, part: Candidates, context: ItemContext) -> Bonuses:
        vectors = _vectors(context)[part.items]
        users = np.arange(len(vectors))
        best, _ = yield np.zeros(part.items.shape)
        nearest = np.full(part.items.shape, -np.inf)
        while True:
            similarity = np.einsum("nmd,nd->nm", vectors, vectors[users, best])
            np.maximum(nearest, similarity, out=nearest)
            best, _ = yield -nearest


def _vectors(context: ItemContext) -> Floats:
    if context.vectors is None:
        raise InvalidDataError("mmr needs vectors of the items; pass ItemContext(vectors=…).")
    return context.vectors


def _membership(part: Candidates, context: ItemContext) -> Floats:
    """Return the shares of the candidates in the groups, shape (n, m, groups)."""
    shares = context.shares.toarray()
    return np.asarray(np.where(part.known[:, :, None], shares[part.items], 0.0))


def _profile(part: Candidates, context: ItemContext) -> Floats:
    """Return the shares of the groups in the users' own items; equal shares without items."""
    if part.profiles is None:
        raise InvalidDataError(
            "this re-ranker compares lists with the users' own items, which were not given."
        )
    own = part.profiles.copy()
    own.data = np.ones_like(own.data, dtype=np.float64)
    counts = (own @ context.shares).toarray()
    total = counts.sum(axis=1, keepdims=True)
    equal = np.full(counts.shape, 1 / counts.shape[1])
    return np.asarray(np.divide(counts, total, out=equal, where=total > 0))

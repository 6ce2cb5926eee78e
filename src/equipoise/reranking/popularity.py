"""Scores corrected by popularity: compensation and scaling."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.reranking.base import (
    Candidates,
    Floats,
    ItemContext,
    Positions,
    Reranker,
    check_strength,
    ordered,
)


class CorrectedScores(Reranker):
    """Base class: a sort of all candidates by corrected scores."""

    pool: ClassVar[int | None] = None

    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Order the candidates by corrected scores."""
        return ordered(self.corrected(candidates, context), candidates.known, k)

    @abstractmethod
    def corrected(self, candidates: Candidates, context: ItemContext) -> Floats:
        """Return the corrected scores R̂*."""


@dataclass(frozen=True)
class PopularityCompensation(CorrectedScores):
    """Add more to the scores of less popular items.

    With R̂ the scores of a user's candidates,

        C_i = (β R̂_i / n + 1 − β) / (pop_i + 1),    R̂*_i = R̂_i + α C_i n / m,

    where

    - n and m are the root mean squares of R̂ and C over the candidates of the user,
    - pop_i is the number of training users of item i.

    Parameters
    ----------
    alpha : float
        Strength; 0 keeps the lists.
    beta : float
        How much of the compensation follows the score; at 0 it depends on popularity only.

    Notes
    -----
    A public script of the method has pop + 1 and R̂/n, as here, and the defaults α = 0.4, β = 1.2;
    who wrote it could not be confirmed. The paper has 1/pop, R̂ without n, and β in [0, 1]. Its
    norms are divided by the number of unseen items. The factor n / m makes all these norms
    equivalent.

    References
    ----------
    Ziwei Zhu, Yun He, Xing Zhao, Yin Zhang, Jianling Wang and James Caverlee,
    "Popularity-opportunity bias in collaborative filtering", WSDM 2021.

    Examples
    --------
    Equal scores: at β = 0, C is (1/2, 1/10) for 1 and 9 users. The less popular item is first.

    >>> from equipoise.metrics import ItemGroups
    >>> context = ItemContext(np.array([9.0, 1.0]), ItemGroups(("all",), [0, 0]))
    >>> lists = Candidates(np.array([[0, 1]]), np.array([[1.0, 1.0]]))
    >>> PopularityCompensation(alpha=1.0, beta=0.0).rerank(lists, 2, context).tolist()
    [[1, 0]]
    """

    title: ClassVar[str] = "Popularity compensation"
    paper: ClassVar[str] = "Zhu et al. 2021"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"compensation:{alpha},beta={beta}"
        for beta in (0.0, 0.5, 1.0)
        for alpha in (0.1, 0.2, 0.4, 0.8)
    )

    alpha: float = 0.4
    beta: float = 0.5

    def __post_init__(self) -> None:
        check_strength("alpha", self.alpha, np.inf)
        check_strength("beta", self.beta, 2.0)

    def corrected(self, candidates: Candidates, context: ItemContext) -> Floats:
        """Return the compensated scores R̂*."""
        known = candidates.known
        scores = np.where(known, candidates.scores, 0.0)
        n = _root_mean_square(scores, known)
        relative = np.divide(scores, n, out=np.zeros_like(scores), where=n > 0)
        popularity = context.popularity[candidates.items]
        added = (self.beta * relative + 1 - self.beta) / (popularity + 1)
        m = _root_mean_square(np.where(known, added, 0.0), known)
        unit = np.divide(n, m, out=np.zeros_like(n), where=m > 0)
        return np.asarray(scores + self.alpha * added * unit)


@dataclass(frozen=True)
class PopularityScaling(CorrectedScores):
    """Divide scores by a power of the popularity.

    R̂*_i = (R̂_i − min R̂) (pop_i + 1)^(−α t),

    where

    - min R̂ is the lowest score of the user's candidates,
    - pop_i is the number of training users of item i.

    Parameters
    ----------
    alpha : float
        Strength; 0 keeps the lists.
    elapsed : float
        t, for the dynamic variant: which share of the planned rounds of feedback has passed. The
        strength grows with it from 0 to α. At 1, the strength is α: the static variant.

    Notes
    -----
    Weights and the growth of the strength are those of the authors' code
    (``Simulation_DScale.py``), which also scales the weights to a mean of 1; that changes no order.
    It multiplies the model's scores themselves. The minimum is subtracted here because a weight
    below 1 would raise negative scores.

    References
    ----------
    Ziwei Zhu, Yun He, Xing Zhao and James Caverlee, "Popularity bias in dynamic recommendation",
    KDD 2021.

    Examples
    --------
    Scores of 1 and 0.5 are divided by 10 and by 2.

    >>> from equipoise.metrics import ItemGroups
    >>> context = ItemContext(np.array([9.0, 1.0, 0.0]), ItemGroups(("all",), [0, 0, 0]))
    >>> lists = Candidates(np.array([[0, 1, 2]]), np.array([[1.0, 0.5, 0.0]]))
    >>> PopularityScaling(alpha=1.0).rerank(lists, 3, context).tolist()
    [[1, 0, 2]]
    """

    title: ClassVar[str] = "Popularity scaling"
    paper: ClassVar[str] = "Zhu et al. 2021 (dynamic)"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"scaling:{alpha}" for alpha in (0.05, 0.1, 0.2, 0.3, 0.5)
    )

    alpha: float = 0.2
    elapsed: float = 1.0

    def __post_init__(self) -> None:
        check_strength("alpha", self.alpha, np.inf)
        check_strength("elapsed", self.elapsed)

    def corrected(self, candidates: Candidates, context: ItemContext) -> Floats:
        """Return the scaled scores R̂*."""
        known = candidates.known
        lowest = np.where(known, candidates.scores, np.inf).min(axis=1, keepdims=True)
        scores = np.where(known, candidates.scores - lowest, 0.0)
        weights = (context.popularity + 1.0) ** (-self.alpha * self.elapsed)
        return np.asarray(scores * weights[candidates.items])


def _root_mean_square(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Return the root mean square of each row, as a column."""
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    return np.asarray(np.sqrt((values**2).sum(axis=1, keepdims=True) / count))

"""FA*IR: enough items of a protected group in every prefix of a list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice, check_share, check_whole_number
from equipoise.reranking.base import Candidates, ItemContext, Positions, Reranker

# Bisections of the significance: one more changes it by less than 1e-10.
_STEPS = 100
_TOLERANCE = 1e-10

# A sum of probabilities that differs from the significance by rounding alone is equal to it.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class FAIR(Reranker):
    """Keep the order of the scores, with enough items of a protected group in every prefix.

    A prefix of length i needs at least m_i protected items, where m_i is the quantile at α_c of
    the binomial distribution of i draws with probability p. α_c is chosen so that a list drawn at
    random is rejected with probability α over all prefixes up to `length`.

    Parameters
    ----------
    p : float
        Target share of protected items, in (0, 1).
    alpha : float
        Probability of rejecting a fair list, in (0, 1).
    length : int
        Length of the lists that the test is made for; later places have no rule.
    protected : str
        Name of the protected group; by default the last one, which contains the least popular
        items if the groups are by popularity.

    Notes
    -----
    Thresholds and lists are those of LensKit's ``FAIRReranker`` (2025.8.1).

    References
    ----------
    Meike Zehlike, Francesco Bonchi, Carlos Castillo, Sara Hajian, Mohamed Megahed and Ricardo
    Baeza-Yates, "FA*IR: A fair top-k ranking algorithm", CIKM 2017.

    Examples
    --------
    Lists of 10 items, half of them protected: the fourth place is the first with a rule.

    >>> FAIR(p=0.5, alpha=0.1, length=10).required().tolist()
    [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    """

    title: ClassVar[str] = "FA*IR"
    paper: ClassVar[str] = "Zehlike et al. 2017"
    search: ClassVar[tuple[str, ...]] = tuple(f"fair:{p}" for p in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8))

    p: float = 0.5
    alpha: float = 0.1
    length: int = 20
    protected: str = ""

    def __post_init__(self) -> None:
        for name in ("p", "alpha"):
            check_share(getattr(self, name), f"{name} of fair")
        check_whole_number("length of fair", self.length, least=1)

    def required(self) -> NDArray[np.intp]:
        """Return how many protected items each prefix needs, for lengths 1 to `length`."""
        return _thresholds(self.length, self.p, _adjusted(self.length, self.p, self.alpha))

    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Merge protected and other candidates, both in the order of their scores."""
        groups = context.groups
        name = self.protected or groups.names[-1]
        check_choice("protected", name, groups.names)
        inside = np.zeros(len(groups) + 1, dtype=bool)
        inside[groups.items(name)] = True  # the last entry is that of −1
        protected = inside[candidates.items] & candidates.known
        required = self.required()
        first = [_ranked(protected), _ranked(candidates.known & ~protected)]
        end = candidates.items.shape[1]
        used = [np.zeros(len(protected), dtype=np.intp) for _ in first]
        users = np.arange(len(protected))
        found = np.full((len(protected), k), -1, dtype=np.intp)
        for place in range(k):
            next_in, next_out = (
                queue[users, count] for queue, count in zip(first, used, strict=True)
            )
            needed = used[0] < (required[place] if place < len(required) else 0)
            take_in = (next_in < end) & (needed | (next_in < next_out))
            best = np.where(take_in, next_in, next_out)
            some = best < end
            found[some, place] = best[some]
            used[0] += some & take_in
            used[1] += some & ~take_in
        return found


def _ranked(chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the positions of the chosen candidates of each row in order, then the row's end."""
    n, m = chosen.shape
    order = np.argsort(~chosen, axis=1, kind="stable")
    order = np.where(np.take_along_axis(chosen, order, axis=1), order, m)
    return np.hstack([order, np.full((n, 1), m)])


def _thresholds(length: int, p: float, alpha: float) -> NDArray[np.intp]:
    """Return the quantiles at α of the binomial distributions of 1 to `length` draws."""
    below = _distributions(length, p) < alpha * (1 - _ROUNDING)
    return np.asarray(below.sum(axis=1))


@cache
def _distributions(length: int, p: float) -> NDArray[np.float64]:
    """Return P(at most x of n draws) for n from 1 to `length` (rows) and x from 0 (columns)."""
    found, each = np.ones((length, length + 1)), np.ones(1)
    for row in found:  # what scipy.special and scipy.stats have takes longer to import
        each = np.convolve(each, [1 - p, p])
        row[: len(each) - 1] = np.cumsum(each[:-1])
    return found


@cache
def _adjusted(length: int, p: float, alpha: float) -> float:
    """Return α_c, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        rejected = _rejection(length, p, middle)
        low, high = (low, middle) if rejected > alpha else (middle, high)
        if abs(rejected - alpha) < _TOLERANCE or high - low < _TOLERANCE:
            break
    return (low + high) / 2


def _rejection(length: int, p: float, alpha: float) -> float:
    """Return the probability that a random list fails in some prefix.

    The distribution of the number of protected items grows by one draw per place, and loses what
    is below the threshold there.
    """
    passed = np.ones(1)
    for least in _thresholds(length, p, alpha):
        passed = np.convolve(passed, [1 - p, p])
        passed[:least] = 0.0
    return float(1 - passed.sum())

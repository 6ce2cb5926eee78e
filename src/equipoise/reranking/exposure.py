"""Lists of the most relevance in which every group has at least its floor of the exposure.

    max Σ_u Σ_p d_p r_u,π_u(p)    subject to    Σ_u Σ_p d_p S_π_u(p),g ≥ f_g T    for every group g,

where π_u is the list of user u, r the relevance, d_p the exposure of place p, S the membership of
items in groups and T = Σ_u Σ_p d_p all exposure. With a price λ_g ≥ 0 per group, each user's best
list is a sort by r_ui + Σ_g S_ig λ_g, and

    D(λ) = Σ_u Σ_p d_p (r + Sλ)_u,π_u(p) − T Σ_g λ_g f_g

is at least the relevance of any lists that meet the floors. Minimizing D over as many numbers as
groups gives the prices and the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice, check_whole_number
from equipoise.exceptions import InfeasibleError, InvalidParameterError
from equipoise.metrics import ItemGroups
from equipoise.metrics.fairness import attention
from equipoise.parallel import compile_loop, in_threads, thread_count
from equipoise.reranking.base import (
    Candidates,
    Floats,
    ItemContext,
    Positions,
    Reranker,
    check_strength,
    ordered,
)

Batches = Callable[[], Iterable[Candidates]]

# Passes of the smooth method: with many users the bound is nearly smooth, and this comes close.
_SMOOTH_PASSES = 40
# First step of the exact method, in units of the relevance, which is at most 1.
_FIRST_STEP = 0.1
# Attempts to round the solution to lists that meet the floors, and passes for each.
_ATTEMPTS, _EXTRA_PASSES = 10, 15
# A floor that is missed by less than this share of the exposure is met: it is rounding.
_ROUNDING = 1e-12
# Fewer users are not worth a thread: some 50 µs to start one, about 1 µs per user.
_FEWEST_USERS = 2048


@dataclass(frozen=True)
class ExposureSolution:
    """Prices, lists and what is proven about them.

    Attributes
    ----------
    names : tuple of str
        The groups.
    floors, exposure : ndarray of shape (groups,)
        The least share of the exposure of each group, and what the lists give it.
    prices : ndarray of shape (groups,)
        λ at the best bound: the relevance that one more unit of exposure of a group costs.
    bound : float
        No lists that meet the floors have more relevance per unit of exposure.
    relevance : float
        That of the rounded lists.
    before : float
        That of the lists without floors, which are at least as relevant.
    passes : int
        Passes over the candidates.
    serving_prices : ndarray of shape (groups,)
        One price per group for lists of any user: they meet the floors if `serving_meets`.
    serving_meets : bool
        Whether one price per group met the floors on these users.
    columns : ndarray of shape (c, groups)
        The prices that the lists are rounded from.
    weights : ndarray of shape (c,)
        The share of the users with each of them.
    """

    names: tuple[str, ...]
    floors: Floats
    exposure: Floats
    prices: Floats
    bound: float
    relevance: float
    before: float
    passes: int
    serving_prices: Floats
    serving_meets: bool
    columns: Floats = field(repr=False)
    weights: Floats = field(repr=False)

    @property
    def gap(self) -> float:
        """How much better any lists with the same floors could be, relative to the bound."""
        return (self.bound - self.relevance) / max(abs(self.bound), 1e-300)

    @property
    def shortfall(self) -> float:
        """The largest share of the exposure by which a floor is missed; 0 if all are met."""
        return _shortfall(self.floors, self.exposure)

    def __str__(self) -> str:
        lines = [
            f"relevance       {self.relevance:.6f} ({self.relevance / self.before:.2%} of "
            "that without floors)",
            f"upper bound     {self.bound:.6f}",
            f"relative gap    {self.gap:.1e}",
            f"floors missed   {self.shortfall:.1e}",
            f"passes          {self.passes}",
            "group                   floor   exposure      price",
        ]
        rows = zip(self.names, self.floors, self.exposure, self.prices, strict=True)
        lines += [f"{n:<20.20} {f:>8.4f} {e:>10.4f} {p:>10.4f}" for n, f, e, p in rows]
        return "\n".join(lines)


def solve_exposure(
    batches: Batches,
    groups: ItemGroups,
    floors: Mapping[str, float] | Sequence[float],
    k: int,
    *,
    discount: str = "log",
    tol: float = 1e-6,
    max_passes: int = 300,
) -> ExposureSolution:
    """Find the prices of groups, and lists that meet the floors, over all users of a stream.

    Parameters
    ----------
    batches : callable
        Returns the candidates of all users, batch by batch, at every call; it may read them from
        disk. They are read once per pass.
    groups : ItemGroups
        The groups; an item may be in several or none.
    floors : mapping of str to float, or one number per group
        Least shares of the exposure; 0 for groups that are not named.
    k : int
        Length of the lists.
    discount : str
        Exposure of places; see `equipoise.metrics.fairness_by_group`.
    tol : float
        Stop when the bound can improve by at most this much relevance per unit of exposure.
    max_passes : int
        Stop after so many passes over the candidates.

    Raises
    ------
    InfeasibleError
        If no lists of these candidates meet the floors; with the prices that prove it.

    Examples
    --------
    Two users, one place. The niche item 1 must get half of the exposure. User 0 loses 1 by it and
    user 1 loses 0.2 of 1, where the third candidate is at 0.

    >>> items = np.array([[0, 1, 2], [0, 1, 2]], dtype=np.int32)
    >>> lists = Candidates(items, np.array([[1.0, 0.0, 0.0], [1.0, 0.8, 0.0]]))
    >>> groups = ItemGroups(("popular", "niche"), [0, 1, 0])
    >>> found = solve_exposure(lambda: [lists], groups, {"niche": 0.5}, k=1)
    >>> round(found.relevance, 6), round(found.bound, 6), found.shortfall
    (0.9, 0.9, 0.0)
    """
    check_whole_number("k", k, least=1)
    problem = _Problem(batches, groups, _floors(floors, groups), attention(k, discount))
    return problem.solve(tol, max_passes)


def _floors(floors: Mapping[str, float] | Sequence[float], groups: ItemGroups) -> Floats:
    if isinstance(floors, Mapping):
        for name in floors:
            check_choice("group of a floor", name, groups.names)
        given = np.array([floors.get(name, 0.0) for name in groups.names], dtype=np.float64)
    else:
        given = np.asarray(floors, dtype=np.float64)
    if given.shape != (len(groups.names),) or not np.all((given >= 0) & (given <= 1)):
        raise InvalidParameterError(
            f"floors must be one share from 0 to 1 for each of the {len(groups.names)} groups, "
            f"got {given.tolist()}."
        )
    return given


class _Pass(NamedTuple):
    """One pass over the lists of users, who are divided among some prices; in units of T."""

    columns: Floats
    weights: Floats
    relevance: float
    exposure: Floats

    @property
    def prices(self) -> Floats:
        """The prices of a pass at one price per group: S(λ) ≥ relevance + exposure·λ."""
        return np.asarray(self.columns[0])

    def bound(self, floors: Floats) -> float:
        """Return D at the prices of the pass."""
        return float(self.relevance + self.prices @ (self.exposure - floors))


def _shortfall(floors: Floats, exposure: Floats) -> float:
    """Return the largest share by which a floor is missed; 0 if all are met."""
    missing = float((floors - exposure).max(initial=0.0))
    return missing if missing > _ROUNDING else 0.0


@dataclass(eq=False)
class _Problem:
    """The dual problem, with a cut for each pass at one price per group."""

    batches: Batches
    groups: ItemGroups
    floors: Floats
    discount: Floats
    cuts: list[_Pass] = field(default_factory=list)
    passes: int = 0
    place: float = 0.0

    def at(self, prices: Floats) -> _Pass:
        """Make a pass, and keep its cut."""
        cut = self._measure(prices[None, :], np.ones(1))
        self.cuts.append(cut)
        bound = cut.bound(self.floors)
        if bound < -1e-9:
            self._refuse(prices, bound)
        return cut

    def best(self, floors: Floats) -> _Pass:
        """Return the cut of the lowest bound for these floors."""
        return min(self.cuts, key=lambda cut: cut.bound(floors))

    def _refuse(self, prices: Floats, bound: float) -> None:
        weights = prices / prices.sum()
        shown = [
            f"{name} {weight:.2f}"
            for name, weight in zip(self.groups.names, weights, strict=True)
            if weight > 0.005
        ]
        raise InfeasibleError(
            "no lists of these candidates meet the floors. Proof: with the weights "
            f"{', '.join(shown[:5])}, the weighted exposure is at most "
            f"{float(weights @ self.floors) + bound / float(prices.sum()):.4f}, and the floors "
            f"need {float(weights @ self.floors):.4f}. Lower the floors, or take more candidates.",
            best=bound,
            dual_weights=prices,
        )

    def solve(self, tol: float, max_passes: int) -> ExposureSolution:
        zero = np.zeros(len(self.floors))
        first = self.at(zero)
        if not np.all(first.exposure >= self.floors):
            self._smooth(zero, _SMOOTH_PASSES, self.floors)
            self._exact(tol, max_passes)
        rounded = self._rounded()
        best, meeting = self.best(self.floors), self._meeting()
        serving = max(meeting, key=lambda cut: cut.relevance, default=best)
        return ExposureSolution(
            names=self.groups.names,
            floors=self.floors,
            exposure=rounded.exposure,
            prices=best.prices,
            bound=best.bound(self.floors),
            relevance=rounded.relevance,
            before=first.relevance,
            passes=self.passes,
            serving_prices=serving.prices,
            serving_meets=bool(meeting),
            columns=rounded.columns,
            weights=rounded.weights,
        )

    def _meeting(self) -> list[_Pass]:
        """Return the passes whose prices met all floors."""
        return [cut for cut in self.cuts if not _shortfall(self.floors, cut.exposure)]

    def _smooth(self, start: Floats, most: int, floors: Floats) -> None:
        """Minimize the bound as if it were smooth; each pass leaves a cut."""
        from scipy.optimize import minimize

        def value(prices: Floats) -> tuple[float, Floats]:
            cut = self.at(prices.copy())
            return cut.bound(floors), cut.exposure - floors

        minimize(
            value,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(start),
            options={"maxfun": most, "ftol": 1e-9, "gtol": 1e-7},
        )

    def _master(
        self, floors: Floats, center: Floats | None = None, radius: float = np.inf
    ) -> tuple[float, Floats, Floats]:
        """Minimize the largest cut near a center; return the minimum, prices, weights of cuts."""
        from scipy.optimize import linprog

        E = np.array([cut.exposure for cut in self.cuts])
        R = np.array([cut.relevance for cut in self.cuts])
        n_groups = len(floors)
        low = np.zeros(n_groups)
        high = np.full(n_groups, np.inf)
        if center is not None:
            low, high = np.maximum(0, center - radius), center + radius
        found = linprog(
            np.r_[-floors, 1.0],
            A_ub=np.c_[E, -np.ones(len(R))],
            b_ub=-R,
            bounds=[*zip(low, high, strict=True), (None, None)],
            method="highs",
        )
        if found.status != 0:  # unbounded: the cuts do not mix to lists that meet the floors
            return -np.inf, np.zeros(n_groups), np.zeros(len(R))
        weights = np.maximum(0.0, -found.ineqlin.marginals)
        return float(found.fun), found.x[:-1], weights / max(weights.sum(), 1e-300)

    def _exact(self, tol: float, max_passes: int) -> None:
        """Minimize the bound by cutting planes within a box, which grows and shrinks."""
        floors = self.floors
        radius, best = _FIRST_STEP, self.best(floors)
        while self.passes < max_passes:
            lowest, prices, _ = self._master(floors, best.prices, radius)
            expected = best.bound(floors) - lowest
            inside = bool(np.all(np.abs(prices - best.prices) < radius * (1 - 1e-9)))
            if expected <= tol:
                if inside or radius > 1e6:
                    return
                radius *= 4
                continue
            found = self.at(prices)
            gained = best.bound(floors) - found.bound(floors)
            if gained > 0:
                best = found
            if gained >= 0.5 * expected:
                radius *= 2
            elif gained < 0.1 * expected:
                radius *= 0.5

    def _rounded(self) -> _Pass:
        """Give each user the list of one price vector; raise the floors until they are met."""
        options: list[_Pass] = []
        raised = self.floors
        for attempt in range(_ATTEMPTS):
            lowest, _, weights = self._master(raised)
            if np.isfinite(lowest):
                used = np.flatnonzero(weights > 1e-9)
                columns = np.array([self.cuts[n].prices for n in used])
                options.append(self._measure(columns, weights[used]))
                if not _shortfall(self.floors, options[-1].exposure):
                    break
            raised = np.where(self.floors > 0, self.floors + 2.0 ** (attempt - 2) * self.place, 0.0)
            if not self._meeting():  # or else a mixture of the passes may be better
                self._smooth(self.best(raised).prices, _EXTRA_PASSES, raised)
        options += self._meeting()
        return max(options, key=lambda p: (-_shortfall(self.floors, p.exposure), p.relevance))

    def _measure(self, columns: Floats, weights: Floats) -> _Pass:
        """Return relevance and exposure of lists whose users are divided among prices."""
        relevance, total = 0.0, 0.0
        S = self.groups.membership
        exposure = np.zeros(len(self.groups))
        for batch, parts in _divided(self.batches(), S @ columns.T, weights):
            for rows, by_item in parts:
                found = best_lists(batch.items[rows], batch.scores[rows], by_item, self.discount)
                relevance, total = relevance + found[0], total + found[1]
                exposure += found[2]
        if total == 0:
            raise InvalidParameterError("no user has a candidate, so there is nothing to re-rank.")
        self.passes += 1
        self.place = self.discount[0] / total  # the share of one user's first place
        return _Pass(columns, weights, relevance / total, np.asarray(S.T @ exposure / total))


def _divided(
    batches: Iterable[Candidates], by_item: Floats, weights: Floats
) -> Iterator[tuple[Candidates, list[tuple[Any, Floats]]]]:
    """Yield each batch, and the rows of its users and the prices of items for each column."""
    seen = 0
    for batch in batches:
        own = columns_of_users(seen, len(batch.items), weights)
        seen += len(batch.items)
        yield (
            batch,
            [
                (slice(None) if len(weights) == 1 else own == column, by_item[:, column].copy())
                for column in np.unique(own)
            ],
        )


def columns_of_users(first: int, count: int, weights: Floats) -> Positions:
    """Divide users among columns so that every stretch of users has about the same shares.

    Examples
    --------
    >>> columns_of_users(0, 6, np.array([0.5, 0.5])).tolist()
    [0, 1, 1, 0, 1, 0]
    """
    golden = (np.sqrt(5) - 1) / 2
    places = ((np.arange(first, first + count) + 0.5) * golden) % 1.0
    edges = np.cumsum(weights)[:-1]
    return np.asarray(np.searchsorted(edges, places, side="right"), dtype=np.intp)


def exposure_lists(
    batches: Batches, groups: ItemGroups, solution: ExposureSolution, k: int, discount: str = "log"
) -> Iterator[Positions]:
    """Yield the rounded lists of a solution, batch by batch: positions of candidates.

    Parameters
    ----------
    batches, groups, k, discount
        As in `solve_exposure`.
    solution : ExposureSolution
        What it returned.
    """
    by_item = groups.membership @ solution.columns.T
    places = attention(k, discount)
    for batch, parts in _divided(batches(), by_item, solution.weights):
        order = np.full((len(batch.items), k), -1, dtype=np.intp)
        for rows, prices in parts:
            lists = (batch.items[rows], batch.scores[rows])
            *_, order[rows] = best_lists(*lists, prices, places, with_order=True)
        yield order


# ---------------------------------------- the best list of every user at given prices


def _best_lists(
    items: Any,
    scores: Any,
    prices: Any,
    highest: float,
    discount: Any,
    start: int,
    stop: int,
    exposure: Any,
    order: Any,
) -> tuple[float, float]:
    """Fill `order`, add to `exposure`, and return the sum of relevance and of all exposure.

    The relevance is the score scaled to [0, 1] between the first and the last candidate. Candidates
    come in descending order, so the search stops where no later one can enter the list.
    """
    longest, length = items.shape[1], len(discount)
    values, places = np.empty(length), np.empty(length, np.int64)
    relevance, total = 0.0, 0.0
    for user in range(start, stop):
        known = longest
        while known > 0 and items[user, known - 1] < 0:
            known -= 1
        if known == 0:
            continue
        low = scores[user, known - 1]
        width = scores[user, 0] - low
        size = 0
        for j in range(known):
            own = (scores[user, j] - low) / width if width > 0 else 1.0
            if size == length and own + highest <= values[length - 1]:
                break
            value = own + prices[items[user, j]]
            if size < length:
                p = size
                size += 1
            elif value > values[length - 1]:
                p = length - 1
            else:
                continue
            while p > 0 and values[p - 1] < value:
                values[p], places[p] = values[p - 1], places[p - 1]
                p -= 1
            values[p], places[p] = value, j
        for p in range(size):
            item = items[user, places[p]]
            exposure[item] += discount[p]
            relevance += discount[p] * (values[p] - prices[item])
            total += discount[p]
            if order.shape[0]:
                order[user, p] = places[p]
    return relevance, total


@cache
def _kernel() -> Any:
    return compile_loop(_best_lists)


def best_lists(
    items: NDArray[Any],
    scores: NDArray[Any],
    prices: NDArray[np.float64],
    discount: NDArray[np.float64],
    *,
    with_order: bool = False,
) -> tuple[float, float, NDArray[np.float64], NDArray[np.int32]]:
    """Return relevance, total exposure, exposure per item, and the order of the candidates.

    Parameters
    ----------
    items, scores : ndarray of shape (n, m)
        Candidates, best first; −1 where a list is shorter.
    prices : ndarray of shape (n_items,)
        What is added to the relevance of an item.
    discount : ndarray of shape (k,)
        Exposure of each place, descending.
    with_order : bool
        Return the lists, too; otherwise they have no rows.
    """
    n = len(items)
    order = np.full((n if with_order else 0, len(discount)), -1, np.int32)
    parts = max(1, min(thread_count(), n // _FEWEST_USERS))
    bounds = np.linspace(0, n, parts + 1).astype(np.int64)
    exposure = np.zeros((parts, len(prices)))
    highest = float(prices.max(initial=0.0))
    run = _kernel()

    def work(part: int) -> tuple[float, float]:
        rows = int(bounds[part]), int(bounds[part + 1])
        return run(items, scores, prices, highest, discount, *rows, exposure[part], order)

    sums = np.array(in_threads(work, parts)).sum(axis=0)
    return float(sums[0]), float(sums[1]), exposure.sum(axis=0), order


@dataclass(frozen=True)
class ExposureFloors(Reranker):
    """Give every group at least its floor of the exposure, at the least loss of relevance.

    The floor of group g is `floor` times its target share. The prices λ of the groups are found on
    the lists of all training users, as in `solve_exposure`; a list is then a sort by

        s_i + Σ_g S_ig λ_g,

    where

    - s_i is the score, scaled to [0, 1] within the user's candidates,
    - S_ig is the membership of item i in group g.

    Parameters
    ----------
    floor : float
        Share of the target that every group gets at least, from 0 to 1.
    target : {"interactions", "items", "equal"}
        Target shares of the groups: of the training interactions, of the items, or equal ones.
    length : int
        Length of the lists whose exposure counts.

    Notes
    -----
    The floors hold for the lists of the training users together. One price per group serves any
    user; `solve_exposure` and `exposure_lists` give the lists of a fixed set of users with a bound
    on what any method could reach.
    """

    learns: ClassVar[bool] = True
    title: ClassVar[str] = "Exposure floors"
    search: ClassVar[tuple[str, ...]] = tuple(
        f"exposure:{floor}" for floor in (0.25, 0.5, 0.75, 0.9, 1.0)
    )

    floor: float = 0.75
    target: Literal["interactions", "items", "equal"] = "interactions"
    length: int = 20

    def __post_init__(self) -> None:
        check_strength("floor", self.floor)
        check_choice("target", self.target, ("interactions", "items", "equal"))
        check_whole_number("length of exposure", self.length, least=1)

    def floors(self, context: ItemContext) -> Floats:
        """Return the least share of the exposure of every group."""
        S = context.shares
        if self.target == "equal":
            return np.full(S.shape[1], self.floor / S.shape[1])
        weights = context.popularity if self.target == "interactions" else np.ones(S.shape[0])
        sums = S.T @ weights
        return np.asarray(self.floor * sums / max(float(weights.sum()), 1e-300))

    def learn(self, batches: Batches, context: ItemContext) -> Floats:
        """Find the prices; the result is one number per item."""
        groups = ItemGroups(context.groups.names, context.shares)
        found = solve_exposure(batches, groups, self.floors(context).tolist(), self.length)
        return np.asarray(context.shares @ found.serving_prices)

    def rerank(self, candidates: Candidates, k: int, context: ItemContext) -> Positions:
        """Order the candidates by relevance plus price."""
        if context.learned is None:
            raise InvalidParameterError("exposure floors need the prices that `learn` returns.")
        priced = candidates.relevance() + context.learned[candidates.items]
        return ordered(priced, candidates.known, k)

"""What an audit looks at, decided before anything is fitted: ranks, γ, depth and samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.task import Task
from equipoise.metrics import ItemGroups, popularity_groups
from equipoise.spectral.solve import estimate_seconds

# γ of the slider; the one that was asked for joins them.
GAMMAS = (0.0, -0.5, -1.0, -1.5, -2.0)

# Components looked at, as far as a fit of about so many seconds goes; see `depth_for`.
_DEEPEST, _SHALLOWEST, _SECONDS_A_FIT = 1024, 64, 10.0

# Beyond this rank no setting is tried on validation: lists of so deep a projector copy the past.
DEEPEST_CHOICE = 256

# Scores ranked for item AUC (users × items × ranks), and users whose lists are judged.
_AUC_SCORES, _FEWEST_AUC_ITEMS, _MOST_USERS = 400_000_000, 300, 10_000

# The heaviest hundredth of the users may carry this share of ‖X‖² before each row is divided by
# its sum. 0/1 data stay far below (MovieLens 1M: 7 %), counts of plays far above (Last.fm: 57 %).
_HEAVY_SHARE = 0.25

# Shares of the hold-out: the published protocol.
_TEST, _VALIDATION = 0.2, 0.1


@dataclass(frozen=True, eq=False)
class Study:
    """The data as they are audited.

    Attributes
    ----------
    data : Interactions
        All of it, prepared.
    fitted : Interactions
        What models are fitted on and measured in-sample.
    test, validation : Task or None
        The users whose lists are judged; None where no user has enough items to hold one out.
    groups : ItemGroups
        By popularity in `fitted`.
    normalized : bool
        Whether rows were divided by their sums.
    auc_items : ndarray of int
        Columns that item AUC and precision are taken of.
    notes : tuple of str
        What was decided, in words.
    """

    data: Interactions
    fitted: Interactions
    test: Task | None
    validation: Task | None
    groups: ItemGroups
    normalized: bool
    auc_items: NDArray[np.intp]
    notes: tuple[str, ...]


def study(
    interactions: Interactions, *, groups: str, seed: int, normalize: bool | None, n_ranks: int
) -> Study:
    """Prepare, split and sample.

    Parameters
    ----------
    interactions : Interactions
        As the user gave them.
    groups : {"interactions", "items"}
        The rule.
    seed : int
        Of the hold-out and of the samples.
    normalize : bool or None
        Whether to divide rows by their sums; None decides by `heavy_users_share`.
    n_ranks : int
        How many ranks item AUC is taken at, for the size of its sample.
    """
    heavy = heavy_users_share(interactions.matrix)
    normalized = _too_heavy(heavy, interactions.n_users) if normalize is None else normalize
    data = interactions.normalize_rows() if normalized else interactions
    split = _split(data, seed)
    fitted = data if split is None else split.train_validation
    grouped = popularity_groups(fitted.matrix, groups)
    items = _auc_sample(grouped, fitted.n_users, n_ranks, seed)
    notes = [
        _about_rows(normalized, heavy, decided=normalize is None),
        _about_split(split),
        _about_items(len(items), len(grouped)),
        _about_users(split),
    ]
    return Study(
        data,
        fitted,
        None if split is None else _task(fitted, split.test, grouped, seed),
        None if split is None else _task(split.train, split.validation, grouped, seed),
        grouped,
        normalized,
        items,
        tuple(note for note in notes if note),
    )


def heavy_users_share(X: sp.csr_array) -> float:
    """Share of ‖X‖² that the heaviest hundredth of the users (at least one) carries.

    Examples
    --------
    >>> round(heavy_users_share(sp.csr_array([[3.0, 0.0], [0.0, 1.0]])), 6)
    0.9
    """
    # a share has no unit: in that of the largest value no square overflows
    squares = np.square(X.data / X.data.max(), dtype=np.float64)
    ends = np.append(0.0, np.cumsum(squares))[X.indptr]
    by_user = np.sort(np.diff(ends))[::-1]
    return float(by_user[: max(1, len(by_user) // 100)].sum() / by_user.sum())


def _too_heavy(share: float, n_users: int) -> bool:
    """Beyond the limit, and far beyond what so many users would have if all were alike."""
    alike = max(1, n_users // 100) / n_users
    return share > max(_HEAVY_SHARE, 10 * alike)


def _about_rows(normalized: bool, heavy: float, *, decided: bool) -> str:
    share = f"{heavy:.0%} of the sum of squares"
    if not normalized:
        return f"Values are taken as given; the heaviest 1 % of users carry {share}."
    why = f": before, the heaviest 1 % of them carried {share}" if decided else ""
    return f"Each user's values are divided by their sum, so that every user counts alike{why}."


def _split(data: Interactions, seed: int) -> Split | None:
    """The published hold-out, where anybody has enough items for it."""
    most = int(np.diff(data.matrix.indptr).max())
    if int(_TEST * most) == 0:
        return None
    return data.holdout(test=_TEST, validation=_VALIDATION, seed=seed)


def _about_split(split: Split | None) -> str:
    if split is None:
        return (
            "No user has five items or more, so that nothing could be held out: models are "
            "fitted on everything, and there is no accuracy to report."
        )
    return (
        f"{_TEST:.0%} of each user's items are held out to measure accuracy. Everything else is "
        f"measured on the other {split.train.nnz + split.validation.nnz:,} interactions; "
        f"{_VALIDATION:.0%} of each user's items, among these, serve to choose a setting."
    )


def _about_items(sampled: int, n_items: int) -> str:
    if sampled == n_items:
        return ""
    return (
        f"Item AUC and item precision are taken of {sampled:,} of {n_items:,} items, drawn at "
        "random from each popularity group; the mean over all items weighs the groups by their "
        "size."
    )


def _about_users(split: Split | None) -> str:
    tested = 0 if split is None else int(np.count_nonzero(np.diff(split.test.matrix.indptr)))
    if tested <= _MOST_USERS:
        return ""
    return (
        f"Accuracy, coverage and Gini are those of {_MOST_USERS:,} users drawn at random from "
        f"the {tested:,} with held-out items."
    )


def _task(
    fitted: Interactions, held_out: Interactions, groups: ItemGroups, seed: int
) -> Task | None:
    """The users with something held out, or a sample of them; None where there are none."""
    users = np.flatnonzero(np.diff(held_out.matrix.indptr))
    if not len(users):
        return None
    if len(users) > _MOST_USERS:
        rng = np.random.default_rng([seed, 1])
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    ids = fitted.user_ids[users]
    return Task(fitted, fitted.select_users(ids), held_out.select_users(ids), groups)


def _auc_sample(groups: ItemGroups, n_users: int, n_ranks: int, seed: int) -> NDArray[np.intp]:
    """All items, or as many as the budget of scores allows, evenly from each group."""
    n_items = len(groups)
    size = max(_FEWEST_AUC_ITEMS, _AUC_SCORES // (n_users * n_ranks))
    if size >= n_items:
        return np.arange(n_items)
    return stratified(groups, size, np.random.default_rng([seed, 2]))


def stratified(groups: ItemGroups, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw about `size` items, as evenly from the groups as their sizes allow.

    Examples
    --------
    >>> groups = ItemGroups(("popular", "niche"), [0, 0] + [1] * 100)
    >>> drawn = stratified(groups, 10, np.random.default_rng(0))
    >>> len(drawn), drawn[:2].tolist()
    (10, [0, 1])
    """
    left, chosen = size, []
    by_size = sorted((groups.items(name) for name in groups.names), key=len)
    for position, members in enumerate(by_size):
        share = min(len(members), left // (len(by_size) - position))
        chosen.append(rng.choice(members, share, replace=False))
        left -= share
    return np.sort(np.concatenate(chosen)).astype(np.intp)


def gammas_with(gamma: float) -> tuple[float, ...]:
    """The γ of the slider and the one asked for, from the largest down.

    Examples
    --------
    >>> gammas_with(-0.75)
    (0.0, -0.5, -0.75, -1.0, -1.5, -2.0)
    """
    return tuple(sorted({*GAMMAS, gamma}, reverse=True))


def ranks_up_to(depth: int, *more: int) -> tuple[int, ...]:
    """1, 2, 4, … up to the depth, and others, in rising order.

    Examples
    --------
    >>> ranks_up_to(20, 6)
    (1, 2, 4, 6, 8, 16)
    """
    powers: Iterable[int] = (2**i for i in range(depth.bit_length()))
    return tuple(sorted({*powers, *more}))


def depth_for(X: sp.csr_array, *, at_least: int) -> int:
    """How many components to look at: 1,024, or fewer where a fit would take too long.

    Halved until a fit is estimated to take no more than ten seconds, but never below
    64 (or the rank that was asked for).
    """
    n_items = int(X.shape[1])
    depth = _DEEPEST
    while depth > _SHALLOWEST and _fit_seconds(X, min(depth, n_items)) > _SECONDS_A_FIT:
        depth //= 2
    return min(n_items, max(depth, at_least))


def _fit_seconds(X: sp.csr_array, rank: int) -> float:
    return min(estimate_seconds(X, rank).values())

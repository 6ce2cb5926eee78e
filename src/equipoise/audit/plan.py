"""What is audited, decided before anything is fitted: sizes, exponents, samples, hold-out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import DataSummary, Floats, Group
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.data.split import Split
from equipoise.evaluation.task import Task, group_items
from equipoise.metrics import ItemGroups, gini
from equipoise.spectral.solve import estimate_seconds

# Exponents of the item weights that are compared; the requested one is added.
EXPONENTS = (0.0, -0.5, -1.0, -1.5, -2.0)

# Components to compute: the first number, halved while a fit takes more seconds than the last, but
# not below the second; see `depth_for`.
_DEEPEST, _SHALLOWEST, _SECONDS_PER_FIT = 1024, 64, 10.0

# No larger size is tried on validation: lists of so many components repeat the past.
LARGEST_TRIED = 256

# Scores ranked for item AUC (users × items × sizes), and users who get lists.
_AUC_SCORES, _FEWEST_AUC_ITEMS, _MOST_USERS = 400_000_000, 300, 10_000

# Rows are divided by their sums if the heaviest hundredth of the users has a larger share of ‖X‖².
# 0/1 data stay far below (MovieLens 1M: 7 %), counts of plays are far above (Last.fm: 57 %).
_HEAVY_SHARE = 0.25

# Shares of the hold-out: the paper's protocol.
_TEST, _VALIDATION = 0.2, 0.1

# More points of the popularity curve would not be visible.
_POINTS = 201


@dataclass(frozen=True, eq=False)
class Study:
    """The prepared data; in memory, on disk or on a cluster.

    Attributes
    ----------
    data : Interactions
        All interactions, prepared.
    fitted : Interactions
        What models are fitted on and measured in-sample.
    test, validation : Task or None
        The users who get lists; None if no user has enough items to hold one out.
    groups : ItemGroups
        By popularity in `fitted`.
    popularity : ndarray of shape (n_items,)
        Norms of the columns of `fitted`.
    normalized : bool
        Whether rows were divided by their sums.
    auc_items : ndarray of int
        Columns whose item AUC and item precision are computed.
    notes : tuple of str
        What was decided.
    """

    data: Interactions
    fitted: Interactions
    test: Task | None
    validation: Task | None
    groups: ItemGroups
    popularity: Floats
    normalized: bool
    auc_items: NDArray[np.intp]
    notes: tuple[str, ...]


def prepare(
    interactions: Interactions, *, groups: str, seed: int, normalize: bool | None, n_sizes: int
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
    n_sizes : int
        At how many sizes item AUC is computed, for the size of its sample.
    """
    heavy = heavy_users_share(interactions)
    normalized = _too_heavy(heavy, interactions.n_users) if normalize is None else normalize
    data = interactions.normalize_rows() if normalized else interactions
    split = _split(data, seed)
    fitted = data if split is None else split.train_validation
    grouped = group_items(fitted, groups)
    items = _auc_sample(grouped, fitted.n_users, n_sizes, seed)
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
        fitted.popularity("norm"),
        normalized,
        items,
        tuple(note for note in notes if note),
    )


def summarize(study: Study, source: str) -> DataSummary:
    """Describe the prepared data."""
    data, groups = study.data, study.groups
    totals, fitted = data.popularity("sum"), study.fitted.popularity("sum")
    descending = np.sort(totals)[::-1]
    head = max(1, round(0.1 * data.n_items))
    shares = {name: float(fitted[groups.items(name)].sum() / fitted.sum()) for name in groups.names}
    return DataSummary(
        source=source,
        n_users=data.n_users,
        n_items=data.n_items,
        n_interactions=data.nnz,
        density=data.density,
        gini=gini(totals).value,
        head_share=float(descending[:head].sum() / descending.sum()),
        popularity_curve=popularity_curve(descending),
        groups=tuple(Group(name, groups.sizes[name], share) for name, share in shares.items()),
    )


def popularity_curve(descending: Floats) -> Floats:
    """Share of the items, most popular first, and their share of the interactions.

    Examples
    --------
    >>> popularity_curve(np.array([3.0, 1.0])).tolist()
    [[0.0, 0.0], [0.5, 0.75], [1.0, 1.0]]
    """
    n_items = len(descending)
    covered = np.append(0.0, np.cumsum(descending))
    places = np.unique(np.linspace(0, n_items, min(_POINTS, n_items + 1)).round().astype(int))
    return np.column_stack([places / n_items, covered[places] / covered[-1]])


def heavy_users_share(data: Interactions) -> float:
    """Share of ‖X‖² that the heaviest hundredth of the users (at least one) has.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> two = Interactions.from_sparse(csr_array([[3.0, 0.0], [0.0, 1.0]]))
    >>> round(heavy_users_share(two), 6)
    0.9
    """
    # relative to the largest value, no square overflows
    by_user = np.sort(np.concatenate(data.map(_squared_norms, data.largest_value())))[::-1]
    return float(by_user[: max(1, len(by_user) // 100)].sum() / by_user.sum())


def _squared_norms(block: RowBlock, unit: float) -> Floats:
    X = block.matrix
    squares = np.square(X.data / unit, dtype=np.float64)
    return np.diff(np.append(0.0, np.cumsum(squares))[X.indptr])


def _too_heavy(share: float, n_users: int) -> bool:
    """Beyond the limit, and far beyond what so many users would have if all were alike."""
    alike = max(1, n_users // 100) / n_users
    return share > max(_HEAVY_SHARE, 10 * alike)


def _about_rows(normalized: bool, heavy: float, *, decided: bool) -> str:
    share = f"{heavy:.0%} of the sum of squares"
    if not normalized:
        return f"Values are used as given; the heaviest 1 % of users have {share}."
    why = f": before, the heaviest 1 % of them had {share}" if decided else ""
    return f"Each user's values are divided by their sum, so every user has equal weight{why}."


def _split(data: Interactions, seed: int) -> Split | None:
    """Return the paper's hold-out; None if no user has enough items for it."""
    if int(_TEST * int(data.items_per_user().max())) == 0:
        return None
    return data.holdout(test=_TEST, validation=_VALIDATION, seed=seed)


def _about_split(split: Split | None) -> str:
    if split is None:
        return (
            "No user has five items or more, so nothing could be held out: models are fitted on "
            "all interactions, and there is no accuracy to report."
        )
    return (
        f"{_TEST:.0%} of each user's items are held out to measure accuracy. Everything else is "
        f"measured on the other {split.train.nnz + split.validation.nnz:,} interactions. Of these, "
        f"{_VALIDATION:.0%} of each user's items are used to choose a setting."
    )


def _about_items(sampled: int, n_items: int) -> str:
    if sampled == n_items:
        return ""
    return (
        f"Item AUC and item precision are computed for {sampled:,} of {n_items:,} items, drawn at "
        "random from each popularity group; the mean over all items weighs the groups by size."
    )


def _about_users(split: Split | None) -> str:
    tested = 0 if split is None else int(np.count_nonzero(split.test.items_per_user()))
    if tested <= _MOST_USERS:
        return ""
    return (
        f"Accuracy, coverage and Gini are measured on {_MOST_USERS:,} users, drawn at random from "
        f"the {tested:,} with held-out items."
    )


def _task(
    fitted: Interactions, held_out: Interactions, groups: ItemGroups, seed: int
) -> Task | None:
    """Return the users with held-out items, or a sample of them; None if there are none."""
    users = np.flatnonzero(held_out.items_per_user())
    if not len(users):
        return None
    if len(users) > _MOST_USERS:
        rng = np.random.default_rng([seed, 1])
        users = np.sort(rng.choice(users, _MOST_USERS, replace=False))
    if len(users) == fitted.n_users:
        return Task(fitted, fitted, held_out, groups)
    ids = fitted.user_ids[users]
    return Task(fitted, fitted.select_users(ids), held_out.select_users(ids), groups)


def _auc_sample(groups: ItemGroups, n_users: int, n_sizes: int, seed: int) -> NDArray[np.intp]:
    """Return all items, or as many as the budget of scores allows, evenly from each group."""
    n_items = len(groups)
    size = max(_FEWEST_AUC_ITEMS, _AUC_SCORES // (n_users * n_sizes))
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


def exponents_with(exponent: float) -> tuple[float, ...]:
    """Return the exponents that are compared, from the largest down.

    Examples
    --------
    >>> exponents_with(-0.75)
    (0.0, -0.5, -0.75, -1.0, -1.5, -2.0)
    """
    return tuple(sorted({*EXPONENTS, exponent}, reverse=True))


def sizes_up_to(depth: int, *more: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … up to the depth, and others, ascending.

    Examples
    --------
    >>> sizes_up_to(20, 6)
    (1, 2, 4, 6, 8, 16)
    """
    powers: Iterable[int] = (2**i for i in range(depth.bit_length()))
    return tuple(sorted({*powers, *more}))


def depth_for(data: Interactions, *, at_least: int, seconds: float = _SECONDS_PER_FIT) -> int:
    """Return how many components to compute: 1,024, or fewer if a fit would take too long.

    Halved until the estimate of a fit is at most `seconds`, but not below 64 (or the
    requested size).
    """
    depths = [_DEEPEST]
    while depths[-1] > _SHALLOWEST:
        depths.append(depths[-1] // 2)
    possible = [min(depth, data.n_items) for depth in depths]
    estimates = data.total(_fit_seconds, possible)
    fast = [depth for depth, each in zip(depths, estimates, strict=True) if each <= seconds]
    return min(data.n_items, max([*fast, _SHALLOWEST][0], at_least))


def _fit_seconds(block: RowBlock, sizes: list[int]) -> Floats:
    return np.array([min(estimate_seconds(block.matrix, size).values()) for size in sizes])

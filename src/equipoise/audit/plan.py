"""What is audited, decided before anything is fitted: rows, samples, sizes, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from timeit import repeat
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import DataSummary, Floats, Group
from equipoise.data import block_ops
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.data.split import Split
from equipoise.evaluation.task import Task, group_items
from equipoise.metrics import ItemGroups, gini
from equipoise.models.user_rows import has_different_values
from equipoise.parallel import one_blas_thread
from equipoise.spectral.solve import estimate_seconds

Depth = Literal["quick", "standard", "deep"]
DEPTHS: tuple[Depth, ...] = get_args(Depth)


class Effort(NamedTuple):
    """How much is computed at a depth.

    Attributes
    ----------
    components : int
        Of each measured model at most; halved while a fit takes more than `seconds_per_fit`.
    seconds_per_fit, search_seconds : float
        By estimate, not by a clock: equal input gives equal findings on every machine.
    users, search_users : int
        Users who get lists, in the test and in the search.
    list_scores : int
        Scores of the lists in the test, at one size; of a large catalog, down to half of the
        `users` get lists.
    auc_scores : int
        Scores ranked for item AUC: users × items × sizes.
    sizes : tuple of int
        Numbers of components that are measured, in addition to the audited ones.
    exponents : tuple of float
        Exponents of the item weights that are measured, in addition to the best one.
    listed_items : int
        Items that the report lists with their neighbors, at most.
    every_model : bool
        Whether the search tries every model with all preparations; see `Search`.
    """

    components: int
    seconds_per_fit: float
    search_seconds: float
    users: int
    search_users: int
    list_scores: int
    auc_scores: int
    sizes: tuple[int, ...]
    exponents: tuple[float, ...]
    listed_items: int
    every_model: bool = False

    def users_among(self, n_items: int) -> int:
        """Return how many users get lists in the test, at most."""
        return max(self.users // 2, min(self.users, self.list_scores // max(1, n_items)))


EFFORTS: Mapping[Depth, Effort] = {
    "quick": Effort(64, 0.5, 3.0, 1_000, 500, 10_000_000, 10_000_000, (8, 32), (-1.0,), 4_000),
    "standard": Effort(
        components=192,
        seconds_per_fit=0.7,
        search_seconds=8.0,
        users=4_000,
        search_users=1_000,
        list_scores=40_000_000,
        auc_scores=60_000_000,
        sizes=(2, 8, 32, 128),
        exponents=(-1.0,),
        listed_items=6_000,
    ),
    "deep": Effort(
        components=1024,
        seconds_per_fit=10.0,
        search_seconds=300.0,
        users=10_000,
        search_users=10_000,
        list_scores=1_000_000_000,
        auc_scores=400_000_000,
        sizes=tuple(2**i for i in range(11)),
        exponents=(-0.5, -1.0, -1.5, -2.0),
        listed_items=20_000,
        every_model=True,
    ),
}

# A measured model has at least so many components, however long a fit takes.
_FEWEST_COMPONENTS = 64

# Item AUC is measured on at least so many items.
_FEWEST_AUC_ITEMS = 300

# Shares of the hold-out: the paper's protocol.
_TEST, _VALIDATION = 0.2, 0.1

# Of ALS as a baseline: the defaults of implicit and of `WeightedMF`.
ALS_RANK, ALS_ITERATIONS = 64, 15

# Of ALS while a shorter search compares settings, which are then fitted with all iterations. On
# Last.fm, its best NDCG after 8 iterations is within 0.5 % of that after 15, others within 2 %.
ALS_SEARCH_ITERATIONS = 8

# CPU seconds of an audit of the smallest data: loading code, re-ranking, and the page. And how much
# faster two idle cores are than one: models are fitted side by side, but steps wait for each other.
# CPU times of the five sets of the benchmark are 0.7 to 1.2 times the estimate on an AMD EPYC.
_START, _SPEEDUP = 1.7, 1.6

# CPU seconds of a search and of a measured fit, relative to the estimates that decide what is
# tried: those leave out checks and what only first calls need.
_SEARCH_FACTOR, _FIT_FACTOR = 0.8, 1.4

# Milliseconds of `relative_time` on the machine where these constants were measured, an AMD EPYC:
# products of matrices, look-ups in memory, and Python. And the share of each in an audit.
_REFERENCE_MS, _SHARES = (2.2, 1.2, 1.7), (0.5, 0.25, 0.25)

# CPU seconds per interaction to split the data and to count.
_PER_INTERACTION = 5e-7

# More points of the popularity curve would not be visible.
_POINTS = 201


class Preparation(NamedTuple):
    """How rows are prepared before a model sees them: two parameters of the models."""

    value_transform: str | None = None
    user_scaling: float = 0.0

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Preparation:
        """Return the preparation of a setting."""
        own = {name: settings[name] for name in cls._fields if name in settings}
        return cls(**own)

    def settings(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        return {k: v for k, v in self._asdict().items() if v != self._field_defaults[k]}

    def __str__(self) -> str:
        """Return the preparation in words.

        Examples
        --------
        >>> print(Preparation(), Preparation("binary", 0.5), sep="; ")
        values as given; 0/1 values, user scaling 0.5
        """
        values = {
            None: "values as given",
            "binary": "0/1 values",
            "log1p": "log(1 + value)",
            "shares": "shares of each user's sum",
        }[self.value_transform]
        return f"{values}, user scaling {self.user_scaling:g}" if self.user_scaling else values


AS_GIVEN = Preparation()

# The most different first: where time is short, the last ones are left out.
_PREPARATIONS = (
    AS_GIVEN,
    Preparation("binary"),
    Preparation("binary", 0.5),
    Preparation("log1p"),
    Preparation("shares"),
    Preparation("log1p", 0.5),
    Preparation(None, 0.5),
)
# Of equal values only the scaling of users makes a difference; shares are scaling by 1.
_OF_EQUAL_VALUES = (AS_GIVEN, Preparation(None, 0.5), Preparation("shares"))


def preparations(data: Interactions) -> tuple[Preparation, ...]:
    """Return the preparations that differ on these data.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> [str(each) for each in preparations(Interactions.from_sparse(csr_array([[1.0, 1.0]])))]
    ['values as given', 'values as given, user scaling 0.5', "shares of each user's sum"]
    """
    return _PREPARATIONS if has_different_values(data) else _OF_EQUAL_VALUES


@dataclass(frozen=True, eq=False)
class Study:
    """The data and the samples; in memory, on disk or on a cluster.

    Attributes
    ----------
    data : Interactions
        All interactions.
    fitted : Interactions
        What all models, ours and the given ones, are fitted on and measured in-sample on.
    test, validation : Task or None
        Users with held-out items, for accuracy; None if no user has enough items.
    served : Task
        Users whose lists show what is exposed: `test`, or users with all their items if given
        models have seen those.
    groups : ItemGroups
        By number of users in `fitted`.
    popularity : ndarray of shape (n_items,)
        Number of users in `fitted`.
    auc_items : ndarray of int
        Columns whose item AUC and item precision are computed.
    listed_items : int
        How many items the report lists, at most.
    notes : tuple of str
        What was decided.
    """

    data: Interactions
    fitted: Interactions
    test: Task | None
    validation: Task | None
    served: Task
    groups: ItemGroups
    popularity: Floats
    auc_items: NDArray[np.intp]
    listed_items: int
    notes: tuple[str, ...]

    @property
    def given_are_tested(self) -> bool:
        """Whether given models did not see the held-out items."""
        return self.test is not None and self.test.fitted is self.fitted


def prepare(
    data: Interactions | Split,
    *,
    models_given: bool,
    groups: str,
    seed: int,
    effort: Effort,
    n_sizes: int,
) -> Study:
    """Decide which rows models are fitted and measured on, split and sample.

    Parameters
    ----------
    data : Interactions or Split
        Interactions are split here.
    models_given : bool
        Given models are fitted on the training part of a Split, else on all interactions; ours
        are then measured in-sample on the same rows.
    groups : {"interactions", "items"}
        The rule of the popularity groups.
    seed : int
        Of the hold-out and of the samples.
    effort : Effort
        The sizes of the samples.
    n_sizes : int
        At how many sizes item AUC is computed, for the size of its sample.
    """
    split = data if isinstance(data, Split) else _split(data, seed)
    whole = _union(data) if isinstance(data, Split) else data
    own_split = isinstance(data, Split)
    if split is None:
        learned = fitted = whole
    else:
        learned = split.train if own_split and models_given else split.train_validation
        fitted = whole if models_given and not own_split else learned
    grouped = group_items(fitted.binarize(), groups)
    test = validation = None
    most = effort.users_among(fitted.n_items)
    if split is not None:
        seen = learned if split.history is None else split.history
        test = _task(learned, seen, split.test, grouped, most, seed)
        seen = split.seen_before_validation
        validation = _task(split.train, seen, split.validation, grouped, effort.search_users, seed)
    served = test if test is not None and learned is fitted else None
    served = served or _everyone(fitted, grouped, most, seed)
    items = _auc_sample(grouped, fitted.n_users, n_sizes, effort.auc_scores, seed)
    notes = [
        _about_split(split, learned, own_split),
        _about_rows(models_given, split is not None and learned is not fitted),
        _about_items(len(items), len(grouped)),
        _about_users(test, split, most),
    ]
    return Study(
        whole,
        fitted,
        test,
        validation,
        served,
        grouped,
        fitted.popularity("count"),
        items,
        effort.listed_items,
        tuple(note for note in notes if note),
    )


def summarize(study: Study, source: str) -> DataSummary:
    """Describe the data; popularity is the number of users."""
    data, groups = study.data, study.groups
    totals, fitted = data.popularity("count"), study.popularity
    descending = np.sort(totals)[::-1].astype(np.float64)
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


def _split(data: Interactions, seed: int) -> Split | None:
    """Return the paper's hold-out; None if no user has enough items for it."""
    if int(_TEST * int(data.items_per_user().max())) == 0:
        return None
    return data.holdout(test=_TEST, validation=_VALIDATION, seed=seed)


def _union(split: Split) -> Interactions:
    """Return all parts of a split as one table."""
    parts = (split.validation, split.test, *(() if split.history is None else (split.history,)))
    return split.train.transform(block_ops.union, each=split.train.blocks_of(*parts))


def _about_split(split: Split | None, learned: Interactions, given: bool) -> str:
    if split is None:
        return (
            "No user has five items or more, so nothing could be held out: models are fitted on "
            "all interactions, and there is no accuracy to report."
        )
    if given:
        part = "the training part" if learned is split.train else "training and validation part"
        return (
            f"The split is the given one. Models are fitted and measured in-sample on {part} "
            f"({learned.nnz:,} interactions), settings are chosen on the validation part "
            f"({split.validation.nnz:,}), and accuracy is measured on the test part "
            f"({split.test.nnz:,})."
        )
    return (
        f"{_TEST:.0%} of each user's items are held out to measure accuracy, and {_VALIDATION:.0%} "
        f"to choose settings. Models that are tested are fitted on the other {learned.nnz:,} "
        "interactions."
    )


def _about_rows(models_given: bool, refitted: bool) -> str:
    if not (models_given and refitted):
        return ""
    return (
        "Given models are taken as fitted on all interactions. Ours are fitted on all "
        "interactions, too, for self-reconstruction, error, item AUC and exposure. Given models "
        "have seen the held-out items, so their accuracy is left empty: pass a Split (--train, "
        "--validation, --test) and a model that was fitted on its training part."
    )


def _about_items(sampled: int, n_items: int) -> str:
    if sampled == n_items:
        return ""
    return (
        f"Item AUC and item precision are computed for {sampled:,} of {n_items:,} items, drawn at "
        "random from each popularity group; the mean over all items weighs the groups by size."
    )


def _about_users(test: Task | None, split: Split | None, most: int) -> str:
    tested = 0 if split is None else int(np.count_nonzero(split.test.items_per_user()))
    if test is None or tested <= most:
        return ""
    return (
        f"Lists are measured on {most:,} users, drawn at random from the {tested:,} with held-out "
        "items."
    )


def _task(
    fitted: Interactions,
    seen: Interactions,
    held_out: Interactions,
    groups: ItemGroups,
    most: int,
    seed: int,
) -> Task | None:
    """Return the users with held-out items, or a sample of them; None if there are none."""
    users = np.flatnonzero(held_out.items_per_user())
    if not len(users):
        return None
    if len(users) > most:
        users = np.sort(np.random.default_rng([seed, 1]).choice(users, most, replace=False))
    if len(users) == fitted.n_users:
        return Task(fitted, seen, held_out, groups)
    ids = seen.user_ids[users]
    return Task(fitted, seen.select_users(ids), held_out.select_users(ids), groups)


def _everyone(fitted: Interactions, groups: ItemGroups, most: int, seed: int) -> Task:
    """Return users with all their items: nothing is held out."""
    users = np.flatnonzero(fitted.items_per_user())
    drawn = np.random.default_rng([seed, 1]).choice(users, min(most, len(users)), replace=False)
    seen = fitted.select_users(fitted.user_ids[np.sort(drawn)])
    return Task(fitted, seen, seen.transform(_emptied), groups)


def _emptied(block: RowBlock) -> RowBlock:
    return block_ops.kept(block, np.zeros(block.matrix.nnz, dtype=bool))


def _auc_sample(
    groups: ItemGroups, n_users: int, n_sizes: int, scores: int, seed: int
) -> NDArray[np.intp]:
    """Return all items, or as many as the budget of scores allows, evenly from each group."""
    n_items = len(groups)
    size = max(_FEWEST_AUC_ITEMS, scores // (n_users * n_sizes))
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


def depth_for(data: Interactions, *, at_least: int, effort: Effort) -> int:
    """Return how many components to compute: those of the effort, or fewer if a fit takes too long.

    Halved until the estimate of a fit is short enough, but not below 64 (or the requested size).
    """
    depths = [effort.components]
    while depths[-1] > _FEWEST_COMPONENTS:
        depths.append(max(_FEWEST_COMPONENTS, depths[-1] // 2))
    estimates = fit_seconds(data, depths)
    fast = [d for d, each in zip(depths, estimates, strict=True) if each <= effort.seconds_per_fit]
    return min(data.n_items, max([*fast, _FEWEST_COMPONENTS][0], at_least))


def estimate_audit(data: Interactions | Split, depth: Depth, budget: float | None, n: int) -> float:
    """Estimate the seconds of an audit with n given models, on two idle cores of this machine.

    The constants were measured on the data sets of the guide, in CPU seconds of one thread.
    """
    effort = EFFORTS[depth]
    rows = data.train if isinstance(data, Split) else data
    n_users, n_items = rows.n_users, rows.n_items
    users, sizes = min(n_users, effort.users_among(n_items)), len(effort.sizes) + 2
    seconds = effort.search_seconds if budget is None else budget
    search = _search_seconds(rows, effort, seconds)
    # a search that ends within its time has tried larger ranks, and may have chosen one
    reached = min(n_items, 128 if search < seconds else 1)
    full, small = fit_seconds(rows, [depth_for(rows, at_least=reached, effort=effort), 32])
    models = len(effort.exponents) + 3 + n
    scored = max(
        _FEWEST_AUC_ITEMS * n_users * sizes, min(effort.auc_scores, n_users * n_items * sizes)
    )
    listed = min(n_items, effort.listed_items)
    per_model = (
        2.4e-9 * scored + 5e-9 * users * n_items + 2.4e-9 * listed**2 + 8e-6 * (n_items + users)
    )
    fits = _FIT_FACTOR * models * full * (2 if n and not isinstance(data, Split) else 1)
    others = _START + _PER_INTERACTION * rows.nnz + 2 * full + 3 * small
    in_all = others + fits + models * per_model + _SEARCH_FACTOR * search
    return relative_time() * in_all / _SPEEDUP


@cache
def relative_time() -> float:
    """Return the time of one core of this machine relative to the machine of the constants.

    It is measured once per process, in about 20 ms. The fastest of three short runs counts, so
    other work on the machine hardly matters.
    """
    rng = np.random.default_rng(0)
    A, values = rng.standard_normal((192, 192)), np.ones(1_000_000)
    product, chosen = np.empty_like(A), rng.integers(0, len(values), 300_000)

    def multiply() -> None:
        for _ in range(10):
            np.matmul(A, A, out=product)

    def look_up() -> None:
        values[chosen].sum()

    def count() -> None:
        totals: dict[int, int] = {}
        for i in range(30_000):
            totals[i % 97] = totals.get(i % 97, 0) + i

    with one_blas_thread():
        measured = [min(repeat(run, number=1, repeat=3)) for run in (multiply, look_up, count)]
    parts = zip(_SHARES, measured, _REFERENCE_MS, strict=True)
    return sum(share * 1000 * seconds / reference for share, seconds, reference in parts)


def _search_seconds(rows: Interactions, effort: Effort, budget: float) -> float:
    """Estimate what the search spends of its budget: PCAs first, then EASE and ALS."""
    small, large = fit_seconds(rows, [32, 128])
    lists = 6e-9 * min(rows.n_users, effort.search_users) * rows.n_items
    first = (2 + effort.every_model) * (small + lists)  # values as given are always tried
    different = preparations(rows)
    tried = [one for one in different if effort.every_model or not one.user_scaling]
    n = len(tried) + (len(tried) < len(different))
    spent = (n + 1) * first + 4 * (large + 3 * lists)
    for each in (ease_seconds(rows), als_seconds(rows)):
        several = 4 * (each + lists)
        if spent + several <= budget:
            spent += several
    return max(first, min(spent, budget))


def ease_seconds(data: Interactions) -> float:
    """Estimate the seconds of one fit of EASE."""
    return 6e-11 * data.n_items**3


def als_seconds(data: Interactions) -> float:
    """Estimate the seconds of one fit of ALS."""
    per_iteration = 16 * data.nnz * ALS_RANK + 6 * (data.n_users + data.n_items) * ALS_RANK**2
    return 1.5e-10 * ALS_ITERATIONS * per_iteration


def fit_seconds(data: Interactions, sizes: Sequence[int]) -> list[float]:
    """Estimate the seconds of one fit at each number of components."""
    entries, n_items = data.items_per_user(), data.n_items
    return [min(estimate_seconds(entries, n_items, min(n, n_items)).values()) for n in sizes]

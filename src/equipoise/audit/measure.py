"""From a model to numbers: every item, every size, every group, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Floats, OwnedComponent, Variant
from equipoise.audit.formatting import MEASURES
from equipoise.audit.means import Intervals, masks, mean_intervals, named
from equipoise.audit.models.audited import AuditedModel, ItemNumbers
from equipoise.audit.plan import Study
from equipoise.evaluation.nested import NestedLists
from equipoise.evaluation.scoring import GivenLists, measure_lists
from equipoise.evaluation.task import Task
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import (
    ItemGroups,
    Result,
    Results,
    anisotropy,
    effective_rank,
    mean_by_group,
    popularity_direction,
    specialization,
)
from equipoise.metrics.groups import nan_mean, ratio
from equipoise.metrics.intervals import Interval
from equipoise.metrics.metric import Metric, Request
from equipoise.metrics.registry import parse_metrics
from equipoise.metrics.results import ALL

# Metrics that need held-out items, and metrics of the lists alone.
ACCURACY, EXPOSURE = ("recall", "ndcg", "precision", "mrr"), ("arp", "aplt", "coverage", "gini")
LIST_METRICS = (*ACCURACY, *EXPOSURE)
ITEM_METRICS = (
    "specialization",
    "self_reconstruction",
    "item_error",
    "item_auc",
    "item_precision",
)

_N_NEIGHBORS = 10

Rows = list[tuple[int, Result]]  # with the positions of their sizes


class Subject(NamedTuple):
    """A model to measure.

    Attributes
    ----------
    model : AuditedModel
        Fitted on `Study.fitted`: for metrics of items and exposure.
    tested : AuditedModel or None
        Fitted without the held-out items: for accuracy.
    size : int
        The number of components that tables are about.
    no_accuracy : str
        Why there is no accuracy; empty if there is.
    """

    model: AuditedModel
    tested: AuditedModel | None
    size: int
    no_accuracy: str = ""


@dataclass(frozen=True, eq=False)
class Measured:
    """One variant, measured on all items; `Variant` keeps the items of the report.

    Attributes
    ----------
    subject : Subject
        The model.
    sizes : tuple of int
        The sizes.
    at : int
        Position of the subject's size, or of the largest below it.
    items : ItemNumbers
        Of all items.
    rows : tuple of Result
        Means of every metric at every size.
    intervals : mapping of metric to mapping of group to Interval
        At the subject's size.
    owners : tuple of OwnedComponent
        Components that one item owns, at the subject's size.
    lists : ndarray of shape (users, k)
        At the subject's size, of the users of `task`.
    task : Task
        The users of `lists`: those of the test, or all served users if there is no accuracy.
    """

    subject: Subject
    sizes: tuple[int, ...]
    at: int
    items: ItemNumbers
    rows: tuple[Result, ...]
    intervals: Intervals
    owners: tuple[OwnedComponent, ...]
    lists: NDArray[np.int32]
    task: Task

    @property
    def model(self) -> AuditedModel:
        """The model that is measured in-sample."""
        return self.subject.model

    @property
    def size(self) -> int:
        """The size that tables are about."""
        return self.sizes[self.at]

    def per_user(self, metric: str, size: int | None = None) -> Floats | None:
        """Return a metric of each user, by default at the size of the tables; None without."""
        rows = [row for row in self.rows if row.metric == metric]
        return rows[self.at if size is None else self.sizes.index(size)].per_user


def own_metrics(metrics: Sequence[str | Metric], k: int) -> tuple[Request, ...]:
    """Parse the metrics to add; refuse those that lists of k items cannot give."""
    requests = parse_metrics(metrics, k) if metrics else ()
    names = [one.metric.name for one in requests]
    for one in requests:
        name = one.metric.name
        if one.metric.is_item_side and name not in ITEM_METRICS:
            raise InvalidParameterError(
                f"{name} is a metric of items. Pass metrics of lists (--more-metrics)."
            )
        if name in (*ITEM_METRICS, *LIST_METRICS, *MEASURES):
            raise InvalidParameterError(
                f"the audit measures {name} itself, of lists of {k} items (-k). Pass other metrics "
                "of lists (--more-metrics)."
            )
        if names.count(name) > 1:
            raise InvalidParameterError(
                f"--more-metrics has {name} twice. Pass it once, with one cut-off."
            )
        if (one.k or 0) > k:
            raise InvalidParameterError(
                f"{one.label} is for lists of {one.k} items, and those of the audit have {k}. Use "
                f"k={one.k} (-k)."
            )
    return requests


def measure(
    subject: Subject,
    study: Study,
    common: tuple[int, ...],
    k: int,
    seed: int,
    own: tuple[Request, ...] = (),
) -> Measured:
    """Measure a model.

    Parameters
    ----------
    subject : Subject
        The model.
    study : Study
        The data.
    common : tuple of int
        The sizes of our own models.
    k : int
        Length of the lists, and of an item's list of users.
    seed : int
        Of the bootstrap.
    own : tuple of Request
        Of `own_metrics`.
    """
    model = subject.model
    sizes = model.sizes(common)
    at = max(0, int(np.searchsorted(sizes, subject.size, side="right")) - 1)
    users = min(k, study.fitted.n_users)
    items = model.measure_items(study.fitted, sizes, study.auc_items, users)
    list_rows, lists, task = _list_rows(subject, study, sizes, k, own)
    found = [*_item_rows(items, study, users), *list_rows]
    intervals = {
        **_item_intervals(items, at, model.depth, study, seed),
        **_user_intervals([row for place, row in found if place == at], seed),
    }
    diagonal, vectors = items.self_reconstruction[at], model.embeddings()
    if not np.isnan(diagonal).any():
        intervals["specialization"] = {ALL: specialization_interval(diagonal, seed)}
    if vectors is not None:
        found += _vector_rows(vectors, study, len(sizes))
        drawn = vector_intervals(vectors, study.popularity, seed)
        intervals |= {metric: {ALL: one} for metric, one in drawn.items()}
    rows = tuple(
        replace(row, model=model.label, settings={**model.settings, "n_components": sizes[place]})
        for place, row in found
    )
    owners = tuple(model.owners(min(sizes[at], model.depth)))
    return Measured(subject, sizes, at, items, rows, intervals, owners, lists[at], task)


def _vector_rows(V: Floats, study: Study, n_sizes: int) -> Rows:
    """Return how given item vectors lie, the same at every size."""
    groups, n = study.groups, len(study.groups)
    direction = popularity_direction(V, study.popularity)
    shares = mean_by_group(direction.shares[None], groups)
    numbers = {
        "popularity_cosine": direction.cosine,
        "effective_rank": effective_rank(V),
        "anisotropy": anisotropy(V),
    }
    rows = [Result(name, value, "standard", n=n) for name, value in numbers.items()]
    for group, mean in {ALL: shares.overall, **shares.by_group}.items():
        members = groups.sizes.get(group, n)
        rows.append(Result("popularity_share", float(mean[0]), "standard", None, group, members))
    return [(place, row) for place in range(n_sizes) for row in rows]


def _list_rows(
    subject: Subject, study: Study, sizes: tuple[int, ...], k: int, own: tuple[Request, ...]
) -> tuple[Rows, NDArray[np.int32], Task]:
    """Return the metrics of the lists, and the lists at every size with their users."""
    of_hits = [one for one in own if "held_out" in one.metric.needs]
    accuracy = (*parse_metrics(ACCURACY, k), *of_hits)
    exposure = (*parse_metrics(EXPOSURE, k), *(one for one in own if one not in of_hits))
    if study.served is study.test and subject.tested is subject.model:
        every = (*accuracy, *exposure)
        return *_measured_lists(subject.model, study.served, sizes, every, k), study.served
    shown, served = _measured_lists(subject.model, study.served, sizes, exposure, k)
    if subject.tested is not None and study.test is not None:
        found, tested = _measured_lists(subject.tested, study.test, sizes, accuracy, k)
        return [*found, *shown], tested, study.test
    nothing = [Result(r.metric.name, float("nan"), r.convention, r.k) for r in accuracy]
    unknown = [(place, row) for place in range(len(sizes)) for row in nothing]
    return [*unknown, *shown], served, study.served


def _measured_lists(
    model: AuditedModel, task: Task, sizes: Sequence[int], requests: Sequence[Request], k: int
) -> tuple[Rows, NDArray[np.int32]]:
    """Return metrics, and the lists, (sizes, users, k)."""
    lists = list_users(model, task, sizes, k)
    by_size = measure_lists(
        task,
        GivenLists(len(sizes)),
        requests,
        task.context(np.nan),
        per_user=True,
        given=lists.swapaxes(0, 1),
    )
    return [(place, row) for place, rows in enumerate(by_size) for row in rows], lists


def accuracy(model: AuditedModel, task: Task, size: int, k: int) -> Floats:
    """Return NDCG@k of every user with held-out items."""
    ((_, row),), _ = _measured_lists(model, task, [size], parse_metrics("ndcg", k), k)
    return np.asarray(row.per_user)


def list_users(model: AuditedModel, task: Task, sizes: Sequence[int], k: int) -> NDArray[np.int32]:
    """Return the lists of all users of a task in their order, at every size: (sizes, users, k)."""
    seen = task.seen.collect()
    own = model.for_users(seen.user_ids)
    lister = model.lister(sizes)
    # half the time of float64, and the same order but for near ties
    if isinstance(lister, NestedLists) and task.fits_float32:
        lister = lister.in_single_precision()
    return np.stack(list(lister.lists(seen.matrix, k, own)))


def _user_intervals(rows: Sequence[Result], seed: int) -> Intervals:
    """Bootstrap the means over users, all from the same draws."""
    lengths: dict[int, list[Result]] = {}
    for row in rows:
        if row.per_user is not None and len(row.per_user) > 1:
            lengths.setdefault(len(row.per_user), []).append(row)
    found: Intervals = {}
    for each in lengths.values():
        intervals = mean_intervals([np.asarray(row.per_user) for row in each], seed)
        found |= named(intervals, [row.metric for row in each], [ALL])
    return found


def _item_intervals(items: ItemNumbers, at: int, depth: int, study: Study, seed: int) -> Intervals:
    """Bootstrap the means over items, group by group, all from the same draws."""
    to_half = np.where(np.isinf(items.components_to_half), depth, items.components_to_half)
    whole = {
        "self_reconstruction": items.self_reconstruction[at],
        "item_error": items.error[at],
        "components_to_half": to_half,
    }
    sampled = {"item_auc": items.auc[at], "item_precision": items.precision[at]}
    groups = study.groups
    found: Intervals = {}
    for values, sample in ((whole, np.arange(len(groups))), (sampled, study.auc_items)):
        intervals = mean_intervals(list(values.values()), seed, _weights(groups, sample))
        found |= named(intervals, list(values), (*groups.names, ALL))
    return found


def _weights(groups: ItemGroups, sample: NDArray[np.intp]) -> sp.csr_array:
    """Return which sampled items are in which group, and what each counts in the mean of all.

    A sample may contain a different share of each group: in the mean of all, an item stands for as
    many as there are per sampled one of its group.
    """
    members = sp.csr_array(groups.membership[sample])
    share = np.array(list(groups.sizes.values())) / np.maximum(1, members.sum(axis=0))
    return sp.csr_array(sp.hstack([members, sp.csr_array((members @ share)[:, None])]))


def _item_rows(items: ItemNumbers, study: Study, k: int) -> Iterator[tuple[int, Result]]:
    """Yield the means of the metrics of items with the positions of their sizes."""
    groups, sample = study.groups, study.auc_items
    every = np.arange(len(groups))
    tables = (
        ("self_reconstruction", None, items.self_reconstruction, every),
        ("item_error", None, items.error, every),
        ("item_auc", None, items.auc, sample),
        ("item_precision", k, items.precision, sample),
    )
    for place, diagonal in enumerate(items.self_reconstruction):
        known = not np.isnan(diagonal).any()
        value = float(specialization(diagonal)) if known else float("nan")
        yield place, Result("specialization", value, "standard", n=len(groups))
    for metric, cutoff, values, chosen in tables:
        members = masks(groups, chosen)
        for group, means in means_by_group(values, groups, chosen).items():
            for place, value in enumerate(means):
                n = int((~np.isnan(values[place, members[group]])).sum())
                yield place, Result(metric, float(value), "standard", cutoff, group, n)


def means_by_group(
    values: Floats, groups: ItemGroups, sample: NDArray[np.intp]
) -> dict[str, Floats]:
    """Return means over all items and by group from a sample, at every size; see `_weights`."""
    weights, known = _weights(groups, sample), ~np.isnan(values)
    means = ratio(np.where(known, values, 0.0) @ weights, known @ weights)
    return dict(zip((*groups.names, ALL), means.T, strict=True))


def to_variant(
    measured: Measured, study: Study, columns: NDArray[np.int64], *, neighbors: bool
) -> Variant:
    """Keep the items of the report.

    Parameters
    ----------
    measured : Measured
        All items.
    study : Study
        For the groups.
    columns : ndarray of int
        The items of the report.
    neighbors : bool
        Find the neighbors of the items, which takes longest.
    """
    model, items, groups = measured.model, measured.items, study.groups
    auc = np.full(len(groups), np.nan)
    auc[study.auc_items] = items.auc[measured.at]
    position = {int(column): place for place, column in enumerate(columns)}
    never = np.isinf(items.components_to_half)
    counted = np.where(never, float(model.depth), items.components_to_half)
    members = masks(groups).items()
    near = np.empty((len(columns), 0), dtype=np.int32)
    if neighbors:
        near = model.similar(columns, measured.size, _N_NEIGHBORS)
    owners = sorted(
        measured.owners, key=lambda owner: (-study.popularity[owner.item], owner.component)
    )
    return Variant(
        key=model.key,
        label=model.label,
        kind=model.kind,
        settings=model.settings,
        size=measured.size,
        sizes=measured.sizes,
        results=Results(tuple(replace(row, per_user=None) for row in measured.rows)),
        intervals=measured.intervals,
        no_accuracy=measured.subject.no_accuracy,
        components_to_half={name: float(nan_mean(counted[inside])) for name, inside in members},
        not_halved={name: int(never[inside].sum()) for name, inside in members},
        depth=model.depth,
        owned=tuple(replace(each, item=position[each.item]) for each in owners),
        self_reconstruction_by_item=items.self_reconstruction[:, columns],
        error_by_item=items.error[:, columns],
        auc_by_item=auc[columns],
        components_to_half_by_item=items.components_to_half[columns],
        neighbors=near,
    )


# Numbers that are not means over items, specialization and how item vectors lie, are computed again
# for each draw of items with replacement. Of so many draws, the error of a standard deviation, of
# which an interval has 1.96 on each side, is about 7 %.
DRAWS = 100

# Entries drawn at a time: 32 MB.
_AT_ONCE = 2**22

# Shorter directions are rounding: squares of singular values, relative to the largest.
_NOTHING_BELOW = 1e-14


def specialization_interval(diagonal: Floats, seed: int) -> Interval:
    """Return the specialization of self-reconstructions with its interval.

    Examples
    --------
    >>> specialization_interval(np.full(50, 0.25), seed=0).high
    0.25
    """
    n, rng = len(diagonal), np.random.default_rng([seed, 7])
    rows = max(1, _AT_ONCE // n)
    found = [
        np.atleast_1d(specialization(diagonal[rng.integers(n, size=(min(rows, DRAWS - at), n))]))
        for at in range(0, DRAWS, rows)
    ]
    return _around(float(specialization(diagonal)), np.concatenate(found), n)


def vector_intervals(V: Floats, popularity: Floats, seed: int) -> dict[str, Interval]:
    """Return the four numbers of item vectors with their intervals; nothing without two items.

    A draw is a count of each item. All four numbers follow from VᵀV and sums, weighted by counts:
    see `equipoise.metrics.embeddings` for the definitions.

    Parameters
    ----------
    V : ndarray of shape (n_items, r)
        Item vectors.
    popularity : ndarray of shape (n_items,)
        Number of users of each item.
    seed : int
        Same seed, same intervals.
    """
    n, rng = len(V), np.random.default_rng([seed, 8])
    if n < 2:
        return {}
    counts = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    point, *drawn = (_numbers(V, popularity, count) for count in (np.ones(n, dtype=int), *counts))
    return {
        name: _around(value, np.array([each[name] for each in drawn]), n)
        for name, value in point.items()
    }


@np.errstate(divide="ignore", invalid="ignore")  # draws without any vector have no numbers
def _numbers(V: Floats, popularity: Floats, count: NDArray[np.int_]) -> dict[str, float]:
    squares, directions = np.linalg.eigh((V * count[:, None]).T @ V)
    along, lengths = V @ directions[:, -1], np.einsum("ij,ij->i", V, V)
    cosine = (count @ (along * popularity)) / np.sqrt((count @ along**2) * (count @ popularity**2))
    known = lengths > 0
    c, unit = count[known], V[known] / np.sqrt(lengths[known])[:, None]
    total, twice = c @ unit, c @ c
    sigma = np.sqrt(squares[squares > _NOTHING_BELOW * squares[-1]])
    q = sigma / sigma.sum()
    return {
        "popularity_cosine": float(abs(cosine)),
        "popularity_share": float(c @ (along[known] ** 2 / lengths[known]) / c.sum()),
        "effective_rank": float(np.exp(-(q @ np.log(q)))),
        # pairs of an item with itself, also if it is drawn twice, are left out
        "anisotropy": float((total @ total - twice) / (c.sum() ** 2 - twice)),
    }


def _around(value: float, drawn: Floats, n: int) -> Interval:
    spread = 1.96 * float(np.nanstd(drawn, ddof=1))
    return Interval(value, value - spread, value + spread, 0.95, n)

"""What the data support: findings against shuffled data with as many items and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from equipoise.audit.findings import DataSummary, Entry, Evidence, Floats, Variant
from equipoise.audit.formatting import between, three
from equipoise.audit.means import masks
from equipoise.audit.plan import Study, stratified
from equipoise.audit.search import WEIGHTED
from equipoise.metrics.collaboration import item_auc
from equipoise.metrics.intervals import Interval
from equipoise.metrics.results import ALL
from equipoise.models.registry import find_model

# Users and items of the sample on which chance is measured, its largest rank, and shuffles.
_USERS, _ITEMS, _RANK, _SHUFFLES = 2_000, 400, 32, 2

# After so many rounds of exchanges the few pairs that are still there twice are dropped.
_MOST_ROUNDS = 100

# An excess is stated from so many standard errors on. On noise a normal number is larger once in
# 30,000 times; smaller thresholds would state something in one of a few hundred audits.
_STANDARD_ERRORS = 4.0

# A smaller excess of item AUC is not worth a statement, however certain it is.
_SMALLEST_EXCESS = 0.02

# Groups with fewer items are too small to say anything about.
FEWEST_ITEMS = 5


# Smaller differences of shares are not worth a statement, however certain they are.
_SMALLEST_DIFFERENCE = 0.05

# A gain is stated if its interval is this far from zero, in half widths: 99.9 % instead of 95 %.
# Of noise, one audit in a thousand would still state one.
_FURTHER = 1.7

POPULAR, NICHE = "popular", "niche"


class Structure(NamedTuple):
    """How well other items predict who has an item, in the data and in shuffled data.

    Attributes
    ----------
    found : Interval
        Mean item AUC of the sampled items.
    shuffled : float
        The same in shuffled data.
    exceeds : bool
        Whether the data exceed the shuffled ones, item by item.
    """

    found: Interval
    shuffled: float
    exceeds: bool


def structure(study: Study, seed: int) -> dict[str, Structure]:
    """Compare the data with shuffled data, for all items and by popularity group.

    Item-Weighted PCA is fitted on a sample of users, as it is and shuffled. The shuffled sample
    has the same number of items per user and of users per item, so items are compared in pairs.
    Only who has what counts, not the values.
    """
    rng = np.random.default_rng([seed, 5])
    fitted = study.fitted
    users = np.flatnonzero(fitted.items_per_user())
    drawn = np.sort(rng.choice(users, min(_USERS, len(users)), replace=False))
    X = sp.csr_array(fitted.select_users(fitted.user_ids[drawn]).binarize().collect().matrix)
    items = stratified(study.groups, min(_ITEMS, len(study.groups)), rng)
    # few users have few of the items of a large catalog; the others take no part in a fit
    known = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))
    X, items = X[:, known], np.intersect1d(items, known)
    places = np.searchsorted(known, items)
    real = _auc(X, places)
    null = np.mean([_auc(shuffled(X, rng), places) for _ in range(_SHUFFLES)], axis=0)
    members = masks(study.groups, items).items()
    return {name: _compared(real[chosen], null[chosen]) for name, chosen in members}


def _compared(real: Floats, null: Floats) -> Structure:
    known = ~np.isnan(real - null)
    real, null, n = real[known], null[known], int(known.sum())
    mean, chance = (float(each.mean()) if n else np.nan for each in (real, null))
    if n < FEWEST_ITEMS:
        return Structure(Interval(mean, np.nan, np.nan, n_users=n), chance, exceeds=False)
    excess = real - null
    error, spread = (float(each.std(ddof=1) / np.sqrt(n)) for each in (excess, 1.96 * real))
    beyond = max(_STANDARD_ERRORS * error, _SMALLEST_EXCESS)
    found = Interval(mean, mean - spread, mean + spread, n_users=n)
    return Structure(found, chance, exceeds=bool(excess.mean() > beyond))


def _auc(X: sp.csr_array, items: np.ndarray) -> Floats:
    rank = min(_RANK, min(X.shape))
    model = find_model(WEIGHTED).make(n_components=rank).for_search()
    fitted = model.fit(X)
    found = item_auc(X, fitted.components_.T, items=items, inputs=fitted.preprocess(X))
    return np.asarray(found, dtype=np.float64)


def shuffled(X: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Return random data with as many entries in every row and column, and the values of each row.

    Columns of all entries are permuted. An entry that is there twice exchanges its column with that
    of a random other entry, if both are then in free cells, until none is there twice. On data too
    dense for this, what is still there twice after many rounds is left out.

    Examples
    --------
    >>> X = sp.csr_array(np.eye(6) + np.eye(6, k=1))
    >>> Y = shuffled(X, np.random.default_rng(0))
    >>> Y.sum(axis=0).tolist(), Y.sum(axis=1).tolist()
    ([1.0, 2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0, 1.0])
    """
    n_items = X.shape[1]
    users = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    items = X.indices[rng.permutation(X.nnz)].astype(np.int64)
    twice = np.flatnonzero(_repeated(users * n_items + items))
    # cells that an exchange has left count as taken: a sorted list stays valid
    first, later = np.sort(users * n_items + items), np.zeros(0, np.int64)
    for _ in range(_MOST_ROUNDS):
        if not len(twice):
            break
        others = rng.integers(X.nnz, size=len(twice))
        cells = users[[twice, others]] * n_items + items[[others, twice]]
        wrong = _contains(first, cells) | _contains(later, cells)
        wrong |= _repeated(cells.ravel()).reshape(cells.shape)
        good = ~(wrong.any(axis=0) | _repeated(others) | _contains(twice, others))
        one, other = twice[good], others[good]
        items[one], items[other] = items[other], items[one]
        later = np.sort(np.append(later, np.sort(cells[:, good], axis=None)), kind="stable")
        twice = twice[~good]
    kept = np.ones(X.nnz, dtype=bool)
    kept[twice] = False
    entries = (X.data[kept], (users[kept], items[kept]))
    return sp.csr_array(entries, shape=X.shape)


def _contains(ascending: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mark values that are among the sorted ones."""
    if not len(ascending):
        return np.zeros(values.shape, dtype=bool)
    return np.asarray(ascending.take(ascending.searchsorted(values), mode="clip") == values)


def _repeated(keys: np.ndarray) -> np.ndarray:
    """Mark entries whose key occurs earlier."""
    order = np.argsort(keys, kind="stable")
    found = np.zeros(len(keys), dtype=bool)
    found[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return found


def better(entry: Entry) -> bool:
    """Whether a model is better than the subject beyond chance."""
    return entry.gain is not None and _above_zero(entry.gain)


def _above_zero(gain: Interval, half_widths: float = _FURTHER) -> bool:
    return gain.mean - half_widths * (gain.mean - gain.low) > 0


def is_below(interval: Interval, limit: float) -> bool:
    """Whether a number is below a limit beyond chance, also if it is the least of several."""
    return interval.mean + _FURTHER * (interval.high - interval.mean) < limit


def weigh(
    subject: Variant,
    pca: Variant,
    chance: Mapping[str, Structure],
    data: DataSummary,
    contest: Sequence[Entry],
) -> tuple[Evidence, ...]:
    """Decide which findings the data support.

    Parameters
    ----------
    subject : Variant
        The audited model.
    pca : Variant
        PCA with the best preparation of rows.
    chance : mapping of group to Structure
        How well other items predict who has an item, in the data and in shuffled data.
    data : DataSummary
        For the sizes of the groups.
    contest : sequence of Entry
        The subject, then the other models by their accuracy on validation.
    """
    sizes = {group.name: group.n_items for group in data.groups}
    overall = chance[ALL]
    exists = overall.exceeds or _beats_popularity(contest)
    reason = "" if exists else _no_structure(overall)
    found = [_evidence("structure", overall.found, reason, overall.shuffled)]

    def difference(name: str, metric: str, first: str, second: str, group: str) -> None:
        one, other = (subject.intervals.get(metric, {}).get(g) for g in (first, second))
        if one is None or other is None:
            return
        value = _minus(one, other)
        why = ""
        small = [g for g in (first, second) if sizes[g] < FEWEST_ITEMS]
        if small:
            why = f"there are only {sizes[small[0]]} {small[0]} items, too few to say"
        elif not (exists if group == ALL else chance[group].exceeds):
            why = _no_structure(chance[group])
        elif not value.low > _SMALLEST_DIFFERENCE:
            why = f"the difference is {between(value)}"
        found.append(_evidence(name, value, why))

    difference("niche", "item_error", NICHE, POPULAR, NICHE)
    difference("memorized", "self_reconstruction", POPULAR, NICHE, ALL)
    found += _of_preparation(subject, pca, reason)
    gain = contest[1].gain if len(contest) > 1 else None
    if gain is not None:
        why = "" if _above_zero(gain) else f"the difference is {between(gain)}"
        found.append(_evidence("accuracy", gain, why))
    return tuple(found)


def _beats_popularity(contest: Sequence[Entry]) -> bool:
    """Whether a model finds more held-out items than the most popular items do, beyond chance.

    Then items predict each other, also where most have so few users that shuffled data fit as
    well.
    """
    popular = next((each.test for each in contest if each.model == "popularity"), None)
    best = next((each.test for each in contest[1:] if each.model != "popularity"), None)
    if popular is None or best is None:
        return False
    return _above_zero(_minus(best, popular), _STANDARD_ERRORS / 1.96)


def _of_preparation(subject: Variant, pca: Variant, reason: str) -> list[Evidence]:
    """Whether components that single items own are due to the values."""
    owned, other = (len(each.owned) / each.size for each in (subject, pca))
    why = reason or ("" if owned else "no component belongs to a single item")
    found = [_evidence("owned", Interval(owned, owned, owned), why)]
    if subject.kind == "as-given":
        saved = owned - other
        why = why or ("" if saved > _SMALLEST_DIFFERENCE else "the preparation changes little")
        found.append(_evidence("preparation", Interval(saved, saved, saved), why))
    return found


def _evidence(name: str, value: Interval, why_not: str, shuffled: float = np.nan) -> Evidence:
    return Evidence(name, value, shuffled, not why_not, why_not)


def _minus(one: Interval, other: Interval) -> Interval:
    """Return the difference of two independent means."""
    below = np.hypot(one.mean - one.low, other.high - other.mean)
    above = np.hypot(one.high - one.mean, other.mean - other.low)
    mean = one.mean - other.mean
    n = min(one.n_users, other.n_users)
    return Interval(mean, float(mean - below), float(mean + above), one.confidence, n)


def _no_structure(chance: Structure) -> str:
    if chance.found.n_users < FEWEST_ITEMS:
        return f"only {chance.found.n_users} items can be predicted from others, too few to say"
    return (
        "other items predict who has an item no better than in shuffled data "
        f"(AUC {three(chance.found.mean)} against {three(chance.shuffled)})"
    )

"""Which items and users the report lists, and what each model recommends to the users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Items, Recommendation, UserView
from equipoise.audit.measure import Measured
from equipoise.audit.models.audited import AuditedModel
from equipoise.audit.plan import Study
from equipoise.data.interactions import Interactions

# Of a sampled catalog: this many of the most and least popular items, and of the most changed.
_EXTREMES = 500

_N_USERS, _MOST_HISTORY, _MOST_RECOMMENDED, _REASONS = 12, 60, 10, 3


def view_users(study: Study, models: Sequence[Measured], k: int, seed: int) -> list[UserView]:
    """Show a few users, drawn at random, with items as columns of the data."""
    served = study.served
    candidates = served.seen.user_ids[served.seen.items_per_user() > 0]
    rng = np.random.default_rng([seed, 3])
    drawn = rng.choice(len(candidates), min(_N_USERS, len(candidates)), replace=False)
    ids = candidates[np.sort(drawn)]
    seen, held_out = (each.select_users(ids).collect() for each in (served.seen, served.held_out))
    count = min(k, _MOST_RECOMMENDED)
    recommended = {one.model.key: _recommend(one, seen, count) for one in models}
    return [
        UserView(
            user=str(user),
            history=_heaviest(seen.matrix[[row]]),
            held_out=_heaviest(held_out.matrix[[row]]),
            recommended={key: lists[row] for key, lists in recommended.items()},
        )
        for row, user in enumerate(ids)
    ]


def _heaviest(row: sp.csr_array) -> tuple[int, ...]:
    """Return the items of one user, largest values first."""
    order = np.argsort(-row.data, kind="stable")[:_MOST_HISTORY]
    return tuple(row.indices[order].tolist())


def _recommend(
    measured: Measured, seen: Interactions, count: int
) -> list[tuple[Recommendation, ...]]:
    """Return what a model recommends to each user."""
    model, X = measured.model, seen.matrix
    size = min(measured.size, model.depth)
    own = model.for_users(seen.user_ids)
    (lists,) = model.lister([size]).lists(X, count, own)
    rows = [X[[row]] for row in range(len(lists))]
    return [
        tuple(_recommendation(model, row, int(j), size) for j in columns if j >= 0)
        for row, columns in zip(rows, lists, strict=True)
    ]


def _recommendation(
    model: AuditedModel, seen: sp.csr_array, column: int, size: int
) -> Recommendation:
    explained = model.explain(seen, column, size)
    order = np.argsort(-explained.parts, kind="stable")[:_REASONS]
    because = tuple(int(seen.indices[place]) for place in order if explained.parts[place] > 0)
    return Recommendation(column, explained.score, because)


def columns_of(views: Iterable[UserView]) -> set[int]:
    """Return every item of the views."""
    named: set[int] = set()
    for view in views:
        named.update(view.history, view.held_out)
        for listed in view.recommended.values():
            for one in listed:
                named.update((one.item, *one.because))
    return named


def pick_items(
    study: Study,
    measured: Sequence[Measured],
    before: Measured,
    after: Measured,
    named: set[int],
    seed: int,
) -> NDArray[np.int64]:
    """Return the columns of the items to list: all, or the extremes and a random sample.

    Parameters
    ----------
    study : Study
        The data.
    measured : sequence of Measured
        All variants, for the owners of components.
    before, after : Measured
        PCA and Item-Weighted PCA: items that change most between them are extremes.
    named : set of int
        Items of the users' views.
    seed : int
        Of the sample.
    """
    n_items = study.data.n_items
    if n_items <= study.listed_items:
        return np.arange(n_items)
    ranked = np.argsort(-study.popularity, kind="stable")
    shown = {*named, *ranked[:_EXTREMES].tolist(), *ranked[-_EXTREMES:].tolist()}
    shown.update(owner.item for one in measured for owner in one.owners)
    for metric in ("self_reconstruction", "error"):
        first, last = getattr(before.items, metric), getattr(after.items, metric)
        change = np.nan_to_num(np.abs(last[after.at] - first[before.at]))
        shown.update(np.argsort(-change, kind="stable")[:_EXTREMES].tolist())
    rest = np.setdiff1d(np.arange(n_items), np.fromiter(shown, np.int64))
    left = min(len(rest), max(0, study.listed_items - len(shown)))
    filled = np.random.default_rng([seed, 4]).choice(rest, left, replace=False)
    return np.sort(np.concatenate([np.fromiter(shown, np.int64), filled]))


def items_of(study: Study, columns: NDArray[np.int64]) -> Items:
    """Return the names and the popularity of the listed items."""
    data = study.data
    names = data.item_ids if data.item_names is None else data.item_names
    pairs = zip(names[columns], data.item_ids[columns], strict=True)
    return Items(
        ids=data.item_ids[columns],
        names=np.array([str(name).strip() or str(each) for name, each in pairs], dtype=object),
        columns=columns.astype(np.int64),
        popularity=study.popularity[columns],
        n_users=data.popularity("count").astype(np.int64)[columns],
        group=study.groups.codes[columns].astype(np.int8),
    )

"""Which items and users are shown one by one, and what each model recommends to the users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Items, Recommendation, UserView
from equipoise.audit.measuring import Measured
from equipoise.audit.plan import Study
from equipoise.audit.subjects import Subject

# Up to so many items, all are shown; of a larger catalogue a sample that is filled up to as many.
MOST_ITEMS = 20_000
# Of a sampled catalogue: so many of the most and least popular, and of those that change most.
_EXTREMES = 500

N_NEIGHBOURS = 10
_N_USERS, _MOST_HISTORY, _MOST_RECOMMENDED, _REASONS = 12, 60, 10, 3


def pick_users(study: Study, seed: int) -> NDArray[np.intp]:
    """Rows of a few users, drawn at random from those whose lists are judged."""
    if study.test is None:
        candidates = np.flatnonzero(np.diff(study.fitted.matrix.indptr))
    else:
        users = study.fitted.user_index(study.test.seen.user_ids)
        candidates = users[study.test.seen.items_per_user() > 0]
    rng = np.random.default_rng([seed, 3])
    drawn = rng.choice(candidates, min(_N_USERS, len(candidates)), replace=False)
    return np.sort(drawn).astype(np.intp)


def view_user(study: Study, user: int, subjects: Sequence[Subject], rank: int, k: int) -> UserView:
    """One user, with items as columns of the data; see `as_positions`."""
    seen = study.fitted.matrix[[user]]
    held_out = study.data.matrix[[user]]
    hidden = np.setdiff1d(held_out.indices, seen.indices)
    values = held_out.toarray()[0]
    heaviest = seen.indices[np.argsort(-seen.data, kind="stable")]
    return UserView(
        user=str(study.data.user_ids[user]),
        history=tuple(heaviest[:_MOST_HISTORY].tolist()),
        held_out=tuple(hidden[np.argsort(-values[hidden], kind="stable")][:_MOST_HISTORY].tolist()),
        recommended={
            subject.key: _recommend(subject, seen, rank, min(k, _MOST_RECOMMENDED))
            for subject in subjects
        },
    )


def _recommend(
    subject: Subject, seen: sp.csr_array, rank: int, count: int
) -> tuple[Recommendation, ...]:
    kept = subject.depth if subject.kind == "scores" else min(rank, subject.depth)
    columns = subject.lists(seen, [kept], count)[0, 0]
    return tuple(_recommendation(subject, seen, int(j), kept) for j in columns if j >= 0)


def _recommendation(subject: Subject, seen: sp.csr_array, column: int, rank: int) -> Recommendation:
    parts = subject.contributions(seen, column, rank)
    order = np.argsort(-parts, kind="stable")[:_REASONS]
    because = tuple(int(seen.indices[place]) for place in order if parts[place] > 0)
    return Recommendation(column, float(parts.sum()), because)


def columns_of(views: Iterable[UserView]) -> set[int]:
    """Every item that a view names."""
    named: set[int] = set()
    for view in views:
        named.update(view.history, view.held_out)
        for listed in view.recommended.values():
            for one in listed:
                named.update((one.item, *one.because))
    return named


def as_positions(view: UserView, columns: NDArray[np.int64]) -> UserView:
    """The view with items as positions among the shown ones."""
    where = {int(column): position for position, column in enumerate(columns)}
    return UserView(
        view.user,
        tuple(where[j] for j in view.history),
        tuple(where[j] for j in view.held_out),
        {
            key: tuple(
                Recommendation(where[one.item], one.score, tuple(where[j] for j in one.because))
                for one in listed
            )
            for key, listed in view.recommended.items()
        },
    )


def pick_items(
    study: Study,
    measured: Sequence[Measured],
    before: Measured,
    after: Measured,
    named: set[int],
    seed: int,
) -> NDArray[np.int64]:
    """Columns of the items that are shown: all, or the extremes and a random sample.

    Parameters
    ----------
    study : Study
        The data.
    measured : sequence of Measured
        All models, for the owners of components.
    before, after : Measured
        PCA and Item-Weighted PCA: items that change most between them are extremes.
    named : set of int
        Items that users' views speak of.
    seed : int
        Of the sample.
    """
    n_items = study.data.n_items
    if n_items <= MOST_ITEMS:
        return np.arange(n_items)
    popularity = study.fitted.popularity("norm")
    ranked = np.argsort(-popularity, kind="stable")
    shown = {*named, *ranked[:_EXTREMES].tolist(), *ranked[-_EXTREMES:].tolist()}
    shown.update(owner.column for one in measured for owner in one.owners)
    for first, last in ((before.diagonal, after.diagonal), (before.error, after.error)):
        change = np.nan_to_num(np.abs(last[after.at] - first[before.at]))
        shown.update(np.argsort(-change, kind="stable")[:_EXTREMES].tolist())
    rest = np.setdiff1d(np.arange(n_items), np.fromiter(shown, np.int64))
    room = min(len(rest), max(0, MOST_ITEMS - len(shown)))
    filled = np.random.default_rng([seed, 4]).choice(rest, room, replace=False)
    return np.sort(np.concatenate([np.fromiter(shown, np.int64), filled]))


def items_of(study: Study, columns: NDArray[np.int64]) -> Items:
    """What the shown items are called, and how popular they are."""
    data = study.data
    names = data.item_ids if data.item_names is None else data.item_names
    pairs = zip(names[columns], data.item_ids[columns], strict=True)
    return Items(
        ids=data.item_ids[columns],
        names=np.array([str(name).strip() or str(each) for name, each in pairs], dtype=object),
        columns=columns.astype(np.int64),
        popularity=study.fitted.popularity("norm")[columns],
        n_users=data.popularity("count").astype(np.int64)[columns],
        group=study.groups.codes[columns].astype(np.int8),
    )

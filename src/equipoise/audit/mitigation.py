"""What re-ranking would change for the audited model: more long-tail items, and their price.

Re-ranking needs no retraining and no scores: the model's own longer lists are enough. A setting is
chosen on half of the tested users, at most 500, and measured on the others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Mitigation
from equipoise.audit.measure import list_users, mean_intervals
from equipoise.audit.models.audited import AuditedModel
from equipoise.evaluation.task import Task
from equipoise.exceptions import InfeasibleError
from equipoise.metrics import average_tail_share, ndcg_at_k, popularity_groups
from equipoise.reranking import Candidates, ItemContext, make_reranker

# Candidates per user, the share of NDCG that a mitigation may cost, the most users to choose on.
_POOL, _BUDGET, _CHOOSING = 100, 0.05, 500
# Fewer users on each half give intervals that are too wide to state anything.
_FEWEST_USERS = 50
NOT_OFFERED = "No re-ranking is offered"
SPECS = (
    *(f"xquad:{strength},form=smooth" for strength in (0.1, 0.2, 0.3, 0.5)),
    *(f"fair:{share}" for share in (0.2, 0.3, 0.4, 0.6)),
    *(f"exposure:{floor}" for floor in (0.5, 0.75, 1.0)),
    *(f"exposure:{floor},target=items" for floor in (0.4, 0.6, 0.8)),
)


def best_mitigation(
    model: AuditedModel, task: Task, size: int, k: int, seed: int
) -> Mitigation | str:
    """Return the re-ranking with most long-tail items at a small loss, or why none is offered.

    Parameters
    ----------
    model : AuditedModel
        It did not see the held-out items.
    task : Task
        The users with held-out items.
    size : int
        Number of components of the model.
    k : int
        Length of the lists.
    seed : int
        Draws the users to choose on, and the intervals.
    """
    (lists,) = list_users(model, task, [size], max(k, _POOL))
    held_out = task.held_out.collect().matrix
    users = np.flatnonzero(np.diff(held_out.indptr) > 0)
    if len(users) < 2 * _FEWEST_USERS:
        return f"{NOT_OFFERED}: fewer than {2 * _FEWEST_USERS} users have held-out items."
    longest = int((lists[users] >= 0).sum(axis=1).max())
    if longest <= k:
        return f"{NOT_OFFERED}: the lists have {longest} items. It needs longer ones, e.g. {_POOL}."
    profiles = task.seen.collect().matrix
    order = np.random.default_rng(seed).permutation(len(users))
    first = order < min(_CHOOSING, len(users) // 2)
    parts = [
        _Part(lists[users[part]], profiles[users[part]], held_out[users[part]], task, k)
        for part in (first, ~first)
    ]
    choosing, measuring = parts
    plain = choosing.scores(choosing.lists[:, :k])
    tried = {spec: choosing.reranked(spec) for spec in SPECS}
    within = {
        spec: float(np.nanmean(found[1]))
        for spec, found in tried.items()
        if found is not None and np.nanmean(found[0]) >= (1 - _BUDGET) * np.nanmean(plain[0])
    }
    none = (
        f"{NOT_OFFERED}: none of {len(SPECS)} that were tried shows more long-tail items beyond "
        f"chance for at most {_BUDGET:.0%} of NDCG@{k}."
    )
    if not within:
        return none
    spec = max(within, key=within.__getitem__)
    after = measuring.reranked(spec)
    if after is None:
        return none
    before = measuring.scores(measuring.lists[:, :k])
    ndcg, tail = mean_intervals([new - old for new, old in zip(after, before, strict=True)], seed)
    if tail.low <= 0:
        return none
    means = [float(np.nanmean(each)) for each in before]
    return Mitigation(spec, len(SPECS), tail, means[1], ndcg, means[0], k)


class _Part:
    """The lists of some of the users, and what they held out."""

    def __init__(
        self,
        lists: NDArray[np.int32],
        profiles: sp.csr_array,
        held_out: sp.csr_array,
        task: Task,
        k: int,
    ) -> None:
        self.lists, self.held_out, self.k = lists, held_out, k
        # only the order of the model is known, so relevance falls evenly with the place
        places = np.broadcast_to(-np.arange(lists.shape[1], dtype=np.float64), lists.shape)
        self.candidates = Candidates(lists, np.where(lists >= 0, places, np.nan), profiles)
        self.tail = popularity_groups(task.popularity, "head80")
        self.context = ItemContext(task.popularity, self.tail)

    def reranked(self, spec: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return NDCG and tail share per user; None if floors cannot be met."""
        method = make_reranker(spec)
        context = self.context
        try:
            if method.learns:
                learned = method.learn(lambda: [self.candidates], context)
                context = replace(context, learned=learned)
        except InfeasibleError:
            return None
        order = method.rerank(self.candidates, min(self.k, self.lists.shape[1]), context)
        items = np.take_along_axis(self.lists, np.maximum(order, 0), axis=1)
        return self.scores(np.where(order >= 0, items, -1))

    def scores(self, lists: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return NDCG and tail share per user."""
        ndcg = ndcg_at_k(lists, self.held_out, self.k).per_user
        return np.asarray(ndcg), np.asarray(average_tail_share(lists, self.tail).per_user)

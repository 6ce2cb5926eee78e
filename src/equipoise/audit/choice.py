"""Which γ and rank to recommend: the best NDCG on the validation part, hard projector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.audit.findings import Floats
from equipoise.audit.fitting import Steps, fit_weighted
from equipoise.audit.plan import Study
from equipoise.metrics import ndcg_at_k


@dataclass(frozen=True, eq=False)
class Choice:
    """NDCG on validation over γ × rank, and its maximum.

    Attributes
    ----------
    gammas, ranks : tuple
        The grid.
    ndcg : ndarray of shape (gammas, ranks)
        On validation, fitted on train alone.
    gamma, rank : float, int
        Where it is largest; of equals the smaller rank, then the γ nearer to 0.
    """

    gammas: tuple[float, ...]
    ranks: tuple[int, ...]
    ndcg: Floats
    gamma: float
    rank: int

    def best_rank(self, gamma: float) -> int:
        """The rank that validation prefers at one γ of the grid."""
        return self.ranks[int(np.argmax(self.ndcg[self.gammas.index(gamma)]))]

    def at(self, gamma: float, rank: int) -> float:
        """NDCG at a place of the grid; NaN elsewhere."""
        if gamma not in self.gammas or rank not in self.ranks:
            return float("nan")
        return float(self.ndcg[self.gammas.index(gamma), self.ranks.index(rank)])


def choose(
    study: Study, gammas: Sequence[float], ranks: Sequence[int], k: int, step: Steps
) -> Choice | None:
    """Fit on train, judge on validation; None where there is no validation part.

    Parameters
    ----------
    study : Study
        The data.
    gammas, ranks : sequence
        The grid; γ from 0 down, ranks rising.
    k : int
        Of NDCG@k.
    step : Steps
        The steps of the audit, of which this takes two.
    """
    task = study.validation
    if task is None:
        step.progress.advance(2)
        return None
    models = fit_weighted(task.fitted, gammas, max(ranks), step)
    step.begin("Choosing γ and rank on the validation part")
    seen, held_out = task.seen.matrix, task.held_out.matrix
    found = np.array(
        [
            [ndcg_at_k(lists, held_out, k).value for lists in model.lists(seen, ranks, k)]
            for model in models
        ]
    )
    # transposed, the first maximum is that of the smallest rank, then of the γ nearest to 0
    rank, gamma = np.unravel_index(int(np.argmax(found.T)), found.T.shape)
    return Choice(tuple(gammas), tuple(ranks), found, gammas[int(gamma)], ranks[int(rank)])

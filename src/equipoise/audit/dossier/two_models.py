"""Two models on one table: how their lists, components and items differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles

from equipoise import defaults
from equipoise.audit.dossier.compare import Changes, as_report, changes
from equipoise.audit.engine import audit
from equipoise.audit.models.audited import AuditedModel, Projection
from equipoise.audit.models.given import read_models
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics.intervals import Interval, bootstrap_mean
from equipoise.progress import Progress

# Two components are the same direction if their cosine squared is above a half.
_SAME = 0.5


def compare_models(
    data: Interactions,
    models: Mapping[str, Any],
    *,
    k: int = defaults.MEASURED_K,
    seed: int = defaults.SEED,
    progress: Progress | None = None,
    **options: Any,
) -> Changes:
    """Compare two models on the same users.

    Numbers are taken as independent, although they are of the same users: only larger changes are
    stated than with paired numbers. Items, lists and components of both models are exact.

    Parameters
    ----------
    data : Interactions
        The users and items.
    models : mapping of label to model
        Two models, before and after, as in `equipoise.audit`.
    k : int
        Length of recommended lists.
    seed : int
        Of the bootstrap and of every sample.
    progress : Progress, optional
        Receives the progress.
    options : keyword arguments
        Of `equipoise.audit`, such as names and groups.
    """
    if len(models) != 2:
        raise InvalidParameterError(f"give two models, before and after; got {len(models)}.")
    quick: dict[str, Any] = {"depth": "quick", "budget": 0.0, **options}
    found = audit(data, models=models, k=k, seed=seed, progress=progress, **quick)
    report = as_report(found)
    old, new = read_models(models, data)
    return changes(
        (report, old.key),
        (report, new.key),
        same_data=True,
        components=_angles(old, new),
        overlap=_overlap(old, new, data, k, seed),
    )


def _overlap(
    old: AuditedModel, new: AuditedModel, data: Interactions, k: int, seed: int
) -> Interval:
    """Return the mean share of a user's list that both models recommend."""
    seen = data.collect()
    lists = [
        next(iter(each.lister([each.depth]).lists(seen.matrix, k, each.for_users(seen.user_ids))))
        for each in (old, new)
    ]
    shares = [
        len(set(one[one >= 0]) & set(other[other >= 0])) / max(1, int((one >= 0).sum()))
        for one, other in zip(*lists, strict=True)
    ]
    return bootstrap_mean(shares, resamples=1000, seed=seed)


def _angles(old: AuditedModel, new: AuditedModel) -> dict[str, Any]:
    """Return the cosines of the principal angles between the item vectors of two models."""
    if not (isinstance(old, Projection) and isinstance(new, Projection)):
        return {}
    vectors = [each.model.components.T for each in (old, new)]
    cosines = np.cos(subspace_angles(*vectors))[::-1]
    kept = int((cosines**2 > _SAME).sum())
    gone, added = (each.shape[1] - kept for each in vectors)
    if not (gone or added):
        return {}
    return {
        "components kept, lost, gained": f"{kept}, {gone}, {added}",
        "cosines of the principal angles": [f"{cosine:.3f}" for cosine in cosines],
    }

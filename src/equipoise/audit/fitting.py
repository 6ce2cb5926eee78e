"""The models that every audit compares: PCA, Normalized PCA, Item-Weighted PCA along γ."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from equipoise.audit.subjects import Projection
from equipoise.data.interactions import Interactions
from equipoise.exceptions import SolverWarning
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.models.projection import ProjectionModel
from equipoise.progress import Progress

PCA, NORMALIZED, WEIGHTED = "PCA", "Normalized PCA", "Item-Weighted PCA"

# A prefix may end between two close eigenvalues, where components converge last; on large data
# the model's own tolerance has to do.
_TIGHT, _TIGHT_UP_TO = 1e-8, 2_000_000


class Steps:
    """The steps of an audit, each of which ends where the next one begins."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._begun = False

    def begin(self, name: str) -> None:
        """Name the next step; the one before it is done."""
        if self._begun:
            self.progress.advance()
        self._begun = True
        self.progress.note(name)


def key_of(gamma: float) -> str:
    """Identifier of Item-Weighted PCA at a γ.

    Examples
    --------
    >>> key_of(-1.0), key_of(0.0)
    ('item-weighted:-1', 'item-weighted:0')
    """
    return f"item-weighted:{gamma:g}"


def fit_all(
    fitted: Interactions, gammas: Sequence[float], depth: int, step: Steps
) -> list[Projection]:
    """PCA, Normalized PCA, then Item-Weighted PCA at each γ, each fitted once at full depth."""
    step.begin(f"Fitting {PCA}")
    with _fewer_components_are_fine():
        pca = VanillaPCA(depth, tol=_tolerance(fitted))
        pca.fit(fitted.matrix, progress=step.progress)
    step.begin(f"Fitting {NORMALIZED}")
    with _fewer_components_are_fine():
        normalized = NormalizedPCA(depth, tol=_tolerance(fitted))
        normalized.fit(fitted.matrix, progress=step.progress)
    return [
        Projection("pca", PCA, "pca", None, pca.low_rank()),
        Projection("normalized", NORMALIZED, "normalized", None, normalized.low_rank()),
        *fit_weighted(fitted, gammas, depth, step, pca),
    ]


def fit_weighted(
    fitted: Interactions,
    gammas: Sequence[float],
    depth: int,
    step: Steps,
    pca: ProjectionModel | None = None,
) -> list[Projection]:
    """Item-Weighted PCA along γ; γ = 0 is `pca`, where that is at hand."""
    path = [gamma for gamma in gammas if gamma != 0 or pca is None]
    step.begin(f"Fitting {WEIGHTED} at γ = {', '.join(f'{gamma:g}' for gamma in path)}")
    base = ItemWeightedPCA(depth, tol=_tolerance(fitted))
    with _fewer_components_are_fine():
        along = base.fit_path(fitted.matrix, path, progress=step.progress)
    models: dict[float, ProjectionModel] = dict(zip(path, along, strict=True))
    if pca is not None:
        models[0.0] = pca
    return [
        Projection(key_of(gamma), WEIGHTED, "item-weighted", gamma, models[gamma].low_rank())
        for gamma in gammas
    ]


def _tolerance(fitted: Interactions) -> float:
    return _TIGHT if fitted.nnz <= _TIGHT_UP_TO else 1e-6


@contextmanager
def _fewer_components_are_fine() -> Iterator[None]:
    """At full depth, fewer positive eigenvalues than asked for are the rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        yield

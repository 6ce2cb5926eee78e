"""Theorem 3: PCA is the instance γ = 0, and Normalized PCA, on some matrices, is γ = −2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from equipoise.data import synthetic
from equipoise.models import ItemWeightedPCA
from equipoise.paper.theory.experiment import Experiment, Floats, Panel, Series, Table, judge
from equipoise.paper.verdicts import Claim, Finding

# A projector is determined by eigenvalues to eps / gap: 1e-8 leaves two orders of magnitude.
_CLEAR_GAP = 1e-5
_EQUAL = 1e-8
# Two projectors that far apart differ by no rounding; the general matrices come out near 1.
_DIFFERENT = 1e-2

TITLE = "Theorem 3: PCA and Normalized PCA are instances"
CLAIM = Claim(
    id="theorem-3",
    what="γ = 0 is PCA on all matrices, γ = −2 is Normalized PCA on item-regular block matrices",
    where="Theorem 3",
    published="equivalent",
    how=(
        "Frobenius distance of Item-Weighted PCA's projector from that of LAPACK's SVD of X, or "
        f"of X with columns of norm one, at every rank where it is unique: at most {_EQUAL:g}"
    ),
)
GENERAL_CLAIM = Claim(
    id="theorem-3-general",
    what="On other matrices γ = −2 is not Normalized PCA",
    where="Appendix B.4",
    published="not equal",
    how=f"the same distance on general matrices: on each, above {_DIFFERENT:g} at some rank",
)

_PCA, _BLOCKS, _GENERAL = (
    "γ = 0 against PCA",
    "γ = −2 against Normalized PCA, item-regular blocks",
    "γ = −2 against Normalized PCA, general matrices",
)


class Distance(NamedTuple):
    """How far Item-Weighted PCA is from a baseline on one matrix at one rank."""

    curve: str
    matrix: int
    rank: int
    distance: float


def instances(quick: bool = False) -> Experiment:
    """Compare projectors at every rank where the baseline's is unique."""
    seeds = range(2 if quick else 6)
    measured = [
        *_compare(_PCA, seeds, _any_matrix, 0.0),
        *_compare(_BLOCKS, seeds, _item_regular, -2.0),
        *_compare(_GENERAL, seeds, _any_matrix, -2.0),
    ]
    findings = (judge_instances(measured), judge_general(measured))
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(measured), _panels())


def judge_instances(measured: Sequence[Distance]) -> Finding:
    """Whether both equivalences hold at every rank."""
    pca, blocks = _largest(measured, _PCA), _largest(measured, _BLOCKS)
    note = f"Largest distance: {pca:.1e} for γ = 0, {blocks:.1e} for γ = −2."
    return judge(CLAIM, max(pca, blocks) <= _EQUAL, max(pca, blocks), note)


def judge_general(measured: Sequence[Distance]) -> Finding:
    """Whether each general matrix tells γ = −2 from Normalized PCA."""
    matrices = {d.matrix for d in measured if d.curve == _GENERAL}
    least = min(_largest([d for d in measured if d.matrix == k], _GENERAL) for k in matrices)
    note = "The smallest over the matrices of the largest distance over the ranks."
    return judge(GENERAL_CLAIM, least > _DIFFERENT, least, note)


def _largest(measured: Sequence[Distance], curve: str) -> float:
    return max(d.distance for d in measured if d.curve == curve)


def _compare(
    curve: str, seeds: Sequence[int], draw: Callable[[int], Floats], gamma: float
) -> Iterator[Distance]:
    for seed in seeds:
        X = draw(seed)
        scale = np.linalg.norm(X, axis=0) if gamma == -2.0 else np.ones(X.shape[1])
        for rank, distance in _distances(X, X / scale, gamma):
            yield Distance(curve, seed, rank, distance)


def _distances(X: Floats, baseline: Floats, gamma: float) -> Iterator[tuple[int, float]]:
    """Distance of the projectors at each rank up to half the items."""
    _, sigma, Vt = np.linalg.svd(baseline, full_matrices=False)
    model = ItemWeightedPCA(X.shape[1] // 2, gamma=gamma, solver="dense").fit(X)
    for rank in range(1, model.n_components_ + 1):
        if sigma[rank - 1] ** 2 - sigma[rank] ** 2 < _CLEAR_GAP * sigma[0] ** 2:
            continue  # tied at the cut: neither method's subspace is the only one
        U, V = model.components_[:rank].T, Vt[:rank].T
        yield rank, float(np.linalg.norm(U @ U.T - V @ V.T))


def _any_matrix(seed: int) -> Floats:
    """Counts, 0/1 or real numbers, with items of very different popularity."""
    rng = np.random.default_rng([3, seed])
    n, m = (60, 24) if seed % 2 else (30, 40)
    mean = rng.gamma(0.5, size=(n, 3)) @ rng.gamma(0.5, size=(3, m)) * np.geomspace(4, 0.2, m)
    X = (rng.poisson(mean), mean, rng.poisson(mean) > 0)[seed % 3].astype(float)
    X[rng.integers(n, size=m), np.arange(m)] = 1.0  # everybody has a listener
    return X


def _item_regular(seed: int) -> Floats:
    users, items, popularity = [40, 30, 25], [9, 12, 15], [20, 9, 4]
    dense: Floats = synthetic.item_regular_blocks(users, items, popularity, seed).matrix.toarray()
    return dense


def _table(measured: Sequence[Distance]) -> Table:
    columns = dict(zip(Distance._fields, map(np.array, zip(*measured, strict=True)), strict=True))
    # a logarithmic axis has no room for an exact zero
    return columns | {"distance": np.maximum(columns["distance"], 1e-17)}


def _panels() -> tuple[Panel, ...]:
    series = tuple(
        Series(curve, "rank", "distance", curve, "points") for curve in (_PCA, _BLOCKS, _GENERAL)
    )
    title = "Item-Weighted PCA against its special cases"
    return (Panel(title, "components r", "‖P − P′‖ (Frobenius)", series, "linear", "log"),)

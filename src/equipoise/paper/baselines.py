"""Figure 7's Weighted MF: the matrix factorization of the package `implicit`, as published.

Factors of R + (R > 0), 50 iterations, every other setting as it comes. LightGCN is left out: the
published one needs PyTorch and hours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.compiled import one_blas_thread
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split, holdout
from equipoise.evaluation import evaluate
from equipoise.evaluation.cache import Cache
from equipoise.paper.judging import Outcome, tally
from equipoise.paper.measurements import Evaluation
from equipoise.paper.protocol import DATASETS, ITEM_WEIGHTED, USER_METRICS
from equipoise.paper.verdicts import Claim, Finding, Verdict

WEIGHTED_MF = "Weighted MF"
MISSING = (
    "Weighted MF is left out of Figure 7: it needs 'implicit', which is not installed. Install it "
    'with: pip install "equipoise[als]"'
)
_ITERATIONS, _SEED, _K = 50, 0, 20
# Beyond this rank a fit takes minutes, and the curve has long been falling.
_RANKS, _QUICK_RANKS = (4, 8, 16, 32, 64, 128, 256), (16, 32, 64)
# "On par" and "comparable" have no number in the paper: a tenth below is not comparable any more.
_ON_PAR = 0.9

Curves = dict[str, dict[int, float]]


def available() -> bool:
    """Whether `implicit` is installed."""
    return importlib.util.find_spec("implicit") is not None


def measure_weighted_mf(
    data: Interactions,
    cache: Path | None = None,
    *,
    quick: bool = False,
    say: Callable[[str], None] | None = None,
) -> Curves:
    """Metric -> rank -> value on the paper's hold-out."""
    split, store = holdout(data), None if cache is None else Cache(cache)
    curves: Curves = {metric: {} for metric in USER_METRICS}
    for rank in _QUICK_RANKS if quick else _RANKS:
        settings = {
            "model": WEIGHTED_MF,
            "iterations": _ITERATIONS,
            "seed": _SEED,
            "rank": rank,
            "data": data.fingerprint(),
        }
        values = None if store is None else store.load(settings)
        if values is None:
            if say is not None:
                say(f"{WEIGHTED_MF}, rank {rank}")
            values = _scored(split, _recommend(split.train_validation.matrix, rank))
            if store is not None:
                store.store(settings, values)
        for metric in USER_METRICS:
            curves[metric][rank] = values[metric]
    return curves


def _recommend(R: sp.csr_array, rank: int) -> NDArray[np.int64]:
    from implicit.als import AlternatingLeastSquares

    confidence = sp.csr_matrix((R.data + 1, R.indices, R.indptr), R.shape, dtype=np.float32)
    model = AlternatingLeastSquares(factors=rank, iterations=_ITERATIONS, random_state=_SEED)
    with one_blas_thread():  # implicit has threads of its own
        model.fit(confidence, show_progress=False)
    users = np.arange(R.shape[0])
    ids, _ = model.recommend(users, confidence, N=_K, filter_already_liked_items=True)
    return np.asarray(ids, dtype=np.int64)


def _scored(split: Split, lists: NDArray[np.int64]) -> dict[str, float]:
    found = evaluate(split, {WEIGHTED_MF: lists}, metrics=tuple(USER_METRICS), empty="zero")
    return {metric: found.value(metric) for metric in USER_METRICS}


def judge_weighted_mf(
    evaluations: Sequence[Evaluation], curves: dict[str, Curves]
) -> list[Finding]:
    """Whether Item-Weighted PCA is on par, and whether Weighted MF falls at high rank."""
    return [
        _finding(claim, outcome)
        for evaluation in evaluations
        for claim, outcome in _tested(evaluation, curves[evaluation.dataset])
    ]


def _tested(evaluation: Evaluation, curves: Curves) -> Iterator[tuple[Claim, Outcome]]:
    name, title = evaluation.dataset, DATASETS[evaluation.dataset].title
    where = "appendix, Figure 7"
    on_par = Claim(
        f"on-par-{name}",
        f"{title}: Item-Weighted PCA is on par with Weighted MF",
        where,
        True,
        "peaks of the four user metrics, at most a tenth below those of implicit's ALS",
        Verdict.REPRODUCED if name == "movielens" else Verdict.NOT_REPRODUCED,
        name,
    )
    falls = Claim(
        f"decline-mf-{name}",
        f"{title}: Weighted MF falls at high rank",
        where,
        True,
        "largest rank below the peak, four user metrics",
        dataset=name,
    )
    yield on_par, tally(_comparisons(evaluation, curves))
    yield (
        falls,
        tally(
            (USER_METRICS[metric], curve[max(curve)] < max(curve.values()))
            for metric, curve in curves.items()
        ),
    )


def _comparisons(evaluation: Evaluation, curves: Curves) -> Iterator[tuple[str, bool]]:
    for metric, curve in curves.items():
        ours = max(evaluation.curve(metric, ITEM_WEIGHTED, evaluation.user_ranks))
        theirs = max(curve.values())
        yield f"{USER_METRICS[metric]} {ours:.4f} against {theirs:.4f}", ours >= _ON_PAR * theirs


def _finding(claim: Claim, outcome: Outcome) -> Finding:
    verdict = Verdict.REPRODUCED if outcome.holds else Verdict.NOT_REPRODUCED
    return Finding(claim, outcome.measured, verdict)

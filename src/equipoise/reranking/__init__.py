"""Re-ranking: popularity corrections and fairness for the lists of any model or system."""

from equipoise.reranking.base import Candidates, ItemContext, Reranker
from equipoise.reranking.exposure import (
    ExposureFloors,
    ExposureSolution,
    exposure_lists,
    solve_exposure,
)
from equipoise.reranking.fair import FAIR
from equipoise.reranking.greedy import Calibrated, MarginalRelevance, XQuAD
from equipoise.reranking.popularity import PopularityCompensation, PopularityScaling
from equipoise.reranking.registry import available, make_reranker
from equipoise.reranking.reranked import Reranked
from equipoise.reranking.tables import RerankedLists, rerank_lists

__all__ = [
    "FAIR",
    "Calibrated",
    "Candidates",
    "ExposureFloors",
    "ExposureSolution",
    "ItemContext",
    "MarginalRelevance",
    "PopularityCompensation",
    "PopularityScaling",
    "Reranked",
    "RerankedLists",
    "Reranker",
    "XQuAD",
    "available",
    "exposure_lists",
    "make_reranker",
    "rerank_lists",
    "solve_exposure",
]

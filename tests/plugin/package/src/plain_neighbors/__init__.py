"""A model, a metric and a re-ranker of another package."""

from plain_neighbors.metric import first_hit
from plain_neighbors.model import PlainNeighbors
from plain_neighbors.reranker import Later

__all__ = ["Later", "PlainNeighbors", "first_hit"]

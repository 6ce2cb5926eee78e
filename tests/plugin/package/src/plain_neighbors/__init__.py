"""A model and a metric of another package."""

from plain_neighbors.metric import first_hit
from plain_neighbors.model import PlainNeighbors

__all__ = ["PlainNeighbors", "first_hit"]

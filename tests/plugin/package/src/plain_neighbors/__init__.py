"""A model of another package: everything that equipoise needs to know is in this file."""

from plain_neighbors.model import PlainNeighbors

__all__ = ["PlainNeighbors"]

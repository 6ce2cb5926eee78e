"""Lists that begin at a later candidate."""

from dataclasses import dataclass

import numpy as np

from equipoise.reranking import Reranker


@dataclass(frozen=True)
class Later(Reranker):
    """The candidates after the first ones."""

    title = "Later"
    paper = "Nobody 2026"
    search = ("later:0", "later:1")
    first: int = 1

    def rerank(self, candidates, k, context):  # noqa: ARG002
        """Leave the first candidates out."""
        places = np.arange(self.first, self.first + k)
        return np.where(places < candidates.known.sum(axis=1, keepdims=True), places, -1)

"""Use fitted models elsewhere: lists for all users, search indexes, other libraries.

- `write_lists`: lists of all users as Parquet, for data in memory, on disk or on a cluster
- `to_ann`: vectors for approximate nearest-neighbor search (usearch, faiss)
- `equipoise.serving.implicit.ImplicitLike`: the arguments and the arrays of implicit's models
- `equipoise.serving.lenskit.EquipoiseScorer`: a component of LensKit's pipelines
- `equipoise.serving.rectools.EquipoiseModel`: a model for RecTools' data sets and reports

The last three are imported by their full names: two of them need the other library.
"""

from equipoise.serving.ann import AnnVectors, to_ann
from equipoise.serving.lists import write_lists

__all__ = ["AnnVectors", "to_ann", "write_lists"]

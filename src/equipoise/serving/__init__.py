"""Use fitted models elsewhere: lists for all users, search indexes, other libraries.

- `write_lists`: lists of all users as Parquet, for data in memory, on disk or on a cluster
- `to_ann`: vectors for approximate nearest-neighbor search (usearch, faiss)
- `export_vectors`: item vectors and ids as safetensors or Parquet
- `equipoise.serving.service.create_app`: a web service, as `equipoise serve` runs it
- `equipoise.serving.implicit.ImplicitLike`: the arguments and the arrays of implicit's models
- `equipoise.serving.lenskit.EquipoiseScorer`: a component of LensKit's pipelines
- `equipoise.serving.rectools.EquipoiseModel`: a model for RecTools' data sets and reports

The last four are imported by their full names: three of them need another library.
"""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

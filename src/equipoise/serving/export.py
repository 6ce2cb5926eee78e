"""Write the vectors of a model with their ids, for programs that do not use equipoise."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.identifiers import as_column
from equipoise.exceptions import require_extra
from equipoise.files import Content, by_ending, write_whole
from equipoise.models.base import Recommender
from equipoise.serving.ann import AnnVectors, to_ann


def export_vectors(model: Recommender, path: str | os.PathLike[str]) -> Path:
    """Write the item vectors and the ids of a fitted model to one file.

    The inner product of a user's vector and an item's vector is the score. For the PCAs, a user's
    vector is the row of values, prepared as `model.preparation_` lists, times the item vectors,
    times `component_weights`.

    Parameters
    ----------
    model : Recommender
        Fitted, with vectors; see `to_ann`.
    path : path
        Ending in ``.safetensors`` (tensors ``item_vectors`` and, for the PCAs,
        ``component_weights``; ids, class, parameters and preparation as JSON in the metadata; extra
        ``safetensors``) or ``.parquet`` (columns ``item`` and ``vector``).
    """
    write = by_ending(path, {".safetensors": _safetensors, ".parquet": _parquet})
    write_whole(Path(path), write(to_ann(model)))
    return Path(path)


def _safetensors(vectors: AnnVectors) -> Content:
    library = require_extra("safetensors.numpy", "safetensors", "writing .safetensors")
    tensors = {"item_vectors": vectors.item_vectors}
    low_rank = vectors.model.low_rank()
    if low_rank is not None:
        weights = low_rank.component_weights
        tensors["component_weights"] = np.ascontiguousarray(weights, dtype=np.float32)
    return library.save(tensors, metadata=_metadata(vectors.model, vectors.item_ids))


def _parquet(vectors: AnnVectors) -> Content:
    import polars as pl

    width = vectors.item_vectors.shape[1]
    column = pl.Series("vector", vectors.item_vectors, dtype=pl.Array(pl.Float32, width))
    return pl.DataFrame({"item": as_column(vectors.item_ids), "vector": column}).write_parquet


def _metadata(model: Recommender, ids: Any) -> dict[str, str]:
    """Return text by name, as safetensors stores it."""
    steps = [[step.name, dict(step.settings)] for step in model.preparation_]
    parameters = model.get_params(deep=False)
    return {
        "item_ids": json.dumps(ids.tolist(), default=str),
        "class": type(model).__name__,
        "parameters": json.dumps(parameters, default=str),
        "preparation": json.dumps(steps),
    }

"""Write the vectors of a model with their ids, for programs that do not use equipoise."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.identifiers import as_column
from equipoise.exceptions import InvalidParameterError, require_extra
from equipoise.files import write_whole
from equipoise.models.base import Recommender
from equipoise.serving.ann import to_ann


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
    path = Path(path)
    vectors = to_ann(model)
    if path.suffix == ".safetensors":
        library = require_extra("safetensors.numpy", "safetensors", f"writing {path}")
        tensors = {"item_vectors": vectors.item_vectors}
        low_rank = model.low_rank()
        if low_rank is not None:
            weights = low_rank.component_weights
            tensors["component_weights"] = np.ascontiguousarray(weights, dtype=np.float32)
        write_whole(path, library.save(tensors, metadata=_metadata(model, vectors.item_ids)))
    elif path.suffix == ".parquet":
        import polars as pl

        width = vectors.item_vectors.shape[1]
        column = pl.Series("vector", vectors.item_vectors, dtype=pl.Array(pl.Float32, width))
        frame = pl.DataFrame({"item": as_column(vectors.item_ids), "vector": column})
        write_whole(path, lambda file: frame.write_parquet(file))
    else:
        raise InvalidParameterError(
            f"{path}: the ending sets the format; use .safetensors or .parquet."
        )
    return path


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

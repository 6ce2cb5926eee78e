"""Exported vectors give the scores of the model in programs that only read the file."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from equipoise import EASE, Interactions, ItemWeightedPCA
from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidParameterError
from equipoise.serving import export_vectors


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=200, n_items=60)


@pytest.fixture(scope="module")
def model(plays):
    return ItemWeightedPCA(6, spectral_filter="ridge", filter_strength=0.1).fit(
        plays.normalize_rows()
    )


def test_safetensors_contain_what_scores_need(model, plays, tmp_path):
    numpy_format = pytest.importorskip("safetensors.numpy")
    library = pytest.importorskip("safetensors")
    path = export_vectors(model, tmp_path / "vectors.safetensors")
    tensors = numpy_format.load_file(path)
    with library.safe_open(path, "np") as file:
        metadata = file.metadata()
    assert json.loads(metadata["item_ids"]) == plays.item_ids.tolist()
    assert json.loads(metadata["preparation"]) == [["normalize_rows", {}]]
    V, weights = tensors["item_vectors"], tensors["component_weights"]
    rows = plays.matrix.toarray()
    shares = rows / rows.sum(axis=1, keepdims=True)
    scores = (shares @ V * weights) @ V.T
    np.testing.assert_allclose(scores, model.score_items(plays), atol=1e-5)


def test_parquet_contains_ids_and_vectors(model, plays, tmp_path):
    saved = model.save(tmp_path / "model.eqp")
    assert run(["export", str(saved), "--out", str(tmp_path / "vectors.parquet")]) == 0
    frame = pl.read_parquet(tmp_path / "vectors.parquet")
    assert frame["item"].to_list() == plays.item_ids.tolist()
    np.testing.assert_allclose(frame["vector"].to_numpy(), model.components_.T, rtol=1e-6)


def test_what_has_no_vectors_or_no_format_is_refused(model, plays, tmp_path):
    with pytest.raises(InvalidParameterError, match=r"one of \.safetensors"):
        export_vectors(model, tmp_path / "vectors.csv")
    with pytest.raises(InvalidParameterError, match="item vectors"):
        export_vectors(EASE().fit(plays), tmp_path / "vectors.parquet")

"""Model files from strangers: every hash is right, and what they hold is not."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import equipoise as eq
from equipoise.data import Interactions
from equipoise.exceptions import ArtefactError
from equipoise.models.persistence import read_artefact, write_artefact
from equipoise.models.persistence.format import json_bytes, npy_header, sha256_of

PLAYS = Interactions.from_pairs(
    [f"u{k}" for k in range(9) for _ in range(2)],
    [f"i{(k + step) % 5}" for k in range(9) for step in (0, 1 + k % 3)],
)


@pytest.fixture
def model(tmp_path):
    return eq.ItemWeightedPCA(2).fit(PLAYS).save(tmp_path / "model.eqp")


def forged(path, change):
    """Let `change` have the manifest and the entries, and make every hash right again."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    change(manifest, entries)
    for name, declared in manifest["arrays"].items():
        stored = entries[f"arrays/{name}.{'json' if declared['dtype'] == 'object' else 'npy'}"]
        declared.setdefault("bytes", len(stored))
        declared["sha256"] = sha256_of(stored)
    del manifest["sha256"]
    manifest["sha256"] = sha256_of(json_bytes(manifest))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, stored in entries.items():
            archive.writestr(name, stored)
        archive.writestr("manifest.json", json_bytes(manifest, 2))
    path.write_bytes(file.getvalue())
    return path


def array(name, values):
    def change(manifest, entries):
        stored = np.ascontiguousarray(values)
        header = npy_header(stored.dtype.str, stored.shape)
        entries[f"arrays/{name}.npy"] = header + stored.tobytes()
        entries.pop(f"arrays/{name}.json", None)
        manifest["arrays"][name] = {"dtype": stored.dtype.str, "shape": list(stored.shape)}

    return change


def ids(values):
    def change(manifest, entries):
        entries["arrays/item_ids_.json"] = json_bytes(values)
        manifest["arrays"]["item_ids_"] = {"dtype": "object", "shape": [len(values)]}

    return change


def field(group, name, value):
    def change(manifest, _):
        manifest[group][name] = value

    return change


def certificate(name, value):
    def change(manifest, _):
        manifest["scalars"]["certificate_"][name] = value

    return change


def without(group, name):
    def change(manifest, entries):
        del manifest[group][name]
        entries.pop(f"arrays/{name}.npy", None)

    return change


def other_model(manifest, _):
    manifest["model"] = "EASE"


FORGED = {
    "a method is shadowed by a number": (field("scalars", "recommend", 1), r"\['recommend'\]"),
    "the class is replaced": (field("scalars", "__class__", "x"), r"number \['__class__'\]"),
    "a method is shadowed by an array": (array("_scores", np.eye(5)), r"array \['_scores'\]"),
    "a parameter is unknown": (field("parameters", "shell", "ls"), r"parameter \['shell'\]"),
    "a parameter is out of range": (field("parameters", "tol", 7), "'tol' parameter"),
    "a parameter is of another type": (field("parameters", "gamma", {"a": 1}), "'gamma' parameter"),
    "an array is missing": (without("arrays", "components_"), r"lacks the array \['components_'\]"),
    "a number is missing": (without("scalars", "n_components_"), r"lacks the number"),
    "the items are not counted": (field("scalars", "n_features_in_", "5"), "a whole number"),
    "more items are claimed than there are": (field("scalars", "n_features_in_", 10**15), "shape"),
    "the items are negative": (field("scalars", "n_features_in_", -5), "whole number from 0"),
    "components have other items": (array("components_", np.ones((2, 4))), r"\(2, 4\), which does"),
    "components are flat": (array("components_", np.ones(5)), "components_ has 1 dimensions"),
    "components are dates": (array("components_", np.zeros((2, 5), "M8[D]")), "type datetime64"),
    "components are half floats": (array("components_", np.zeros((2, 5), "f2")), "float16"),
    "ids are too few": (ids(["a"]), r"item_ids_ has the shape \(1,\)"),
    "ids come twice": (ids(["a", "a", "b", "c", "d"]), "holds an id twice"),
    "an id is missing": (ids(["a", None, "b", "c", "d"]), "item id number 1 .* is missing"),
    "the certificate has another field": (certificate("x", 1), r"field of certificate_ \['x'\]"),
    "the certificate's gap is text": (certificate("gap", "no"), "gap of certificate_ is 'no'"),
    "the certificate's method is unknown": (certificate("method", "faith"), "method of cert"),
    "it says to be another model": (other_model, "which this model does not have"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_model_is_refused_before_it_exists(model, case):
    change, message = FORGED[case]
    with pytest.raises(ArtefactError, match=message) as caught:
        eq.load(forged(model, change))
    assert "model.eqp is no" in str(caught.value)
    assert ". It was not written by equipoise as it is; get it again" in str(caught.value)
    assert ".. " not in str(caught.value)


def test_an_unchanged_model_passes_the_same_forger(model):
    before = eq.load(model)
    after = eq.load(forged(model, lambda *_: None))
    np.testing.assert_array_equal(before.components_, after.components_)


def test_the_seed_of_a_random_model_cannot_be_negative(tmp_path):
    path = eq.models.Random().fit(PLAYS).save(tmp_path / "model.eqp")
    with pytest.raises(ArtefactError, match="seed_ is -1, and is to be a whole number from 0 on"):
        eq.load(forged(path, field("scalars", "seed_", -1)))


def test_a_header_that_claims_a_petabyte_is_refused_without_allocating(model, monkeypatch):
    def claim(manifest, entries):
        name = "components_"
        body = entries[f"arrays/{name}.npy"].partition(b"\n")[2]
        entries[f"arrays/{name}.npy"] = npy_header("<f8", (10**15, 5)) + body
        manifest["arrays"][name] |= {"shape": [10**15, 5]}
        manifest["arrays"][name]["bytes"] = len(entries[f"arrays/{name}.npy"])

    def refuse(shape, *_, **__):
        assert np.prod(shape) < 1000, f"{shape} was allocated"
        return real(shape, *_, **__)

    real = np.empty
    forged(model, claim)
    monkeypatch.setattr(np, "empty", refuse)
    with pytest.raises(ArtefactError, match="shape and size of 'components_' disagree"):
        eq.load(model)


def test_a_packed_bomb_is_refused_before_it_is_unpacked(model):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(50_000_000))
    model.write_bytes(file.getvalue())
    with pytest.raises(ArtefactError, match="is compressed, and equipoise never writes those"):
        eq.load(model)


def test_indices_of_a_sparse_model_must_be_whole_numbers(tmp_path):
    path = eq.models.ItemKNN(2).fit(PLAYS).save(tmp_path / "model.eqp")
    with zipfile.ZipFile(path) as archive:
        starts = np.lib.format.read_array(archive.open("arrays/item_weights_.indptr.npy"))
    with pytest.raises(ArtefactError, match="indices of 'item_weights_' are no whole numbers"):
        eq.load(forged(path, array("item_weights_.indptr", starts.astype("f8"))))


def test_row_starts_of_a_sparse_model_lead_nowhere_else(tmp_path):
    path = eq.models.ItemKNN(2).fit(PLAYS).save(tmp_path / "model.eqp")
    with zipfile.ZipFile(path) as archive:
        starts = np.lib.format.read_array(archive.open("arrays/item_weights_.indptr.npy"))
    starts[1], starts[-1] = 10**6, 0  # without a stored entry SciPy looks no further
    with pytest.raises(ArtefactError, match="indices of 'item_weights_' lead outside of it"):
        eq.load(forged(path, array("item_weights_.indptr", starts)))


def test_entries_of_a_sparse_model_outside_its_rows_are_refused(tmp_path):
    path = eq.models.ItemKNN(2).fit(PLAYS).save(tmp_path / "model.eqp")
    with zipfile.ZipFile(path) as archive:
        starts = np.lib.format.read_array(archive.open("arrays/item_weights_.indptr.npy"))
    starts[-1] -= 1  # SciPy accepts it when the matrix is built, and fails in a product
    with pytest.raises(ArtefactError, match="'item_weights_' has entries outside"):
        eq.load(forged(path, array("item_weights_.indptr", starts)))


def test_unused_space_of_a_sparse_matrix_is_not_saved(tmp_path):
    matrix = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    roomy = matrix.copy()
    roomy.data, roomy.indices = np.append(matrix.data, 9.0), np.append(matrix.indices, 0)
    path = tmp_path / "model.eqp"
    write_artefact(path, model="X", parameters={}, scalars={}, arrays={"W": roomy})
    saved = read_artefact(path).arrays["W"]
    np.testing.assert_array_equal((matrix @ saved).toarray(), (matrix @ matrix).toarray())

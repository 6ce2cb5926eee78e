"""Untrusted model files: every checksum is correct, but the content does not fit the class."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

import equipoise as eq
from equipoise.data import Interactions
from equipoise.exceptions import ArtifactError
from equipoise.models.persistence import read_model, write_model

PLAYS = Interactions.from_pairs(
    [f"u{k}" for k in range(9) for _ in range(2)],
    [f"i{(k + step) % 5}" for k in range(9) for step in (0, 1 + k % 3)],
)


@pytest.fixture
def model(tmp_path):
    return eq.ItemWeightedPCA(2).fit(PLAYS).save(tmp_path / "model.eqp")


def forged(path, change):
    """Apply `change` to the manifest and the entries, and pack them again."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    change(manifest, entries)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, stored in entries.items():
            archive.writestr(name, stored)
        archive.writestr("manifest.json", json.dumps(manifest))
    path.write_bytes(file.getvalue())
    return path


def array(name, values):
    def change(_, entries):
        file = io.BytesIO()
        np.save(file, values)
        entries[f"arrays/{name}.npy"] = file.getvalue()
        entries.pop(f"arrays/{name}.json", None)

    return change


def field(group, name, value):
    def change(manifest, _):
        manifest[group][name] = value

    return change


def certificate(name, value):
    def change(manifest, _):
        manifest["scalars"]["certificate_"][name] = value

    return change


def ids(values):
    def change(_, entries):
        entries["arrays/item_ids_.json"] = json.dumps(values).encode()

    return change


def without(name):
    def change(_, entries):
        entries.pop(name)

    return change


def other_model(manifest, _):
    manifest["model"] = "EASE"


FORGED = {
    "a method is shadowed by a number": (field("scalars", "recommend", 1), "'recommend' is not"),
    "the class is replaced": (field("scalars", "__class__", "x"), "'__class__' is not"),
    "a method is shadowed by an array": (array("_scores", np.eye(5)), "'_scores' is not"),
    "a parameter is unknown": (field("parameters", "shell", "ls"), "'shell'"),
    "a parameter is out of range": (field("parameters", "tol", 7), "'tol' parameter"),
    "a parameter is of another type": (field("parameters", "gamma", {"a": 1}), "'gamma' parameter"),
    "an array is missing": (without("arrays/components_.npy"), "components_"),
    "the items are not counted": (field("scalars", "n_features_in_", "5"), "cannot be read"),
    "more items are claimed than there are": (field("scalars", "n_features_in_", 10**9), "read"),
    "components have other items": (array("components_", np.ones((2, 4))), "cannot be read"),
    "components are flat": (array("components_", np.ones(5)), "cannot be read"),
    "components are dates": (array("components_", np.zeros((2, 5), "M8[D]")), "cannot be read"),
    "ids are too few": (ids(["a"]), "do not fit"),
    "the certificate has another field": (certificate("x", 1), "'x'"),
    "it says to be another model": (other_model, "argument"),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_model_is_refused_before_it_exists(model, case):
    change, message = FORGED[case]
    with pytest.raises(ArtifactError, match=message) as caught:
        eq.load(forged(model, change))
    assert "model.eqp cannot be read" in str(caught.value)
    assert ".. " not in str(caught.value)


def test_a_model_that_is_only_packed_again_loads(model):
    before = eq.load(model)
    after = eq.load(forged(model, lambda *_: None))
    np.testing.assert_array_equal(before.components_, after.components_)


@pytest.mark.parametrize("n_items", [4, 6])
def test_factors_of_other_items_are_refused(tmp_path, n_items):
    path = eq.models.IPSMF(2, iterations=1).fit(PLAYS).save(tmp_path / "model.eqp")
    with pytest.raises(ArtifactError, match="cannot be read"):
        eq.load(forged(path, array("item_factors_", np.zeros((n_items, 2)))))


def test_a_header_that_claims_a_petabyte_is_refused(model):
    def claim(_, entries):
        header = entries["arrays/components_.npy"].replace(b"(2, 5)", b"(2, 5" + b"0" * 14 + b")")
        entries["arrays/components_.npy"] = header.replace(b" " * 14 + b"\n", b"\n")

    with pytest.raises(ArtifactError, match="cannot be read as an equipoise model"):
        eq.load(forged(model, claim))


@pytest.mark.medium
def test_a_zip_bomb_is_refused_before_it_is_unpacked(model, monkeypatch):
    with zipfile.ZipFile(model, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(300_000_000))
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(ArtifactError, match="would unpack to 300,000,000"):
        eq.load(model)


def test_sparse_row_starts_must_be_in_bounds(tmp_path):
    path = eq.models.ItemKNN(2).fit(PLAYS).save(tmp_path / "model.eqp")
    with zipfile.ZipFile(path) as archive:
        starts = np.lib.format.read_array(archive.open("arrays/coefficients_.indptr.npy"))
    starts[1], starts[-1] = 10**6, 0  # SciPy checks no further if nothing is stored
    with pytest.raises(ArtifactError, match="'coefficients_' are out of bounds"):
        eq.load(forged(path, array("coefficients_.indptr", starts)))


def test_entries_of_a_sparse_model_outside_its_rows_are_refused(tmp_path):
    path = eq.models.ItemKNN(2).fit(PLAYS).save(tmp_path / "model.eqp")
    with zipfile.ZipFile(path) as archive:
        starts = np.lib.format.read_array(archive.open("arrays/coefficients_.indptr.npy"))
    starts[-1] -= 1  # SciPy accepts it when the matrix is built, and fails in a product
    with pytest.raises(ArtifactError, match="'coefficients_' are out of bounds"):
        eq.load(forged(path, array("coefficients_.indptr", starts)))


def test_unused_space_of_a_sparse_matrix_is_not_saved(tmp_path):
    matrix = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    roomy = matrix.copy()
    roomy.data, roomy.indices = np.append(matrix.data, 9.0), np.append(matrix.indices, 0)
    path = tmp_path / "model.eqp"
    write_model(path, model="X", parameters={}, scalars={}, arrays={"W": roomy})
    saved = read_model(path).arrays["W"]
    np.testing.assert_array_equal((matrix @ saved).toarray(), (matrix @ matrix).toarray())

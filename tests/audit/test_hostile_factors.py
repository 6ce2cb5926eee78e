"""Untrusted files of factors: false headers, zip bombs, sparse indices out of bounds."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import array_files
from equipoise.audit.models.given import read_models
from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError

M = 5
PLAYS = Interactions.from_sparse(sp.csr_array(np.ones((3, M))))


def header(shape, descr="<f8"):
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive(path, members, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(values):
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def no_array(*_, **__):
    pytest.fail("an array was read")


@pytest.mark.parametrize("shape", [(10**15,), (M, 10**14), (2**62, 2**62), (M, 3)])
def test_a_header_that_claims_more_than_follows_is_refused(tmp_path, shape):
    (tmp_path / "y.npy").write_bytes(header(shape) + bytes(8 * M))
    archive(tmp_path / "y.npz", {"item_factors": header(shape) + bytes(8 * M)})
    for name in ("y.npy", "y.npz"):
        with pytest.raises(InvalidDataError, match="cannot be read as a matrix"):
            read_models([tmp_path / name], PLAYS)


@pytest.mark.medium
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    big = np.zeros((M, 40_000_000 // M))  # 320 MB of zeros in a file of 311 kB
    path = archive(tmp_path / "y.npz", {"item_factors": npy(big)})
    assert path.stat().st_size < 1_000_000
    monkeypatch.setattr(array_files.npy, "read_array", no_array)
    with pytest.raises(InvalidDataError, match=r"would unpack to 320,\d+,\d+ bytes"):
        read_models([path], PLAYS)


@pytest.mark.parametrize(
    ("columns", "starts"),
    [
        ([0, 99], [0, 1, 2, 2, 2, 2]),
        ([0, -7], [0, 1, 2, 2, 2, 2]),
        ([0, 1], [0, 9, 2, 2, 2, 2]),
        ([0, 1], [0, 9, 2, 2, 2, 0]),
        ([0, 1], [0, 0, -1, 2, 2, 0]),
    ],
)
def test_indices_that_lead_out_of_the_matrix_are_refused(tmp_path, columns, starts):
    parts = {"data": np.ones(2), "indices": np.array(columns), "indptr": np.array(starts)}
    members = {name: npy(values) for name, values in (parts | {"shape": np.array([M, M])}).items()}
    path = archive(tmp_path / "y.npz", members)
    with pytest.raises(InvalidDataError, match="out of the bounds"):
        read_models([path], PLAYS)


@pytest.mark.parametrize(
    "content",
    [
        header((M, 2), "|O") + bytes(80),
        b"\x93NUMPY\x09\x00" + bytes(100),
        b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',\n" + bytes(100),
        header((M, -2)) + bytes(80),
        header("x") + bytes(80),
        b"",
    ],
)
def test_headers_that_say_nothing_sound_are_refused(tmp_path, content):
    (tmp_path / "y.npy").write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"read as a matrix|only zeros"):
        read_models([tmp_path / "y.npy"], PLAYS)


def test_sparse_matrices_as_scipy_saves_them_are_still_read(tmp_path):
    values = np.diag(np.arange(1.0, M + 1))
    for kind in (sp.csr_array, sp.csc_array, sp.bsr_array):
        sp.save_npz(tmp_path / "y.npz", kind(values))
        (subject,) = read_models([tmp_path / "y.npz"], PLAYS)
        assert subject.kind == "scores"


def test_lists_of_words_are_refused(tmp_path):
    table = pl.DataFrame({"vector": [["a"], ["b"], ["c"], ["d"], ["e"]]})
    table.write_parquet(tmp_path / "y.parquet")
    with pytest.raises(InvalidDataError, match="'vector' must contain lists"):
        read_models([tmp_path / "y.parquet"], PLAYS)

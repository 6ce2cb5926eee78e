"""Files of item factors (`--model`): .npy, .npz, Parquet and .eqp, untrusted."""

from __future__ import annotations

import io
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

from equipoise.audit.models.audited import Projection
from equipoise.audit.models.given import read_models
from equipoise.audit.models.tables import read_vectors
from fuzz.choices import Choices
from fuzz.mutation import mutated
from fuzz.target import Mismatch, Target
from fuzz.targets import model, parquet

# The first byte of an input says what the file is called
_ENDINGS = (".npy", ".npz", ".npz", ".parquet", ".eqp", ".bin")
_PLAYS = model.PLAYS
_KINDS = ("<f8", "<f4", "<f2", "<i4", "|u1", "|b1", "<c8", "<U2", "|O", "<M8[D]", ">f8")
_KEYS = ("item_factors", "components_", "data", "indices", "indptr", "shape", "format", "x", "a/b")


@cache
def seeds() -> tuple[bytes, ...]:
    """Files as NumPy, SciPy, implicit, polars and this package write them."""
    Y = np.random.default_rng(0).normal(size=(_PLAYS.n_items, 3))
    sparse = io.BytesIO()
    sp.save_npz(sparse, sp.csr_array(np.round(Y @ Y.T)))
    S = sp.csr_array(np.round(Y @ Y.T))
    table = pl.DataFrame({"item": _PLAYS.item_ids, "f0": Y[:, 0], "f1": Y[:, 1]})
    lists = pl.DataFrame({"item": _PLAYS.item_ids, "vector": Y.tolist()})
    return (
        b"\0" + _npy(Y), b"\0" + _npy(np.asfortranarray(Y.T.astype("f4"))), b"\0" + _npy(Y @ Y.T),
        b"\1" + _npz(item_factors=Y), b"\1" + _npz(components_=Y.T), b"\1" + _npz(x=Y, b=Y[:, 0]),
        b"\1" + sparse.getvalue(), b"\1" + _npz(data=S.data, indices=S.indices, indptr=S.indptr,
        shape=np.array(S.shape)), b"\3" + parquet.packed(table), b"\3" + parquet.packed(lists),
        b"\4" + model.seeds()[0], b"\4" + model.seeds()[4],
    )  # fmt: skip


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def mutate(random: Random, content: bytes) -> bytes:
    """Change the file by what its kind is made of."""
    kind = content[:1]
    if kind == b"\0":
        return b"\0" + _changed_array(random, content[1:])
    if kind == b"\4":
        return b"\4" + model.mutate(random, content[1:])
    if kind == b"\3":
        return b"\3" + packed_factors(random)
    return b"\1" + _changed_archive(random, content[1:])


def _changed_array(random: Random, content: bytes) -> bytes:
    if random.random() < 0.5:
        return mutated(random, content, (), text=False)
    shape = tuple(
        random.choice((0, 1, 2, 3, 8, 9, 10**15, -1)) for _ in range(random.choice((1, 2, 2, 3)))
    )
    described = {"descr": random.choice(_KINDS), "fortran_order": bool(random.getrandbits(1))}
    header = repr(described | {"shape": shape}).encode() + b" " * 20 + b"\n"
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    width = 2 if version == b"\x01\x00" else 4
    body = random.randbytes(random.choice((0, 8, 64, 8 * 8 * 3)))
    return b"\x93NUMPY" + version + len(header).to_bytes(width, "little") + header + body


def _changed_archive(random: Random, content: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()[:8]}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError):
        return random.choice([seed[1:] for seed in seeds() if seed[:1] == b"\1"])
    except zlib.error:
        return content[:100]
    name = random.choice([*entries, f"{random.choice(_KEYS)}.npy", "x.txt"])
    if random.random() < 0.15:
        entries.pop(name, None)
    else:
        old = entries.get(name) or _npy(np.eye(2))
        entries[name] = (
            _changed_array(random, old)
            if random.random() < 0.6
            else _npy(
                np.array(
                    [random.choice((0, 1, 7, 8, 9, -1, 10**9)) for _ in range(random.randrange(10))]
                )
            )
        )
    file = io.BytesIO()
    packing = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    with zipfile.ZipFile(file, "w", packing) as archive:
        for each, stored in entries.items():
            archive.writestr(each, stored)
    return file.getvalue()


def packed_factors(random: Random) -> bytes:
    """Return an intact Parquet file of odd types; the target `parquet` tries damaged ones."""
    choices = Choices(random.randbytes(40))
    height = choices.one((8, 8, 8, 7, 0))
    columns: dict[str, Any] = {}
    if choices.yes():
        ids = list(range(8)) if choices.yes() else _PLAYS.item_ids.tolist()
        columns[choices.one(("item", "item_id", "id"))] = (ids * 2)[choices.below(2) :][:height]
    for k in range(choices.below(4)):
        kind, values = choices.one(
            ((pl.Float64, [0.5, -1.0, 2.0, 1e308]), (pl.Float64, [float("nan"), 1.0, None, 0.0]),
             (pl.Int32, [1, 2, 3, 4]), (pl.String, ["a", "b", "c", "d"]), (pl.Boolean, [True] * 4),
             (pl.List(pl.Float64), [[1.0, 2.0], [3.0, 4.0], [1.0, 0.0], [5.0, 6.0]]),
             (pl.List(pl.Float64), [[1.0], [3.0, None], None, []]),
             (pl.List(pl.String), [["a"], ["b"], ["c"], ["d"]]),
             (pl.List(pl.List(pl.Int8)), [[[1]], [[2]], [[3]], [[4]]]))
        )  # fmt: skip
        columns[f"f{k}"] = pl.Series((values * 2)[:height], dtype=kind)
    return parquet.packed(pl.DataFrame(columns))


def call(content: bytes, folder: Path) -> None:
    """Read the file as a model to audit; its components must be orthonormal."""
    ending = _ENDINGS[content[0] % len(_ENDINGS) if content else 0]
    path = folder / f"factors{ending}"
    path.write_bytes(content[1:])
    with np.errstate(all="ignore"):
        (model,) = read_models([path], _PLAYS)
    if isinstance(model, Projection):
        P = model.model.components @ model.model.components.T
        if ending != ".eqp" and not np.allclose(P, np.eye(len(P)), atol=1e-2):
            raise Mismatch("the directions of the factors are not orthonormal")
    if ending == ".npy":
        expected = np.load(io.BytesIO(content[1:]), allow_pickle=False)
        if not np.array_equal(
            read_vectors(path, path.name, "item", _PLAYS.n_items).values, expected
        ):
            raise Mismatch("the matrix is not what NumPy reads")


TARGET = Target("factors", call, seeds, mutate=mutate)

"""Model files: damaged ones, and forged ones whose hashes are right."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.data import Interactions
from fuzz.target import Mismatch, Target

_DTYPES = ("<f8", "<f4", "<i8", "|b1", "<U3", "<M8[D]", "|O", "<c16", "|V8", "object", "<f2", "x")
_NAMES = (
    "recommend", "__class__", "_scores", "item_ids_", "components_", "n_features_in_", "fit", "x",
    "certificate_", "random_state", "preprocess", "../x", "feature_names_in_", "__dict__",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 3, 10**15, 2**70, 0.5, 1e308, "", "x", "auto", [], [1, 2], {}, {"a": 1},
    float("nan"), float("inf"), "recommend", [[[]]],
)  # fmt: skip


# Twelve users of eight items: every user likes some adjacent items on a ring
PLAYS = Interactions.from_pairs(
    [f"user {k}" for k in range(12) for _ in range(3)],
    [f"item {(k + step) % 8}" for k in range(12) for step in (0, 1, k % 5)],
    [1.0 + (k * step) % 4 for k in range(12) for step in range(3)],
)


@cache
def seeds() -> tuple[bytes, ...]:
    """One saved model of each kind that needs no extra."""
    models = [
        eq.ItemWeightedPCA(2, gamma=-0.5),
        eq.ItemWeightedPCA(2, item_weights=np.arange(1.0, PLAYS.n_items + 1)),
        eq.VanillaPCA(2),
        eq.NormalizedPCA(2),
        eq.models.EASE(),
        eq.models.ItemKNN(2),
        eq.models.GFCF(2),
        eq.models.Popularity(),
        eq.models.Random(),
        eq.models.TraceNormMF(0.5),
        eq.models.IPSMF(2, iterations=1),
    ]
    with tempfile.TemporaryDirectory() as folder:
        return tuple(one.fit(PLAYS).save(Path(folder) / "m.eqp").read_bytes() for one in models)


def mutate(random: Random, content: bytes) -> bytes:
    """Forge: change what is declared or stored, and pack it again."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = {name: archive.read(name) for name in archive.namelist()}
            manifest = json.loads(entries.pop("manifest.json"))
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            random.choice(_FORGERIES)(random, manifest, entries)
        return _sealed(manifest, entries, random)
    except Exception:  # not a readable model: nothing to forge
        return random.choice(seeds())


def _sealed(manifest: Any, entries: dict[str, bytes], random: Random) -> bytes:
    file = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if random.random() < 0.02 else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name in sorted(entries):
            archive.writestr(name, entries[name])
        archive.writestr("manifest.json", json.dumps(manifest))
    return file.getvalue()


def _field(random: Random, manifest: Any, _: dict[str, bytes]) -> None:
    group = random.choice(("parameters", "scalars", "scalars"))
    name = random.choice([*manifest[group], random.choice(_NAMES)])
    if random.random() < 0.2:
        manifest[group].pop(name, None)
    else:
        manifest[group][name] = random.choice(_ODD)


def _inner(random: Random, manifest: Any, _: dict[str, bytes]) -> None:
    certificate = manifest["scalars"].get("certificate_", {})
    certificate[random.choice([*certificate, "x"])] = random.choice(_ODD)


def _top(random: Random, manifest: Any, _: dict[str, bytes]) -> None:
    kinds = (
        "ItemWeightedPCA",
        "EASE",
        "Popularity",
        "GFCF",
        "LightGCN",
        "WeightedMF",
        "Recommender",
    )
    if random.random() < 0.7:
        manifest["model"] = random.choice(kinds)
    else:
        manifest[random.choice([*manifest, "x"])] = random.choice(_ODD)


def _array(random: Random, _: Any, entries: dict[str, bytes]) -> None:
    """Store another array under a name: of another shape, another type, with odd numbers."""
    name = random.choice([*_stored(entries), random.choice(_NAMES)])
    if random.random() < 0.2:
        entries.pop(f"arrays/{name}.npy", None)
        return
    shape = tuple(
        random.choice((0, 1, 2, 7, 8, 9)) for _ in range(random.choice((0, 1, 1, 2, 2, 3)))
    )
    dtype = random.choice(_DTYPES[:6])
    values = np.array([random.randrange(4) for _ in range(int(np.prod(shape)))]).reshape(shape)
    if dtype[1] == "f" and values.size and random.random() < 0.3:
        values = values.astype(dtype)
        values.flat[0] = random.choice((np.nan, np.inf, -1.0, 1e30))
    file = io.BytesIO()
    np.save(file, values.astype(dtype))
    entries.pop(f"arrays/{name}.json", None)
    entries[f"arrays/{name}.npy"] = file.getvalue()


def _stored(entries: dict[str, bytes]) -> list[str]:
    names = [name for name in entries if name.endswith(".npy")]
    return [name.removeprefix("arrays/").removesuffix(".npy") for name in names]


def _declared(random: Random, _: Any, entries: dict[str, bytes]) -> None:
    """Write another shape or type into the header than is stored."""
    name = f"arrays/{random.choice(_stored(entries))}.npy"
    body = entries[name].partition(b"\n")[2]
    shape = tuple(random.choice((0, 1, 8, 10**15, 2**62, -1)) for _ in range(random.randrange(4)))
    text = repr({"descr": random.choice(_DTYPES), "fortran_order": False, "shape": shape}).encode()
    entries[name] = (
        b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n" + body
    )


def _ids(random: Random, _: Any, entries: dict[str, bytes]) -> None:
    values = [random.choice((0, 1, "a", None, float("nan"), [1], 2.5, {"a": []}))
              for _ in range(random.choice((0, 7, 8, 8, 9)))]  # fmt: skip
    entries.pop("arrays/item_ids_.npy", None)
    entries["arrays/item_ids_.json"] = json.dumps(values).encode()


_FORGERIES = (_field, _field, _inner, _top, _array, _array, _array, _declared, _ids)


def call(content: bytes, folder: Path) -> None:
    """Load the model; if it is accepted it can be used, and comes back the same."""
    path = folder / "model.eqp"
    path.write_bytes(content)
    model = eq.load(path)
    _use(model)
    again = eq.load(model.save(folder / "again.eqp"))
    if not np.array_equal(_answers(model), _answers(again), equal_nan=True):
        raise Mismatch("the model answers otherwise after it was saved and loaded")


def _use(model: Any) -> None:
    names = range(model.n_features_in_) if model.item_ids_ is None else model.item_ids_
    row = np.zeros(model.n_features_in_)
    row[:1] = 1.0
    model.recommend(row, k=3)
    model.similar_items(names[0], k=2)
    model.explain(row, names[0])
    repr(model)


def _answers(model: Any) -> Any:
    rows = np.eye(min(model.n_features_in_, 16), model.n_features_in_)
    with np.errstate(all="ignore"):
        return np.asarray(model.recommend(rows, k=3).scores)


TARGET = Target("model", call, seeds, mutate=mutate)

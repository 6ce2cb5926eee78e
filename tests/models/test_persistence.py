"""A model file comes back as it was written, or is refused; it is never half there."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from equipoise.exceptions import ArtefactError, OutputError
from equipoise.models.persistence import Artefact, read_artefact, write_artefact
from equipoise.models.persistence.format import json_bytes, sha256_of

deterministic = settings(derandomize=True, max_examples=60, deadline=None, database=None)


def save(path: Path, **changes: Any) -> Path:
    """Write one small model with every kind of content."""
    content: dict[str, Any] = {
        "model": "ItemWeightedPCA",
        "parameters": {"rank": 2, "gamma": -1.0, "items": None, "grid": (0.5, [1, math.nan])},
        "scalars": {"gap": math.inf, "big": 2**63 - 1, "name": "é\ud800"},
        "arrays": {
            "U": np.arange(6.0).reshape(3, 2),
            "item_ids": np.array(["a", 1, 1.0, True, None, math.nan, -math.inf], dtype=object),
            "user_ids": np.array(["ann", "bjørn"]),
            "seen": csr_array(np.array([[0, 2.0, 0], [1.0, 0, 3.0]])),
        },
    }
    return write_artefact(path, **{**content, **changes})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "pca.model")


def same(a: Any, b: Any) -> bool:
    """Equal in type and value: NaN equals itself, 0.0 is not -0.0, True is not 1."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def fingerprint(artefact: Artefact) -> str:
    """Everything a reader can see, bit by bit."""
    arrays = []
    for name, array in sorted(artefact.arrays.items()):
        if isinstance(array, csr_array):
            arrays.append((name, array.shape, array.data.tolist(), array.indices.tolist()))
        else:
            arrays.append((name, array.dtype.str, array.shape, repr(array.tolist())))
    return repr((artefact.model, artefact.parameters, artefact.scalars, artefact.version, arrays))


def rezip(
    path: Path,
    change: Callable[[dict[str, bytes]], None],
    compression: int = zipfile.ZIP_STORED,
) -> None:
    """Repack the file after a change to its entries, with right CRCs: an edit by hand."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and seal it again, as an attacker who has read this code would."""

    def edit(entries: dict[str, bytes]) -> None:
        manifest = json.loads(entries["manifest.json"])
        change(manifest)
        manifest.pop("sha256", None)
        seal = sha256_of(json_bytes(manifest))
        entries["manifest.json"] = json_bytes({**manifest, "sha256": seal}, 2)

    rezip(path, edit)


# ------------------------------------------------------------------------------- round trips


def test_every_kind_of_content_comes_back(model: Path) -> None:
    saved = read_artefact(model)
    assert saved.model == "ItemWeightedPCA"
    grid = (0.5, [1, math.nan])
    expected = {"rank": 2, "gamma": -1.0, "items": None, "grid": grid}
    assert same(saved.parameters, expected)
    assert same(saved.scalars, {"big": 2**63 - 1, "gap": math.inf, "name": "é\ud800"})
    np.testing.assert_array_equal(saved.arrays["U"], [[0, 1], [2, 3], [4, 5]])
    assert saved.arrays["user_ids"].tolist() == ["ann", "bjørn"]
    ids = saved.arrays["item_ids"].tolist()
    assert same(ids, ["a", 1, 1.0, True, None, math.nan, -math.inf])
    assert isinstance(saved.arrays["seen"], csr_array)
    np.testing.assert_array_equal(saved.arrays["seen"].toarray(), [[0, 2, 0], [1, 0, 3]])
    assert set(saved.arrays) == {"U", "item_ids", "user_ids", "seen"}


plain_dtypes = (
    hnp.boolean_dtypes()
    | hnp.integer_dtypes(endianness="?")
    | hnp.unsigned_integer_dtypes(endianness="?")
    | hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64))
    | hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=5)
    | hnp.datetime64_dtypes(endianness="?")
    | hnp.timedelta64_dtypes(endianness="?")
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@deterministic
@given(array=hnp.arrays(plain_dtypes, shapes))
def test_arrays_come_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, array: NDArray[Any]
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "m"
    found = read_artefact(save(path, arrays={"a": array})).arrays["a"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3).filter(lambda k: k[:1] != "$"), inner, max_size=3)
    ),
    max_leaves=8,
)


@deterministic
@given(value=values, ids=st.lists(scalars, max_size=6))
def test_values_and_mixed_ids_come_back_with_their_types(
    tmp_path_factory: pytest.TempPathFactory, value: Any, ids: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("values") / "m"
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    save(path, parameters={"v": value}, scalars={"w": [value]}, arrays={"ids": array})
    saved = read_artefact(path)
    assert same(saved.parameters, {"v": value})
    assert same(saved.scalars, {"w": [value]})
    assert same(saved.arrays["ids"].tolist(), ids)


def test_numpy_scalars_come_back_as_equal_python_ones(tmp_path: Path) -> None:
    ids = np.array([np.int64(2**62), np.str_("x"), np.bool_(True)], dtype=object)
    saved = read_artefact(save(tmp_path / "m", scalars={"g": np.float64(0.1)}, arrays={"ids": ids}))
    assert same(saved.scalars, {"g": 0.1})
    assert same(saved.arrays["ids"].tolist(), [2**62, "x", True])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_matrices_keep_their_index_type(tmp_path: Path, kind: type, index: type) -> None:
    matrix = kind(np.eye(3, dtype=np.float32))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    found = read_artefact(save(tmp_path / "m", arrays={"seen": matrix})).arrays["seen"]
    assert (found.indices.dtype, found.indptr.dtype, found.dtype) == (index, index, np.float32)
    np.testing.assert_array_equal(found.toarray(), np.eye(3))


def test_numpy_itself_can_read_the_arrays(model: Path) -> None:
    with np.load(model, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["arrays/U"], [[0, 1], [2, 3], [4, 5]])
        assert archive["arrays/user_ids"].tolist() == ["ann", "bjørn"]


def test_equal_models_are_equal_bytes_whatever_the_order_and_memory_layout(
    tmp_path: Path,
) -> None:
    U, w = np.arange(6.0).reshape(2, 3), np.ones(2)
    a = save(tmp_path / "a", parameters={"x": 1, "y": 2}, arrays={"U": U, "w": w})
    b = save(
        tmp_path / "b", parameters={"y": 2, "x": 1}, arrays={"w": w, "U": np.asfortranarray(U)}
    )
    assert a.read_bytes() == b.read_bytes()
    again = read_artefact(a)
    c = save(tmp_path / "c", parameters=again.parameters, arrays=again.arrays)
    assert c.read_bytes() == a.read_bytes()


# ------------------------------------------------------------------------ what is not written


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"U": [1.0]}, r"array 'U' is a list, .* Pass a NumPy array"),
        ({"U": csr_array(np.eye(2)).tocsc()}, r"array 'U' is a csc_array"),
        ({"../U": np.eye(2)}, r"array name '../U' is not an identifier"),
        ({"U": np.zeros(2, complex)}, r"array 'U' has dtype complex128 .* Use numbers up to 64"),
        ({"U": np.zeros(2, np.longdouble)}, r"array 'U' has dtype float128|longdouble"),
        ({"U": np.zeros(2, "i4,f8")}, r"array 'U' has dtype"),
        ({"U": np.array([b"x"])}, r"array 'U' has dtype \|S1"),
        ({"ids": np.array([["a"]], dtype=object)}, r"'ids' of objects has 2 dimensions"),
        ({"ids": np.array(["a", {1}], dtype=object)}, r"array 'ids', element 1, is of type set"),
        ({"ids": np.array([("a",), 1], dtype=object)}, r"array 'ids', element 0, is of type tuple"),
        ({"ids": np.array([1 << 9999], dtype=object)}, r"array 'ids', element 0, is of type int"),
    ],
)
def test_an_array_that_cannot_be_kept_is_refused_by_name(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    if "float128" in message and np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is a plain double here")
    with pytest.raises(ArtefactError, match=message):
        save(tmp_path / "m", arrays=arrays)
    assert list(tmp_path.iterdir()) == []


def test_more_dimensions_than_every_numpy_can_hold_are_refused(tmp_path: Path) -> None:
    try:
        deep = np.zeros((1,) * 33)
    except ValueError:
        pytest.skip("this NumPy holds no more than 32 dimensions")
    with pytest.raises(ArtefactError, match="33 dimensions"):
        write_artefact(tmp_path / "m.eqp", model="M", parameters={}, scalars={}, arrays={"U": deep})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"seed": np.random.default_rng(0)},
            r"parameters\['seed'\] is of type Generator, .* Use None",
        ),
        ({"a": [1, {2}]}, r"parameters\['a'\]\[1\] is of type set"),
        ({"a": {1: 2}}, r"parameters\['a'\] is of type dict"),
        ({"a": {"$float": "nan"}}, r"parameters\['a'\] is of type dict"),
    ],
)
def test_a_parameter_that_cannot_be_kept_is_refused_by_name(
    tmp_path: Path, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArtefactError, match=message):
        save(tmp_path / "m", parameters=parameters)
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------- whole or not at all


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_while_writing_leaves_the_old_file_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch, failure: Any, step: str
) -> None:
    before = model.read_bytes()

    def fail(*_: Any) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    expected = OutputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        save(model, model="Other")
    monkeypatch.undo()
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]
    if expected is OutputError:
        assert f"{model} was not written: No space left on device" in str(caught.value)
        assert "What was there before is untouched" in str(caught.value)


FULL_DISK = """
import resource, sys, numpy as np
from equipoise.exceptions import OutputError
from equipoise.models.persistence import write_artefact
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_artefact(sys.argv[1], model="M", parameters={}, scalars={}, arrays={"U": np.ones(50000)})
except OutputError as error:
    print(error)
"""


@pytest.mark.skipif(os.name == "nt", reason="limits of this kind are POSIX")
@pytest.mark.parametrize("limit", [100, 399_000, 400_300])
def test_a_disk_that_fills_up_leaves_the_old_file_alone(model: Path, limit: int) -> None:
    before = model.read_bytes()
    command = [sys.executable, "-c", FULL_DISK, str(model), str(limit)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{model} was not written: File too large" in run.stdout
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]


def test_a_folder_that_is_missing_or_in_the_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"was not written: No such file.*folder exists"):
        save(tmp_path / "nowhere" / "m")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"folder was not written: Is a directory"):
        save(tmp_path / "folder")
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_writers_at_the_same_time_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "m"

    def write(k: int) -> None:
        for _ in range(5):
            save(path, scalars={"k": k}, arrays={"U": np.full(20_000, float(k))})

    threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saved = read_artefact(path)
    assert saved.scalars["k"] in range(4)
    assert (saved.arrays["U"] == saved.scalars["k"]).all()
    assert list(tmp_path.iterdir()) == [path]


# --------------------------------------------------------------------------- refused by readers


def test_every_truncation_is_refused(model: Path) -> None:
    whole = model.read_bytes()
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        model.write_bytes(whole[:length])
        with pytest.raises(ArtefactError, match=r"pca\.model is no whole model file: .*Copy it"):
            read_artefact(model)


def outcome(path: Path) -> str:
    try:
        return fingerprint(read_artefact(path))
    except ArtefactError as error:
        return f"refused: {error}"


def test_a_flipped_bit_is_refused_or_changes_nothing(model: Path) -> None:
    whole, expected = model.read_bytes(), fingerprint(read_artefact(model))
    outcomes = []
    for offset in range(len(whole)):
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << offset % 8
        model.write_bytes(damaged)
        outcomes.append(outcome(model))
    refused = [text for text in outcomes if text.startswith(f"refused: {model}")]
    # What is not refused is a date or a flag of the zip that says nothing about the content.
    assert set(outcomes) - set(refused) == {expected}
    assert len(refused) > 0.8 * len(whole)


def test_a_flipped_byte_of_an_array_is_refused_even_with_the_right_crc(model: Path) -> None:
    def flip(entries: dict[str, bytes]) -> None:
        entries["arrays/U.npy"] = entries["arrays/U.npy"][:-1] + b"\x7f"

    rezip(model, flip)
    with pytest.raises(ArtefactError, match=r"'arrays/U.npy' has not its declared sha256"):
        read_artefact(model)


def test_a_manifest_edited_by_hand_is_refused(model: Path) -> None:
    def edit(entries: dict[str, bytes]) -> None:
        entries["manifest.json"] = entries["manifest.json"].replace(b'"rank": 2', b'"rank": 3')

    rezip(model, edit)
    with pytest.raises(ArtefactError, match=r"its manifest.json was edited"):
        read_artefact(model)


def test_a_newer_format_asks_for_an_upgrade(model: Path) -> None:
    forge(model, lambda manifest: manifest.update(format_version=2, novelty=True))
    message = r"pca\.model was written by a newer equipoise \(format 2.*pip install --upgrade"
    with pytest.raises(ArtefactError, match=message):
        read_artefact(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="onnx"), r"not that of an equipoise model"),
        (lambda m: m.update(format_version=0), r"there is no format version 0"),
        (lambda m: m.update(format_version=True), r"'format_version' of manifest.json is no int"),
        (lambda m: m.update(model=3), r"'model' of manifest.json is no str"),
        (lambda m: m.pop("scalars"), r"manifest.json has other fields"),
        (lambda m: m.update(extra=1), r"manifest.json has other fields"),
        (lambda m: m["arrays"].update(V=m["arrays"]["U"]), r"entry \['arrays/V.npy'\] is missing"),
        (lambda m: m["arrays"].pop("U"), r"entry \['arrays/U.npy'\] is not declared"),
        (lambda m: m["arrays"]["U"].pop("dtype"), r"array 'U' has other fields"),
        (lambda m: m["arrays"]["U"].update(shape=[2, 3]), r"header is not the declared one"),
        (lambda m: m["arrays"]["U"].update(shape=[3, 2**40]), r"shape and size of 'U' disagree"),
        (lambda m: m["arrays"]["U"].update(shape=[3, -2]), r"shape of 'U' is wrong"),
        (lambda m: m["arrays"]["U"].update(bytes=2**40), r"has not its declared size"),
        (lambda m: m["arrays"]["U"].update(dtype="<i8"), r"header is not the declared one"),
        (lambda m: m["arrays"]["U"].update(dtype="|O8"), r"dtype \|O8 of 'U' is not allowed"),
        (lambda m: m["arrays"]["U"].update(dtype="<U0"), r"dtype <U0 of 'U' is not allowed"),
        (lambda m: m["arrays"]["U"].update(dtype="<i3"), r"no whole model file"),
        (lambda m: m["arrays"]["U"].update(dtype="i4,i4"), r"dtype of 'U' is wrong"),
        (lambda m: m["arrays"]["item_ids"].update(shape=[6]), r"length of 'item_ids' is wrong"),
        (lambda m: m["parameters"].update(x={"$eval": "1"}), r"unknown tag"),
        (lambda m: m.update(csr=[]), r"sparse matrices lack parts"),
    ],
)
def test_a_forged_manifest_is_refused(
    model: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    forge(model, change)
    with pytest.raises(ArtefactError, match=message):
        read_artefact(model)


def reseal(entries: dict[str, bytes], name: str, content: bytes) -> None:
    """Replace one array by another and make every checksum agree."""
    entry = next(e for e in entries if e.startswith(f"arrays/{name}."))
    entries[entry] = content
    manifest = json.loads(entries["manifest.json"])
    manifest.pop("sha256")
    seal = sha256_of(content)
    manifest["arrays"][name].update(bytes=len(content), sha256=seal)
    total = sha256_of(json_bytes(manifest))
    entries["manifest.json"] = json_bytes({**manifest, "sha256": total}, 2)


def test_ids_and_sparse_matrices_are_checked_beyond_their_checksums(model: Path) -> None:
    nested = b'[["a"], 1, 1.0, true, null, 2, 3]'
    rezip(model, lambda entries: reseal(entries, "item_ids", nested))
    with pytest.raises(ArtefactError, match=r"'item_ids' holds more than plain values"):
        read_artefact(model)
    save(model)

    def point_outside(entries: dict[str, bytes]) -> None:
        whole = entries["arrays/seen.indices.npy"]
        reseal(entries, "seen.indices", whole[:-1] + b"\x01")

    rezip(model, point_outside)
    with pytest.raises(ArtefactError, match=r"no whole model file: .*ind"):
        read_artefact(model)


def test_an_undeclared_or_missing_entry_is_refused(model: Path) -> None:
    rezip(model, lambda entries: entries.update({"evil.py": b"1"}))
    with pytest.raises(ArtefactError, match=r"\['evil.py'\] is not declared"):
        read_artefact(model)
    save(model)
    rezip(model, lambda entries: entries.pop("arrays/U.npy") and None)
    with pytest.raises(ArtefactError, match=r"\['arrays/U.npy'\] is missing"):
        read_artefact(model)
    save(model)
    rezip(model, lambda entries: entries.pop("manifest.json") and None)
    with pytest.raises(ArtefactError, match=r"it has no manifest.json, so equipoise never wrote"):
        read_artefact(model)


def test_compressed_entries_are_refused_before_they_are_read(model: Path) -> None:
    rezip(model, lambda _: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(ArtefactError, match=r"is compressed, and equipoise never writes those"):
        read_artefact(model)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_refused(model: Path) -> None:
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("arrays/U.npy", b"")
    with pytest.raises(ArtefactError, match=r"two entries have the same name"):
        read_artefact(model)


def test_entries_that_claim_more_than_the_file_holds_are_refused(model: Path) -> None:
    whole = bytearray(model.read_bytes())
    entry = whole.index(b"PK\x01\x02")
    whole[entry + 20 : entry + 28] = (2**30).to_bytes(4, "little") * 2
    model.write_bytes(whole)
    with pytest.raises(ArtefactError, match=r"its entries overlap"):
        read_artefact(model)


@pytest.mark.parametrize("content", [b"not json", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_a_manifest_of_another_making_is_refused(model: Path, content: bytes) -> None:
    rezip(model, lambda entries: entries.update({"manifest.json": content}))
    with pytest.raises(ArtefactError, match=r"pca\.model is no whole model file"):
        read_artefact(model)


def test_missing_files_folders_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match=r"nothing: there is no such file. Check the path"):
        read_artefact(tmp_path / "nothing")
    with pytest.raises(ArtefactError, match=r"is a folder; a saved model is one file"):
        read_artefact(tmp_path)
    (tmp_path / "table.csv").write_text("user,item\n1,2\n")
    with pytest.raises(ArtefactError, match=r"table.csv is no whole model file: File is not a zip"):
        read_artefact(tmp_path / "table.csv")


def test_a_file_without_permission_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", deny)
    with pytest.raises(ArtefactError, match=r"cannot be read: Permission denied. Check the disk"):
        read_artefact(model)

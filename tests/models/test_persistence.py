"""A saved model loads as it was, or is refused; a file is complete or not there."""

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
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, random_array

from equipoise import Interactions, ItemWeightedPCA, VanillaPCA, load
from equipoise.exceptions import ArtifactError, OutputError
from equipoise.models.persistence import SavedModel, read_model, write_model
from equipoise.reranking import Reranked


def save(path: Path, **changes: Any) -> Path:
    """Write one small model with every kind of content."""
    content: dict[str, Any] = {
        "model": "ItemWeightedPCA",
        "parameters": {"rank": 2, "gamma": -1.0, "items": None, "grid": [0.5, [1, math.nan]]},
        "scalars": {"gap": math.inf, "big": 2**63 - 1, "name": "é\ud800"},
        "arrays": {
            "U": np.arange(6.0).reshape(3, 2),
            "item_ids": np.array(["a", 1, 1.0, True, None, math.nan, -math.inf], dtype=object),
            "user_ids": np.array(["ann", "bjørn"]),
            "seen": csr_array(np.array([[0, 2.0, 0], [1.0, 0, 3.0]])),
        },
    }
    return write_model(path, **{**content, **changes})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "pca.model")


def same(a: Any, b: Any) -> bool:
    """Equal in type and value: NaN equals itself, 0.0 is not -0.0, True is not 1."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)


def fingerprint(saved: SavedModel) -> str:
    """Everything a reader can see, bit by bit."""
    arrays = []
    for name, array in sorted(saved.arrays.items()):
        if isinstance(array, csr_array):
            arrays.append((name, array.shape, array.data.tolist(), array.indices.tolist()))
        else:
            arrays.append((name, array.dtype.str, array.shape, repr(array.tolist())))
    return repr((saved.model, saved.parameters, saved.scalars, saved.version, arrays))


def rezip(
    path: Path,
    change: Callable[[dict[str, bytes]], Any],
    compression: int = zipfile.ZIP_STORED,
) -> None:
    """Change the entries and pack them again: the CRCs are correct."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def edit_manifest(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    def edit(entries: dict[str, bytes]) -> None:
        manifest = json.loads(entries["manifest.json"])
        change(manifest)
        entries["manifest.json"] = json.dumps(manifest).encode()

    rezip(path, edit)


# ------------------------------------------------------------------------------- round trips


def test_every_kind_of_content_comes_back(model: Path) -> None:
    saved = read_model(model)
    assert saved.model == "ItemWeightedPCA"
    grid = [0.5, [1, math.nan]]
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


@pytest.mark.medium
@given(array=hnp.arrays(plain_dtypes, shapes))
def test_arrays_come_back_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, array: NDArray[Any]
) -> None:
    path = tmp_path_factory.mktemp("arrays") / "m"
    found = read_model(save(path, arrays={"a": array})).arrays["a"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=values, ids=st.lists(scalars, max_size=6))
@pytest.mark.medium
def test_values_and_mixed_ids_come_back_with_their_types(
    tmp_path_factory: pytest.TempPathFactory, value: Any, ids: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("values") / "m"
    array = np.empty(len(ids), dtype=object)
    array[:] = ids
    save(path, parameters={"v": value}, scalars={"w": [value]}, arrays={"ids": array})
    saved = read_model(path)
    assert same(saved.parameters, {"v": value})
    assert same(saved.scalars, {"w": [value]})
    assert same(saved.arrays["ids"].tolist(), ids)


def test_numpy_scalars_come_back_as_equal_python_ones(tmp_path: Path) -> None:
    ids = np.array([np.int64(2**62), np.str_("x"), np.bool_(True)], dtype=object)
    saved = read_model(save(tmp_path / "m", scalars={"g": np.float64(0.1)}, arrays={"ids": ids}))
    assert same(saved.scalars, {"g": 0.1})
    assert same(saved.arrays["ids"].tolist(), [2**62, "x", True])


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_matrices_come_back(tmp_path: Path, kind: type) -> None:
    matrix = kind(np.eye(3, dtype=np.float32))
    found = read_model(save(tmp_path / "m", arrays={"seen": matrix})).arrays["seen"]
    assert found.dtype == np.float32
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
    again = read_model(a)
    c = save(tmp_path / "c", parameters=again.parameters, arrays=again.arrays)
    assert c.read_bytes() == a.read_bytes()


# ------------------------------------------------------------------------ what is not written


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        csr_array(np.eye(2)).tocsc(),
        np.zeros(2, complex),
        np.zeros(2, "i4,f8"),
        np.array([b"x"]),
        np.array([["a"]], dtype=object),
        np.array(["a", {1}], dtype=object),
        np.array([("a",), 1], dtype=object),
        np.array([1 << 99999], dtype=object),
    ],
    ids=["list", "csc", "complex", "record", "bytes", "2-D objects", "set", "tuple", "huge int"],
)
def test_an_array_that_cannot_be_stored_is_refused_by_name(tmp_path: Path, values: Any) -> None:
    with pytest.raises(ArtifactError, match="'U' cannot be saved"):
        save(tmp_path / "m", arrays={"U": values})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is a double here")
def test_long_doubles_are_refused_because_their_width_differs_by_platform(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="'U' cannot be saved"):
        save(tmp_path / "m", arrays={"U": np.zeros(2, np.longdouble)})


@pytest.mark.parametrize("value", [np.random.default_rng(0), [1, {2}], {(1, 2): 3}])
def test_a_parameter_that_cannot_be_stored_is_refused_by_name(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ArtifactError, match="'seed' cannot be saved"):
        save(tmp_path / "m", parameters={"seed": value})
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
        assert f"{model} was not written: No space" in str(caught.value)
        assert "What was there before is untouched" in str(caught.value)


FULL_DISK = """
import resource, sys, numpy as np
from equipoise.exceptions import OutputError
from equipoise.models.persistence import write_model
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_model(sys.argv[1], model="M", parameters={}, scalars={}, arrays={"U": np.ones(50000)})
except OutputError as error:
    print(error)
"""


@pytest.mark.medium
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
    with pytest.raises(OutputError, match=r"folder .* does not exist"):
        save(tmp_path / "nowhere" / "m")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"was not written: Is a directory"):
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
    saved = read_model(path)
    assert saved.scalars["k"] in range(4)
    assert (saved.arrays["U"] == saved.scalars["k"]).all()
    assert list(tmp_path.iterdir()) == [path]


# --------------------------------------------------------------------------- refused by readers


def test_every_truncation_is_refused(model: Path) -> None:
    whole = model.read_bytes()
    for length in [*range(0, len(whole), 37), len(whole) - 1]:
        model.write_bytes(whole[:length])
        with pytest.raises(ArtifactError, match=r"pca\.model cannot be read"):
            read_model(model)


def outcome(path: Path) -> str:
    try:
        return fingerprint(read_model(path))
    except ArtifactError as error:
        return f"refused: {error}"


@pytest.mark.medium
def test_a_flipped_bit_is_refused_or_changes_nothing(model: Path) -> None:
    whole, expected = model.read_bytes(), fingerprint(read_model(model))
    outcomes = []
    for offset in range(len(whole)):
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << offset % 8
        model.write_bytes(damaged)
        outcomes.append(outcome(model))
    refused = [text for text in outcomes if text.startswith(f"refused: {model}")]
    # The rest are dates and flags of the zip that do not concern the content
    assert set(outcomes) - set(refused) == {expected}
    assert len(refused) > 0.8 * len(whole)


@pytest.mark.parametrize("version", [1, 3, 5])
def test_another_format_version_is_named_with_what_to_do(model: Path, version: int) -> None:
    edit_manifest(model, lambda manifest: manifest.update(format_version=version, novelty=True))
    with pytest.raises(ArtifactError, match=rf"format version {version}.* reads version 4.*save"):
        read_model(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="onnx"), "another program"),
        (lambda m: m.pop("scalars"), "scalars"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    model: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    edit_manifest(model, change)
    with pytest.raises(ArtifactError, match=message):
        read_model(model)


@pytest.mark.parametrize("content", [b"not json", b"[]", b"\xff", b"[" * 100_000, b'{"format": 1}'])
def test_a_manifest_of_another_program_is_refused(model: Path, content: bytes) -> None:
    rezip(model, lambda entries: entries.update({"manifest.json": content}))
    with pytest.raises(ArtifactError, match=r"pca\.model cannot be read"):
        read_model(model)


def test_entries_that_claim_more_than_the_file_holds_are_refused(model: Path) -> None:
    whole = bytearray(model.read_bytes())
    entry = whole.index(b"PK\x01\x02")
    whole[entry + 20 : entry + 28] = (2**30).to_bytes(4, "little") * 2
    model.write_bytes(whole)
    with pytest.raises(ArtifactError, match="would unpack to 1,073,"):
        read_model(model)


def test_missing_files_folders_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="nothing does not exist"):
        read_model(tmp_path / "nothing")
    with pytest.raises(ArtifactError, match="is not a regular file"):
        read_model(tmp_path)
    (tmp_path / "table.csv").write_text("user,item\n1,2\n")
    with pytest.raises(ArtifactError, match=r"table.csv cannot be read"):
        read_model(tmp_path / "table.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with a name are POSIX")
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ArtifactError, match="is not a regular file"):
        read_model(tmp_path / "pipe")


def test_a_file_without_permission_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(zipfile, "ZipFile", deny)
    with pytest.raises(ArtifactError, match="Permission denied"):
        read_model(model)


# ------------------------------------------------------------------- classes of other packages

PLUGIN = """
from equipoise.models import EASE

class Popular(EASE):
    '''A third party's model.'''
"""

USE = """
import sys
import numpy as np, equipoise as eq
from plugin_models import Popular
X = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
path = Popular().fit(X).save(sys.argv[1])
print(type(Popular.load(path)).__name__)
print(type(eq.load(path)).__name__)
"""


@pytest.mark.medium
@pytest.mark.parametrize("registered", [True, False])
def test_a_class_of_another_package_loads_if_its_entry_point_is_installed(
    tmp_path: Path, registered: bool
) -> None:
    (tmp_path / "plugin_models.py").write_text(PLUGIN)
    if registered:
        info = tmp_path / "plugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            "[equipoise.models]\npopular = plugin_models:Popular\n"
        )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = subprocess.run(
        [sys.executable, "-c", USE, str(tmp_path / "m.eqp")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert run.stdout.split() == ["Popular", "Popular"][: 1 + registered]
    assert ("'plugin_models:Popular' is not known" in run.stderr) != registered


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with arrays of more than a megabyte."""
    data = Interactions.from_sparse(
        random_array(
            (60, 30_000), density=0.01, random_state=np.random.default_rng(0), format="csr"
        )
    )
    return ItemWeightedPCA(8).fit(data).save(tmp_path_factory.mktemp("large") / "large.eqp")


@pytest.mark.parametrize("verify", [True, False])
def test_a_mapped_model_shares_the_pages_of_its_file_and_gives_equal_lists(large, verify) -> None:
    mapped, read = load(large, mmap=True, verify=verify), load(large)
    components = mapped.components_
    assert isinstance(components.base, np.memmap)
    assert components.ctypes.data % 64 == 0
    assert not components.flags.writeable
    np.testing.assert_array_equal(components, read.components_)
    basket = {3, 29_999}
    np.testing.assert_array_equal(mapped.recommend(basket).ids, read.recommend(basket).ids)


def test_the_arrays_of_a_re_ranked_model_are_mapped_too(large, tmp_path) -> None:
    rows = random_array(
        (60, 30_000), density=0.01, random_state=np.random.default_rng(0), format="csr"
    )
    data = Interactions.from_sparse(rows)
    model = Reranked.around(load(large), "xquad:0.3", data)
    mapped = load(model.save(tmp_path / "model.eqp"), mmap=True)
    assert isinstance(mapped.model_.components_.base, np.memmap)
    some = data.select_users(data.user_ids[:5])
    np.testing.assert_array_equal(mapped.recommend(some).ids, model.recommend(some).ids)


def test_a_mapped_model_outlives_the_replacement_of_its_file(large, tmp_path) -> None:
    path = tmp_path / "model.eqp"
    path.write_bytes(large.read_bytes())
    mapped = load(path, mmap=True)
    before = mapped.recommend({3}).ids
    VanillaPCA(2).fit(np.eye(5)).save(path)
    np.testing.assert_array_equal(mapped.recommend({3}).ids, before)


def test_a_mapped_model_is_verified_unless_asked_otherwise(large, tmp_path) -> None:
    path = tmp_path / "model.eqp"
    content = bytearray(large.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match="arrays"):
        load(path, mmap=True)
    load(path, mmap=True, verify=False)

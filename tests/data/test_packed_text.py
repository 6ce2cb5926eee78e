"""Text in .gz and .zst: the same table as without packing, and no more memory than a chunk."""

from __future__ import annotations

import gzip
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from equipoise.data import Interactions
from equipoise.data.readers import text as text_files
from equipoise.exceptions import InvalidDataError, MissingExtraError

ROWS = b"user,item,value\nann,x,4\nbob,x,2\nbob,y,1\n"
EXPECTED = [[4.0, 0.0], [2.0, 1.0]]
ODD = b'user,item\na\x01b,"x\r\ny"\n"u\n\nv", z \n'


def pack(text: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(text)
    zstd = pytest.importorskip(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    )
    return zstd.compress(text, options={zstd.CompressionParameter.checksum_flag: 1})


@pytest.fixture
def write(tmp_path):
    def _write(content: bytes, name: str) -> Path:
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return _write


@pytest.mark.parametrize("ending", [".gz", ".zst"])
class TestBoth:
    @pytest.mark.parametrize("text", [ROWS, ODD, b"\xef\xbb\xbf" + ROWS, ROWS.rstrip()])
    def test_packing_changes_nothing(self, write, ending, text):
        plain = Interactions.read(write(text, "plain.csv"))
        assert Interactions.read(write(pack(text, ending), f"packed.csv{ending}")) == plain

    def test_endings_in_capitals(self, write, ending):
        path = write(pack(ROWS, ending), f"PLAYS.CSV{ending.upper()}")
        assert Interactions.read(path).matrix.toarray().tolist() == EXPECTED

    def test_packings_one_after_the_other_are_one_file(self, write, ending):
        parts = [ROWS[:20], b"", ROWS[20:30], ROWS[30:]]
        path = write(b"".join(pack(part, ending) for part in parts), f"parts.csv{ending}")
        assert Interactions.read(path).matrix.toarray().tolist() == EXPECTED

    def test_names_and_lightgcn_too(self, write, ending):
        names = write(pack(b"item,name\nx,Ex\ny,Why\n", ending), f"names.csv{ending}")
        data = Interactions.read(write(ROWS, "plays.csv"), names=names)
        assert data.item_names.tolist() == ["Ex", "Why"]
        lines = write(pack(b"0 5 7\n1 5\n", ending), f"train.txt{ending}")
        assert Interactions.read(lines).nnz == 3

    @pytest.mark.parametrize("kept", [0.3, 0.9, 0.9999])
    def test_what_is_cut_off_is_refused(self, write, ending, kept):
        text = ROWS + b"".join(b"u%d,i%d,1\n" % (k, k * k % 977) for k in range(30_000))
        packed = pack(text, ending)
        path = write(packed[: int(kept * len(packed))], f"cut.csv{ending}")
        with pytest.raises(InvalidDataError, match=rf"cut.csv{ending} cannot be read"):
            Interactions.read(path)
        with pytest.raises(InvalidDataError, match="cannot be read for names"):
            Interactions.read(write(ROWS, "plays.csv"), names=path)

    def test_what_is_broken_is_refused(self, write, ending):
        packed = bytearray(pack(ROWS * 50, ending))
        packed[len(packed) // 2] ^= 0xFF
        for content in (bytes(packed), ROWS, pack(ROWS, ending) + b"more"):
            path = write(content, f"fake.csv{ending}")
            with pytest.raises(InvalidDataError, match=rf"fake.csv{ending} cannot be read"):
                Interactions.read(path)

    @pytest.mark.medium
    @pytest.mark.parametrize("start", [b'"u3', b"u3"])
    def test_a_line_without_end_is_not_collected(self, write, ending, start, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
        unpacked = Counted(monkeypatch)
        path = write(pack(ROWS + start + b"a" * 100_000_000, ending), f"bomb.csv{ending}")
        with pytest.raises(InvalidDataError, match=r"from line 5 on: .*quote"):
            Interactions.read(path)
        assert 0 < unpacked.n_bytes < 50_000_000


class Counted:
    """How many bytes came out of files opened for reading text."""

    def __init__(self, monkeypatch) -> None:
        self.n_bytes = 0
        open_text = text_files.open_text

        @contextmanager
        def counting(path):
            with open_text(path) as self.file:
                yield self

        monkeypatch.setattr(text_files, "open_text", counting)

    def read(self, wanted):
        return self.counted(self.file.read(wanted))

    def readline(self, wanted):
        return self.counted(self.file.readline(wanted))

    def counted(self, text):
        self.n_bytes += len(text)
        return text


class TestPlain:
    @pytest.mark.parametrize("text", [b"a" * 100_000, b'user,"' + b"a" * 100_000])
    def test_a_first_line_without_end_is_refused(self, write, text):
        with pytest.raises(InvalidDataError, match=r"first line is longer than 6\d,\d+ bytes"):
            Interactions.read(write(text, "line.csv"))

    def test_a_quote_left_open_is_refused_with_its_line(self, write, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
        text = ROWS + b'"u3,x,1\n' + b"bob,y,1\n" * 100_000
        with pytest.raises(InvalidDataError, match=r"from line 5 on: .*quote"):
            Interactions.read(write(text, "open.csv"))

    def test_a_single_quote_inside_a_field_is_part_of_it(self, write, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
        text = ROWS + b'u3,7" single,1\n' + b"bob,y,1\n" * 10_000
        data = Interactions.read(write(text, "inches.csv"))
        assert data.item_ids.tolist() == ["x", "y", '7" single']
        assert data.matrix.sum() == 4 + 2 + 1 + 1 + 10_000

    def test_a_line_of_lightgcn_text_has_the_same_limit(self, write, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 1000)
        path = write(b"0 1\n1 2 3\n2 " + b"7" * 20_000, "train.txt")
        with pytest.raises(InvalidDataError, match=r"from line 3 on: .*8,000 bytes"):
            Interactions.read(path, format="lightgcn")


def test_zstandard_without_its_ending_is_detected(write):
    with pytest.raises(InvalidDataError, match=r"not named .zst"):
        Interactions.read(write(b"\x28\xb5\x2f\xfd and so on", "plays.csv"))


def test_frames_without_data_are_skipped(write):
    skipped = (0x184D2A53).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    path = write(skipped + pack(ROWS, ".zst") + skipped, "plays.csv.zst")
    assert Interactions.read(path).matrix.toarray().tolist() == EXPECTED
    with pytest.raises(InvalidDataError, match="read to its end"):
        Interactions.read(write(pack(ROWS, ".zst") + skipped[:-1], "plays.csv.zst"))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library reads .zst")
def test_without_the_library_its_extra_is_named(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(MissingExtraError, match=r'\.zst files .*pip install "equipoise\[zstd\]"'):
        Interactions.read(write(b"\x28\xb5\x2f\xfd", "plays.csv.zst"))

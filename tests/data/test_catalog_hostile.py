"""Archives that try something: nothing is unpacked from them."""

from __future__ import annotations

import io
import zipfile

import pytest
from tests.publisher import ARTISTS, PLAYS, files_in, publishing, zipped

from equipoise.data.catalog import fetch
from equipoise.exceptions import InvalidDataError

pytest.importorskip("pooch")


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with publishing() as site:
        yield site


def special_archive(mode: int) -> bytes:
    """The interactions as something else than a file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("artists.dat", ARTISTS)
        link = zipfile.ZipInfo("user_artists.dat")
        link.create_system, link.external_attr = 3, mode << 16
        archive.writestr(link, "/etc/passwd")
    return file.getvalue()


def encrypted_archive() -> bytes:
    """Set the flag "encrypted" of the first member, in its entry of the directory."""
    content = bytearray(zipped({"artists.dat": ARTISTS, "user_artists.dat": PLAYS}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def patched_archive() -> bytes:
    """Set a flag for a method that Python does not know."""
    content = bytearray(zipped({"artists.dat": ARTISTS, "user_artists.dat": PLAYS}))
    content[content.index(b"PK\x01\x02") + 8] |= 0x20
    return bytes(content)


def future_archive() -> bytes:
    """Ask for a newer version of the format."""
    content = bytearray(zipped({"artists.dat": ARTISTS, "user_artists.dat": PLAYS}))
    content[content.index(b"PK\x01\x02") + 6] = 224
    return bytes(content)


def lying_archive() -> bytes:
    """A megabyte of interactions that the directory declares as ten bytes."""
    content = bytearray(zipped({"artists.dat": ARTISTS, "user_artists.dat": b"0" * 1_000_000}))
    place = content.rindex(b"PK\x01\x02") + 24
    content[place : place + 4] = (10).to_bytes(4, "little")
    return bytes(content)


GOOD = {"artists.dat": ARTISTS, "user_artists.dat": PLAYS}
HOSTILE = {
    "escape": (zipped({**GOOD, "../evil.dat": "x"}), r"'\.\./evil\.dat' leads out of its folder"),
    "hidden escape": (zipped({**GOOD, "a/../../evil": "x"}), "leads out of its folder"),
    "backslashes": (zipped({**GOOD, "..\\evil.dat": "x"}), "leads out of its folder"),
    "absolute": (zipped({**GOOD, "/tmp/evil.dat": "x"}), "leads out of its folder"),
    "drive": (zipped({**GOOD, "C:/evil.dat": "x"}), "leads out of its folder"),
    "network path": (zipped({**GOOD, "\\\\host\\evil": "x"}), "leads out of its folder"),
    "symlink": (special_archive(0o120777), "is a symbolic link"),
    "block device": (special_archive(0o060666), "is a device, no file"),
    "character device": (special_archive(0o020666), "is a device, no file"),
    "pipe": (special_archive(0o010666), "is a device, no file"),
    "newer format": (future_archive(), "is no whole zip archive"),
    "encrypted": (encrypted_archive(), "is encrypted"),
    "bomb": (zipped({**GOOD, "artists.dat": bytes(60_000_000)}), "would unpack to 60,000,0"),
    "unbounded method": (zipped(GOOD, zipfile.ZIP_BZIP2), "size cannot be bounded"),
    "member missing": (zipped({"artists.dat": ARTISTS}), r"holds user_artists\.dat 0 times"),
    "no zip": (b"<html>Please log in</html>", "is no whole zip archive"),
    "truncated": (zipped(GOOD)[:-30], "is no whole zip archive"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_before_a_file_is_written(publisher, tmp_path, kind):
    publisher.content, message = HOSTILE[kind]
    root = tmp_path / "deep" / "down"
    with pytest.raises(InvalidDataError, match=message):
        fetch(publisher.dataset(), root)
    assert not (root / "lastfm-2k").exists()
    assert files_in(tmp_path) == {"deep/down/.hetrec2011-lastfm-2k.zip"}


def test_a_lie_about_the_size_unpacks_no_more_than_was_declared(publisher, tmp_path):
    publisher.content = lying_archive()
    with pytest.raises(InvalidDataError, match="is no whole zip archive"):
        fetch(publisher.dataset(), tmp_path)
    assert files_in(tmp_path / "lastfm-2k") == {"artists.dat"}


def test_a_method_that_python_does_not_know_is_refused(publisher, tmp_path):
    publisher.content = patched_archive()
    with pytest.raises(InvalidDataError, match="is no whole zip archive"):
        fetch(publisher.dataset(), tmp_path)
    assert not files_in(tmp_path / "lastfm-2k")


def test_a_member_that_comes_twice_is_refused(publisher, tmp_path):
    file = io.BytesIO(zipped(GOOD))
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("user_artists.dat", "other")
    publisher.content = file.getvalue()
    with pytest.raises(InvalidDataError, match=r"holds user_artists\.dat 2 times"):
        fetch(publisher.dataset(), tmp_path)

"""Files are whole or not there, links stay links, and what is not a file is not renamed away."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from equipoise.exceptions import OutputError
from equipoise.files import require_folder, require_writable, scratch_folder, write_whole


def test_a_new_file_is_there_with_its_content_and_nothing_else(tmp_path):
    write_whole(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(28, "No space left")])
def test_what_fails_halfway_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")

    def fail(file):
        file.write(b"half of the n")
        raise error

    told = OutputError if isinstance(error, OSError) else error
    with pytest.raises(told):
        write_whole(path, fail)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_a_link_stays_and_the_file_that_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.txt", tmp_path / "link.txt"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"through")
    reader.join()
    assert read == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_device_is_named():
    with pytest.raises(OutputError, match="/dev/full was not written"):
        write_whole(Path("/dev/full"), b"x")
    assert not Path("/dev/full").is_file()


@pytest.mark.parametrize("check", [require_writable, lambda path: write_whole(path, b"")])
def test_a_folder_and_a_missing_folder_are_refused(tmp_path, check):
    with pytest.raises(OutputError, match="was not written: Is a directory"):
        check(tmp_path)
    with pytest.raises(OutputError, match=r"folder .*no does not exist"):
        check(tmp_path / "no" / "a.txt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "private.txt"
    path.write_bytes(b"old")
    path.chmod(mode)
    seen = []

    def fill(file):
        seen.append(os.fstat(file.fileno()).st_mode & 0o777)
        file.write(b"new")

    write_whole(path, fill)
    assert path.read_bytes() == b"new"
    assert seen == [mode]
    assert path.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "new.txt", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o640


def test_a_folder_to_write_into_is_there_or_can_be_made(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    require_folder(tmp_path)
    require_folder(tmp_path / "new" / "folder")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="file is not a folder"):
            require_folder(path)
    with pytest.raises(OutputError, match="/proc/cache was not written"):
        require_folder(Path("/proc/cache"))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_asking_whether_a_path_is_writable_changes_nothing(tmp_path):
    require_writable(tmp_path / "new.txt")
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_folder_is_next_to_its_file_and_goes_whatever_happens(tmp_path):
    def interrupted_work():
        with scratch_folder(tmp_path / "a.parquet") as folder:
            (folder / "piece").write_bytes(b"x")
            assert folder.parent == tmp_path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_work()
    assert list(tmp_path.iterdir()) == []


def test_there_is_no_scratch_folder_in_a_missing_folder(tmp_path):
    with pytest.raises(OutputError, match="does not exist"), scratch_folder(tmp_path / "no" / "a"):
        pytest.fail("there is no such folder")

"""Downloads in other processes: a full disk, Ctrl-C, a kill, two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.publisher import ARTISTS, PART, PLAYS, WHOLE, files_in, publishing, zipped

from equipoise.data.catalog import Dataset, fetch

pytest.importorskip("pooch")


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with publishing() as site:
        yield site


PROGRAM = """
import signal, sys
from dataclasses import replace
from equipoise.data.catalog import CATALOG, fetch

signal.signal(signal.SIGINT, signal.default_int_handler)
url, known, folder, limit = sys.argv[1:]
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
dataset = replace(CATALOG["lastfm-2k"], url=url, hash=known)
fetch(dataset, folder, progress=lambda stage, done, total: print(stage, done, flush=True))
"""


def start(dataset: Dataset, folder: Path, limit: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, dataset.url, dataset.hash, str(folder), limit],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )


def wait_for(process: subprocess.Popen[str], news: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(news):
            return
    pytest.fail(f"it ended without {news!r}: {process.communicate()[1]}")


needs_file_limits = pytest.mark.skipif(
    sys.platform == "win32", reason="Windows has no limit on the size of files"
)


@needs_file_limits
def test_a_full_disk_while_downloading_is_told_and_the_part_continued(publisher, tmp_path):
    process = start(publisher.dataset(), tmp_path, limit="150000")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "OutputError" in errors
    assert "was not written: File too large. Free space" in errors
    assert files_in(tmp_path) == {PART}
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == [None, "bytes=150000-"]
    assert files_in(tmp_path) == WHOLE


@needs_file_limits
def test_a_full_disk_while_unpacking_leaves_no_half_file_and_no_second_download(
    publisher, tmp_path
):
    rows = "".join(f"{user}\t51\t1\n" for user in range(20_000))
    publisher.content = zipped({"artists.dat": ARTISTS, "user_artists.dat": PLAYS + rows})
    assert len(publisher.content) < 100_000 < len(rows)
    process = start(publisher.dataset(), tmp_path, limit="100000")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "user_artists.dat was not written: File too large" in errors
    assert files_in(tmp_path) == {".hetrec2011-lastfm-2k.zip", "lastfm-2k/artists.dat"}
    home = fetch(publisher.dataset(), tmp_path)
    assert (home / "user_artists.dat").read_text() == PLAYS + rows
    assert publisher.ranges == [None]


@needs_file_limits
def test_ctrl_c_leaves_only_a_part_that_the_next_run_continues(publisher, tmp_path):
    publisher.pause_after = 131_072
    process = start(publisher.dataset(), tmp_path)
    wait_for(process, "Downloading 131072")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in errors
    assert files_in(tmp_path) == {PART}
    publisher.pause_after = None
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == [None, "bytes=131072-"]
    assert files_in(tmp_path) == WHOLE


def test_of_two_processes_one_downloads_and_the_other_waits(publisher, tmp_path):
    publisher.pause_after = 131_072
    first = start(publisher.dataset(), tmp_path)
    wait_for(first, "Downloading")
    second = start(publisher.dataset(), tmp_path)
    wait_for(second, "Waiting")
    publisher.go_on.set()
    for process in (first, second):
        _, errors = process.communicate(timeout=600)
        assert (process.returncode, errors) == (0, "")
    assert publisher.ranges == [None]
    assert files_in(tmp_path) == WHOLE


@needs_file_limits
def test_a_killed_download_does_not_keep_others_waiting(publisher, tmp_path):
    publisher.pause_after = 131_072
    process = start(publisher.dataset(), tmp_path)
    wait_for(process, "Downloading 131072")
    process.kill()
    process.communicate(timeout=600)
    publisher.pause_after = None
    told = []
    home = fetch(publisher.dataset(), tmp_path, progress=lambda *news: told.append(news[0]))
    assert "Waiting" not in told
    assert (home / "user_artists.dat").read_text() == PLAYS

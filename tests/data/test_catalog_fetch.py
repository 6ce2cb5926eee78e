"""Downloads from a real HTTP server on loopback: good, wrong, cut, refused, interrupted."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.publisher import ARTISTS, PLAYS, WHOLE, files_in, publishing, zipped

from equipoise.data import catalog
from equipoise.data.catalog import Dataset, DownloadError, load_dataset
from equipoise.exceptions import InvalidDataError, MissingExtraError, OutputError
from equipoise.progress import NoProgress

pytest.importorskip("pooch")

fetch = functools.partial(catalog.fetch, retries=0)


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with publishing() as site:
        yield site


class Bytes(NoProgress):
    """Counts the bytes of the task "Downloading"."""

    def __init__(self):
        self.total, self.done, self.notes = None, 0, []

    def start(self, name, total=None):
        self.total = total if name == "Downloading" else self.total

    def advance(self, amount=1):
        self.done += amount

    def note(self, text):
        self.notes.append(text)


def test_a_good_archive_is_unpacked_and_nothing_else_stays(publisher, tmp_path):
    seen = Bytes()
    home = fetch(publisher.dataset(), tmp_path, progress=seen)
    assert home == tmp_path / "lastfm-2k"
    assert files_in(tmp_path) == WHOLE
    assert list(tmp_path.iterdir()) == [home]
    assert (home / "user_artists.dat").read_text() == PLAYS
    assert seen.done == seen.total == len(publisher.content)
    assert seen.notes == ["unpacking"]


def test_folders_within_the_archive_are_not_kept(publisher, tmp_path):
    publisher.content = zipped({"ml/u.item": ARTISTS, "ml/u.data": PLAYS, "ml/README": "Hi"})
    dataset = publisher.dataset(
        members=("ml/u.item", "ml/u.data"), readme="ml/README", tables=("u.data",)
    )
    fetch(dataset, tmp_path)
    assert files_in(tmp_path) == {"lastfm-2k/u.item", "lastfm-2k/u.data", "lastfm-2k/README"}


def test_a_fetched_data_set_loads_with_names_and_is_not_fetched_again(publisher, tmp_path):
    dataset = publisher.dataset()
    fetch(dataset, tmp_path)
    plays = load_dataset(dataset, data_dir=tmp_path)
    assert plays.matrix.toarray().tolist() == [[13883.0, 11690.0], [228.0, 0.0]]
    assert plays.item_names.tolist() == ["Duran Duran", "Morcheeba"]
    fetch(dataset, tmp_path)
    assert len(publisher.ranges) == 1


def test_the_cache_is_set_by_the_environment(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    assert fetch(publisher.dataset()) == tmp_path / "cache" / "lastfm-2k"
    assert load_dataset(publisher.dataset()).nnz == 3


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_a_wrong_hash_leaves_nothing_behind(publisher, tmp_path, kind):
    wrong, right = (f"{kind}:{hashlib.new(kind, c).hexdigest()}" for c in (b"", publisher.content))
    with pytest.raises(InvalidDataError, match="not the published archive"):
        fetch(publisher.dataset(hash=wrong), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert fetch(publisher.dataset(hash=right), tmp_path).is_dir()


def test_a_broken_connection_is_retried(publisher, tmp_path, monkeypatch):
    send = publisher.send

    def cut_the_first(handler, body):
        publisher.cut_after = 1000 if len(publisher.ranges) == 1 else None
        send(handler, body)

    monkeypatch.setattr(publisher, "send", cut_the_first)
    catalog.fetch(publisher.dataset(), tmp_path)
    assert files_in(tmp_path) == WHOLE
    assert len(publisher.ranges) == 2


@pytest.mark.parametrize("tells_length", [True, False])
def test_a_connection_that_stays_broken_is_an_error_and_leaves_nothing(
    publisher, tmp_path, tells_length
):
    publisher.cut_after, publisher.tells_length = 1000, tells_length
    with pytest.raises((DownloadError, InvalidDataError), match="Try again"):
        fetch(publisher.dataset(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_404_names_the_address_and_where_to_put_the_file(publisher, tmp_path):
    url = f"{publisher.address}/gone"
    with pytest.raises(DownloadError, match=r"/gone returns 404.*put the file"):
        fetch(publisher.dataset(url=url), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_https_is_an_error(publisher, tmp_path):
    secure = publisher.dataset().url.replace("http:", "https:")
    with pytest.raises(DownloadError, match=r"no connection to 127.*SSLError"):
        fetch(publisher.dataset(url=secure), tmp_path)


def test_a_server_that_never_answers_is_given_up(publisher, tmp_path):
    publisher.silent = True
    with pytest.raises(DownloadError, match=r"no connection to 127.*Timeout"):
        fetch(publisher.dataset(), tmp_path, timeout=(1, 0.2))


def test_offline_the_archive_can_be_put_where_the_error_shows(publisher, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening: nobody else can be there
        port = taken.getsockname()[1]
        offline = publisher.dataset(url=f"http://127.0.0.1:{port}/hetrec2011-lastfm-2k.zip")
        with pytest.raises(DownloadError) as caught:
            fetch(offline, tmp_path)
    message = str(caught.value)
    assert f"no connection to 127.0.0.1:{port}" in message
    assert f"put the file here: {tmp_path / 'hetrec2011-lastfm-2k.zip'}" in message
    assert "or set EQUIPOISE_DATA" in message
    (tmp_path / "hetrec2011-lastfm-2k.zip").write_bytes(publisher.content)
    fetch(offline, tmp_path)
    assert files_in(tmp_path) == {*WHOLE, "hetrec2011-lastfm-2k.zip"}  # the user's file stays


def test_an_archive_with_a_wrong_hash_is_downloaded_again(publisher, tmp_path):
    (tmp_path / "hetrec2011-lastfm-2k.zip").write_bytes(b"not it")
    fetch(publisher.dataset(), tmp_path)
    assert files_in(tmp_path) >= WHOLE


@pytest.mark.parametrize(
    "content",
    [zipped({"artists.dat": ARTISTS}), b"<html>Please log in</html>"],
    ids=["another archive", "a page"],  # the bytes of an archive contain the time
)
def test_an_archive_without_the_interactions_leaves_nothing(publisher, tmp_path, content):
    publisher.content = content
    with pytest.raises(InvalidDataError, match="not the published archive"):
        fetch(publisher.dataset(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_path_out_of_the_folder_is_not_followed(publisher, tmp_path):
    publisher.content = zipped({"../user_artists.dat": PLAYS})
    fetch(publisher.dataset(members=("../user_artists.dat",)), tmp_path / "a")
    assert files_in(tmp_path) == {"a/lastfm-2k/user_artists.dat"}


def test_a_folder_that_cannot_be_made_is_named(publisher, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OutputError, match=r"taken cannot be written to: .*--out"):
        fetch(publisher.dataset(), tmp_path / "taken")


def test_without_pooch_the_extra_is_named(publisher, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"equipoise\[datasets\]"):
        fetch(publisher.dataset(), tmp_path)


PROGRAM = """
import signal, sys
from dataclasses import replace
from equipoise.data.catalog import CATALOG, fetch
from equipoise.progress import NoProgress

class Printed(NoProgress):
    def advance(self, amount=1):
        print("downloading", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
url, known, folder, limit = sys.argv[1:]
if limit:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
fetch(replace(CATALOG["lastfm-2k"], url=url, hash=known), folder, progress=Printed())
"""


def start(dataset: Dataset, folder: Path, limit: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, dataset.url, dataset.hash, str(folder), limit],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )


posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limits and signals")


@pytest.mark.medium
@posix
@pytest.mark.parametrize("limit", ["150000", "100000"], ids=["download", "unpack"])
def test_a_full_disk_is_an_error_and_leaves_nothing(publisher, tmp_path, limit):
    if limit == "100000":  # the archive fits, its content does not
        rows = "".join(f"{user}\t51\t1\n" for user in range(20_000))
        publisher.content = zipped({"artists.dat": ARTISTS, "user_artists.dat": PLAYS + rows})
        assert len(publisher.content) < 100_000 < len(rows)
    process = start(publisher.dataset(), tmp_path, limit=limit)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "OutputError" in errors
    assert "File too large" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.medium
@posix
def test_ctrl_c_leaves_nothing(publisher, tmp_path):
    publisher.pause_after = 131_072
    process = start(publisher.dataset(), tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "downloading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.medium
def test_two_processes_at_once_both_succeed(publisher, tmp_path):
    publisher.pause_after = 131_072
    both = [start(publisher.dataset(), tmp_path) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "downloading\n"  # neither has finished
    publisher.go_on.set()
    for process in both:
        _, errors = process.communicate(timeout=600)
        assert (process.returncode, errors) == (0, "")
    assert files_in(tmp_path) == WHOLE
    with zipfile.ZipFile(io.BytesIO(publisher.content)) as archive:
        for path in (tmp_path / "lastfm-2k").iterdir():
            assert path.read_bytes() == archive.read(path.name)

"""Downloads from a real HTTP server on loopback: good, wrong, cut, refused."""

from __future__ import annotations

import hashlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.publisher import PART, PLAYS, WHOLE, files_in, publishing

from equipoise.data.catalog import DownloadError, fetch, load_dataset
from equipoise.exceptions import InvalidDataError, MissingExtraError, OutputError

pytest.importorskip("pooch")


@pytest.fixture
def publisher(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with publishing() as site:
        yield site


def test_a_good_archive_is_unpacked_and_nothing_else_stays(publisher, tmp_path):
    told = []
    home = fetch(publisher.dataset(), tmp_path, progress=lambda *news: told.append(news))
    assert home == tmp_path / "lastfm-2k"
    assert files_in(tmp_path) == WHOLE
    assert (home / "user_artists.dat").read_text() == PLAYS
    size = len(publisher.content)
    assert [news for news in told if news[0] == "Downloading"][-1] == ("Downloading", size, size)
    assert told[-1][0] == "Unpacking"


def test_what_was_fetched_loads_with_names_and_is_not_fetched_again(publisher, tmp_path):
    dataset = publisher.dataset()
    fetch(dataset, tmp_path)
    plays = load_dataset(dataset, data_dir=tmp_path)
    assert plays.matrix.toarray().tolist() == [[13883.0, 11690.0], [228.0, 0.0]]
    assert plays.item_names.tolist() == ["Duran Duran", "Morcheeba"]
    fetch(dataset, tmp_path)
    assert publisher.ranges == [None]


def test_the_cache_is_where_the_environment_says(publisher, tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    assert fetch(publisher.dataset()) == tmp_path / "cache" / "lastfm-2k"
    assert load_dataset(publisher.dataset()).nnz == 3


def test_an_md5_is_checked_as_an_md5(publisher, tmp_path):
    right = f"md5:{hashlib.md5(publisher.content).hexdigest()}"
    wrong = f"md5:{hashlib.md5(b'').hexdigest()}"
    with pytest.raises(InvalidDataError, match="MD5 hash"):
        fetch(publisher.dataset(hash=wrong), tmp_path)
    assert fetch(publisher.dataset(hash=right), tmp_path).is_dir()


def test_a_wrong_hash_leaves_nothing_behind(publisher, tmp_path):
    with pytest.raises(InvalidDataError, match=r"is not the published archive.*nothing of it"):
        fetch(publisher.dataset(hash="sha256:" + "0" * 64), tmp_path)
    assert files_in(tmp_path) == set()
    assert len(publisher.ranges) == 1


def test_a_cut_connection_keeps_its_part_and_the_next_run_asks_for_the_rest(publisher, tmp_path):
    publisher.cut_after = 131_072
    size = f"{len(publisher.content):,}"
    with pytest.raises(DownloadError, match=rf"broke after 131,072 of {size} bytes.*continues"):
        fetch(publisher.dataset(), tmp_path)
    assert files_in(tmp_path) == {PART}
    assert (tmp_path / PART).read_bytes() == publisher.content[:131_072]
    publisher.cut_after = None
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == [None, "bytes=131072-"]
    assert files_in(tmp_path) == WHOLE


def test_a_server_without_ranges_is_asked_for_everything_again(publisher, tmp_path):
    publisher.understands_ranges = False
    (tmp_path / PART).write_bytes(publisher.content[:1000])
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == ["bytes=1000-"]  # answered with the whole, which replaces the part
    assert files_in(tmp_path) == WHOLE


def test_a_part_of_another_file_is_thrown_away_after_its_hash_fails(publisher, tmp_path):
    (tmp_path / PART).write_bytes(b"x" * 1000)
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == ["bytes=1000-", None]
    assert files_in(tmp_path) == WHOLE


def test_a_part_longer_than_the_file_is_started_again(publisher, tmp_path):
    (tmp_path / PART).write_bytes(publisher.content + b"more")
    fetch(publisher.dataset(), tmp_path)
    assert publisher.ranges == [f"bytes={len(publisher.content) + 4}-", None]
    assert files_in(tmp_path) == WHOLE


def test_a_resumed_download_with_a_wrong_hash_is_tried_once_more_and_then_refused(
    publisher, tmp_path
):
    (tmp_path / PART).write_bytes(publisher.content[:1000])
    with pytest.raises(InvalidDataError, match="is not the published archive"):
        fetch(publisher.dataset(hash="sha256:" + "0" * 64), tmp_path)
    assert publisher.ranges == ["bytes=1000-", None]
    assert files_in(tmp_path) == set()


def test_an_answer_of_unknown_length_that_is_cut_fails_its_hash(publisher, tmp_path):
    publisher.tells_length, publisher.cut_after = False, 1000
    with pytest.raises(InvalidDataError, match="is not the published archive"):
        fetch(publisher.dataset(), tmp_path)
    publisher.cut_after = None
    assert (fetch(publisher.dataset(), tmp_path) / "user_artists.dat").is_file()


def test_404_names_the_address_and_where_to_put_the_file(publisher, tmp_path):
    url = f"{publisher.address}/gone"
    with pytest.raises(DownloadError, match=r"/gone answers 404 Not Found.*put the file here: "):
        fetch(publisher.dataset(url=url), tmp_path)
    assert files_in(tmp_path) == set()


def test_a_server_that_speaks_no_https_is_told_apart(publisher, tmp_path):
    secure = publisher.dataset().url.replace("http:", "https:")
    with pytest.raises(DownloadError, match="no secure connection to 127"):
        fetch(publisher.dataset(url=secure), tmp_path)


def test_a_server_that_never_answers_is_given_up(publisher, tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.data.catalog.transfer._TIMEOUT", (60, 0.2))
    publisher.silent = True
    with pytest.raises(DownloadError, match=r"no connection: 127\.0\.0\.1:\d+ does not answer"):
        fetch(publisher.dataset(), tmp_path)


def test_offline_says_where_to_put_the_file(publisher, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_port
    offline = publisher.dataset(url=f"http://127.0.0.1:{port}/hetrec2011-lastfm-2k.zip")
    with pytest.raises(DownloadError) as caught:
        fetch(offline, tmp_path)
    message = str(caught.value)
    assert f"no connection to 127.0.0.1:{port}" in message
    assert f"put the file here: {tmp_path / 'hetrec2011-lastfm-2k.zip'}" in message
    assert "or set EQUIPOISE_DATA" in message
    (tmp_path / "hetrec2011-lastfm-2k.zip").write_bytes(publisher.content)
    fetch(offline, tmp_path)  # as the message said
    assert files_in(tmp_path) == {*WHOLE, "hetrec2011-lastfm-2k.zip"}  # the user's file stays


def test_a_file_put_there_with_another_hash_is_refused_and_left_alone(publisher, tmp_path):
    brought = tmp_path / "hetrec2011-lastfm-2k.zip"
    brought.write_bytes(b"not it")
    with pytest.raises(InvalidDataError, match="is not the published archive: its sha256 is"):
        fetch(publisher.dataset(), tmp_path)
    assert brought.read_bytes() == b"not it"
    assert publisher.ranges == []


def test_a_folder_that_cannot_be_made_is_named(publisher, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(OutputError, match=r"taken cannot be written to: .*--out"):
        fetch(publisher.dataset(), tmp_path / "taken")


def test_without_pooch_the_extra_is_named(publisher, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"equipoise\[datasets\]"):
        fetch(publisher.dataset(), tmp_path)

"""`equipoise datasets` and `equipoise datasets get`, with a publisher on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from equipoise.cli.app import run
from equipoise.data.catalog import CATALOG

PLAYS = "userID\tartistID\tweight\n2\t51\t13883\n"


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Last.fm's entry, with an archive that a server on this machine publishes."""
    pytest.importorskip("pooch")
    site = tmp_path / "site"
    site.mkdir()
    archive = site / "hetrec2011-lastfm-2k.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("artists.dat", "id\tname\n51\tDuran Duran\n")
        file.writestr("user_artists.dat", PLAYS)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    dataset = replace(
        CATALOG["lastfm-2k"],
        url=f"http://127.0.0.1:{server.server_port}/{archive.name}",
        hash=f"sha256:{hashlib.sha256(archive.read_bytes()).hexdigest()}",
    )
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setitem(CATALOG, "lastfm-2k", dataset)
    yield dataset
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("cache")
def test_the_listing_names_every_set_with_size_license_citation_and_command(capsys):
    assert run(["datasets"]) == 0
    said = capsys.readouterr().out
    for dataset in CATALOG.values():
        assert dataset.name in said
        assert dataset.terms in said
        assert f"equipoise datasets get {dataset.name}\n" in said
    assert "1,892 users × 17,632 items, 92,834 interactions" in said
    assert "archive of 5.9 MB" in said
    assert "Harper" in said


def test_a_set_that_is_here_is_listed_with_its_folder(capsys, cache):
    (cache / "lastfm-2k").mkdir(parents=True)
    (cache / "lastfm-2k" / "user_artists.dat").write_text(PLAYS)
    run(["datasets"])
    assert f"where    in {cache / 'lastfm-2k'}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("cache")
def test_the_listing_as_json(capsys):
    assert run(["datasets", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(CATALOG)
    assert listed["ml-1m"]["users"] == 6040
    assert listed["ml-1m"]["archive_bytes"] == 5917549
    assert listed["ml-1m"]["found_in"] is None
    assert listed["ml-25m"]["hash"].startswith("md5:")


def test_get_prints_only_the_folder_and_shows_license_and_citation(capsys, published, cache):
    assert run(["datasets", "get", "lastfm-2k"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{cache / 'lastfm-2k'}\n"
    assert (cache / "lastfm-2k" / "user_artists.dat").read_text() == PLAYS
    assert f"License: {published.license}" in said.err
    assert f"Cite: {published.citation}" in said.err


@pytest.mark.usefixtures("published")
def test_get_writes_to_the_folder_asked_for(capsys, tmp_path, cache):
    folder = tmp_path / "[my] data"
    assert run(["--quiet", "datasets", "get", "lastfm-2k", "--out", str(folder)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{folder / 'lastfm-2k'}\n"
    assert said.err == ""
    assert not cache.exists()


def test_get_of_an_unknown_name_is_one_line_and_exit_code_2(capsys):
    assert run(["datasets", "get", "netflix"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "no data set 'netflix'" in said


def test_get_of_what_the_publisher_has_lost_is_one_line_and_exit_code_2(
    capsys, published, monkeypatch, cache
):
    lost = replace(published, url=published.url.replace("hetrec2011", "lost"))
    monkeypatch.setitem(CATALOG, "lastfm-2k", lost)
    assert run(["datasets", "get", "lastfm-2k"]) == 2
    lines = capsys.readouterr().err.splitlines()
    errors = [line for line in lines if line and not line.startswith("Getting")]
    assert len(errors) == 1
    assert "lost-lastfm-2k.zip" in errors[0]
    assert "404" in errors[0]
    assert f"put the file here: {cache / 'lost-lastfm-2k.zip'}" in errors[0]

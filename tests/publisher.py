"""A publisher on loopback: a real web server with one archive, and all that can go wrong."""

from __future__ import annotations

import hashlib
import io
import random
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from equipoise.data.catalog import CATALOG, Dataset

PLAYS = "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n3\t51\t228\n"
ARTISTS = "id\tname\turl\tpictureURL\n51\tDuran Duran\tu\tp\n52\tMorcheeba\tu\tp\n"
# What a successful fetch leaves
WHOLE = {"lastfm-2k/artists.dat", "lastfm-2k/user_artists.dat", "lastfm-2k/readme.txt"}


@dataclass
class Publisher:
    """A web server with one file, and everything that can go wrong with it."""

    content: bytes
    understands_ranges: bool = True
    tells_length: bool = True
    cut_after: int | None = None  # close the connection after so many bytes of the body
    pause_after: int | None = None  # or wait there until `go_on`
    silent: bool = False  # or do not even begin to answer
    go_on: threading.Event = field(default_factory=threading.Event)
    ranges: list[str | None] = field(default_factory=list)  # of each request
    address: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        if self.silent:
            self.go_on.wait()
            return
        if not handler.path.endswith(".zip"):
            handler.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        start = start if self.understands_ranges else 0
        if start >= len(self.content):
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        if start:
            last = len(self.content) - 1
            handler.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
        if self.tells_length:
            handler.send_header("Content-Length", str(len(self.content) - start))
        handler.end_headers()
        self.send(handler, self.content[start:])

    def send(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        stop = self.cut_after if self.cut_after is not None else self.pause_after
        handler.wfile.write(body[:stop])
        handler.wfile.flush()
        if self.cut_after is not None:
            handler.close_connection = True
        elif self.pause_after is not None:
            # a byte now and then: a client whose reader is slow must not take us for dead
            while not self.go_on.wait(timeout=5):
                handler.wfile.write(body[stop : stop + 1])
                stop += 1
            handler.wfile.write(body[stop:])

    def dataset(self, **changes: object) -> Dataset:
        """The catalog's Last.fm, published here."""
        known = f"sha256:{hashlib.sha256(self.content).hexdigest()}"
        described = {"url": f"{self.address}/hetrec2011-lastfm-2k.zip", "hash": known, **changes}
        small = {"users": 2, "items": 2, "interactions": 3}
        return replace(CATALOG["lastfm-2k"], **{**small, **described})


def zipped(members: dict[str, str | bytes], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def lastfm_archive() -> bytes:
    """In the publisher's layout; the tags, which nobody needs, make it a third of a megabyte."""
    tags = random.Random(0).randbytes(300_000)
    return zipped(
        {"artists.dat": ARTISTS, "tags.dat": tags, "user_artists.dat": PLAYS, "readme.txt": "Hello"}
    )


@contextmanager
def publishing() -> Iterator[Publisher]:
    """Serve the archive on a free port of 127.0.0.1 while the block runs."""
    site = Publisher(lastfm_archive())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                site.answer(self)
            except ConnectionError:
                self.close_connection = True  # the client went away, as some tests want it to

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield site
    finally:
        site.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

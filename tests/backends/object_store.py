"""An object store of a hundred lines: as much of S3 as reading and writing whole objects takes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: dict[str, bytes]

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send_object(body=False)

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "/" in asked.path.strip("/"):
            self._send_object(body=True)
        else:
            self._list(unquote(asked.path.strip("/")), parse_qs(asked.query))

    def do_PUT(self) -> None:
        body = self._body()
        self.objects[self._key()] = body
        self._answer(200, b"", {"ETag": _tag(body)})

    def do_DELETE(self) -> None:
        self.objects.pop(self._key(), None)
        self._answer(204, b"")

    def do_POST(self) -> None:
        """Several objects are deleted at once."""
        bucket = unquote(urlsplit(self.path).path.strip("/"))
        text = self._body().decode()
        for part in text.split("<Key>")[1:]:
            self.objects.pop(f"{bucket}/{part.split('</Key>')[0]}", None)
        self._answer(200, b"<DeleteResult></DeleteResult>")

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path.strip("/"))

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        size, _, rest = body.partition(b"\r\n")  # one chunk and a checksum after it
        return rest[: int(size.split(b";")[0], 16)]

    def _send_object(self, *, body: bool) -> None:
        found = self.objects.get(self._key())
        if found is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>" if body else b"")
            return
        headers = {"ETag": _tag(found), "Last-Modified": formatdate(usegmt=True)}
        status, part = 200, found
        if asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            part = found[int(first) : int(last) + 1 if last else None]
            end = int(first) + len(part) - 1
            status, headers["Content-Range"] = 206, f"bytes {first}-{end}/{len(found)}"
        self._answer(status, part, headers, body=body)

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        rows, folders = [], set()
        for name, content in sorted(self.objects.items()):
            key = name.removeprefix(f"{bucket}/")
            if key == name or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{_tag(content)}</ETag>"
                "<StorageClass>STANDARD</StorageClass></Contents>"
            )
        rows += [f"<CommonPrefixes><Prefix>{escape(f)}</Prefix></CommonPrefixes>" for f in folders]
        text = f"<ListBucketResult><Name>{bucket}</Name><IsTruncated>false</IsTruncated>"
        self._answer(200, f"{text}{''.join(rows)}</ListBucketResult>".encode())

    def _answer(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        body: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


def _tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[tuple[dict[str, bytes], dict[str, object]]]:
    """Yield the objects by "bucket/key", and the storage_options that lead to them."""
    objects: dict[str, bytes] = {}
    handler = type("Handler", (_Handler,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {
        "key": "any",
        "secret": "any",
        "endpoint_url": f"http://127.0.0.1:{server.server_port}",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {
            "s3": {"addressing_style": "path"},
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
    }
    try:
        yield objects, options
    finally:
        server.shutdown()
        server.server_close()

"""One file over HTTP, into a `.part` file that the next attempt continues."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from equipoise.exceptions import EquipoiseError, OutputError, require_extra

# (what is going on, bytes so far, bytes in all if known)
Progress = Callable[[str, int, int | None], None]

_CHUNK_BYTES = 1 << 16
# Seconds to connect, and between two pieces: a mirror may think, but a dead line must end
_TIMEOUT = (10, 60)
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416


class DownloadError(EquipoiseError, ConnectionError):
    """A file could not be downloaded: no connection, a broken one, or the server refused."""


class ResumingDownloader:
    """A downloader for `pooch.retrieve` that continues where an earlier attempt stopped.

    What arrives goes into `part`. When that exists already, the server is asked for the rest of it
    (HTTP Range); a server that sends the whole file instead is taken at its word.
    """

    def __init__(self, part: Path, progress: Progress) -> None:
        self.part = part
        self.progress = progress
        self.resumed = False

    def __call__(self, url: str, output_file: str, pooch: Any = None) -> None:  # noqa: ARG002
        """Fill `output_file`, the temporary file whose hash pooch checks next."""
        requests = require_extra("requests", "datasets", "downloading a data set")
        try:
            answer = self._ask(requests, url)
        except requests.exceptions.RequestException as error:
            raise DownloadError(_no_answer(requests, url, error)) from error
        with answer:
            self._receive(requests, url, answer)
        os.replace(self.part, output_file)

    def _ask(self, requests: Any, url: str) -> Any:
        have = self.part.stat().st_size if self.part.exists() else 0
        answer = _get(requests, url, have)
        self.resumed = have > 0 and _starts_at(answer) == have
        partial = answer.status_code in (_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE)
        if have and partial and not self.resumed:
            # the server's file is not the one that was begun: start again
            answer.close()
            answer = _get(requests, url, 0)
        answer.raise_for_status()
        return answer

    def _receive(self, requests: Any, url: str, answer: Any) -> None:
        try:
            with self.part.open("ab" if self.resumed else "wb") as file:
                done = file.tell()
                length = answer.headers.get("Content-Length", "")
                total = done + int(length) if length.isdecimal() else None
                for chunk in _chunks(requests, answer):
                    file.write(chunk)
                    done += len(chunk)
                    self.progress("Downloading", done, total)
        except OSError as error:
            raise OutputError(
                f"{self.part} was not written: {error.strerror}. Free space on the disk, or put "
                "the data elsewhere with --out. What came is kept, and the next attempt continues "
                "from there; delete the file to give up."
            ) from error
        if total is not None and done != total:
            raise DownloadError(
                f"the connection to {_host(url)} broke after {done:,} of {total:,} bytes. What "
                "came is kept, and the next attempt continues from there."
            )


def _get(requests: Any, url: str, start: int) -> Any:
    # a compressed transfer would make sizes and ranges mean something else
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    return requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT)


def _starts_at(answer: Any) -> int | None:
    """Return the first byte that a partial answer brings, None if it is no partial answer."""
    said = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return int(said[1]) if said and answer.status_code == _PARTIAL_CONTENT else None


def _chunks(requests: Any, answer: Any) -> Iterator[bytes]:
    """Yield what arrives until it stops; whoever counts the bytes sees whether it was all."""
    try:
        yield from answer.iter_content(_CHUNK_BYTES)
    except requests.exceptions.RequestException:
        return


def _no_answer(requests: Any, url: str, error: Any) -> str:
    if isinstance(error, requests.exceptions.HTTPError):
        return f"{url} answers {error.response.status_code} {error.response.reason}."
    if isinstance(error, requests.exceptions.SSLError):
        return f"no secure connection to {_host(url)}: its certificate may have expired."
    if isinstance(error, requests.exceptions.Timeout):
        return f"no connection: {_host(url)} does not answer."
    return f"no connection to {_host(url)}."


def _host(url: str) -> str:
    return urlsplit(url).netloc

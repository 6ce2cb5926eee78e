"""Standard output and error: closed or full, of a poor alphabet; and no passwords on them."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any, TextIO, cast

from equipoise.exceptions import OutputError

_ESCAPED = "equipoise.escaped"

_UP_TO_AT = re.compile(r"\S*@")
_DRIVE = re.compile(r"(?<!\w)[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"\W*[A-Za-z][\w+.\-]+:/+(?!/)")
_PASSWORD = re.compile(r"(passw(?:or)?d|pwd)=(?:'[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE)


def without_passwords(text: str) -> str:
    r"""Hide what may be a password: between a colon and an @ in one word, or behind password=.

    Examples
    --------
    >>> without_passwords("no file postgres:ann:secret@host/shop; password=secret")
    'no file ***@host/shop; password=***'
    >>> without_passwords(r"mysql://ann:secret@host, ann@host, C:\ann@host.csv")
    'mysql://***@host, ann@host, C:\\ann@host.csv'
    """
    return _PASSWORD.sub(r"\1=***", _UP_TO_AT.sub(_hidden, text))


def _hidden(found: re.Match[str]) -> str:
    word = found[0]
    if ":" not in _DRIVE.sub("", word):
        return word
    scheme = _SCHEME.match(word)
    return f"{scheme[0] if scheme else ''}***@"


def printable(text: object) -> str:
    """Text that does not steer the terminal, whatever an item or a file is called."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))


def tell_traceback() -> None:
    """Print where the error that is being handled came from."""
    lines = traceback.format_exc().splitlines()
    with guarded():
        sys.stderr.write("\n".join(map(printable, lines)) + "\n")
        sys.stderr.flush()


def prepare() -> None:
    """Make the standard streams of this process fit to be written to, whatever they are."""
    codecs.register_error(_ESCAPED, _escaped)
    if sys.stdout is None:
        _occupy(1)
        sys.stdout = cast(TextIO, _Closed())
    if sys.stderr is None:
        _occupy(2)
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as we live)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Write letters that the stream lacks as JSON does, \u65e5: ids stay valid and distinct."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)), error.end


def _occupy(descriptor: int) -> None:
    """Let no file that is opened later get the number of a closed stream, and its output."""
    try:
        os.fstat(descriptor)
    except OSError:
        divert(descriptor)


def divert(descriptor: int) -> None:
    """Let what is written from now on, and while shutting down, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


class _Closed(io.TextIOBase):
    """A standard output that was closed (``>&-``): to be missed only by those who need it."""

    needed = True

    def write(self, _text: str) -> int:
        if self.needed:
            raise OSError("it is closed")
        return 0


class _Guarded:
    """A stream as it is, but for what its writer shall see to."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._seen_to():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._seen_to():
            self.stream.flush()

    @contextlib.contextmanager
    def _seen_to(self) -> Iterator[None]:
        yield

    def _give_up(self) -> None:
        with contextlib.suppress(OSError):
            divert(self.stream.fileno())


class _Results(_Guarded):
    """Standard output: where it cannot be written, the error says that it was this."""

    @contextlib.contextmanager
    def _seen_to(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # a reader that has enough
            raise
        except OSError as error:
            self._give_up()
            raise OutputError(
                f"the standard output was not written: {error.strerror or error}. Free space "
                "where it leads to, or lead it elsewhere."
            ) from error


class _Talk(_Guarded):
    """Standard error: shows no passwords, and where nobody listens the work goes on."""

    def write(self, text: str) -> int:
        return super().write(without_passwords(text))

    @contextlib.contextmanager
    def _seen_to(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._give_up()


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Put the guards before the standard streams."""
    out, err = cast(TextIO, _Results(sys.stdout)), cast(TextIO, _Talk(sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def need_output(needed: bool) -> None:
    """Say whether all results go to the standard output: if it is closed, refuse the work."""
    stream = sys.stdout.stream if isinstance(sys.stdout, _Guarded) else sys.stdout
    if isinstance(stream, _Closed):
        stream.needed = needed
        sys.stdout.write("")

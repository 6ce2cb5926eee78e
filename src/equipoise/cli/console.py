"""Output of the command line: results on stdout; progress and errors, no passwords, on stderr."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from equipoise.display import Shown, cell_text
from equipoise.progress import NoProgress, Progress

if TYPE_CHECKING:
    from rich.console import Console

# An id of ten thousand characters must not hide the rest of the message.
_LONGEST_LINE = 1200

_UP_TO_AT = re.compile(r"\S*@")
_DRIVE = re.compile(r"(?<!\w)[A-Za-z]:[\\/]")
_SCHEME = re.compile(r"\W*[A-Za-z][\w+.\-]+:/+(?!/)")
_PASSWORD = re.compile(r"(passw(?:or)?d|pwd)=(?:'[^']*'|\"[^\"]*\"|\S+)", re.IGNORECASE)

# The words of the command line that is running, and whether it prints more than errors on stderr.
arguments: list[str] = []
show_progress = True


def out(*, stderr: bool = False) -> Console:
    """Return an output for text with styles. Help, which has none, does not import rich."""
    from rich.console import Console

    # an item called ":dog:" keeps its name
    return Console(stderr=stderr, emoji=False, highlight=False)


def err() -> Console:
    """Return standard error for text with styles."""
    return out(stderr=True)


def prepare_streams() -> None:
    """Make the standard streams of this process writable, in UTF-8 as JSON requires."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (kept open)
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


class _Stderr:
    """Standard error without passwords."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(without_passwords(text))


def end_output() -> None:
    """Write what is still buffered for stdout, or drop it where that fails: exiting would fail."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Hide passwords on stderr, and print warnings in one line, without their place in the code."""

    def show(message: Warning | str, *_place: Any, **_more: Any) -> None:
        say(f"warning: {' '.join(str(message).split())}")

    stderr = cast(TextIO, _Stderr(sys.stderr))
    with contextlib.redirect_stderr(stderr), warnings.catch_warnings():
        warnings.showwarning = show
        yield


def without_passwords(text: str) -> str:
    r"""Hide what may be a password: between a colon and an @ in one word, or after password=.

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
    """Replace characters that control the terminal."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in str(text))


def escape_markup(text: object) -> str:
    """Escape text that would style or control the terminal, such as the name of an item."""
    from rich.markup import escape

    return escape(printable(text))


def progress(*, hidden: bool = False) -> Progress:
    """Progress on stderr: bars on a terminal, plain lines elsewhere, nothing with --quiet."""
    from equipoise.progress.display import ProgressBar, ProgressLog

    if hidden or not show_progress:
        return NoProgress()
    screen = err()
    return ProgressBar(screen, clean=printable) if screen.is_interactive else ProgressLog(say)


def write(text: str) -> None:
    """Write a result to stdout unchanged: JSON, Markdown, a path."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def write_json(content: Any, **more: Any) -> None:
    """Write a result to stdout as JSON."""
    write(json.dumps(content, ensure_ascii=False, default=str, **more))


def say(text: str) -> None:
    """Print one line on stderr, unless --quiet."""
    if show_progress:
        sys.stderr.write(f"{printable(text)}\n")


def fail(error: Exception | str) -> None:
    """Print an error as one line on stderr."""
    # hidden before the line is cut, which could leave half a password
    line = without_passwords(" ".join(str(error).split())) or type(error).__name__
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
    err().print(f"[red]error:[/] {escape_markup(line)}", soft_wrap=True)


def print_traceback() -> None:
    """Print the traceback of the error that is being handled."""
    lines = without_passwords(traceback.format_exc()).splitlines()
    sys.stderr.write("\n".join(map(printable, lines)) + "\n")


def print_table(table: Shown, whole: Collection[str] = ()) -> None:
    """Print a table: its title, its rows and its notes; a cell may be a rich text with a style.

    Cells in the columns `whole` are printed in one line, however long they are.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if table.title:
        out().print(f"[bold]{escape_markup(table.title)}", soft_wrap=True)
    drawn = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=any(table.columns))
    for name, is_number in zip(table.columns, table.numeric(), strict=True):
        justify: Any = "right" if is_number else "left"
        drawn.add_column(
            escape_markup(name), justify=justify, overflow="fold", no_wrap=name in whole
        )
    for row in table.rows:
        cells = (c if isinstance(c, Text) else escape_markup(cell_text(c)) for c in row)
        drawn.add_row(*cells)
    if table.rows:
        out().print(drawn)
    for note in table.notes:
        out().print(escape_markup(note))


def print_rows(rows: Sequence[Mapping[str, Any]], title: str, whole: Collection[str] = ()) -> None:
    """Print rows with the same columns as a table."""
    columns = list(rows[0]) if rows else []
    print_table(Shown(title, columns, [list(row.values()) for row in rows]), whole)


def print_facts(facts: Mapping[str, Any], title: str) -> None:
    """Print names and values, one per line."""
    print_table(Shown(title, ("", ""), [(name, _fact(value)) for name, value in facts.items()]))


def _fact(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def print_model(
    facts: Mapping[str, Any], title: str, saved: Path, certificate: Any = None, *, as_json: bool
) -> None:
    """Print what a fit gave, its certificate, and where the model is."""
    if as_json:
        proven = {} if certificate is None else asdict(certificate)
        write_json({**facts, **proven, "saved": str(saved)})
        return
    print_facts(facts, title)
    if certificate is not None:
        write("\n".join(map(printable, str(certificate).splitlines())))
    write(f"Model: {saved}")

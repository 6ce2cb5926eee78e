"""Where the command line speaks: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from equipoise.cli.streams import printable, without_passwords
from equipoise.progress import NoProgress, Progress

# An id of ten thousand characters must not drown what is wrong with it.
_LONGEST_LINE = 1200


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the error boundary; rich would exit with code 1 from here."""
        raise BrokenPipeError


# No emoji: an item called ":dog:" keeps its name.
out = _Console(emoji=False)
err = Console(stderr=True, emoji=False)
failures = Console(stderr=True, emoji=False)  # heard even with --quiet


def progress(*, hidden: bool = False) -> Progress:
    """Progress on stderr: bars on a terminal, plain lines elsewhere, nothing with --quiet."""
    from equipoise.progress.display import ProgressBar, ProgressLog

    if hidden or err.quiet:
        return NoProgress()
    return ProgressBar(err, clean=printable) if err.is_interactive else ProgressLog(say)


def inert(text: object) -> str:
    """Text that neither styles nor steers the terminal, whatever an item is called."""
    return escape(printable(text))


def write(text: str) -> None:
    """Write a result to stdout as it is: JSON, Markdown, a path."""
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Tell the user what goes on: one line on stderr, unless --quiet."""
    err.print(printable(text), highlight=False, markup=False, soft_wrap=True)


def fail(error: Exception | str) -> None:
    """Print what went wrong as one line on stderr."""
    # hidden before the line is cut: half a password is no less one
    line = without_passwords(" ".join(str(error).split())) or type(error).__name__
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE // 2]} … {line[-_LONGEST_LINE // 2 :]}"
    failures.print(f"[red]error:[/] {inert(line)}", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print a warning without the place in the code that it comes from."""

    def show(message: Warning | str, *_place: Any, **_more: Any) -> None:
        say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def print_rows(rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows of the same columns as a table; numbers stand right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    out.print(f"[bold]{inert(title)}", highlight=False, soft_wrap=True)
    table = Table(box=SIMPLE_HEAD)
    for name, value in (rows[0] if rows else {}).items():
        table.add_column(name, justify="right" if isinstance(value, float) else "left")
    for row in rows:
        table.add_row(*(inert(_cell(value)) for value in row.values()))
    out.print(table)


def print_facts(facts: Mapping[str, Any], title: str) -> None:
    """Print names and values, one a line."""
    from rich.box import SIMPLE
    from rich.table import Table

    out.print(f"[bold]{inert(title)}", highlight=False, soft_wrap=True)
    table = Table(box=SIMPLE, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in facts.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else inert(_cell(value)))
    out.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

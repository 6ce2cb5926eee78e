"""Where the command line speaks: results on stdout, progress and errors on stderr."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

out = Console()
err = Console(stderr=True)
failures = Console(stderr=True)  # heard even with --quiet


def progress() -> Progress:
    """A progress bar on stderr, gone when it is done; silent where stderr is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal or err.quiet,
    )

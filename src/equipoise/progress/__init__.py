"""One protocol for the progress of long computations; the caller decides how it is shown.

Library functions take ``progress=`` and are silent by default. The command line passes a bar or,
where stderr is not a terminal, a log of plain lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives the progress of a task. Tasks nest: all but `start` act on the innermost one.

    Any object with these four methods will do. An exception raised by one of them stops the work.
    """

    def start(self, name: str, total: float | None = None) -> None:
        """Begin a task, within the current one if there is one.

        Parameters
        ----------
        name : str
            What is done, e.g. "Fitting PCA".
        total : float, optional
            The amount of work, in any unit: steps, bytes, users. None if it is unknown.
        """

    def advance(self, amount: float = 1) -> None:
        """Add to the amount of work done."""

    def note(self, text: str) -> None:
        """Describe the current step or the result so far. Replaces the previous note."""

    def end(self) -> None:
        """End the task, finished or not."""


class NoProgress:
    """Shows nothing: the default everywhere."""

    def start(self, name: str, total: float | None = None) -> None:
        """Ignore the task."""

    def advance(self, amount: float = 1) -> None:
        """Ignore the amount."""

    def note(self, text: str) -> None:
        """Ignore the note."""

    def end(self) -> None:
        """Ignore the end."""


@contextmanager
def task(progress: Progress | None, name: str, total: float | None = None) -> Iterator[Progress]:
    """Report a block of code as one task, which ends with the block.

    Parameters
    ----------
    progress : Progress or None
        Receives the reports; None for nobody.
    name, total
        As in `Progress.start`.

    Examples
    --------
    >>> class Printed(NoProgress):
    ...     def note(self, text):
    ...         print(text)
    >>> with task(Printed(), "Fitting", total=2) as fitting:
    ...     for model in ("PCA", "EASE"):
    ...         fitting.note(model)
    ...         fitting.advance()
    PCA
    EASE
    """
    receiver: Progress = NoProgress() if progress is None else progress
    receiver.start(name, total)
    try:
        yield receiver
    finally:
        receiver.end()

"""Two displays of progress: bars on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

# A line per minute is enough for a log, after a first estimate. Shorter tasks need neither the
# estimate nor a line at their end.
_SECONDS_PER_LINE = 60.0
_SECONDS_WORTH_A_LINE = 5.0
# Shorter tasks show no bar, which would only flicker.
_SECONDS_BEFORE_A_BAR = 1.0


@dataclass
class _Task:
    name: str
    total: float | None
    started: float
    done: float = 0.0
    note: str = ""


class ProgressLog:
    """Plain lines: at the start, after some seconds, once per minute, and at the end.

    Tasks of less than 5 seconds have a line at the start only.

    Only the outermost task writes lines. They include the tasks within it.

    Parameters
    ----------
    write : callable
        Writes one line.
    clock : callable
        Returns the time in seconds.
    seconds_between_checks : float or None
        How often a background thread checks whether a line is due, for work that does not
        report for minutes. None for no such thread.

    Examples
    --------
    >>> seconds = iter([0, 90, 120])
    >>> log = ProgressLog(print, clock=lambda: next(seconds), seconds_between_checks=None)
    >>> log.start("Tuning", total=4)
    Tuning …
    >>> log.advance(3)
    Tuning: 1 min 30 s elapsed, 75% done, about 30 s left
    >>> log.end()
    Tuning: ended after 2 min
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        seconds_between_checks: float | None = 5.0,
    ) -> None:
        self._write = write
        self._clock = clock
        self._pause = seconds_between_checks
        self._tasks: list[_Task] = []
        self._next_line = 0.0
        self._lock = threading.RLock()
        self._over = threading.Event()

    def start(self, name: str, total: float | None = None) -> None:
        """Write the first line, if this is the outermost task."""
        with self._lock:
            self._tasks.append(_Task(name, total, self._clock()))
            if len(self._tasks) > 1:
                return
            self._next_line = self._tasks[0].started + _SECONDS_WORTH_A_LINE
            self._write(f"{name} …")
        if self._pause is not None:
            self._over = threading.Event()
            threading.Thread(target=self._watch, args=(self._over,), daemon=True).start()

    def advance(self, amount: float = 1) -> None:
        """Add to the amount of work done; write a line if one is due."""
        with self._lock:
            self._tasks[-1].done += amount
            self.write_if_due()

    def note(self, text: str) -> None:
        """Keep the text for the next line; write it if one is due."""
        with self._lock:
            self._tasks[-1].note = text
            self.write_if_due()

    def end(self) -> None:
        """Write the last line, if this was the outermost task and took some seconds."""
        with self._lock:
            task = self._tasks.pop()
            if self._tasks:
                return
            self._over.set()
            elapsed = self._clock() - task.started
            if elapsed >= _SECONDS_WORTH_A_LINE:
                self._write(f"{task.name}: ended after {duration(elapsed)}")

    def write_if_due(self) -> None:
        """Write a line if some seconds have passed since the start, or a minute since the last."""
        with self._lock:
            now = self._clock()
            if self._tasks and now >= self._next_line:
                self._next_line = now + _SECONDS_PER_LINE
                self._write(_line(self._tasks, now))

    def _watch(self, over: threading.Event) -> None:
        # if the log cannot be written, the next report of the work itself raises the error
        with contextlib.suppress(OSError):
            while not over.wait(self._pause):
                self.write_if_due()


class ProgressBar:
    """Bars with elapsed and remaining time, one per nested task; erased at the end.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw; stderr by default.
    delay : float
        Seconds before anything is drawn.
    clean : callable
        Applied to names and notes, e.g. to remove control characters.
    """

    def __init__(
        self,
        console: Console | None = None,
        *,
        delay: float = _SECONDS_BEFORE_A_BAR,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._console = console
        self._delay = delay
        self._clean = clean
        self._rows: list[TaskID] = []
        self._bars: Bars
        self._alarm: threading.Timer | None = None

    def start(self, name: str, total: float | None = None) -> None:
        """Add a bar."""
        outermost = not self._rows
        if outermost:
            self._bars = _bars(self._console)
        self._rows.append(self._bars.add_task(self._clean(name), total=total, note=""))
        if outermost and self._delay <= 0:
            self._bars.start()
        elif outermost:
            self._alarm = threading.Timer(self._delay, self._bars.start)
            self._alarm.daemon = True
            self._alarm.start()

    def advance(self, amount: float = 1) -> None:
        """Fill the innermost bar further."""
        self._bars.advance(self._rows[-1], amount)

    def note(self, text: str) -> None:
        """Show a text behind the innermost bar."""
        self._bars.update(self._rows[-1], note=self._clean(text))

    def end(self) -> None:
        """Remove the innermost bar; erase the display with the outermost one."""
        row = self._rows.pop()
        if self._rows:
            if self._bars.live.is_started:
                self._bars.refresh()  # the last note is shown, however fast the task ends
            self._bars.remove_task(row)
            return
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm.join()
        if self._bars.live.is_started:  # rich ends bars that were never shown with an empty line
            self._bars.stop()


def duration(seconds: float) -> str:
    """Seconds in words.

    Examples
    --------
    >>> duration(7.4), duration(90), duration(600), duration(7500)
    ('7 s', '1 min 30 s', '10 min', '2 h 5 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    if not minutes:
        return f"{rest} s"
    return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"


def _line(tasks: list[_Task], now: float) -> str:
    outer = tasks[0]
    elapsed = now - outer.started
    facts = [f"{duration(elapsed)} elapsed"]
    if outer.total:
        facts.append(_share(outer))
    if outer.total and outer.done > 0:  # at the average speed so far
        left = elapsed * (outer.total - outer.done) / outer.done
        facts.append(f"about {duration(max(0.0, left))} left")
    steps = [outer.note, *(_step(inner) for inner in tasks[1:])]
    return "; ".join([f"{outer.name}: {', '.join(facts)}", *filter(None, steps)])


def _step(task: _Task) -> str:
    facts = [_share(task)] if task.total else []
    return ": ".join([task.name, *filter(None, [", ".join(filter(None, [*facts, task.note]))])])


def _share(task: _Task) -> str:
    return f"{min(1.0, task.done / (task.total or 1)):.0%} done"


def _bars(console: Console | None) -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console or Console(stderr=True, emoji=False),
        transient=True,
        speed_estimate_period=float("inf"),  # by default, steps of half a minute are forgotten
    )

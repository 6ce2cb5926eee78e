"""The displays of progress: what a log and a terminal show, with a clock that tests set."""

from __future__ import annotations

import threading
from io import StringIO

import pytest
from rich.console import Console

from equipoise.cli import console
from equipoise.progress import NoProgress, task
from equipoise.progress.display import ProgressBar, ProgressLog
from tests.waiting import HANGS


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lines():
    return []


@pytest.fixture
def log(clock, lines):
    return ProgressLog(lines.append, clock=clock, seconds_between_checks=None)


def terminal(**options):
    return Console(file=StringIO(), force_terminal=True, width=160, **options)


def test_a_short_task_has_one_line(log, lines, clock):
    with task(log, "Fitting", 2) as fitting:
        fitting.advance()
        clock.now += 4
        fitting.note("almost")
    assert lines == ["Fitting …"]


def test_a_task_of_some_seconds_says_how_long_it_took(log, lines, clock):
    with task(log, "Fitting"):
        clock.now += 12
    assert lines == ["Fitting …", "Fitting: ended after 12 s"]


def test_a_task_of_some_seconds_has_an_early_estimate(log, lines, clock):
    with task(log, "Tuning", 10) as tuning:
        for _ in range(4):
            clock.now += 5
            tuning.advance()
    assert lines == [
        "Tuning …",
        "Tuning: 5 s elapsed, 10% done, about 45 s left",
        "Tuning: ended after 20 s",
    ]


def test_a_long_task_has_one_line_per_minute(log, lines, clock):
    with task(log, "Tuning", 100) as tuning:
        for _ in range(100):
            clock.now += 3
            tuning.advance()
    assert len(lines) == 2 + 5
    # 66 seconds for 22 of 100 steps: 78 steps remain, at 3 seconds per step
    assert lines[2] == "Tuning: 1 min 6 s elapsed, 22% done, about 3 min 54 s left"


def test_a_line_includes_the_notes_and_the_tasks_within(log, lines, clock):
    with task(log, "Auditing", 4) as auditing:
        auditing.advance()
        auditing.note("Fitting PCA")
        with task(auditing, "Passes", 10) as passes:
            passes.advance(5)
            clock.now += 60
            passes.note("residual 1e-3")
    assert lines[1].endswith("left; Fitting PCA; Passes: 50% done, residual 1e-3")
    assert not [line for line in lines if line.startswith("Passes")]


def test_without_a_total_no_share_and_no_estimate_is_claimed(log, lines, clock):
    with task(log, "Reading plays.csv") as reading:
        clock.now += 60
        reading.note("5,000 rows")
    assert lines[1] == "Reading plays.csv: 1 min elapsed; 5,000 rows"


def test_work_that_does_not_report_for_minutes_still_has_lines(lines):
    """The clock jumps a minute at every look, so the thread's first check is due."""
    written, seconds = threading.Event(), iter(range(0, 10**9, 60))

    def write(line):
        lines.append(line)
        if len(lines) > 1:
            written.set()

    log = ProgressLog(write, clock=lambda: float(next(seconds)), seconds_between_checks=0.001)
    with task(log, "Fitting"):
        assert written.wait(HANGS)
    assert lines[1].startswith("Fitting: 1 min elapsed")


def test_one_log_serves_one_task_after_the_other(log, lines):
    for name in ("Reading", "Fitting"):
        with task(log, name):
            pass
    assert lines == ["Reading …", "Fitting …"]


def test_a_bar_shows_names_and_notes_literally_and_is_erased():
    screen = terminal()
    with task(ProgressBar(screen, delay=0), "Fitting [x]", 2) as fitting:
        fitting.note("3 passes [bold]")
        fitting.advance()
        with task(fitting, "Epochs") as epochs:
            epochs.note("loss 0.5")
    shown = screen.file.getvalue()
    assert "Fitting [x]" in shown
    assert "3 passes [bold]" in shown
    assert "loss 0.5" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased


def test_a_bar_that_ends_before_its_delay_prints_nothing():
    screen = terminal()
    with task(ProgressBar(screen, delay=3600), "Fitting") as fitting:
        fitting.note("3 passes")
    assert screen.file.getvalue() == ""


def test_the_command_line_shows_bars_on_a_terminal_and_lines_elsewhere(monkeypatch):
    monkeypatch.setattr(console, "err", lambda: terminal(force_interactive=True))
    assert isinstance(console.progress(), ProgressBar)
    assert isinstance(console.progress(hidden=True), NoProgress)
    monkeypatch.setattr(console, "err", lambda: Console(file=StringIO()))
    assert isinstance(console.progress(), ProgressLog)
    monkeypatch.setattr(console, "show_progress", False)
    assert isinstance(console.progress(), NoProgress)

"""A receiver of progress that records every call, for tests of functions that report."""

from __future__ import annotations

from equipoise.progress import NoProgress


class Recorded:
    """Keeps every call, and for each task its name, total, amount done and notes."""

    def __init__(self):
        self.calls = []
        self.tasks = []
        self._open = []

    def start(self, name, total=None):
        self.calls.append(("start", name, total))
        self._open.append({"name": name, "total": total, "done": 0, "notes": []})
        self.tasks.append(self._open[-1])

    def advance(self, amount=1):
        self.calls.append(("advance", amount))
        self._open[-1]["done"] += amount

    def note(self, text):
        self.calls.append(("note", text))
        self._open[-1]["notes"].append(text)

    def end(self):
        self.calls.append(("end",))
        self._open.pop()

    @property
    def first(self):
        """The outermost task that started first."""
        return self.tasks[0]

    @property
    def is_over(self):
        """Whether every task that started has ended."""
        return bool(self.tasks) and not self._open

    def notes(self):
        """All notes of all tasks."""
        return [note for one in self.tasks for note in one["notes"]]


class OnNote(NoProgress):
    """Calls a function at every note, which is in the middle of the work."""

    def __init__(self, act):
        self.act = act

    def note(self, text):  # noqa: ARG002
        self.act()

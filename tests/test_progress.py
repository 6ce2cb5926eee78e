"""The progress protocol: tasks end with their block, and nobody has to listen."""

from __future__ import annotations

import pytest

from equipoise.progress import NoProgress, task
from tests.recorded_progress import Recorded


def test_a_task_starts_and_ends_with_its_block():
    seen = Recorded()
    with task(seen, "Fitting", 2) as fitting:
        fitting.advance()
    assert seen.calls == [("start", "Fitting", 2), ("advance", 1), ("end",)]


def test_a_task_ends_when_its_block_fails():
    seen = Recorded()
    with pytest.raises(KeyboardInterrupt), task(seen, "Fitting"):
        raise KeyboardInterrupt
    assert seen.calls[-1] == ("end",)


def test_none_means_no_progress():
    with task(None, "Fitting", 3) as fitting:
        fitting.advance(2)
        fitting.note("residual 1e-3")
    assert isinstance(fitting, NoProgress)

"""The progress protocol: tasks end with their block, and nobody has to listen."""

from __future__ import annotations

import pytest

from equipoise.data import Interactions
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


@pytest.mark.parametrize("memory", [None, "1GB"])
def test_reading_text_reports_bytes_for_the_remaining_time(tmp_path, memory):
    path = tmp_path / "plays.csv"
    path.write_text("user,item\n" + "".join(f"{row % 97},{row % 31}\n" for row in range(5000)))
    recorded = Recorded()
    Interactions.read(path, duplicates="sum", memory=memory, progress=recorded)
    assert recorded.first["total"] == path.stat().st_size
    assert recorded.first["done"] == path.stat().st_size - len("user,item\n")
    assert recorded.first["notes"][-1] == "5,000 rows"

"""The rows on fuzzing in docs/reliability.md agree with fuzz/results.json."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"`fuzz/run\.py (\w+)`, (mutation|guided)[^|]*\| ([\d,]+) [a-z ]+ \| ([^|]+) \|")


def test_the_rows_of_the_fuzzing_are_those_of_the_runs():
    page = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    shown = {(target, mode): (inputs, result) for target, mode, inputs, result in ROW.findall(page)}
    runs = json.loads((ROOT / "fuzz" / "results.json").read_text("utf-8"))
    assert shown == {
        (run["target"], run["mode"]): (
            f"{run['inputs']:,}",
            f"{run['findings']} findings" if run["findings"] else "no finding",
        )
        for run in runs
    }

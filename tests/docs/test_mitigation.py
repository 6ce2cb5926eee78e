"""The page on popularity corrections shows the results of its study."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_result_file(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(sys, "argv", ["mitigation.py", "--threads", "1"])
    import mitigation

    found = json.loads((ROOT / "benchmarks" / "results" / "mitigation.json").read_text())
    page = (ROOT / "docs" / "mitigation.md").read_text()
    assert page.split(mitigation.BEGIN)[1].split(mitigation.END)[0] == mitigation.block(found)

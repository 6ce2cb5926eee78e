"""A text larger than what we are ready to hold still loads: only codes and values stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

ROWS = 600_000

MEASURE = """
import json, sys
from equipoise.data import Interactions, readers

def peak():
    # VmHWM, not ru_maxrss: the latter starts at the size of the process that forked us
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

Interactions.read(sys.argv[2])
before = peak()
data = Interactions.read(sys.argv[1])
print(json.dumps({"extra": peak() - before, "nnz": data.nnz, "total": float(data.matrix.sum()),
                  "users": data.n_users, "first": data.user_ids[:3].tolist()}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_reading_takes_far_less_memory_than_the_text(tmp_path, ending):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 50_000, ROWS), rng.integers(0, 5_000, ROWS)
    table = pl.DataFrame(
        {
            "user_id": pl.Series(users).cast(pl.String) + "-with-a-name",
            "item_id": items,
            "rating": rng.integers(1, 6, ROWS),
            "review": pl.repeat(
                "so long a text that the file is much larger " * 15, ROWS, eager=True
            ),
        }
    )
    small, large = tmp_path / f"small.{ending}", tmp_path / f"large.{ending}"
    for frame, path in ((table.head(10), small), (table, large)):
        frame.write_csv(path) if ending == "csv" else frame.write_parquet(path)
    text_size = sum(table.select(pl.all().cast(pl.String).str.len_bytes().sum()).row(0))
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(large), str(small)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"POLARS_MAX_THREADS": "2"},  # each has buffers of its own
    )
    measured = json.loads(run.stdout)
    distinct, first = np.unique(users, return_index=True)
    assert measured["nnz"] == len(np.unique(users * 5_000 + items))
    assert measured["total"] == table["rating"].sum()
    assert measured["users"] == len(distinct)
    assert measured["first"] == [f"{user}-with-a-name" for user in users[np.sort(first)[:3]]]
    # a quarter to two fifths, as the allocator and the load of the machine have it
    assert measured["extra"] < text_size / 2, (measured, text_size)

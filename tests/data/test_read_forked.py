"""Reading in forked processes: right or refused, and never a hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

# The child ends with the number that stands for what became of `attempt`.
SCRIPT = """
import os
import polars as pl
from equipoise.data import Interactions
from equipoise.exceptions import ForkedProcessError

def attempt():
    try:
        {child}
    except ForkedProcessError as error:
        assert "spawn" in str(error)
        os._exit(7)
    os._exit(0)

{parent}
child = os.fork()
if child == 0:
    try:
        attempt()
    finally:
        os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

READ = "Interactions.read('plays.csv')"
PAIRS = "Interactions.from_pairs(['a', 'b'], ['x', 'y'])"
POLARS = "pl.DataFrame({'a': [2, 1]}).lazy().sort('a').filter(pl.col('a') > 1).collect()"


@pytest.mark.parametrize(
    ("parent", "child", "code"),
    [
        (READ, READ, 7),
        (READ, PAIRS, 7),
        (POLARS, READ, 7),
        ("pass", READ, 0),
        ("data = " + READ, "assert data.nnz == 2", 0),
    ],
    ids=[
        "read and read again",
        "read and build from pairs",
        "polars used by other code",
        "nothing read before the fork",
        "data read before the fork and used after it",
    ],
)
@pytest.mark.medium
def test_a_forked_process_reads_or_says_why_not(tmp_path, parent, child, code):
    (tmp_path / "plays.csv").write_text("user,item\na,x\nb,y\n")
    script = SCRIPT.format(parent=parent, child=child)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.strip() == str(code), done.stderr

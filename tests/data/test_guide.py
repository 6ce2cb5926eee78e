"""Every block of the data guide runs, in order, and the error it quotes is the error."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "data.md"


def test_every_block_of_the_guide_runs_and_quotes_the_true_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 10
    exec("\n".join(blocks), {"__name__": "guide"})
    printed = " ".join(capsys.readouterr().out.split())
    quoted = " ".join(line[2:] for line in text.splitlines() if line.startswith("> "))
    assert quoted in printed
    assert "Interactions(3 users x 2 items, 4 interactions" in printed


def test_importing_the_package_does_not_import_polars():
    code = "import sys, equipoise.data; print('polars' in sys.modules or 'pandas' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"

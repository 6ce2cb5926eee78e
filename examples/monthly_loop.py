"""The monthly loop: read all months, update or refit, audit, compare with last month, publish.

Every step is a command of equipoise. The published file is replaced in one step, and only if the
audit meets its conditions: a service that runs on it (equipoise serve) reloads it by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

from equipoise.data.synthetic import listening

PUBLISHED, CANDIDATE = Path("published.eqp"), Path("candidate.eqp")
# The largest share of the objective that an update may lose before the model is fitted again
REFIT_ABOVE = "0.05"
# The gate: no report that meets this is published
FAIL_IF = "item_auc/popular < 0.5"


def equipoise(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run one command; exit code 1 means that a condition holds."""
    command = [sys.executable, "-m", "equipoise", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done


def main() -> None:
    Path("months").mkdir(exist_ok=True)
    print("| month | model | certified loss | compared with last month | published |")
    print("|---|---|---|---|---|")
    for number, month in enumerate(months(), start=1):
        month.write_parquet(f"months/{number:02}.parquet")
        print("| " + " | ".join(turn(number)) + " |")


def turn(number: int) -> list[str]:
    """One month: returns what the table shows."""
    data = "months/*.parquet"
    if number == 1:
        made = equipoise("fit", data, "--rank", 6, "--normalize-rows", "--out", CANDIDATE, "--json")
    else:
        options = ["--all", "--refit-above", REFIT_ABOVE, "--out", CANDIDATE, "--json"]
        made = equipoise("update", PUBLISHED, data, *options)
    facts = json.loads(made.stdout)
    report = f"audit-{number:02}.json"
    audited = equipoise("audit", data, "--model", CANDIDATE, "--out", report, "--fail-if", FAIL_IF)
    changes = "–"
    if number > 1:
        compared = equipoise("compare", f"audit-{number - 1:02}.json", report)
        changes = f"changes-{number:02}.txt"
        Path(changes).write_text(compared.stdout, encoding="utf-8")
    if audited.returncode == 0:
        os.replace(CANDIDATE, PUBLISHED)
    kind = "fit" if number == 1 or facts["refitted"] else "update"
    loss = facts.get("certified loss", facts.get("relative gap", 0.0))
    return [str(number), kind, f"{loss:.1e}", changes, str(audited.returncode == 0)]


def months() -> list[pl.DataFrame]:
    """Plays of three months; each has new listeners, and the last new artists."""
    plays = listening(n_users=600, n_items=80)
    entries = plays.matrix.tocoo()
    month = 1 + (entries.row >= 400).astype(int) + (entries.row >= 500).astype(int)
    month[(entries.col >= 77)] = 3
    table = pl.DataFrame(
        {
            "user": plays.user_ids[entries.row].astype(str),
            "item": plays.item_ids[entries.col].astype(str),
            "plays": entries.data,
            "month": np.asarray(month),
        }
    )
    return [table.filter(pl.col("month") == n).drop("month") for n in (1, 2, 3)]


if __name__ == "__main__":
    main()

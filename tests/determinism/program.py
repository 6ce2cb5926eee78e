"""Everything that leaves files behind, once: ``python -m tests.determinism.program FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

from equipoise import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from equipoise.spectral import gram

SOLVERS = ("matrix_free", "gram", "dense")


def main(folder: Path) -> None:
    """Fit by every path, recommend and audit, into this folder."""
    gram.COMPILED_FROM = 0  # the loops that share the users among threads
    plays = listening(n_users=400, n_items=120, seed=8)
    entries = plays.matrix.tocoo()
    table = {"user": plays.user_ids[entries.row], "item": plays.item_ids[entries.col]}
    data = folder / "plays.csv"
    pl.DataFrame({**table, "plays": entries.data}).write_csv(data)
    for solver in SOLVERS:
        ItemWeightedPCA(12, solver=solver).fit(plays).save(folder / f"{solver}.eqp")
    VanillaPCA(12, random_state=3).fit(plays).save(folder / "pca.eqp")
    NormalizedPCA(12, random_state=3).fit(plays).save(folder / "normalized.eqp")
    commands = [["fit", str(data), "--rank", "6", "--out", str(folder / "fit.eqp")]]
    for ending in ("parquet", "csv", "jsonl"):
        out = ["--explain", "--out", str(folder / f"lists.{ending}")]
        commands.append(["recommend", str(folder / "fit.eqp"), str(data), "-N", "20", *out])
    commands.append(["audit", str(data), "--rank", "4", "--json", "--out", "report.html"])
    for words in commands:
        if run(["--quiet", *words]) != 0:
            raise SystemExit(f"failed: {words}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

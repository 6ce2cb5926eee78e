"""Fit on a Dask cluster: two worker processes on this machine; the same code runs on a hundred.

The workers read Parquet files and hold the users in blocks; a fit needs only sums over the blocks.
The result equals that of a fit in memory, which is computed here for comparison.

Needs: pip install "equipoise[dask]"
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from distributed import Client, LocalCluster
from scipy.linalg import subspace_angles

from equipoise import Interactions, ItemWeightedPCA
from equipoise.data.synthetic import listening
from equipoise.serving import write_lists

CLUSTER = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}


def main() -> None:
    folder = Path("plays").absolute()
    folder.mkdir(exist_ok=True)
    for part in range(4):
        write_log(folder / f"part-{part}.parquet", seed=part)

    local = Interactions.read(folder).normalize_rows()
    alone = ItemWeightedPCA(n_components=16, tol=1e-8).fit(local)

    with LocalCluster(**CLUSTER) as cluster, Client(cluster) as client:
        plays = Interactions.read(folder, client=client).normalize_rows()
        together = ItemWeightedPCA(n_components=16, tol=1e-8).fit(plays)
        written = write_lists(together, plays, folder.parent / "lists", k=10)

    angle = subspace_angles(alone.components_.T, together.components_.T).max()
    table = {
        "": [
            "users",
            "items",
            "objective, one process",
            "objective, cluster",
            "widest angle (rad)",
        ],
        "value": [
            f"{local.n_users:,}",
            f"{local.n_items:,}",
            f"{alone.certificate_.objective:.9f}",
            f"{together.certificate_.objective:.9f}",
            f"{angle:.1e}",
        ],
    }
    pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True)
    pl.Config(tbl_hide_column_data_types=True)
    print(pl.DataFrame(table))
    print(f"\n{written:,} recommendations written by the workers; the first:")
    print(pl.read_parquet(folder.parent / "lists").sort("user", "rank").head(3))


def write_log(path: Path, seed: int) -> None:
    """One file of a log: its own listeners, the artists of all."""
    plays = listening(n_users=400, n_items=200, seed=seed)
    entries = plays.matrix.tocoo()
    users = np.char.add(f"{seed}-", plays.user_ids[entries.row].astype(str))
    items = plays.item_ids[entries.col].astype(str)
    pl.DataFrame({"user": users, "item": items, "plays": entries.data}).write_parquet(path)


if __name__ == "__main__":
    main()

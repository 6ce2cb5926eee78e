"""Exposure floors at scale: seconds, passes and gap for many users, 100 candidates, 50 groups.

Synthetic candidates: distinct items, more popular ones more often; scores of a gamma distribution,
independent of the items. Groups are 50 popularity classes of equal size. Every group's floor is
90 % of a target: half its share of the lists without floors, half an equal share. Users are read as
a stream of batches. CPU seconds count all threads.

Run ``python benchmarks/bench_rerank.py --full`` for one million users; the result file is written.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import time
from typing import Any

from harness import RESULTS, machine

NAME, POOL, GROUPS, ITEMS, K, BATCH = "bench_rerank", 100, 50, 20_000, 20, 50_000


def batches(n_users: int) -> list[Any]:
    """Return the candidates of all users, in batches."""
    import numpy as np

    from equipoise.reranking import Candidates

    rng = np.random.default_rng(0)
    found = []
    for start in range(0, n_users, BATCH):
        n = min(BATCH, n_users - start)
        places = (np.arange(POOL) + rng.random((n, POOL), dtype=np.float32)) / POOL
        items = ((ITEMS - POOL) * places**3).astype(np.int32) + np.arange(POOL, dtype=np.int32)
        items = rng.permuted(items, axis=1)
        scores = -np.sort(-rng.gamma(2.0, 1.0, (n, POOL)).astype(np.float32), axis=1)
        found.append(Candidates(items, scores))
    return found


def measure(n_users: int) -> dict[str, Any]:
    """Solve once; return what it took and what it proves."""
    import numpy as np

    from equipoise.metrics import ItemGroups
    from equipoise.reranking import exposure_lists, solve_exposure

    lists = batches(n_users)
    groups = ItemGroups(
        tuple(f"class {g + 1}" for g in range(GROUPS)), np.arange(ITEMS) * GROUPS // ITEMS
    )
    free = solve_exposure(lambda: lists, groups, [0.0] * GROUPS, K)
    floors = 0.9 * (0.5 * free.exposure + 0.5 / GROUPS)
    wall, cpu = time.perf_counter(), time.process_time()
    found = solve_exposure(lambda: lists, groups, floors.tolist(), K, tol=1e-5)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rounding = time.process_time()
    listed = sum(len(order) for order in exposure_lists(lambda: lists, groups, found, K))
    rounding = time.process_time() - rounding
    return {
        "users": n_users,
        "candidates": POOL,
        "groups": GROUPS,
        "k": K,
        "cpu_s": round(cpu, 1),
        "wall_s": round(wall, 1),
        "lists_cpu_s": round(rounding, 1),
        "lists": listed,
        "passes": found.passes,
        "gap": found.gap,
        "floors_missed": found.shortfall,
        "relevance_kept": found.relevance / free.relevance,
        "smallest_share_before": float((free.exposure / floors).min()),
        "binding_groups": int((found.prices > 1e-9).sum()),
    }


def main() -> None:
    """Measure at growing sizes."""
    options = harness.arguments(__doc__).parse_args()
    measure(2_000)  # compiles the loop
    sizes = (10_000, 100_000, 1_000_000) if options.full else (10_000,)
    rows = []
    for size in sizes:
        rows.append(measure(size))
        print(json.dumps(rows[-1]), flush=True)
    if options.full:
        content = {"machine": machine(), "rows": rows}
        (RESULTS / f"{NAME}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

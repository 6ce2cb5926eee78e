"""What a sweep over data in blocks costs: three numbers of a machine, and a formula.

    T = c_x · nnz · b / W  +  c_b · 4 m b · (K / W + 2)  +  c_t · K

where nnz are the interactions, m the items, b the vectors multiplied at a time, W the workers and
K the blocks of users. c_x is the time of one multiplication of an entry with a weighted vector,
c_b the time of a byte of the vectors (V to the workers once, a partial sum a block, the result
back), c_t that of a task of an empty graph. On a machine that others use too, the seconds are
those of the calibration times what a fixed piece of work takes now, on all workers at once,
compared with what it took then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from equipoise.distributed.blocks import RowBlock, Sweep, block_product


@dataclass(frozen=True)
class CostModel:
    """Seconds per entry and vector, per byte of vectors, per task; and of the fixed work."""

    per_product: float
    per_byte: float
    per_task: float
    spin: float

    def sweep(self, nnz: int, m: int, b: int, workers: int, blocks: int) -> float:
        """Seconds of one pass over the data."""
        parts = self.parts(nnz, m, b, workers, blocks)
        return sum(parts.values())

    def parts(self, nnz: int, m: int, b: int, workers: int, blocks: int) -> dict[str, float]:
        """Where the seconds of a pass go."""
        return {
            "products": self.per_product * nnz * b / workers,
            "vectors": self.per_byte * 4 * m * b * (blocks / workers + 2),
            "tasks": self.per_task * blocks,
        }

    def as_json(self) -> dict[str, float]:
        """The three numbers."""
        return asdict(self)


def spin(client: Any, repeats: int = 3) -> float:
    """Seconds of a fixed piece of work, done by all workers at once: how fast the machine is now."""
    rounds = [max(client.run(_work).values()) for _ in range(repeats)]
    return float(np.median(rounds))


def _work() -> float:
    started = time.perf_counter()
    total = 0
    for number in range(3_000_000):
        total += number
    return time.perf_counter() - started


def _nothing(_block: RowBlock) -> float:
    return 0.0


def _zeros(_block: RowBlock, V: np.ndarray) -> np.ndarray:
    return np.zeros_like(V)


def _fastest(run: Callable[[], Any], repeats: int) -> float:
    """The least disturbed of a few runs."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return float(min(seconds))


def calibrate(data: Any, b: int, *, workers: int, repeats: int = 5) -> CostModel:
    """Measure the three numbers on a data set that is on a cluster already."""
    m, blocks, nnz = data.n_items, len(data.blocks), data.nnz
    V = np.random.default_rng(0).standard_normal((m, b)).astype(np.float32)
    ask = Sweep(V, np.ones(m, np.float32), 1.0, None, True, 1)
    data.blocks.total(block_product, ask)  # compiles
    before = spin(data.blocks.client)
    tasks = _fastest(lambda: data.blocks.total(_nothing), repeats)
    vectors = _fastest(lambda: data.blocks.total(_zeros, V), repeats)
    whole = _fastest(lambda: data.blocks.total(block_product, ask), repeats)
    moved = 4 * m * b * (blocks / workers + 2)
    return CostModel(
        per_product=max(whole - vectors, 1e-9) * workers / (nnz * b),
        per_byte=max(vectors - tasks, 0.0) / moved,
        per_task=tasks / blocks,
        spin=(before + spin(data.blocks.client)) / 2,
    )

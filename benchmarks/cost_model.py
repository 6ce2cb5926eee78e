"""What a sweep over data in blocks costs: three numbers of a machine, and a formula.

    T = c_x · nnz · b / W  +  c_b · 4 m b · (K / W + 2 + 2 log₂ W)  +  c_t · K

where nnz are the interactions, m the items, b the vectors multiplied at a time, W the workers and
K the blocks of users. c_x is the time of one multiplication of an entry with a weighted vector,
c_b the time of a byte of the vectors (V to the workers once, a partial sum a block, the result
back, and both along a tree of the workers), c_t that of a task of an empty graph. On a machine
that others use too, the seconds are those of the calibration times what a fixed piece of work
takes now, on all workers at once, compared with what it took then. Seconds of processor time,
summed over the workers, follow the same formula with W = 1 and no tasks, and do not depend on
who else is there.
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
    cpu_per_product: float
    cpu_per_byte: float

    def sweep(self, nnz: int, m: int, b: int, workers: int, blocks: int) -> float:
        """Seconds of one pass over the data."""
        parts = self.parts(nnz, m, b, workers, blocks)
        return sum(parts.values())

    def parts(self, nnz: int, m: int, b: int, workers: int, blocks: int) -> dict[str, float]:
        """Where the seconds of a pass go."""
        return {
            "products": self.per_product * nnz * b / workers,
            "vectors": self.per_byte * 4 * m * b * (blocks / workers + 2 + 2 * np.log2(workers)),
            "tasks": self.per_task * blocks,
        }

    def sweep_cpu(self, nnz: int, m: int, b: int, blocks: int) -> float:
        """Seconds of processor time that a pass takes, all workers together."""
        return self.cpu_per_product * nnz * b + self.cpu_per_byte * 4 * m * b * (blocks + 2)

    def as_json(self) -> dict[str, float]:
        """The three numbers."""
        return asdict(self)


def spin(client: Any, repeats: int = 3) -> float:
    """Seconds of a fixed piece of work, done by all workers at once: how fast it goes now."""
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


def cpu_seconds(client: Any) -> float:
    """Processor time of all workers so far."""
    return float(sum(client.run(time.process_time).values()))


class _Probe:
    """A few runs of one question: the least disturbed, and what each took of the processors."""

    def __init__(self, client: Any, run: Callable[[], Any], repeats: int) -> None:
        seconds, before = [], cpu_seconds(client)
        for _ in range(repeats):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
        self.wall = float(min(seconds))
        self.cpu = (cpu_seconds(client) - before) / repeats


def calibrate(data: Any, b: int, *, workers: int, repeats: int = 5) -> CostModel:
    """Measure the three numbers on a data set that is on a cluster already."""
    m, blocks, nnz = data.n_items, len(data.blocks), data.nnz
    V = np.random.default_rng(0).standard_normal((m, b)).astype(np.float32)
    ask = Sweep(V, np.ones(m, np.float32), 1.0, None, True, 1)
    data.blocks.total(block_product, ask)  # compiles
    client = data.blocks.client
    before = spin(client)
    tasks = _Probe(client, lambda: data.blocks.total(_nothing), repeats)
    vectors = _Probe(client, lambda: data.blocks.total(_zeros, V), repeats)
    whole = _Probe(client, lambda: data.blocks.total(block_product, ask), repeats)
    moved = 4 * m * b * (blocks / workers + 2)
    return CostModel(
        per_product=max(whole.wall - vectors.wall, 1e-9) * workers / (nnz * b),
        per_byte=max(vectors.wall - tasks.wall, 0.0) / moved,
        per_task=tasks.wall / blocks,
        spin=(before + spin(client)) / 2,
        cpu_per_product=max(whole.cpu - vectors.cpu, 1e-9) / (nnz * b),
        cpu_per_byte=vectors.cpu / (4 * m * b * (blocks + 2)),
    )

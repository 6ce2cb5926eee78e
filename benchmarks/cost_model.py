"""What a sweep over data in blocks costs: three numbers of a machine, and a formula.

    T = c_x · nnz · b / W  +  c_b · 4 m b · (K / W + 2 + 2 log₂ W)  +  c_t · K

where nnz are the interactions, m the items, b the vectors multiplied at a time, W the workers and
K the blocks of users. c_x is the time of one multiplication of an entry with a weighted vector,
c_b the time of a byte of the vectors (V to the workers once, a partial sum a block, the result
back, and both along a tree of the workers), c_t that of a task of an empty graph.

The three are measured on one worker and little data of two sizes (what they differ by are
products, what is left are vectors), in turns with the passes that they are to
foretell, so that whatever else the machine does hits both. Two workers on a busy machine do not
get two cores: a fixed piece of work, done by all workers at once, says what they do get.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from equipoise.distributed.blocks import RowBlock, Sweep, block_product


@dataclass(frozen=True)
class CostModel:
    """Seconds per entry and vector, per byte of vectors, per task."""

    per_product: float
    per_byte: float
    per_task: float

    def sweep(self, nnz: int, m: int, b: int, workers: int, blocks: int) -> float:
        """Seconds of one pass over the data."""
        products = self.per_product * nnz * b / workers
        vectors = self.per_byte * 4 * m * b * (blocks / workers + 2 + 2 * np.log2(workers))
        return float(products + vectors + self.per_task * blocks)

    def as_json(self) -> dict[str, float]:
        """The three numbers."""
        return asdict(self)


class Comparison(NamedTuple):
    """A pass as foretold and as it was, medians over rounds."""

    model: CostModel
    predicted: float
    measured: float


def _nothing(_block: RowBlock) -> float:
    return 0.0


def _work() -> float:
    started = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.perf_counter() - started


def _spin(data: Any) -> float:
    """Seconds of a fixed piece of work, done by all workers at once."""
    return float(max(data.blocks.client.run(_work).values()))


def _sweep(data: Any, b: int) -> Callable[[], Any]:
    V = np.random.default_rng(0).standard_normal((data.n_items, b)).astype(np.float32)
    ask = Sweep(V, np.ones(data.n_items, np.float32), 1.0, None, True, 1)
    return lambda: data.blocks.total(block_product, ask)


def compare(
    tiny: Any, small: Any, large: Any, b: int, *, workers: int, rounds: int = 7
) -> Comparison:
    """Calibrate on `tiny` and `small`, which one worker holds, and foretell a pass over `large`."""
    probes: dict[str, Callable[[], Any]] = {
        "tasks": lambda: small.blocks.total(_nothing),
        "tiny": _sweep(tiny, b),
        "small": _sweep(small, b),
        "large": _sweep(large, b),
    }
    for run in probes.values():  # loads and compiles
        run()
    seconds: dict[str, list[float]] = {name: [] for name in (*probes, "slower")}
    for _ in range(rounds):
        for name, run in probes.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
        seconds["slower"].append(_spin(large) / _spin(small))
    middle = {name: float(np.median(each)) for name, each in seconds.items()}
    blocks, m = len(small.blocks), small.n_items
    more = (small.nnz - tiny.nnz) * b
    per_product = max(middle["small"] - middle["tiny"], 1e-9) / more
    vectors = middle["small"] - middle["tasks"] - per_product * small.nnz * b
    model = CostModel(
        per_product=per_product,
        per_byte=max(vectors, 0.0) / (4 * m * b * (blocks + 2)),
        per_task=middle["tasks"] / blocks,
    )
    told = model.sweep(large.nnz, large.n_items, b, workers, len(large.blocks))
    return Comparison(model, told * max(1.0, middle["slower"]), middle["large"])

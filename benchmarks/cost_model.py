"""What a fit on data in blocks costs: six numbers of a machine, and a formula.

    pass = c_0 + c_t K + c_b 4 m b (⌈K/W⌉ + 2 + 2 log₂ W) + c_x b nnz ⌈K/W⌉/K (s if W > 1)
    fit  = (passes + 1) pass + c_f 4 m b² passes²

where nnz are the interactions, m the items, b the vectors multiplied at a time, W the workers and
K the blocks of users. c_0 is the time of a question to the cluster, c_t that of a task, c_b of a
byte of the vectors (V to the workers once, a partial sum a block, the result back, both along a
tree of the workers), c_x of one multiplication of an entry with a weighted vector, s by how much
workers that share a machine's memory slow each other down, and c_f of an operation where `fit` is
called: what is new is made orthogonal to all vectors so far. The last pass is in float64 and
counts twice.

The numbers are measured once, on a table with hardly any interactions and on a small share of the
users, before any run that they predict, and are not touched afterwards. Both have the items of the
table in question: c_x depends on how much of V a processor's cache holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from equipoise.data.block_ops import block_product
from equipoise.data.rows import RowBlock
from equipoise.spectral.gram import GramProduct


class Job(NamedTuple):
    """A table, in how many blocks, on how many workers, multiplied with how many vectors."""

    nnz: int
    items: int
    width: int
    workers: int
    blocks: int

    @property
    def bytes_of_vectors(self) -> float:
        """What goes over the wire or through memory, one after the other, in a pass."""
        trips = self._most_blocks + 2 + 2 * np.log2(self.workers)
        return float(4 * self.items * self.width * trips)

    @property
    def products(self) -> float:
        """Multiplications of the worker with most blocks."""
        return self.width * self.nnz * self._most_blocks / self.blocks

    @property
    def _most_blocks(self) -> int:
        return -(-self.blocks // self.workers)

    def orthogonalized(self, passes: int) -> float:
        """Operations of the calling process over so many passes."""
        return 4.0 * self.items * self.width**2 * passes**2


@dataclass(frozen=True)
class CostModel:
    """Seconds per question, task, byte of vectors, product and operation of the caller."""

    per_pass: float
    per_task: float
    per_byte: float
    per_product: float
    crowding: float
    per_operation: float

    def one_pass(self, job: Job) -> float:
        """Seconds of one pass over the data."""
        slower = self.crowding if job.workers > 1 else 1.0
        return self.overhead(job) + slower * self.per_product * job.products

    def overhead(self, job: Job) -> float:
        """Seconds of a pass over a table without any interaction."""
        tasks = self.per_pass + self.per_task * job.blocks
        return tasks + self.per_byte * job.bytes_of_vectors

    def fit(self, job: Job, passes: int) -> float:
        """Seconds of a fit that takes so many passes."""
        caller = self.per_operation * job.orthogonalized(passes)
        return (passes + 1) * self.one_pass(job) + caller

    def as_json(self) -> dict[str, float]:
        """The numbers."""
        return asdict(self)


class Small(NamedTuple):
    """What the numbers are measured on, and how a fit of `products` by one worker went."""

    vectors: Any  # hardly any interaction, on one worker
    products: Any  # on one worker
    crowded: Any  # the same on two
    passes: int
    caller_s: float


def calibrate(small: Small, width: int, rounds: int, wait: Callable[[], None]) -> CostModel:
    """Measure the six numbers: medians over rounds in which all probes take turns."""
    seconds = _medians(
        {
            "no task": lambda: small.products.total(_nothing),
            "tasks": lambda: small.vectors.total(_nothing),
            "vectors": _pass(small.vectors, width),
            "products": _pass(small.products, width),
            "crowded": _pass(small.crowded, width),
        },
        rounds,
        wait,
    )
    empty, one, two = (
        Job(each.nnz, each.n_items, width, workers, len(each.rows))
        for each, workers in ((small.vectors, 1), (small.products, 1), (small.crowded, 2))
    )
    per_task = max(0.0, seconds["tasks"] - seconds["no task"]) / (empty.blocks - one.blocks)
    per_byte = max(0.0, seconds["vectors"] - seconds["tasks"]) / empty.bytes_of_vectors
    known = CostModel(
        per_pass=max(0.0, seconds["no task"] - per_task * one.blocks),
        per_task=per_task,
        per_byte=per_byte,
        per_product=0.0,
        crowding=1.0,
        per_operation=small.caller_s / one.orthogonalized(small.passes),
    )
    alone = (seconds["products"] - known.overhead(one)) / one.products
    together = (seconds["crowded"] - known.overhead(two)) / two.products
    return CostModel(**known.as_json() | {"per_product": alone, "crowding": together / alone})


def _medians(
    probes: Mapping[str, Callable[[], Any]], rounds: int, wait: Callable[[], None]
) -> dict[str, float]:
    for run in probes.values():  # loads and compiles
        run()
    seconds: dict[str, list[float]] = {name: [] for name in probes}
    for _ in range(rounds):
        wait()
        for name, run in probes.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: float(np.median(each)) for name, each in seconds.items()}


def _nothing(_block: RowBlock) -> float:
    return 0.0


def _pass(data: Any, width: int) -> Callable[[], Any]:
    V = np.random.default_rng(0).standard_normal((data.n_items, width)).astype(np.float32)
    ask = GramProduct(V, np.ones(data.n_items, np.float32), 1.0, True, 1)
    return lambda: data.total(block_product, ask)

"""Claim: recommending to all users takes no longer than with implicit.

`recommend` of the top 20 for all users of an ml-20m-shaped set (138,000 users, 26,700 items, 20
million interactions), 64 factors, has at least the throughput of implicit's `recommend` on the same
factors with as many threads, and gives the same lists. It never holds a users × items array: its
peak memory above the data is a small share of one.

Both run in one process, interleaved; implicit gets BLAS limited to one thread, as its authors ask.
Peak memory is measured in processes of their own. Run ``python benchmarks/bench_recommend.py
--quick``, or ``--full`` for the large set.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from harness import Report, Table, interleave, machine, progress
from isolated import Isolated
from plots import Plot

Cell = dict[str, Any]

FACTORS, K = 64, 20
_MEGABYTE = 2**20
# Enough for our compiled path to be taken
_WARM_SCORES = 3_000_000


class Shape(NamedTuple):
    """Size of a synthetic set."""

    n_users: int
    n_items: int
    nnz: int

    def __str__(self) -> str:
        return f"{self.n_users:,} × {self.n_items:,}, {self.nnz:,}"


class Plan(NamedTuple):
    """What to measure."""

    name: str
    shapes: tuple[Shape, ...]
    repeats: int


SMALL = Shape(2_000, 1_500, 60_000)
MIDDLE = Shape(14_000, 8_000, 1_000_000)
LARGE = Shape(138_000, 26_700, 20_000_000)
QUICK = Plan("bench_recommend-quick", (SMALL, MIDDLE), repeats=3)
FULL = Plan("bench_recommend", (SMALL, MIDDLE, LARGE), repeats=5)


class Inputs(NamedTuple):
    """A fitted model, the same factors as implicit wants them, and the users."""

    model: Any
    peer: Any
    user_items: Any
    for_peer: Any


def load_inputs(shape: Shape) -> Inputs:
    """Draw the data, fit once, and hand the factors to implicit."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    from equipoise import ItemWeightedPCA
    from equipoise.data.synthetic import scale

    X = scale(*shape).matrix
    model = ItemWeightedPCA(FACTORS, tol=1e-3, random_state=0).fit(X)
    with threadpool_limits(1, "blas"):  # it warns otherwise
        peer = AlternatingLeastSquares(factors=FACTORS, num_threads=harness.THREADS)
    peer.user_factors = np.ascontiguousarray(model.transform(X) * model.filter_factors())
    peer.item_factors = np.ascontiguousarray(model.components_.T)
    parts = (X.data.copy(), X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return Inputs(model, peer, X, csr_matrix(parts, shape=X.shape))


def ours(inputs: Inputs) -> Any:
    """Top 20 for all users, from what they touched."""
    return inputs.model.recommend(inputs.user_items, K)


def theirs(inputs: Inputs) -> Any:
    """The same from implicit, the users' factors at hand already."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        return inputs.peer.recommend(np.arange(len(inputs.peer.user_factors)), inputs.for_peer, K)


WAYS = {"equipoise": ours, "implicit": theirs}


def discard(way: str, inputs: Inputs) -> None:
    """Run for the memory alone."""
    WAYS[way](inputs)


def discard_few(way: str, inputs: Inputs) -> None:
    """Load and compile what a run needs, on a few users."""
    n_users, n_items = inputs.user_items.shape
    few = min(n_users, 1 + _WARM_SCORES // n_items)
    if way == "equipoise":
        ours(inputs._replace(user_items=inputs.user_items[:few]))
    else:
        inputs.peer.recommend(np.arange(few), inputs.for_peer[:few], K)


def measure(plan: Plan, shape: Shape) -> list[Cell]:
    """Time, throughput, memory and agreement of both."""
    inputs = load_inputs(shape)
    timings = interleave(
        {name: partial(way, inputs) for name, way in WAYS.items()},
        plan.repeats,
        slow_repeats=plan.repeats,
    )
    ids = {name: timing.value[0] for name, timing in timings.items()}
    same = float(np.mean(ids["equipoise"] == ids["implicit"]))
    del inputs
    with Isolated(partial(load_inputs, shape)) as isolated:
        peaks = {
            way: isolated.run(partial(discard, way), warm_up=partial(discard_few, way)).peak_mb
            for way in WAYS
        }
    return [
        {
            "set": str(shape),
            "way": name,
            "users_per_s": shape.n_users / timing.median,
            "peak_mb": peaks[name],
            "all_scores_mb": 4 * shape.n_users * shape.n_items / _MEGABYTE,
            "same_places": same,
            **timing.as_json(),
        }
        for name, timing in timings.items()
    ]


def table_of(cells: list[Cell]) -> Table:
    """The results as a table."""
    rows = [
        [
            cell["set"],
            cell["way"],
            f"{cell['median_s']:.3f}",
            f"{cell['users_per_s']:,.0f}",
            f"{cell['peak_mb']:.0f}",
            f"{cell['all_scores_mb']:.0f}",
            f"{cell['same_places']:.4%}",
        ]
        for cell in cells
    ]
    columns = ("set", "way", "median s", "users/s", "peak MB", "n × m, MB", "same places")
    return Table(f"Top {K} for all users, {FACTORS} factors", columns, rows)


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    said = []
    for mine, peer in zip(cells[::2], cells[1::2], strict=True):
        ratio = mine["users_per_s"] / peer["users_per_s"]
        said.append(
            f"{_held(ratio >= 1)}: {mine['set']}: {ratio:.2f} times the throughput of implicit."
        )
        said.append(
            f"{_held(mine['same_places'] > 0.999)}: {mine['set']}: {mine['same_places']:.4%} of "
            "the places hold the same item (scores equal to rounding may swap)."
        )
    return said


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


def run(plan: Plan) -> Report:
    """Measure every set of the plan."""
    facts = machine()
    cells: list[Cell] = []
    with progress(len(plan.shapes)) as step:
        for shape in plan.shapes:
            cells += measure(plan, shape)
            step(str(shape))
    claim = (__doc__ or "").split("\n\nBoth run")[0]
    plot = Plot.of(
        "Recommend to all users", cells, by="way", x="set", y="users_per_s", unit="users/s"
    )
    tables, found = [table_of(cells)], {"sets": cells}
    return Report(plan.name, claim, facts, found, tables, verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("Recommending, compared with implicit.", run, QUICK, FULL)

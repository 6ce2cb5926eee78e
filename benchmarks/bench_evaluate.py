"""Claim: evaluating a model takes less time than fitting it, for item and user metrics.

User ranking metrics at 20 take no longer than `implicit.evaluation.ranking_metrics_at_k` on the
same factors, item AUC is at least 50 times faster than a scikit-learn loop over the items, and the
paper's evaluation (22 ranks, three models, all item and user metrics, both data sets) takes less
than three minutes and less than 2 GB on two cores.

Peers run in one process, interleaved, on the same factors; the loop over items is timed on a sample
of them and extrapolated. The evaluation of the paper and the large set run in separate processes,
to measure their peak memory. Run ``python benchmarks/bench_evaluate.py --quick``, or ``--full`` for
the large set too.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import datasets
from datasets import PAPER_SEED, DataSet
from first_version import unpack
from harness import Report, Table, interleave, machine, progress
from isolated import Isolated
from plots import Plot

Cell = dict[str, Any]
Step = Any

RANK, K = 32, 20
# What item AUC and lists are compared with the first version on
_NESTED_RANKS = (8, 16, 32, 64, 128, 256)
PAPER_RANKS = (
    1, 2, 4, 8, 16, 24, 30, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024,
)  # fmt: skip
PAPER_METRICS = (
    "recall", "precision", "ndcg", "mrr:lightgcn", "item_auc", "item_precision", "specialization",
    "self_reconstruction", "item_error",
)  # fmt: skip
_SAMPLED_ITEMS = 40
_GIGABYTE = 1024.0


class Plan(NamedTuple):
    """What to measure."""

    name: str
    repeats: int
    large: tuple[int, int, int] | None


QUICK = Plan("bench_evaluate-quick", repeats=3, large=None)
FULL = Plan("bench_evaluate", repeats=7, large=(138_000, 26_700, 20_000_000))


class Inputs(NamedTuple):
    """One fitted model as arrays, with the data it is measured on."""

    train: Any
    test: Any
    users: Any  # E = XU
    items: Any  # U
    nested: Any
    single: Any  # both in float32, for implicit
    matrices: Any  # train and test as implicit wants them: writable, int32


def load_inputs(data: DataSet) -> Inputs:
    """Split as the paper does, and fit once."""
    from equipoise import ItemWeightedPCA
    from equipoise.data import holdout
    from equipoise.evaluation.nested import NestedLists

    split = holdout(data.load(), seed=PAPER_SEED)
    train = split.train_validation.matrix.astype(np.float64)
    model = ItemWeightedPCA(RANK).fit(train)
    E, U = model.transform(train), model.components_.T
    return Inputs(
        train,
        split.test.matrix,
        E,
        U,
        NestedLists.of(model.low_rank(), [RANK]).in_single_precision(),
        (E.astype(np.float32), np.ascontiguousarray(U, dtype=np.float32)),
        tuple(_for_implicit(matrix) for matrix in (train, split.test.matrix)),
    )


def _for_implicit(matrix: Any) -> Any:
    from scipy.sparse import csr_matrix

    indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return csr_matrix((matrix.data.copy(), indices, indptr), shape=matrix.shape)


def ours(inputs: Inputs) -> dict[str, float]:
    """Top 20 for all users, then recall, precision, NDCG, MRR, MAP and hit rate."""
    from equipoise.metrics import ranking_metrics

    (lists,) = inputs.nested.lists(inputs.train, K)
    return {result.metric: result.value for result in ranking_metrics(lists, inputs.test, (K,))}


def theirs(inputs: Inputs) -> dict[str, float]:
    """Evaluate the same factors by implicit: precision, MAP, NDCG and AUC."""
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # as implicit asks for
        model = AlternatingLeastSquares(factors=RANK, num_threads=harness.THREADS)
        model.user_factors, model.item_factors = inputs.single
        found: dict[str, float] = ranking_metrics_at_k(
            model, *inputs.matrices, K=K, show_progress=False, num_threads=harness.THREADS
        )
    return found


def by_user(inputs: Inputs) -> dict[str, float]:
    """The straightforward loop: score, mask, sort and count, user by user."""
    discount = 1 / np.log2(np.arange(2, K + 2))
    recall, ndcg = [], []
    for user, scores in enumerate(inputs.users @ inputs.items.T):
        seen = inputs.train.indices[inputs.train.indptr[user] : inputs.train.indptr[user + 1]]
        wanted = inputs.test.indices[inputs.test.indptr[user] : inputs.test.indptr[user + 1]]
        if not len(wanted):
            continue
        scores[seen] = -np.inf
        best = np.argpartition(-scores, K)[:K]
        hits = np.isin(best[np.argsort(-scores[best])], wanted)
        recall.append(hits.sum() / len(wanted))
        ndcg.append(hits @ discount / discount[: min(K, len(wanted))].sum())
    return {"recall": float(np.mean(recall)), "ndcg": float(np.mean(ndcg))}


def measure_users(plan: Plan, data: DataSet, inputs: Inputs) -> list[Cell]:
    """Three ways to the same user metrics; they must agree before they are timed."""
    ways = {"equipoise": ours, "implicit": theirs, "NumPy loop": by_user}
    timings = interleave({name: partial(way, inputs) for name, way in ways.items()}, plan.repeats)
    reference = timings["NumPy loop"].value["ndcg"]
    return [
        {
            "set": data.name,
            "way": name,
            "ndcg": timing.value["ndcg"],
            "agrees": abs(timing.value["ndcg"] - reference) < 1e-3,
            **timing.as_json(),
        }
        for name, timing in timings.items()
    ]


def auc_of_all(inputs: Inputs) -> Any:
    """Item AUC of every item."""
    from equipoise.metrics import item_auc

    return item_auc(inputs.train, inputs.items)


def auc_by_loop(inputs: Inputs, items: Any) -> Any:
    """scikit-learn's AUC of some items, one by one, the diagonal taken off."""
    from sklearn.metrics import roc_auc_score

    columns = inputs.train.tocsc()
    diagonal = (inputs.items**2).sum(axis=1)
    found = []
    for j in items:
        own = columns[:, [j]].toarray().ravel()
        scores = inputs.users @ inputs.items[j] - diagonal[j] * own
        found.append(roc_auc_score(own > 0, scores) if 0 < (own > 0).sum() < len(own) else np.nan)
    return np.array(found)


def measure_auc(plan: Plan, data: DataSet, inputs: Inputs) -> Cell:
    """All items at once, compared with a loop over a sample of them."""
    n_items = inputs.train.shape[1]
    sample = np.random.default_rng(0).choice(n_items, _SAMPLED_ITEMS, replace=False)
    runs = {
        "ours": partial(auc_of_all, inputs),
        "loop": partial(auc_by_loop, inputs, sample),
    }
    timings = interleave(runs, plan.repeats)
    extrapolated = timings["loop"].median * n_items / _SAMPLED_ITEMS
    difference = np.nanmax(np.abs(timings["ours"].value[sample] - timings["loop"].value))
    return {
        "set": data.name,
        "items": n_items,
        "ours_s": timings["ours"].median,
        "loop_s_extrapolated": extrapolated,
        "sampled_items": _SAMPLED_ITEMS,
        "times_faster": extrapolated / timings["ours"].median,
        "largest_difference": float(difference),
    }


def paper_evaluation(sets: Sequence[DataSet]) -> dict[str, float]:
    """The paper's evaluation from reading the files to the last number; seconds for each set."""
    from equipoise.evaluation import evaluate

    seconds = {}
    for data in sets:
        started = time.perf_counter()
        interactions = data.load()
        ranks = [rank for rank in PAPER_RANKS if rank <= interactions.n_items]
        results = evaluate(
            interactions,
            grid={"n_components": ranks},
            metrics=PAPER_METRICS,
            k=K,
            zero_division=0.0,
        )
        seconds[f"{data.name}: {len(results)} numbers"] = time.perf_counter() - started
    return seconds


def large(shape: tuple[int, int, int], _: Any) -> dict[str, float]:
    """Evaluate on a set that is too large for an n × m array."""
    from equipoise import ItemWeightedPCA
    from equipoise.data import holdout
    from equipoise.data.synthetic import scale
    from equipoise.evaluation import evaluate

    seconds = {}
    started = time.perf_counter()
    split = holdout(scale(*shape), seed=PAPER_SEED)
    seconds["draw and split"] = time.perf_counter() - started
    started = time.perf_counter()
    evaluate(
        split,
        {"Item-Weighted PCA": ItemWeightedPCA(tol=1e-4)},
        grid={"n_components": [8, 16, 32]},
        metrics=["recall", "ndcg", "aplt", "coverage", "item_auc", "specialization"],
        item_sample=100,
    )
    seconds["fit and evaluate three ranks"] = time.perf_counter() - started
    return seconds


# Runs with either version: names of modules differ. Prints CPU seconds and a sum to compare.
_AT_RANKS = '''
import json, sys, time
import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits
from equipoise.metrics import item_auc
saved, ranks, k = np.load(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
shape = tuple(saved["shape"])
X = sp.csr_array((saved["data"], saved["indices"], saved["indptr"]), shape=shape)
U = saved["U"]
arrays = np.ascontiguousarray(U.T, dtype=np.float32), np.ones(U.shape[1], np.float32), lambda x: x
try:
    from equipoise.evaluation.nested import nested_lists
    from equipoise.models.item_vectors import LowRank
    lists = lambda: nested_lists(LowRank(*arrays), X, ranks, k)
except ImportError:
    from equipoise.evaluation.prefixes import Prefixes, top_items_by_rank
    lists = lambda: top_items_by_rank(Prefixes(*arrays), X, ranks, k)
runs = {"item AUC": lambda: item_auc(X, U, ranks=ranks), "lists": lists}
def products(dtype):
    """Compute all scores once, without ranking them: the least that any version takes."""
    X_, U_ = X.astype(dtype), U.astype(dtype)
    with threadpool_limits(1, "blas"):
        E = X_ @ U_
        for start in range(0, len(E), 512):
            E[start : start + 512] @ U_.T
products_of = {"item AUC": np.float64, "lists": np.float32}
def cpu_seconds(run):
    seconds = []
    for _ in range(3):
        before = time.process_time()
        run()
        seconds.append(time.process_time() - before)
    return sorted(seconds)[1]
found = {}
for kind, run in runs.items():
    value = run()
    found[kind] = {
        "cpu_s": cpu_seconds(run),
        "products_s": cpu_seconds(lambda: products(products_of[kind])),
        "sum": float(np.nansum(value, dtype=np.float64)),
    }
print(json.dumps(found))
'''


def measure_ranks(data: DataSet) -> list[Cell]:
    """CPU time of item AUC and of lists at several ranks, now and in the first version.

    The first version is taken from the repository's history.
    """
    from equipoise import ItemWeightedPCA

    X = data.load().matrix.astype(np.float64)
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = {"first": unpack(folder), "now": Path(__file__).parent.parent / "src"}
        U = ItemWeightedPCA(_NESTED_RANKS[-1]).fit(X).components_.T
        saved = folder / "model.npz"
        csr = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
        np.savez(saved, U=U, **csr)
        found = {version: _at_ranks(source, saved) for version, source in sources.items()}
    return [
        {
            "set": data.name,
            "kind": kind,
            "cpu_s": {version: one[kind]["cpu_s"] for version, one in found.items()},
            "products_s": found["now"][kind]["products_s"],
            "times_faster": found["first"][kind]["cpu_s"] / found["now"][kind]["cpu_s"],
            "relative_difference": abs(found["now"][kind]["sum"] / found["first"][kind]["sum"] - 1),
        }
        for kind in found["now"]
    ]


def _at_ranks(source: Path, saved: Path) -> dict[str, Any]:
    arguments = [str(saved), json.dumps(_NESTED_RANKS), str(K)]
    ran = subprocess.run(
        [sys.executable, "-c", _AT_RANKS, *arguments],
        env=os.environ | {"PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def nothing() -> None:
    """Isolated runs load their own data."""


def measure_isolated(plan: Plan, sets: Sequence[DataSet], step: Step) -> dict[str, Cell]:
    """Time and peak memory of the paper's evaluation and, if planned, of the large set."""
    cells: dict[str, Cell] = {}
    with Isolated(nothing) as isolated:
        came = isolated.run(partial(_evaluation_isolated, sets))
        cells["evaluation"] = {
            "seconds": came.value,
            "peak_mb": came.peak_mb,
            "failure": came.failure,
        }
        step("the evaluation of the paper")
        if plan.large is not None:
            came = isolated.run(partial(large, plan.large))
            cells["large"] = {
                "shape": plan.large,
                "seconds": came.value,
                "peak_mb": came.peak_mb,
                "failure": came.failure,
            }
            step("the large set")
    return cells


def _evaluation_isolated(sets: Sequence[DataSet], _: Any) -> dict[str, float]:
    return paper_evaluation(sets)


def tables(cells: dict[str, Any]) -> list[Table]:
    """The results as a table."""
    users = [
        [c["set"], c["way"], f"{c['median_s']:.3f}", f"{c['ndcg']:.4f}"] for c in cells["users"]
    ]
    auc = [
        [
            c["set"],
            f"{c['ours_s']:.3f}",
            f"{c['loop_s_extrapolated']:.1f}",
            f"{c['times_faster']:.0f}",
            f"{c['largest_difference']:.0e}",
        ]
        for c in cells["auc"]
    ]
    apart = [
        [what, f"{seconds:.1f}", f"{cells[part]['peak_mb']:.0f}"]
        for part in ("evaluation", "large")
        if part in cells
        for what, seconds in (cells[part]["seconds"] or {cells[part]["failure"]: 0.0}).items()
    ]
    return [
        Table(f"User metrics at {K}, rank {RANK}", ("set", "way", "median s", "NDCG"), users),
        Table(
            f"Item AUC of all items, rank {RANK}",
            ("set", "ours, s", "loop, s", "times faster", "largest difference"),
            auc,
            f"The loop was timed on {_SAMPLED_ITEMS} items and extrapolated to all.",
        ),
        Table(
            f"At ranks {', '.join(map(str, _NESTED_RANKS))}, compared with the first version",
            ("set", "what", "first version, CPU s", "now, CPU s", "products alone", "times faster"),
            [
                [
                    c["set"],
                    c["kind"],
                    *(f"{c['cpu_s'][version]:.2f}" for version in ("first", "now")),
                    f"{c['products_s']:.2f}",
                    f"{c['times_faster']:.2f}",
                ]
                for c in cells["ranks"]
            ],
            "Products alone, CPU s: users' coordinates and, without ranking, all scores once.",
        ),
        Table(
            "Whole runs, in processes of their own", ("run", "s", "peak MB of the process"), apart
        ),
    ]


def verdicts(cells: dict[str, Any]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    by_set: dict[str, dict[str, float]] = {}
    for cell in cells["users"]:
        by_set.setdefault(cell["set"], {})[cell["way"]] = cell["median_s"]
    worst = max(ways["equipoise"] / ways["implicit"] for ways in by_set.values())
    slowest = min(cell["times_faster"] for cell in cells["auc"])
    agree = all(cell["agrees"] for cell in cells["users"])
    said = [
        f"{_held(worst <= 1)}: user metrics take {worst:.2f} of implicit's time at most.",
        f"{_held(agree)}: all three ways give the same NDCG to 1e-3.",
        f"{_held(slowest >= 50)}: item AUC is {slowest:.0f} times faster than the loop at least.",
    ]
    seconds = sum((cells["evaluation"]["seconds"] or {}).values())
    peak = cells["evaluation"]["peak_mb"] / _GIGABYTE
    ended = not cells["evaluation"]["failure"]
    said.append(f"{_held(ended and seconds < 180)}: the whole evaluation takes {seconds:.0f} s.")
    said.append(f"{_held(ended and peak < 2)}: it takes {peak:.2f} GB.")
    if "large" in cells:
        failure = cells["large"]["failure"]
        peak = cells["large"]["peak_mb"] / _GIGABYTE
        entries = cells["large"]["shape"][2]
        said.append(
            f"{_held(not failure)}: {entries:,} interactions fit into {peak:.1f} GB. {failure}"
        )
    return said


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


def run(plan: Plan) -> Report:
    """Measure everything in the plan that is available here."""
    facts = machine()
    sets = datasets.available([datasets.LAST_FM, datasets.MOVIE_LENS]) or [datasets.SYNTHETIC_SMALL]
    cells: dict[str, Any] = {"users": [], "auc": []}
    with progress(2 * len(sets) + 2 + (plan.large is not None)) as step:
        for data in sets:
            inputs = load_inputs(data)
            cells["users"] += measure_users(plan, data, inputs)
            step(f"{data.name}: user metrics")
            cells["auc"].append(measure_auc(plan, data, inputs))
            step(f"{data.name}: item AUC")
        cells["ranks"] = measure_ranks((datasets.available([datasets.MOVIE_LENS_FULL]) or sets)[0])
        step("several ranks")
        cells |= measure_isolated(plan, sets, step)
    claim = (__doc__ or "").split("\n\nPeers run")[0]
    plot = Plot.of("User metrics", cells["users"], by="way", x="set", y="median_s", unit="seconds")
    return Report(plan.name, claim, facts, cells, tables(cells), verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("Evaluation, compared with other libraries.", run, QUICK, FULL)

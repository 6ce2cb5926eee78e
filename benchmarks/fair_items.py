"""Weights by γ, learned weights and floors compared: accuracy, worst group, specialization, tail.

Protocol, fixed before the test parts are scored. The paper's two data sets; five random splits
(20 % test, 10 % validation per user); rank 32, hard projections. Each method is fitted on train and
its parameter chosen by NDCG@20 on validation, then refitted on train + validation and scored once
on test. Max-min has no parameter but the groups, so each choice is a row: popularity groups of
equal size by the number of users or, where values differ, by the norm of the item's column.
*Worst share* is the smallest share retained by one of ten popularity groups of equal size. 95 %
intervals by Student's t over the five splits, for the mean and for the difference to the best γ.

Run ``python benchmarks/fair_items.py --full``. Needs EQUIPOISE_DATA. Finished splits are kept.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from datasets import LAST_FM, MOVIE_LENS, DataSet, available
from study import interval, store, stored, table

if TYPE_CHECKING:
    from equipoise import Interactions
    from equipoise.data import Groups
    from equipoise.models import Recommender

NAME, RANK, K, SEEDS = "fair_items", 32, 20, (0, 1, 2, 3, 4)
GAMMAS = (-0.5, -0.75, -1.0, -1.25, -1.5, -2.0)
ALPHAS = (0.25, 0.5, 1.0, 2.0)
FLOORS = (0.5, 0.7, 0.8, 0.9, 0.97)  # of the largest smallest share, with ten groups
METRICS = ("ndcg", "worst share", "specialization", "tail share")
# the welfare of a study need not have ten digits
TOL = 1e-4


def candidates(train: Interactions) -> dict[str, Callable[[], list[Recommender]]]:
    """Every method with the settings to choose from; floors depend on what is feasible."""
    from equipoise import ItemWeightedPCA, MaxMinItemWeightedPCA, VanillaPCA

    def max_min(groups: Any, **settings: Any) -> MaxMinItemWeightedPCA:
        return MaxMinItemWeightedPCA(RANK, groups=groups, tol=TOL, **settings)

    def floors() -> list[Recommender]:
        limit = max_min(10).fit(train).certificate_.objective
        return [max_min(10, floors=share * limit) for share in FLOORS]

    found: dict[str, Callable[[], list[Recommender]]] = {
        "γ = 0 (PCA)": lambda: [VanillaPCA(RANK)],
        "γ = −1 (the paper's)": lambda: [ItemWeightedPCA(RANK, gamma=-1.0)],
        "best γ": lambda: [ItemWeightedPCA(RANK, gamma=gamma) for gamma in GAMMAS],
        "max-min, 10 groups": lambda: [max_min(10)],
        "max-min, 20 groups": lambda: [max_min(20)],
        "max-min, 50 groups": lambda: [max_min(50)],
        "best floor, 10 groups": floors,
        "best α, 20 groups": lambda: [max_min(20, welfare=alpha) for alpha in ALPHAS],
    }
    if train.matrix.data.min() < train.matrix.data.max():  # else both orders are the same
        for n in (10, 20, 50):
            groups = by_norm(train, n)
            found[f"max-min, {n} groups by norm"] = lambda groups=groups: [max_min(groups)]
    return found


def by_norm(data: Interactions, n: int) -> Groups:
    """Groups of equal size by the norm of an item's column instead of its number of users."""
    import numpy as np

    from equipoise.data import Groups

    order = np.argsort(np.argsort(-data.popularity("norm"), kind="stable"), kind="stable")
    labels = [f"norm {1 + place * n // len(order)}/{n}" for place in order.tolist()]
    return Groups.from_labels(labels, data.item_ids)


def scores(model: Recommender, seen: Interactions, held_out: Interactions) -> dict[str, float]:
    """Return the four metrics of a fitted model."""
    import numpy as np

    from equipoise.data import Groups
    from equipoise.metrics import average_tail_share, ndcg_at_k, popularity_groups, specialization

    lists = model.rank(seen.matrix, K, seen=seen.matrix).ids
    X = seen.matrix
    U = np.asarray(model.components_, dtype=np.float64).T
    kept = np.einsum("jr,jr->j", X.T @ (X @ U), U * model.filter_factors())
    S = Groups.by_popularity(seen, 10).membership.toarray()
    squares = np.asarray(X.multiply(X).sum(axis=0)).ravel()
    tail = popularity_groups(seen.popularity("count"), rule="head80")
    return {
        "ndcg": float(ndcg_at_k(lists, held_out.matrix, K).value),
        "worst share": float(((kept @ S) / (squares @ S)).min()),
        "specialization": float(specialization(model.self_reconstruction())),
        "tail share": float(average_tail_share(lists, tail).value),
    }


def one_split(
    data: Interactions, seed: int, say: Callable[[str], None], done: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Choose on validation, score on test; one row per method that is not done."""
    from sklearn.base import clone

    from equipoise.exceptions import InfeasibleError

    split = data.holdout(test=0.2, validation=0.1, seed=seed)
    known = split.train_validation
    rows = []
    for name, make in candidates(split.train).items():
        if name in done:
            continue
        started = time.process_time()
        models = make()
        tried = [model.fit(split.train) for model in models]
        validation = [scores(model, split.train, split.validation)["ndcg"] for model in tried]
        best = models[max(range(len(models)), key=validation.__getitem__)]
        try:
            final = clone(best).fit(known)
        except InfeasibleError as error:  # a little less is possible with more data
            final = clone(best).set_params(floors=best.floors + error.best - 1e-4).fit(known)
        rows.append(
            {
                "seed": seed,
                "method": name,
                "settings": {
                    k: v
                    for k, v in final.get_params().items()
                    if k in ("gamma", "floors", "welfare")
                },
                "tried": len(models),
                "validation": max(validation),
                "cpu_s": time.process_time() - started,
                **scores(final, known, split.test),
            }
        )
        say(f"{name}: NDCG@{K} {rows[-1]['ndcg']:.4f}, worst share {rows[-1]['worst share']:.3f}")
    return rows


HEADS = ("method", f"NDCG@{K}", "− best γ", "worst share", "specialization", "tail share", "CPU s")


def lines(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield one line per method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    by = {
        m: sorted((r for r in rows if r["method"] == m), key=lambda r: r["seed"]) for m in methods
    }
    for method, own in by.items():
        difference = [a["ndcg"] - b["ndcg"] for a, b in zip(own, by["best γ"], strict=True)]
        cells = [interval([row[metric] for row in own]) for metric in METRICS]
        cells.insert(1, "–" if method == "best γ" else interval(difference))
        seconds = sorted(row["cpu_s"] for row in own)[len(own) // 2]
        yield (method, *cells, f"{seconds:.0f}")


def run(
    data: DataSet, seeds: Sequence[int], found: dict[str, Any], say: Callable[[str], None]
) -> None:
    """Add the missing splits of one data set, and write after each."""
    rows = found["rows"].setdefault(data.name, [])
    loaded = data.load()
    for seed in seeds:
        say(f"{data.name}, split {seed}")
        done = {row["method"] for row in rows if row["seed"] == seed}
        rows += one_split(loaded, seed, say, done)
        store(NAME, found["rows"])


def block(found: dict[str, Any]) -> str:
    """Return the tables for the docs: of each data set the splits where every method is done."""
    parts = []
    for name, rows in found["rows"].items():
        seeds = {row["seed"] for row in rows}
        methods = {seed: {row["method"] for row in rows if row["seed"] == seed} for seed in seeds}
        every = set().union(*methods.values())
        whole = [row for row in rows if methods[row["seed"]] == every]
        splits = len({row["seed"] for row in whole})
        parts.append(f"**{name}**, {splits} splits\n\n{table(HEADS, lines(whole))}")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run, or go on with, the study; print its tables."""
    options = harness.arguments(__doc__).parse_args()
    if not options.full:
        data = available([LAST_FM])[0].load()
        print(table(HEADS, lines(one_split(data.sample_items(300, seed=0), 0, print))))
        return
    found = stored(NAME)
    for data in available([MOVIE_LENS, LAST_FM]):
        run(data, SEEDS, found, print)
    print(block(found))


if __name__ == "__main__":
    main()

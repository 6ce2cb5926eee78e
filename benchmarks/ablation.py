"""Which part of Item-Weighted PCA does what: weights, filter, user scaling, value transform.

Protocol, fixed before the test parts are scored. The paper's two data sets; five random splits with
seeds that no other study of this repository uses (20 % test, 10 % validation per user); lists of
20; users without test items count 0. One grid of settings (`GRID`) is scored on validation. Every
row of the table may use a part of the grid (`ROWS`): of that part the setting with the highest
NDCG@20 on validation is fitted again on train + validation, and scored once on test. EASE and GF-CF
are chosen in the same way from their own grids (`PEERS`). 95 % intervals by Student's t over the
five splits, for the mean and for the difference to all parts together, paired by split. *Tail
share* is the share of long-tail items in the lists.

Run ``python benchmarks/ablation.py --full``. Needs EQUIPOISE_DATA. Finished splits are kept.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from datasets import LAST_FM, MOVIE_LENS, available
from study import interval, store, stored, table

if TYPE_CHECKING:
    from equipoise.data import Split
    from equipoise.evaluation.tuning import Trial

NAME, K, SEEDS = "ablation", 20, (7001, 7002, 7003, 7004, 7005)
METRICS = ("ndcg", "recall", "coverage", "aplt")

RANKS, GAMMAS, SCALINGS = [16, 32, 64, 128], [0.0, -0.5, -1.0, -1.5], [0.0, 0.25, 0.5]
FILTERS: list[dict[str, list[Any]]] = [
    {"spectral_filter": ["hard"], "filter_strength": [0.0]},
    {"spectral_filter": ["power"], "filter_strength": [0.25, 0.5]},
    {"spectral_filter": ["ridge"], "filter_strength": [0.03, 0.1]},
]
GRID: dict[str, list[Any]] = {"n_components": RANKS, "gamma": GAMMAS, "user_scaling": SCALINGS}
TRANSFORMS = [None, "one_plus", "binary"]  # only where values differ
PEERS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    "EASE": ("ease", {"regularization": [30.0, 100.0, 300.0, 1000.0]}),
    "GF-CF": ("gfcf", {"n_components": [64, 128, 256], "ideal_weight": [0.1, 0.3, 1.0]}),
}

#: a part of the model: the settings without it
WITHOUT: dict[str, dict[str, Any]] = {
    "weights": {"gamma": 0.0},
    "filter": {"spectral_filter": "hard"},
    "scaling": {"user_scaling": 0.0},
    "transform": {"value_transform": None},
}


def without(*parts: str) -> dict[str, Any]:
    """Return the settings that leave parts out."""
    return {name: value for part in parts for name, value in WITHOUT[part].items()}


ALL = "all four parts"
#: rows of the table: the settings that a row must have; ranks and the other parts are free
ROWS: dict[str, dict[str, Any]] = {
    "none: PCA": without(*WITHOUT),
    "the paper's: γ = −1, hard": {**without("filter", "scaling", "transform"), "gamma": -1.0},
    "weights alone, γ chosen": without("filter", "scaling", "transform"),
    "filter alone": without("weights", "scaling", "transform"),
    "scaling alone": without("weights", "filter", "transform"),
    "transform alone": without("weights", "filter", "scaling"),
    ALL: {},
    "all but weights": without("weights"),
    "all but filter": without("filter"),
    "all but scaling": without("scaling"),
    "all but transform": without("transform"),
}


def search(split: Split, model: str, grids: Sequence[Mapping[str, Sequence[Any]]]) -> list[Trial]:
    """Return every setting with its NDCG@20 on validation."""
    import numpy as np

    from equipoise.data import Split
    from equipoise.evaluation import tune

    nothing = split.test.keep_entries(np.zeros(split.test.nnz, bool))
    parts = Split(split.train, split.validation, nothing)
    tuning = tune(parts, model, grid=list(grids), maximize=f"ndcg@{K}", k=K, zero_division=0.0)
    return list(tuning.trials)


def scored(trial: Trial, split: Split) -> dict[str, float]:
    """Fit a setting on train + validation, and score its lists on test."""
    from equipoise.evaluation import evaluate

    known = split.train_validation
    lists = trial.model().fit(known).rank(known, K, seen=known.matrix).ids
    found = evaluate(split, {"model": lists}, metrics=list(METRICS), k=K, zero_division=0.0)
    return {row.metric: row.value for row in found.select(group="all")}


def one_split(split: Split, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Choose each row's setting on validation, and score it on test."""
    values = split.train.matrix.data
    transforms = {"value_transform": TRANSFORMS} if values.min() < values.max() else {}
    started = time.process_time()
    trials = search(split, "item-weighted", [{**GRID, **kind, **transforms} for kind in FILTERS])
    allowed = {name: _allowed(trials, fixed) for name, fixed in ROWS.items()}
    for title, (key, grid) in PEERS.items():
        allowed[title] = search(split, key, [{**grid, **transforms}])
    if not transforms:
        allowed = {name: tried for name, tried in allowed.items() if "transform" not in name}
    rows, known = [], {}
    for name, tried in allowed.items():
        best = max(tried, key=lambda trial: trial.scores[f"ndcg@{K}"])
        setting = f"{type(best.base).__name__} {json.dumps(dict(best.settings), sort_keys=True)}"
        known[setting] = known.get(setting) or scored(best, split)
        rows.append({"row": name, "tried": len(tried), "chosen": setting, **known[setting]})
        say(f"{name}: NDCG@{K} {rows[-1]['ndcg']:.4f}, {setting}")
    say(f"{time.process_time() - started:.0f} s of CPU time")
    return rows


def _allowed(trials: Sequence[Trial], fixed: Mapping[str, Any]) -> list[Trial]:
    return [
        trial
        for trial in trials
        if all(trial.settings.get(name) == value for name, value in fixed.items())
    ]


HEADS = ("parts", "settings tried", f"NDCG@{K}", f"− {ALL}", "coverage", "tail share")


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield one line per row of the protocol."""
    by: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        by.setdefault(row["row"], []).append(row)
    for name in sorted(by, key=[*ROWS, *PEERS].index):
        own = by[name]
        cells = [interval([row[metric] for row in own]) for metric in ("ndcg", "coverage", "aplt")]
        difference = [a["ndcg"] - b["ndcg"] for a, b in zip(own, by[ALL], strict=True)]
        cells.insert(1, "–" if name == ALL else interval(difference))
        yield (name, str(own[0]["tried"]), *cells)


def block(found: Mapping[str, Any]) -> str:
    """Return the tables for the docs."""
    parts = [
        f"**{name}**, {len({row['seed'] for row in rows})} splits\n\n{table(HEADS, lines(rows))}"
        for name, rows in found["rows"].items()
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run, or go on with, the study; print its tables."""
    options = harness.arguments(__doc__).parse_args()
    if not options.full:
        data = available([LAST_FM])[0].load().sample_items(300, seed=0)
        rows = one_split(data.holdout(test=0.2, validation=0.1, seed=0), print)
        print(table(HEADS, lines([{**row, "seed": 0} for row in rows])))
        return
    found = stored(NAME)
    for data in available([MOVIE_LENS, LAST_FM]):
        rows, loaded = found["rows"].setdefault(data.name, []), data.load()
        for seed in SEEDS:
            if any(row["seed"] == seed for row in rows):
                continue
            print(f"{data.name}, split {seed}")
            split = loaded.holdout(test=0.2, validation=0.1, seed=seed)
            rows += [{"seed": seed, **row} for row in one_split(split, print)]
            store(NAME, found["rows"])
    print(block(found))


if __name__ == "__main__":
    main()

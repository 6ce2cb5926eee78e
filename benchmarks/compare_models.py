"""Claim: tuned on validation, a low-rank Item-Weighted PCA is as accurate as common models.

On each of the paper's two data sets as published, and on Last.fm as 0/1, its NDCG@20 on test is at
least that of EASE, Weighted MF and LightGCN at rank 128 or less, and at equal NDCG it shows more
of the tail than PCA.

Every model is tuned by `equipoise.evaluation.tune` on the validation part over its default search
space (`equipoise models --json`), refitted on train + validation, and scored once on test; users
without test items count 0, as in the paper. Every fit is cached, so an
interrupted run continues, and models and data sets can be run one by one: earlier results stay in
the table until they are measured again. Run ``python benchmarks/compare_models.py``, or with
``--models ease,pca --datasets lastfm-binary`` for some of it. Needs EQUIPOISE_DATA.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from harness import Report, Table, machine, progress

if TYPE_CHECKING:
    from equipoise import Interactions
    from equipoise.evaluation import Results, Tuning
    from equipoise.models.registry import ModelEntry

Cell = dict[str, Any]

NAME, K = "compare_models", 20
RANKING = {"ndcg": "NDCG", "recall": "Recall", "precision": "Precision", "mrr": "MRR"}
LISTS = ("arp", "aplt", "coverage", "gini")
OF_PROJECTIONS = ("specialization",)
CACHE = Path(__file__).parents[1] / "build" / NAME
OURS, PEERS = "item-weighted", ("ease", "weighted-mf", "lightgcn")


class DataSet(NamedTuple):
    """One matrix to compare on."""

    title: str
    load: Callable[[], Interactions]


def _movielens() -> Interactions:
    from equipoise import load_dataset

    return load_dataset("ml-1m", preprocessing="paper")


def _lastfm() -> Interactions:
    from equipoise import load_dataset

    return load_dataset("lastfm-2k", preprocessing="paper")


def _lastfm_binary() -> Interactions:
    return _lastfm().binarize()


DATASETS: Mapping[str, DataSet] = {
    "movielens": DataSet("MovieLens, as published (0/1, 1,200 movies)", _movielens),
    "lastfm": DataSet("Last.fm, as published (shares of plays)", _lastfm),
    "lastfm-binary": DataSet("Last.fm, 0/1", _lastfm_binary),
}


def measure(entry: ModelEntry, split: Any, cache: Path) -> Cell:
    """Tune one model on validation, and score the choice on test."""
    from equipoise.evaluation import tune
    from equipoise.models.projection import ProjectionModel

    own = OF_PROJECTIONS if issubclass(entry.load_class(), ProjectionModel) else ()
    started = time.perf_counter()
    tuning = tune(
        split,
        entry.key,
        maximize=f"ndcg@{K}",
        k=K,
        zero_division=0,
        test_metrics=[*LISTS, *own],
        cache=cache,
    )
    if not tuning.complete or tuning.test is None:
        raise KeyboardInterrupt
    cost = tuning.test.cost()
    return {
        "model": entry.key,
        "title": entry.title,
        "chosen": tuning.constructor(),
        "rank": cost.settings.get("n_components"),
        "n_trials": len(tuning.trials),
        "validation_ndcg": tuning.choice.scores[f"ndcg@{K}"],
        "frontier": _frontier(tuning),
        "test": _numbers(tuning.test),
        "fit_seconds": cost.fit_seconds,
        "peak_bytes": cost.peak_bytes,
        "parameters_kept": cost.parameters_kept,
        # of this call: a resumed search takes less
        "search_seconds": time.perf_counter() - started,
    }


def _frontier(tuning: Tuning) -> list[Cell]:
    """NDCG against the share of the tail on validation, best NDCG first."""
    return [dict(trial.scores) for trial in tuning.frontier]


def _numbers(test: Results) -> dict[str, Cell]:
    """Every metric with its convention; those of ranking with their 95 % interval."""
    numbers: dict[str, Cell] = {}
    for row in test.select(group="all"):
        if row.metric in (*RANKING, *LISTS, *OF_PROJECTIONS):
            numbers[row.metric] = {"value": row.value, "convention": row.convention, "n": row.n}
            if row.metric in RANKING:
                interval = test.interval(row)
                numbers[row.metric] |= {"low": interval.low, "high": interval.high}
    return numbers


def run(names: Sequence[str], keys: Sequence[str], folder: Path, cache: Path) -> Report:
    """Measure what was asked for, add it to what is there, and write after every model."""
    from equipoise.data import holdout
    from equipoise.models.registry import find_models

    facts = machine()
    cells = _stored(folder)
    entries = find_models(keys)
    with progress(len(names) * len(entries)) as step:
        for name in names:
            split = holdout(DATASETS[name].load())
            for entry in entries:
                if not entry.installed:
                    step(f"{name}: SKIPPED {entry.title}: {entry.install_command}")
                    continue
                measured = measure(entry, split, cache / name)
                cells.setdefault(name, {})[entry.key] = measured | {"machine": facts}
                report(cells, facts).write(folder)
                ndcg = measured["test"]["ndcg"]["value"]
                step(f"{name}: {entry.title}, NDCG {ndcg:.4f}, {measured['chosen']}")
    return report(cells, facts)


def _stored(folder: Path) -> dict[str, dict[str, Cell]]:
    path = folder / f"{NAME}.json"
    return dict(json.loads(path.read_text())["cells"]) if path.exists() else {}


def report(cells: Mapping[str, Mapping[str, Cell]], facts: Mapping[str, Any]) -> Report:
    """Everything that is known, in the order of the registry."""
    from equipoise.models.registry import MODELS

    order = list(MODELS)
    sorted_cells = {
        name: dict(sorted(cells[name].items(), key=lambda pair: order.index(pair[0])))
        for name in DATASETS
        if name in cells
    }
    claim = (__doc__ or "").split("\n\nEvery model is tuned")[0]
    tables = [table(DATASETS[name].title, found) for name, found in sorted_cells.items()]
    said = [line for name, found in sorted_cells.items() for line in verdicts(name, found)]
    return Report(NAME, claim, facts, sorted_cells, tables, said)


def table(title: str, found: Mapping[str, Cell]) -> Table:
    """One data set: one row per model."""
    heads = [f"{head}@{K}" for head in RANKING.values()]
    columns = (
        "model", "rank", *heads, "ARP", "APLT", "coverage", "Gini", "specialization", "fit s",
        "peak MB", "numbers kept", "settings tried", "chosen",
    )  # fmt: skip
    note = (
        "In brackets after the ranking metrics: 95 % intervals by a bootstrap over users. ARP is "
        "the mean popularity of the recommended items, APLT the share of long-tail items. Fit "
        "seconds and memory are of the final fit on train + validation. Settings tried are all "
        "settings compared on validation, also those from one fit (ranks, filters)."
    )
    return Table(title, columns, [_row(cell) for cell in found.values()], note)


def _row(cell: Cell) -> list[str]:
    test = cell["test"]
    ranking = [
        f"{test[m]['value']:.4f} ({test[m]['low']:.3f}–{test[m]['high']:.3f})" for m in RANKING
    ]
    peak = cell["peak_bytes"]
    return [
        cell["title"],
        "–" if cell["rank"] is None else str(cell["rank"]),
        *ranking,
        f"{test['arp']['value']:.1f}",
        *(f"{test[m]['value']:.3f}" for m in LISTS[1:]),
        f"{test['specialization']['value']:.3f}" if "specialization" in test else "–",
        f"{cell['fit_seconds']:.2f}",
        "?" if peak is None else f"{peak / 1e6:.0f}",
        f"{cell['parameters_kept']:,}",
        f"{cell['n_trials']:,}",
        f"`{cell['chosen']}`",
    ]


def verdicts(name: str, found: Mapping[str, Cell]) -> list[str]:
    """Each part of the claim that the cells at hand decide."""
    if OURS not in found:
        return []
    ours = found[OURS]["test"]["ndcg"]
    said = []
    for peer in (key for key in PEERS if key in found):
        theirs = found[peer]["test"]["ndcg"]
        said.append(
            f"{_held(ours['value'] >= theirs['value'])} on {name}: NDCG@{K} {ours['value']:.4f} "
            f"against {theirs['value']:.4f} of {found[peer]['title']}."
        )
    if "pca" in found:
        said.append(_tail_verdict(name, found[OURS], found["pca"]))
    return said


def _tail_verdict(name: str, ours: Cell, pca: Cell) -> str:
    """Most of the tail that ours shows, on validation, with at least the NDCG of the best PCA."""
    ndcg, aplt = f"ndcg@{K}", f"aplt@{K}"
    best = max(pca["frontier"], key=lambda scores: scores[ndcg])
    equal = [s[aplt] for s in ours["frontier"] if s[ndcg] >= best[ndcg]]
    most = max(equal, default=float("nan"))
    return (
        f"{_held(most > best[aplt])} on {name}: at the validation NDCG of the best PCA, APLT "
        f"{most:.3f} against {best[aplt]:.3f}."
    )


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


def main() -> None:
    """Measure, print and write."""
    parser = harness.arguments("All models, each tuned on validation.")
    known = ",".join(DATASETS)
    parser.add_argument("--datasets", default=known, help=f"of {known}")
    parser.add_argument("--models", default="all", help="as `equipoise models` lists them, or all")
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="folder to resume from; default: build/"
    )
    options = parser.parse_args()
    names = [name for name in options.datasets.split(",") if name]
    unknown = sorted(set(names) - set(DATASETS))
    if unknown:
        parser.error(f"--datasets: unknown {unknown[0]!r}, known: {known}")
    folder = options.out or harness.RESULTS
    run(names, options.models.split(","), folder, options.cache).show()


if __name__ == "__main__":
    main()

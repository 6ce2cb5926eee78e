"""Claim: the audit's measures of an item predict how often the model's lists find it.

For each item: item AUC, self-reconstruction and error, measured in-sample on the training data, are
compared with the item's own recall: of the users who have it in the test part, the share whose list
of K items contains it.

Protocol, fixed before the test parts are scored. Three data sets, 0/1 values, one random split per
user (20 % test). Six models of five families with the settings below, not tuned. Items with at
least five users in the test part. Rank correlation (Spearman) over items, and the same after
popularity is taken out: of both ranks, the residuals of a cubic polynomial in the rank of the
item's number of training users. 95 % intervals by a bootstrap over items; they do not cover the
split or the fit. A measure *predicts* recall if the interval of the controlled correlation excludes
0 on the expected side: above for item AUC, below for error. For self-reconstruction there is no
expected side.

Run ``python benchmarks/item_measures.py --full``. Needs EQUIPOISE_DATA and the extra `als`.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from datasets import LAST_FM, MOVIE_LENS_FULL, PAPER_SEED, DataSet, available
from harness import Report, Table, machine, progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from equipoise.audit.models.audited import AuditedModel
    from equipoise.data import Interactions, Split

    Floats = NDArray[np.float64]

NAME, PAGE = "item_measures", Path(__file__).parents[1] / "docs" / "item-measures.md"
RANK, CUTOFFS, FEWEST, RESAMPLES, SEED = 32, (20, 100), 5, 300, PAPER_SEED
MEASURES = {"auc": "item AUC", "error": "error", "self_reconstruction": "self-reconstruction"}
EXPECTED = {"auc": 1, "error": -1, "self_reconstruction": 0}

Cell = dict[str, Any]


def listening() -> Interactions:
    """The generated listening data of the demo."""
    from equipoise.data.synthetic import listening

    return listening()


class Plan(NamedTuple):
    """Which data."""

    sets: tuple[DataSet, ...]


SYNTHETIC = DataSet("synthetic listening", listening, needs_data=False)
QUICK = Plan((SYNTHETIC,))
FULL = Plan((LAST_FM, MOVIE_LENS_FULL, SYNTHETIC))


def models() -> dict[str, Callable[[Interactions], Any]]:
    """What is fitted, by name."""
    from equipoise import EASE, ItemKNN, ItemWeightedPCA, VanillaPCA, WeightedMF

    return {
        f"PCA, rank {RANK}": VanillaPCA(RANK).fit,
        f"Item-Weighted PCA, rank {RANK}": ItemWeightedPCA(RANK).fit,
        f"ALS (implicit), {RANK} factors": WeightedMF(RANK, random_state=0).fit,
        f"BPR embeddings (implicit), {RANK} factors": bpr,
        "EASE": EASE().fit,
        "ItemKNN": ItemKNN().fit,
    }


def bpr(data: Interactions) -> Any:
    """User and item embeddings, trained by stochastic gradients on pairs."""
    import scipy.sparse as sp
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=RANK, iterations=60, random_state=0, num_threads=1, verify_negative_samples=True
    )
    model.fit(sp.csr_matrix(data.matrix), show_progress=False)
    return model


def item_recall(lists: NDArray[np.int32], held_out: Any) -> tuple[Floats, Floats]:
    """Return each item's hits and its number of users in the test part."""
    import numpy as np
    import scipy.sparse as sp

    n_users, n_items = held_out.shape
    users, places = np.nonzero(lists >= 0)
    shown = sp.csr_array((np.ones(len(users)), (users, lists[users, places])), (n_users, n_items))
    wanted = held_out.astype(bool).astype(np.float64)
    return np.asarray(shown.multiply(wanted).sum(axis=0)), np.asarray(wanted.sum(axis=0))


def correlations(measure: Floats, recall: Floats, popularity: Floats) -> tuple[float, float]:
    """Return the rank correlation, and the one after popularity is taken out."""
    import numpy as np
    from scipy.stats import rankdata

    x, y, p = (rankdata(each) for each in (measure, recall, popularity))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan"), float("nan")
    scaled = 2 * (p - p.min()) / max(np.ptp(p), 1) - 1
    design = np.vander(scaled, 4)
    basis = np.linalg.qr(design)[0]
    left = [each - basis @ (basis.T @ each) for each in (x, y)]
    return float(np.corrcoef(x, y)[0, 1]), float(np.corrcoef(*left)[0, 1])


def with_interval(measure: Floats, recall: Floats, popularity: Floats) -> Cell:
    """Return both correlations with 95 % intervals over items."""
    import numpy as np

    found = correlations(measure, recall, popularity)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(recall), len(recall)) for _ in range(RESAMPLES)]
    many = np.array([correlations(measure[i], recall[i], popularity[i]) for i in drawn])
    low, high = (
        np.nanpercentile(many, [2.5, 97.5], axis=0)
        if np.isfinite(found).all()
        else ((np.nan, np.nan), (np.nan, np.nan))
    )
    names = ("plain", "controlled")
    return {
        name: {"value": found[i], "low": float(low[i]), "high": float(high[i])}
        for i, name in enumerate(names)
    }


def measure(model: AuditedModel, split: Split) -> Cell:
    """Return the correlations of every measure with recall at every cut-off."""
    import numpy as np

    fitted, test = split.train_validation, split.test.matrix
    size, every = model.depth, np.arange(fitted.n_items)
    numbers = model.measure_items(fitted, [size], every, 20)
    own = model.for_users(fitted.user_ids)
    lists = next(iter(model.lister([size]).lists(fitted.matrix, max(CUTOFFS), own)))
    popularity = fitted.popularity("count")
    cells: Cell = {}
    for k in CUTOFFS:
        hits, wanted = item_recall(lists[:, :k], test)
        for name in MEASURES:
            values = getattr(numbers, name)[0]
            chosen = np.flatnonzero((wanted >= FEWEST) & np.isfinite(values))
            recall = hits[chosen] / wanted[chosen]
            found = with_interval(values[chosen], recall, popularity[chosen])
            cells[f"{name}@{k}"] = {"n": len(chosen), "mean_recall": recall.mean(), **found}
    return cells


def run(plan: Plan) -> Report:
    """Fit and measure every model on every data set."""
    from equipoise.audit.models.given import read_models

    facts, sets = machine(), available(plan.sets)
    cells: dict[str, dict[str, Cell]] = {}
    with progress(len(sets) * len(models())) as step:
        for data in sets:
            plays = data.load().binarize()
            split = plays.holdout(test=0.2, validation=0.1, seed=SEED)
            own = cells.setdefault(f"{data.name} ({plays.n_users:,} × {plays.n_items:,})", {})
            for name, fit in models().items():
                (model,) = read_models({name: fit(split.train_validation)}, split.train_validation)
                own[name] = measure(model, split)
                step(f"{data.name}: {name}")
    claim = (__doc__ or "").split("\n\nRun")[0]
    tables = [table(title, own, k) for title, own in cells.items() for k in CUTOFFS]
    return Report(NAME, claim, facts, cells, tables, verdicts(cells))


def table(title: str, cells: Mapping[str, Cell], k: int) -> Table:
    """One data set at one cut-off: a row per model."""
    columns = ["model", *(f"{each}{c}" for each in MEASURES.values() for c in ("", ", controlled"))]
    rows = [
        [
            name,
            *(
                shown(cell[f"{each}@{k}"][kind])
                for each in MEASURES
                for kind in ("plain", "controlled")
            ),
        ]
        for name, cell in cells.items()
    ]
    n = max(cell[f"{each}@{k}"]["n"] for cell in cells.values() for each in MEASURES)
    return Table(f"{title}: recall@{k} of {n:,} items", columns, rows)


def shown(found: Mapping[str, float]) -> str:
    """Return a correlation with its interval; a dash if the measure is the same for all items."""
    if found["value"] != found["value"]:
        return "–"
    return f"{found['value']:+.2f} ({found['low']:+.2f} to {found['high']:+.2f})"


def verdicts(cells: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    """For each measure and cut-off: in how many of the cells it predicts, and where it does not."""
    said = []
    for k in CUTOFFS:
        for each, title in MEASURES.items():
            sides: dict[int, list[str]] = {-1: [], 0: [], 1: []}
            for data, own in cells.items():
                for name, cell in own.items():
                    found = cell[f"{each}@{k}"]["controlled"]
                    if found["value"] == found["value"]:
                        side = int(found["low"] > 0) - int(found["high"] < 0)
                        sides[side].append(f"{name} on {data.partition(' (')[0]}")
            said.append(_sentence(title, k, EXPECTED[each], sides))
    return said


def _sentence(title: str, k: int, expected: int, sides: Mapping[int, Sequence[str]]) -> str:
    total = sum(map(len, sides.values()))
    if not expected:
        return (
            f"{title} and recall@{k}, at equal popularity: positive in {len(sides[1])}, negative "
            f"in {len(sides[-1])}, undecided in {len(sides[0])} of {total} cells."
        )
    failing = [*sides[0], *(f"{each} (wrong sign)" for each in sides[-expected])]
    where = f" Not: {'; '.join(failing)}." if failing else ""
    return (
        f"{title} predicts recall@{k} at equal popularity in {len(sides[expected])} of {total} "
        f"cells.{where}"
    )


def main() -> None:
    """Run the plan of the command line; a full run writes its page of the documentation."""
    options = harness.arguments("Do item measures predict an item's recall?").parse_args()
    report = run(FULL if options.full else QUICK)
    harness.conduct(report, options)
    if options.full and options.out is None:
        report.publish(PAGE)


if __name__ == "__main__":
    main()

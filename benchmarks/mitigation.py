"""Popularity corrections side by side: re-ranking, weights, floors and regularization.

Protocol, fixed before the test parts are scored. The paper's two data sets and Last.fm as 0/1, five
random splits each (20 % test, 10 % validation per user), rank 32; and Gowalla on its published
split, rank 128. Every correction has a few settings. They are fitted on train and scored on
validation. For each budget of `BUDGETS` one is kept: that with the largest tail share among those
that lose at most this share of the NDCG@20 of the model without correction. If none does, that with
the least loss is kept. The kept settings are fitted again on train + validation and scored once on
test. Corrections of the model itself are compared with PCA. At most `USERS` users are drawn per
split; re-rankers with prices learn from the lists of the same users. Lists of 20 from 100
candidates; for compensation and scaling from all items, on Gowalla from 500.

*Tail share* is that of items outside the most popular ones with 80 % of the interactions; *tail
recall* is the share of such held-out items that are listed. *Worst exposure* is the smallest share
of the discounted exposure of one of ten popularity groups of equal size, times ten: 1 is equal
exposure. 95 % intervals by Student's t over splits; of one split by a bootstrap over users. CPU
seconds include all settings of a correction; the lists of a model are counted with the model.

Run ``python benchmarks/mitigation.py --full``. Needs EQUIPOISE_DATA. Finished models of a split are
kept, so an interrupted run continues. LightGCN (80 epochs) is included on the paper's data sets
where PyTorch Geometric is installed.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from datasets import LAST_FM, MOVIE_LENS, available
from plots import Frontiers
from study import Row, half_width, store, stored, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from equipoise import Interactions
    from equipoise.data import Split
    from equipoise.models import Recommender
    from equipoise.reranking import Candidates, ItemContext

    Floats = NDArray[np.float64]

NAME, K, POOL, USERS, RESAMPLES = "mitigation", 20, 100, 2_000, 1_000
BUDGETS = {"2 %": 0.02, "5 %": 0.05, "10 %": 0.10, "20 %": 0.20}
SHOWN = ("10 %",)  # the budgets of the full tables
METRICS = {
    "ndcg": f"NDCG@{K}",
    "change": "change",
    "recall": f"recall@{K}",
    "tail share": "tail share",
    "tail recall": "tail recall",
    "worst exposure": "worst exposure",
}
GOALS = ("tail share", "tail recall", "worst exposure")  # each against NDCG in the picture
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "mitigation.png"
# With more items, EASE needs too much memory, and the fits with groups and the lists of all items
# too much time.
MANY_ITEMS, LONG_POOL = 10_000, 500

RERANKERS: dict[str, tuple[str, ...]] = {
    "compensation": tuple(
        f"compensation:{a},beta={b}" for a in (0.05, 0.1, 0.2, 0.4, 0.8) for b in (0.0, 1.0)
    ),
    "scaling": tuple(f"scaling:{a}" for a in (0.025, 0.05, 0.1, 0.2, 0.3, 0.4)),
    "xQuAD, binary": tuple(f"xquad:{s}" for s in (0.1, 0.2, 0.4, 0.6, 0.8)),
    "xQuAD, smooth": tuple(f"xquad:{s},form=smooth" for s in (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)),
    "FA*IR": tuple(f"fair:{p}" for p in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)),
    "calibrated": tuple(f"calibrated:{s}" for s in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)),
    "MMR": tuple(f"mmr:{s}" for s in (0.05, 0.1, 0.2, 0.4)),
    "exposure floors": (
        *(f"exposure:{f}" for f in (0.1, 0.25, 0.5, 0.75, 1.0)),
        *(f"exposure:{f},target=items" for f in (0.3, 0.4, 0.5, 0.6, 0.8)),
    ),
}
GAMMAS = (-0.5, -0.75, -1.0, -1.25, -1.5, -1.75, -2.0)
FLOORS = (0.5, 0.8, 0.97)  # of the largest smallest share, with ten groups
CORRECTED = "Item-Weighted PCA"
LIGHTGCN = "LightGCN"


class DataSet(NamedTuple):
    """A data set, its split by seed, and the rank of the models."""

    name: str
    split: Callable[[int], Split]
    seeds: tuple[int, ...]
    rank: int


def datasets() -> list[DataSet]:
    """Return the data sets whose files are here."""
    found = []
    for one in available([LAST_FM, MOVIE_LENS]):
        load = cache(one.load)
        found.append(DataSet(one.name, partial(_random_split, load), (0, 1, 2, 3, 4), 32))
        if one is LAST_FM:  # without plays, which LightGCN does not use
            binary = cache(lambda load=load: load().binarize())
            name = f"{one.name}, 0/1"
            found.append(DataSet(name, partial(_random_split, binary), (0, 1, 2, 3, 4), 32))
    gowalla = Path(os.environ.get("EQUIPOISE_DATA", ".")) / "sparse" / "gowalla"
    if gowalla.exists():
        found.append(DataSet("Gowalla", partial(_given_split, gowalla), (0,), 128))
    return found


def _random_split(load: Callable[[], Interactions], seed: int) -> Split:
    return load().holdout(test=0.2, validation=0.1, seed=seed)


def _given_split(folder: Path, _: int) -> Split:
    from compare_models import read_folder

    return read_folder(folder, "given")


# --------------------------------------------------------------------------------------- methods


def models(rank: int, n_items: int) -> dict[str, list[Recommender]]:
    """Return the models that are re-ranked, each with the settings to choose from by NDCG."""
    from equipoise import EASE, ItemWeightedPCA, VanillaPCA, WeightedMF
    from equipoise.models import LightGCN

    found: dict[str, list[Recommender]] = {"PCA": [VanillaPCA(rank)]}
    found["ALS"] = [WeightedMF(rank, alpha=a, regularization=r) for a, r in ((4, 10), (16, 30))]
    if n_items < MANY_ITEMS:
        found["EASE"] = [EASE(r) for r in (0.1, 1.0, 10.0, 100.0, 300.0)]
        if find_spec("torch_geometric"):
            found[LIGHTGCN] = [LightGCN(rank, **TRAINING)]
    found[CORRECTED] = [ItemWeightedPCA(rank, gamma=gamma) for gamma in GAMMAS]
    return found


# A small budget, for one core: eight steps per epoch, without early stopping or other settings.
TRAINING: Mapping[str, Any] = {"learning_rate": 0.03, "max_epochs": 80, "validation": 0.0}


def representations(rank: int, train: Interactions) -> Iterator[tuple[str, list[Recommender]]]:
    """Yield the corrections that change the model itself; all are compared with PCA."""
    from equipoise import ItemWeightedPCA, MaxMinItemWeightedPCA
    from equipoise.models import CovarianceRegularizedPCA, LongTailRegularizedPCA

    yield "γ", [ItemWeightedPCA(rank, gamma=gamma) for gamma in GAMMAS]
    covariance = [CovarianceRegularizedPCA(rank, max_covariance=c) for c in (0.75, 0.5, 0.25, 0.0)]
    yield "covariance bound", covariance
    yield "LT-Reg", [LongTailRegularizedPCA(rank, strength=s) for s in (0.1, 0.3, 1.0, 3.0)]
    if train.n_items < MANY_ITEMS:
        most = MaxMinItemWeightedPCA(rank, groups=10, tol=1e-3)
        limit = most.fit(train).certificate_.objective
        yield (
            "floors of retained shares",
            [MaxMinItemWeightedPCA(rank, groups=10, tol=1e-3, floors=f * limit) for f in FLOORS],
        )
        yield "max-min", [MaxMinItemWeightedPCA(rank, groups=n, tol=1e-3) for n in (10, 20)]


# --------------------------------------------------------------------------------------- scoring


class PerUser(NamedTuple):
    """What each user's list contributes to the metrics."""

    ndcg: Floats
    recall: Floats
    tail: Floats  # share of the list
    tail_hits: Floats
    tail_held_out: Floats
    exposure: Floats  # users × ten groups

    def means(self, weights: Floats) -> dict[str, Floats]:
        """Return each metric for each row of weights of the users."""
        import numpy as np

        total = weights.sum(axis=1)
        exposure = weights @ self.exposure
        hits, held_out = weights @ self.tail_hits, weights @ self.tail_held_out
        return {
            "ndcg": weights @ self.ndcg / total,
            "recall": weights @ self.recall / total,
            "tail share": weights @ self.tail / total,
            "tail recall": hits / np.maximum(held_out, 1),
            "worst exposure": 10 * exposure.min(axis=1) / exposure.sum(axis=1),
        }


class Part:
    """What models are fitted on, the users who get lists, and how lists are scored."""

    def __init__(self, fitted: Interactions, held_out: Interactions, seed: int) -> None:
        import numpy as np

        from equipoise.data import Groups
        from equipoise.metrics import popularity_groups

        self.fitted = fitted
        rng = np.random.default_rng(seed)
        users = np.flatnonzero(np.diff(held_out.matrix.indptr))
        if len(users) > USERS:
            users = np.sort(rng.choice(users, USERS, replace=False))
        self.X, self.Y = fitted.matrix[users], held_out.matrix[users]
        self.counts = fitted.popularity("count")
        self.tail = popularity_groups(self.counts, rule="head80")
        self.in_tail = np.append(self.tail.membership[:, [1]].toarray().ravel(), 0.0)
        tenths = Groups.by_popularity(fitted, 10).membership.toarray()
        self.tenths = np.vstack([tenths, np.zeros(10)])  # the last row is that of no item
        self.resamples = rng.multinomial(len(users), np.full(len(users), 1 / len(users)), RESAMPLES)

    def candidates(self, model: Recommender, pool: int) -> Candidates:
        """Return the lists of all users."""
        from equipoise.reranking import Candidates

        pool = min(pool, self.X.shape[1])
        return Candidates(*model.rank(self.X, pool, seen=self.X), self.X)

    def per_user(self, lists: NDArray[Any]) -> PerUser:
        """Return what lists of columns contribute to the metrics."""
        import numpy as np

        from equipoise.metrics import ndcg_at_k, recall_at_k
        from equipoise.metrics.fairness import attention

        listed = lists >= 0
        rows = np.arange(len(lists))[:, None]
        tail = self.in_tail[lists]
        hits = (self.Y[rows, np.where(listed, lists, 0)].toarray() > 0) & listed
        discounted = self.tenths[lists] * attention(lists.shape[1])[None, :, None]
        return PerUser(
            ndcg_at_k(lists, self.Y, K).per_user,
            recall_at_k(lists, self.Y, K).per_user,
            tail.sum(axis=1) / np.maximum(listed.sum(axis=1), 1),
            (hits * tail).sum(axis=1),
            (self.Y > 0).astype(np.float64) @ self.in_tail[:-1],
            discounted.sum(axis=1),
        )

    def scores(self, lists: NDArray[Any], base: PerUser | None = None) -> dict[str, Any]:
        """Return the metrics; with the lists of a base model, the change and bootstrap halves."""
        import numpy as np

        own = self.per_user(lists)
        found: dict[str, Any] = {
            name: float(value[0]) for name, value in own.means(np.ones((1, len(lists)))).items()
        }
        if base is not None:
            found["change"] = float(own.ndcg.mean() - base.ndcg.mean())
            drawn = own.means(self.resamples)
            drawn["change"] = drawn["ndcg"] - base.means(self.resamples)["ndcg"]
            halves = {n: np.subtract(*np.quantile(v, (0.975, 0.025))) / 2 for n, v in drawn.items()}
            found["bootstrap"] = {name: round(float(half), 5) for name, half in halves.items()}
        return found


class Lists:
    """The lists of one fitted model on one part, made once for all re-rankers."""

    def __init__(self, model: Recommender, part: Part) -> None:
        self.model, self.part = model, part
        n_items = part.X.shape[1]
        self.longest = part.candidates(model, n_items if n_items < MANY_ITEMS else LONG_POOL)

    @cached_property
    def context(self) -> ItemContext:
        """What re-rankers know about the items."""
        import numpy as np

        from equipoise import VanillaPCA
        from equipoise.reranking import ItemContext

        factors = self.model.factors() or VanillaPCA(32).fit(self.part.fitted).factors()
        vectors = np.asarray(factors.items, dtype=np.float64)
        return ItemContext(self.part.counts, self.part.tail, vectors)

    @property
    def own(self) -> NDArray[Any]:
        """The model's own lists."""
        return self.longest.items[:, :K]

    def candidates(self, pool: int | None) -> Candidates:
        """Return the longest lists, or their beginning."""
        lists = self.longest
        if pool is None:
            return lists
        return lists._replace(items=lists.items[:, :pool], scores=lists.scores[:, :pool])

    def reranked(self, spec: str) -> NDArray[Any] | None:
        """Return re-ranked lists; None if these candidates cannot meet the floors."""
        import dataclasses

        import numpy as np

        from equipoise.exceptions import InfeasibleError
        from equipoise.reranking import make_reranker

        method = make_reranker(spec)
        lists, context = self.candidates(None if method.pool is None else POOL), self.context
        if method.learns:
            try:
                learned = method.learn(lambda: [lists], context)
            except InfeasibleError:
                return None
            context = dataclasses.replace(context, learned=learned)
        order = method.rerank(lists, K, context)
        items = np.take_along_axis(lists.items, np.maximum(order, 0), axis=1)
        return np.where(order >= 0, items, -1)


# --------------------------------------------------------------------------------------- choices


def chosen(tried: Mapping[Any, Mapping[str, float]], plain: float, budget: float) -> Any:
    """Return the setting with the largest tail share within the budget; else the least loss."""
    within = [key for key, one in tried.items() if one["ndcg"] >= (1 - budget) * plain]
    if within:
        return max(within, key=lambda key: tried[key]["tail share"])
    return max(tried, key=lambda key: tried[key]["ndcg"])


class Run:
    """One split: its two parts, and the rows that are found."""

    def __init__(self, split: Split, rank: int, seed: int, rows: list[Row]) -> None:
        self.split, self.rank, self.seed, self.rows = split, rank, seed, rows
        self.validation = Part(split.train, split.validation, seed)
        self.test = Part(split.train_validation, split.test, seed)

    def add(
        self, model: str, method: str, started: float, by_budget: Mapping[str, Any], found: Any
    ) -> None:
        """Add one row per setting that was kept, with the budgets that it was kept for."""
        cpu = round(time.process_time() - started, 2)
        for setting, scores in found.items():
            budgets = [budget for budget, one in by_budget.items() if one == setting]
            head = {"seed": self.seed, "model": model, "method": method, "budgets": budgets}
            rounded = {
                name: round(value, 5) if isinstance(value, float) else value
                for name, value in scores.items()
            }
            self.rows.append({**head, "setting": str(setting), "cpu_s": cpu, **rounded})

    def base(self, name: str, settings: Sequence[Recommender]) -> tuple[Lists, Lists, float]:
        """Choose a model by NDCG on validation; return its lists on both parts, and that NDCG."""
        from sklearn.base import clone

        started = time.process_time()
        tried = []
        for one in settings:
            lists = Lists(clone(one).fit(self.split.train), self.validation)
            tried.append((self.validation.scores(lists.own)["ndcg"], lists))
        best = max(range(len(tried)), key=lambda number: tried[number][0])
        final = Lists(clone(settings[best]).fit(self.split.train_validation), self.test)
        own = self.test.scores(final.own, self.test.per_user(final.own))
        self.add(name, "none", started, {}, {str(settings[best]): own})
        return tried[best][1], final, tried[best][0]

    def rerank(self, name: str, settings: Sequence[Recommender]) -> None:
        """Add the rows of one model and all re-rankers."""
        on_validation, on_test, plain = self.base(name, settings)
        before = self.test.per_user(on_test.own)
        for method, specs in RERANKERS.items():
            started = time.process_time()
            made = {spec: on_validation.reranked(spec) for spec in specs}
            tried = {
                s: self.validation.scores(lists) for s, lists in made.items() if lists is not None
            }
            found: dict[str, Any] = {}
            by_budget: dict[str, str] = {}
            for budget, share in BUDGETS.items():
                left = dict(tried)
                while left and (spec := chosen(left, plain, share)) not in found:
                    lists = on_test.reranked(spec)
                    if lists is None:  # the candidates of test cannot meet these floors
                        left.pop(spec)
                    else:
                        found[spec] = self.test.scores(lists, before)
                if left:
                    by_budget[budget] = spec
            self.add(name, method, started, by_budget, found)

    def correct(self, method: str, settings: Sequence[Recommender], plain: float, pca: Any) -> None:
        """Add the rows of one correction of the model itself."""
        from sklearn.base import clone

        from equipoise.exceptions import InfeasibleError

        started = time.process_time()
        tried: dict[int, Any] = {}
        for number, one in enumerate(settings):
            try:
                fitted = clone(one).fit(self.split.train)
            except InfeasibleError:  # a floor at the limit, by rounding
                continue
            tried[number] = self.validation.scores(self.validation.candidates(fitted, K).items)
        kept = {budget: chosen(tried, plain, share) for budget, share in BUDGETS.items()}
        found = {}
        for number in dict.fromkeys(kept.values()):
            one = clone(settings[number])
            try:
                fitted = one.fit(self.split.train_validation)
            except InfeasibleError as error:  # a little less is possible with more data
                floors = settings[number].floors + error.best - 1e-3
                fitted = one.set_params(floors=floors).fit(self.split.train_validation)
            lists = self.test.candidates(fitted, K).items
            found[str(settings[number])] = self.test.scores(lists, pca)
        self.add("PCA", method, started, {b: str(settings[n]) for b, n in kept.items()}, found)


def run_split(data: DataSet, seed: int, rows: list[Row], write: Callable[[], None]) -> None:
    """Add what is missing of one split: model by model, then the corrections of the model."""
    from equipoise import VanillaPCA

    done = {(row["model"], row["method"]) for row in rows if row["seed"] == seed}
    split = data.split(seed)
    run = Run(split, data.rank, seed, rows)

    def finish(what: str) -> None:
        write()
        print(f"{data.name}, split {seed}, {what}: {time.process_time():.0f} s", flush=True)

    for name, settings in models(data.rank, split.train.n_items).items():
        if (name, "none") not in done:
            run.rerank(name, settings)
            finish(name)
    if ("PCA", "LT-Reg") in done:
        return
    pca = VanillaPCA(data.rank)
    on_train = run.validation.candidates(pca.fit(split.train), K).items
    plain = run.validation.scores(on_train)["ndcg"]
    before = run.test.per_user(run.test.candidates(pca.fit(split.train_validation), K).items)
    for method, settings in representations(data.rank, split.train):
        run.correct(method, settings, plain, before)
    finish("corrected models")


# ---------------------------------------------------------------------------------------- tables


def cell(rows: Sequence[Row], metric: str) -> str:
    """Return the mean and its interval: over splits, or of one split over users."""
    values = [row[metric] for row in rows]
    half = half_width(values) if len(rows) > 1 else rows[0]["bootstrap"][metric]
    sign = "+" if metric == "change" else ""
    return f"{sum(values) / len(values):{sign}.3f} ± {half:.3f}".replace("-", "−")


def selected(rows: Sequence[Row], model: str, method: str, budget: str) -> list[Row]:
    """Return the rows of one model and method that were kept for a budget, one per split."""
    own = [row for row in rows if (row["model"], row["method"]) == (model, method)]
    return [row for row in own if method == "none" or budget in row["budgets"]]


def lines(rows: Sequence[Row], budget: str) -> Iterator[tuple[str, ...]]:
    """Yield one line per model and method."""
    for model in ("PCA", "ALS", "EASE", LIGHTGCN, CORRECTED):
        for method in dict.fromkeys(row["method"] for row in rows if row["model"] == model):
            own = selected(rows, model, method, budget)
            if not own:  # no floor of its settings could be met
                continue
            seconds = sorted(row["cpu_s"] for row in own)[len(own) // 2]
            cells = [cell(own, metric) for metric in METRICS]
            if method == "none":
                cells[1] = "–"
            shown = "–" if method == "none" else method
            yield (model, shown, *cells, f"{seconds:.1f}")


def mean(rows: Sequence[Row], metric: str) -> float:
    """Return the mean over splits."""
    return float(sum(row[metric] for row in rows) / len(rows))


def winners(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Yield, per model and budget, the method with the largest tail share on test.

    Methods that lose more than the budget on test are left out.
    """
    for model in dict.fromkeys(row["model"] for row in rows):
        plain = selected(rows, model, "none", "")
        methods = dict.fromkeys(row["method"] for row in rows if row["model"] == model)
        for budget, share in BUDGETS.items():
            fields = {m: selected(rows, model, m, budget) for m in methods}
            least = (1 - share) * mean(plain, "ndcg")
            kept = {m: own for m, own in fields.items() if own and mean(own, "ndcg") >= least}
            best, *others = sorted(kept, key=lambda m: -mean(kept[m], "tail share"))
            second = f"{others[0]} {mean(kept[others[0]], 'tail share'):.3f}" if others else "–"
            shown = [
                cell(kept[best], name) for name in ("ndcg", "change", "tail share", "tail recall")
            ]
            yield (model, budget, "none" if best == "none" else best, *shown, second)


def frontiers(found: Mapping[str, Any]) -> Frontiers:
    """Return NDCG against the other goals, on test: means of what was kept for each budget."""
    panels: dict[str, dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for name, rows in found["rows"].items():
        row = panels[name] = {goal: {} for goal in GOALS}
        for model, method in dict.fromkeys((one["model"], one["method"]) for one in rows):
            for budget in BUDGETS:
                own = selected(rows, model, method, budget)
                for goal in GOALS if own else ():
                    row[goal].setdefault(model, []).append((mean(own, goal), mean(own, "ndcg")))
    return Frontiers(METRICS["ndcg"], panels)


def block(found: Mapping[str, Any]) -> str:
    """Return the tables for the docs."""
    parts = []
    for name, rows in found["rows"].items():
        splits = len({row["seed"] for row in rows})
        size = f"{splits} splits" if splits > 1 else "one split, intervals over users"
        best = [*winners(rows)]
        heads = ("model", "budget", "most tail items", f"NDCG@{K}", "change", "tail share")
        parts.append(
            f"### {name}, {size}\n\nThe correction with the largest tail share on test, among "
            f"those within the budget on test. {wins(best)}\n\n"
            + table((*heads, "tail recall", "second: tail share"), best)
        )
        for budget in SHOWN:
            title = f"**{name}**: at most {budget} of NDCG@{K} lost on validation"
            heads = ("model", "mitigation", *METRICS.values(), "CPU s")
            parts.append(f"{title}\n\n{table(heads, lines(rows, budget))}")
    return "\n\n".join(parts) + "\n"


def wins(best: Sequence[tuple[str, ...]]) -> str:
    """Return how often each correction is the best one."""
    from collections import Counter

    counts = Counter(line[2] for line in best).most_common()
    shown = ", ".join(f"{method} {count}" for method, count in counts)
    return f"Of {len(best)} comparisons they win: {shown}."


def main() -> None:
    """Run, or go on with, the study; print its tables."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--only", default="", help="name of the data set, by default all")
    options = parser.parse_args()
    if not options.full:
        (one, *_) = datasets()
        load = partial(one.split.args[0]().sample_items, 300, seed=0)  # type: ignore[attr-defined]
        small = DataSet("Last.fm, 300 items", partial(_random_split, load), (0, 1), 16)
        found: dict[str, Any] = {"rows": {small.name: []}}
        for seed in small.seeds:
            run_split(small, seed, found["rows"][small.name], lambda: None)
        print(block(found))
        return
    from equipoise.files import write_whole

    for data in (one for one in datasets() if options.only in ("", one.name)):
        rows = stored(NAME)["rows"].get(data.name, [])
        for seed in data.seeds:
            run_split(data, seed, rows, partial(store, NAME, {data.name: rows}))
    print(block(stored(NAME)))
    write_whole(PICTURE, frontiers(stored(NAME)).png())


if __name__ == "__main__":
    main()

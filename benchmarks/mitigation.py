"""Popularity corrections side by side: re-ranking, weights, floors and regularization.

Protocol, fixed before the test parts are scored. Five random splits per data set (20 % test, 10 %
validation per user). PCA and its relatives have rank 32. Every method has a few settings. They are
fitted on train and scored on validation; two are kept: the one with the largest tail share among
those that lose at most 2 %, and at most 10 %, of the NDCG@20 of the model without mitigation on
validation. If none does, the one with the least loss is kept. The kept settings are fitted again on
train + validation and scored once on test. 1,000 users are drawn per split;
re-rankers with prices learn from the lists of the same users. Lists of 20 from 100 candidates; from
all items for compensation and scaling. *Tail share* is that of items outside the most popular ones
with 80 % of the interactions. *Worst exposure* is the smallest share of the discounted exposure of
one of ten popularity groups of equal size, times ten: 1 is equal exposure. 95 % intervals by
Student's t over splits. CPU seconds include the fits of all settings.

Run ``python benchmarks/mitigation.py --full``. Needs EQUIPOISE_DATA. Finished splits are kept.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from datasets import LAST_FM, MOVIE_LENS, DataSet, available, sparse
from harness import RESULTS, machine

if TYPE_CHECKING:
    from equipoise import Interactions
    from equipoise.models import Recommender

PAGE = RESULTS.parents[1] / "docs" / "mitigation.md"
BEGIN, END = "<!-- begin mitigation -->\n", "<!-- end mitigation -->"
NAME, RANK, K, POOL, SEEDS, MOST_USERS = "mitigation", 32, 20, 100, (0, 1, 2, 3, 4), 1_000
BUDGETS = {"2 %": 0.02, "10 %": 0.10}
METRICS = ("ndcg", "recall", "tail share", "worst exposure")
GOWALLA = DataSet("Gowalla", partial(sparse, "gowalla"), needs_data=True)

RERANKERS: dict[str, tuple[str, ...]] = {
    "compensation": tuple(
        f"compensation:{a},beta={b}" for a in (0.1, 0.3, 0.9) for b in (0.0, 1.0)
    ),
    "scaling": tuple(f"scaling:{a}" for a in (0.05, 0.1, 0.2, 0.4)),
    "xQuAD, binary": tuple(f"xquad:{s}" for s in (0.1, 0.2, 0.4, 0.6)),
    "xQuAD, smooth": tuple(f"xquad:{s},form=smooth" for s in (0.1, 0.2, 0.4, 0.6)),
    "FA*IR": tuple(f"fair:{p}" for p in (0.2, 0.3, 0.4, 0.6)),
    "calibrated": tuple(f"calibrated:{s}" for s in (0.05, 0.1, 0.2, 0.4)),
    "MMR": ("mmr:0.05", "mmr:0.1", "mmr:0.2"),
    "exposure floors": (
        *(f"exposure:{f}" for f in (0.5, 1.0)),
        *(f"exposure:{f},target=items" for f in (0.4, 0.6, 0.8)),
    ),
}
# what is combined with Item-Weighted PCA
COMBINED = ("xQuAD, smooth", "exposure floors")
GAMMAS = (-0.5, -0.75, -1.0, -1.25, -1.5, -1.75, -2.0)
FLOORS = (0.5, 0.8, 0.97)  # of the largest smallest share, with ten groups


def models(data: Interactions) -> dict[str, list[Recommender]]:
    """The models that are re-ranked, each with the settings to choose from by NDCG."""
    from equipoise import EASE, ItemWeightedPCA, VanillaPCA, WeightedMF

    found: dict[str, list[Recommender]] = {"PCA": [VanillaPCA(RANK)]}
    found["ALS"] = [WeightedMF(RANK, alpha=a, regularization=r) for a, r in ((4, 10), (16, 30))]
    if data.n_items < 10_000:
        found["EASE"] = [EASE(r) for r in (0.1, 1.0, 10.0, 100.0, 300.0)]
    found["Item-Weighted PCA"] = [ItemWeightedPCA(RANK, gamma=gamma) for gamma in GAMMAS]
    return found


def representations(train: Interactions) -> Iterator[tuple[str, list[Recommender]]]:
    """The corrections that change the model itself; all are compared with PCA."""
    from equipoise import ItemWeightedPCA, MaxMinItemWeightedPCA
    from equipoise.models import CovarianceRegularizedPCA, LongTailRegularizedPCA

    yield "γ", [ItemWeightedPCA(RANK, gamma=gamma) for gamma in GAMMAS]
    yield (
        "covariance bound",
        [CovarianceRegularizedPCA(RANK, max_covariance=c) for c in (0.75, 0.5, 0.25, 0.0)],
    )
    yield "LT-Reg", [LongTailRegularizedPCA(RANK, strength=s) for s in (0.1, 0.3, 1.0, 3.0)]
    if train.n_items < 10_000:
        most = MaxMinItemWeightedPCA(RANK, groups=10, tol=1e-3).fit(train)
        limit = most.certificate_.objective
        yield (
            "floors of retained shares",
            [MaxMinItemWeightedPCA(RANK, groups=10, tol=1e-3, floors=f * limit) for f in FLOORS],
        )
        yield "max-min", [MaxMinItemWeightedPCA(RANK, groups=n, tol=1e-3) for n in (10, 20)]


class Part:
    """What models are fitted on, the users who get lists, and how lists are scored."""

    def __init__(self, fitted: Interactions, held_out: Interactions, seed: int) -> None:
        import numpy as np

        from equipoise.data import Groups
        from equipoise.metrics import popularity_groups

        self.fitted = fitted
        users = np.flatnonzero(np.diff(held_out.matrix.indptr))
        if len(users) > MOST_USERS:
            drawn = np.random.default_rng(seed).choice(users, MOST_USERS, replace=False)
            users = np.sort(drawn)
        self.X, self.Y = fitted.matrix[users], held_out.matrix[users]
        self.counts = fitted.popularity("count")
        self.tail = popularity_groups(self.counts, rule="head80")
        self.tenths = Groups.by_popularity(fitted, 10)

    def candidates(self, model: Recommender, pool: int) -> Any:
        """Return the lists of all users."""
        from equipoise.reranking import Candidates

        return Candidates(*model.rank(self.X, min(pool, self.X.shape[1]), seen=self.X), self.X)

    def context(self, model: Recommender) -> Any:
        """Return what re-rankers know about the items."""
        import numpy as np

        from equipoise import VanillaPCA
        from equipoise.reranking import ItemContext

        factors = model.factors() or VanillaPCA(RANK).fit(self.fitted).factors()
        return ItemContext(self.counts, self.tail, np.asarray(factors.items, dtype=np.float64))

    def scores(self, lists: Any) -> dict[str, float]:
        """Return the four metrics of lists of columns."""
        from equipoise.metrics import (
            average_tail_share,
            exposure_by_group,
            ndcg_at_k,
            recall_at_k,
        )

        shares = exposure_by_group(lists, self.tenths, convention="discounted").by_group.values()
        return {
            "ndcg": float(ndcg_at_k(lists, self.Y, K).value),
            "recall": float(recall_at_k(lists, self.Y, K).value),
            "tail share": float(average_tail_share(lists, self.tail).value),
            "worst exposure": 10 * min(shares),
        }

    def of_model(self, model: Recommender) -> dict[str, float]:
        """Return the metrics of a model's own lists."""
        return self.scores(self.candidates(model, K).items)

    def reranked(self, model: Recommender, specs: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return the metrics of re-ranked lists by spec."""
        import dataclasses

        import numpy as np

        from equipoise.exceptions import InfeasibleError
        from equipoise.reranking import make_reranker

        context, found, pools = self.context(model), {}, {}
        for spec in specs:
            method = make_reranker(spec)
            pool = self.X.shape[1] if method.pool is None else POOL
            if pool > 20 * POOL:  # the rest of a large catalog cannot enter a list of 20
                pool = 5 * POOL
            if pool not in pools:
                pools[pool] = self.candidates(model, pool)
            lists = pools[pool]
            own = context
            if method.learns:
                batches = [lists._replace(items=lists.items.astype(np.int32))]
                try:
                    learned = method.learn(lambda batches=batches: batches, context)
                except InfeasibleError:  # these candidates cannot meet the floors
                    continue
                own = dataclasses.replace(context, learned=learned)
            order = method.rerank(lists, K, own)
            items = np.where(order >= 0, np.take_along_axis(lists.items, order, axis=1), -1)
            found[spec] = self.scores(items)
        return found


def chosen(tried: dict[Any, dict[str, float]], plain: float, budget: float) -> Any:
    """Return the setting with the largest tail share within the budget; else the least loss."""
    within = [key for key, one in tried.items() if one["ndcg"] >= (1 - budget) * plain]
    if within:
        return max(within, key=lambda key: tried[key]["tail share"])
    return max(tried, key=lambda key: tried[key]["ndcg"])


def one_split(
    data: Interactions, seed: int, say: Callable[[str], None], families: Sequence[str]
) -> list[dict[str, Any]]:
    """Choose on validation, score on test; one row per model, mitigation and budget."""
    from sklearn.base import clone

    from equipoise.exceptions import InfeasibleError

    split = data.holdout(test=0.2, validation=0.1, seed=seed)
    validation = Part(split.train, split.validation, seed)
    test = Part(split.train_validation, split.test, seed)
    rows: list[dict[str, Any]] = []

    def add(model: str, method: str, budget: str, setting: Any, found: Any, cpu: float) -> None:
        row = {"seed": seed, "model": model, "method": method, "budget": budget}
        rows.append({**row, "setting": str(setting), "cpu_s": round(cpu, 2), **found})

    plain: dict[str, float] = {}
    for name, settings in models(data).items():
        started = time.process_time()
        fits = [clone(one).fit(split.train) for one in settings]
        each = [validation.of_model(one)["ndcg"] for one in fits]
        best = max(range(len(fits)), key=each.__getitem__)
        final = clone(settings[best]).fit(split.train_validation)
        plain[name] = each[best]
        add(name, "none", "", settings[best], test.of_model(final), time.process_time() - started)
        for method in families if name != "Item-Weighted PCA" else COMBINED:
            started = time.process_time()
            tried = validation.reranked(fits[best], RERANKERS[method])
            for budget, share in BUDGETS.items():
                left = dict(tried)
                spec = chosen(left, plain[name], share)
                while not (found := test.reranked(final, [spec]).get(spec)):
                    left.pop(spec)
                    spec = chosen(left, plain[name], share)
                add(name, method, budget, spec, found, time.process_time() - started)
        say(f"{name}: {time.process_time():.0f} s")
    for method, settings in representations(split.train):
        started = time.process_time()
        tried = {}
        for number, one in enumerate(settings):
            try:
                tried[number] = validation.of_model(clone(one).fit(split.train))
            except InfeasibleError:  # a floor at the limit, by rounding
                continue
        finals: dict[int, Any] = {}
        for budget, share in BUDGETS.items():
            number = chosen(tried, plain["PCA"], share)
            if number not in finals:
                one = clone(settings[number])
                try:
                    fitted = one.fit(split.train_validation)
                except InfeasibleError as error:  # a little less is possible with more data
                    floors = settings[number].floors + error.best - 1e-3
                    fitted = one.set_params(floors=floors).fit(split.train_validation)
                finals[number] = test.of_model(fitted)
            cpu = time.process_time() - started
            add("PCA", method, budget, settings[number], finals[number], cpu)
        say(f"{method}: {time.process_time():.0f} s")
    return rows


def interval(values: Sequence[float]) -> str:
    """Return the mean and half the width of its 95 % interval."""
    import numpy as np
    from scipy.stats import t

    sample = np.asarray(values)
    if len(sample) < 2:
        return f"{sample.mean():.3f}"
    half = t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / np.sqrt(len(sample))
    return f"{sample.mean():.3f} ± {half:.3f}"


def table(rows: Sequence[dict[str, Any]], budget: str) -> str:
    """Return the results of one data set and budget as Markdown."""
    lines = [
        f"| model | mitigation | NDCG@{K} | recall@{K} | tail share | worst exposure | CPU s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    kept = [row for row in rows if row["budget"] in ("", budget)]
    names = list(dict.fromkeys(row["model"] for row in kept))
    keys = dict.fromkeys(
        (name, row["method"]) for name in names for row in kept if row["model"] == name
    )
    for model, method in keys:
        own = [row for row in kept if (row["model"], row["method"]) == (model, method)]
        cells = [interval([row[metric] for row in own]) for metric in METRICS]
        seconds = sorted(row["cpu_s"] for row in own)[len(own) // 2]
        shown = "–" if method == "none" else method
        lines.append("| " + " | ".join([model, shown, *cells, f"{seconds:.0f}"]) + " |")
    return "\n".join(lines)


def block(found: dict[str, Any]) -> str:
    """Return the tables for the docs."""
    parts = []
    for name, rows in found["rows"].items():
        splits = len({row["seed"] for row in rows})
        word = "split" if splits == 1 else "splits"
        for budget in BUDGETS:
            title = f"**{name}**, {splits} {word}, at most {budget} of NDCG@{K} lost on validation"
            parts.append(f"{title}\n\n{table(rows, budget)}")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Run, or go on with, the study; print its tables."""
    options = harness.arguments(__doc__).parse_args()
    path = RESULTS / f"{NAME}.json"
    if not options.full:
        data = available([LAST_FM])[0].load().sample_items(300, seed=0)
        rows = one_split(data, 0, print, list(RERANKERS))
        print(block({"rows": {"Last.fm, 300 items": rows}}))
        return
    found: dict[str, Any] = {"machine": machine(), "rows": {}}
    if path.exists():
        found = json.loads(path.read_text())
    plan = [(one, seed) for seed in SEEDS for one in available([LAST_FM, MOVIE_LENS])]
    plan += [(one, 0) for one in available([GOWALLA])]  # one split: it takes longest
    loaded: dict[str, Interactions] = {}
    for data, seed in plan:
        rows = found["rows"].setdefault(data.name, [])
        if any(row["seed"] == seed for row in rows):
            continue
        print(f"{data.name}, split {seed}", flush=True)
        if data.name not in loaded:
            loaded[data.name] = data.load()
        fast = [name for name in RERANKERS if name != "MMR"] if data is GOWALLA else RERANKERS
        rows += one_split(loaded[data.name], seed, partial(print, flush=True), list(fast))
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if PAGE.exists():
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{block(found)}{END}{rest.split(END)[1]}")
    print(block(found))


if __name__ == "__main__":
    main()

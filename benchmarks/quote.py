"""Put measured numbers into the README and the docs: every one comes from a result file.

A page marks what is quoted: ``<!-- begin NAME ARGUMENTS -->text<!-- end NAME -->``. NAME is a
function of `QUOTES`, which returns the text; a name that is not there is a report of a benchmark,
``results/NAME.md``. Run ``python benchmarks/quote.py`` after a benchmark to write all marked texts
anew. `tests/docs/test_quotes.py` compares them with the result files.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARKED = re.compile(r"(<!-- begin ([\w-]+)((?: [^>]*?)?) -->)(.*?)(<!-- end \2 -->)", re.S)
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
_PICTURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n", re.M)

# Of the ranks measured: the one with the largest ratios to TruncatedSVD where half is claimed.
RANK = 128

PEERS = {"arpack": "TruncatedSVD(arpack)", "implicit ALS": "implicit ALS"}


def pages() -> list[Path]:
    """Return the files in which numbers are quoted."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def results(name: str) -> dict[str, Any]:
    """Return the results of a full run of a benchmark."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def markdown(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a table, on lines of its own."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


# ----------------------------------------------------------------------------------- one number


def value(path: str, form: str = ".3f") -> str:
    """Return one number of a JSON file, by path from the root and keys: ``FILE:key/key``.

    Forms: those of Python; ``%`` shows a share in whole percent, ``1-%`` the rest of it; a form
    that begins with a dot drops the zero before the decimal point.
    """
    file, _, keys = path.partition(":")
    found = json.loads((ROOT / file).read_text(encoding="utf-8"))
    for key in keys.split("/"):
        found = found[int(key)] if isinstance(found, list) else found[key]
    if form in ("%", "1-%"):
        return f"{found if form == '%' else 1 - found:.0%}".replace("%", " %")
    return _short(found, form) if form[0] == "." else f"{found:{form}}"


# ------------------------------------------------------------------------------------- accuracy


def study(name: str) -> str:
    """Return the tables of a study, which its own file lays out."""
    return "\n" + str(importlib.import_module(name).block(results(name)))


def quality() -> str:
    """Return the README's table: five splits, settings chosen on validation."""
    import ablation

    titles = {
        "PCA": "none: PCA",
        "Item-Weighted PCA, the paper's (γ = −1, hard)": "the paper's: γ = −1, hard",
        "Item-Weighted PCA, tuned": ablation.ALL,
        "EASE": "EASE",
        "GF-CF": "GF-CF",
    }
    found = results("ablation")["rows"]
    names = {"MovieLens, paper's sample": "MovieLens sample"}  # not all of MovieLens
    heads = [f"{names.get(name, name)}: NDCG@20 | tail share" for name in found]

    def rows() -> Iterator[tuple[str, ...]]:
        for title, row in titles.items():
            cells, tried = [], []
            for own in ([r for r in rows if r["row"] == row] for rows in found.values()):
                tail = sum(r["aplt"] for r in own) / len(own)
                cells += [ablation.interval([r["ndcg"] for r in own]), f"{tail:.0%}"]
                tried.append(str(own[0]["tried"]))
            yield (title, *cells, ", ".join(tried))

    return markdown((*" | ".join(["model", *heads, "settings tried"]).split(" | "),), rows())


def part(dataset: str, row: str) -> str:
    """Return the difference of a row of the ablation to all parts: NDCG@20 and its interval."""
    import ablation

    rows = results("ablation")["rows"][dataset]
    own, whole = (
        {r["seed"]: r["ndcg"] for r in rows if r["row"] == name} for name in (row, ablation.ALL)
    )
    found = ablation.interval([own[seed] - whole[seed] for seed in sorted(own)])
    return re.sub(r"\b0\.", ".", found).replace("-", "−")


def compared(dataset: str, *, full: bool = False) -> str:
    """Return the comparison on one data set: five columns, or all."""
    metrics = {"ndcg": "NDCG@20", "recall": "Recall@20", "aplt": "tail share"}
    more = {
        "precision": "Precision@20",
        "mrr": "MRR@20",
        "coverage": "coverage",
        "arp": "ARP",
        "gini": "Gini",
        "specialization": "specialization",
    }
    columns = metrics | (more if full else {})
    heads = ("model", *columns.values(), "settings tried", *(("chosen",) if full else ()))

    def rows() -> Iterator[tuple[str, ...]]:
        for cell in results("compare_models")["cells"][dataset]["models"].values():
            if "test" in cell:
                numbers = [_measured(cell["test"], name) for name in columns]
                chosen = (f"`{cell['chosen']}`",) if full else ()
                yield (cell["title"], *numbers, f"{cell['n_trials']:,}", *chosen)

    return markdown(heads, rows())


def sparse(*datasets: str) -> str:
    """Return the comparison on sparse data: accuracy, cost, and what the search got."""
    import compare_models

    heads = (
        "model", "NDCG@20", "Recall@20", *compare_models.LISTS.values(), "fit CPU s", "peak MB",
        "model MB", "settings", "search CPU s", "chosen",
    )  # fmt: skip

    def rows() -> Iterator[tuple[str, ...]]:
        cells = results("compare_models")["cells"]
        for cell in (cells[name] for name in datasets if name in cells):
            _, _, note = cell["title"].partition(", ")
            for model in cell["models"].values():
                title, ndcg, recall, *lists, _, cpu, peak, size, tried, search, chosen = (
                    compare_models.row(model)
                )
                name = f"{title}, {note}" if note else title
                yield (name, ndcg, recall, *lists, cpu, peak, size, tried, search, chosen)

    return markdown(heads, rows())


def shift(dataset: str) -> str:
    """Return how close validation and test items are to the training items."""
    found: str = results("compare_models")["cells"][dataset]["shift"]
    return found.split(". ")[0]


# The share of the best NDCG that a setting of the frontier may lose for more long-tail items.
LOSS = 0.05


def frontiers(*datasets: str) -> str:
    """Return two points of each frontier on validation: best accuracy, and most of the tail.

    Searches that ran out of time are left out: they scored fewer users.
    """
    import compare_models

    measures = {"ndcg@20": "NDCG@20", "aplt@20": "tail share", "group_recall@20/niche": "recall"}
    heads = ("data", "model", *measures.values(), *(f"{m}, 5 % below" for m in measures.values()))

    def rows() -> Iterator[tuple[str, ...]]:
        cells = results("compare_models")["cells"]
        for cell in (cells[name] for name in datasets if name in cells):
            for key, model in cell["models"].items():
                shown = key in compare_models.SPACES and model.get("complete", True)
                if "frontier" not in model or not shown:
                    continue
                points = model["frontier"]
                best = max(points, key=lambda point: point["ndcg@20"])
                near = [p for p in points if p["ndcg@20"] >= (1 - LOSS) * best["ndcg@20"]]
                tail = max(near, key=lambda point: point["aplt@20"])
                numbers = [f"{p[m]:.3f}" if m in p else "–" for p in (best, tail) for m in measures]
                yield (cell["title"].partition(",")[0], model["title"], *numbers)

    return markdown(heads, rows())


def compared_full(dataset: str) -> str:
    """Return the comparison on one data set with every metric."""
    return compared(dataset, full=True)


def _measured(test: Mapping[str, Mapping[str, float]], name: str) -> str:
    if name not in test:
        return "–"
    found = test[name]
    number = f"{found['value']:.1f}" if name == "arp" else f"{found['value']:.3f}"
    return f"{number} ({found['low']:.3f}–{found['high']:.3f})" if "low" in found else number


def score(dataset: str, model: str, metric: str = "ndcg", form: str = ".3f") -> str:
    """Return one number of the comparison."""
    path = f"cells/{dataset}/models/{model}/test/{metric}/value"
    return value(f"benchmarks/results/compare_models.json:{path}", form)


def lead(dataset: str, peer: str) -> str:
    """Return the difference of our best model on validation to a peer, with its interval."""
    found = results("compare_models")
    title = found["cells"][dataset]["models"][peer]["title"]
    (said,) = [
        line for line in found["verdicts"] if f" on {dataset}: " in line and f" {title}, " in line
    ]
    return re.sub(r"\b0\.", ".", said.partition("difference ")[2].rstrip("."))


def more_of_the_tail(dataset: str) -> str:
    """Return the models with more long-tail items and more coverage than Item-Weighted PCA."""
    models = results("compare_models")["cells"][dataset]["models"]
    ours = models["item-weighted"]["test"]
    better = [
        f"{cell['title']} ({cell['test']['aplt']['value']:.3f}, "
        f"{cell['test']['coverage']['value']:.3f})"
        for key, cell in models.items()
        if key != "random"
        and all(cell["test"][name]["value"] > ours[name]["value"] for name in ("aplt", "coverage"))
    ]
    return f"{len(better)} models: {', '.join(better)}"


def tail_at_equal_accuracy(dataset: str) -> str:
    """Return the tail share on validation at the accuracy of the best PCA: ours, and PCA's."""
    models = results("compare_models")["cells"][dataset]["models"]
    (pca, *_), ours = models["pca"]["frontier"], models["item-weighted"]["frontier"]
    most = max(t["aplt@20"] for t in ours if t["ndcg@20"] >= pca["ndcg@20"])
    return f"{_short(most, '.3f')} against {_short(pca['aplt@20'], '.3f')}"


def floor(dataset: str, what: str) -> str:
    """Return what a floor does: the worst share ``before`` and ``after``, or its ``price``."""
    rows = results("fair_items")["rows"][dataset]

    def mean(method: str, metric: str) -> float:
        own = [row[metric] for row in rows if row["method"] == method]
        return float(sum(own) / len(own))

    gamma, floors = "best γ", "best floor, 10 groups"
    if what == "price":
        change = mean(floors, "ndcg") / mean(gamma, "ndcg") - 1
        return f"{change:+.1%}".replace("-", "−").replace("%", " %")
    return _short(mean(gamma if what == "before" else floors, "worst share"), ".2f")


def mitigated(dataset: str, model: str, method: str, budget: str, metric: str) -> str:
    """Return a metric of a popularity correction on test, with its interval."""
    import mitigation

    rows = mitigation.selected(results("mitigation")["rows"][dataset], model, method, budget)
    return re.sub(r"\b0\.", ".", mitigation.cell(rows, metric))


def wins(dataset: str, method: str) -> str:
    """Return how many comparisons a correction wins, of how many."""
    import mitigation

    best = [*mitigation.winners(results("mitigation")["rows"][dataset])]
    return f"{sum(line[2] == method for line in best)} of {len(best)}"


def _short(number: float, form: str) -> str:
    """Return a number without the zero before its decimal point."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{number:{form}}")


# ---------------------------------------------------------------------------------------- speed


def fits() -> Iterator[tuple[str, ...]]:
    """Yield one row per data set: our fit compared with TruncatedSVD and ALS."""
    cells: dict[str, dict[str, Any]] = {}
    for cell in results("bench_fit")["cells"]["fits"]:
        if cell["rank"] == RANK:
            cells.setdefault(cell["set"], {})[cell["method"]] = cell
    for name, field in cells.items():
        compared = [
            f"{peer} {field[method]['median_s']:.2f} s (ours ÷ it: {field[method]['ratio']:.2f})"
            for method, peer in PEERS.items()
            if method in field
        ]
        # the paper's sample of MovieLens is another data set
        name = name.replace("MovieLens (", "MovieLens 1M (")
        shape = f"synthetic, {name}" if "shape" in name else name
        ours = f"{field['ItemWeightedPCA']['median_s']:.2f} s"
        yield (f"fit {shape}, r = {RANK}", ours, "; ".join(compared))


def semidefinite_program() -> Iterator[tuple[str, ...]]:
    """Yield the paper's semidefinite program on a whole data set."""
    for cell in results("bench_fit")["cells"]["sdp"]:
        if cell["whole"] and not cell["failure"]:
            yield (
                f"fit all {cell['items']:,} artists of {cell['set']}, r = {cell['rank']}",
                f"{cell['ours_s']:.2f} s",
                f"the paper's program ({cell['solver']}) {cell['sdp_s']:,.0f} s, "
                f"{cell['sdp_s'] / cell['ours_s']:,.0f} times as long, the same optimum",
            )


def largest() -> Iterator[tuple[str, ...]]:
    """Yield the fit of a hundred million interactions."""
    cells = results("bench_scaling")["cells"]
    cell = cells["by_nnz"][-1]
    yield (
        f"fit {cell['nnz'] // 10**6} M synthetic interactions ({cell['users']:,} users), "
        f"r = {cell['rank']}",
        f"{cell['seconds']:.0f} s",
        f"{cells['peak_gb']:.1f} GB, data included",
    )


def lists() -> Iterator[tuple[str, ...]]:
    """Yield the time of recommending to all users of the largest set."""
    found = results("bench_recommend")
    (ours, theirs), machine = found["cells"]["sets"][-2:], found["machine"]
    yield (
        f"top 20 for all users (synthetic, {ours['set']})",
        f"{ours['users_per_s']:,.0f} users/s",
        f"implicit {theirs['users_per_s']:,.0f} users/s "
        f"({machine['date']}, load {machine['load_1min_at_start']:g} at the start)",
    )


def speed() -> str:
    """Return the table of speed, with the machine on which it was measured, and the losses."""
    rows = (*fits(), *semidefinite_program(), *largest(), *lists())
    machine = results("bench_fit")["machine"]
    head = (
        f"\nMedian seconds on {machine['cores']} cores ({machine['cpu']}), "
        f"{machine['date']}, all libraries in the\nsame run. Our fits stop at residuals of 1e-6; "
        "TruncatedSVD computes to machine precision, and ALS stops\nafter 15 iterations. "
        f"{memory_losses()}\n"
    )
    return head + markdown(("task", "Item-Weighted PCA", "compared with"), iter(rows))


def five_results() -> str:
    """Return the five results that the page on benchmarks begins with."""
    small, *_, large = [row for row in fits() if not row[0].startswith("fit Last.fm")]
    rows = (small, large, *semidefinite_program(), *largest(), *lists())
    return markdown(("task", "equipoise", "compared with"), iter(rows))


def memory_losses() -> str:
    """Return how often our fit takes more memory than others."""
    peaks: dict[str, dict[tuple[str, int], float]] = {}
    for cell in results("bench_fit")["cells"]["fits"]:
        if cell.get("peak_mb") is not None:
            peaks.setdefault(cell["method"], {})[cell["set"], cell["rank"]] = cell["peak_mb"]
    ours = peaks["ItemWeightedPCA"]
    lost = []
    for method, title in PEERS.items():
        both = peaks[method].keys() & ours.keys()
        more = sum(ours[cell] > peaks[method][cell] for cell in both)
        lost.append(f"than {title} in {more} of {len(both)} cases")
    return f"A fit takes more memory {' and '.join(lost)}."


# ---------------------------------------------------------------------------------- reliability


def audited() -> dict[str, Mapping[str, Any]]:
    """Return the newest measurement of the audit of each data set, with the machine of its run."""
    files = [RESULTS / f"{name}.json" for name in ("bench_audit-quick", "bench_audit")]
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    runs.sort(key=lambda run: run["machine"]["date"])
    return {
        cell["set"]: cell | {"machine": run["machine"]}
        for run in runs
        for cell in run["cells"]["sets"]
    }


def audit_times() -> str:
    """Return what an audit of each data set took; runs of early versions have no estimate."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name, cell in audited().items():
            shape = f"{cell['users']:,} × {cell['items']:,}, {cell['interactions']:,} interactions"
            yield (
                f"{name} ({shape})",
                f"{cell['seconds']:.1f}",
                f"{cell['cpu_s']:.1f}",
                f"{cell['estimate_s']:.0f}" if "estimate_s" in cell else "–",
                f"{cell['peak_mb'] / 1000:.2f} GB",
                f"{cell['machine']['load_1min_at_start']:g}, {cell['machine']['threads']}",
            )

    heads = ("data", "seconds", "CPU seconds", "estimate", "memory", "load before, threads")
    return markdown(heads, rows())


def audit_steps() -> str:
    """Return the share of each step in the CPU time of an audit, by data set."""
    cells = {name: cell for name, cell in audited().items() if "steps_cpu_s" in cell}
    if not cells:
        return "\nNot measured yet: `python benchmarks/bench_audit.py` writes here.\n"
    steps = dict.fromkeys(step for cell in cells.values() for step in cell["steps_cpu_s"])
    rows = (
        (
            step,
            *(f"{cell['steps_cpu_s'].get(step, 0) / cell['cpu_s']:.0%}" for cell in cells.values()),
        )
        for step in steps
    )
    return markdown(("step", *cells), rows)


def fuzzing() -> str:
    """Return the table of the last runs of each fuzz target."""
    runs = json.loads((ROOT / "fuzz" / "results.json").read_text(encoding="utf-8"))
    return markdown(
        ("entry point", "inputs", "how they are made", "findings"),
        (
            (f"`{r['target']}`", f"{r['inputs']:,}", r["mode"], str(r["findings"] or "none"))
            for r in runs
        ),
    )


def fuzzed() -> str:
    """Return the number of entry points that are fuzzed."""
    runs = json.loads((ROOT / "fuzz" / "results.json").read_text(encoding="utf-8"))
    return str(len({run["target"] for run in runs}))


def soak() -> str:
    """Return what an hour of work in one process did to its memory."""
    run = json.loads((ROOT / "tests" / "soak" / "results.json").read_text(encoding="utf-8"))
    low, high = run["rss_slope_95_percent"]
    return (
        f"{run['operations']:,} operations in {run['minutes']:.0f} minutes, {len(run['wrong'])} "
        f"wrong results; memory grew from {run['rss_mb_after_warm_up']:.0f} MB after the warm-up "
        f"to {run['rss_mb_at_end']:.0f} MB, by {run['rss_slope_mb_per_hour']:.0f} MB per hour "
        f"(95 % interval {low:.0f} to {high:.0f})"
    )


# ------------------------------------------------------------------------------------- glossary


def glossary() -> str:
    """Return the terms that the report explains."""
    from equipoise.audit.formatting import TERMS

    return markdown(("term", "meaning"), iter(TERMS.items()))


# ------------------------------------------------------------------------------------ the pages

QUOTES: Mapping[str, Callable[..., str]] = {
    quote.__name__.replace("_", "-"): quote
    for quote in (
        value,
        score,
        lead,
        quality,
        part,
        study,
        compared,
        compared_full,
        sparse,
        shift,
        frontiers,
        more_of_the_tail,
        tail_at_equal_accuracy,
        speed,
        five_results,
        memory_losses,
        audit_times,
        audit_steps,
        fuzzing,
        fuzzed,
        soak,
        floor,
        mitigated,
        wins,
        glossary,
    )
}


def report(name: str, shown: str) -> str:
    """Return the report of a benchmark, with the pictures that the page shows."""
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return shown  # a benchmark without a full run: stated on the page
    text = path.read_text(encoding="utf-8").partition("\n\n")[2]
    pictures = "".join(f"{picture}\n" for picture in _PICTURE.findall(shown))
    return f"\n{text}\n{pictures}"


def quoted(text: str) -> str:
    """Return a page with every marked text as the result files have it."""
    code = [match.span() for match in _FENCE.finditer(text)]

    def replaced(match: re.Match[str]) -> str:
        begin, name, arguments, shown, end = match.groups()
        if any(start <= match.start() < stop for start, stop in code):
            return match[0]
        quote = QUOTES.get(name)
        found = quote(*shlex.split(arguments)) if quote else report(name, shown)
        return f"{begin}{found}{end}"

    return MARKED.sub(replaced, text)


def main() -> None:
    """Write every marked text."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        page.write_text(quoted(text), encoding="utf-8")


if __name__ == "__main__":
    main()

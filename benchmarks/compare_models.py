"""Claim: tuned on validation, our closed-form models are as accurate as common models.

On each of the paper's two data sets, Item-Weighted PCA or Local + global has at least the NDCG@20
of EASE, Weighted MF, GF-CF and LightGCN on test, and on sparse catalogs Local + global has.

Protocol, fixed before the test parts are scored. Every model is tuned on the validation part by
`equipoise.evaluation.tune`, then refitted on train + validation, and scored once on test.

- On the paper's data: over the default search space of the model (Item-Weighted PCA: its full
  grid), on all users.
- On folders of files: first over the grids of `SPACES`, or over the default search of the model if
  it has none there. Then along the axes of `SPACES`, one step to either side of the best setting,
  until no step is better: the best is then inside its grid. A search scores `USERS` users, drawn
  at random, and then compares its three best settings on five times as many. No fit of a search
  begins after `BUDGET` seconds of CPU time, which are the same for every model, but every model may
  try `FEWEST` settings.
- The validation part is the given one, or the last fifth of each list of train if the file lists
  the items of a user in order (LightGCN text): `--validation` overrides this.
- Models whose fit exceeds memory are listed as such. On folders of files, LightGCN is compared only
  with ``--models lightgcn``, at one setting, with early stopping and without a limit of time: one
  fit can take an hour.

Every fit of a search is cached, so an interrupted run continues. Models and data sets can be run
one by one. What was scored on test under the same protocol is not scored again without `--again`.

Run ``python benchmarks/compare_models.py``, or with ``--models ease,pca --datasets lastfm-binary``
for some of it, or with ``--folder PATH`` for any folder with files train, valid and test. Needs
EQUIPOISE_DATA, with the sparse data sets in its folder sparse/.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import os
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from datasets import PAPER_SEED
from equipoise.progress import NoProgress
from harness import Report, Table, machine, progress
from plots import Frontiers

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from numpy.typing import NDArray

    from equipoise import Interactions
    from equipoise.data import Split
    from equipoise.evaluation import Tuning
    from equipoise.models import Recommender
    from equipoise.models.registry import ModelEntry

Cell = dict[str, Any]
Steps = Generator[list[Any], dict[str, Any], None]

NAME, K = "compare_models", 20
CACHE = Path(__file__).parents[1] / "build" / NAME
OURS, PEERS = ("item-weighted", "local-global"), ("ease", "weighted-mf", "gfcf", "lightgcn")
RANKING = {"ndcg": "NDCG", "recall": "Recall"}
GOALS = {f"aplt@{K}": "tail share", f"group_recall@{K}/niche": "recall of niche items"}
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "compare_models.png"
LISTS = {"coverage": "coverage", "aplt": "tail share", "group_recall": "worst group's recall"}

# ------------------------------------------------------------------------------------- protocol

# CPU seconds of a search per model and data set, in folders of files; the fit that exceeds them
# counts.
BUDGET = 300.0

# Settings that every model may try, whatever they take.
FEWEST = 5

# Compared on folders of files only with ``--models``: one fit can take an hour there.
ON_REQUEST = ("lightgcn",)

# Users scored on validation, in folders of files.
USERS = 1500

# Share of each list that is held out where lists are in order.
LAST = 0.2


class Axis(NamedTuple):
    """A parameter, and the next values to either side of one: times and over `factor`, ± `step`."""

    name: str
    factor: float = 1.0
    step: float = 0.0
    low: float = -float("inf")
    high: float = float("inf")

    def beside(self, value: float) -> tuple[float, ...]:
        """Return the values next to this one that are within the limits."""
        near = [value / self.factor - self.step, value * self.factor + self.step]
        whole = isinstance(value, int)
        near = [round(x) if whole else round(x, 10) for x in near]
        return tuple(x for x in near if self.low <= x <= self.high)


class Space(NamedTuple):
    """The first grids of a search, and groups of axes that one fit serves.

    Without grids, the default search of the model comes first.
    """

    grids: tuple[dict[str, Sequence[Any]], ...]
    axes: tuple[tuple[Axis, ...], ...]


def _ranks(high: int) -> tuple[Axis, ...]:
    return (Axis("n_components", 2.0, low=8, high=high),)


# Models compared on folders of files.
SPACES: Mapping[str, Space] = {
    "pca": Space(({"n_components": [64, 128, 256], "tol": [1e-4]},), (_ranks(512),)),
    "item-weighted": Space(
        (),
        (
            (Axis("filter_strength", 2.0),),
            (Axis("gamma", step=0.25),),
            (Axis("user_scaling", step=0.25, low=0.0),),
            _ranks(512),
        ),
    ),
    "gfcf": Space(
        (
            {
                "n_components": [64, 128, 256],
                "ideal_weight": [0.1, 0.3, 1.0],
                "tol": [1e-4],
            },
        ),
        ((Axis("ideal_weight", 3.0),), _ranks(1024)),
    ),
    "weighted-mf": Space(
        ({"n_components": [128], "alpha": [16.0], "regularization": [10.0]},),
        (
            (Axis("alpha", 3.0),),
            (Axis("regularization", 3.0),),
            _ranks(512),
        ),
    ),
    "ease": Space(({"regularization": [100.0]},), ((Axis("regularization", 3.0),),)),
    "lightgcn": Space(({"n_components": [64], "learning_rate": [0.03]},), ()),
    "local-global": Space(
        (),
        (
            (
                Axis("ridge", 2.0),
                Axis("local_weight", 1.25),
                Axis("popularity_discount", step=0.1),
            ),
            (Axis("gamma", step=0.2),),
            (Axis("user_scaling", step=0.1, low=0.0),),
            _ranks(1024),
        ),
    ),
}


class DataSet(NamedTuple):
    """One split to compare on, and how users without test items and the search are treated."""

    title: str
    load: Callable[[], Split]
    zero_division: float
    users: int | None
    spaces: Mapping[str, Space]


def _paper(name: str, *, binary: bool = False) -> Split:
    from equipoise import load_dataset
    from equipoise.data import holdout

    data = load_dataset(name, preprocessing="paper")
    return holdout(data.binarize() if binary else data, seed=PAPER_SEED)


def _folder(path: Path, validation: str | None = None) -> DataSet:
    """Any folder with the files train, valid and test, of any ending."""
    rule = "" if validation is None else f", validation: {validation}"
    load = partial(read_folder, path, validation)
    return DataSet(f"{path.name}{rule}", load, float("nan"), USERS, SPACES)


def known_datasets() -> dict[str, DataSet]:
    """Return the paper's data sets and the sparse ones."""
    sparse = Path(os.environ.get("EQUIPOISE_DATA", ".")) / "sparse"
    paper = {
        "movielens": ("MovieLens, as published (0/1, 1,200 movies)", partial(_paper, "ml-1m")),
        "lastfm": ("Last.fm, as published (shares of plays)", partial(_paper, "lastfm-2k")),
        "lastfm-binary": ("Last.fm, 0/1", partial(_paper, "lastfm-2k", binary=True)),
    }
    folders = ("gowalla", "citeulike", "amazon-beauty")
    return {
        **{name: DataSet(title, load, 0.0, None, {}) for name, (title, load) in paper.items()},
        **{name: _folder(sparse / name) for name in folders},
    }


# ----------------------------------------------------------------------------- folders of files


class Pairs(NamedTuple):
    """The pairs of one file, in its order."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    in_order: bool


def read_lines(path: Path) -> list[list[int]] | None:
    """Return the numbers of each line, cut to whole ones; None for files of other formats."""
    try:
        lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        return [[int(float(word)) for word in line] for line in lines if line]
    except ValueError:
        return None


def read_pairs(lines: list[list[int]], *, in_order: bool) -> Pairs:
    """Return the pairs of ``user item item …`` lines, or of ``user item value …`` lines."""
    import numpy as np

    if not in_order:
        lines = [line[:2] for line in lines]
    counts = [len(line) - 1 for line in lines]
    users = np.repeat([line[0] for line in lines], counts)
    return Pairs(users, np.array([item for line in lines for item in line[1:]]), in_order)


def read_folder(path: Path, validation: str | None = None) -> Split:
    """Return the split of a folder; `validation` is "given", "last" or None for the protocol's.

    Text without a header lists the items of a user per line (LightGCN text) if no user of train is
    on two lines, and otherwise one pair per line, with or without values. `Split.read` reads files
    of all other formats.
    """
    import numpy as np
    import scipy.sparse as sp

    from equipoise import Interactions
    from equipoise.data import Split, holdout

    files = {name: next(path.glob(f"{name}*")) for name in ("train", "valid", "test")}
    found = {name: read_lines(file) for name, file in files.items()}
    lines = {name: part for name, part in found.items() if part is not None}
    if len(lines) < len(files):
        if validation == "last":
            raise SystemExit("--validation last: only for text that lists the items of each user.")
        read = Split.read(*files.values())
        return Split(*(part.binarize() for part in (read.train, read.validation, read.test)))
    in_order = len({line[0] for line in lines["train"]}) == len(lines["train"])
    parts = {name: read_pairs(part, in_order=in_order) for name, part in lines.items()}
    shape = tuple(
        max(int(getattr(part, axis).max()) for part in parts.values()) + 1
        for axis in ("users", "items")
    )
    ids = tuple(np.arange(size) for size in shape)

    def matrix(pairs: Pairs, values: Any) -> sp.csr_array:
        found = sp.csr_array((values, (pairs.users, pairs.items)), shape=shape)
        found.sort_indices()
        return found

    train, valid, test = (matrix(p, np.ones(len(p.users), np.float32)) for p in parts.values())
    for one in (train, valid, test):
        one.data[:] = 1  # a pair may be listed twice
    last = parts["train"].in_order if validation is None else validation == "last"
    if last:
        places = matrix(parts["train"], np.arange(1, len(parts["train"].users) + 1))
        listed = Interactions(train, *ids, timestamps=places.data)
        cut = holdout(listed, method="per_user_last", test=LAST, validation=0.0)
        train, valid = cut.train.matrix + valid, cut.test.matrix
    return Split(*(Interactions(sp.csr_array(one), *ids) for one in (train, valid, test)))


# ------------------------------------------------------------------------------------ measuring


class Budget(NoProgress):
    """Progress of a search that stops it, as Ctrl-C would, when its CPU time is used up.

    Parameters
    ----------
    seconds : float
        CPU time after which no fit begins, but for the first few settings.
    spent : path
        Where the CPU time is kept, for a search that is continued in another process.
    """

    def __init__(self, seconds: float, spent: Path) -> None:
        self.seconds, self.spent = seconds, spent
        self._settings = 0
        self._earlier = float(spent.read_text()) if spent.exists() else 0.0
        self._started = time.process_time()

    def used(self) -> float:
        """Return the CPU time so far, in earlier processes too; and write it."""
        used = self._earlier + time.process_time() - self._started
        self.spent.write_text(str(used))
        return used

    def advance(self, amount: float = 1) -> None:  # noqa: ARG002
        """Stop if there is no time left."""
        self._settings += 1
        if self.used() > self.seconds and self._settings >= FEWEST:
            raise KeyboardInterrupt


def climb(first: Steps, axes: Sequence[Sequence[Axis]]) -> Steps:
    """Yield first steps, then one step to either side of the best along each group of axes.

    Ends where no step is better: the best is then inside its grid.
    """
    from equipoise.models.base import grid_around

    grids: list[Any] | None = next(first)
    while grids:
        best = yield grids
        try:
            grids = first.send(best)
        except StopIteration:
            grids = None
    before: dict[str, Any] = {}
    while best != before:
        before = best
        for group in axes:
            here: dict[str, Any] = {}
            while best != here:
                here = best
                near = {axis.name: axis.beside(best[axis.name]) for axis in group}
                best = yield [
                    grid_around(best, **{name: (best[name], *values)})
                    for name, values in near.items()
                ]


def measure(entry: ModelEntry, data: DataSet, split: Split, cache: Path) -> Cell:
    """Tune one model on validation, and score the choice on test once."""
    import numpy as np

    from equipoise.data import Split
    from equipoise.evaluation import tune

    nothing = split.test.keep_entries(np.zeros(split.test.nnz, bool))
    limited = entry.key in data.spaces and entry.key not in ON_REQUEST
    seconds = BUDGET if limited else float("inf")
    budget = Budget(seconds, cache / f"{entry.key}.seconds")
    tuning = tune(
        Split(split.train, split.validation, nothing),
        entry.key,
        grid=_grid(entry, data, split.train),
        maximize=f"ndcg@{K}",
        trade_off=("aplt", "group_recall/niche"),
        k=K,
        zero_division=data.zero_division,
        users=data.users,
        cache=cache,
        progress=budget,
    )
    return {
        "model": entry.key,
        "title": entry.title,
        "chosen": tuning.constructor(),
        "n_trials": len(tuning.trials),
        "complete": tuning.complete,
        "validation_ndcg": tuning.choice.scores[f"ndcg@{K}"],
        "frontier": [dict(trial.scores) for trial in tuning.frontier],
        "search_cpu_seconds": budget.used(),
        "protocol": protocol(entry.key, data),
        **score(tuning, split, data, cache / f"{entry.key}.npy"),
    }


def _grid(entry: ModelEntry, data: DataSet, train: Interactions) -> Any:
    """Return the steps of the protocol, or else the default of `tune`, which is None.

    On the paper's data, Item-Weighted PCA is searched over its full grid.
    """
    if entry.key not in data.spaces:
        return entry.make().search_space(train) if entry.key == "item-weighted" else None
    from equipoise.models.base import possible_sizes

    space, ranks = data.spaces[entry.key], "n_components"
    grids = [
        one | ({ranks: possible_sizes(train.n_items, one[ranks])} if ranks in one else {})
        for one in space.grids
    ]
    first = (step for step in [grids]) if grids else entry.make().search_steps(train)
    axes = [
        [a._replace(high=min(a.high, train.n_items)) if a.name == ranks else a for a in group]
        for group in space.axes
    ]
    return climb(first, axes)


def protocol(key: str, data: DataSet) -> str:
    """Return a text that is equal for searches of the same rules."""
    return repr((data.title, data.users, LAST, BUDGET, data.spaces.get(key)))


def score(tuning: Tuning, split: Split, data: DataSet, per_user: Path) -> Cell:
    """Fit the choice on train + validation, and score its lists on test."""
    import numpy as np

    from equipoise.evaluation import evaluate
    from equipoise.evaluation.cost import UsageMeter

    model = tuning.model()
    fitted = split.train_validation
    started = time.process_time()
    with UsageMeter() as measured:
        model.fit(fitted)
    cpu = time.process_time() - started
    begun = time.process_time()
    lists = model.rank(fitted, K, seen=fitted.matrix).ids
    test = evaluate(
        split, {"model": lists}, metrics=[*RANKING, *LISTS], k=K,
        zero_division=data.zero_division, per_user=True,
    )  # fmt: skip
    numbers: dict[str, Cell] = {}
    for row in test.select(group="all"):
        numbers[row.metric] = {"value": row.value, "convention": row.convention, "n": row.n}
        if row.metric in RANKING:
            interval = test.interval(row)
            numbers[row.metric] |= {"low": interval.low, "high": interval.high}
    by_group = [row.value for row in test if row.metric == "group_recall" and row.group != "all"]
    numbers["group_recall"] = {"value": float(np.nanmin(by_group))}
    np.save(per_user, test.row("ndcg").per_user)
    return {
        "test": numbers,
        "fit_cpu_seconds": cpu,
        "fit_seconds": measured.usage.seconds,
        "peak_bytes": measured.usage.peak_bytes,
        "recommend_cpu_seconds": time.process_time() - begun,
        "model_bytes": saved_size(model),
    }


def saved_size(model: Recommender) -> int:
    """Return the size of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        return model.save(Path(folder) / "model.eqp").stat().st_size


def run(
    datasets: Mapping[str, DataSet],
    keys: Sequence[str],
    folder: Path,
    cache: Path,
    *,
    again: bool = False,
) -> Report:
    """Measure what was asked for, add it to what is there, and write after every model."""
    from equipoise.evaluation import validation_shift
    from equipoise.exceptions import InvalidDataError
    from equipoise.models.registry import find_models

    facts = machine()
    cells = _stored(folder)
    with progress(len(datasets) * max(1, len(keys))) as step:
        for name, data in datasets.items():
            split = data.load()
            own = cells.setdefault(name, {"title": data.title, "models": {}})
            shift = validation_shift(split)
            own |= {"title": data.title, "shift": None if shift is None else str(shift)}
            (cache / name).mkdir(parents=True, exist_ok=True)
            chosen = keys or [key for key in data.spaces if key not in ON_REQUEST] or ["all"]
            for entry in find_models(chosen):
                if not entry.installed:
                    step(f"{name}: SKIPPED {entry.title}: {entry.install_command}")
                    continue
                earlier = own["models"].get(entry.key, {})
                if earlier.get("protocol") == protocol(entry.key, data) and not again:
                    step(f"{name}: {entry.title} was scored under this protocol")
                    continue
                try:
                    measured = measure(entry, data, split, cache / name)
                except InvalidDataError as error:  # beyond memory
                    measured = {"model": entry.key, "title": entry.title, "failed": str(error)}
                own["models"][entry.key] = measured | {"machine": facts}
                report(cells, facts, cache).write(folder)
                step(f"{name}: {entry.title}, {measured.get('failed') or measured['chosen']}")
    return report(cells, facts, cache)


def _stored(folder: Path) -> dict[str, Cell]:
    path = folder / f"{NAME}.json"
    return dict(json.loads(path.read_text())["cells"]) if path.exists() else {}


# -------------------------------------------------------------------------------------- report


def report(cells: Mapping[str, Cell], facts: Mapping[str, Any], cache: Path) -> Report:
    """Everything that is known, in the order of the registry."""
    from equipoise.models.registry import MODELS

    order = list(MODELS)
    for one in cells.values():
        ranked = sorted(one["models"].items(), key=lambda pair: order.index(pair[0]))
        one["models"] = dict(ranked)
    claim = (__doc__ or "").split("\n\nProtocol")[0]
    tables = [table(one) for one in cells.values()]
    said = [line for name, one in cells.items() for line in verdicts(name, one, cache / name)]
    return Report(NAME, claim, facts, cells, tables, said)


def table(cell: Cell) -> Table:
    """One data set: one row per model."""
    heads = [f"{head}@{K}" for head in RANKING.values()]
    columns = (
        "model", *heads, *LISTS.values(), "fit s", "fit CPU s", "peak MB", "model MB", "settings",
        "search CPU s", "chosen",
    )  # fmt: skip
    note = (
        "In brackets: 95 % intervals by a bootstrap over users; they do not cover the choice of "
        "settings. Tail share: share of list places outside the items that have 80 % of the "
        "interactions. Fit: the final one, on train + validation. Settings: all that were compared "
        "on validation, also those from one fit. * The search stopped at its budget, before its "
        "best was inside its grid."
    )
    if cell.get("shift"):
        note += f" Validation and test items: {cell['shift']}"
    return Table(cell["title"], columns, [row(one) for one in cell["models"].values()], note)


def frontiers(cells: Mapping[str, Cell], names: Sequence[str]) -> Frontiers:
    """Return NDCG against the other goals on validation, of all models with a search space.

    Searches that ran out of time are left out: they scored fewer users.
    """
    panels: dict[str, dict[str, dict[str, list[tuple[float, float]]]]] = {}
    for name in names:
        row = panels[cells[name]["title"]] = {}
        for key, one in cells[name]["models"].items():
            for measure, goal in GOALS.items():
                points = [
                    (point[measure], point[f"ndcg@{K}"])
                    for point in one.get("frontier", ())
                    if measure in point and key in SPACES and one["complete"]
                ]
                if points:
                    row.setdefault(goal, {})[one["title"]] = points
    return Frontiers(f"NDCG@{K}", panels)


def row(cell: Cell) -> list[str]:
    """One model: as many cells as the table has columns."""
    if "failed" in cell:
        return [cell["title"], *["–"] * 11, cell["failed"]]
    test = cell["test"]
    ranking = [
        f"{test[m]['value']:.4f} ({test[m]['low']:.4f}–{test[m]['high']:.4f})" for m in RANKING
    ]
    mega = [None if cell.get(k) is None else cell[k] / 1e6 for k in ("peak_bytes", "model_bytes")]
    numbers = [cell["fit_seconds"], cell.get("fit_cpu_seconds"), *mega]
    return [
        cell["title"],
        *ranking,
        *("–" if m not in test else f"{test[m]['value']:.3f}" for m in LISTS),
        *("–" if number is None else f"{number:.1f}" for number in numbers),
        f"{cell['n_trials']:,}{'' if cell.get('complete', True) else ' *'}",
        f"{cell['search_cpu_seconds']:.0f}" if "search_cpu_seconds" in cell else "–",
        f"`{cell['chosen']}`",
    ]


def verdicts(name: str, cell: Cell, cache: Path) -> list[str]:
    """Our best on validation against each peer, with the interval of the paired difference."""
    import numpy as np

    from equipoise.evaluation import compare

    scored = {key: one for key, one in cell["models"].items() if "failed" not in one}
    ours = max(
        (key for key in OURS if key in scored),
        key=lambda key: scored[key]["validation_ndcg"],
        default=None,
    )
    said = []
    for peer in (key for key in PEERS if key in scored and ours is not None):
        a, b = (scored[key]["test"]["ndcg"]["value"] for key in (ours, peer))
        files = [cache / f"{key}.npy" for key in (ours, peer)]
        gap = f"{a - b:+.4f}"
        if all(file.exists() for file in files):
            gap = str(compare(*(np.load(file) for file in files)).difference)
        said.append(
            f"{'holds' if a >= b else 'DOES NOT HOLD'} on {name}: NDCG@{K} {a:.4f} of "
            f"{scored[ours]['title']} against {b:.4f} of {scored[peer]['title']}, difference {gap}."
        )
    return said


def main() -> None:
    """Measure, print and write."""
    from equipoise.files import write_whole

    parser = harness.arguments("All models, each tuned on validation.")
    known = known_datasets()
    parser.add_argument("--datasets", default=",".join(known), help=f"of {','.join(known)}")
    parser.add_argument(
        "--folder", type=Path, action="append", help="with train, valid, test files"
    )
    parser.add_argument("--validation", choices=["given", "last"], help="of folders of files")
    parser.add_argument("--models", default="", help="as `equipoise models` lists them, or all")
    parser.add_argument(
        "--cache", type=Path, default=CACHE, help="folder to resume from; default: build/"
    )
    parser.add_argument(
        "--again", action="store_true", help="score what was scored under the same protocol too"
    )
    options = parser.parse_args()
    chosen: dict[str, DataSet] = {}
    for name in () if options.folder else options.datasets.split(","):
        if name not in known:
            parser.error(f"--datasets: unknown {name!r}, known: {', '.join(known)}")
        chosen[name] = known[name]
    sparse = Path(os.environ.get("EQUIPOISE_DATA", ".")) / "sparse"
    paths = options.folder or [sparse / name for name in chosen if known[name].spaces]
    if options.folder or options.validation:
        suffix = f"-{options.validation}" if options.validation else ""
        for path in paths:
            chosen.pop(path.name, None)
            chosen[path.name + suffix] = _folder(path, options.validation)
    keys = [key for key in options.models.split(",") if key]
    out = options.out or harness.RESULTS
    found = run(chosen, keys, out, options.cache, again=options.again)
    found.show()
    if out == harness.RESULTS:
        shown = [name for name in known if known[name].spaces and name in found.cells]
        write_whole(PICTURE, frontiers(found.cells, shown).png())


if __name__ == "__main__":
    main()

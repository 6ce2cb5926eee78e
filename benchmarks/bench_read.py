"""Claim: reading a table takes little longer than polars itself, with ids factorized.

`Interactions.read` of 20 million rows takes at most 1.3 times as long as polars takes to read the
same file, to factorize its two id columns and to build the same matrix by hand, from Parquet and
from CSV. Ours also does what the way by hand leaves out: it refuses missing ids, values that are
missing, infinite or negative, malformed lines and damaged pages; it keeps ids such as 007 as text;
and it holds only a part of the file in memory.

Both run in one process, interleaved, with the same number of threads. The way by hand is the faster
of two (a dictionary of unique ids, a join), with and without the matrix that SciPy makes of it; the
matrices must be equal, the order of users and items included. The stages of ours are run one after
the other, for their CPU time. Run ``python benchmarks/bench_read.py --quick`` (a million rows) or
``--full``; ``--rows`` sets the size.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

os.environ["POLARS_MAX_THREADS"] = str(harness.THREADS)  # read when polars is imported

import numpy as np
import polars as pl
from scipy import sparse

from harness import Report, Table, interleave, machine, progress
from isolated import Isolated
from plots import Plot

Cell = dict[str, Any]

OURS, BY_HAND, WITH_MATRIX = "equipoise", "polars by hand", "polars by hand, and the matrix"
_GOAL = 1.3


class Plan(NamedTuple):
    """What to measure."""

    name: str
    rows: int
    repeats: int
    ids: tuple[str, ...]


QUICK = Plan("bench_read-quick", rows=1_000_000, repeats=3, ids=("whole numbers",))
FULL = Plan("bench_read", rows=20_000_000, repeats=3, ids=("whole numbers", "text"))


class Coded(NamedTuple):
    """A column by hand: the place of each id among the distinct ones."""

    codes: Any
    n_ids: int


def write_files(folder: Path, rows: int, ids: str) -> None:
    """Write ratings in the shape of ml-20m, in random order, as Parquet and as CSV."""
    from equipoise.data.synthetic import scale

    shrink = (rows / 20_000_000) ** 0.5
    world = scale(int(138_000 * shrink), int(26_700 * shrink), rows).matrix.tocoo()
    rng = np.random.default_rng(0)
    order = rng.permutation(rows)
    user, item = pl.Series(world.row[order] * 7 + 11), pl.Series(world.col[order] * 3 + 5)
    table = pl.DataFrame(
        {"userId": user, "movieId": item, "rating": rng.integers(1, 11, rows) / 2.0}
    )
    if ids == "text":
        named = (pl.format("user-{}", "userId"), pl.format("m{}", "movieId"))
        table = table.with_columns(userId=named[0], movieId=named[1])
    table.write_parquet(folder / "ratings.parquet")
    table.write_csv(folder / "ratings.csv")
    table.head(1000).write_parquet(folder / "few.parquet")
    table.head(1000).write_csv(folder / "few.csv")


def ours(path: Path) -> Any:
    """Read as anybody would."""
    from equipoise import Interactions

    return Interactions.read(path).matrix


def read_table(path: Path) -> pl.DataFrame:
    """Read with polars, whole."""
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)


def by_dictionary(table: pl.DataFrame, column: str) -> Coded:
    """Factorize by a dictionary of the unique ids."""
    known = table[column].unique(maintain_order=True)
    codes = pl.Series(np.arange(len(known), dtype=np.int32))
    coded = table[column].replace_strict(known, codes, return_dtype=pl.Int32)
    return Coded(coded.to_numpy(), len(known))


def by_join(table: pl.DataFrame, column: str) -> Coded:
    """Factorize by a join with the unique ids."""
    known = table.select(pl.col(column).unique(maintain_order=True)).with_row_index("code")
    joined = table.select(column).join(known, on=column, how="left", maintain_order="left")
    return Coded(joined["code"].cast(pl.Int32).to_numpy(), len(known))


def by_hand(factorize: Callable[[pl.DataFrame, str], Coded], path: Path) -> Any:
    """Read and factorize: users, items, values."""
    table = read_table(path)
    users, items = factorize(table, "userId"), factorize(table, "movieId")
    return users, items, table["rating"].to_numpy()


def with_matrix(factorize: Callable[[pl.DataFrame, str], Coded], path: Path) -> Any:
    """The same, up to the sorted matrix that a model needs."""
    users, items, values = by_hand(factorize, path)
    shape = (users.n_ids, items.n_ids)
    matrix = sparse.csr_array((values, (users.codes, items.codes)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def measure(plan: Plan, path: Path, ids: str) -> list[Cell]:
    """All ways to read one file; the matrices must be equal before times are compared."""
    factorizers = {"dictionary": by_dictionary, "join": by_join}
    ways: dict[str, Callable[[], Any]] = {OURS: partial(ours, path)}
    for name, factorize in factorizers.items():
        ways[name] = partial(by_hand, factorize, path)
        ways[f"{name}, matrix"] = partial(with_matrix, factorize, path)
    timings = interleave(ways, plan.repeats)

    def faster(ending: str) -> str:
        return min((f"{name}{ending}" for name in factorizers), key=lambda w: timings[w].median)

    named = {OURS: OURS, BY_HAND: faster(""), WITH_MATRIX: faster(", matrix")}
    equal = (timings[OURS].value != timings[named[WITH_MATRIX]].value).nnz == 0
    facts = {"file": path.suffix[1:], "ids": ids, "rows": plan.rows, "equal": equal}
    seconds = timings[OURS].median
    return [
        facts
        | {"way": way, "ratio": seconds / timings[source].median}
        | timings[source].as_json()
        | ({} if way == OURS else {"factorized_by": source.split(",")[0]})
        for way, source in named.items()
    ]


def measure_stages(path: Path) -> dict[str, float]:
    """CPU seconds of the stages of our way, one after the other."""
    from equipoise import Interactions
    from equipoise.data.readers import Options, open_files
    from equipoise.data.readers.encoder import Encoder, joined
    from equipoise.data.validation import CodedPairs

    started = [time.process_time()]
    opened = open_files(path, Options())
    batches = list(opened.batches)
    started.append(time.process_time())
    users, items = opened.vocabulary("user"), opened.vocabulary("item")
    encoder = Encoder(users, items)
    parts = [encoder.encode(batch) for batch in batches]
    started.append(time.process_time())
    pairs = CodedPairs(joined(parts), users.ids(), items.ids(), str(path))
    Interactions.from_codes(pairs)
    started.append(time.process_time())
    names = ("parse the file", "check cells, encode ids", "build the matrix")
    return dict(zip(names, np.diff(started).tolist(), strict=True))


def discard(task: Callable[[Path], Any], path: Path, _: Any) -> None:
    """Run a task for its memory alone."""
    task(path)


def nothing() -> None:
    """Isolated runs load their own data."""


def measure_memory(path: Path) -> dict[str, float]:
    """Peak memory of reading, each in a process of its own."""
    tasks: dict[str, Callable[[Path], Any]] = {
        OURS: ours,
        BY_HAND: partial(by_hand, by_dictionary),
        WITH_MATRIX: partial(with_matrix, by_dictionary),
    }
    few = path.with_stem("few")
    peaks = {}
    with Isolated(nothing) as isolated:
        for way, task in tasks.items():
            warm_up = partial(discard, task, few)
            peaks[way] = isolated.run(partial(discard, task, path), warm_up=warm_up).peak_mb
    return peaks


def run(plan: Plan) -> Report:
    """Measure every file of the plan."""
    facts = machine() | {"polars_threads": pl.thread_pool_size()}
    facts["versions"] = facts["versions"] | {"polars": pl.__version__}
    cells: list[Cell] = []
    stages: list[Cell] = []
    with progress(2 * len(plan.ids)) as step, TemporaryDirectory() as name:
        for ids in plan.ids:
            write_files(Path(name), plan.rows, ids)
            for ending in ("parquet", "csv"):
                path = Path(name) / f"ratings.{ending}"
                peaks = measure_memory(path)
                found = measure(plan, path, ids)
                cells += [cell | {"peak_mb": peaks[cell["way"]]} for cell in found]
                stages.append({"file": ending, "ids": ids, "cpu_s": measure_stages(path)})
                step(f"{ending}, {ids}")
    claim = (__doc__ or "").split("\n\nBoth run")[0]
    plot = Plot.of("Read a table", cells, by="way", x="file", y="median_s", unit="seconds")
    tables, results = [table_of(cells), stage_table(stages)], {"reads": cells, "stages": stages}
    return Report(plan.name, claim, facts, results, tables, verdicts(cells), [plot])


def table_of(cells: list[Cell]) -> Table:
    """The results as a table."""
    rows = [
        [
            cell["file"],
            cell["ids"],
            cell["way"],
            f"{cell['median_s']:.2f}",
            f"{cell['ratio']:.2f}",
            f"{cell['peak_mb']:.0f}",
        ]
        for cell in cells
    ]
    title = f"Reading {cells[0]['rows']:,} rows"
    return Table(title, ("file", "ids", "way", "median s", "ours ÷ this", "peak MB"), rows)


def stage_table(stages: list[Cell]) -> Table:
    """Where the CPU time of our way goes."""
    names = tuple(stages[0]["cpu_s"])
    rows = [
        [cell["file"], cell["ids"], *(f"{cell['cpu_s'][name]:.2f}" for name in names)]
        for cell in stages
    ]
    return Table("CPU seconds of the stages of equipoise", ("file", "ids", *names), rows)


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    said = []
    for cell in cells:
        if cell["way"] == OURS:
            continue
        held = cell["ratio"] <= _GOAL and cell["equal"]
        said.append(
            f"{'holds' if held else 'DOES NOT HOLD'}: {cell['file']}, ids are {cell['ids']}: "
            f"{cell['ratio']:.2f} of {cell['way']} (goal: {_GOAL})."
        )
    equal = all(cell["equal"] for cell in cells)
    said.append(f"{'holds' if equal else 'DOES NOT HOLD'}: the matrices are equal.")
    return said


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = harness.arguments("Reading, compared with polars.")
    parser.add_argument("--rows", type=int, help="of each file, in place of the plan's")
    options = parser.parse_args()
    plan = FULL if options.full else QUICK
    sized = plan if options.rows is None else plan._replace(rows=options.rows)
    harness.conduct(run(sized), options)


if __name__ == "__main__":
    main()

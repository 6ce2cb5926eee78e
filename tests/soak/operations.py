"""What one cycle of a soak does; each result is compared with an independent one.

Every operation returns how far it was off (0 where it is right or wrong, nothing between), and
`LIMITS` says how far it may be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import equipoise
from equipoise import Interactions, ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.report import render
from equipoise.data.readers import Options, open_files
from equipoise.data.synthetic import listening, scale
from equipoise.exceptions import EquipoiseError, SolverWarning
from tests import oracle

# Eigenvalues err by the residuals at most, 1e-6 of the largest, and nearly always by their square;
# lists and cosines are computed from the same components and err by rounding.
LIMITS = {
    "read": 0.0,
    "read partly": 0.0,
    "refuse": 0.0,
    "fit": 1e-6,
    "recommend": 1e-9,
    "similar": 1e-9,
    "explain": 1e-9,
    "save and load": 0.0,
    "audit": 1e-7,
}
# Components and scores of float32 data are float32 themselves.
LIMITS_FLOAT32 = LIMITS | dict.fromkeys(("recommend", "similar", "explain", "audit"), 1e-5)
SOLVERS = ("auto", "matrix_free", "gram", "dense")
# From 300,000 interactions on a fit takes the parallel loops: one cycle in so many does.
LARGE_EVERY, AUDIT_EVERY = 25, 4

Operation = Callable[["Cycle"], float]


@dataclass
class Cycle:
    """One cycle: its data, its model, and a folder that is its own."""

    number: int
    folder: Path
    data: Interactions
    rng: np.random.Generator
    model: Any = None

    @property
    def dense(self) -> Any:
        """X as a dense float64 matrix."""
        return self.data.matrix.toarray().astype(np.float64)


def begin(number: int, seed: int, folder: Path, large_every: int = LARGE_EVERY) -> Cycle:
    """Data that no other cycle has."""
    rng = np.random.default_rng([seed, number])
    if number % large_every == large_every - 1:
        return Cycle(number, folder, scale(6_000, 300, 310_000, seed=number), rng)
    users, items = int(rng.integers(40, 500)), int(rng.integers(60, 180))
    if number % 3 == 2:
        data = scale(users, items, users * items // 12, seed=number)
        data = data.filter(min_users_per_item=1, min_items_per_user=1)
    else:
        data = listening(users, items, seed=number)
        data = data.filter(min_users_per_item=1)
    return Cycle(number, folder, data, rng)


def read(cycle: Cycle) -> float:
    """Write the table, read it, and compare every entry."""
    entries = cycle.data.matrix.tocoo()
    table = pl.DataFrame(
        {
            "user": cycle.data.user_ids[entries.row].tolist(),
            "item": cycle.data.item_ids[entries.col].tolist(),
            "value": entries.data,
        }
    )
    path = cycle.folder / ("plays.csv" if cycle.number % 2 else "plays.parquet")
    table.write_csv(path) if cycle.number % 2 else table.write_parquet(path)
    back = Interactions.read(path, user="user", item="item", value="value")
    active = np.diff(cycle.data.matrix.indptr) > 0
    again = back.select_users(cycle.data.user_ids[active]).align_items(cycle.data.item_ids)
    path.unlink()
    return _wrong(not np.array_equal(again.matrix.toarray(), cycle.dense[active]))


def read_partly(cycle: Cycle) -> float:
    """Begin to read a file and leave it: nothing may stay open."""
    path = cycle.folder / "left.csv"
    path.write_text("user,item,value\n" + "".join(f"u{k},i{k % 7},1\n" for k in range(5_000)))
    first = next(iter(open_files(path, Options()).batches))
    path.unlink()
    return _wrong(first.rows["user"].head(2).to_list() != ["u0", "u1"])


def refuse(cycle: Cycle) -> float:
    """Give bad data and bad calls: each is refused, and leaves nothing behind."""
    path = cycle.folder / "bad.csv"
    path.write_text("user,item,value\n" + "a,b,1\n" * 50 + "a,c,minus one\n")
    attempts: list[Callable[[], Any]] = [
        lambda: Interactions.read(path, value="value"),
        lambda: Interactions.from_pairs([1], [1], [np.nan]),
        lambda: equipoise.load(path),
        lambda: cycle.model.recommend(cycle.data, k=0),
        lambda: cycle.model.similar_items("nobody has this id"),
    ]
    refused = sum(_is_refused(attempt) for attempt in attempts)
    path.unlink()
    return _wrong(refused < len(attempts))


def fit(cycle: Cycle) -> float:
    """Fit, and compare with all eigenpairs of the dense matrix."""
    kind = (ItemWeightedPCA, VanillaPCA, NormalizedPCA)[cycle.number % 3]
    rank = int(cycle.rng.integers(1, min(24, cycle.data.n_items // 2)))
    options: dict[str, Any] = {"solver": SOLVERS[cycle.number % 4]}
    X = cycle.dense
    norms = np.linalg.norm(X, axis=0)
    weights = np.ones(X.shape[1])
    if kind is ItemWeightedPCA:
        options["gamma"] = float(cycle.rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5]))
        weights = norms ** options["gamma"]
    elif kind is NormalizedPCA:
        X = X / norms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # fewer components than asked for
        cycle.model = kind(n_components=rank, **options).fit(cycle.data)
    exact = oracle.spectrum(X, weights)
    components = cycle.model.components_.astype(np.float64)
    certificate = cycle.model.certificate_
    shortfall = oracle.objective_shortfall(components, X, weights, exact)
    if certificate.max_residual > cycle.model.tol:
        return np.inf
    return max(
        oracle.eigenvalue_error(cycle.model.eigenvalues_, exact),
        shortfall - certificate.gap,  # no more than was certified
    )


def recommend(cycle: Cycle) -> float:
    """Lists of every user, against one full sort of all scores."""
    numbers = ItemNumbers(cycle.data)
    ids, given = cycle.model.recommend(cycle.data, k=20)
    lists = numbers.of(ids)
    return oracle.list_error(lists, given, _scores(cycle), cycle.dense > 0)


def similar(cycle: Cycle) -> float:
    """Neighbors of one item, against all cosines."""
    column = int(cycle.rng.integers(cycle.data.n_items))
    ids, given = cycle.model.similar_items(cycle.data.item_ids[column], k=10)
    found = ItemNumbers(cycle.data).of(ids)
    there = found >= 0
    exact = oracle.cosines(cycle.model.components_, column)
    exact[column] = -np.inf
    best = -np.sort(-exact)[: int(there.sum())]
    return float(max(np.abs(exact[found[there]] - best).max(), np.abs(given[there] - best).max()))


def explain(cycle: Cycle) -> float:
    """The contributions of a user's items add up to the score."""
    row = int(cycle.rng.choice(np.flatnonzero(np.diff(cycle.data.matrix.indptr))))
    column = int(cycle.rng.integers(cycle.data.n_items))
    one = cycle.data.select_users([cycle.data.user_ids[row]])
    explained = cycle.model.explain(one, cycle.data.item_ids[column], k=None)
    everything = _scores(cycle)[row]
    off = max(
        abs(explained.contributions.sum() + explained.rest - explained.score), abs(explained.rest)
    )
    return float(max(off, abs(explained.score - everything[column])) / np.abs(everything).max())


def save_and_load(cycle: Cycle) -> float:
    """A model that was saved recommends the same bits, and is saved to the same bytes."""
    first, second = cycle.folder / "first.eqp", cycle.folder / "second.eqp"
    cycle.model.save(first)
    loaded = equipoise.load(first)
    loaded.save(second)
    before, after = (each.recommend(cycle.data, k=5) for each in (cycle.model, loaded))
    same = first.read_bytes() == second.read_bytes()
    same &= np.array_equal(before.ids, after.ids)
    same &= np.array_equal(before.scores, after.scores, equal_nan=True)
    first.unlink()
    second.unlink()
    return _wrong(not same)


def audit_all(cycle: Cycle) -> float:
    """An audit with its page; self-reconstruction and errors by item, against dense projections."""
    found = audit(cycle.data, rank=4, seed=cycle.number, budget=0)
    page, text, record = render(found), to_markdown(found), to_json(found)
    if not (page.startswith("<!doctype html>") and text and record):
        return np.inf
    fitted = cycle.data.holdout(seed=cycle.number).train_validation.matrix.toarray()
    norms = np.linalg.norm(fitted, axis=0)
    weights = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    errors = [_variant_error(found, "pca", fitted, np.ones_like(norms))]
    errors.append(_variant_error(found, "item-weighted:-1", fitted, weights))
    return max(errors)


def operations(cycle: Cycle, audit_every: int = AUDIT_EVERY) -> Iterator[tuple[str, Operation]]:
    """What this cycle does, in order."""
    yield "read", read
    yield "read partly", read_partly
    yield "fit", fit
    yield "recommend", recommend
    yield "similar", similar
    yield "explain", explain
    yield "save and load", save_and_load
    yield "refuse", refuse
    if cycle.number % audit_every == audit_every - 1 and cycle.data.nnz < 100_000:
        yield "audit", audit_all


class ItemNumbers:
    """From ids back to columns; −1 for none."""

    def __init__(self, data: Interactions) -> None:
        self._columns = {str(item): column for column, item in enumerate(data.item_ids)}

    def of(self, ids: Any) -> Any:
        """Columns of an array of ids."""
        flat = [self._columns.get(str(item), -1) for item in ids.ravel()]
        return np.array(flat, dtype=np.int64).reshape(ids.shape)


def _scores(cycle: Cycle) -> Any:
    signal = cycle.model.preprocess(cycle.data.matrix).toarray().astype(np.float64)
    return oracle.scores(signal, cycle.model.components_)


def _variant_error(found: Any, key: str, X: Any, weights: Any) -> float:
    """Diagonals and errors by item; each counts by the gap of the spectrum where it was cut."""
    exact = oracle.spectrum(X, weights)
    (variant,) = (each for each in found.variants if each.key == key)
    columns, norms = found.items.columns, (X**2).sum(axis=0)
    worst = 0.0
    for place, rank in enumerate(variant.sizes[:3]):
        U = exact.vectors[:, :rank]
        gap = float(exact.values[rank - 1] - exact.values[rank]) / float(exact.values[0])
        diagonal = np.square(U).sum(axis=1)[columns]
        left = np.square(X - (X @ U) @ U.T).sum(axis=0)[columns]
        touched = norms[columns] > 0
        error = left[touched] / norms[columns][touched]
        off = np.abs(diagonal - variant.self_reconstruction_by_item[place]).max()
        off = max(off, np.abs(error - variant.error_by_item[place][touched]).max())
        worst = max(worst, float(off) * gap)
    return worst


def _is_refused(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except EquipoiseError:
        return True
    return False


def _wrong(is_wrong: bool) -> float:
    return np.inf if is_wrong else 0.0

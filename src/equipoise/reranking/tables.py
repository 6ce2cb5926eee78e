"""Lists of another system, as a table of users, items and scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.identifiers import Lookup, as_column
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, UnknownIdError
from equipoise.metrics import ItemGroups
from equipoise.reranking.base import Candidates, ItemContext, Reranker
from equipoise.reranking.exposure import (
    ExposureFloors,
    ExposureSolution,
    exposure_lists,
    solve_exposure,
)
from equipoise.reranking.registry import make_reranker
from equipoise.reranking.reranked import item_vectors

if TYPE_CHECKING:
    import polars as pl

COLUMNS = ("user", "item")


class RerankedLists(NamedTuple):
    """New lists of all users.

    Attributes
    ----------
    table : polars.DataFrame
        The columns user, rank, item and score, which is that of the old list (minus its rank if it
        has no scores).
    solution : ExposureSolution or None
        Of exposure floors: prices, bound and gap.
    """

    table: pl.DataFrame
    solution: ExposureSolution | None = None


def rerank_lists(
    lists: Any,
    data: Interactions,
    reranker: str | Reranker,
    k: int = 10,
    *,
    groups: str | int | Groups = "head80",
) -> RerankedLists:
    """Re-rank the lists of another system.

    Parameters
    ----------
    lists : data frame or path
        The columns user and item, and score or rank, in polars, pandas, a CSV or a Parquet file.
        Without scores, relevance falls evenly with the rank. The longer the lists, the more a
        re-ranker can choose from.
    data : Interactions
        What users already have, and where popularity is counted.
    reranker : str or Reranker
        For example ``"xquad:0.3"``. With exposure floors, the lists of these users meet the floors.
    k : int
        Length of the new lists.
    groups : str, int or Groups
        As in `Reranked`.

    Examples
    --------
    >>> import polars as pl
    >>> data = Interactions.from_pairs(["u", "u", "v", "w"], ["a", "b", "a", "c"])
    >>> lists = pl.DataFrame({"user": ["v", "v"], "item": ["b", "c"], "score": [2.0, 1.0]})
    >>> rerank_lists(lists, data, "scaling:0", k=1).table.rows()
    [('v', 1, 'b', 2.0)]
    """
    import polars as pl

    check_whole_number("k", k, least=1)
    method = make_reranker(reranker)
    users, candidates = _candidates(_read(lists), data)
    own = Groups.by_popularity(data, groups) if isinstance(groups, str | int) else groups
    vectors = item_vectors(data, groups, None) if "vectors" in method.needs else None
    context = ItemContext(data.popularity("count").astype(np.float64), own.align(data), vectors)
    solution = None
    length = min(k, candidates.items.shape[1])
    if isinstance(method, ExposureFloors):
        shares = ItemGroups(context.groups.names, context.shares)
        floors = method.floors(context).tolist()
        solution = solve_exposure(lambda: [candidates], shares, floors, length)
        (order,) = exposure_lists(lambda: [candidates], shares, solution, length)
    else:
        order = method.rerank(candidates, length, context)
    rows, places = np.nonzero(order >= 0)
    chosen = order[rows, places]
    table = pl.DataFrame(
        {
            "user": as_column(users[rows]),
            "rank": pl.Series(places + 1, dtype=pl.Int32),
            "item": as_column(data.item_ids[candidates.items[rows, chosen]]),
            "score": pl.Series(candidates.scores[rows, chosen]),
        }
    )
    return RerankedLists(table, solution)


def _read(lists: Any) -> pl.DataFrame:
    """Return the columns user, item and score; refuse a table without them."""
    import polars as pl

    if isinstance(lists, str | os.PathLike):
        path = Path(lists)
        try:
            frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InvalidDataError(f"{path} could not be read as a table: {error}") from error
    else:
        frame = lists if isinstance(lists, pl.DataFrame) else pl.from_pandas(lists)
    missing = [name for name in COLUMNS if name not in frame.columns]
    if not {"score", "rank"} & {*frame.columns}:
        missing.append("score")
    if missing:
        raise InvalidDataError(
            f"the lists have no column {missing[0]!r}: they have {', '.join(frame.columns)}. "
            "Name the columns user, item, and score or rank."
        )
    score = pl.col("score") if "score" in frame.columns else -pl.col("rank").cast(pl.Int64)
    frame = frame.select(*COLUMNS, score.cast(pl.Float64).alias("score"))
    if frame.null_count().sum_horizontal().item() or not frame["score"].is_finite().all():
        raise InvalidDataError("the lists have empty cells or scores that are not finite.")
    if frame.select("user", "item").is_duplicated().any():
        raise InvalidDataError("the lists contain an item twice for one user. Keep it once.")
    return frame


def _candidates(frame: pl.DataFrame, data: Interactions) -> tuple[NDArray[Any], Candidates]:
    """Return the users in the order of the table, and their lists, best first."""
    import polars as pl

    if not len(frame):
        raise InvalidDataError("the lists are empty.")
    numbers = frame["user"].unique(maintain_order=True)
    users = np.asarray(numbers.to_list(), dtype=object)
    rank = dict(zip(numbers.to_list(), range(len(users)), strict=True))
    row = np.array([rank[one] for one in frame["user"].to_list()])
    items = Lookup(data.item_ids, "item").find(frame["item"].to_list())
    if (items < 0).any():
        unknown = frame["item"][int(np.argmax(items < 0))]
        raise UnknownIdError(f"the lists contain {unknown!r}, which is not an item of the data.")
    scores = frame["score"].to_numpy()
    order = np.lexsort((-scores, row))
    row, items, scores = row[order], items[order], scores[order]
    counts = np.bincount(row)
    places = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(users), int(counts.max()))
    columns, values = np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan)
    columns[row, places], values[row, places] = items, scores
    known = Lookup(data.user_ids, "user").find(users.tolist())
    X = data.require_matrix("re-ranking")
    own = X[np.where(known >= 0, known, 0)]
    keep = np.repeat(known >= 0, np.diff(own.indptr))
    own.data = np.where(keep, own.data, 0)
    own.eliminate_zeros()
    typed = numbers.to_numpy() if numbers.dtype != pl.String else users
    return typed, Candidates(columns, values, own)

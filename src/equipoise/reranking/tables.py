"""Lists of another system, as a table of users, items and scores."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.identifiers import Lookup, as_column, factorize, show
from equipoise.data.interactions import Interactions
from equipoise.data.readers.lists import ListTable, read_list_file, read_lists
from equipoise.data.readers.tables import frame_of
from equipoise.defaults import RERANK_GROUPS, SERVED_K
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
from equipoise.reranking.reranked import item_groups, item_vectors


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
    k: int = SERVED_K,
    *,
    groups: str | int | Groups = RERANK_GROUPS,
) -> RerankedLists:
    """Re-rank the lists of another system.

    Parameters
    ----------
    lists : data frame or path
        The columns user and item, and score or rank, in polars, pandas, a CSV or a Parquet file;
        with a column of times, the latest list of a user counts. Without scores, relevance falls
        evenly with the rank. The longer the lists, the more a re-ranker can choose from.
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
    check_whole_number("k", k, least=1)
    method = make_reranker(reranker)
    users, candidates = _candidates(lists, data)
    vectors = item_vectors(data, groups, None) if "vectors" in method.needs else None
    context = ItemContext(
        data.popularity("count").astype(np.float64), item_groups(data, groups), vectors
    )
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


def _candidates(lists: Any, data: Interactions) -> tuple[NDArray[Any], Candidates]:
    """Return the users in the order of the table, and their lists, best first."""
    if isinstance(lists, str | os.PathLike):
        lists = read_list_file(lists)
    found: ListTable = (
        lists if isinstance(lists, ListTable) else read_lists(frame_of(lists), "the table of lists")
    )
    scores = -1.0 - found.places if found.scores is None else found.scores
    if not len(found.users) or not np.isfinite(scores).all():
        raise InvalidDataError("the lists are empty, or have scores that are not finite.")
    users = factorize(found.users, "user")
    items = Lookup(data.item_ids, "item").find(found.items)
    if (items < 0).any():
        unknown = show(found.items[np.argmax(items < 0)])
        raise UnknownIdError(f"the lists contain {unknown}, which is not an item of the data.")
    shape = (len(users.ids), int(found.places.max()) + 1)
    columns, values = np.full(shape, -1, dtype=np.int32), np.full(shape, np.nan)
    at = (users.codes, found.places)
    columns[at], values[at] = items, scores
    known = Lookup(data.user_ids, "user").find(users.ids)
    X = data.require_matrix("re-ranking")
    own = X[np.where(known >= 0, known, 0)]
    keep = np.repeat(known >= 0, np.diff(own.indptr))
    own.data = np.where(keep, own.data, 0)
    own.eliminate_zeros()
    return users.ids, Candidates(columns, values, own)

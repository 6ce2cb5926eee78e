"""The tidy table: one number a row, and what it is the number of."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.evaluation.catalogue import parse_metrics
from equipoise.evaluation.cost import Cost
from equipoise.evaluation.intervals import (
    DEFAULT_RESAMPLES,
    Comparison,
    Interval,
    bootstrap_mean,
    compare,
)
from equipoise.exceptions import InvalidParameterError
from equipoise.files import write_whole
from equipoise.metrics.results import FloatArray

if TYPE_CHECKING:
    import polars as pl


class Row(NamedTuple):
    """One number.

    Attributes
    ----------
    model : str
        The name it was given.
    gamma : float or None
        γ, where the model has one.
    rank : int or None
        Number of components, where the model has ranks.
    group : str
        "all", or a group of items.
    metric, k, convention
        What was measured; k is None for metrics without a cut-off.
    value : float
        nan where the metric is not defined.
    n : int
        How many users (for metrics of lists) or items (for metrics of items) are behind it.
    """

    model: str
    gamma: float | None
    rank: int | None
    group: str
    metric: str
    k: int | None
    convention: str
    value: float
    n: int


@dataclass(frozen=True)
class Results:
    """What `evaluate` returns: rows, and whether they are all that was asked for.

    Attributes
    ----------
    rows : tuple of Row
        In the order of models, γ, ranks and metrics.
    complete : bool
        False after an interruption: these rows are right, others are missing.
    per_user : mapping of Row to ndarray
        The users' own values, where `evaluate` was asked to keep them.
    costs : tuple of Cost
        Seconds, memory and numbers kept of every model at every rank. They differ from run to
        run, so they have no say in whether two results are equal.

    Examples
    --------
    >>> table = Results((Row("PCA", None, 8, "all", "recall", 20, "standard", 0.25, 4),
    ...                  Row("PCA", None, 16, "all", "recall", 20, "standard", 0.5, 4)))
    >>> table.value("recall@20", rank=16)
    0.5
    >>> table.best("recall@20").rank
    16
    """

    rows: tuple[Row, ...]
    complete: bool = True
    per_user: Mapping[Row, FloatArray] = field(default_factory=dict, compare=False, repr=False)
    costs: tuple[Cost, ...] = field(default=(), compare=False, repr=False)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, metric: str | None = None, **columns: Any) -> Results:
        """Keep the rows of a metric (``"ndcg"``, ``"mrr@20:lightgcn"``) and of column values."""
        unknown = set(columns) - set(Row._fields)
        if unknown:
            raise InvalidParameterError(
                f"no column {sorted(unknown)[0]!r} in the results. They have: "
                f"{', '.join(Row._fields)}."
            )
        kept = tuple(
            row
            for row in self.rows
            if all(getattr(row, name) == value for name, value in columns.items())
            and (metric is None or _is_of(row, metric))
        )
        users = {row: self.per_user[row] for row in kept if row in self.per_user}
        models = {(row.model, row.gamma, row.rank) for row in kept}
        costs = tuple(cost for cost in self.costs if cost[:3] in models)
        return Results(kept, self.complete, users, costs)

    def row(self, metric: str, *, group: str = "all", **columns: Any) -> Row:
        """Return the one row that this describes; refuse none and several."""
        found = self.select(metric, group=group, **columns).rows
        if len(found) == 1:
            return found[0]
        asked = ", ".join(f"{k}={v!r}" for k, v in {"group": group, **columns}.items())
        if not found:
            raise InvalidParameterError(f"no row for {metric!r}, {asked} in the results.")
        raise InvalidParameterError(
            f"{len(found)} rows for {metric!r}, {asked}; say more to choose one, e.g. "
            f"model={found[0].model!r}, rank={found[0].rank}."
        )

    def value(self, metric: str, *, group: str = "all", **columns: Any) -> float:
        """Return the value of the one row that this describes."""
        return self.row(metric, group=group, **columns).value

    def cost(self, **columns: Any) -> Cost:
        """Return the cost of the one model and rank that columns of `Cost` describe."""
        found = [
            cost
            for cost in self.costs
            if all(getattr(cost, name, None) == value for name, value in columns.items())
        ]
        if len(found) != 1:
            asked = ", ".join(f"{k}={v!r}" for k, v in columns.items())
            raise InvalidParameterError(
                f"{len(found)} fits for {asked or 'anything'} in the results, wanted one. Name "
                "its model, gamma and rank."
            )
        return found[0]

    def best(self, metric: str, *, group: str = "all", **columns: Any) -> Row:
        """Return the row with the highest value; the first of several."""
        found = [r for r in self.select(metric, group=group, **columns) if not math.isnan(r.value)]
        if not found:
            raise InvalidParameterError(f"no row for {metric!r} with a value in the results.")
        return max(found, key=lambda row: row.value)

    def interval(
        self,
        row: Row,
        *,
        confidence: float = 0.95,
        resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
    ) -> Interval:
        """Confidence interval of a row by bootstrap over users."""
        users = self._users(row)
        return bootstrap_mean(users, confidence=confidence, resamples=resamples, seed=seed)

    def compare(
        self,
        first: Row,
        second: Row,
        *,
        confidence: float = 0.95,
        resamples: int = DEFAULT_RESAMPLES,
        seed: int = 0,
    ) -> Comparison:
        """Paired bootstrap between two rows of one metric; see `equipoise.evaluation.compare`."""
        if (first.metric, first.k, first.convention) != (
            second.metric,
            second.k,
            second.convention,
        ):
            raise InvalidParameterError(
                f"rows to compare must be of one metric, got {first.metric}@{first.k} and "
                f"{second.metric}@{second.k}."
            )
        a, b = self._users(first), self._users(second)
        return compare(a, b, confidence=confidence, resamples=resamples, seed=seed)

    def _users(self, row: Row) -> FloatArray:
        if row not in self.per_user:
            raise InvalidParameterError(
                f"the users' own values of {row.metric!r} are not in these results. "
                "Pass per_user=True to evaluate, and a metric that is a mean over users."
            )
        return self.per_user[row]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries; nan becomes None, as JSON wants it."""
        return [
            {**row._asdict(), "value": None if math.isnan(row.value) else row.value}
            for row in self.rows
        ]

    def to_json(self, *, costs: bool = False) -> str:
        """Return ``{"complete": …, "rows": […]}``; equal results give equal text.

        With `costs`, the costs too, whose seconds are never equal.
        """
        content: dict[str, Any] = {"complete": self.complete, "rows": self.to_dicts()}
        if costs:
            content["costs"] = [cost._asdict() for cost in self.costs]
        return json.dumps(content, indent=1)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows with a header; None and nan are empty."""
        write_table(path, Row._fields, self.to_dicts())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame."""
        import polars as pl

        schema = {
            "model": pl.String,
            "gamma": pl.Float64,
            "rank": pl.Int64,
            "group": pl.String,
            "metric": pl.String,
            "k": pl.Int64,
            "convention": pl.String,
            "value": pl.Float64,
            "n": pl.Int64,
        }
        return pl.DataFrame([list(row) for row in self.rows], schema=schema, orient="row")


def write_table(
    path: str | PathLike[str], columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Write a CSV file whole or not at all; None is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(Path(path), text.getvalue().encode())


def _is_of(row: Row, metric: str) -> bool:
    """Whether a row is what ``name[@k][:convention]`` speaks of; what it leaves out is open."""
    spec = parse_metrics([metric], [1])[0]
    if row.metric != spec.name or ("@" in metric and row.k != spec.k):
        return False
    # a row's convention may go on after a comma, to say which groups or which policy
    return ":" not in metric or row.convention.partition(",")[0] == spec.convention

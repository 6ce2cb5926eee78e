"""What a metric returns: one number with its name, and the table of many such numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from equipoise.display import Displayed
from equipoise.exceptions import InvalidParameterError
from equipoise.files import write_whole
from equipoise.metrics.intervals import Bootstrap, Comparison, Interval, bootstrap_mean, compare

if TYPE_CHECKING:
    import polars as pl

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

#: the name of the group of all items
ALL = "all"

# One number, or one number per rank of the model.
Value = TypeVar("Value", float, FloatArray)


@dataclass(frozen=True)
class Result:
    """One measured number, and what it is the number of.

    Attributes
    ----------
    metric : str
        The name, e.g. ``"ndcg"``.
    value : float
        nan where the metric is not defined.
    convention : str
        Which of the definitions in use was computed.
    k : int or None
        Length of the lists, for metrics that have a cut-off.
    group : str
        ``"all"``, or a group of items.
    n : int
        Number of users (for metrics of lists) or items (for metrics of items) behind the value.
    model : str
        Name of the model; empty if the metric was computed from arrays.
    settings : mapping of str to value
        Parameters of the model that distinguish this number from others of the same model.
    per_user : ndarray or None
        One value per user, nan for a user the metric is not defined for.

    Examples
    --------
    >>> recall = Result("recall", 0.5625, "standard", k=3)
    >>> recall.name, float(recall)
    ('recall@3', 0.5625)
    """

    metric: str
    value: float
    convention: str
    k: int | None = None
    group: str = ALL
    n: int = 0
    model: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_user: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The metric and its cut-off, e.g. ``recall@20``."""
        return self.metric if self.k is None else f"{self.metric}@{self.k}"

    def __float__(self) -> float:
        return self.value

    def column(self, name: str) -> Any:
        """Return a field, or the value of a setting; None if the model has no such setting."""
        return getattr(self, name) if name in COLUMNS else self.settings.get(name)


#: columns of the table, without the settings, which follow the model
COLUMNS = ("model", "group", "metric", "k", "convention", "value", "n")


@dataclass(frozen=True, repr=False)
class Results(Displayed):
    """A tidy table: one number per row.

    Attributes
    ----------
    rows : tuple of Result
        In the order of models, settings and metrics.
    complete : bool
        False after an interruption: these rows are right, others are missing.
    costs : tuple of Cost
        Seconds, memory and size of every fit. They differ from run to run, and are ignored when
        two results are compared.

    Examples
    --------
    >>> table = Results(tuple(Result("recall", value, "standard", 20, settings={"size": size})
    ...                       for size, value in ((8, 0.25), (16, 0.5))))
    >>> table.value("recall@20", size=16)
    0.5
    >>> table.best("recall@20").settings
    {'size': 16}
    """

    rows: tuple[Result, ...]
    complete: bool = True
    costs: tuple[Any, ...] = field(default=(), compare=False, repr=False)

    def __repr__(self) -> str:
        counts = {
            "models": {row.model for row in self.rows},
            "metrics": {row.name for row in self.rows},
        }
        facts = [f"{len(found)} {what}" for what, found in counts.items()]
        facts += [] if self.complete else ["interrupted"]
        return f"Results({len(self.rows):,} numbers: {', '.join(facts)})"

    def __iter__(self) -> Iterator[Result]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, metric: str) -> Result:
        return self.row(metric)

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of all settings, in the order of their first row."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.settings))

    def select(self, metric: str | None = None, **columns: Any) -> Results:
        """Keep the rows of a metric (``"ndcg"``, ``"mrr@20:lightgcn"``) and of column values.

        Columns are the fields of `Result` and the settings, e.g. ``n_components=32``.
        """
        known = (*COLUMNS, *self.settings)
        for name in columns:
            if name not in known and self.rows:
                raise InvalidParameterError(
                    f"no column {name!r} in the results. They have: {', '.join(known)}."
                )
        kept = tuple(
            row
            for row in self.rows
            if all(row.column(name) == value for name, value in columns.items())
            and (metric is None or _matches(row, metric))
        )
        fits = [(row.model, row.settings) for row in kept]
        costs = tuple(cost for cost in self.costs if (cost.model, cost.settings) in fits)
        return replace(self, rows=kept, costs=costs)

    def row(self, metric: str, *, group: str = ALL, **columns: Any) -> Result:
        """Return the one row of a metric, group and column values; refuse none and several."""
        found = self.select(metric, group=group, **columns).rows
        if len(found) == 1:
            return found[0]
        asked = ", ".join(f"{k}={v!r}" for k, v in {"group": group, **columns}.items())
        if not found:
            names = ", ".join(dict.fromkeys(row.name for row in self.rows))
            raise InvalidParameterError(
                f"no row for {metric!r}, {asked} in the results. They have: {names}."
            )
        hint = {"model": found[0].model, **found[0].settings}
        raise InvalidParameterError(
            f"{len(found)} rows for {metric!r}, {asked}. Choose one, e.g. with "
            f"{', '.join(f'{k}={v!r}' for k, v in hint.items())}."
        )

    def value(self, metric: str, *, group: str = ALL, **columns: Any) -> float:
        """Return the value of `row`."""
        return self.row(metric, group=group, **columns).value

    def best(self, metric: str, *, group: str = ALL, **columns: Any) -> Result:
        """Return the row with the highest value; the first of several."""
        found = [r for r in self.select(metric, group=group, **columns) if not math.isnan(r.value)]
        if not found:
            raise InvalidParameterError(f"no row for {metric!r} with a value in the results.")
        return max(found, key=lambda row: row.value)

    def interval(self, row: Result, **options: Unpack[Bootstrap]) -> Interval:
        """Confidence interval of a row by bootstrap over users; options as in `bootstrap_mean`."""
        return bootstrap_mean(_users(row), **options)

    def compare(self, first: Result, second: Result, **options: Unpack[Bootstrap]) -> Comparison:
        """Paired bootstrap between two rows of one metric; see `equipoise.evaluation.compare`."""
        if (first.name, first.convention) != (second.name, second.convention):
            raise InvalidParameterError(
                f"rows to compare must be of one metric, got {first.name} and {second.name}."
            )
        return compare(_users(first), _users(second), **options)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries with one key per column; nan becomes None."""
        names = self.settings
        return [_as_dict(row, names) for row in self.rows]

    def to_json(self, *, costs: bool = False) -> str:
        """Return ``{"complete": …, "rows": […]}``; equal results give equal text.

        With `costs`, the costs too, whose seconds are never equal.
        """
        content: dict[str, Any] = {"complete": self.complete, "rows": self.to_dicts()}
        if costs:
            content["costs"] = [cost._asdict() for cost in self.costs]
        return json.dumps(content, indent=1, default=str)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write the rows with a header; None and nan are empty."""
        write_table(path, ["model", *self.settings, *COLUMNS[1:]], self.to_dicts())

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame."""
        import polars as pl

        types = dict.fromkeys(("model", "group", "metric", "convention"), pl.String)
        numbers = {"k": pl.Int64, "n": pl.Int64, "value": pl.Float64}
        rows = self.to_dicts()
        columns = ["model", *self.settings, *COLUMNS[1:]]
        return pl.DataFrame(
            {name: [row[name] for row in rows] for name in columns},
            schema_overrides={**types, **numbers},
            strict=False,
        )


def write_table(
    path: str | PathLike[str], columns: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write a CSV file, complete or not at all; None is empty."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(Path(path), text.getvalue().encode())


def _as_dict(row: Result, settings: Sequence[str]) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in COLUMNS[1:]}
    fields["value"] = None if math.isnan(row.value) else row.value
    return {"model": row.model, **{name: row.settings.get(name) for name in settings}, **fields}


def _matches(row: Result, metric: str) -> bool:
    """Whether a row is of ``name[@k][:convention]``; parts that are left out match anything."""
    head, given, convention = metric.partition(":")
    name, at, cutoff = head.partition("@")
    if row.metric != name or (at and str(row.k) != cutoff):
        return False
    # after a comma, a row's convention names the groups or how users without items count
    return not given or row.convention.partition(",")[0] == convention


def _users(row: Result) -> FloatArray:
    if row.per_user is None:
        raise InvalidParameterError(
            f"the values per user of {row.metric!r} are not in these results. "
            "Pass per_user=True to evaluate, and a metric that is a mean over users."
        )
    return row.per_user


@dataclass(frozen=True)
class GroupResult(Generic[Value]):
    """A metric by group, with Fairlearn's names.

    Attributes
    ----------
    overall : float or ndarray
        The metric over everything, not the mean of the groups.
    by_group : mapping of str to float or ndarray
        The metric within each group; nan where a group has nothing to measure.
    difference : float or ndarray
        Largest minus smallest group value; groups that are nan are left out.
    ratio : float or ndarray
        Smallest over largest group value; nan where the largest is 0.
    metric, convention : str
        What was computed, and by which definition.

    Examples
    --------
    >>> result = GroupResult(0.5, {"popular": 0.8, "niche": 0.2}, "recall", "pooled")
    >>> round(result.difference, 3), result.ratio
    (0.6, 0.25)
    """

    overall: Value
    by_group: Mapping[str, Value]
    metric: str
    convention: str
    difference: Value = field(init=False)
    ratio: Value = field(init=False)

    def __post_init__(self) -> None:
        values = np.stack([np.asarray(value, dtype=float) for value in self.by_group.values()])
        # fmax and fmin skip nan without the warning that nanmax gives when all are nan
        highest, lowest = np.fmax.reduce(values), np.fmin.reduce(values)
        ratio = np.divide(lowest, highest, out=np.full_like(highest, np.nan), where=highest != 0)
        object.__setattr__(self, "difference", _plain(highest - lowest))
        object.__setattr__(self, "ratio", _plain(ratio))

    @property
    def impact_ratios(self) -> dict[str, Value]:
        """Each group's value over the largest; by the four-fifths rule, below 0.8 is adverse."""
        values = np.stack([np.asarray(value, dtype=float) for value in self.by_group.values()])
        best = np.fmax.reduce(values)
        ratios = np.divide(values, best, out=np.full_like(values, np.nan), where=best > 0)
        return dict(zip(self.by_group, map(_plain, ratios), strict=True))  # type: ignore[arg-type]  # floats stay floats


def _plain(value: FloatArray) -> float | FloatArray:
    """Turn an array without axes into a float: scalars stay scalars."""
    return float(value) if np.ndim(value) == 0 else value

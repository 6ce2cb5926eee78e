"""Tidy tables: the numbers behind a figure, as CSV and Markdown."""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

# More digits than any figure shows, fewer than differ between processors.
_DIGITS = 6

Cell = str | int | float | bool | None


@dataclass(frozen=True)
class Tidy:
    """Named columns, one observation a row.

    Examples
    --------
    >>> table = Tidy.of(["rank", "value"], [(1, 0.5), (2, 1 / 3)])
    >>> print(table.csv(), end="")
    rank,value
    1,0.5
    2,0.333333
    >>> table.column("rank")
    [1, 2]
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> Self:
        """Build from rows; NumPy scalars become plain ones, numbers are rounded."""
        return cls(tuple(columns), tuple(tuple(_plain(cell) for cell in row) for row in rows))

    @classmethod
    def of_columns(cls, columns: Mapping[str, Iterable[Any]]) -> Self:
        """Build from columns of one length."""
        return cls.of(list(columns), zip(*columns.values(), strict=True))

    def column(self, name: str) -> list[Any]:
        """One column, from top to bottom."""
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def where(self, **values: Cell) -> Tidy:
        """The rows in which these columns have these values."""
        wanted = {self.columns.index(name): value for name, value in values.items()}
        kept = (row for row in self.rows if all(row[i] == value for i, value in wanted.items()))
        return Tidy(self.columns, tuple(kept))

    def csv(self) -> str:
        """Comma-separated text with a header; None is empty."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def markdown(self) -> str:
        r"""A table for a README.

        Examples
        --------
        >>> print(Tidy.of(["a", "b"], [(1, "x|y")]).markdown())
        | a | b |
        | --- | --- |
        | 1 | x\|y |
        """
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)

    def digest(self) -> str:
        """SHA-256 of the CSV text."""
        return hashlib.sha256(self.csv().encode()).hexdigest()


def _plain(value: Any) -> Cell:
    if hasattr(value, "item"):
        value = value.item()
    if not isinstance(value, float):
        return value  # type: ignore[no-any-return]  # whole, text or None
    if math.isnan(value):
        return None
    return round(value, _DIGITS) + 0.0  # no negative zero


def _cell(value: Cell) -> str:
    if value is None:
        return ""
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return shown.replace("|", "\\|").replace("\n", " ")

"""Tables in notebooks, Markdown and on the terminal; how public types become data frames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

# A notebook shows the first rows; all of them are in the data frame.
_MOST_ROWS = 20

# How the text of a number begins; nan, – and ? stand for a missing one.
_NUMBER = re.compile(r"[-+−≥<]?\s?\d|(nan|[–?])?$")


class Shown(NamedTuple):
    """A table with a title, and lines of text below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()

    def numeric(self) -> list[bool]:
        """Return for each column whether all of its cells are numbers, which are right-aligned."""
        columns = zip_longest(self.columns, *self.rows)
        texts = [[cell_text(cell) for cell in cells] for _, *cells in columns]
        return [any(column) and all(map(_NUMBER.match, column)) for column in texts]

    def only(self, *places: int) -> Shown:
        """Return the columns in these places; names may occur twice."""
        columns, *rows = [[row[n] for n in places] for row in (self.columns, *self.rows)]
        return self._replace(columns=columns, rows=rows)

    def html(self, most: int | None = _MOST_ROWS) -> str:
        """Return the first rows as HTML, None for all; text from the data is escaped."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            f"<tr>{''.join(_html_cell(cell) for cell in row)}</tr>" for row in self.rows[:most]
        )
        left = 0 if most is None else len(self.rows) - most
        notes = [*([f"… and {left:,} more rows"] if left > 0 else []), *self.notes]
        below = "".join(f"<p>{escape(note)}</p>" for note in notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div><b>{escape(self.title)}</b>{table if self.rows else ''}{below}</div>"

    def markdown(self) -> str:
        """Return the whole table as Markdown."""
        lines = [f"## {escape_markdown(self.title)}", ""]
        if self.rows:
            lines += [_row(self.columns), _row("---:" if n else "---" for n in self.numeric())]
            lines += [_row(map(cell_text, row)) for row in self.rows] + [""]
        return "\n".join([*lines, *(f"{escape_markdown(note)}\n" for note in self.notes)])


def page(title: str, sections: Iterable[str]) -> str:
    """Return sections of HTML as one page without scripts or requests."""
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    body = "".join(f"<section>{section}</section>" for section in sections)
    return Template(template).substitute(title=escape(title), body=body)


class Displayed:
    """A type that shows `_shown` in notebooks: by default its first rows as a data frame."""

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars data frame."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def _shown(self) -> Shown:
        frame = self.to_polars()
        return Shown(repr(self), frame.columns, frame.rows())

    def _repr_html_(self) -> str:
        return self._shown().html()


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape_markdown, cells))} |"


def escape_markdown(text: str) -> str:
    r"""Return text as one line that Markdown shows unchanged: no table, tag, link or emphasis.

    Examples
    --------
    >>> print(escape_markdown("a|b\n<script>"))
    a\|b \<script\>
    >>> print(escape_markdown("R&B, &amp;, ~~x~~"))
    R&B, \&amp;, \~\~x\~\~
    """
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return re.sub(r"([\\|<>*_`~\[\]]|&(?=#?\w+;))", r"\\\1", line)


def _html_cell(value: Any) -> str:
    style = ' style="text-align: left"' if isinstance(value, str) else ""
    return f"<td{style}>{escape(cell_text(value))}</td>"


def cell_text(value: Any) -> str:
    """Return a cell as text: numbers with four digits, nothing for None."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)

"""Bytes as a source of decisions: mutated bytes are another valid call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")

# Numbers where formats, integers and floats have their edges
NUMBERS = (
    "0", "1", "2", "3.5", "-1", "-0", "007", "+4", "1e3", "1e-320", "1e308", "1e309", "nan", "inf",
    "-inf", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551616",
    "0x10", "1_000", "1,5", "٣", "1e", ".5", "5.", " 7", "7 ", "1 2", "true", "None", "",
)  # fmt: skip
WORDS = (
    "a", "b", "user", "user_id", "item", "item_id", "rating", "value", "timestamp", "id", "name",
    "2020-01-02", "2020-01-02T03:04:05Z", "é", "名", "\u202e", "\u2028", "\x00", "\x1f", "\x85",
    "\ufeff", '"', '""', "'", "\\", "\n", "\r", "\r\n", "\t", ",", ";", "|", "::", " ", "  ", "#",
    "=1+1", "[red]", "$float", "../x", "/", "~", "*", "%s", "{}", "--", "-",
)  # fmt: skip


class Choices:
    """Reads decisions off bytes, one after the other; when they are used up, always the first.

    Examples
    --------
    >>> choices = Choices(bytes([7, 1]))
    >>> choices.below(5), choices.one("ab"), choices.one("ab")
    (2, 'b', 'a')
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are not used yet."""
        return max(0, len(self._content) - self._at)

    def byte(self) -> int:
        """Return the next byte."""
        self._at += 1
        return self._content[self._at - 1] if self._at <= len(self._content) else 0

    def rest(self) -> bytes:
        """Return all bytes that are left, and use them up."""
        rest, self._at = self._content[self._at :], len(self._content)
        return rest

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to limit - 1, of at most 256."""
        return self.byte() % limit

    def one(self, options: Sequence[Option]) -> Option:
        """Return one of the options."""
        return options[self.below(len(options))]

    def yes(self, in_256: int = 128) -> bool:
        """Return True in so many of 256 cases; False once the bytes are used up."""
        return self.left > 0 and self.byte() < in_256

    def number(self) -> str:
        """Return the text of a number, or of what some would take for one."""
        return str(self.below(8)) if not self.yes(64) else self.one(NUMBERS)

    def word(self) -> str:
        """Return a short text, now and then a nasty one."""
        if not self.yes(64):
            return "abcdefgh"[self.below(8)]
        return "".join(self.one(WORDS) for _ in range(1 + self.below(3)))

"""Small changes to an input: of bytes, of lines and fields, of bits that lengths are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from fuzz.choices import NUMBERS, WORDS

Mutation = Callable[[Random, bytearray, Sequence[bytes]], None]

LONGEST_INPUT = 1 << 14
_EDGES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
_NASTY = (
    *(text.encode() for text in (*NUMBERS, *WORDS)),
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
)
_DELIMITERS = (b",", b"\t", b";", b"|", b" ", b"::")


def mutated(random: Random, content: bytes, others: Sequence[bytes], *, text: bool) -> bytes:
    """Return a changed copy: one to four mutations, more often few.

    Parameters
    ----------
    random : Random
        Equal generators make equal changes.
    content : bytes
        What to change.
    others : sequence of bytes
        Further inputs, to take pieces from.
    text : bool
        Whether lines and fields mean something.
    """
    changed = bytearray(content)
    known = _OF_BYTES + _OF_TEXT * 2 if text else _OF_BYTES
    for _ in range(1 + min(random.getrandbits(2), random.getrandbits(2))):
        random.choice(known)(random, changed, others)
    return bytes(changed[:LONGEST_INPUT])


def _span(random: Random, content: bytearray) -> slice:
    start = random.randrange(len(content) + 1)
    return slice(start, start + 1 + min(random.randrange(1, 64), random.randrange(1, 64)))


def _flip_bit(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    if content:
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _set_byte(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    if content:
        content[random.randrange(len(content))] = random.choice(_EDGES)


def _set_word(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    """Put a number of 2, 4 or 8 bytes somewhere: where lengths and offsets are kept."""
    width = random.choice((2, 4, 8))
    value = random.choice(
        (0, 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1, random.getrandbits(16))
    )
    at = random.randrange(len(content) + 1)
    content[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")


def _delete(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    del content[_span(random, content)]


def _truncate(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    del content[random.randrange(len(content) + 1) :]


def _repeat(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    piece = content[_span(random, content)]
    at = random.randrange(len(content) + 1)
    content[at:at] = piece * random.choice((1, 1, 2, 30))


def _insert(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    at = random.randrange(len(content) + 1)
    content[at:at] = random.choice(_NASTY)


def _splice(random: Random, content: bytearray, others: Sequence[bytes]) -> None:
    other = random.choice(others) if others else b""
    piece = bytearray(other)[_span(random, bytearray(other))]
    content[_span(random, content)] = piece


def _change_field(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    lines = bytes(content).split(b"\n")
    at = random.randrange(len(lines))
    present = [mark for mark in _DELIMITERS if mark in lines[at]] or [b","]
    mark = random.choice(present)
    fields = lines[at].split(mark)
    fields[random.randrange(len(fields))] = random.choice(_NASTY)
    lines[at] = mark.join(fields)
    content[:] = b"\n".join(lines)


def _quote_field(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    lines = bytes(content).split(b"\n")
    at = random.randrange(len(lines))
    fields = lines[at].split(b",")
    place = random.randrange(len(fields))
    fields[place] = b'"' + fields[place] + random.choice((b'"', b'"', b"", b'""', b'" '))
    lines[at] = b",".join(fields)
    content[:] = b"\n".join(lines)


def _move_line(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    lines = bytes(content).split(b"\n")
    line = lines.pop(random.randrange(len(lines)))
    for _copy in range(random.choice((0, 1, 1, 2))):
        lines.insert(random.randrange(len(lines) + 1), line)
    content[:] = b"\n".join(lines)


def _change_all(random: Random, content: bytearray, _: Sequence[bytes]) -> None:
    """Write the whole file in another way: another delimiter, other ends of lines."""
    marks = (*_DELIMITERS, b"\n", b"\r\n", b"\r")
    content[:] = bytes(content).replace(random.choice(marks), random.choice(marks))


_OF_BYTES: tuple[Mutation, ...] = (
    _flip_bit, _set_byte, _set_word, _delete, _truncate, _repeat, _insert, _splice,
)  # fmt: skip
_OF_TEXT: tuple[Mutation, ...] = (
    _change_field,
    _change_field,
    _quote_field,
    _move_line,
    _change_all,
)

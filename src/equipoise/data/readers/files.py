"""From a path, a folder or a glob to files and the kind of file they are."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import NamedTuple

from equipoise.data.readers import chunks
from equipoise.exceptions import InvalidDataError, InvalidParameterError

FORMATS = ("csv", "parquet", "lightgcn", "movielens", "lastfm", "sqlite")
_BY_ENDING = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".db": "sqlite",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
}
_BY_FIRST_BYTES = {b"PAR1": "parquet", b"SQLite format 3\x00": "sqlite"}
_BINARY = {
    b"PK\x03\x04": "a zip archive (or Excel file)",
    b"\x1f\x8b": "gzip, but not named .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard, but not named .zst",
}
# Published folders: the file of interactions, its format, and the file of names beside it
_PUBLISHED = {
    "ratings.dat": ("movielens", "movies.dat"),
    "user_artists.dat": ("lastfm", "artists.dat"),
}
_COMPRESSED = {".gz", ".zst"}


class Files(NamedTuple):
    """Files of one kind, in order, and where their item names are, if the folder is known."""

    paths: list[Path]
    format: str
    names: Path | None = None


def find(source: str | os.PathLike[str], asked_format: str | None) -> Files:
    """Return the files behind a path, a folder or a glob."""
    if asked_format is not None and asked_format not in FORMATS:
        raise InvalidParameterError(
            f"format={asked_format!r} is not known; use one of {', '.join(FORMATS)}."
        )
    path = _named(source)
    # os.path rather than the methods of Path, which fail on names that no system allows
    if os.path.isdir(path):
        try:
            return _in_folder(path, asked_format)
        except OSError as error:
            raise InvalidDataError(f"{path} cannot be read: {error.strerror}.") from error
    if os.path.exists(path):
        _refuse_stream(path)
        paths = [path]
    else:
        paths = _matching(path)
    kinds = {each: asked_format or guess_format(each) for each in paths}
    return Files(paths, _one_kind(kinds))


def _named(source: str | os.PathLike[str]) -> Path:
    name = os.fsdecode(source)
    if not name:  # to Path it is the current folder
        raise InvalidDataError(
            "the name of the data is empty; a variable may not be set. Name a file, a folder or "
            "a glob ('.' is the current folder)."
        )
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise InvalidDataError(f"{name} cannot be found: {error} Write the path out.") from error


def _refuse_stream(path: Path) -> None:
    """Refuse what has no end, or cannot be read twice: its first lines say how to read it."""
    if not os.path.isfile(path):
        raise InvalidDataError(
            f"{path} is a pipe or a device and not a file, which is read more than once. Save "
            "what comes out of it as a file first, and read that."
        )


def _matching(pattern: Path) -> list[Path]:
    from equipoise.data.readers.databases import without_credentials

    text = str(pattern)
    shown = without_credentials(text)  # a URL with a slash too few ends up here
    if not glob.has_magic(text) or "\0" in text:
        raise InvalidDataError(f"there is no file {shown}. Check the path.")
    paths = sorted(Path(match) for match in glob.glob(text, recursive=True))
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise InvalidDataError(f"no file matches {shown}. Check the pattern and the folder.")
    return paths


def _in_folder(folder: Path, asked_format: str | None) -> Files:
    for name, (kind, names) in _PUBLISHED.items():
        if (folder / name).is_file() and asked_format in (None, kind):
            beside = folder / names
            return Files([folder / name], kind, beside if beside.is_file() else None)
    inside = sorted(folder.iterdir())
    there = [path for path in inside if path.is_file()]
    kinds = {path: _BY_ENDING.get(ending(path), "") for path in there}
    wanted = [kind for kind in ("parquet", "csv") if asked_format in (None, kind)]
    chosen = {path: kind for path, kind in kinds.items() if kind in wanted}
    if chosen:
        return Files(list(chosen), _one_kind(chosen))
    folders = [path.name for path in inside if path.is_dir()]
    if folders and not there:
        raise InvalidDataError(
            f"the folder {folder} holds only folders: {', '.join(folders[:8])}. Name one of them, "
            f"or all files below it with a glob such as {str(folder / '**' / '*.parquet')!r}."
        )
    raise InvalidDataError(
        f"the folder {folder} has no Parquet or CSV files"
        + (f" to read as {asked_format}" if asked_format else "")
        + f"; it holds: {', '.join(path.name for path in there[:8]) or 'no files'}. "
        "Name a file or a glob."
    )


def _one_kind(kinds: dict[Path, str]) -> str:
    if len(set(kinds.values())) > 1:
        one, *others = kinds
        other = next(path for path in others if kinds[path] != kinds[one])
        raise InvalidDataError(
            f"{one} looks like {kinds[one]} and {other} like {kinds[other]}. Read one kind at a "
            "time, or say which with format= (--format)."
        )
    return next(iter(kinds.values()))


def ending(path: Path) -> str:
    """Return the ending in lower case, that of the text inside for a compressed file."""
    inner = path.with_suffix("") if _is_packed(path) else path
    return inner.suffix.lower()


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() in _COMPRESSED


def guess_format(path: Path) -> str:
    """Tell the kind of a file from its first bytes, then its ending, then its first lines."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise InvalidDataError(f"{path} cannot be read: {error.strerror}.") from error
    for mark, kind in _BY_FIRST_BYTES.items():
        if start.startswith(mark):
            return kind
    for mark, what in _BINARY.items():
        if start.startswith(mark) and not _is_packed(path):
            raise InvalidDataError(f"{path} is {what}, which is not read. Unpack it first.")
    return _BY_ENDING.get(ending(path)) or _guess_text(path)


def _guess_text(path: Path) -> str:
    first = chunks.head(path)
    if b"\x00" in first:
        raise InvalidDataError(
            f"{path} is of no known format: it is not text, Parquet or SQLite. Convert it, or "
            f"say what it is with format= (--format): {', '.join(FORMATS)}."
        )
    lines = [line.split() for line in first.decode("utf-8", "replace").split("\n")]
    lines = [tokens for tokens in lines if tokens]
    if lines and "::" in lines[0][0]:
        return "movielens"
    if lines and path.name == "user_artists.dat":
        return "lastfm"
    if not lines or b"\t" in first or not all(t.isdecimal() for row in lines for t in row):
        return "csv"
    return _lines_of_numbers(path, lines)


def _lines_of_numbers(path: Path, lines: list[list[str]]) -> str:
    """Tell LightGCN's lines (one per user, any length) from a table of numbers and spaces."""
    widths = {len(row) for row in lines}
    if len(widths) > 1 or max(widths) > 4:
        return "lightgcn"
    one_line_per_user = len({row[0] for row in lines}) == len(lines)
    if one_line_per_user and len(lines) > 1 and widths != {2}:
        raise InvalidDataError(
            f"{path} could be LightGCN text (user item item ...) or a table (user item value). "
            "Say which: format='lightgcn' or format='csv' (--format)."
        )
    return "csv"

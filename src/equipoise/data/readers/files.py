"""From a path, a folder or a glob to files and their format."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import NamedTuple

from equipoise.data.readers.text import head
from equipoise.exceptions import InvalidDataError, InvalidParameterError, explained

FORMATS = ("csv", "parquet", "lightgcn", "movielens", "lastfm", "sqlite")
_BY_ENDING = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".csv", ".tsv", ".tab"), "csv"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3"), "sqlite"),
}
_BY_FIRST_BYTES = {b"PAR1": "parquet", b"SQLite format 3\x00": "sqlite"}
_ZIP = b"PK\x03\x04"
_NOT_READ = {
    _ZIP: "a zip archive (or Excel file)",
    b"\x1f\x8b": "gzip, but not named .gz",
    b"\x28\xb5\x2f\xfd": "Zstandard, but not named .zst",
}
# Published folders: the file of interactions, its format, and its file of item names
_PUBLISHED = {
    "ratings.dat": ("movielens", "movies.dat"),
    "user_artists.dat": ("lastfm", "artists.dat"),
}
_COMPRESSED = {".gz", ".zst"}


class Files(NamedTuple):
    """Files of one format, in order, and their file of item names in a published folder."""

    paths: list[Path]
    format: str
    names: Path | None = None


def find(
    source: str | os.PathLike[str], asked_format: str | None, *, has_columns: bool = False
) -> Files:
    """Return the files of a path, a folder or a glob; with `has_columns` they are tables."""
    if asked_format is not None and asked_format not in FORMATS:
        raise InvalidParameterError(
            f"format={asked_format!r} is not known; use one of {', '.join(FORMATS)}."
        )
    path = _path(source)
    # os.path returns False for names that the system does not allow, where Path raises
    if os.path.isdir(path):
        with explained(f"{path} cannot be read", OSError):
            return _in_folder(path, asked_format)
    paths = [path] if os.path.exists(path) else _matching(path)
    _refuse_pipe(paths[0])
    formats = {each: asked_format or guess_format(each, has_columns) for each in paths}
    return Files(paths, _one_format(formats))


def _path(source: str | os.PathLike[str]) -> Path:
    name = os.fsdecode(source)
    if not name:  # Path("") is the current folder
        raise InvalidDataError(
            "the path of the data is empty; a variable may not be set. Give a file, a folder or a "
            "glob ('.' is the current folder)."
        )
    with explained(f"{name} cannot be found; use the full path", RuntimeError):
        return Path(name).expanduser()


def _refuse_pipe(path: Path) -> None:
    if not os.path.isfile(path):
        raise InvalidDataError(
            f"{path} is a pipe or a device, not a file. Its first lines are read twice, so save "
            "its output as a file and read that."
        )


def _matching(pattern: Path) -> list[Path]:
    from equipoise.data.readers.sql import without_credentials

    text = str(pattern)
    shown = without_credentials(text)  # a database URL with a missing slash is not a URL
    if not glob.has_magic(text) or "\0" in text:
        raise InvalidDataError(f"there is no file {shown}. Check the path.")
    matches = map(Path, sorted(glob.glob(text, recursive=True)))
    paths = [path for path in matches if path.is_file()]
    if not paths:
        raise InvalidDataError(f"no file matches {shown}. Check the pattern and the folder.")
    return paths


def _in_folder(folder: Path, asked_format: str | None) -> Files:
    for name, (kind, names) in _PUBLISHED.items():
        if (folder / name).is_file() and asked_format in (None, kind):
            item_names = folder / names
            return Files([folder / name], kind, item_names if item_names.is_file() else None)
    inside = sorted(folder.iterdir())
    files = [path for path in inside if path.is_file()]
    formats = {path: _BY_ENDING.get(_ending(path), "") for path in files}
    wanted = [kind for kind in ("parquet", "csv") if asked_format in (None, kind)]
    chosen = {path: kind for path, kind in formats.items() if kind in wanted}
    if chosen:
        return Files(list(chosen), _one_format(chosen))
    if inside and not files:
        raise InvalidDataError(
            f"the folder {folder} contains only folders: {_first_names(inside)}. Give one of them, "
            f"or all files below it with a glob such as {str(folder / '**' / '*.parquet')!r}."
        )
    raise InvalidDataError(
        f"the folder {folder} has no Parquet or CSV files"
        + (f" to read as {asked_format}" if asked_format else "")
        + f"; it contains: {_first_names(files) or 'no files'}. Give a file or a glob."
    )


def _first_names(paths: list[Path]) -> str:
    return ", ".join(path.name for path in paths[:8])


def _one_format(formats: dict[Path, str]) -> str:
    (one, kind), *others = formats.items()
    for other, its_kind in others:
        if its_kind != kind:
            raise InvalidDataError(
                f"{one} looks like {kind} and {other} like {its_kind}. Read one format at a time, "
                "or choose one with format= (--format)."
            )
    return kind


def is_compressed(path: Path) -> bool:
    """Return whether the ending is that of a compressed file."""
    return path.suffix.lower() in _COMPRESSED


def _ending(path: Path) -> str:
    """Return the ending in lower case, without that of the compression."""
    inner = path.with_suffix("") if is_compressed(path) else path
    return inner.suffix.lower()


def guess_format(path: Path, has_columns: bool = False) -> str:
    """Detect the format from the first bytes, the ending, or the first lines."""
    with explained(f"{path} cannot be read", OSError), path.open("rb") as file:
        start = file.read(16)
    for mark, kind in _BY_FIRST_BYTES.items():
        if start.startswith(mark):
            return kind
    if path.suffix.lower() == ".eqp" and start.startswith(_ZIP):
        raise InvalidDataError(
            f"{path} is a saved model, not a table of interactions. Did you swap "
            "MODEL and DATA? The audit of a model takes both: DATA --model MODEL."
        )
    for mark, what in _NOT_READ.items():
        if start.startswith(mark) and path.suffix.lower() not in _COMPRESSED:
            raise InvalidDataError(f"{path} is {what}, which is not read. Decompress it first.")
    return _BY_ENDING.get(_ending(path)) or _guess_text(path, has_columns)


def _guess_text(path: Path, has_columns: bool) -> str:
    first = head(path)
    if b"\x00" in first:
        raise InvalidDataError(
            f"{path} has an unknown format: it is not text, Parquet or SQLite. Convert it, or set "
            f"format= (--format): {', '.join(FORMATS)}."
        )
    lines = [line.split() for line in first.decode("utf-8", "replace").split("\n")]
    lines = [tokens for tokens in lines if tokens]
    if lines and "::" in lines[0][0]:
        return "movielens"
    if lines and path.name == "user_artists.dat":
        return "lastfm"
    whole_numbers = all(token.isdecimal() for row in lines for token in row)
    if not lines or has_columns or b"\t" in first or not whole_numbers:
        return "csv"
    # all integers: LightGCN has one line per user, of any length
    widths = {len(row) for row in lines}
    if len(widths) > 1 or max(widths) > 4:
        return "lightgcn"
    if len({row[0] for row in lines}) == len(lines) > 1 and widths != {2}:
        raise InvalidDataError(
            f"{path} could be LightGCN text (user item item ...) or a table (user item value). "
            "Choose with format='lightgcn' or format='csv' (--format), or name columns."
        )
    return "csv"

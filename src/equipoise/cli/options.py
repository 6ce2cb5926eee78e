"""The words that all commands share: an option, and how its text is read, exist once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.exceptions import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from equipoise.data import Interactions, Split
    from equipoise.data.readers import Columns

INTERRUPTED = 130

# Panels of --help, in all commands the same.
_READING, PREPARING = "Reading the data", "Preparing the data"
_HOLDING_OUT, OUTPUT = "Hold-out", "Output"

Data = Annotated[str, typer.Argument(help="File, folder, glob or database URL.", metavar="DATA")]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        "--user-column",
        help="Column of the users.",
        metavar="NAME",
        rich_help_panel=_READING,
    ),
]
Item = Annotated[
    str | None,
    typer.Option(
        "--item",
        "--item-column",
        help="Column of the items.",
        metavar="NAME",
        rich_help_panel=_READING,
    ),
]
# Where --user and --item are ids, as in explain, the columns have these names alone.
UserColumn = Annotated[
    str | None,
    typer.Option(help="Column of the users.", metavar="NAME", rich_help_panel=_READING),
]
ItemColumn = Annotated[
    str | None,
    typer.Option(help="Column of the items.", metavar="NAME", rich_help_panel=_READING),
]
Value = Annotated[
    str | None,
    typer.Option(
        help="Column of the values; '' for none.", metavar="NAME", rich_help_panel=_READING
    ),
]
Timestamp = Annotated[
    str | None, typer.Option(help="Column of the times.", metavar="NAME", rich_help_panel=_READING)
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="What stands between cells; default: told by the first lines.",
        metavar="TEXT",
        rich_help_panel=_READING,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="csv, parquet, lightgcn, movielens, lastfm, sqlite; default: told by the file.",
        rich_help_panel=_READING,
    ),
]
Query = Annotated[
    str | None,
    typer.Option(help="SQL, for a database.", metavar="SQL", rich_help_panel=_READING),
]
MinItems = Annotated[
    int,
    typer.Option(
        help="Keep users with so many items.", min=0, metavar="N", rich_help_panel=PREPARING
    ),
]
MinUsers = Annotated[
    int,
    typer.Option(
        help="Then keep items with so many users.", min=0, metavar="N", rich_help_panel=PREPARING
    ),
]
Binarize = Annotated[
    bool,
    typer.Option("--binarize", help="Count every interaction as 1.", rich_help_panel=PREPARING),
]
Normalize = Annotated[
    bool,
    typer.Option(
        "--normalize-rows",
        help="Divide every user's values by their sum.",
        rich_help_panel=PREPARING,
    ),
]
DropUnknown = Annotated[
    bool,
    typer.Option(
        "--drop-unknown-items",
        help="Leave out items that the model lacks.",
        rich_help_panel=PREPARING,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="per_user_random, leave_last_n, temporal or by_user.",
        metavar="NAME",
        rich_help_panel=_HOLDING_OUT,
    ),
]
TestShare = Annotated[
    float,
    typer.Option("--test", help="Share to report on.", min=0, max=1, rich_help_panel=_HOLDING_OUT),
]
ValidationShare = Annotated[
    float,
    typer.Option(
        "--validation", help="Share to tune on.", min=0, max=1, rich_help_panel=_HOLDING_OUT
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the split.", min=0, rich_help_panel=_HOLDING_OUT)]
Groups = Annotated[str, typer.Option(help="Popularity groups: interactions, items or head80.")]
ZeroDivision = Annotated[
    float,
    typer.Option(
        help="Value for users without held-out items: nan (left out) or 0 (as the paper).",
        metavar="NUMBER",
    ),
]
Folder = Annotated[Path | None, typer.Option("--cache", help="Folder to resume from.")]
Names = Annotated[
    Path | None,
    typer.Option("--names", help="File of item ids and names (CSV, Parquet, movies.dat …)."),
]
ModelFile = Annotated[Path, typer.Argument(help="What equipoise fit wrote.", metavar="MODEL")]
Length = Annotated[int, typer.Option("-N", help="How many to list.", min=1, metavar="N")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=OUTPUT),
]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", help="Write the whole table here.", rich_help_panel=OUTPUT),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw into this .png, .svg or .pdf.", rich_help_panel=OUTPUT),
]


def interrupted(n_done: int, cache: Path | None) -> int:
    """Say what is there after Ctrl-C, and return the exit code."""
    advice = "Run again with the same --cache to go on." if cache else "--cache DIR would keep it."
    console.say(f"interrupted: {n_done} rows were done. {advice}")
    return INTERRUPTED


def shown(data: str) -> str:
    """How output may call the data: a database's URL without user and password."""
    from equipoise.data.readers.sql import without_credentials

    return without_credentials(data)


def read(
    data: str,
    user: str | None,
    item: str | None,
    value: str | None,
    timestamp: str | None,
    file_format: str | None,
    query: str | None,
    delimiter: str | None = None,
) -> Interactions:
    """Read the table that the command line names."""
    from equipoise.data import Interactions
    from equipoise.data.readers import Columns

    loaded = Interactions.read(
        data,
        user=user,
        item=item,
        value=value,
        timestamp=timestamp,
        delimiter=delimiter,
        format=file_format,
        query=query,
        progress=console.progress(),
    )
    _note_words_read_as_ids(data, Columns(user, item, value, timestamp), delimiter, file_format)
    return loaded


def _note_words_read_as_ids(
    data: str, columns: Columns, delimiter: str | None, file_format: str | None
) -> None:
    """Say that a first line of words was read as an interaction: it may be a header."""
    from equipoise.data.readers import Options, words_without_header

    first = words_without_header(data, Options(columns, delimiter, format=file_format))
    if first:
        console.say(
            f"note: {shown(data)} has no header that is known; its first line, "
            f"{', '.join(first)}, is read as an interaction. If it is a header, name its columns "
            "with --user and --item."
        )


def prepare(
    interactions: Interactions,
    min_items_per_user: int,
    min_users_per_item: int,
    binarize: bool,
    normalize_rows: bool,
) -> Interactions:
    """Filter, binarize, normalize, in this order."""
    if min_items_per_user or min_users_per_item:
        interactions = interactions.filter(min_users_per_item, min_items_per_user)
    if binarize:
        interactions = interactions.binarize()
    if normalize_rows:
        interactions = interactions.normalize_rows()
    console.say(repr(interactions))
    return interactions


def check_table_paths(
    data: str,
    file_format: str | None,
    cache: Path | None,
    csv: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Check what `evaluate` and `tune` read and write, before the work."""
    from equipoise.cli import paths

    paths.check(
        outputs={"--csv": csv, "--plot": plot},
        data=data,
        file_format=file_format,
        folder=cache,
        printed=as_json,
    )


def hold_out(
    interactions: Interactions, method: str, test: float, validation: float, seed: int
) -> Split:
    """Split as the command line says; errors name its options, not Python's arguments alone."""
    from equipoise.data import holdout

    try:
        return holdout(interactions, method=method, test=test, validation=validation, seed=seed)  # type: ignore[arg-type]  # holdout refuses other names
    except InvalidDataError as error:
        raise InvalidDataError(
            f"{error} The options are --test, --validation and --min-items-per-user."
        ) from error


def words(text: str) -> list[str]:
    """Split at commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def plain_value(word: str) -> Any:
    """Read none, true, false, a whole number, a number, or else the word itself.

    Examples
    --------
    >>> [plain_value(word) for word in ("None", "8", "1e-3", "ridge")]
    [None, 8, 0.001, 'ridge']
    """
    plain = {"none": None, "true": True, "false": False}
    if word.lower() in plain:
        return plain[word.lower()]
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


def integers(text: str, option: str) -> list[int]:
    """Read whole numbers between commas."""
    try:
        return [int(word) for word in words(text)]
    except ValueError:
        raise InvalidParameterError(
            f"{option} takes whole numbers with commas between them, got {text!r}."
        ) from None


def numbers(text: str, option: str) -> list[float]:
    """Read numbers between commas."""
    try:
        return [float(word) for word in words(text)]
    except ValueError:
        raise InvalidParameterError(
            f"{option} takes numbers with commas between them, got {text!r}."
        ) from None


def spectral_filter(text: str, option: str) -> tuple[str, float]:
    """Read hard, power:S or ridge:RHO."""
    kind, _, strength = text.partition(":")
    try:
        return kind, float(strength or 0)
    except ValueError:
        raise InvalidParameterError(
            f"{option} takes hard, power:S or ridge:RHO, got {text!r}."
        ) from None

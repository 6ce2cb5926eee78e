"""The options that commands share: each is written once, with its default and its meaning."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints
from urllib.parse import unquote

import typer
from typer.core import TyperCommand, TyperGroup

from equipoise.cli import console
from equipoise.exceptions import EquipoiseError, InvalidDataError, InvalidParameterError
from equipoise.files import require_folder, require_writable

if TYPE_CHECKING:
    from equipoise.data import Interactions, Split

INTERRUPTED = 130

# Panels of --help, the same in all commands.
PREPARING, OUTPUT = "Preparing the data", "Output"
_FORMATS = "csv, parquet, lightgcn, movielens, lastfm or sqlite"
_METHODS = "per_user_random, leave_last_n, temporal or by_user"
_HOLDOUT = "equipoise.data:holdout"

# URLs of files on this machine; other URLs lead to nothing that a command could overwrite
_LOCAL_URL = re.compile(r"(?:sqlite(?:\+pysqlite)?:///|file://)(?P<path>[^?]+)", re.IGNORECASE)


class DefaultOf:
    """The default of a Python function's parameter, found when a command needs it.

    Importing the function at once would load NumPy for ``equipoise --help``.
    """

    def __init__(self, function: str, parameter: str) -> None:
        self._function, self._parameter = function, parameter

    def __call__(self) -> Any:
        """Import the function and return the default."""
        module, _, name = self._function.partition(":")
        function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        return inspect.signature(function).parameters[self._parameter].default  # type: ignore[arg-type]  # a function

    def __str__(self) -> str:
        """Return the default as help shows it."""
        return str(self())


def option(text: str, metavar: str, *names: str, default_of: str = "", **more: Any) -> Any:
    """Declare an option with a value; `metavar` is what help shows for the value.

    `default_of` is module:function.parameter, whose default is that of the option.
    """
    if default_of:
        more["default_factory"] = DefaultOf(*default_of.rsplit(".", 1))
    return typer.Option(*names, help=text, metavar=metavar, **more)


def flag(text: str, *names: str, **more: Any) -> Any:
    """Declare an option without a value."""
    return typer.Option(*names, help=text, metavar="", **more)


_reading = functools.partial(option, rich_help_panel="Reading the data")
_large = functools.partial(option, rich_help_panel="Data larger than memory")
_preparing = functools.partial(option, rich_help_panel=PREPARING)
_split = functools.partial(option, rich_help_panel="Split")
output = functools.partial(option, rich_help_panel=OUTPUT)

GAMMA = "Exponent of the item weights: popularity to this power; 0 is plain PCA."
CUTOFF = "List length of the metrics that name none."

Data = Annotated[str, typer.Argument(help="File, folder, glob or database URL.", metavar="DATA")]
ModelFile = Annotated[Path, typer.Argument(help="File written by equipoise fit.", metavar="MODEL")]
Names = Annotated[
    Path | None, option("File of item ids and names (CSV, Parquet, movies.dat …).", "FILE")
]
Length = Annotated[
    int,
    option(
        "Items per list.",
        "K",
        "-k",
        "-N",
        min=1,
        default_of="equipoise.models:Recommender.recommend.k",
    ),
]
Cutoff = Annotated[int, option(CUTOFF, "K", "-k", min=1, default_of="equipoise.evaluation:tune.k")]
Groups = Annotated[
    str,
    option(
        "Popularity groups: interactions, items or head80.",
        "RULE",
        default_of="equipoise.evaluation:evaluate.groups",
    ),
]
ZeroDivision = Annotated[
    float,
    option(
        "Value for users without held-out items: nan (left out) or 0 (as in the paper).",
        "NUMBER",
        default_of="equipoise.evaluation:evaluate.zero_division",
    ),
]
DropUnknown = Annotated[
    bool,
    flag(
        "Leave out items that the model lacks.", "--drop-unknown-items", rich_help_panel=PREPARING
    ),
]
AsJson = Annotated[bool, flag("Print JSON instead of a table.", "--json", rich_help_panel=OUTPUT)]


class Interrupted(Exception):  # noqa: N818 (an order, not an error)
    """Ctrl-C in a form that typer does not turn into an exit code."""


class _WithoutTypes:
    """Help without the types of values (<str>, <bool>), which mean nothing to many users."""

    def get_params(self, context: Any) -> list[Any]:
        found: list[Any] = super().get_params(context)  # type: ignore[misc]  # of a command
        for each in found:
            if each.param_type_name == "argument":  # its metavar is its name
                each.display_type_rich = lambda **_: None
            elif each.metavar is None:  # flags that typer adds, such as --help
                each.metavar = ""
        return found


class Command(_WithoutTypes, TyperCommand):
    """A command whose help shows no types."""


class Group(_WithoutTypes, TyperGroup):
    """A group of commands whose help shows no types."""


def expand_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn each parameter that is a dataclass of options into those options.

    Typer sees one parameter per field; the command receives the filled dataclass.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any]
    groups = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in own
        for parameter in (_parameters_of(groups[each.name]) if each.name in groups else [each])
    ]

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        try:
            return command(**given)
        except KeyboardInterrupt:
            raise Interrupted from None

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect documents
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameters_of(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        each.replace(annotation=hints[each.name])
        for each in inspect.signature(group).parameters.values()
    ]


@dataclass(frozen=True)
class DataOptions:
    """How DATA is read and prepared."""

    user: Annotated[str | None, _reading("Column of the users.", "NAME")] = None
    item: Annotated[str | None, _reading("Column of the items.", "NAME")] = None
    value: Annotated[str | None, _reading("Column of the values; '' for none.", "NAME")] = None
    timestamp: Annotated[str | None, _reading("Column of the times; '' for none.", "NAME")] = None
    delimiter: Annotated[str | None, _reading("Field delimiter (default: detected).", "TEXT")] = (
        None
    )
    format: Annotated[str | None, _reading(f"{_FORMATS} (default: detected).", "NAME")] = None
    query: Annotated[str | None, _reading("Query that returns the interactions.", "SQL")] = None
    memory: Annotated[
        str | None, _large("Keep DATA in blocks on disk, using about this much memory.", "4GB")
    ] = None
    scheduler: Annotated[
        str | None,
        _large(
            "Run on this Dask cluster; its workers must be able to read DATA.", "TCP://HOST:PORT"
        ),
    ] = None
    min_items_per_user: Annotated[
        int, _preparing("Keep users with at least N items.", "N", min=0)
    ] = 0
    min_users_per_item: Annotated[
        int, _preparing("Then keep items with at least N users.", "N", min=0)
    ] = 0
    binarize: Annotated[
        bool, flag("Count every interaction as 1.", "--binarize", rich_help_panel=PREPARING)
    ] = False
    normalize_rows: Annotated[
        bool,
        flag(
            "Divide each user's values by their sum.", "--normalize-rows", rich_help_panel=PREPARING
        ),
    ] = False

    def read(self, data: str, *, normalize: bool = True) -> Interactions:
        """Read DATA, filter, binarize, normalize, in this order; `normalize` allows the last."""
        from equipoise.data import Interactions

        self._refuse_what_blocks_cannot_read()
        interactions = Interactions.read(
            data,
            **self._columns,
            delimiter=self.delimiter,
            format=self.format,
            query=self.query,
            memory=self.memory,
            client=self.scheduler,
            progress=console.progress(),
        )
        self._note_words_read_as_ids(data)
        return self.prepare(interactions, normalize=normalize)

    def prepare(self, interactions: Interactions, *, normalize: bool = True) -> Interactions:
        """Filter, binarize, normalize, in this order."""
        if self.min_items_per_user or self.min_users_per_item:
            interactions = interactions.filter(self.min_users_per_item, self.min_items_per_user)
        if self.binarize:
            interactions = interactions.binarize()
        if self.normalize_rows and normalize:
            interactions = interactions.normalize_rows()
        console.say(repr(interactions))
        return interactions

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

    def files(self, data: str | None) -> list[Path]:
        """Return the files on this machine that DATA names."""
        from equipoise.data.readers import files, sql

        local = None if data is None else _LOCAL_URL.match(data)
        if data is None or (sql.is_url(data) and local is None):
            return []
        text = os.path.expanduser(data if local is None else unquote(local["path"]))
        if os.path.isfile(text):
            return [Path(text)]
        try:
            found = files.find(text, self.format)
        except EquipoiseError:  # reading reports it
            return []
        return [*found.paths, *([] if found.names is None else [found.names])]

    @property
    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("user", "item", "value", "timestamp")}

    def _refuse_what_blocks_cannot_read(self) -> None:
        if self.memory is not None and self.scheduler is not None:
            raise InvalidParameterError(
                "--memory keeps DATA on disk, --scheduler on a cluster. Give one of them."
            )
        place, idle = "--memory", ["query"]
        if self.scheduler is not None:
            place, idle = "--scheduler", ["query", "delimiter", "format"]
        elif self.memory is None:
            return
        for name in idle:
            if getattr(self, name) is not None:
                raise InvalidParameterError(
                    f"--{name} cannot be used with {place}. Leave it out, or convert DATA to "
                    "Parquet first."
                )

    def _note_words_read_as_ids(self, data: str) -> None:
        """Report a first line of words that was read as an interaction: it may be a header."""
        from equipoise.data.readers import Columns, Options, words_without_header

        if self.scheduler is not None:  # Parquet, which has named columns
            return
        columns = Columns(**self._columns)
        first = words_without_header(data, Options(columns, self.delimiter, format=self.format))
        if first:
            console.say(
                f"note: {shown(data)} has no known header. Its first line, {', '.join(first)}, is "
                "read as an interaction. If it is a header, name the columns with --user and "
                "--item."
            )


@dataclass(frozen=True)
class SplitOptions:
    """Which interactions are held out."""

    method: Annotated[str, _split(f"{_METHODS}.", "NAME", default_of=f"{_HOLDOUT}.method")]
    test: Annotated[
        float, _split("Share for the final scores.", "SHARE", default_of=f"{_HOLDOUT}.test")
    ]
    validation: Annotated[
        float, _split("Share for choosing settings.", "SHARE", default_of=f"{_HOLDOUT}.validation")
    ]
    seed: Annotated[int, _split("Random seed.", "N", min=0, default_of=f"{_HOLDOUT}.seed")]

    def split(self, interactions: Interactions) -> Split:
        """Hold out; errors name the options, not only Python's arguments."""
        from equipoise.data import holdout

        try:
            return holdout(interactions, **asdict(self))
        except (InvalidDataError, InvalidParameterError) as error:
            raise type(error)(
                f"{error} The options are --test, --validation and --min-items-per-user."
            ) from error


@dataclass(frozen=True)
class GridOptions:
    """Values of parameters to try, in every combination."""

    grid: Annotated[
        list[str] | None,
        option("Values of any parameter; may be repeated.", "NAME=VALUE,VALUE"),
    ] = None
    ranks: Annotated[str | None, option("Components, e.g. 8,16,32.", "LIST")] = None
    gammas: Annotated[
        str | None, option("Exponents of the item weights, e.g. -1,-0.5.", "LIST")
    ] = None

    def axes(self) -> dict[str, list[Any]]:
        """Return the values by parameter."""
        axes = {}
        for text in self.grid or []:
            name, values = assignment(text, "--grid")
            axes[name] = [plain_value(word) for word in words(values)]
        if self.ranks is not None:
            axes["n_components"] = numbers(self.ranks, "--ranks", int)
        if self.gammas is not None:
            axes["gamma"] = numbers(self.gammas, "--gammas")
        return axes


@dataclass(frozen=True)
class TableOptions:
    """Where `evaluate` and `tune` keep and write their results."""

    cache: Annotated[Path | None, option("Folder of finished work, to resume.", "DIR")] = None
    as_json: AsJson = False
    csv: Annotated[Path | None, output("Write the whole table here.", "FILE")] = None
    plot: Annotated[Path | None, output("Draw a chart: .png, .svg or .pdf.", "FILE")] = None

    def check(self, inputs: Iterable[Path]) -> None:
        """Check the outputs before the work."""
        check_outputs({"--csv": self.csv, "--plot": self.plot}, inputs)
        if self.cache is not None:
            require_folder(self.cache)

    def interrupted(self, n_done: int) -> int:
        """Report what is done after Ctrl-C, and return the exit code."""
        advice = "--cache DIR would keep it."
        if self.cache is not None:
            advice = "Run again with the same --cache to continue."
        console.say(f"interrupted: {n_done} rows are done. {advice}")
        return INTERRUPTED


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse, before the work, outputs that are inputs or each other, or cannot be written."""
    written = [(name, path) for name, path in outputs.items() if path is not None]
    read = [("an input", path) for path in inputs if path is not None]
    for (name, path), (other, its_path) in itertools.chain(
        itertools.product(written, read), itertools.combinations(written, 2)
    ):
        if _is_same_file(path, its_path):
            raise InvalidParameterError(
                f"{name} {path} is the same file as {other} ({its_path}). Write to another file."
            )
    for _, path in written:
        require_writable(path)


def _is_same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, through any links; devices do not count."""
    if one.exists() and not one.is_file():
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def shown(data: str) -> str:
    """Return the name of the data for output: a database URL without user and password."""
    from equipoise.data.readers.sql import without_credentials

    return without_credentials(data)


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


def show_value(value: Any) -> str:
    """Return a parameter's value as text that `plain_value` reads."""
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def assignment(text: str, name: str) -> tuple[str, str]:
    """Split NAME=VALUE, the value of the option called `name`."""
    parameter, sign, value = (part.strip() for part in text.partition("="))
    if not (parameter and sign and value):
        raise InvalidParameterError(f"{name} takes NAME=VALUE, got {text!r}.")
    return parameter, value


def numbers(text: str, name: str, kind: type[int] | type[float] = float) -> list[Any]:
    """Read numbers between commas."""
    try:
        return [kind(word) for word in words(text)]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{name} takes {what} separated by commas, got {text!r}."
        ) from None

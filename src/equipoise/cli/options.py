"""The options that commands share, and what their texts mean."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.exceptions import EquipoiseError, InvalidParameterError, require_extra
from equipoise.files import require_folder, require_writable

INTERRUPTED = 130

# URLs of files on this machine; other URLs lead to nothing that a command could overwrite
_LOCAL_URL = re.compile(r"(?:sqlite(?:\+pysqlite)?:///|file://)(?P<path>[^?]+)", re.IGNORECASE)


_OUTPUTS = {"--out", "-o", "--csv", "--plot"}


class Options:
    """Base class of options that a printed command repeats."""

    def given(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        every = asdict(self).items()  # type: ignore[call-overload]  # a subclass is a dataclass
        return {name: value for name, value in every if value != getattr(type(self), name)}


@dataclass(frozen=True)
class DataOptions(Options):
    """How DATA is read and prepared."""

    user: str | None = None
    item: str | None = None
    value: str | None = None
    timestamp: str | None = None
    delimiter: str | None = None
    format: str | None = None
    query: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    memory: str | None = None
    scheduler: str | None = None
    min_items_per_user: int = 0
    min_users_per_item: int = 0
    binarize: bool = False
    normalize_rows: bool = False

    def like(self, model: lib.Recommender) -> DataOptions:
        """Return options that name the columns of the fit where the command line names none."""
        fitted: Mapping[str, Any] = next(
            (step.settings for step in model.preparation_ if step.name == "read"), {}
        )
        missing = [name for name, given in self._columns.items() if given is None]
        return replace(self, **{name: fitted[name] for name in missing if name in fitted})

    def read(self, data: str) -> lib.Interactions:
        """Read DATA, filter, binarize, normalize, in this order."""
        self._refuse_what_blocks_cannot_read()
        interactions = lib.Interactions.read(
            data,
            **self._columns,
            **self._text,
            memory=self.memory,
            client=self.scheduler,
            progress=console.progress(),
        )
        self._note_words_read_as_ids(data)
        if self.min_items_per_user or self.min_users_per_item:
            interactions = interactions.filter(self.min_users_per_item, self.min_items_per_user)
        if self.binarize:
            interactions = interactions.binarize()
        if self.normalize_rows:
            interactions = interactions.normalize_rows()
        console.say(repr(interactions))
        return interactions

    @property
    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("user", "item", "value", "timestamp")}

    @property
    def _text(self) -> dict[str, Any]:
        names = ("delimiter", "format", "query", "decimal", "date_format")
        return {name: getattr(self, name) for name in names}

    def names(self, data: str, names: str | None) -> Any:
        """Return the names of --names: a path, or names by id from DATA; None without."""
        return lib.names_in(data, names, item=self.item, **self._text)

    def _refuse_what_blocks_cannot_read(self) -> None:
        unread = {"memory": ["query"], "scheduler": list(self._text)}
        pairs = [(place, name) for place, names in unread.items() for name in names]
        for place, name in pairs:
            if getattr(self, place) is not None and getattr(self, name) is not None:
                raise InvalidParameterError(
                    f"--{name.replace('_', '-')} cannot be used with --{place}. Leave it out, or "
                    "convert DATA to Parquet first."
                )

    def _note_words_read_as_ids(self, data: str) -> None:
        """Report a first line of words that was read as an interaction: it may be a header."""
        if self.scheduler is not None:  # Parquet, which has named columns
            return
        first = lib.readers.words_without_header(
            data, lib.readers.Options(lib.readers.Columns(**self._columns), **self._text)
        )
        if first:
            console.say(
                f"note: {shown(data)} has no known header. Its first line, {', '.join(first)}, is "
                "read as an interaction. If it is a header, name the columns with --user and "
                "--item."
            )


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """Files of a split, instead of DATA."""

    train: str | None = None
    validation: str | None = None
    test: str | None = None
    history: str | None = None

    def check(self, data: str | None, reading: DataOptions) -> None:
        """Refuse a mixture of DATA and files, and options that files cannot have."""
        if self.train is None:
            if data is None:
                raise InvalidParameterError("give DATA, or --train FILE and --test FILE.")
            if self.history is not None:
                raise InvalidParameterError("--history is for --train, which is missing.")
            return
        if data is not None or self.test is None:
            raise InvalidParameterError(
                f"--train {self.train} needs --test FILE, and no DATA: the files are its parts."
            )
        whole = ("memory", "scheduler", "min_items_per_user", "min_users_per_item")
        for name in (*whole, "normalize_rows"):
            if name in reading.given():
                raise InvalidParameterError(
                    f"--{name.replace('_', '-')} is for whole tables, not for --train. Use it "
                    "when you split: equipoise split DATA."
                )

    def read_parts(self, reading: DataOptions) -> lib.Split:
        """Read the files, matched by id."""
        sources = (self.train, self.validation, self.test, self.history)
        parts = [None if source is None else reading.read(source) for source in sources]
        split = lib.Split.read(*parts)
        known = split.train_validation.popularity() + split.seen_before_test.popularity()
        cold = int(((split.test.popularity() > 0) & (known == 0)).sum())
        if cold:
            console.say(f"note: {cold:,} items of --test are in no other part; they stay unknown.")
        return split


@dataclass(frozen=True, kw_only=True)
class HoldoutOptions:
    """Which interactions are held out."""

    validation: str | None = None
    test: str | None = None
    method: str = defaults.HOLDOUT
    n: int = defaults.LAST_N
    seed: int = defaults.SEED

    def plan(self) -> dict[str, Any]:
        """Return the arguments of `holdout`; refuse those that make no sense."""
        shares = {"test": self.test, "validation": self.validation}
        options: dict[str, Any] = {"method": self.method, "n": self.n, "seed": self.seed}
        for name, text in shares.items():
            if text is not None:
                problem = f"--{name} takes a share, e.g. 0.2, or with --train a file"
                options[name] = number(text, problem)
        lib.split.check_plan(**{"test": defaults.TEST, "validation": defaults.VALIDATION} | options)
        return options

    def hold_out(self, interactions: lib.Interactions) -> lib.Split:
        """Hold out some of the interactions."""
        return lib.holdout(interactions, **self.plan())


@dataclass(frozen=True, kw_only=True)
class SplitOptions(PartOptions, HoldoutOptions):
    """Files of a split, or which interactions of DATA are held out."""

    def check(self, data: str | None, reading: DataOptions) -> None:
        """Refuse, before the data are read, what cannot be split."""
        super().check(data, reading)
        if data is not None:
            self.plan()

    def read(self, data: str | None, reading: DataOptions) -> lib.Split:
        """Read the parts; or DATA, and hold out."""
        self.check(data, reading)
        return self.read_parts(reading) if data is None else self.hold_out(reading.read(data))


@dataclass(frozen=True)
class GroupOptions(Options):
    """Groups of items and of users from files."""

    item_groups: str | None = None
    user_groups: str | None = None
    group_separator: str | None = None

    def read(self, interactions: lib.Interactions) -> dict[str, Any]:
        """Read the groups, and report how they match the data."""
        found: dict[str, lib.Groups | None] = {"items": None, "users": None}
        for of, source in (("items", self.item_groups), ("users", self.user_groups)):
            if of == "users" and source == "activity":
                found[of] = lib.Groups.by_activity(interactions)
            elif source is not None:
                groups = lib.Groups.read(source, of=of, separator=self.group_separator)  # type: ignore[arg-type]
                console.say(groups.describe(interactions))
                found[of] = groups
        return found

    def parameters(self, model: lib.ModelEntry, interactions: lib.Interactions) -> dict[str, Any]:
        """Read the groups, and return them as parameters of the model."""
        both = "user_groups" in model.parameters()
        names = {"items": "groups", "users": "user_groups" if both else "groups"}
        given = {of: groups for of, groups in self.read(interactions).items() if groups is not None}
        if len(given) > 1 and not both:
            raise InvalidParameterError(
                f"{model.title} takes one kind of groups. Drop --item-groups or --user-groups."
            )
        if given and "groups" not in model.parameters():
            raise InvalidParameterError(
                f"{model.title} has no groups; drop --item-groups or --user-groups."
            )
        return {names[of]: groups for of, groups in given.items()}


def rerank_groups(source: str | None) -> dict[str, Any]:
    """Return the groups of a re-ranker as its parameters; none for its default."""
    return {} if source is None else {"groups": lib.Groups.read(source)}


@dataclass(frozen=True)
class GridOptions:
    """Values of parameters to try, in every combination."""

    grid: list[str] | None = None
    ranks: str | None = None
    gammas: str | None = None

    def axes(self) -> dict[str, list[Any]]:
        """Return the values by parameter."""
        axes = {}
        for text in self.grid or []:
            name, values = assignment(text, "--grid")
            axes[name] = [plain_value(word) for word in words(values)]
        if self.ranks is not None:
            axes["n_components"] = numbers(self.ranks, "--ranks", int)
            for rank in axes["n_components"]:
                lib.check_whole_number("--ranks", rank, least=1)
        if self.gammas is not None:
            axes["gamma"] = numbers(self.gammas, "--gammas")
        return axes


@dataclass(frozen=True)
class TableOptions:
    """Where `evaluate` and `tune` keep and write their results."""

    cache: Path | None = None
    as_json: bool = False
    csv: Path | None = None
    plot: Path | None = None

    def write(self, results: Any, draw: str | None) -> None:
        """Write the table, and the chart with a function of `equipoise.evaluation.plot`."""
        if self.csv is not None:
            results.write_csv(self.csv)
        if self.plot is not None and draw is not None:
            getattr(lib.plot, draw)(results, self.plot)

    def check(self, out: Path | None = None) -> None:
        """Check the outputs, these and `out`, before the work."""
        check_outputs({"--csv": self.csv, "--plot": self.plot, "--out": out})
        if self.plot is not None:
            lib.plot.format_of(self.plot)
            require_extra("matplotlib", "plot", "drawing figures")
        if self.cache is not None:
            require_folder(self.cache)

    def interrupted(self, done: str) -> int:
        """Report what is done after Ctrl-C, and return the exit code."""
        advice = "--cache DIR would keep it."
        if self.cache is not None:
            advice = "Run again with the same --cache to continue."
        console.say(f"interrupted: {done}. {advice}")
        return INTERRUPTED


def check_outputs(outputs: Mapping[str, Path | None]) -> None:
    """Refuse, before the work, outputs that are inputs or each other, or cannot be written."""
    written = [(name, path) for name, path in outputs.items() if path is not None]
    read = [("an input", path) for path in named_files(console.arguments)] if written else []
    for (name, path), (other, its_path) in itertools.chain(
        itertools.product(written, read), itertools.combinations(written, 2)
    ):
        if _is_same_file(path, its_path):
            raise InvalidParameterError(
                f"{name} {path} is the same file as {other} ({its_path}). Write to another file."
            )
    for _, path in written:
        require_writable(path)


def named_files(arguments: Sequence[str]) -> list[Path]:
    """Return the files that a command line names, in any form, other than as outputs."""
    found: list[Path] = []
    for before, word in itertools.pairwise(["", *arguments]):
        if before in _OUTPUTS or word.partition("=")[0] in _OUTPUTS:
            continue
        for part in word.split("="):  # NAME=FILE
            local = _LOCAL_URL.match(part)
            text = os.path.expanduser(part if local is None else unquote(local["path"]))
            column = text.rpartition(":")[0]  # FILE:COLUMN
            found += [Path(path) for path in (text, column) if os.path.isfile(path)]
            if os.path.isdir(text) or glob.has_magic(text):
                with contextlib.suppress(EquipoiseError, OSError):  # reading reports it
                    found += lib.files.find(text, None).paths
    return found


def _is_same_file(one: Path, other: Path) -> bool:
    """Tell whether two paths lead to one file, through any links; devices do not count."""
    if one.exists() and not one.is_file():
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def shown(data: str) -> str:
    """Return the name of the data for output: a database URL without user and password."""
    return lib.without_credentials(data)


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


def number(text: str, problem: str, kind: type[int] | type[float] = float) -> Any:
    """Read a number; `problem` states what was expected."""
    try:
        found = kind(text)
        finite = isfinite(found)
    except (ValueError, OverflowError):
        finite = False
    if not finite:
        raise InvalidParameterError(f"{problem}, got {text!r}.")
    return found


def numbers(text: str, name: str, kind: type[int] | type[float] = float) -> list[Any]:
    """Read numbers between commas."""
    what = "whole numbers" if kind is int else "numbers"
    problem = f"{name} takes {what} separated by commas"
    return [number(word, problem, kind) for word in words(text)]

"""From the signature of a command and its rows in options.toml to options and their help."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

import click


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("options.toml").read_text(encoding="utf-8"))


class _Option(click.Option):
    """An option with the title of its part of the help."""

    def __init__(self, names: list[str], *, panel: str = "Options", **more: Any) -> None:
        super().__init__(names, **more)
        self.panel = panel


class Command(click.Command):
    """A function as a command: each parameter has a row in options.toml.

    A dataclass of options becomes those options; the function receives the filled dataclass. The
    options are declared when they are first needed: the help of all commands shows none of them.
    """

    def __init__(self, function: Callable[..., Any], panel: str = "Commands", **more: Any) -> None:
        name = more.pop("name", function.__name__)
        super().__init__(name, callback=self._call, help=inspect.getdoc(function), **more)
        self.function, self.panel = function, panel
        del self.params

    @functools.cached_property
    def params(self) -> list[click.Parameter]:  # type: ignore[override]  # as a list, when needed
        """The arguments and options."""
        found = []
        for each in _parameters(self.function):
            group = self._groups.get(each.name)
            found += [each] if group is None else _parameters(group)
        return [_declared(each, self.function.__name__) for each in found]

    @functools.cached_property
    def _groups(self) -> dict[str, Any]:
        own = _parameters(self.function)
        return {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    def _call(self, **given: Any) -> Any:
        for name, value in given.items():
            if isinstance(value, tuple):  # an option that may be repeated
                given[name] = list(value) or None
        for name, group in self._groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return self.function(**given)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options and the commands, each under the title of its part."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for each in self.get_params(context):
            record = each.get_help_record(context)
            if record is not None and isinstance(each, click.Option):
                sections.setdefault(getattr(each, "panel", "Options"), []).append(record)
        for name, command in getattr(self, "commands", {}).items():
            summary = " ".join((command.help or "").partition("\n\n")[0].split())
            sections.setdefault(command.panel, []).append((name, summary))
        for panel, records in sections.items():
            with formatter.section(panel):
                formatter.write_dl(records)


class Group(Command, click.Group):
    """A command with commands of its own, in the order in which they were added."""

    def list_commands(self, context: click.Context) -> list[str]:  # noqa: ARG002 (of click)
        """Return the names."""
        return list(self.commands)


def _parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _declared(parameter: inspect.Parameter, command: str) -> click.Parameter:
    """Return a parameter with its row of options.toml."""
    name, table = parameter.name, _table()
    row = dict(table.get(command, {}).get(name) or table["shared"][name])
    kind = parameter.annotation
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    several = get_origin(kind) is list
    required = parameter.default is inspect.Parameter.empty
    row["required"] = required
    if not (required or parameter.default is None):
        row["default"] = parameter.default
    if row.pop("argument", False):
        if not required:
            row["metavar"] = f"[{row['metavar']}]{'...' * several}"
        return click.Argument([name], type=_type(kind, row), nargs=-1 if several else 1, **row)
    names = row.pop("names", [f"--{name.replace('_', '-')}"])
    if kind is bool:
        return _Option([name, *names], is_flag=True, **row)
    return _Option([name, *names], type=_type(kind, row), multiple=several, **row)


def _type(kind: Any, row: dict[str, Any]) -> Any:
    limits = {name: row.pop(name) for name in ("min", "max") if name in row}
    if limits:
        return {int: click.IntRange, float: click.FloatRange}[kind](**limits)
    if kind is Path:
        return click.Path(path_type=Path)
    return str if get_origin(kind) is list else kind

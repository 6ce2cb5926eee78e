"""Options that commands share are declared once and mean the same everywhere."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields
from typing import Annotated, get_args, get_type_hints

import pytest
import typer
from typer.main import get_command

from equipoise.audit import audit
from equipoise.cli.app import app, run
from equipoise.cli.options import DataOptions, DefaultOf, SplitOptions, expand_options, option
from equipoise.data import holdout

COMMANDS = get_command(app).commands
READING = {f"--{field.name.replace('_', '-')}" for field in fields(DataOptions)}


def options_of(command: str) -> dict[str, object]:
    return {name: each for each in COMMANDS[command].params for name in each.opts}


@pytest.mark.parametrize("command", ["audit", "fit", "recommend", "explain", "evaluate", "tune"])
def test_every_command_that_reads_data_has_every_data_option(command):
    assert set(options_of(command)) >= READING


def test_an_option_has_one_help_text_for_all_data_commands():
    texts = {
        name: {options_of(command)[name].help for command in ("audit", "fit", "tune")}
        for name in READING
    }
    assert {name for name, found in texts.items() if len(found) > 1} == set()


@pytest.mark.parametrize("name", [field.name for field in fields(SplitOptions)])
def test_defaults_of_the_split_are_those_of_the_python_function(name):
    default = options_of("evaluate")[f"--{name}"].default
    assert isinstance(default, DefaultOf)
    assert default() == inspect.signature(holdout).parameters[name].default
    assert str(default) == str(default())


def lines_of(group, *words):
    """Every line of words that leads to a group or a command."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from lines_of(command, *words, name)


@pytest.mark.parametrize("words", list(lines_of(get_command(app))), ids=" ".join)
def test_help_shows_names_of_values_instead_of_types(words, capsys):
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    types = r"<\w+|\b(BOOLEAN|INTEGER|int range|INTEGER RANGE)\b"
    assert re.findall(types, shown) == []


def test_audit_offers_the_popularity_groups_that_it_takes():
    _, offered = options_of("audit")["--groups"].help.rstrip(".").split(": ")
    assert tuple(offered.split(" or ")) == get_args(get_type_hints(audit)["groups"])


@dataclass(frozen=True)
class Pair:
    """Two options."""

    left: Annotated[int, option("Left.", "N")] = 1
    right: Annotated[int, option("Right.", "N")] = 2


def test_a_dataclass_of_options_becomes_options_and_comes_back_filled():
    received = []

    def command(name: str, pair: Pair, last: int = 3) -> None:
        received.append((name, pair, last))

    tiny = typer.Typer()
    tiny.command()(expand_options(command))
    tiny(["x", "--right", "7", "--last", "5"], standalone_mode=False)
    assert received == [("x", Pair(1, 7), 5)]


def test_only_options_that_were_given_are_repeated():
    given = DataOptions(user="who", min_users_per_item=2, binarize=True).given()
    assert given == {"user": "who", "min_users_per_item": 2, "binarize": True}

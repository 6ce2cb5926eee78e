"""Options that commands share are declared once and mean the same everywhere."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from equipoise.audit import audit
from equipoise.cli.app import command_line, run
from equipoise.cli.declare import Command
from equipoise.cli.options import DataOptions, GridOptions
from equipoise.data import holdout

TREE = command_line()
COMMANDS = TREE.commands
READING = {f"--{field.name.replace('_', '-')}" for field in fields(DataOptions)}


def options_of(command: str) -> dict[str, object]:
    return {name: each for each in COMMANDS[command].params for name in each.opts}


@pytest.mark.parametrize(
    "command", ["audit", "fit", "recommend", "explain", "split", "evaluate", "tune"]
)
def test_every_command_that_reads_data_has_every_data_option(command):
    assert set(options_of(command)) >= READING


def test_an_option_has_one_help_text_for_all_data_commands():
    texts = {
        name: {options_of(command)[name].help for command in ("audit", "fit", "tune")}
        for name in READING
    }
    assert {name for name, found in texts.items() if len(found) > 1} == set()


@pytest.mark.parametrize(
    ("option", "name"), [("method", "method"), ("last", "n"), ("seed", "seed")]
)
def test_defaults_of_the_split_are_those_of_the_python_function(option, name):
    default = options_of("evaluate")[f"--{option}"].default
    assert default == inspect.signature(holdout).parameters[name].default


@pytest.mark.parametrize("command", ["split", "evaluate", "tune"])
@pytest.mark.parametrize("share", ["test", "validation"])
def test_help_shows_the_default_shares_of_the_python_function(command, share):
    default = inspect.signature(holdout).parameters[share].default
    assert f"(default: {default})" in options_of(command)[f"--{share}"].help


def lines_of(group, *words):
    """Every line of words that leads to a group or a command."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from lines_of(command, *words, name)


@pytest.mark.parametrize("words", list(lines_of(TREE)), ids=" ".join)
def test_help_shows_names_of_values_instead_of_types(words, capsys):
    assert run([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    types = r"<\w+|\b(BOOLEAN|INTEGER|int range|INTEGER RANGE)\b"
    assert re.findall(types, shown) == []


def test_audit_offers_the_popularity_groups_that_it_takes():
    _, offered = options_of("audit")["--groups"].help.rstrip(".").split(": ")
    assert tuple(offered.split(" or ")) == get_args(get_type_hints(audit)["groups"])


def every_parameter():
    """Pairs of a command and one of its parameters, over the whole command tree."""
    for words in lines_of(TREE):
        command = TREE
        for word in words:
            command = command.commands[word]
        for parameter in command.params:
            if "--help" not in parameter.opts:
                yield " ".join(words), parameter


# The result of a command; a rank that may be "auto"; a name or a file; a share or a file; groups,
# of which the audit takes only pairs of popular and niche items.
OWN_MEANING = {"--out", "--rank", "--model", "--test", "--validation", "--groups"}


def test_every_parameter_has_help_that_is_a_sentence():
    for command, parameter in every_parameter():
        text = " ".join((getattr(parameter, "help", "") or "").split())
        assert text, (command, parameter.name)
        assert text[0].isupper() or not text[0].isalpha() or " or " in text, (command, text)
        assert text.endswith((".", "…")), (command, text)


def test_an_option_means_the_same_in_every_command():
    texts, spellings = {}, {}
    for _, parameter in every_parameter():
        if parameter.param_type_name != "option":
            continue
        name = max(parameter.opts, key=len)
        texts.setdefault(name, set()).add((parameter.help, parameter.metavar))
        for spelling in parameter.opts:
            spellings.setdefault(spelling, set()).add(frozenset(parameter.opts))
    different = {name for name, found in texts.items() if len(found) > 1} - OWN_MEANING
    # `evaluate` takes several lengths of lists
    assert different <= {"-k"}
    assert len({text for text, _ in texts["-k"]}) == 1
    assert {name for name, found in spellings.items() if len(found) > 1} - OWN_MEANING == set()


def test_one_letter_means_one_option():
    letters = {}
    for _, parameter in every_parameter():
        for short in (each for each in parameter.opts if len(each) == 2):
            letters.setdefault(short, set()).add(max(parameter.opts, key=len))
    assert {short: names for short, names in letters.items() if len(names) > 1} == {}


def test_a_dataclass_of_options_becomes_options_and_comes_back_filled():
    received = []

    def similar(item: str, trying: GridOptions, k: int = 3) -> None:
        received.append((item, trying, k))

    Command(similar).main(["x", "--grid", "a=1", "--grid", "b=2", "-k", "5"], standalone_mode=False)
    assert received == [("x", GridOptions(grid=["a=1", "b=2"]), 5)]


def test_only_options_that_were_given_are_repeated():
    given = DataOptions(user="who", min_users_per_item=2, binarize=True).given()
    assert given == {"user": "who", "min_users_per_item": 2, "binarize": True}

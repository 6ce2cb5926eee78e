"""The command line: any words end with a documented exit code, and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import webbrowser
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

# Imported before the clock runs: a time limit that strikes inside an import leaves half a module
from equipoise.cli import app, console
from equipoise.cli.app import run
from fuzz.choices import NUMBERS, WORDS, Choices
from fuzz.target import Mismatch, Target
from fuzz.targets import model

# Left out: reproduce, demo (which is audit without a file) and tune, whose work takes long whatever
# the words; datasets get and --scheduler, which wait for the network.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "fit": ("--rank", "--gamma", "--model", "--set", "--filter", "--out", "--memory", "--json"),
    "recommend": ("-N", "--users", "--items", "--out", "--json", "--drop-unknown-items", "--names"),
    "similar": ("-N", "--json", "--names"),
    "explain": ("--user", "--item", "-N", "--json"),
    "audit": (
        "--rank",
        "--gamma",
        "--model",
        "--out",
        "--json",
        "--md",
        "-k",
        "--groups",
        "--names",
    ),
    "evaluate": (
        "--models",
        "--ranks",
        "--gammas",
        "--csv",
        "--test",
        "--seed",
        "--json",
        "--plot",
    ),
    "models": ("--json",),
    "datasets": ("list", "--json"),
    "": ("--version", "--help", "--quiet", "--debug"),
}
_SHARED = (
    "--user", "--item", "--value", "--delimiter", "--format", "--query", "--binarize", "--quiet",
    "--min-users-per-item", "--min-items-per-user", "--normalize-rows", "--help", "--", "-q", "--x",
)  # fmt: skip
_FILES = (
    "plays.csv", "model.eqp", "names.csv", "factors.npy", "broken.csv", "nothing.csv", ".",
    "out.eqp",
    "out.html", "nowhere/x.csv", "*.csv", "http://x/y", "sqlite:///plays.csv", "nosuch://a:b@c/d",
)  # fmt: skip
_VALUES = (
    "2", "-0.5", "item-weighted-pca,pca", "pca", "ease", "popularity", "tol=1e-3", "hard",
    "power:1",
    "item 1", "item 1,item 2", "user 3", "json", "user", "item", "value", "1,2", "auto",
    "interactions",
    "csv",
    "1GB", "select 1", ",", "0.2", "plays", "2020",
)  # fmt: skip


_COMMAND_ONCE = cache(app.command_line)


def words(content: bytes) -> list[str]:
    """Return the command line that bytes choose."""
    choices = Choices(content)
    command = (
        choices.one(tuple(_COMMANDS)[:7]) if choices.yes(230) else choices.one(tuple(_COMMANDS))
    )
    chosen = [command] if command else []
    if choices.yes(230) or command == "audit":
        first = {"fit": "plays.csv", "audit": "plays.csv", "evaluate": "plays.csv"}.get(command)
        chosen.append(first or "model.eqp")
        chosen += ["plays.csv"] if command in ("recommend", "explain") else []
        chosen += ["item 1"] if command == "similar" else []
        chosen += ["--out", "out.eqp"] if command == "fit" else []
    for _ in range(choices.below(6)):
        chosen.append(_word(choices, command))
    return [word for word in chosen if "\0" not in word]


def _word(choices: Choices, command: str) -> str:
    kind = choices.below(8)
    if kind < 3:
        return choices.one(_COMMANDS[command])
    if kind == 3:
        return choices.one(_SHARED)
    if kind == 4:
        return choices.one(_FILES)
    if kind < 7:
        return choices.one(_VALUES)
    return choices.one((*NUMBERS, *WORDS))


@cache
def _prepared(folder: Path) -> None:
    rows = ["user,item,value"]
    matrix = model.PLAYS.matrix.tocoo()
    for row, column, value in zip(*matrix.coords, matrix.data, strict=True):
        rows.append(f"{model.PLAYS.user_ids[row]},{model.PLAYS.item_ids[column]},{value}")
    (folder / "plays.csv").write_text("\n".join(rows))
    (folder / "model.eqp").write_bytes(model.seeds()[0])
    (folder / "names.csv").write_text("item,name\nitem 1,[red]One\nitem 2,:dog:\n")
    (folder / "broken.csv").write_text('user,item\n1,"2\n')
    (folder / "nothing.csv").write_text("")
    np.save(folder / "factors.npy", np.eye(8)[:, :2])


def seeds() -> list[bytes]:
    """Random decisions: all are command lines."""
    return [Random(k).randbytes(6 + k % 20) for k in range(30)]


def mutate(random: Random, content: bytes) -> bytes:
    """Take other decisions, all or one."""
    if random.random() < 0.5 or not content:
        return random.randbytes(random.randrange(3, 24))
    changed = bytearray(content)
    changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def call(content: bytes, folder: Path) -> None:
    """Run the command in the folder, through the one error boundary."""
    _prepared(folder)
    spoken = words(content)
    if "--debug" in spoken:  # asks for a traceback
        spoken.remove("--debug")
    here = Path.cwd()
    os.chdir(folder)
    webbrowser.open = _no_browser
    app.command_line = _COMMAND_ONCE  # building it takes longer than most commands
    said, out = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            code = run(spoken)
    finally:
        os.chdir(here)
        console.show_progress = True
    if code not in (0, 1, 2):
        raise Mismatch(f"exit code {code} of {shlex.join(spoken)}")
    if "Traceback" in said.getvalue() + out.getvalue():
        raise Mismatch(f"a traceback of {shlex.join(spoken)}")
    if (
        code == 2
        and "error:" not in said.getvalue()
        and "Usage" not in said.getvalue() + out.getvalue()
    ):
        raise Mismatch(f"refused without a word: {shlex.join(spoken)}")


def _no_browser(*_: Any, **__: Any) -> bool:
    return False


TARGET = Target("commands", call, seeds, mutate=mutate)

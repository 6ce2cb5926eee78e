"""Completion of commands and options by the shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from equipoise.exceptions import InvalidParameterError

PROGRAM, VARIABLE = "equipoise", "_EQUIPOISE_COMPLETE"

# What each shell reads when it starts.
_STARTUP = {
    "bash": "~/.bashrc",
    "zsh": "~/.zshrc",
    "fish": "~/.config/fish/completions/equipoise.fish",
}
_POWERSHELL = {"pwsh": "powershell", "powershell": "powershell"}


def script(app: click.Command) -> str:
    """Return what the user's shell must read."""
    shell = _shell()
    found = get_completion_class(_POWERSHELL.get(shell, shell))
    if found is None:
        raise InvalidParameterError(
            f"completion works in bash, zsh, fish and PowerShell, not in {shell}. "
            "The shell is that of the variable SHELL."
        )
    return found(app, {}, PROGRAM, VARIABLE).source()


def install(app: click.Command) -> str:
    """Append the script to a file that the user's shell reads; return what was done."""
    text, shell = script(app), _shell()
    if shell not in _STARTUP:
        raise InvalidParameterError(
            f"completion cannot be installed for {shell}: append what --show-completion prints to "
            "the file that $profile names."
        )
    path = Path(_STARTUP[shell]).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if text not in before:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{text}\n")
    return f"Completion is in {path}. It works in new shells."


def _shell() -> str:
    return Path(os.environ.get("SHELL", "bash" if os.name == "posix" else "powershell")).stem

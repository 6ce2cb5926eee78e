"""The `equipoise` command: its sub-commands, its global options, and the one error boundary."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from equipoise import __version__
from equipoise.cli import console
from equipoise.cli.datasets import datasets
from equipoise.cli.demo import demo
from equipoise.cli.evaluate import evaluate
from equipoise.cli.reproduce import reproduce
from equipoise.cli.tune import tune
from equipoise.exceptions import EquipoiseError

# Exit codes: 0 done, 1 done and the answer is "no" (a check failed), 2 refused, 130 interrupted.
_REFUSED, _INTERRUPTED = 2, 130

# What typer raises about the command line itself. Newer versions bundle click and older ones
# import it, so the class is reached through a name that both export.
_CommandLineError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="equipoise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit low-rank recommenders item by item, and mend them with Item-Weighted PCA.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"equipoise {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 (acts by its callback)
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr.")] = False,
    debug: Annotated[  # noqa: ARG001 (read by the error boundary)
        bool, typer.Option("--debug", help="Show a traceback where something fails.")
    ] = False,
) -> None:
    console.err.quiet = quiet


for command in (demo, evaluate, tune, reproduce):
    app.command()(command)
app.add_typer(datasets)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Whatever a user can cause ends here as one line on stderr and exit code 2; a traceback is
    shown with ``--debug``, and always for what is a defect of this package.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _invoke(given)
    except (EquipoiseError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _pipe_closed()
        if "--debug" in given:
            raise
        console.failures.print(
            f"[red]error:[/] {_one_line(error)}", highlight=False, soft_wrap=True
        )
        return _REFUSED
    except KeyboardInterrupt:
        console.err.print("interrupted", highlight=False)
        return _INTERRUPTED


def _invoke(arguments: list[str]) -> int:
    try:
        result = app(args=arguments, standalone_mode=False)
    except _CommandLineError as error:
        error.show()
        return _REFUSED
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as stop:
        return stop.exit_code
    return result if isinstance(result, int) else 0


def _one_line(error: Exception) -> str:
    from rich.markup import escape

    return escape(" ".join(str(error).split()) or type(error).__name__)


def _pipe_closed() -> int:
    """Whoever read our output has enough: say nothing more, not even while shutting down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0

"""The `equipoise` command: its sub-commands, its global options, and the one error boundary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import click
from click.shell_completion import shell_complete

from equipoise import __version__
from equipoise.cli import completion, console
from equipoise.cli.audit import audit, demo
from equipoise.cli.catalog import get, listing, metrics, models, rerankers
from equipoise.cli.declare import Command, Group
from equipoise.cli.evaluate import evaluate, split, tune
from equipoise.cli.fit import fit
from equipoise.cli.options import INTERRUPTED
from equipoise.cli.recommend import explain, recommend, rerank, similar
from equipoise.cli.reproduce import reproduce
from equipoise.cli.review import compare, verify
from equipoise.cli.serve import export, inspect, serve, update
from equipoise.exceptions import EquipoiseError

_REFUSED = 2

_PANELS = {
    "Audit": (audit, demo, compare, verify),
    "Train and serve": (fit, update, inspect, recommend, rerank, similar, explain, serve, export),
    "Evaluate": (split, evaluate, tune, models, rerankers, metrics),
    "Data and paper": (reproduce,),
}

_EPILOG = """Results go to stdout, progress and errors to stderr. Exit codes: 0 done; 1 done, and
the answer is no (a claim was lost, a threshold failed, a report differs); 2 refused or failed;
130 interrupted."""


def equipoise(quiet: bool = False, debug: bool = False) -> None:  # noqa: ARG001 (read by `run`)
    """Audit low-rank recommenders item by item, and fix them with Item-Weighted PCA."""
    console.show_progress = not quiet


def command_line() -> Group:
    """Return all commands."""
    app = Group(
        equipoise,
        epilog=_EPILOG,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "show_default": True,
            "max_content_width": 120,
        },
    )
    app.params += [
        _action("version", "Print the version.", lambda _: f"equipoise {__version__}"),
        _action("install-completion", "Install completion for your shell.", completion.install),
        _action("show-completion", "Show what that would install.", completion.script),
    ]
    for panel, commands in _PANELS.items():
        for command in commands:
            app.add_command(Command(command, panel))
    datasets = Group(listing, "Data and paper", name="datasets", invoke_without_command=True)
    datasets.add_command(Command(get))
    app.add_command(datasets)
    return app


def _action(name: str, text: str, run: Callable[[click.Command], str]) -> click.Option:
    """Return an option that prints a text instead of running a command."""

    def act(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            console.write(run(context.command))
            context.exit()

    return click.Option(
        [f"--{name}"], is_flag=True, is_eager=True, expose_value=False, help=text, callback=act
    )


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Every error that a user can cause ends here as one line on stderr and exit code 2, after a
    traceback with ``--debug``. A defect of this package always shows a traceback.
    """
    given = _global_options_first(list(sys.argv[1:] if arguments is None else arguments))
    console.arguments[:] = given
    with console.guarded():
        try:
            code = _invoke(given)
            sys.stdout.flush()
            return code
        except BrokenPipeError:  # the reader closed the pipe, as head does
            return 0
        except (EquipoiseError, OSError, MemoryError) as error:
            if "--debug" in given:
                console.print_traceback()
            console.fail(_explained(error))
            return _REFUSED
        except KeyboardInterrupt:
            console.say("interrupted")
            return INTERRUPTED
        finally:
            console.end_output()


def _global_options_first(arguments: list[str]) -> list[str]:
    """Allow --quiet and --debug after the command as well; no command has its own."""
    end = arguments.index("--") if "--" in arguments else len(arguments)  # ids follow it
    before, after = arguments[:end], arguments[end:]
    options = [word for word in before if word in ("--quiet", "-q", "--debug")]
    return options + [word for word in before if word not in options] + after


def _invoke(arguments: list[str]) -> int:
    app = command_line()
    asked = os.environ.get(completion.VARIABLE)  # a shell that completes sets it
    if asked:
        return shell_complete(app, {}, completion.PROGRAM, completion.VARIABLE, asked)
    try:
        with app.make_context(completion.PROGRAM, list(arguments)) as context:
            result = app.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return _REFUSED
    except click.UsageError as error:
        command = "equipoise" if error.ctx is None else error.ctx.command_path
        message = error.format_message()
        end = "" if message.endswith((".", "?")) else "."
        console.fail(f"{message}{end} See {command} --help.")
        return _REFUSED
    except SystemExit as stop:
        # rich exits with code 1 where the pipe is closed; here 1 means "no"
        if isinstance(stop.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    return result if isinstance(result, int) else 0


def _explained(error: Exception) -> Exception | str:
    if isinstance(error, MemoryError):
        return (
            f"not enough memory ({str(error) or 'allocation failed'}). Keep fewer items "
            "(--min-users-per-item), use a lower --rank, or read in blocks (--memory 4GB)."
        )
    if isinstance(error, OSError) and not isinstance(error, EquipoiseError):
        where = "the output" if error.filename is None else error.filename
        return f"{where}: {error.strerror or error}."
    return error

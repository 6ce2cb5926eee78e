"""The `equipoise` command: its sub-commands, its global options, and the one error boundary."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

import typer

from equipoise import __version__
from equipoise.cli import console
from equipoise.cli.audit import audit, demo
from equipoise.cli.catalog import get, listing, metrics, models, rerankers
from equipoise.cli.evaluate import evaluate, split, tune
from equipoise.cli.fit import fit
from equipoise.cli.options import INTERRUPTED, Command, Group, Interrupted, expand_options, flag
from equipoise.cli.recommend import explain, recommend, rerank, similar
from equipoise.cli.reproduce import reproduce
from equipoise.cli.review import compare, verify
from equipoise.cli.serve import export, inspect, serve, update
from equipoise.exceptions import EquipoiseError

_REFUSED = 2

# What typer raises about the command line itself. Newer versions bundle click and older ones
# import it, so the class is reached through a name that both export.
_CommandLineError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"equipoise {__version__}", highlight=False)
        raise typer.Exit


def _options(
    version: Annotated[  # noqa: ARG001 (acts by its callback)
        bool, flag("Print the version.", "--version", callback=_show_version, is_eager=True)
    ] = False,
    quiet: Annotated[bool, flag("Print only errors on stderr.", "--quiet", "-q")] = False,
    debug: Annotated[  # noqa: ARG001 (read by the error boundary)
        bool, flag("Show the traceback of an error.", "--debug")
    ] = False,
) -> None:
    console.err.quiet = quiet


_PANELS = {
    "Audit": (audit, demo, compare, verify),
    "Train and serve": (fit, update, inspect, recommend, rerank, similar, explain, serve, export),
    "Evaluate": (split, evaluate, tune, models, rerankers, metrics),
    "Data and paper": (reproduce,),
}


def command_line(words: Collection[str] | None = None) -> typer.Typer:
    """Return all commands; those that are not among the words have a summary but no options.

    Declaring the options of all commands takes a third of the time of ``equipoise --help``.
    """
    app = typer.Typer(
        name="equipoise",
        cls=Group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Audit low-rank recommenders item by item, and fix them with Item-Weighted PCA.",
        epilog="Results go to stdout, progress and errors to stderr. Exit codes: 0 done; 1 done, "
        "and the answer is no (a claim was lost, a threshold failed, a report differs); 2 refused "
        "or failed; 130 interrupted.",
    )
    app.callback()(_options)

    def declared(command: Callable[..., Any], name: str) -> Callable[..., Any]:
        return (expand_options if words is None or name in words else _summary_of)(command)

    for panel, commands in _PANELS.items():
        for command in commands:
            options = declared(command, command.__name__)
            app.command(cls=Command, rich_help_panel=panel)(options)
    datasets = typer.Typer(name="datasets", cls=Group, invoke_without_command=True)
    datasets.callback()(declared(listing, "datasets"))
    datasets.command(cls=Command)(declared(get, "datasets"))
    app.add_typer(datasets, rich_help_panel="Data and paper")
    return app


def _summary_of(command: Callable[..., Any]) -> Callable[..., Any]:
    def summary() -> None: ...

    summary.__name__, summary.__doc__ = command.__name__, command.__doc__
    return summary


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
        except (KeyboardInterrupt, Interrupted):
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
    try:
        # a shell that completes has its words in the environment
        named = None if "_EQUIPOISE_COMPLETE" in os.environ else arguments
        result = command_line(named)(args=arguments, prog_name="equipoise", standalone_mode=False)
    except _CommandLineError as error:
        _refuse(error)
        return _REFUSED
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        # typer and rich exit with code 1 where the pipe is closed; here 1 means "no"
        if isinstance(stop.__context__, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    return result if isinstance(result, int) else 0


def _refuse(error: Any) -> None:
    """Print what is wrong with the command line and where the help is."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    context = getattr(error, "ctx", None)
    command = "equipoise" if context is None else context.command_path
    message = error.format_message()
    end = "" if message.endswith((".", "?")) else "."
    console.fail(f"{message}{end} See {command} --help.")


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

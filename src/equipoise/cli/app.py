"""The `equipoise` command: its sub-commands, its global options, and the one error boundary."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from equipoise import __version__
from equipoise.cli import console
from equipoise.cli.audit import audit, demo
from equipoise.cli.catalog import datasets, metrics, models, rerankers
from equipoise.cli.dossier import compare, verify
from equipoise.cli.evaluate import evaluate, split
from equipoise.cli.fit import fit
from equipoise.cli.options import INTERRUPTED, Command, Group, Interrupted, expand_options, flag
from equipoise.cli.production import export, inspect, serve, update
from equipoise.cli.recommend import explain, recommend, rerank, similar
from equipoise.cli.reproduce import reproduce
from equipoise.cli.tune import tune
from equipoise.exceptions import EquipoiseError

_REFUSED = 2

# What typer raises about the command line itself. Newer versions bundle click and older ones
# import it, so the class is reached through a name that both export.
_CommandLineError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    name="equipoise",
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit low-rank recommenders item by item, and fix them with Item-Weighted PCA.",
    epilog="Results go to stdout, progress and errors to stderr. Exit codes: 0 done; 1 done, and "
    "the answer is no (a claim was lost, a threshold failed, a report differs); 2 refused or "
    "failed; 130 interrupted.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"equipoise {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
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
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(expand_options(command))
app.add_typer(datasets, rich_help_panel="Data and paper")


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
        result = app(args=arguments, prog_name="equipoise", standalone_mode=False)
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
    message = error.format_message().rstrip(".")
    example = " equipoise demo audits example data." if command == "equipoise audit" else ""
    hint = example if type(error).__name__ == "MissingParameter" else ""
    console.fail(f"{message}.{hint} See {command} --help.")


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

"""The `equipoise` command: its sub-commands, its global options, and the one error boundary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from equipoise import __version__
from equipoise.cli import console, streams
from equipoise.cli.audit import audit
from equipoise.cli.datasets import datasets
from equipoise.cli.demo import demo
from equipoise.cli.evaluate import evaluate
from equipoise.cli.explain import explain
from equipoise.cli.fit import fit
from equipoise.cli.metrics import metrics
from equipoise.cli.models import models
from equipoise.cli.options import INTERRUPTED
from equipoise.cli.recommend import recommend
from equipoise.cli.reproduce import reproduce
from equipoise.cli.similar import similar
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
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Audit low-rank recommenders item by item, and mend them with Item-Weighted PCA.",
    epilog="Results go to stdout, progress and errors to stderr. Exit codes: 0 done; 1 done, and "
    "the answer is no (a claim of the paper was lost); 2 refused or failed; 130 interrupted.",
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
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing on stderr but errors.")
    ] = False,
    debug: Annotated[  # noqa: ARG001 (read by the error boundary)
        bool, typer.Option("--debug", help="Show a traceback where something fails.")
    ] = False,
) -> None:
    console.err.quiet = quiet


_PANELS = {
    "Audit": (audit, demo),
    "Train and serve": (fit, recommend, similar, explain),
    "Evaluate": (evaluate, tune, models, metrics),
    "Data and paper": (reproduce,),
}
for panel, commands in _PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(datasets, rich_help_panel="Data and paper")


class _Interrupted(Exception):  # noqa: N818 (an order, not an error)
    """Ctrl-C, in a shape that typer lets pass; it would turn the other into an exit code."""


def _interruptible(command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def run_command(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            raise _Interrupted from None

    return run_command


for registered in (*app.registered_commands, *datasets.registered_commands):
    registered.callback = _interruptible(registered.callback)  # type: ignore[arg-type]  # all have


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    Whatever a user can cause ends here as one line on stderr and exit code 2, after a traceback
    with ``--debug``. A defect of this package always shows a traceback.
    """
    given = _global_options_first(list(sys.argv[1:] if arguments is None else arguments))
    with streams.guarded():
        return _within_the_boundary(given)


def _within_the_boundary(given: list[str]) -> int:
    try:
        with console.warnings_in_one_line():
            return _invoke(given)
    except (EquipoiseError, OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError):
            return _pipe_closed()
        if "--debug" in given:
            streams.tell_traceback()
        console.fail(_told(error))
        return _REFUSED
    except (KeyboardInterrupt, _Interrupted):
        console.say("interrupted")
        return INTERRUPTED


def _global_options_first(arguments: list[str]) -> list[str]:
    """Let --quiet and --debug stand behind the command as well; no command has its own."""
    end = arguments.index("--") if "--" in arguments else len(arguments)  # ids stand behind it
    before, behind = arguments[:end], arguments[end:]
    options = [word for word in before if word in ("--quiet", "-q", "--debug")]
    return options + [word for word in before if word not in options] + behind


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
        # where the pipe is closed, typer and rich leave with code 1, which here means "no"
        if _has_cause(stop, BrokenPipeError):
            raise BrokenPipeError from None
        raise
    return result if isinstance(result, int) else 0


def _refuse(error: Any) -> None:
    """Say what is wrong with the command line and where the help is."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    context = getattr(error, "ctx", None)
    command = "equipoise" if context is None else context.command_path
    message = error.format_message().rstrip(".")
    console.fail(f"{message}. See {command} --help.")


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


def _told(error: Exception) -> Exception | str:
    if isinstance(error, MemoryError):
        return (
            f"the memory of this machine does not suffice ({error or 'no more to be had'}). Take "
            "fewer items (--min-users-per-item), a lower --rank, or a larger machine."
        )
    return error


def _pipe_closed() -> int:
    """Whoever read our output has enough: say nothing more, not even while shutting down."""
    streams.divert(sys.stdout.fileno())
    return 0

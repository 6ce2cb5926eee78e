"""The command line: one thin file per command, one error boundary; computes nothing itself."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the `equipoise` script."""
    try:
        from equipoise.cli import console
        from equipoise.cli.app import run

        console.prepare_streams()
        try:
            code = run()
        except Exception:  # a defect of this package
            console.print_traceback()
            code = 1
    except KeyboardInterrupt:  # while still importing
        code = 130
    raise SystemExit(code)

"""The command line: one thin file per command, one error boundary; computes nothing itself."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the entry point of the `equipoise` script."""
    for stream in (sys.stdout, sys.stderr):
        # a terminal that lacks a letter of an artist's name shall not end the programme
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # always of this kind
    try:
        from equipoise.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while still importing
        code = 130
    raise SystemExit(code)

"""The command line: one thin file per command, one error boundary; computes nothing itself."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the `equipoise` script."""
    from equipoise.cli.app import run

    raise SystemExit(run())

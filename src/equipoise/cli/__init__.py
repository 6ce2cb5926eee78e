"""The command line: one thin file per command, one error boundary; computes nothing itself."""

from __future__ import annotations


def main() -> None:
    """Run the command line; the entry point of the `equipoise` script."""
    from equipoise.cli import streams

    streams.prepare()
    try:
        from equipoise.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while still importing
        code = 130
    except Exception:
        streams.tell_traceback()
        code = 1
    raise SystemExit(code)

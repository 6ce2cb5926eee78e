"""`equipoise reproduce`: the paper's claims, figures and theorems, with verdicts."""

from __future__ import annotations

from pathlib import Path

from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.files import require_folder

_FOLDER = Path("reproduction")
# Exit codes: 1 a claim was lost, 2 something that was asked for was not made.
_LOST, _INCOMPLETE = 1, 2


def reproduce(
    targets: list[str] | None = None,
    out: Path = _FOLDER,
    quick: bool = False,
    as_json: bool = False,
) -> int:
    """Reproduce the paper: measure and judge every claim, draw all figures, test all theorems."""
    require_folder(out)
    found = lib.reproduction.run(targets or ["all"], out, quick=quick, progress=console.progress())
    if as_json:
        console.write_json({**found.as_dict(), "report": str(out / "index.html")}, indent=2)
    else:
        console.print_table(found.claims().only(0, 2, 3, 4))
        for line in found.headlines:
            console.out().print(f"• {console.escape_markup(line)}")
        console.write(f"\nReport: {(out / 'index.html').resolve()}")
    for line in found.missing:
        console.say(f"left out: {line}")
    if found.lost:
        return _LOST
    return _INCOMPLETE if found.missing else 0

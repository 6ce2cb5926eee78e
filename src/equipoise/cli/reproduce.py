"""`equipoise reproduce`: the paper's claims, figures and theorems, with verdicts."""

from __future__ import annotations

from pathlib import Path

from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.display import Shown
from equipoise.files import require_folder

_FOLDER = Path("reproduction")
# Exit codes: 1 a claim was lost, 2 something that was asked for was not made.
_LOST, _INCOMPLETE = 1, 2
_VERDICTS = {
    "REPRODUCED": ("green", "reproduced"),
    "BY_CODE_ONLY": ("yellow", "by code only"),
    "NOT_REPRODUCED": ("red", "not"),
}


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
        _print(found, out)
    for line in found.missing:
        console.say(f"left out: {line}")
    if found.lost:
        return _LOST
    return _INCOMPLETE if found.missing else 0


def _print(found: lib.Reproduction, out: Path) -> None:
    if found.findings:
        console.print_table(_table(found))
    for line in found.headlines:
        console.out().print(f"• {console.escape_markup(line)}")
    console.out().print(f"\n{found.headline()}.")
    page = (out / "index.html").resolve()
    console.out().print(f"Report: {page}", soft_wrap=True, markup=False)


def _table(found: lib.Reproduction) -> Shown:
    from rich.text import Text

    rows = []
    for finding in found.findings:
        color, word = _VERDICTS[finding.verdict.name]
        verdict = Text(word, color)
        if finding.lost:
            verdict.append(" LOST", "bold red")
        claim = finding.claim
        rows.append(
            (
                claim.what,
                lib.verdicts.show(claim.published),
                lib.verdicts.show_measured(finding),
                verdict,
            )
        )
    return Shown("", ("claim", "published", "measured", "verdict"), rows)

"""`equipoise demo`: the audit of the built-in example data, in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli import audit as shared
from equipoise.cli import paths
from equipoise.cli.options import AsJson

_REPORT = Path("report") / "demo.html"


def demo(
    rank: Annotated[int, typer.Option(help="Components of each model.", min=1, max=500)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the hold-out.", min=0)] = 0,
    out: shared.Out = _REPORT,
    as_json: AsJson = False,
) -> None:
    """Audit the built-in example data: what PCA does to hits and niche items, and what mends it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    paths.check(outputs={"--out": out}, printed=as_json)
    plays = shared.embedded(seed)
    found = shared.examine(plays, rank=rank, seed=seed, source=shared.EMBEDDED)
    shared.publish(found, out, as_json=as_json, as_markdown=False)

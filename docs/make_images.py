"""Draw the pictures of the documentation: the report, panel by panel, in a real browser.

    python docs/make_images.py [gallery] [report] [lastfm]

draws all of them, or those that are named. It needs the extras `dev` and Chromium. The report is
that of `equipoise audit` on the embedded data. Last.fm needs EQUIPOISE_DATA: the picture of the
README is drawn, and the numbers that the README quotes are written. The gallery is drawn by the
code of its page.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from equipoise.audit import Findings, audit
from equipoise.audit.report import render
from equipoise.data.catalog import load_dataset
from equipoise.data.synthetic import listening

IMAGES = Path(__file__).resolve().parent / "images"
NUMBERS = IMAGES.parents[1] / "benchmarks" / "results" / "audit_lastfm.json"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
MARGIN = 24
# heights at which long panels are cut
TALLEST = {"memorized": 1040, "items": 900, "users": 900, "compared": 1040, "audit-lastfm": 700}
PANELS = {
    "opening": ".opening",
    "change": "#change",
    "controls": "#bar",
    "data": "#data",
    "half-error": "#half-error",
    "memorized": "#memorized",
    "collaboration": "#collaboration",
    "groups": "#groups",
    "holdout": "#holdout",
    "frontier": "#frontier",
    "items": "#items",
    "users": "#users",
    "notes": "#notes",
}


def main() -> None:
    """Draw what is asked for, or everything."""
    from playwright.sync_api import sync_playwright

    wanted = sys.argv[1:] or ["gallery", "report", *["lastfm"][: "EQUIPOISE_DATA" in os.environ]]
    if "gallery" in wanted:
        draw_gallery()

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if "report" in wanted:
            draw_embedded(browser, Path(folder))
            draw_compared(browser, Path(folder))
        if "lastfm" in wanted:
            draw_lastfm(browser, Path(folder))
        browser.close()


def draw_embedded(browser: Any, folder: Path) -> None:
    """Draw each panel of the report on the embedded data, its dark theme, and a phone."""
    findings = audit(listening(), source="embedded data")
    page = opened(browser, folder, findings, viewport=DESKTOP, color_scheme="light")
    for name, selector in PANELS.items():
        draw(page, selector, IMAGES / "report" / f"{name}.png")
    page.locator("#item-table tbody button, #item-table tbody a").first.click()
    page.wait_for_timeout(500)
    page.locator("#card").screenshot(path=IMAGES / "report/card.png")
    shrink(IMAGES / "report/card.png")
    for name, look in {
        "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
        "phone": {"viewport": PHONE, "color_scheme": "light"},
    }.items():
        opened(browser, folder, findings, **look).screenshot(path=IMAGES / f"report/{name}.png")
        shrink(IMAGES / f"report/{name}.png")


def draw_compared(browser: Any, folder: Path) -> None:
    """Draw the audit of implicit's ALS from its saved file."""
    import scipy.sparse as sp
    from implicit.als import AlternatingLeastSquares

    plays = listening()
    als = AlternatingLeastSquares(factors=32, random_state=0, num_threads=1)
    als.fit(sp.csr_matrix(plays.binarize().matrix), show_progress=False)
    als.save(folder / "als.npz")
    findings = audit(plays, models=[folder / "als.npz"], source="plays.parquet")
    page = opened(browser, folder, findings, viewport=DESKTOP, color_scheme="light")
    draw(page, "#memorized", IMAGES / "report/compared.png")


def draw_lastfm(browser: Any, folder: Path) -> None:
    """Draw the head of the report on Last.fm, the paper's matrix, and write its main numbers."""
    plays = load_dataset("lastfm-2k", preprocessing="paper")
    findings = audit(plays, source="lastfm-2k")
    page = opened(browser, folder, findings, viewport=DESKTOP, color_scheme="light")
    draw(page, "main", IMAGES / "audit-lastfm.png")
    numbers = {
        "rank": findings.subject.size,
        "users": findings.data.n_users,
        "items": findings.data.n_items,
        "groups": {group.name: group.n_items for group in findings.data.groups},
        **{
            name: {
                metric: {group: interval.mean for group, interval in groups.items()}
                for metric, groups in variant.intervals.items()
            }
            for name, variant in (("subject", findings.subject), ("advised", findings.advised))
        },
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def draw_gallery() -> None:
    """Run the code of the gallery, and keep its pictures."""
    text = (IMAGES.parent / "gallery.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S))
    (IMAGES / "gallery").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(code, {"__name__": "gallery"})  # noqa: S102
        for picture in Path().glob("*.png"):
            shrink(picture)
            shutil.copy(picture, IMAGES / "gallery")


def draw(page: Any, selector: str, path: Path) -> None:
    """Draw one element with a margin at its sides, cut at its largest height."""
    box = page.locator(selector).bounding_box()
    clip = {
        "x": box["x"] - MARGIN,
        "y": box["y"],
        "width": box["width"] + 2 * MARGIN,
        "height": min(box["height"], TALLEST.get(path.stem, box["height"])),
    }
    page.screenshot(path=path, full_page=True, clip=clip)
    shrink(path)


def shrink(path: Path) -> None:
    """Reduce the picture to 200 colors: a third of the bytes."""
    from PIL import Image

    # by coverage: the median cut would merge the colors of thin lines
    picture = Image.open(path).convert("RGB")
    few = picture.quantize(200, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def opened(browser: Any, folder: Path, findings: Findings, **look: Any) -> Any:
    """Open the report on findings and wait until every chart is drawn."""
    path = folder / "report.html"
    path.write_bytes(render(findings).encode())
    page = browser.new_context(reduced_motion="reduce", **look).new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-drawing=false]", timeout=60_000)
    # sticky elements would cover parts of a picture that is taller than the window
    page.evaluate(
        """() => {
            const stuck = document.querySelectorAll("#bar, .prose");
            stuck.forEach((part) => { part.style.position = "static"; });
            document.querySelector(".masthead button").hidden = true;
        }"""
    )
    return page


if __name__ == "__main__":
    main()

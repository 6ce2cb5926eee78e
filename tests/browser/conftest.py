"""A real Chromium for the report; without it these tests are skipped, loudly."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from equipoise.audit.findings import Findings
from equipoise.audit.report import render

NAMES = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@dataclass
class Opened:
    """A report in a tab, and everything the tab complained about or asked for."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def settle(self) -> None:
        """Wait until every chart is drawn."""
        self.page.wait_for_selector("body[data-drawing=false]", timeout=600_000)

    def slide(self, slider: str, place: int) -> None:
        """Move a slider by the keyboard, from the left end."""
        self.page.focus(f"#{slider}")
        self.page.keyboard.press("Home")
        for _ in range(place):
            self.page.keyboard.press("ArrowRight")
        self.settle()

    def charts(self) -> dict[str, str]:
        """What each plot of the page draws, by its id."""
        self.settle()
        return self.page.evaluate(
            """() => Object.fromEntries([...document.querySelectorAll("figure .plot")].map(
                (plot) => [plot.id, JSON.stringify([plot.data, plot.layout.shapes])]))"""
        )

    def rows(self) -> list[list[str]]:
        """The cells of the item table's page."""
        return self.page.eval_on_selector_all(
            "#item-table tbody tr",
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))",
        )


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: the report was NOT tried in a browser"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(NAMES)} found: the report was NOT tried in a browser")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def open_report(
    chromium: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Opened]]:
    """Write findings to a file and open it; extra arguments describe the window."""
    contexts = []

    def open_findings(findings: Findings, **window: Any) -> Opened:
        path: Path = tmp_path_factory.mktemp("report") / "report.html"
        path.write_bytes(render(findings).encode("utf-8"))
        size = {"width": 1280, "height": 900}
        context = chromium.new_context(
            **{"viewport": size, "reduced_motion": "reduce", "color_scheme": "light"} | window
        )
        context.set_default_timeout(600_000)  # milliseconds; only a hang takes so long
        contexts.append(context)
        opened = Opened(context.new_page(), path.as_uri())
        page = opened.page
        page.on("console", lambda message: opened.complaints.append(message.text))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.on("dialog", lambda dialog: opened.complaints.append(dialog.message))
        page.goto(opened.address)
        opened.settle()
        return opened

    yield open_findings
    for context in contexts:
        context.close()

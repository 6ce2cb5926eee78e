"""The report in a real browser: opened from disk, used by mouse and keyboard."""

from __future__ import annotations

import re

import numpy as np
import pytest

from equipoise.audit.findings import Findings
from tests.browser import fakes

FIGURES = {
    "shares": 1, "error": 3, "half-error": 1, "self": 1, "self-groups": 3,
    "collaboration": 2, "holdout": 8, "frontier": 1, "groups": 1, "contest": 1,
    "floors": 1,
}  # fmt: skip
MODELS = ["PCA", "Normalized PCA", "Item-Weighted PCA", "als.npz", "ease.npz"]


@pytest.fixture(scope="module")
def findings() -> Findings:
    return fakes.findings(files=["als.npz"], scores=["ease.npz"])


@pytest.fixture(scope="module")
def tab(open_report, findings):
    return open_report(findings)


@pytest.fixture
def report(tab):
    """The one tab, brought back to how it opens."""
    page = tab.page
    if page.evaluate("document.getElementById('card').open"):
        page.keyboard.press("Escape")
    while page.locator("#legend [aria-pressed=false]").count():
        page.locator("#legend [aria-pressed=false]").first.click()
    if page.is_visible("#clear"):
        page.click("#clear")
    for slider, place in (("gamma", 2), ("rank", 3)):
        if page.input_value(f"#{slider}") != str(place):
            tab.slide(slider, place)
    page.click("#presets >> text=Most popular")
    return tab


def test_it_opens_from_disk_without_complaint_and_asks_for_nothing_else(tab):
    assert tab.address.startswith("file://")
    assert tab.complaints == []
    assert tab.requests == [tab.address]
    assert tab.page.is_hidden("#failure")


def test_every_figure_is_drawn(report):
    expected = {f"chart-{name}-{at}" for name, count in FIGURES.items() for at in range(count)}
    charts = report.charts()
    assert set(charts) == expected
    assert all(len(drawn) > 100 for drawn in charts.values())


def test_it_begins_where_the_audit_stands(tab):
    assert tab.page.input_value("#gamma") == "2"
    assert tab.page.text_content("#gamma-value") == "−1"
    assert tab.page.text_content("#rank-value") == "8"


@pytest.mark.parametrize(("slider", "place", "said"), [("gamma", 4, "−2"), ("rank", 1, "2")])
def test_a_slider_moves_every_chart(report, slider, place, said):
    before = report.charts()
    report.slide(slider, place)
    after = report.charts()
    assert report.page.text_content(f"#{slider}-value") == said
    assert report.page.get_attribute(f"#{slider}", "aria-valuetext") == said
    assert said in report.page.text_content("#announcer")
    still = [name for name in before if before[name] == after[name]]
    # models at their best, groups, and floors are measured at one setting
    assert set(still) == {"chart-groups-0", "chart-contest-0", "chart-floors-0"}


def test_a_button_returns_to_the_best_setting(report):
    report.slide("gamma", 4)
    report.slide("rank", 0)
    report.page.click("#apply")
    report.settle()
    assert report.page.text_content("#gamma-value") == "−1"
    assert report.page.text_content("#rank-value") == "8"
    assert "item-weighted:-1" in report.charts()["chart-error-0"]


def test_the_charts_show_the_numbers_that_were_found(report, findings):
    report.slide("rank", 1)
    weighted = next(v for v in findings.variants if v.key == "item-weighted:-1")
    traces = report.page.evaluate(
        "document.getElementById('chart-error-2').data.map((t) => [t.meta, t.x, t.y])"
    )
    by_key = {key: (x, y) for key, x, y in traces}
    x, y = by_key["item-weighted:-1"]
    assert x == list(weighted.sizes)
    np.testing.assert_allclose(y, weighted.means["item_error"]["niche"], atol=1e-5)
    gist = report.page.text_content("#chart-error-gist")
    assert f"Item-Weighted PCA (γ\u00a0−1) {weighted.means['item_error']['niche'][1]:.2f}" in gist


def test_a_model_hidden_in_the_legend_is_hidden_everywhere(report):
    page = report.page
    page.click("#legend >> text=Normalized PCA")
    report.settle()
    shown = page.eval_on_selector_all(
        "figure .plot", "plots => plots.flatMap((p) => p.data.map((t) => t.meta))"
    )
    assert "normalized" not in shown
    assert {"pca", "item-weighted:-1", "given:0", "scores:0"} <= set(shown)
    for place in ("#item-table thead", "#user-view", "#owned", "#chart-holdout-gist"):
        said = page.inner_text(place)
        assert "Normalized" not in said
        assert "Item-Weighted" in said
    assert (
        page.get_attribute("#legend >> text=Normalized PCA >> xpath=..", "aria-pressed") == "false"
    )
    page.click("#legend >> text=Normalized PCA")
    report.settle()
    assert "Normalized" in page.inner_text("#item-table thead")


def test_with_every_model_hidden_nothing_breaks(report):
    for name in MODELS:
        report.page.click(f"#legend >> text='{name}'")
        report.settle()
    assert len(report.rows()) == 20
    report.page.click("[data-item] >> nth=0")
    assert report.page.inner_text("#card-title") == "Name 0"
    assert report.complaints == []


def drag(report, chart: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw a box, in shares of the plot's inner area."""
    page = report.page
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    box = page.locator(f"#{chart} .nsewdrag").bounding_box()
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)]
    page.mouse.move(*at[0])
    page.mouse.down()
    page.mouse.move((at[0][0] + at[1][0]) / 2, (at[0][1] + at[1][1]) / 2, steps=3)
    page.mouse.move(*at[1], steps=3)
    page.mouse.up()
    page.wait_for_selector("#clear:visible")  # Plotly tells a moment after the button is up
    report.settle()


@pytest.mark.parametrize("chart", ["half-error", "self"])
def test_the_table_follows_a_box_drawn_over_items(report, findings, chart):
    drag(report, f"chart-{chart}-0", (0.3, 0.2), (0.7, 0.99))
    box = report.page.evaluate(f"document.getElementById('chart-{chart}-0').layout.shapes.at(-1)")
    shown = list(findings.compared)
    at_rank = [v.sizes.index(max(r for r in (v.sizes[0], *v.sizes) if r <= max(8, v.sizes[0])))
               for v in shown]  # fmt: skip
    values = [
        v.components_to_half_by_item if chart == "half-error" else v.self_reconstruction_by_item[at]
        for v, at in zip(shown, at_rank, strict=True)
    ]
    popularity = findings.items.popularity
    inside = (popularity >= box["x0"]) & (popularity <= box["x1"])
    within = np.any([(y >= box["y0"]) & (y <= box["y1"]) for y in values], axis=0)
    wanted = np.flatnonzero(inside & within)
    assert 0 < len(wanted) < 60
    assert report.page.text_content("#found").startswith(f"{len(wanted)} item")
    assert [row[0] for row in report.rows()] == [f"Name {j}" for j in wanted[:20]]
    report.page.click("#clear")
    assert report.page.text_content("#found") == "60 items"
    assert report.page.evaluate("document.activeElement.id") == "search"


def test_popularity_can_be_typed_instead_of_dragged(report, findings):
    report.page.fill("#from", "1")
    report.page.fill("#to", "3")
    report.page.keyboard.press("Tab")
    popularity = findings.items.popularity
    wanted = np.flatnonzero((popularity >= 1) & (popularity <= 3))
    assert [row[0] for row in report.rows()] == [f"Name {j}" for j in wanted]


@pytest.mark.parametrize(("words", "name"), [("name 17", "Name 17"), ("ITEM-42", "Name 42")])
def test_search_finds_names_and_ids_in_any_case(report, words, name):
    report.page.fill("#search", words)
    assert [row[0] for row in report.rows()] == [name]
    assert report.page.text_content("#found") == "1 item, of 60"


def test_search_that_finds_nothing_says_so(report):
    report.page.fill("#search", "no such thing")
    assert report.rows() == []
    assert report.page.text_content("#found") == "0 items, of 60"


def test_the_group_filter_keeps_one_group(report):
    report.page.select_option("#group", label="niche")
    assert {row[3] for row in report.rows()} == {"niche"}
    assert report.page.text_content("#found") == "40 items, of 60"


def test_columns_sort_both_ways_and_say_so(report):
    page = report.page
    page.click("[data-sort=users]")
    assert [row[2] for row in report.rows()[:3]] == ["60", "59", "58"]
    page.keyboard.press("Enter")  # the header has kept the focus
    assert [row[2] for row in report.rows()[:3]] == ["1", "2", "3"]
    assert page.get_attribute("th:has([data-sort=users])", "aria-sort") == "ascending"
    assert page.locator("#item-table [aria-sort]").count() == 1


def test_what_is_not_known_comes_last_whichever_way_one_sorts(report):
    page = report.page
    page.select_option("#measure", "half")
    for way in ("descending", "ascending"):
        page.click("[data-sort=pca]")
        assert page.get_attribute("th:has([data-sort=pca])", "aria-sort") == way
        page.click("#page-next")
        page.click("#page-next")
        assert report.rows()[-1][0] == "Name 59"
        assert report.rows()[-1][4] == "–"


def test_pages_turn_and_end(report):
    page = report.page
    assert page.is_disabled("#page-before")
    page.click("#page-next")
    page.keyboard.press("Enter")
    assert page.inner_text("#pager span") == "Page 3 of 3"
    assert report.rows()[0][0] == "Name 40"
    assert page.is_disabled("#page-next")
    assert page.evaluate("document.activeElement.id") == "page-before"


def test_a_click_opens_the_card_and_escape_returns(report, findings):
    page = report.page
    page.click("#item-table tbody tr:nth-child(6) td:nth-child(2)")
    assert page.inner_text("#card-title") == "Name 5"
    first = [findings.subject, findings.advised]
    for variant, column in zip(
        [*first, *(v for v in findings.compared if v not in first)],
        page.query_selector_all("#card .columns > div"),
        strict=True,
    ):
        near = [b.inner_text() for b in column.query_selector_all("button")]
        assert near == [f"Name {j}" for j in variant.neighbors[5] if j >= 0]
    curves = page.eval_on_selector_all(
        "#card .plot", "plots => plots.map((p) => p.data.map((t) => t.meta))"
    )
    assert curves == [["pca", "item-weighted:-1", "normalized", "given:0", "scores:0"]] * 2
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('card').open")
    assert page.evaluate("document.activeElement.dataset.item") == "5"


def test_the_card_opens_by_keyboard_and_arrows_walk_over_rows(report):
    page = report.page
    page.focus("[data-item='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.inner_text("#card-title") == "Name 1"
    assert page.evaluate("document.activeElement.id") == "card-title"
    page.focus("#card-close")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.dataset.item") == "1"


def test_the_card_leads_to_neighbors_and_back(report):
    page = report.page
    page.click("[data-item='3']")
    page.click("#card .columns button >> nth=0")
    assert page.inner_text("#card-title") == "Name 4"
    page.click("text=← Back")
    assert page.inner_text("#card-title") == "Name 3"
    assert page.locator("text=← Back").count() == 0


def test_a_dot_of_the_scatter_opens_its_item(report):
    page = report.page
    dot = page.locator("#chart-self-0 .trace").first.locator(".point").first
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.inner_text("#card-title").startswith("Name ")


def test_a_user_is_shown_with_history_lists_and_reasons(report, findings):
    page = report.page
    page.select_option("#user", label="ben")
    user = findings.users[1]
    past = [b.inner_text() for b in page.query_selector_all("#user-view .past button")]
    assert past == [f"Name {j}" for j in (*user.history, *user.held_out)]
    columns = page.query_selector_all("#user-view .columns > div")
    assert len(columns) == len(user.recommended) == len(MODELS)
    first = [li.inner_text() for li in columns[0].query_selector_all("li")]
    assert len(first) == 5
    assert first[0].startswith("Name 11")
    assert "because of Name 1, Name 2" in first[0]
    assert columns[0].query_selector("li:first-child .tick")
    page.click("#user-next")
    assert page.input_value("#user") == "2"


def test_every_figure_says_itself_as_a_sentence_and_as_a_table(report):
    page = report.page
    for name in FIGURES:
        assert len(page.inner_text(f"#chart-{name}-gist")) > 40
        page.click(f"#chart-{name} summary")
        rows = page.locator(f"#chart-{name} details tbody tr")
        rows.first.wait_for()
        assert rows.count() >= 3
        page.click(f"#chart-{name} summary")


def test_everything_one_can_press_has_a_name(report):
    nameless = report.page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, [role=group], dialog")]
            .filter((node) => !(node.innerText || "").trim() && !node.labels?.length
                && !node.getAttribute("aria-label") && !node.getAttribute("aria-labelledby"))
            .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert nameless == []


def test_the_call_can_be_copied(report):
    report.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    report.page.click("[data-copy=call-command]")
    report.page.locator("[data-copy=call-command]:not(:text-is('Copy'))").wait_for()
    said = report.page.inner_text("[data-copy=call-command]")
    selected = report.page.evaluate("String(getSelection())")
    assert said == "Copied" or (said == "Press Ctrl+C" and selected.startswith("equipoise fit"))


def luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(report, name: str) -> float:
    one, two = sorted(
        luminance(
            report.page.evaluate(
                "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()",
                colour,
            )
        )
        for colour in (name, "--paper")
    )
    return (two + 0.05) / (one + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_with_enough_contrast(report, scheme):
    page = report.page
    page.emulate_media(color_scheme=scheme)
    report.settle()
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    dark = np.mean([int(n) for n in re.findall(r"\d+", background)]) < 60
    assert dark == (scheme == "dark")
    ink = page.evaluate("document.getElementById('chart-error-0').layout.font.color")
    assert (luminance(ink) > 0.3) == dark
    assert min(contrast(report, name) for name in ("--ink", "--soft")) >= 4.5
    assert min(contrast(report, f"--model-{i}") for i in range(8)) >= 3
    page.emulate_media(color_scheme="light")


def test_the_theme_can_be_switched_by_hand(report):
    page = report.page
    before = report.charts()["chart-frontier-0"]
    page.click("#theme")
    assert report.charts()["chart-frontier-0"] != before
    assert page.inner_text("#theme") == "Light"
    page.click("#theme")
    assert report.charts()["chart-frontier-0"] == before


def test_on_paper_it_is_light_fits_and_has_no_controls(report):
    page = report.page
    page.click("#theme")
    page.emulate_media(media="print")
    page.wait_for_selector("html.printing")
    white = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert white == "rgb(255, 255, 255)"
    for control in ("#gamma", "#search", "#theme", "#pager", "[data-copy]", "figure details"):
        assert page.is_hidden(control), control
    assert page.is_visible("#rank-value")
    widest = page.eval_on_selector_all(
        "figure .plot", "plots => Math.max(...plots.map((p) => p.layout.width))"
    )
    assert widest <= 690  # A4 within its margins, at 96 dots an inch
    page.emulate_media(media="screen")
    page.wait_for_selector("html:not(.printing)")
    page.click("#theme")


@pytest.mark.parametrize("width", [360, 390])
def test_a_phone_scrolls_down_only(open_report, findings, width):
    opened = open_report(
        findings, viewport={"width": width, "height": 780}, has_touch=True, is_mobile=True
    )
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.tap("[data-item] >> nth=1")
    assert page.inner_text("#card-title") == "Name 1"
    inside = page.evaluate("[card.scrollWidth, card.clientWidth]")
    assert inside[0] == inside[1]
    page.tap("#card-close")
    opened.slide("rank", 1)
    assert page.text_content("#rank-value") == "2"
    assert opened.complaints == []


def test_few_findings_are_a_page_too(open_report):
    opened = open_report(fakes.findings(n_items=12, ranks=(2, 4), gammas=[-1.0], users=()))
    assert opened.complaints == []
    assert opened.page.is_disabled("#gamma")
    assert opened.page.is_hidden("#users")
    assert len(opened.rows()) == 12


@pytest.fixture(scope="module")
def hostile(open_report):
    words = " ".join(fakes.HOSTILE).replace("x" * 5000, "xx")
    return open_report(
        fakes.findings(
            names=fakes.HOSTILE,
            ids=fakes.HOSTILE[::-1],
            files=fakes.HOSTILE[:3],
            users=fakes.HOSTILE,
            labels=[name for name in fakes.HOSTILE if name],
            words=words,
        )
    )


def test_hostile_names_are_shown_as_text(hostile):
    page = hostile.page
    page.click("#presets >> text=Most popular")
    shown = page.eval_on_selector_all("[data-item]", "nodes => nodes.map((n) => n.textContent)")
    for wanted, text in zip(fakes.HOSTILE[:4], shown, strict=False):
        assert text == wanted
    assert shown[5] == "x" * 69 + "…"
    assert shown[8] == fakes.HOSTILE[::-1][8]  # no name: its id
    options = page.eval_on_selector_all("#user option", "nodes => nodes.map((n) => n.textContent)")
    assert options[0] == fakes.HOSTILE[0]
    assert fakes.HOSTILE[0] in page.inner_text("#legend").replace("…", "") or (
        page.inner_text("#legend >> button >> nth=3").startswith("<img src=x onerror=")
    )


def test_right_to_left_marks_stay_inside_their_name(hostile):
    isolated = hostile.page.eval_on_selector(
        "[data-item='4'] bdi", "node => getComputedStyle(node).unicodeBidi"
    )
    assert isolated == "isolate"


@pytest.mark.parametrize("item", [0, 3, 9])
def test_hovering_shows_the_letters_of_a_hostile_name(hostile, item):
    page = hostile.page
    dot = page.locator("#chart-self-0 .trace").first.locator(".point").nth(item)
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    label = page.locator("#chart-self-0 .hoverlayer text.nums")
    expected = fakes.HOSTILE[item][:47]
    label.filter(has_text=expected[:20]).wait_for()
    assert label.text_content().startswith(expected)
    assert page.locator("#chart-self-0 .hoverlayer a").count() == 0


def test_hostile_words_run_nothing_wherever_they_appear(hostile):
    page = hostile.page
    for item in range(len(fakes.HOSTILE)):
        page.click(f"[data-item='{item}']")
        page.keyboard.press("Escape")
    for at in range(len(fakes.HOSTILE)):
        page.select_option("#user", index=at)
    page.fill("#search", "<img")
    assert page.text_content("#found").startswith("2 items")  # one name, one id
    hostile.slide("gamma", 4)
    for name in FIGURES:
        page.click(f"#chart-{name} summary")
    assert page.evaluate("'pwned' in window") is False
    assert page.locator("main img, dialog img, svg[onload], main a[href^=javascript]").count() == 0
    assert hostile.complaints == []
    assert hostile.requests == [hostile.address]

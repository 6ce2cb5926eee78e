"""The section of groups in a real browser, on a desktop and on a phone."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from equipoise.audit.report.to_json import to_json
from tests.browser import fakes

pytestmark = pytest.mark.browser

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def findings():
    return fakes.findings(files=["als.npz"])


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def report(request, open_report, findings):
    return open_report(findings, **request.param)


def cells(report) -> list[list[str]]:
    """The rows of the table of groups; an interval is on a line of its own."""
    return report.page.eval_on_selector_all(
        "#group-table tbody tr",
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))",
    )


def test_the_table_has_every_group_with_its_numbers_and_intervals(report, findings):
    report.page.select_option("#grouping", "0")
    rows = {row[0]: row for row in cells(report)}
    assert list(rows) == ["indie", "major", "tinytoo few members"]
    found = findings.groups[0].numbers["pca"]["exposure_relative"]["major"]
    value = f"{found.mean:.3f}{found.low:.3f} to {found.high:.3f}"
    assert rows["major"][4] == value
    assert set(rows["tinytoo few members"][3:]) == {"–"}
    assert report.page.inner_text("#group-table tfoot th") == "all"
    assert "AWRF" in report.page.inner_text("#group-note")


def test_the_chart_draws_one_dot_with_its_interval_per_model_and_group(report, findings):
    report.page.select_option("#grouping", "0")
    report.settle()
    traces = report.page.evaluate(
        """document.getElementById('chart-groups-0').data.map(
            (t) => [t.meta, t.x, t.error_x.array, t.error_x.arrayminus])"""
    )
    first = [findings.subject_key, findings.advised_key]
    others = [v.key for v in findings.compared if v.key not in first]
    assert [meta for meta, *_ in traces] == [*first, *others]
    numbers = findings.groups[0].numbers["given:0"]["exposure_relative"]
    _, x, above, below = traces[-1]
    assert x == pytest.approx([numbers[name].mean for name in ("indie", "major")])
    assert above == pytest.approx([0.04, 0.04])
    assert below == pytest.approx([0.03, 0.03])


def test_another_measure_and_another_model_can_be_chosen(report, findings):
    page = report.page
    page.select_option("#grouping", "0")
    page.select_option("#group-measure", label="recall")
    page.select_option("#group-model", label="als.npz")
    report.settle()
    assert "recall" in page.text_content("#chart-groups-gist").lower()
    found = findings.groups[0].numbers["given:0"]["recall"]["indie"]
    assert cells(report)[0][5].startswith(f"{found.mean:.3f}")
    page.select_option("#group-measure", label="exposure / catalog")
    page.select_option("#group-model", label="PCA")


def test_the_price_of_a_floor_is_a_line_per_group_that_ends_before_its_limit(report, findings):
    prices = json.loads(to_json(findings))["groups"][0]["prices"]
    traces, limits, labels = report.page.evaluate(
        """(({ data, layout }) => [data.map((t) => [t.meta, t.mode, t.x, t.y]),
            layout.shapes.map((s) => [s.x0, s.x1, s.y0, s.y1]),
            layout.annotations.map((a) => a.text)]
        )(document.getElementById('chart-floors-0'))"""
    )
    assert [trace[:2] for trace in traces] == [[p["group"], "lines+markers"] for p in prices]
    for (_, _, x, y), price in zip(traces, prices, strict=True):  # the JSON has six digits
        assert x == pytest.approx(price["floors"], abs=1e-6)
        assert y == pytest.approx(price["kept"], abs=1e-6)
    for line, price in zip(limits, prices, strict=True):
        assert line == pytest.approx([price["limit"], price["limit"], 0, 1], abs=1e-6)
    assert labels == [f"{p['group']}: limit {p['limit']:.3f}" for p in prices]
    drawn = report.page.locator("#chart-floors-0 .scatterlayer .trace path.js-line")
    assert drawn.count() == len(prices) == 2
    box, plot = (report.page.locator(f"#chart-floors{n}").bounding_box() for n in ("", "-0"))
    assert box["width"] <= report.page.viewport_size["width"]
    for label in report.page.locator("#chart-floors-0 .annotation").all():
        found = label.bounding_box()
        assert plot["x"] <= found["x"]
        assert found["x"] + found["width"] <= plot["x"] + plot["width"]


def test_the_table_of_floors_has_the_numbers_of_the_json(report, findings):
    prices = json.loads(to_json(findings))["groups"][0]["prices"]
    report.page.click("#chart-floors summary")
    report.page.wait_for_selector("#chart-floors details tbody tr")
    rows = report.page.eval_on_selector_all(
        "#chart-floors details tbody tr",
        "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))",
    )
    report.page.click("#chart-floors summary")
    assert rows == [
        [
            p["group"],
            f"{floor:.3f}{'' if at else ' (no floor)'}",
            f"{kept:.1%}",
            f"{p['limit']:.3f}",
        ]
        for p in prices
        for at, (floor, kept) in enumerate(zip(p["floors"], p["kept"], strict=True))
    ]
    terms = report.page.eval_on_selector_all("#floors dfn", "all => all.map((n) => n.innerText)")
    assert terms == ["floor", "retained share", "certified limit"]


def test_columns_of_groups_sort(report):
    page = report.page
    page.select_option("#grouping", "0")
    assert [row[1] for row in cells(report)] == ["40", "30", "4"]
    page.click("#group-table [data-sort=size]")
    page.click("#group-table [data-sort=size]")
    assert [row[1] for row in cells(report)] == ["4", "30", "40"]
    page.click("#group-table [data-sort=exposure]")
    assert [row[0] for row in cells(report)][:2] == ["major", "indie"]  # unknown last
    assert page.get_attribute("#group-table th:has([data-sort=exposure])", "aria-sort")


def test_a_group_leads_to_its_items(report, findings):
    page = report.page
    page.select_option("#grouping", "0")
    page.click("#group-table [data-group=tiny]")
    assert [row[0] for row in report.rows()] == ["Name 0", "Name 1", "Name 2", "Name 3"]
    assert page.text_content("#found") == "4 items, of 60"
    page.click("#group-table [data-group=indie]")
    members = findings.groups[0].members.toarray()[:, 0].sum()
    assert page.text_content("#found") == f"{members:.0f} items, of 60"
    page.click("#clear")
    assert page.text_content("#found") == "60 items"


def test_groups_of_users_have_their_own_measures_and_lead_nowhere(report):
    page = report.page
    page.select_option("#grouping", label="users by age")
    assert [row[0] for row in cells(report)] == ["old", "young"]
    assert page.locator("#group-table [data-group]").count() == 0
    measures = page.eval_on_selector_all("#group-measure option", "all => all.map((o) => o.value)")
    assert measures == ["ndcg"]
    assert "3 in none." in page.inner_text("#group-note")
    page.select_option("#grouping", "0")


def test_a_hidden_model_is_hidden_from_the_groups(report):
    page = report.page
    page.click("#legend >> text=als.npz")
    report.settle()
    labels = page.eval_on_selector_all("#group-model option", "all => all.map((o) => o.text)")
    assert "als.npz" not in labels
    page.click("#legend >> text=als.npz")
    report.settle()
    assert report.complaints == []


def test_the_page_is_as_wide_as_its_window(report):
    width = report.page.viewport_size["width"]
    assert report.page.evaluate("document.documentElement.scrollWidth") == width


def test_findings_without_groups_have_no_section(open_report):
    opened = open_report(replace(fakes.findings(), groups=()))
    assert opened.page.is_hidden("#groups")
    assert opened.page.is_hidden("#floors")
    assert opened.complaints == []

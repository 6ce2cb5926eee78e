"""The first screen of the report in a real browser: the answer, the fair comparison, the terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from equipoise.audit.findings import Entry
from equipoise.audit.verdict import answer
from tests.browser import fakes

pytestmark = pytest.mark.browser

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def findings():
    """A report about a user's model, which saw the held-out items."""
    found = fakes.findings(files=["our ALS"])
    given = Entry("given:0", "our ALS", {}, "", float("nan"), None, None)
    advice = replace(found.advice, gain=None)
    return replace(
        found,
        subject_key="given:0",
        contest=(given, *found.contest[:3]),
        advice=advice,
    )


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def report(request, open_report, findings):
    return open_report(findings, **request.param)


def test_the_answer_is_about_the_users_model_and_comes_first(report, findings):
    page = report.page
    assert page.inner_text("h1") == "How does our ALS treat your items?"
    questions = page.eval_on_selector_all(".answer dt", "all => all.map((n) => n.innerText)")
    assert questions == ["What is wrong?", "For whom?", "What to do?"]
    shown = page.eval_on_selector_all(".answer dd", "all => all.map((n) => n.textContent)")
    assert tuple(shown) == answer(findings)


def test_at_most_one_screen_comes_before_the_first_chart(report):
    page = report.page
    page.evaluate("window.scrollTo(0, 0)")
    top = page.locator("figure").first.bounding_box()["y"]
    assert top <= page.viewport_size["height"]
    assert page.get_attribute("figure >> nth=0", "id") == "chart-contest"


def test_the_fair_comparison_has_every_tested_model_and_its_interval(report, findings):
    traces = report.page.evaluate(
        "document.getElementById('chart-contest-0').data.map((t) => [t.meta, t.x[0]])"
    )
    tested = sorted((e for e in findings.contest if e.test), key=lambda e: -e.test.mean)
    assert [name for name, _ in traces] == [entry.title for entry in tested]
    assert [x for _, x in traces] == pytest.approx([entry.test.mean for entry in tested])
    report.page.click("#chart-contest summary")
    report.page.wait_for_selector("#chart-contest details tbody tr")  # drawn when it opens
    rows = report.page.eval_on_selector_all(
        "#chart-contest details tbody tr",
        "rows => rows.map((r) => [...r.cells].map((c) => c.innerText))",
    )
    assert rows[0][:2] == ["our ALS", "saw the held-out items"]
    assert rows[3][1] == "0.260 (0.250 to 0.280)"
    report.page.click("#chart-contest summary")


def test_the_users_model_is_the_first_of_every_list(report):
    page = report.page
    assert page.inner_text("#legend button >> nth=0") == "our ALS"
    assert page.locator("#group-model option").first.text_content() == "our ALS"
    assert page.locator("#presets >> text=Most memorized by our ALS").count() == 1


def test_sections_are_questions(report):
    titles = report.page.eval_on_selector_all(
        "main section:not(#notes):not(#items):not(#users) h2", "all => all.map((n) => n.innerText)"
    )
    assert len(titles) == 8
    assert all(title.endswith("?") for title in titles)


def test_a_term_shows_its_meaning_where_it_is_used(report):
    page = report.page
    term = page.locator("#memorized dfn", has_text="self-reconstruction")
    term.scroll_into_view_if_needed()
    term.focus()
    shown = term.evaluate("node => getComputedStyle(node, '::after').content")
    assert "comes from the item itself" in shown
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert report.complaints == []


def test_the_advised_command_is_in_sight(report):
    assert report.page.inner_text("#call-command").startswith("equipoise")

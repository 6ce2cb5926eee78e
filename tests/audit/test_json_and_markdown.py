from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.advice import command, python_call
from equipoise.data.synthetic import listening
from equipoise.display import escape_markdown

HOSTILE = "<script>alert(1)</script> | `x` [a](javascript:b)\n\x1b[31m"


@pytest.fixture(scope="module")
def found():
    plays = listening(n_users=200, n_items=60, seed=4)
    named = plays.with_names({plays.item_ids[0]: HOSTILE})
    models = {HOSTILE: np.eye(60)[:, :2]}
    return audit(named, rank=4, k=5, models=models, source="plays.csv", budget=0)


@pytest.fixture(scope="module")
def record(found):
    return json.loads(to_json(found))


def test_json_contains_the_findings(found, record):
    assert record["settings"]["audited"]["gamma"] == -1.0
    assert (record["subject"], record["advised"]) == ("given:0", found.advised_key)
    assert record["data"]["source"] == "plays.csv"
    assert [each["key"] for each in record["models"]] == [each.key for each in found.variants]
    pca = found.variants[0]
    first = record["models"][0]
    for metric, group in (("self_reconstruction", "popular"), ("ndcg", "all")):
        np.testing.assert_allclose(
            first["means"][metric][group], pca.means[metric][group], rtol=1e-5
        )
    interval = pca.intervals["item_error"]["niche"]
    low, high = first["intervals"]["item_error"]["niche"]
    assert [low, high] == pytest.approx([interval.low, interval.high], rel=1e-5)
    assert low <= pca.mean("item_error", "niche") <= high
    assert record["contest"][0]["title"] == found.contest[0].title
    assert [each["name"] for each in record["evidence"]][:1] == ["structure"]
    expected = pca.components_to_half["niche"]
    assert first["components_to_half"]["niche"] == pytest.approx(expected, rel=1e-5)
    assert record["advice"]["command"] == command(found.advice)
    assert len(record["items"]) == 60
    assert len(record["users"]) == len(found.users)


def test_json_of_an_item_has_its_numbers_and_what_changed(found, record):
    item = record["items"][7]
    pca, before, after = found.variant("pca"), found.subject, found.advised
    assert item["id"] == found.items.ids[7]
    assert item["users"] == found.items.n_users[7]
    assert item["group"] in ("popular", "medium", "niche")
    change = (
        after.self_reconstruction_by_item[after.at, 7]
        - before.self_reconstruction_by_item[before.at, 7]
    )
    assert item["changes"]["self_reconstruction"] == pytest.approx(change, rel=1e-5)
    seen = item["models"]["pca"]
    assert seen["item_error"] == pytest.approx(pca.error_by_item[pca.at, 7], rel=1e-5)
    assert seen["neighbors"] == found.items.ids[pca.neighbors[7]].tolist()
    assert {"pca", "normalized", "item-weighted:-1", "given:0"} <= set(item["models"])


def test_numbers_that_are_not_reached_or_not_defined_are_null(found, record):
    factors = record["items"][30]["models"]["given:0"]
    assert np.isinf(found.variants[-1].components_to_half_by_item[30])
    assert factors["components_to_half"] is None
    assert factors["halved"] is False
    text = to_json(found)
    assert "NaN" not in text
    assert "Infinity" not in text


def test_json_is_ascii_so_that_any_terminal_takes_it(found):
    assert to_json(found).isascii()


def test_markdown_contains_the_same_numbers_as_json(found, record):
    text = to_markdown(found)
    for question in ("What is wrong?", "For whom?", "What to do?"):
        assert f"- **{question}** " in text
    assert record["answer"]["whom"] in text
    assert command(found.advice) in text
    assert python_call(found.advice) in text
    line = next(row for row in text.splitlines() if row.startswith("| specialization"))
    assert f"{found.variant('pca').mean('specialization'):.3f}" in line
    assert "saw the held-out items" in text
    for note in found.settings.notes:
        assert note.partition("<")[0].split(":")[0] in text
    sections = [row for row in text.splitlines() if row.startswith("## ")]
    assert sections[0] == "## Advice"
    assert sections[-1] == "## How this was measured"


def test_every_row_of_a_table_has_as_many_cells_as_its_head(found):
    widths: list[int] = []
    for line in to_markdown(found).splitlines():
        if not line.startswith("|"):
            widths = []
            continue
        cells = line.replace("\\|", "").count("|")
        widths.append(cells)
        assert cells == widths[0], line


def test_hostile_names_are_inert_in_markdown(found):
    text = to_markdown(found)
    assert "<script>" not in text
    assert not re.search(r"(?<!\\)\]\(", text)
    assert "\x1b" not in text
    assert escape_markdown(HOSTILE).count("\n") == 0
    assert escape_markdown("a*b_c") == "a\\*b\\_c"


def test_markdown_of_data_without_hold_out_leaves_the_frontier_out():
    plays = listening(n_users=60, n_items=60, seed=1)
    few = plays.keep_entries(np.arange(plays.nnz) % 12 == 0)
    found = audit(few, rank=2, budget=0)
    if not math.isnan(found.variants[0].means["ndcg"]["all"][0]):
        pytest.fail("the data were meant to be too thin for a hold-out")
    text = to_markdown(found)
    assert "NDCG on held-out items, by" not in text
    assert "nan" not in text

"""What a notebook shows of each public type, and the data frames behind it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import equipoise as eq
from equipoise.audit import to_json
from equipoise.data.synthetic import listening
from equipoise.display import Shown
from equipoise.exceptions import InvalidParameterError


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=80, n_items=60, seed=3)


@pytest.fixture(scope="module")
def shown(plays):
    """One object of every type that displays itself."""
    model = eq.ItemWeightedPCA(n_components=4).fit(plays)
    return {
        "Interactions(80 users": plays,
        "ItemWeightedPCA(": model,
        "Results(": eq.evaluate(plays, ranks=[2, 4], metrics=["recall", "ndcg"]),
        "Tuning(VanillaPCA(": eq.tune(plays, "pca", grid={"n_components": [2, 4]}),
        "Findings(": eq.audit(plays, rank=4),
        "Ranking of 80 user(s)": model.recommend(plays, k=5),
    }


@pytest.mark.medium
def test_every_type_has_a_short_repr_and_a_small_table(shown):
    for title, each in shown.items():
        html = each._repr_html_()
        assert html.startswith(f"<div><b>{title}")
        assert "<table>" in html
        assert "<script" not in html
        assert len(html) < 20_000
        assert html.count("<tr>") <= 21
        assert len(repr(each)) < 2_000


@pytest.mark.medium
def test_frames_of_both_libraries_have_the_same_rows(shown):
    pytest.importorskip("pandas")
    for title, each in shown.items():
        if title != "ItemWeightedPCA(":
            frame, other = each.to_polars(), each.to_pandas()
            assert frame.shape == other.shape
            assert frame.columns == list(other.columns)


@pytest.mark.medium
def test_frames_hold_the_numbers(plays, shown):
    frame = plays.to_polars()
    assert frame["value"].sum() == pytest.approx(plays.matrix.sum())
    again = eq.Interactions.read(frame).align_items(plays.item_ids)
    assert (again.matrix != plays.matrix).nnz == 0
    ranking = shown["Ranking of 80 user(s)"]
    first = ranking.to_polars().filter(row=0)
    assert first["item"].to_list() == [i for i in ranking.ids[0].tolist() if i is not None]
    assert first["rank"].to_list() == list(range(1, len(first) + 1))
    one = eq.models.Ranking(np.array([3, -1]), np.array([0.5, np.nan])).to_polars()
    assert one.to_dicts() == [{"rank": 1, "item": 3, "score": 0.5}]
    tuning = shown["Tuning(VanillaPCA("]
    assert tuning.to_polars()["n_components"].to_list() == [2, 4]


def test_text_from_the_data_is_escaped_and_long_tables_are_cut():
    html = Shown("<b>", ["x"], [["<script>"]] * 30, ["a & b"]).html()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 20
    assert "10 more rows" in html
    assert "a &amp; b" in html


def test_columns_of_one_name_stay_distinct():
    table = Shown("t", ["a", "95 %", "b", "95 %"], [[1, 2, 3, 4]]).only(0, 2, 3)
    assert (table.columns, table.rows) == (["a", "b", "95 %"], [[1, 3, 4]])


@pytest.mark.medium
def test_findings_save_every_format(shown, tmp_path):
    found = shown["Findings("]
    for name in ("r.html", "r.md", "r.json"):
        assert found.save(tmp_path / name).stat().st_size > 1000
    assert json.loads((tmp_path / "r.json").read_text()) == json.loads(to_json(found))
    with pytest.raises(InvalidParameterError, match=r"\.html, \.md, \.json"):
        found.save(tmp_path / "r.pdf")

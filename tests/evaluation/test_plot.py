"""Pictures: whole files, equal bytes for equal results."""

from __future__ import annotations

import pytest

from equipoise.evaluation import evaluate, tune
from equipoise.evaluation.plot import plot_results, plot_tuning
from equipoise.exceptions import InvalidParameterError
from equipoise.models import ItemWeightedPCA, VanillaPCA

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def results(split):
    models = {"pca": VanillaPCA(), "iw": ItemWeightedPCA()}
    return evaluate(
        split,
        models,
        grid={"gamma": [-1.0], "n_components": [2, 4]},
        metrics=["recall", "ndcg", "mrr", "coverage"],
    )


@pytest.fixture(scope="module")
def tuning(split):
    return tune(
        split,
        grid={"n_components": [2, 4], "gamma": [0.0, -1.0]},
    )


@pytest.mark.parametrize(
    ("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
@pytest.mark.medium
def test_results_are_drawn_in_every_format_with_equal_bytes(results, tmp_path, suffix, magic):
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    plot_results(results, one)
    plot_results(results, other)
    assert one.read_bytes().startswith(magic)
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.medium
def test_a_picture_of_results_names_models_and_metrics(results, tmp_path):
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        plot_results(results, tmp_path / "table.svg")
    text = (tmp_path / "table.svg").read_text()
    for word in ("pca", "iw, gamma = -1.0", "recall@20", "coverage@20", "n_components"):
        assert word in text


@pytest.mark.medium
def test_a_search_is_drawn_with_its_frontier_and_choice(tuning, tmp_path):
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):
        plot_tuning(tuning, tmp_path / "search.svg")
    text = (tmp_path / "search.svg").read_text()
    for word in ("frontier", "choice", "ndcg@20 on validation", "aplt@20 on validation"):
        assert word in text


def test_what_cannot_be_drawn_is_refused(results, split, tmp_path):
    with pytest.raises(InvalidParameterError, match=r"a\.txt: .* \.png, \.svg, \.pdf"):
        plot_results(results, tmp_path / "a.txt")
    with pytest.raises(InvalidParameterError, match="nothing to draw"):
        plot_results(results.select(model="nobody"), tmp_path / "a.png")
    alone = tune(split, grid={"n_components": [2]}, trade_off=())
    with pytest.raises(InvalidParameterError, match="needs a second metric"):
        plot_tuning(alone, tmp_path / "a.png")

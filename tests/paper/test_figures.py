"""Figures: their numbers on hand-made matrices, and the bytes of the pictures."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise.data import Interactions
from equipoise.paper import figures
from equipoise.paper.measurements import fit_full_rank_pca, recorded_lightgcn
from equipoise.paper.protocol import DATASETS, MODELS, NORMALIZED, PCA, USER_METRICS
from equipoise.paper.tables import data_table, literature_tables
from equipoise.paper.theory.experiment import Experiment, finding

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="the extra 'plot' is not installed"
)
SCALES = np.array([5.0, 4.0, 3.0, 2.0, 1.0])


@pytest.fixture
def one_component_each():
    """Items without a common user: component j is item j."""
    return fit_full_rank_pca(Interactions.from_sparse(sp.csr_array(np.diag(SCALES))))


@pytest.fixture(scope="module")
def figure(runner):
    return figures.figure_8(runner)


def test_an_item_with_its_own_component_has_half_error_from_there(one_component_each):
    assert one_component_each.components_to_half_error.tolist() == [1, 2, 3, 4, 5]
    assert one_component_each.artists["2"].tolist() == [1, 1, 1, 0, 0, 0]


def test_the_overall_error_falls_by_the_squared_singular_values(one_component_each):
    expected = 1 - np.append(0, np.cumsum(SCALES**2)) / np.sum(SCALES**2)
    np.testing.assert_allclose(one_component_each.overall, expected, atol=1e-12)
    np.testing.assert_allclose(one_component_each.spectrum, SCALES**2 / np.sum(SCALES**2))


def test_items_with_a_late_component_have_no_diminishing_returns(one_component_each):
    assert one_component_each.uneven == 0.8  # all but the first


def test_tenths_are_cut_by_popularity():
    pca = fit_full_rank_pca(Interactions.from_sparse(sp.csr_array(np.diag(np.arange(1.0, 21.0)))))
    assert pca.mean_components("top") == 1.5
    assert pca.mean_components("bottom") == 19.5
    assert pca.mean_components("not top") == 11.5


def test_figure_1_has_every_artist_and_both_rules_of_groups(runner):
    table = figures.figure_1(runner).table
    dots = table.filter(panel="B")
    np.testing.assert_allclose(dots["x"], runner.pca.item_norms, atol=1e-6)
    np.testing.assert_array_equal(dots["y"], runner.pca.components_to_half_error)
    curves = set(table.filter(panel="C")["curve"])
    assert curves == {
        f"{g}, by {r}" for g in ("popular", "medium", "niche") for r in ("interactions", "items")
    }
    assert set(table.filter(panel="A", x=0.0)["y"]) == {1.0}
    assert set(table.filter(panel="C", x=0.0)["y"]) == {0.0}


@pytest.mark.parametrize(("name", "panels"), [("fig2", 4), ("fig3", 4), ("fig4", 2), ("fig6", 4)])
def test_a_figure_has_one_row_per_panel_model_and_rank(runner, name, panels):
    evaluation = runner.lastfm
    ranks = evaluation.item_ranks if name in ("fig2", "fig3") else evaluation.user_ranks
    table = figures.FIGURES[name](runner).table
    assert len(table) == len(table.unique()) == 2 * panels * len(MODELS) * len(ranks)


def test_figures_show_what_was_measured(runner):
    table, evaluation = figures.FIGURES["fig4"](runner).table, runner.lastfm
    shown = table.filter(dataset="lastfm", metric="ndcg@20", model=NORMALIZED)
    measured = evaluation.curve("ndcg@20", NORMALIZED, evaluation.user_ranks)
    assert shown["value"].to_list() == pytest.approx(measured, abs=1e-6)


def test_the_baselines_of_figure_8_do_not_depend_on_gamma(figure):
    assert figure.table.filter(model=PCA)["gamma"].to_list() == [None]
    gammas = figure.table["gamma"].drop_nulls().to_list()
    assert gammas == pytest.approx(np.arange(-20, 1) / 10)


def test_ties_at_full_rank_count_as_ties(runner, small_data):
    evaluation = runner.lastfm
    assert evaluation.value("self_reconstruction", PCA, 120) == pytest.approx(1)
    assert evaluation.value("item_auc", PCA, 120, "niche") == 0.5
    fitted = small_data.holdout(seed=1024).train_validation
    share = fitted.nnz / (fitted.n_users * fitted.n_items)
    assert evaluation.value("item_precision@20", PCA, 120) == pytest.approx(share)


def test_figure_7_shows_the_recorded_run_of_lightgcn(runner):
    dataset, curves = recorded_lightgcn()
    assert dataset in DATASETS
    assert set(curves) == set(USER_METRICS)
    shown = figures.figure_7(runner).table.filter(model="LightGCN", metric="ndcg@20")
    assert set(shown["dataset"]) == {dataset}
    assert shown["rank"].to_list() == sorted(curves["ndcg@20"])
    assert shown["value"].to_list() == pytest.approx(list(curves["ndcg@20"].values()), abs=1e-6)


def test_weighted_mf_of_figure_7_has_the_metrics_of_its_own_lists(runner, small_data):
    pytest.importorskip("implicit")
    from equipoise.models.peers.weighted_mf import WeightedMF

    split = small_data.holdout(seed=1024)
    R = split.train_validation.matrix
    lists = WeightedMF.published(16, random_state=0).fit(R).recommend(R, k=20).ids
    test = split.test.matrix.toarray() > 0
    hits = np.take_along_axis(test, lists, axis=1).sum(axis=1)
    assert runner.weighted_mf["lastfm"]["precision@20"][16] == pytest.approx(hits.mean() / 20)


def test_figure_7_without_implicit_mentions_it(small_data, monkeypatch, runner):
    bare = type(runner)(quick=True, load=lambda _name: small_data)
    monkeypatch.setitem(sys.modules, "implicit", None)
    figure = figures.figure_7(bare)
    assert figure.table.filter(model="Weighted MF").is_empty()
    assert "implicit is not installed" in figure.caption


def test_equal_numbers_give_equal_bytes(figure):
    assert figure.render("svg") == figure.render("svg")
    assert figure.render("png") == figure.render("png")
    assert figure.render("png").startswith(b"\x89PNG")


def test_a_picture_contains_no_date_and_no_version(figure):
    svg = figure.render("svg")
    assert b"<dc:date>" not in svg
    assert b"Matplotlib v" not in svg
    assert b"Software" not in figure.render("png")


def test_a_users_own_settings_do_not_change_a_picture(figure):
    import matplotlib

    plain = figure.render("svg")
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 30.0}):
        assert figure.render("svg") == plain
        assert matplotlib.rcParams["lines.linewidth"] == 9.0


@pytest.mark.slow
@pytest.mark.parametrize("name", list(figures.FIGURES))
def test_every_figure_can_be_drawn(runner, name):
    assert figures.FIGURES[name](runner).render("svg").rstrip().endswith(b"</svg>")


def test_figure_5_is_drawn_from_its_table():
    table = pl.DataFrame({"n": [1, 10], "mean": [1.0, 2.0], "p01": [0.5, 1.5], "p99": [1.5, 2.5]})
    findings = (finding("figure-5", True, 1.0),)
    made = figures.figure_5(Experiment("figure-5", "Figure 5", findings, table))
    assert made.name == "fig5"
    assert made.table["p99"].to_list() == [1.5, 2.5]
    assert made.render("png").startswith(b"\x89PNG")


def test_the_table_of_data_sets_counts_the_loaded_data(small_data):
    table = data_table({"lastfm": small_data}).table
    counts = (200, 120, small_data.matrix.count_nonzero())
    assert table.rows() == [("LastFM", *counts, "(0, 1)")]


def test_item_weighted_pca_is_last_in_both_comparisons():
    first, second, letters = literature_tables()
    assert first.table.rows()[-1][1:] == ("items", "no")
    assert second.table.rows()[-1][1:] == ("yes", "yes", "yes")
    assert "γ" in letters.table["letter"]

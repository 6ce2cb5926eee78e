"""Figures: the tables behind them against hand-made matrices, the pictures byte by byte."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError
from equipoise.paper import figures, more_figures
from equipoise.paper.gallery import Gallery
from equipoise.paper.protocol import MODELS, NORMALIZED, PCA, USER_METRICS
from equipoise.paper.recorded import recorded_lightgcn
from equipoise.paper.tables import data_table, literature_tables
from equipoise.paper.teaser import measure_teaser
from equipoise.paper.theory.experiment import Experiment, Panel, Series
from equipoise.paper.tidy import Tidy
from equipoise.paper.verdicts import Claim

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="the extra 'plot' is not installed"
)
SCALES = np.array([5.0, 4.0, 3.0, 2.0, 1.0])


@pytest.fixture
def one_component_each():
    """Items without a user in common: item j is component j, and nothing else is."""
    return measure_teaser(Interactions.from_sparse(sp.csr_array(np.diag(SCALES))))


@pytest.fixture(scope="module")
def evaluations(laboratory):
    return (laboratory.evaluation("lastfm"), laboratory.evaluation("movielens"))


@pytest.fixture(scope="module")
def figure(laboratory, evaluations):
    return figures.figure_8(laboratory.sweep, evaluations[1])


def test_an_item_with_a_component_of_its_own_is_halved_by_it(one_component_each):
    assert one_component_each.halving.tolist() == [1, 2, 3, 4, 5]
    assert one_component_each.artists["2"].tolist() == [1, 1, 1, 0, 0, 0]
    assert one_component_each.components_below("2", 0.2) == 3


def test_the_overall_error_falls_by_the_squared_singular_values(one_component_each):
    expected = 1 - np.append(0, np.cumsum(SCALES**2)) / np.sum(SCALES**2)
    np.testing.assert_allclose(one_component_each.overall, expected, atol=1e-12)
    np.testing.assert_allclose(one_component_each.spectrum, SCALES**2 / np.sum(SCALES**2))


def test_items_that_wait_for_their_component_have_no_diminishing_returns(one_component_each):
    assert one_component_each.uneven == 0.8  # all but the first wait


def test_tenths_are_taken_by_popularity():
    X = np.diag(np.arange(1.0, 21.0))
    teaser = measure_teaser(Interactions.from_sparse(sp.csr_array(X)))
    assert teaser.mean_halving("top") == 1.5
    assert teaser.mean_halving("bottom") == 19.5
    assert teaser.mean_halving("not top") == 11.5


def test_figure_1_holds_every_artist_and_both_rules_of_groups(laboratory):
    table = figures.figure_1(laboratory.teaser).table
    assert len(table.where(panel="B").rows) == 120
    curves = set(table.where(panel="C").column("curve"))
    assert curves == {f"{g}, by {r}" for g in ("high", "medium", "low") for r in ("mass", "items")}
    starts = table.where(x=0)
    assert set(starts.where(panel="A").column("y")) == {1.0}
    assert set(starts.where(panel="C").column("y")) == {0.0}


@pytest.mark.parametrize(
    ("make", "panels"),
    [(figures.figure_2, 4), (figures.figure_3, 4), (figures.figure_4, 2), (figures.figure_6, 4)],
)
def test_a_figure_has_one_row_for_each_panel_model_and_rank(evaluations, make, panels):
    in_sample = make in (figures.figure_2, figures.figure_3)
    ranks = evaluations[0].item_ranks if in_sample else evaluations[0].user_ranks
    rows = make(evaluations).table.rows
    assert len(rows) == len(set(rows)) == 2 * panels * len(MODELS) * len(ranks)


def test_figures_show_what_was_measured(evaluations):
    table = figures.figure_4(evaluations).table
    shown = table.where(dataset="lastfm", metric="ndcg@20", model=NORMALIZED)
    measured = evaluations[0].curve("ndcg@20", NORMALIZED, evaluations[0].user_ranks)
    assert shown.column("value") == pytest.approx(measured, abs=1e-6)


def test_the_baselines_of_figure_8_do_not_depend_on_gamma(figure):
    assert figure.table.where(model=PCA).column("gamma") == [None]
    gammas = figure.table.column("gamma")[:-2]
    assert (gammas[0], gammas[10], gammas[-1], len(gammas)) == (-2.0, -1.0, 0.0, 21)


def test_ties_at_full_rank_count_as_ties(laboratory, small_data):
    evaluation = laboratory.evaluation("lastfm")
    assert evaluation.value("diagonal", PCA, 120) == pytest.approx(1)
    assert evaluation.value("item_auc", PCA, 120, "low") == 0.5
    fitted = small_data.holdout().train_validation
    share = fitted.nnz / (fitted.n_users * fitted.n_items)
    assert evaluation.value("item_precision@20", PCA, 120) == pytest.approx(share)


def test_figure_7_says_what_is_left_out(evaluations):
    bare = more_figures.figure_7(evaluations, None)
    assert "Weighted MF and LightGCN are left out" in bare.caption
    curves = {"lastfm": {"recall@20": {4: 0.5, 8: 0.25}}}
    full = more_figures.figure_7(evaluations, curves)
    assert full.table.where(model="Weighted MF").column("value") == [0.5, 0.25]
    assert full.caption.endswith("LightGCN is left out.")
    assert full.table.where(model="LightGCN").rows == ()


RUN = {
    "dataset": "movielens",
    "settings": {"layers": 3},
    "curves": {metric: {"16": 0.4, "4": 0.2, "8": 0.3} for metric in USER_METRICS},
}


def test_figure_7_shows_a_recorded_run_of_lightgcn(evaluations, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    run = recorded_lightgcn(tmp_path / "run.json")
    assert run.settings == {"layers": 3}
    figure = more_figures.figure_7(evaluations, {"lastfm": {"recall@20": {4: 0.5}}}, run)
    shown = figure.table.where(model="LightGCN", metric="ndcg@20")
    assert shown.column("dataset") == ["movielens"] * 3
    assert shown.column("rank") == [4, 8, 16]
    assert shown.column("value") == [0.2, 0.3, 0.4]
    assert figure.caption.endswith("MovieLens alone, is from a recorded training run.")
    assert figure.render("svg") != more_figures.figure_7(evaluations, None, run).render("svg")
    bare = more_figures.figure_7(evaluations, None, run)
    assert bare.caption.endswith("recorded training run. Weighted MF is left out.")


def test_the_legend_of_figure_7_names_the_curves_of_both_rows(evaluations, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN), encoding="utf-8")
    run = recorded_lightgcn(tmp_path / "run.json")
    figure = more_figures.figure_7(evaluations, {"lastfm": {"recall@20": {4: 0.5}}}, run)
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=figure.size)
    figure.draw(canvas, figure.table)
    [legend] = canvas.legends
    named = [text.get_text() for text in legend.get_texts()]
    assert sorted(named) == ["Item-Weighted PCA", "LightGCN", "Weighted MF"]


def test_without_a_file_there_is_no_recorded_run(tmp_path):
    assert recorded_lightgcn(tmp_path / "absent.json") is None


def test_the_recorded_run_that_comes_with_the_package_can_be_read():
    run = recorded_lightgcn()
    assert run is None or run.dataset == "movielens"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no recorded run"),
        ("[]", "is no recorded run"),
        ('{"dataset": "movielens", "settings": {}}', r"is no recorded run \(KeyError: 'curves'\)"),
        (json.dumps(RUN | {"curves": {"recall@20": {"four": 1}}}), "is no recorded run"),
        (json.dumps(RUN | {"dataset": "netflix"}), r"one of \['lastfm', 'movielens'\], got 'netf"),
        (json.dumps(RUN | {"curves": {}}), r"curves must hold values for each of .*, got \[\]"),
        (
            json.dumps(RUN | {"curves": {**RUN["curves"], "ndcg@20": {}}}),
            r"curves must hold values for each of .*, got \['mrr@20:lightgcn', 'precision@20'",
        ),
    ],
)
def test_a_recorded_run_of_another_form_is_refused(tmp_path, text, message):
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidDataError, match=message):
        recorded_lightgcn(tmp_path / "run.json")


def test_equal_numbers_give_equal_bytes(figure):
    assert figure.render("svg") == figure.render("svg")
    assert figure.render("png") == figure.render("png")
    assert figure.render("png").startswith(b"\x89PNG")


def test_a_picture_carries_no_date_and_no_version(figure):
    svg = figure.render("svg")
    assert b"<dc:date>" not in svg
    assert b"Matplotlib v" not in svg
    assert b"Software" not in figure.render("png")


def test_a_readers_own_settings_do_not_change_a_picture(figure):
    import matplotlib

    plain = figure.render("svg")
    with matplotlib.rc_context({"lines.linewidth": 9.0, "font.size": 30.0}):
        assert figure.render("svg") == plain
        assert matplotlib.rcParams["lines.linewidth"] == 9.0


@pytest.mark.slow
def test_every_figure_can_be_drawn(laboratory, evaluations):
    drawn = [
        figures.figure_1(laboratory.teaser),
        *(make(evaluations) for make in (figures.figure_2, figures.figure_3, figures.figure_4)),
        figures.figure_6(evaluations),
        more_figures.figure_7(evaluations, None),
    ]
    for one in drawn:
        assert one.render("svg").rstrip().endswith(b"</svg>")


def test_an_experiment_is_drawn_panel_by_panel():
    table = {
        "n": np.array([1, 10]),
        "y": np.array([1.0, 2.0]),
        "low": np.array([0.5, 1.5]),
        "high": np.array([1.5, 2.5]),
    }
    series = (Series("measured", "n", "y", low="low", high="high"), Series("theory", "n", "y"))
    panel = Panel("title", "n", "y", series, "log", "log")
    claim = Claim("figure-5", "It grows", "appendix", 1.0, "by a fit")
    experiment = Experiment("figure-5", "Figure 5", claim, (), table, (panel, panel))
    made = more_figures.theory_figure(experiment)
    assert (made.name, made.caption) == ("fig5", "It grows.")
    assert made.table.column("high") == [1.5, 2.5]
    assert made.render("png").startswith(b"\x89PNG")


def test_a_figure_is_drawn_once_and_again_when_its_numbers_or_files_change(tmp_path, figure):
    gallery = Gallery(tmp_path / "figures", tmp_path / "figures.json")
    assert gallery.hang(figure).drawn
    again = gallery.hang(figure)
    assert not again.drawn
    assert again.svg == figure.render("svg")
    (tmp_path / "figures" / "fig8.png").write_bytes(b"cut")
    assert gallery.hang(figure).drawn
    changed = Tidy.of(figure.table.columns, figure.table.rows[1:])
    assert gallery.hang(replace(figure, table=changed)).drawn


def test_a_damaged_register_counts_as_empty(tmp_path, figure):
    gallery = Gallery(tmp_path, tmp_path / "figures.json")
    (tmp_path / "figures.json").write_text("{cut")
    assert gallery.hang(figure).drawn
    assert not gallery.hang(figure).drawn


def test_without_matplotlib_the_numbers_are_written_all_the_same(tmp_path, figure):
    hung = Gallery(tmp_path, tmp_path / "figures.json", pictures=False).hang(figure)
    assert hung.svg == b""
    assert (tmp_path / "fig8.csv").read_text() == figure.table.csv()
    assert not (tmp_path / "fig8.svg").exists()


def test_the_table_of_data_counts_what_was_read(evaluations, small_data):
    table = data_table(evaluations).table
    assert table.column("users") == [200, 200]
    assert table.column("entries") == [small_data.nnz] * 2


def test_item_weighted_pca_is_last_in_both_comparisons():
    first, second, letters = literature_tables()
    assert first.table.rows[-1][1:] == ("items", "no")
    assert second.table.rows[-1][1:] == ("yes", "yes", "yes")
    assert "γ" in letters.table.column("letter")

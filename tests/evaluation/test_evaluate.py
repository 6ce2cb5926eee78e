"""`evaluate`: one fit, all ranks, one tidy table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Groups
from equipoise import metrics as m
from equipoise.data import Interactions, Split, holdout
from equipoise.evaluation import Results, evaluate
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from tests.recorded_progress import Recorded

THREE = {"pca": VanillaPCA(), "norm": NormalizedPCA(), "iw": ItemWeightedPCA()}


def test_each_model_and_gamma_is_fitted_once_for_all_ranks(split, counted):
    results = evaluate(
        split,
        {"iw": counted},
        grid={"gamma": [0.0, -1.0], "n_components": [2, 4, 8]},
        metrics=["recall"],
    )
    assert counted.fits == [(0.0, 8), (-1.0, 8)]
    assert [(r.settings["gamma"], r.settings["n_components"]) for r in results] == [
        (gamma, rank) for gamma in (0.0, -1.0) for rank in (2, 4, 8)
    ]


@pytest.mark.parametrize("name", THREE)
def test_rows_equal_the_metrics_of_models_fitted_rank_by_rank(split, name):
    results = evaluate(
        split,
        {name: THREE[name]},
        grid={"n_components": [3, 6]},
        metrics=[
            "ndcg",
            "recall@5",
            "item_auc",
            "item_precision@5",
            "specialization",
            "item_error",
        ],
    )
    X, test = split.train_validation.matrix, split.test.matrix
    groups = m.popularity_groups(X)
    for rank in (3, 6):
        model = type(THREE[name])(rank, tol=1e-9).fit(X)
        U, inputs = model.components_.T, model.preprocess(X)
        lists = model.recommend(X, k=20).ids
        auc = m.mean_by_group(m.item_auc(X, U, inputs=inputs), groups)
        expected = {
            "ndcg@20": m.ndcg_at_k(lists, test).value,
            "recall@5": m.recall_at_k(lists, test, 5).value,
            "item_auc": auc.overall,
            "item_precision@5": np.nanmean(m.item_precision(X, U, k=5, inputs=inputs)),
            "specialization": m.specialization(m.self_reconstruction(U)[-1]),
            "item_error": np.nanmean(m.item_error(inputs, U)[-1]),
        }
        for metric, value in expected.items():
            assert results.value(metric, n_components=rank) == pytest.approx(value, abs=2e-4), (
                metric
            )
        niche = results.value("item_auc", n_components=rank, group="niche")
        assert niche == pytest.approx(auc.by_group["niche"], abs=2e-4)


def test_every_metric_gives_rows_with_its_name_convention_and_count(split):
    results = evaluate(
        split,
        {"iw": ItemWeightedPCA()},
        grid={"n_components": [4]},
        metrics=list(m.available()),
        k=10,
    )
    assert {row.metric for row in results} == set(m.available())
    assert all(row.convention and row.n > 0 for row in results)
    groups = {row.group for row in results.select("group_exposure")}
    assert groups == {"all", "popular", "medium", "niche"}
    shares = [results.value("group_exposure", group=g) for g in ("popular", "medium", "niche")]
    assert sum(shares) == pytest.approx(1)


def test_two_conventions_of_one_metric_stand_side_by_side(split):
    results = evaluate(
        split, [VanillaPCA()], grid={"n_components": [4]}, metrics=["mrr", "mrr:lightgcn"]
    )
    assert results.value("mrr:lightgcn") > results.value("mrr:standard")
    with pytest.raises(InvalidParameterError, match="2 rows for 'mrr'"):
        results.value("mrr")


def test_the_right_items_of_a_checkerboard_are_found(checkerboard):
    results = evaluate(
        checkerboard, grid={"n_components": [2]}, metrics=["recall", "precision@1"], k=10
    )
    assert len(results) == 6
    assert all(row.value == 1 for row in results)


def test_users_without_held_out_items_are_left_out_or_count_zero(checkerboard):
    X = sp.csr_array(sp.vstack([checkerboard.matrix, sp.csr_array(np.eye(1, 20))]))
    data = Interactions.from_sparse(X)  # the last user has one item, which stays in train
    left_out = evaluate(data, [VanillaPCA()], grid={"n_components": [2]}, metrics=["recall"], k=10)
    as_zero = evaluate(
        data, [VanillaPCA()], grid={"n_components": [2]}, metrics=["recall"], k=10, zero_division=0
    )
    assert (left_out.rows[0].value, left_out.rows[0].n) == (1.0, 30)
    assert as_zero.rows[0].value == pytest.approx(30 / 31)
    assert as_zero.rows[0].n == 31
    assert as_zero.rows[0].convention == "standard, users without held-out items count 0"


def test_the_validation_part_is_scored_by_models_that_saw_train_alone(split):
    on_validation = evaluate(
        split, [VanillaPCA()], grid={"n_components": [4]}, metrics=["recall"], part="validation"
    )
    same = Split(split.train, split.test, split.validation)  # the test part plays no role
    assert on_validation.rows[0].n == np.sum(np.diff(split.validation.matrix.indptr) > 0)
    lists = VanillaPCA(4).fit(split.train).recommend(split.train, k=20).ids
    expected = m.recall_at_k(lists, split.validation.matrix).value
    assert on_validation.value("recall") == pytest.approx(expected)
    assert (
        evaluate(same, [VanillaPCA()], grid={"n_components": [4]}, metrics=["recall"])
        != on_validation
    )


def test_users_that_were_held_out_whole_are_scored_from_their_history(world):
    split = holdout(world, method="by_user")
    results = evaluate(
        split, [VanillaPCA()], grid={"n_components": [4]}, metrics=["recall"], zero_division=0
    )
    tested = np.diff(split.test.matrix.indptr) > 0
    model = VanillaPCA(4).fit(split.train_validation)
    lists = model.recommend(split.history.matrix[tested], k=20).ids
    expected = m.recall_at_k(lists, split.test.matrix[tested])
    assert results.rows[0].n == tested.sum()
    assert results.value("recall") == pytest.approx(expected.value)


def test_lists_of_any_other_model_can_be_scored(split):
    popular = np.argsort(-split.train_validation.popularity("count"))[:20]
    lists = np.tile(popular, (split.train.n_users, 1))
    results = evaluate(split, {"popular": lists}, metrics=["recall", "item_auc"])
    assert [row.metric for row in results] == ["recall"]
    assert results.rows[0].settings == {}
    assert results.value("recall") == m.recall_at_k(lists, split.test.matrix).value
    with pytest.raises(InvalidDataError, match="'popular' must be 300 users"):
        evaluate(split, {"popular": lists[:5]}, metrics=["recall"])


def test_under_an_error_budget_every_rank_is_fitted_by_itself(split):
    model = ItemWeightedPCA(gamma=-2.0, error_budget=0.05)
    results = evaluate(
        split, {"iw": model}, grid={"n_components": [2, 5]}, metrics=["specialization"]
    )
    for rank in (2, 5):
        fitted = ItemWeightedPCA(rank, gamma=-2.0, error_budget=0.05).fit(split.train_validation)
        expected = m.specialization(fitted.self_reconstruction())
        assert results.value("specialization", n_components=rank) == pytest.approx(
            expected, abs=1e-5
        )


def test_a_sample_of_items_gives_about_the_same_and_says_how_many(split):
    whole = evaluate(
        split,
        [VanillaPCA()],
        grid={"n_components": [4]},
        metrics=["item_auc", "self_reconstruction"],
    )
    sampled = evaluate(
        split,
        [VanillaPCA()],
        grid={"n_components": [4]},
        metrics=["item_auc", "self_reconstruction"],
        item_sample=40,
    )
    assert sampled.row("item_auc").n <= 40 < whole.row("item_auc").n
    assert sampled.value("item_auc") == pytest.approx(whole.value("item_auc"), abs=0.05)
    assert sampled.value("self_reconstruction") == whole.value("self_reconstruction")


def test_groups_of_ones_own_are_reported_by_name(split):
    own = m.ItemGroups(("first", "rest"), np.repeat([0, 1], [10, 50]), "mine")
    results = evaluate(
        split,
        [VanillaPCA()],
        grid={"n_components": [4]},
        metrics=["self_reconstruction"],
        groups=own,
    )
    assert [(row.group, row.n) for row in results] == [("all", 60), ("first", 10), ("rest", 50)]
    assert all("mine" in row.convention for row in results)


def test_groups_are_matched_by_id_and_items_may_be_in_several(split):
    ids = split.train.item_ids
    labels = {item: ["even", "small"] if item < 10 else "even" for item in ids[::2].tolist()}
    results = evaluate(
        split,
        [VanillaPCA()],
        grid={"n_components": [4]},
        metrics=["self_reconstruction", "group_coverage"],
        groups=Groups.from_labels(dict(reversed(labels.items()))),
    )
    values = m.self_reconstruction(VanillaPCA(4).fit(split.train_validation).components_.T, [4])[0]
    even = np.isin(ids, list(labels))
    assert results.value("self_reconstruction", group="even") == pytest.approx(values[even].mean())
    small = even & (ids < 10)
    assert results.value("self_reconstruction", group="small") == pytest.approx(
        values[small].mean()
    )
    assert results.row("group_coverage", group="small").n == small.sum()


def test_metrics_of_users_are_reported_by_group_of_users(split):
    ids = split.train.user_ids
    groups = Groups.from_labels({user: user % 3 for user in ids[::-1].tolist()}, of="users")
    arguments = {"grid": {"n_components": [4]}, "metrics": ["ndcg", "coverage"], "per_user": True}
    plain = evaluate(split, [VanillaPCA()], **arguments)
    results = evaluate(split, [VanillaPCA()], user_groups=groups, **arguments)
    per_user = plain.row("ndcg").per_user
    for name in ("0", "1", "2"):
        row = results.row("ndcg", group=f"users: {name}")
        own = per_user[ids % 3 == int(name)]
        assert row.value == pytest.approx(np.nanmean(own))
        assert row.n == np.count_nonzero(~np.isnan(own))
        assert results.interval(row).low < row.value < results.interval(row).high
    assert results.value("ndcg") == plain.value("ndcg")
    assert [row.group for row in results.select("coverage")] == ["all"]
    with pytest.raises(InvalidParameterError, match="groups of items"):
        evaluate(split, [VanillaPCA()], groups=groups)
    with pytest.raises(InvalidParameterError, match="Groups of users"):
        evaluate(split, [VanillaPCA()], user_groups=Groups.from_labels({1: "a"}))


def test_progress_rises_from_nothing_to_all(split):
    seen = Recorded()
    evaluate(split, THREE, grid={"n_components": [2]}, metrics=["recall"], progress=seen)
    assert seen.first["name"] == "Evaluating"
    assert seen.first["done"] == seen.first["total"] == 3
    assert [one["name"] for one in seen.tasks if one["name"].startswith("Fitting")] == [
        "Fitting VanillaPCA",
        "Fitting NormalizedPCA",
        "Fitting ItemWeightedPCA",
    ]
    assert seen.is_over


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"grid": {"n_components": [0]}}, InvalidParameterError, "whole number from 1 to 60"),
        ({"grid": {"n_components": [61]}}, InvalidParameterError, "number of items, got 61"),
        ({"grid": {"n_components": []}}, InvalidParameterError, "at least one value"),
        ({"grid": {"rank": [4]}}, InvalidParameterError, "no model has a parameter 'rank'"),
        ({"models": {}}, InvalidParameterError, "models is empty"),
        ({"models": {"x": "pca"}}, InvalidParameterError, "model 'x' must be an equipoise model"),
        ({"models": [VanillaPCA(), VanillaPCA()]}, InvalidParameterError, "two of the models"),
        (
            {"groups": "old"},
            InvalidParameterError,
            "groups must be one of .*'interactions'.* got 'old'",
        ),
        ({"zero_division": "drop"}, InvalidParameterError, "zero_division must be nan or 0"),
        ({"part": "train"}, InvalidParameterError, "part must be one of"),
        ({"item_sample": 0}, InvalidParameterError, "item_sample=0 must be a whole number"),
        (
            {"groups": m.ItemGroups(("a",), [0, 0])},
            InvalidDataError,
            "groups has 2 items, the data have 60",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(split, options, error, message):
    with pytest.raises(error, match=message):
        evaluate(split, **options)


def test_other_data_is_refused_with_the_way_to_make_it_fit(world, split):
    nothing = split.test.keep_entries(np.zeros(split.test.nnz, dtype=bool))
    with pytest.raises(InvalidDataError, match="or a Split, got csr_array"):
        evaluate(world.matrix)
    with pytest.raises(InvalidDataError, match=r"test part .* is empty"):
        evaluate(Split(split.train, split.validation, nothing))


def test_results_can_be_selected_ranked_and_written(split, tmp_path):
    results = evaluate(
        split, THREE, grid={"n_components": [2, 4]}, metrics=["recall", "specialization"]
    )
    best = results.best("recall")
    assert best.value == max(row.value for row in results.select("recall"))
    frame = results.to_polars()
    columns = ["model", "n_components", "group", "metric", "k", "convention", "value", "n"]
    assert frame.columns == columns
    results.write_csv(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines[0] == ",".join(columns)
    assert len(lines) == len(results) + 1
    assert isinstance(results, Results)
    with pytest.raises(InvalidParameterError, match="no column 'colour'"):
        results.select(colour="red")
    with pytest.raises(InvalidParameterError, match="no row for 'ndcg'"):
        results.value("ndcg")
    with pytest.raises(InvalidParameterError, match="no row for 'ndcg' with a value"):
        results.best("ndcg")

"""Updates: the certified loss bounds the true one, and the preparation is repeated."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from equipoise import EASE, Interactions, ItemWeightedPCA, NormalizedPCA, VanillaPCA, load
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError, InvalidParameterError, PreparationWarning


@pytest.fixture(scope="module")
def plays() -> Interactions:
    return listening(n_users=900, n_items=200)


@pytest.fixture(scope="module")
def before(plays) -> Interactions:
    """Fewer users, fewer items, and fewer interactions of the users who are there."""
    part = plays.select_users(plays.user_ids[:700])
    part = part.keep_entries(np.random.default_rng(0).random(part.nnz) < 0.9)
    kept = np.sort(np.random.default_rng(1).permutation(200)[:185])
    return part.select_items(plays.item_ids[kept]).with_preparation(())


MODELS = [ItemWeightedPCA(8), ItemWeightedPCA(8, gamma=-0.5, user_scaling=0.5), VanillaPCA(8)]


def objective(model, data) -> float:
    """tr(MP) of the components, by dense matrices."""
    X = model.preprocess(model.read_rows(data)).toarray()
    w = getattr(model, "item_weights_", np.ones(X.shape[1]))
    C = X.T @ X
    U = model.components_.T
    return float(np.trace(U.T @ ((w[:, None] * C + C * w) / 2) @ U))


@pytest.mark.parametrize("passes", [1, 2, 3])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_certified_loss_bounds_the_true_loss(plays, before, model, passes):
    old = clone(model).fit(before)
    found = old.update(plays, all_data=True, passes=passes)
    refit = clone(model).set_params(solver="dense").fit(plays)
    best = objective(refit, plays)
    true_loss = (best - objective(found.model, plays)) / best
    assert -1e-9 <= true_loss <= found.loss
    assert found.passes == passes == found.model.certificate_.passes
    assert not found.refitted
    assert set(found.model.item_ids_) == set(plays.item_ids)
    # an update passes over data of this size in float32, whose rounding is 6e-8
    np.testing.assert_allclose(
        found.model.certificate_.objective, objective(found.model, plays), rtol=1e-6
    )
    np.testing.assert_allclose(
        found.model.components_ @ found.model.components_.T, np.eye(8), atol=1e-9
    )


@pytest.mark.parametrize("all_data", [False, True])
def test_a_matrix_without_ids_is_refused(before, all_data):
    old = ItemWeightedPCA(8).fit(before).keep_gram(before)
    for rows in (before.matrix, before.matrix.toarray()):
        with pytest.raises(InvalidDataError, match="interactions must be Interactions"):
            old.update(rows, all_data=all_data)
        with pytest.raises(InvalidDataError, match="interactions must be Interactions"):
            old.keep_gram(rows)
        with pytest.raises(InvalidDataError, match="interactions must be Interactions"):
            old.add_items(rows)
    with pytest.raises(InvalidDataError, match="replaced must be Interactions"):
        old.update(before, replaced=before.matrix)


@pytest.mark.parametrize("bound", [float("nan"), -0.1])
def test_a_bound_that_no_update_meets_is_refused(plays, before, bound):
    with pytest.raises(InvalidParameterError, match="refit_above"):
        ItemWeightedPCA(8).fit(before).update(plays, all_data=True, refit_above=bound)


def test_more_passes_lose_less(plays, before):
    old = ItemWeightedPCA(8).fit(before)
    objectives = [
        old.update(plays, all_data=True, passes=n).model.certificate_.objective
        for n in (1, 2, 4, 8)
    ]
    assert objectives == sorted(objectives)
    refit = ItemWeightedPCA(8, solver="dense").fit(plays).certificate_.objective
    assert objectives[-1] == pytest.approx(refit, rel=1e-6)


def test_a_large_bound_leads_to_a_refit(plays, before):
    old = ItemWeightedPCA(8).fit(before)
    found = old.update(plays, all_data=True, passes=1, refit_above=1e-9)
    assert found.refitted
    assert found.loss < 1e-6
    assert found.passes > 1
    assert not old.update(plays, all_data=True, passes=1, refit_above=1e9).refitted


def test_passes_end_where_they_can_add_nothing(plays):
    few = plays.select_items(plays.item_ids[:5]).with_preparation(())
    found = ItemWeightedPCA(3).fit(few).update(few, all_data=True, passes=9)
    assert found.passes < 9
    expected = ItemWeightedPCA(3, solver="dense").fit(few).certificate_.objective
    assert found.model.certificate_.objective == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("most", [0.02, 0.001, 1e-5])
def test_passes_are_added_until_the_bound_is_met(plays, before, most):
    found = ItemWeightedPCA(8).fit(before).update(plays, all_data=True, passes=1, refit_above=most)
    best = objective(ItemWeightedPCA(8, solver="dense").fit(plays), plays)
    true_loss = (best - objective(found.model, plays)) / best
    assert -1e-9 <= true_loss <= found.loss <= most
    assert found.refitted == (found.passes > 6)
    fewer = ItemWeightedPCA(8).fit(before).update(plays, all_data=True, passes=found.passes - 1)
    assert found.refitted or fewer.loss > most


@pytest.mark.parametrize(
    "prepare",
    [
        lambda p: p.normalize_rows(),
        lambda p: p.filter(min_users_per_item=40).binarize().normalize_rows(),
    ],
)
def test_the_preparation_of_the_fit_is_repeated(plays, before, prepare):
    old = ItemWeightedPCA(8).fit(prepare(before))
    updated, expected = (
        old.update(plays, all_data=True, passes=8).model,
        ItemWeightedPCA(8).fit(prepare(plays)),
    )
    assert updated.preparation_ == old.preparation_
    assert updated.certificate_.objective == pytest.approx(
        expected.certificate_.objective, rel=1e-5
    )
    with pytest.raises(InvalidDataError, match="another way"):
        old.update(plays.binarize().filter(min_users_per_item=2), all_data=True)


def test_updates_do_not_depend_on_where_the_rows_are(plays, before, tmp_path):
    old = ItemWeightedPCA(8).fit(before)
    entries = plays.matrix.tocoo()
    table = {"user": plays.user_ids[entries.row], "item": plays.item_ids[entries.col]}
    pl.DataFrame(table | {"value": entries.data}).write_parquet(tmp_path / "plays.parquet")
    on_disk = Interactions.read(tmp_path / "plays.parquet", memory="1GB", n_blocks=3)
    in_memory = Interactions.read(tmp_path / "plays.parquet").select_items(on_disk.item_ids)
    one = old.update(in_memory.with_preparation(()), all_data=True)
    other = old.update(on_disk, all_data=True)
    assert other.loss == pytest.approx(one.loss, rel=1e-6)


# With the default tolerance, the two fits may differ by as much as the assertion allows.
@pytest.mark.parametrize("gamma", [-1, 0])
def test_kept_sums_give_the_refit_without_the_old_data(plays, tmp_path, gamma):
    unfitted = ItemWeightedPCA(8, gamma=gamma, tol=1e-9)
    old_rows = plays.select_users(plays.user_ids[:700]).normalize_rows()
    model = clone(unfitted).fit(old_rows).keep_gram(old_rows)
    model = load(model.save(tmp_path / "model.eqp"))
    changed = plays.select_users(plays.user_ids[650:])  # 50 rows again, 200 new ones
    before = plays.select_users(plays.user_ids[650:700])
    found = model.update(changed, replaced=before)
    expected = clone(unfitted).fit(plays.normalize_rows())
    assert found.passes == 0
    assert found.model.certificate_.objective == pytest.approx(
        expected.certificate_.objective, rel=1e-9
    )
    np.testing.assert_allclose(
        found.model.score_items(plays), expected.score_items(plays), atol=1e-6
    )


def test_what_cannot_be_updated_is_refused(plays):
    with pytest.raises(InvalidParameterError, match="keep_gram"):
        ItemWeightedPCA(4).fit(plays).update(plays)
    with pytest.raises(InvalidParameterError, match="ids"):
        ItemWeightedPCA(4).fit(plays.matrix).update(plays, all_data=True)
    with pytest.raises(InvalidParameterError, match="NormalizedPCA"):
        NormalizedPCA(4).fit(plays).update(plays, all_data=True)
    with pytest.raises(InvalidParameterError, match="NormalizedPCA"):
        NormalizedPCA(4).fit(plays).keep_gram(plays)
    with pytest.raises(InvalidParameterError, match="gamma=0 is PCA"):
        VanillaPCA(4).fit(plays).keep_gram(plays)
    with pytest.raises(InvalidParameterError, match="replaced"):
        ItemWeightedPCA(4).fit(plays).update(plays, all_data=True, replaced=plays)
    assert not hasattr(EASE, "update")


def test_new_rows_alone_are_not_taken_for_all_data_in_silence(plays, before):
    old = ItemWeightedPCA(4).fit(before)
    with pytest.warns(PreparationWarning, match="those of the fit had"):
        old.update(plays.select_users(plays.user_ids[:50]), all_data=True)


def test_all_data_are_not_taken_for_new_rows_in_silence(plays):
    old = plays.select_users(plays.user_ids[:700])
    model = ItemWeightedPCA(4).fit(old).keep_gram(old)
    with pytest.warns(PreparationWarning, match="count twice"):
        model.update(plays)


def test_the_counts_of_users_follow_the_data(plays, before):
    old = ItemWeightedPCA(4).fit(before)
    by_id = dict(zip(plays.item_ids.tolist(), plays.popularity("count").tolist(), strict=True))
    found = old.update(plays, all_data=True).model
    assert dict(zip(found.item_ids_.tolist(), found.item_counts_.tolist(), strict=True)) == by_id
    first, rest = plays.user_ids[:600], plays.user_ids[600:]
    kept = plays.select_users(first)
    summed = ItemWeightedPCA(4).fit(kept).keep_gram(kept)
    found = summed.update(plays.select_users(rest)).model
    assert dict(zip(found.item_ids_.tolist(), found.item_counts_.tolist(), strict=True)) == by_id


def test_an_item_without_users_after_an_update_has_no_vector(plays):
    item = plays.item_ids[[3]]
    theirs = plays.select_users(plays.user_ids[plays.select_items(item).items_per_user() > 0])
    others = theirs.select_items(plays.item_ids[plays.item_ids != item[0]])
    for gamma in (-1.0, -2.0):
        model = ItemWeightedPCA(8, gamma=gamma, value_transform="log1p").fit(plays)
        model.keep_gram(plays)
        updated = model.update(others, replaced=theirs).model
        assert updated.item_counts_[3] == updated.gram_[3, 3] == updated.item_weights_[3] == 0
        np.testing.assert_allclose(updated.components_[:, 3], 0, atol=1e-6)


def test_replaced_rows_are_not_taken_for_new_ones(plays, recwarn):
    model = ItemWeightedPCA(4).fit(plays).keep_gram(plays)
    model.update(plays, replaced=plays)
    assert not recwarn
    with pytest.warns(PreparationWarning, match="count twice"):
        model.update(plays)


def test_replaced_rows_that_were_not_part_of_the_fit_are_refused(plays, before):
    model = ItemWeightedPCA(4).fit(before).keep_gram(before)
    others = plays.select_items(before.item_ids)
    with pytest.raises(InvalidDataError, match="have more of item"):
        model.update(before, replaced=others)


def test_data_without_new_items_add_none(plays):
    model = ItemWeightedPCA(4).fit(plays)
    same = model.add_items(plays)
    assert same.n_features_in_ == model.n_features_in_
    assert len(same.projection_errors_) == 0


@pytest.mark.parametrize("order", ["users_first", "items_first"])
def test_added_and_replaced_users_are_filtered_as_in_the_fit(plays, order):
    def refit(data, items):
        if order == "items_first":
            return data.align_items(items, unknown="drop").filter(0, 12)
        return data.filter(0, 12).align_items(items, unknown="drop")

    old, new = plays.select_users(plays.user_ids[:600]), plays.select_users(plays.user_ids[300:])
    assert (plays.items_per_user() < 12).any()
    changed = plays.select_users(plays.user_ids[300:600])
    kept = old.filter(60, 12, order=order)
    assert kept.n_items < plays.n_items
    model = ItemWeightedPCA(4).fit(kept).keep_gram(kept)
    found = model.update(new, replaced=changed).model
    expected = ItemWeightedPCA(4).fit(refit(plays, model.item_ids_))
    np.testing.assert_array_equal(found.item_counts_, expected.item_counts_)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_)
    few = plays.select_users(plays.user_ids[plays.items_per_user() < 12])
    same = model.update(few, replaced=few).model
    np.testing.assert_array_equal(same.item_counts_, model.item_counts_)

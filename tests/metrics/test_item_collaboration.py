from __future__ import annotations

import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from equipoise import VanillaPCA
from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import (
    collaboration,
    item_auc,
    item_collaboration,
    item_precision,
    kernels,
    ties,
)
from equipoise.parallel import Tally


@pytest.fixture(params=["plain", "compiled"])
def path(request, monkeypatch):
    """Run a test on the NumPy and on the compiled loop."""
    monkeypatch.setattr(Tally, "is_large", lambda *_, **__: request.param == "compiled")


on_both_paths = pytest.mark.usefixtures("path")


@pytest.fixture
def X():
    return sp.random_array(
        (60, 17), density=0.25, random_state=np.random.default_rng(8), format="csr"
    )


@pytest.fixture
def U():
    return np.linalg.qr(np.random.default_rng(9).normal(size=(17, 5)))[0]


def off_diagonal_scores(inputs, P):
    return inputs.toarray() @ (P - np.diag(np.diag(P)))


def auc_by_sklearn(X, scores):
    y = X.toarray() > 0
    return np.array([roc_auc_score(y[:, j], scores[:, j]) for j in range(y.shape[1])])


def precision_by_sorting(X, scores, k):
    y = X.toarray() > 0
    first = np.argsort(-scores, axis=0, kind="stable")[:k]
    return np.take_along_axis(y, first, axis=0).mean(axis=0)


@on_both_paths
@pytest.mark.medium
def test_item_auc_equals_sklearn_item_by_item(X, U):
    expected = auc_by_sklearn(X, off_diagonal_scores(X, U @ U.T))
    np.testing.assert_allclose(item_auc(X, U), expected, rtol=1e-13)


@pytest.mark.medium
@on_both_paths
def test_item_precision_equals_sorting_all_users(X, U):
    for k in (1, 7, 59, 60):
        expected = precision_by_sorting(X, off_diagonal_scores(X, U @ U.T), k)
        np.testing.assert_allclose(item_precision(X, U, k=k), expected)


@on_both_paths
def test_ranks_from_prefixes_equal_each_rank_alone(X, U):
    both = item_collaboration(X, U, k=4, ranks=[3, 1, 5])
    for row, r in enumerate((3, 1, 5)):
        np.testing.assert_allclose(both.auc[row], item_auc(X, U[:, :r]), rtol=1e-12)
        np.testing.assert_allclose(both.precision[row], item_precision(X, U[:, :r], k=4))
    assert both.ranks.tolist() == [3, 1, 5]
    assert both.k == 4


@on_both_paths
def test_without_components_every_item_is_a_coin_toss(X, U):
    np.testing.assert_array_equal(item_auc(X, U, ranks=[0]), np.full((1, 17), 0.5))


@on_both_paths
def test_scores_may_come_from_another_matrix_than_the_labels(X, U):
    scaled = (X @ sp.diags_array(np.linspace(0.1, 5, 17))).tocsr()
    expected = auc_by_sklearn(X, off_diagonal_scores(scaled, U @ U.T))
    np.testing.assert_allclose(item_auc(X, U, inputs=scaled), expected, rtol=1e-13)


@on_both_paths
def test_inputs_may_have_other_entries_than_the_labels(X, U):
    other = sp.random_array(
        (60, 17), density=0.3, random_state=np.random.default_rng(1), format="csr"
    )
    expected = auc_by_sklearn(X, off_diagonal_scores(other, U @ U.T))
    np.testing.assert_allclose(item_auc(X, U, inputs=other), expected, rtol=1e-13)


@on_both_paths
def test_a_full_similarity_matrix_scores_by_its_columns(X):
    S = np.random.default_rng(10).normal(size=(17, 17))
    scores = off_diagonal_scores(X, S)
    both = item_collaboration(X, similarity=S, k=6)
    np.testing.assert_allclose(both.auc, auc_by_sklearn(X, scores), rtol=1e-13)
    np.testing.assert_allclose(both.precision, precision_by_sorting(X, scores, 6))
    assert S[3, 3] != 0  # the caller's matrix is left as it was


@on_both_paths
def test_a_projection_and_its_similarity_matrix_agree(X, U):
    np.testing.assert_allclose(item_auc(X, U), item_auc(X, similarity=U @ U.T), rtol=1e-12)


@on_both_paths
def test_a_spectrum_grades_the_scores(X, U):
    f = np.array([1.0, 0.8, 0.5, 0.2, 0.1])
    expected = item_auc(X, similarity=U @ np.diag(f) @ U.T)
    np.testing.assert_allclose(item_auc(X, U, component_weights=f), expected, rtol=1e-12)


@on_both_paths
def test_general_factors_stand_for_their_column_space(X):
    V = np.random.default_rng(11).normal(size=(17, 4))
    expected = item_auc(X, similarity=V @ np.linalg.pinv(V))
    np.testing.assert_allclose(item_auc(X, V), expected, rtol=1e-12)


@on_both_paths
def test_only_the_items_asked_for_are_scored(X, U):
    np.testing.assert_allclose(item_auc(X, U, items=[5, 2]), item_auc(X, U)[[5, 2]])
    assert item_auc(X, U, items=np.array([], dtype=int)).shape == (0,)


def test_blocks_of_items_make_no_difference(X, U, monkeypatch):
    """Each thread has a block of items, or more."""
    monkeypatch.setattr(Tally, "is_large", lambda *_, **__: True)
    found = []
    for threads in ("1", "4"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        found.append(item_collaboration(X, U, k=5, ranks=[2, 5]))
    np.testing.assert_allclose(found[0].auc, found[1].auc)
    np.testing.assert_allclose(found[0].precision, found[1].precision)


@on_both_paths
def test_an_item_of_nobody_or_of_everybody_has_no_auc():
    X = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 1], [0, 1, 0]])
    auc = item_auc(X, np.eye(3)[:, :1])
    np.testing.assert_array_equal(np.isnan(auc), [True, True, False])


@on_both_paths
def test_an_item_of_nobody_has_no_precision_and_one_of_everybody_has_one():
    X = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(item_precision(X, np.eye(3)[:, :1], k=2)[:2], [np.nan, 1.0])


@on_both_paths
def test_users_of_one_item_tie_with_users_of_none():
    # Three decimals that do not add up in binary: the user's own part must cancel exactly.
    u = np.array([[0.1], [0.2], [0.3]])
    u /= np.linalg.norm(u)
    X = np.array([[0.7, 0, 0], [0, 0, 0], [0.3, 0, 0], [0, 0, 0]])
    assert item_auc(X, u)[0] == 0.5


@on_both_paths
def test_of_equal_scores_the_smaller_index_comes_first():
    X = np.array([[0, 1], [1, 1], [1, 1], [0, 1]])
    U = np.full((2, 1), 0.5**0.5)  # all four users score alike for item 0
    assert item_precision(X, U, k=1)[0] == 0.0
    assert item_precision(X, U, k=2)[0] == 0.5
    np.testing.assert_allclose(item_precision(X, U, k=3)[0], 2 / 3)


@on_both_paths
def test_a_model_that_copies_items_collaborates_no_better_than_chance(X):
    np.testing.assert_array_equal(item_auc(X, np.eye(17)), np.full(17, 0.5))


@on_both_paths
def test_items_that_always_go_together_are_recovered_perfectly():
    block = np.kron(np.eye(2), np.ones((3, 2)))  # two groups of users, two items each
    U = np.kron(np.eye(2), np.ones((2, 1))) / np.sqrt(2)
    np.testing.assert_array_equal(item_auc(block, U), np.ones(4))
    np.testing.assert_array_equal(item_precision(block, U, k=3), np.ones(4))


@on_both_paths
def test_scaling_the_data_changes_nothing(X, U):
    np.testing.assert_allclose(item_auc(X * 7.0, U), item_auc(X, U), rtol=1e-12)


@on_both_paths
def test_permuting_items_permutes_the_result(X, U):
    order = np.random.default_rng(12).permutation(17)
    np.testing.assert_allclose(item_auc(X[:, order], U[order]), item_auc(X, U)[order], rtol=1e-12)


@on_both_paths
def test_unsorted_matrices_with_zeros_are_read_and_left_alone(U):
    messy = sp.csr_array(
        (np.array([0.5, 2.0, 0.0, 1.0]), np.array([4, 1, 0, 2]), np.array([0, 3, 4])),
        shape=(2, 17),
    )
    before = messy.indices.copy()
    clean = sp.csr_array(messy.toarray())
    np.testing.assert_array_equal(item_auc(messy, U), item_auc(clean, U))
    np.testing.assert_array_equal(messy.indices, before)
    assert messy.nnz == 4


@pytest.mark.medium
@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_item_auc_with_many_ties_equals_sklearn(n, m, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n, m))
    S = rng.integers(-1, 2, size=(m, m)).astype(float)
    scores = off_diagonal_scores(sp.csr_array(X), S)
    found = item_auc(X, similarity=S)
    for j in range(m):
        y = X[:, j] > 0
        if y.all() or not y.any():
            assert np.isnan(found[j])
        else:
            assert found[j] == pytest.approx(roc_auc_score(y, scores[:, j]), abs=1e-14)


def counted(scores, positives, left_out=()):
    as_they_are = -1.0, np.ones(len(scores)), 1.0, 1.0
    room = kernels.make_room(len(scores), len(positives))
    users = np.array(left_out, dtype=np.int32)
    return kernels.positives_below(scores, *as_they_are, positives, users, room)


@given(st.integers(0, 60), st.integers(0, 90), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_counts_of_a_block_equal_those_of_all_pairs(n, n_positive, levels, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-levels, levels + 1, n) * rng.choice([1.0, 1e-9, 1e9])
    positives = np.sort(rng.choice([0.0, *scores, 3.5], n_positive))
    pairs = (positives < scores[:, None]).sum() + (positives <= scores[:, None]).sum()
    assert collaboration.positives_below(scores, positives) == pairs
    assert counted(scores, positives) == pairs
    assert counted(scores, rng.permutation(positives)) == pairs


@given(st.integers(1, 60), st.integers(1, 90), st.sampled_from([19, 39]), st.integers(0, 2**32 - 1))
def test_counts_of_scores_that_differ_by_rounding_equal_those_of_settled_ones(
    n, n_positive, bits, seed
):
    rng = np.random.default_rng(seed)
    scores = rng.choice(rng.normal(size=8) * rng.choice([1.0, 1e-13]), n) + rng.choice([0.0, 2.0])
    scores = scores * (1 + rng.normal(size=n) * 2.0 ** -(bits + rng.integers(-1, 9)))
    sizes, limit, factor = rng.random(n), 1e-13, ties.splitter(bits, np.float64)
    compared = ties.settled(scores, limit * sizes, factor)
    positives = rng.choice(compared, n_positive)
    pairs = (positives < compared[:, None]).sum() + (positives <= compared[:, None]).sum()
    room, nobody = kernels.make_room(n, n_positive), np.empty(0, np.int32)
    rules = limit, sizes, sizes.max(), factor
    assert kernels.positives_below(scores, *rules, positives, nobody, room) == pairs


@on_both_paths
@pytest.mark.medium
def test_users_in_blocks_on_disk_give_the_numbers_of_memory(X, U, tmp_path):
    table = pl.DataFrame(dict(zip(("user", "item"), X.nonzero(), strict=True)))
    table.write_parquet(tmp_path / "table.parquet")
    whole = Interactions.read(tmp_path / "table.parquet")
    blocks = Interactions.read(tmp_path / "table.parquet", memory="1GB", n_blocks=4)
    assert len(blocks.rows) == 4
    found = [item_collaboration(data, U, k=5, ranks=[2, 5]) for data in (whole, blocks)]
    np.testing.assert_array_equal(found[0].auc, found[1].auc)
    np.testing.assert_array_equal(found[0].precision, found[1].precision)


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_compiled_loop_equals_the_plain_one_with_ties(n, m, seed):
    rng = np.random.default_rng(seed)
    X = sp.csr_array(rng.integers(0, 2, size=(n, m)).astype(float))
    S = rng.integers(-1, 2, size=(m, m)).astype(float)
    k = int(rng.integers(1, n + 1))
    score = collaboration.Similarity(S, lambda rows: rows).scorer(X)
    users = collaboration.Users(X.tocsc(), X.tocsc(), np.ones(n), 1.0)
    for part in score(np.arange(m), slice(0, m)):
        results = []
        for count in (collaboration._rank_plain, collaboration._rank_compiled):
            found = collaboration.ItemScores(np.empty(m), np.empty(m))
            count(part, np.arange(m), users, k, found)
            results.append(found)
        np.testing.assert_array_equal(results[0], results[1])


def test_neither_or_both_models_are_refused(X, U):
    with pytest.raises(InvalidParameterError, match=r"either item_factors .* or similarity"):
        item_auc(X)
    with pytest.raises(InvalidParameterError, match="either item_factors"):
        item_auc(X, U, similarity=np.eye(17))


def test_ranks_and_spectrum_do_not_go_with_a_similarity_matrix(X):
    with pytest.raises(InvalidParameterError, match="need item_factors"):
        item_auc(X, similarity=np.eye(17), ranks=[1])
    with pytest.raises(InvalidParameterError, match="need item_factors"):
        item_auc(X, similarity=np.eye(17), component_weights=np.ones(17))


def test_shapes_that_do_not_match_are_refused(X, U):
    with pytest.raises(InvalidDataError, match="17 items, item_factors has 16"):
        item_auc(X, np.eye(16))
    with pytest.raises(InvalidDataError, match=r"similarity must be .* 17 × 17"):
        item_auc(X, similarity=np.eye(16))
    with pytest.raises(InvalidDataError, match="same users and items"):
        item_auc(X, U, inputs=X[:5])


@pytest.mark.parametrize("k", [0, -1, 61])
def test_k_outside_one_to_the_number_of_users_is_refused(X, U, k):
    with pytest.raises(InvalidParameterError, match="whole number, from 1 to 60"):
        item_precision(X, U, k=k)


def test_interactions_give_the_numbers_of_their_matrix_for_a_similarity_too(X, U):
    data = Interactions.from_sparse(X)
    S = U @ U.T
    np.testing.assert_array_equal(item_auc(data, similarity=S), item_auc(X, similarity=S))
    np.testing.assert_array_equal(item_precision(data, U, k=5), item_precision(X, U, k=5))
    with pytest.raises(InvalidParameterError, match="whole number, from 1 to 60"):
        item_precision(data, U, k=0)


@pytest.mark.parametrize("k", [1.5, True, "3"])
def test_a_k_that_is_not_a_whole_number_is_refused(X, U, k):
    with pytest.raises(InvalidParameterError, match="must be a whole number"):
        item_precision(X, U, k=k)


def test_items_outside_the_catalog_are_refused(X, U):
    with pytest.raises(InvalidParameterError, match="that lie between 0 and 16"):
        item_auc(X, U, items=[17])
    with pytest.raises(InvalidParameterError, match="list of whole numbers"):
        item_auc(X, U, items=[0.5])


def test_nan_similarities_and_negative_entries_are_refused(X, U):
    with pytest.raises(InvalidDataError, match="similarity has NaN"):
        item_auc(X, similarity=np.full((17, 17), np.nan))
    with pytest.raises(InvalidDataError, match="inputs must not be negative"):
        item_auc(X, U, inputs=-X)


def test_counting_without_numba_adds_up_until_numba_pays(monkeypatch):
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    tally = Tally()
    assert [tally.is_large(5, at_first=10, when_loaded=0) for _ in range(2)] == [False, True]
    monkeypatch.setitem(sys.modules, "numba", sys)
    assert [tally.is_large(n, at_first=10, when_loaded=3) for n in (2, 3)] == [False, True]


@pytest.mark.parametrize("scale", [1e-305, 1e-3, 1.0, 1e150, 1e307])
@pytest.mark.parametrize("levels", [1, 2, 7, 10_000])
def test_counting_is_exact_with_outliers_ties_and_any_scale(scale, levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(-levels, levels, 500) / levels * scale
    scores[:3] = [9 * scale, -9 * scale, 0.0]  # most bins are empty between them
    positive = rng.random(500) < 0.2
    expected = roc_auc_score(positive, scores)
    below = collaboration.positives_below(scores, np.sort(scores[positive]))
    found = collaboration.auc_from_counts(below, positive.sum(), 500)
    assert found == pytest.approx(expected, abs=1e-14)
    won = counted(-scores, -scores[positive], np.flatnonzero(positive))
    assert won / (2 * positive.sum() * (~positive).sum()) == pytest.approx(expected, abs=1e-14)


SOLVERS = ("dense", "gram", "matrix_free")
likes = (np.random.default_rng(0).random((40, 12)) < 0.4) * 1.0


@on_both_paths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
def test_at_full_rank_every_user_ties(solver, dtype, scale):
    # P is the identity, so every score without the diagonal is exactly zero
    data = (likes * scale).astype(dtype)
    U = VanillaPCA(12, solver=solver).fit(data).components_.T
    both = item_collaboration(data, U, k=5)
    np.testing.assert_array_equal(both.auc, np.full(12, 0.5))
    np.testing.assert_array_equal(both.precision, (likes[:5] > 0).mean(axis=0))


@on_both_paths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("r", [5, 20, 35])
def test_an_item_whose_users_touch_nothing_else_ties_everybody(solver, r, dtype):
    # its row of P is zero off the diagonal, whether or not a component belongs to it
    rng = np.random.default_rng(3)
    counts = rng.geometric(0.01, (200, 40)) * (rng.random((200, 40)) < 0.2)
    for value in (1, 10_000):
        data = counts.astype(dtype)
        data[:, 7], data[190:] = 0, 0
        data[190:, 7] = value
        U = VanillaPCA(r, solver=solver).fit(data).components_.T
        assert item_auc(data, U, items=[7])[0] == 0.5


@on_both_paths
@pytest.mark.parametrize("solver", SOLVERS)
def test_users_who_differ_in_the_item_alone_tie(solver):
    # each user with item 0 has a double without it, at the same score off the diagonal
    with_item = (np.random.default_rng(4).random((60, 9)) < 0.5) * np.linspace(1, 3, 9)
    with_item[:, 0] = 0.7
    data = np.vstack([with_item, with_item])
    data[60:, 0] = 0
    U = VanillaPCA(4, solver=solver).fit(data).components_.T
    assert item_auc(data, U, items=[0])[0] == 0.5


@on_both_paths
def test_scores_that_differ_by_more_than_rounding_do_not_tie():
    steps = 1 + 1e-10 * np.arange(20)
    X = np.column_stack([np.repeat([0.0, 1.0], 10), steps])
    S = np.array([[0.0, 0.0], [1.0, 0.0]])  # the score for item 0 is the entry at item 1
    assert item_auc(X, similarity=S, items=[0])[0] == 1.0
    X[:, 1] = steps[::-1]
    assert item_auc(X, similarity=S, items=[0])[0] == 0.0


@on_both_paths
def test_small_users_are_ranked_with_large_ones():
    # a limit taken from the largest user would merge all others
    X = np.zeros((21, 2))
    X[:10, 0], X[:20, 1], X[20, 1] = 1, np.linspace(2, 1, 20), 1e14
    S = np.array([[0.0, 0.0], [1.0, 0.0]])
    assert item_auc(X, similarity=S, items=[0])[0] == pytest.approx(100 / 110)

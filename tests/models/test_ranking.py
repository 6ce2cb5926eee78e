"""Top-k selection: both paths against a full sort, and every refusal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equipoise import VanillaPCA
from equipoise.evaluation.nested import nested_lists
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models import ranking
from equipoise.models.ranking import Ranking, Scored, best_of_rows, rank_items, top_items

Path = Callable[..., Ranking]
# Shapes, ties, masks and lengths are drawn at once.
more_examples = settings(max_examples=3 * settings().max_examples)

# Few values, so ties are the rule; both zeros; both infinities.
tied_scores = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 0.5, 1.0, np.inf])


@pytest.fixture(params=["numpy", "compiled"])
def _path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every problem that has any score through one path, whatever its size."""
    monkeypatch.setattr(ranking, "COMPILED_FROM", 1 if request.param == "compiled" else 2**60)


on_both_paths = pytest.mark.usefixtures("_path")


def by_full_sort(scores: NDArray[Any], forbidden: NDArray[np.bool_], k: int) -> Ranking:
    """Sort every row of allowed items by (score descending, index ascending): the definition."""
    ids = np.full((len(scores), k), -1)
    top = np.full((len(scores), k), np.nan, dtype=scores.dtype)
    for i, row in enumerate(scores):
        allowed = [j for j in range(len(row)) if not forbidden[i, j]]
        best = sorted(allowed, key=lambda j: (-row[j], j))[:k]
        ids[i, : len(best)], top[i, : len(best)] = best, row[best]
    return Ranking(ids, top)


def rank(
    scores: NDArray[Any],
    k: int,
    seen: NDArray[Any] | None = None,
    excluded: NDArray[Any] | None = None,
    **options: int,
) -> Ranking:
    pattern = None if seen is None else csr_array(seen)
    n, m = scores.shape
    return rank_items(
        lambda rows: scores[rows].copy(), n, m, k, seen=pattern, excluded=excluded, **options
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(8))
def test_the_list_of_one_user_of_a_large_catalog_equals_a_full_sort(seed, dtype) -> None:
    rng = np.random.default_rng(seed)
    size, k = int(rng.integers(900, 3000)), int(rng.integers(1, 12))
    scores = rng.integers(-50, 50, (1, size)).astype(dtype) / 7  # many ties
    seen, excluded = rng.random((1, size)) < 0.2, rng.random(size) < 0.3
    if seed % 4 == 0:  # fewer than k items are left
        excluded[:] = True
        excluded[:2] = False
    if seed % 4 == 1:
        scores[0, rng.integers(size, size=3)] = np.inf
    expected = by_full_sort(scores, seen | excluded, k)
    found = rank(scores, k, seen, excluded)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_scores_of_one_user_that_differ_by_rounding_are_ranked_by_index() -> None:
    scores = np.zeros((1, 2000))
    scores[0, [700, 900, 1500]] = 0.3, 0.1 + 0.2, 0.3
    found = rank_items(
        lambda _: Scored(scores, np.array([1e-12])), 1, 2000, 2, seen=None, excluded=None
    )
    assert found.ids.tolist() == [[700, 900]]


def test_a_nan_in_the_scores_of_one_user_is_refused() -> None:
    scores = np.arange(2000.0)[None]
    scores[0, 3] = np.nan
    with pytest.raises(InvalidDataError, match="item 3 is NaN"):
        rank(scores, 2)


@st.composite
def problems(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], int]:
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 150))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    scores = draw(hnp.arrays(dtype, (n, m), elements=tied_scores))
    seen = draw(hnp.arrays(bool, (n, m)))
    excluded = draw(hnp.arrays(bool, m))
    return scores, seen, excluded, draw(st.integers(1, m + 3))


@pytest.mark.parametrize("select", [ranking._select_numpy, ranking._select_compiled])
@more_examples
@given(problem=problems())
@pytest.mark.medium
def test_both_paths_agree_with_a_full_sort(
    select: Path, problem: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], int]
) -> None:
    scores, seen, excluded, k = problem
    kept = min(k, scores.shape[1])
    mask = ranking._mask(csr_array(seen), excluded, *scores.shape)
    found = select(scores, mask, kept, 0, ranking._ties(scores, None))
    expected = by_full_sort(scores, seen | excluded, kept)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.scores.dtype == scores.dtype
    # The sign of zero is the model's own: only the order ignores it.
    assert (np.signbit(found.scores) == np.signbit(expected.scores))[found.ids >= 0].all()


@pytest.mark.medium
@on_both_paths
@pytest.mark.parametrize("k", [1, 2, 20, 200, 999])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_rows_agree_with_a_full_sort(k: int, dtype: type) -> None:
    rng = np.random.default_rng(7)
    scores = rng.standard_normal((9, 1000)).round(2).astype(dtype)
    seen, excluded = rng.random((9, 1000)) < 0.1, rng.random(1000) < 0.1
    found = rank(scores, k, seen, excluded, block_bytes=2 * 8 * 1000)
    expected = by_full_sort(scores, seen | excluded, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert found.ids.dtype == np.int64
    assert found.scores.dtype == dtype


@on_both_paths
def test_equal_scores_go_to_the_lower_index_and_minus_zero_equals_zero() -> None:
    ids, scores = rank(np.array([[-0.0, 0.0, 3.0, -0.0, 3.0]]), 4)
    assert ids.tolist() == [[2, 4, 0, 1]]
    assert scores.tolist() == [[3.0, 3.0, 0.0, 0.0]]


@on_both_paths
def test_a_fully_masked_row_is_all_padding() -> None:
    seen = np.array([[True, True], [False, False]])
    ids, scores = rank(np.array([[1.0, 2.0], [1.0, 2.0]]), 2, seen)
    assert ids.tolist() == [[-1, -1], [1, 0]]
    assert np.isnan(scores[0]).all()


@on_both_paths
def test_more_items_asked_than_there_are_gives_padding() -> None:
    ids, scores = rank(np.array([[1.0, 2.0]]), 4)
    assert ids.tolist() == [[1, 0, -1, -1]]
    np.testing.assert_array_equal(scores, [[2.0, 1.0, np.nan, np.nan]])


@on_both_paths
def test_minus_infinity_is_a_score_and_not_a_mask() -> None:
    scores = np.array([[-np.inf, -np.inf, 1.0]])
    ids, top = rank(scores, 3, excluded=np.array([True, False, False]))
    assert ids.tolist() == [[2, 1, -1]]
    assert top[0, 1] == -np.inf


@on_both_paths
def test_only_the_pattern_of_seen_counts() -> None:
    stored_zero = csr_array((np.array([0.0]), np.array([1]), np.array([0, 1])), shape=(1, 2))
    found = rank_items(lambda _: np.array([[1.0, 2.0]]), 1, 2, 1, seen=stored_zero, excluded=None)
    assert found.ids.tolist() == [[0]]


@on_both_paths
def test_what_one_user_has_seen_stays_recommendable_to_the_next() -> None:
    seen = np.array([[False, True], [False, False]])
    assert rank(np.array([[1.0, 2.0], [1.0, 2.0]]), 1, seen).ids.tolist() == [[0], [1]]


@on_both_paths
@pytest.mark.parametrize("block_bytes", [1, 8 * 3, 2 * 8 * 3, 10**9])
def test_the_size_of_the_blocks_changes_nothing_and_bounds_them(block_bytes: int) -> None:
    scores = np.arange(15.0).reshape(5, 3) % 4
    asked: list[slice] = []

    def score_rows(rows: slice) -> NDArray[Any]:
        asked.append(rows)
        return scores[rows].copy()

    found = rank_items(score_rows, 5, 3, 2, seen=None, excluded=None, block_bytes=block_bytes)
    expected = by_full_sort(scores, np.zeros((5, 3), bool), 2)
    np.testing.assert_array_equal(found.ids, expected.ids)
    step = max(1, block_bytes // (8 * 3))
    assert asked == [slice(s, min(s + step, 5)) for s in range(0, 5, step)]


@on_both_paths
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_no_users_or_no_items_give_an_empty_or_padded_ranking(shape: tuple[int, int]) -> None:
    ids, scores = rank(np.zeros(shape), 2)
    assert ids.shape == scores.shape == (shape[0], 2)
    assert (ids == -1).all()
    assert np.isnan(scores).all()


@on_both_paths
def test_scores_in_fortran_order_are_ranked_alike() -> None:
    scores = np.random.default_rng(0).standard_normal((4, 7))
    fortran = rank_items(
        lambda rows: np.asfortranarray(scores[rows]), 4, 7, 3, seen=None, excluded=None
    )
    np.testing.assert_array_equal(fortran.ids, rank(scores, 3).ids)


@on_both_paths
@pytest.mark.parametrize("masked", [False, True])
def test_nan_is_refused_with_its_place_masked_or_not(masked: bool) -> None:
    scores = np.zeros((40, 90))
    scores[31, 77] = scores[31, 80] = scores[35, 0] = np.nan
    seen = np.isnan(scores) if masked else None
    with pytest.raises(InvalidDataError, match=r"row 31, item 77 is NaN"):
        rank(scores, 2, seen, block_bytes=8 * 90 * 7)


@pytest.mark.parametrize("k", [10_001, 2**31 - 1, 2**31, 2**63 - 1, 2**64])
def test_lists_that_would_be_mostly_padding_are_refused(k: int) -> None:
    with pytest.raises(InvalidParameterError, match="from 1 to 10,000"):
        rank(np.zeros((1, 2)), k)
    with pytest.raises(InvalidParameterError, match="from 1 to 10,000"):
        top_items(np.zeros(2), k)


def test_a_large_catalog_can_be_ranked_as_a_whole() -> None:
    scores = np.arange(10_500.0)
    assert rank(scores[None], 10_500).ids[0].tolist() == list(range(10_499, -1, -1))
    assert top_items(scores, 10_500).ids.tolist() == list(range(10_499, -1, -1))


@pytest.mark.parametrize("k", [0, -1, 2.0, True, None])
def test_n_below_one_or_no_integer_is_refused(k: Any) -> None:
    with pytest.raises(InvalidParameterError, match=r"k=.* whole number"):
        rank(np.zeros((1, 2)), k)
    with pytest.raises(InvalidParameterError, match=r"k=.* whole number"):
        top_items(np.zeros(2), k)


def test_seen_of_another_shape_or_format_is_refused() -> None:
    with pytest.raises(InvalidDataError, match=r"must be a CSR matrix"):
        rank(np.zeros((1, 2)), 1, seen=np.zeros((2, 2)))
    coo = csr_array(np.eye(2)).tocoo()
    with pytest.raises(InvalidDataError, match=r"got coo of shape \(2, 2\)"):
        rank_items(lambda _: np.zeros((2, 2)), 2, 2, 1, seen=coo, excluded=None)


@pytest.mark.parametrize("block", [np.zeros((2, 3)), np.zeros((1, 2), int)])
def test_scores_of_another_shape_or_type_are_refused(block: NDArray[Any]) -> None:
    with pytest.raises(InvalidDataError, match=r"must be float32 or"):
        rank_items(lambda _: block, 1, 2, 1, seen=None, excluded=None)


@more_examples
@given(problem=problems())
def test_one_vector_is_ranked_like_one_row(
    problem: tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], int],
) -> None:
    scores, _, excluded, k = problem
    before = scores[0].copy()
    found = top_items(scores[0], k, excluded=excluded)
    expected = by_full_sort(scores[:1], excluded[None], k)
    np.testing.assert_array_equal(found.ids, expected.ids[0])
    np.testing.assert_array_equal(found.scores, expected.scores[0])
    np.testing.assert_array_equal(scores[0], before)


@pytest.mark.medium
def test_small_problems_never_load_numba() -> None:
    code = (
        "import sys, numpy as np; from equipoise.models.ranking import rank_items\n"
        "rank_items(lambda r: np.eye(9)[r], 9, 9, 2, seen=None, excluded=None)\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def _three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "COMPILED_FROM", 1)
    monkeypatch.setattr(ranking, "THREADED_FROM", 1)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")


@pytest.mark.usefixtures("_three_threads")
@pytest.mark.parametrize("n", [1, 2, 3, 50])
def test_several_threads_rank_like_one(n: int) -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 9, (n, 200)).astype(float)
    seen = rng.random((n, 200)) < 0.2
    found = rank(scores, 7, seen, block_bytes=8 * 200 * 4)
    expected = by_full_sort(scores, seen, 7)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.usefixtures("_three_threads")
def test_several_threads_refuse_the_first_nan_of_all() -> None:
    scores = np.zeros((40, 90))
    scores[12:, 5] = np.nan
    with pytest.raises(InvalidDataError, match=r"row 12, item 5 is NaN"):
        rank(scores, 2, block_bytes=8 * 90 * 5)


@pytest.mark.parametrize("guessed", [[[2, 3]], [[0, 1]], [[-1, 3]]])
def test_a_guess_does_not_hide_nan(guessed: list[list[int]]) -> None:
    scores = np.array([[0.0, 5.0, 1.0, np.nan]])
    guess = np.array(guessed, dtype=np.int32)
    with pytest.raises(InvalidDataError, match=r"row 0, item 3 is NaN"):
        best_of_rows(scores, 2, guess)


def test_a_guess_of_items_that_are_left_out_changes_nothing() -> None:
    scores = np.array([[-np.inf, 2.0, 2.0, 2.0], [0.0, 0.0, -np.inf, 0.0]])
    guess = np.array([[0, 3], [3, 2]], dtype=np.int32)
    assert best_of_rows(scores, 2, guess).ids.tolist() == [[1, 2], [0, 1]]


# Few levels, each with rounding noise around it, so most scores tie within a level.
@st.composite
def noisy_problems(draw: st.DrawFn) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], int]:
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 150))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    levels = draw(hnp.arrays(dtype, (n, m), elements=st.sampled_from([-1.5, 0.0, 0.5, 3.0])))
    noise = draw(hnp.arrays(np.int8, (n, m), elements=st.integers(-4, 4)))
    scores = (levels + noise * np.finfo(dtype).eps).astype(dtype)
    seen = draw(hnp.arrays(bool, (n, m)))
    return levels, scores, seen, draw(st.integers(1, m))


@pytest.mark.medium
@pytest.mark.parametrize("path", ["numpy", "compiled", "guessed"])
@more_examples
@given(problem=noisy_problems())
def test_scores_that_differ_by_rounding_are_ranked_as_the_exact_ones(
    path: str, problem: tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_], int]
) -> None:
    levels, scores, seen, k = problem
    limits = np.full(len(scores), 16 * np.finfo(scores.dtype).eps)
    if path == "numpy":
        given_scores = Scored(scores, limits)
        found = rank_items(
            lambda _: given_scores, *scores.shape, k, seen=csr_array(seen), excluded=None
        )
    else:
        order = np.random.default_rng(k).permuted(np.tile(np.arange(k), (len(scores), 1)), axis=1)
        guess = order.astype(np.int32) if path == "guessed" else None
        found = best_of_rows(np.where(seen, -np.inf, scores), k, guess, limits)
    expected = by_full_sort(levels, seen, k)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)
    listed = np.where(found.ids < 0, -np.inf, found.scores)
    assert np.all(listed[:, 1:] <= listed[:, :-1])


@on_both_paths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["dense", "gram", "matrix_free"])
def test_at_full_rank_unseen_items_tie_and_are_listed_by_index(solver: str, dtype: type) -> None:
    likes = np.random.default_rng(0).random((40, 12)) < 0.4
    model = VanillaPCA(12, solver=solver).fit(likes.astype(dtype))
    expected = by_full_sort(np.zeros((40, 12)), likes, 12).ids
    found = model.recommend(likes.astype(dtype), 12, fallback=None).ids
    np.testing.assert_array_equal(found, expected)
    lists = nested_lists(model.low_rank(), csr_array(likes.astype(dtype)), [3, 12], 12)
    np.testing.assert_array_equal(lists[1], expected)


@on_both_paths
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["dense", "gram", "matrix_free"])
def test_a_user_of_an_item_that_nobody_combines_has_a_list_by_index(
    solver: str, dtype: type
) -> None:
    likes = (np.random.default_rng(1).random((200, 40)) < 0.2).astype(dtype)
    likes[:, 7], likes[190:] = 0, 0
    likes[190:, 7] = 1
    model = VanillaPCA(20, solver=solver).fit(likes)
    others = [item for item in range(40) if item != 7]
    assert model.recommend(likes[190:], 39).ids.tolist() == [others] * 10


@on_both_paths
@pytest.mark.parametrize("solver", ["dense", "gram", "matrix_free"])
def test_items_with_the_same_users_are_listed_by_index(solver: str) -> None:
    once = (np.random.default_rng(2).random((80, 6)) < 0.4) * 1.0
    model = VanillaPCA(4, solver=solver).fit(np.hstack([once, once]))
    both = np.hstack([once, once])
    options = {"filter_already_liked_items": False, "fallback": None}
    ids, scores = model.recommend(both, 12, **options)
    place = np.argsort(ids, axis=1)
    large = np.abs(np.take_along_axis(scores, place, axis=1))[:, :6] > 0.01  # no cancellation
    assert large.mean() > 0.8
    # scores on both sides of a rounding boundary stay apart: about one pair in 2,000
    assert (place[:, 6:] == place[:, :6] + 1)[large].mean() > 0.98

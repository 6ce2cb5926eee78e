"""Splits: the published one entry for entry, and the rules of the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from equipoise.data import Interactions, Split, holdout
from equipoise.exceptions import InvalidDataError, InvalidParameterError

METHODS = ["per_user_random", "per_user_last", "leave_last_n", "temporal", "by_user"]


def random_data(n=40, m=30, density=0.4, seed=0) -> Interactions:
    rng = np.random.default_rng(seed)
    users, items = np.nonzero(rng.random((n, m)) < density)
    times = rng.permutation(len(users))
    values = rng.integers(1, 9, len(users))
    return Interactions.from_pairs(users, items, values, timestamps=times)


def published_split(matrix, seed):
    """The loop of the published experiments, kept as plain as it was written."""
    rng = np.random.default_rng(seed)
    parts = [np.zeros(matrix.shape) for _ in range(3)]
    for user in range(matrix.shape[0]):
        positives = np.nonzero(matrix[user])[0]
        rng.shuffle(positives)
        n = len(positives)
        n_validation, n_test = int(0.1 * n), int(0.2 * n)
        n_train = n - n_validation - n_test
        for part, chosen in zip(
            parts,
            (positives[:n_train], positives[n_train : n - n_test], positives[n - n_test :]),
            strict=True,
        ):
            part[user, chosen] = matrix[user, chosen]
    return parts


@given(
    dense=hnp.arrays(
        float,
        st.tuples(st.integers(1, 5), st.integers(8, 25)),
        elements=st.sampled_from([0.0, 1.0, 3.0]),
    ).filter(lambda X: (X > 0).sum(axis=1).max() >= 5),
    seed=st.integers(0, 2000),
)
def test_per_user_random_is_the_published_loop_entry_for_entry(dense, seed):
    split = holdout(Interactions.from_sparse(sparse.csr_array(dense)), seed=seed)
    train, validation, test = published_split(dense, seed)
    assert np.array_equal(split.train.matrix.toarray(), train)
    assert np.array_equal(split.validation.matrix.toarray(), validation)
    assert np.array_equal(split.test.matrix.toarray(), test)
    assert np.array_equal(split.train_validation.matrix.toarray(), train + validation)


@pytest.mark.parametrize("method", METHODS)
def test_parts_are_disjoint_complete_and_share_their_vocabulary(method):
    data = random_data()
    split = data.holdout(method=method)
    parts = [split.train, split.validation, split.test]
    parts += [split.history] if split.history is not None else []
    total = sum(part.matrix for part in parts)
    assert np.array_equal(total.toarray(), data.matrix.toarray())
    assert sum(part.nnz for part in parts) == data.nnz
    for part in parts:
        assert part.user_ids.tolist() == data.user_ids.tolist()
        assert part.item_ids.tolist() == data.item_ids.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_split(method):
    data = random_data()
    one, other = data.holdout(method=method, seed=5), data.holdout(method=method, seed=5)
    assert one.test == other.test
    assert one.train == other.train


@pytest.mark.parametrize("method", ["per_user_random", "by_user"])
def test_another_seed_gives_another_split(method):
    data = random_data()
    assert data.holdout(method=method, seed=5).test != data.holdout(method=method, seed=6).test


@pytest.mark.parametrize("method", METHODS)
def test_timestamps_stay_with_their_entries(method):
    data = random_data()
    when = np.full(data.shape, -1)
    when[data.matrix.nonzero()] = data.timestamps
    split = data.holdout(method=method)
    for part in (split.train, split.test, split.train_validation):
        assert np.array_equal(part.timestamps, when[part.matrix.nonzero()])


def test_per_user_last_takes_the_latest_share_of_each_user():
    data = Interactions.from_pairs(
        ["a"] * 10 + ["b"] * 5 + ["c"],
        [*range(10), *range(5), 0],
        timestamps=[*range(10), *range(9, 4, -1), 1],
    )
    split = data.holdout(method="per_user_last", test=0.2, validation=0.2)
    assert split.test.row("a").indices.tolist() == [8, 9]
    assert split.validation.row("a").indices.tolist() == [6, 7]
    assert split.test.row("b").indices.tolist() == [0]  # its times run backwards
    assert split.validation.row("b").indices.tolist() == [1]
    assert split.train.row("c").indices.tolist() == [0]  # too few to hold one out


def test_leave_last_n_takes_each_users_latest():
    data = Interactions.from_pairs(
        ["a"] * 5 + ["b"] * 2 + ["c"], [1, 2, 3, 4, 5, 1, 2, 1], timestamps=[5, 1, 4, 2, 3, 9, 8, 1]
    )
    split = data.holdout(method="leave_last_n", n=1)
    assert split.test.matrix.toarray().tolist() == [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0] * 5]
    assert split.validation.matrix.toarray().tolist() == [[0, 0, 1, 0, 0], [0] * 5, [0] * 5]
    # "b" has two and "c" one: both keep one in train
    assert np.diff(split.train.matrix.indptr).tolist() == [3, 1, 1]
    assert data.holdout(method="leave_last_n", n=2, validation=0).test.nnz == 2
    assert data.holdout(method="leave_last_n", n=2, validation=0).validation.nnz == 0


def test_temporal_tests_on_the_latest_and_never_splits_a_moment():
    data = Interactions.from_pairs(range(10), range(10), timestamps=[0, 1, 2, 3, 4, 5, 6, 8, 8, 8])
    split = data.holdout(method="temporal", test=0.2, validation=0.2)
    assert split.train.timestamps.tolist() == [0, 1, 2, 3, 4, 5]
    assert split.validation.timestamps.tolist() == [6]
    assert split.test.timestamps.tolist() == [8, 8, 8]


def test_by_user_holds_out_whole_users_and_splits_their_rows():
    data = random_data()
    split = data.holdout(method="by_user", test=0.25, validation=0.1)
    n_entries = {
        name: np.diff(getattr(split, name).matrix.indptr)
        for name in ("train", "validation", "test", "history")
    }
    tested, validated = n_entries["test"] > 0, n_entries["validation"] > 0
    assert tested.sum() == 10
    assert validated.sum() == 4
    assert not np.any(tested & validated)
    assert np.all(n_entries["train"][tested | validated] == 0)
    assert np.all(n_entries["history"][tested | validated] > 0)
    assert np.all(n_entries["history"][~(tested | validated)] == 0)
    # a final fit may use the validation users whole, and nothing of the test users
    final = np.diff(split.train_validation.matrix.indptr)
    assert np.array_equal(final[~tested], np.diff(data.matrix.indptr)[~tested])
    assert np.all(final[tested] == 0)
    assert split.seen_before_test == split.history
    assert split.seen_before_validation == split.history


def test_what_was_seen_before_is_train_and_then_train_and_validation():
    split = random_data().holdout()
    assert split.history is None
    assert split.seen_before_validation == split.train
    assert split.seen_before_test == split.train_validation


@pytest.mark.parametrize("method", ["per_user_last", "leave_last_n", "temporal"])
def test_methods_by_time_need_timestamps(method):
    data = Interactions.from_pairs([1, 1], [1, 2])
    with pytest.raises(InvalidDataError, match=f"method=.{method}.*needs timestamps.*timestamp="):
        data.holdout(method=method)


def test_a_split_without_test_or_train_is_refused():
    with pytest.raises(InvalidDataError, match=r"leaves no interaction for test.*Raise test"):
        Interactions.from_pairs([1, 2], [1, 2]).holdout()
    at_once = Interactions.from_pairs([1, 2], [1, 2], timestamps=[7, 7])
    with pytest.raises(InvalidDataError, match="leaves no interaction for train"):
        at_once.holdout(method="temporal", test=0.5, validation=0)


def test_shares_methods_and_n_are_checked():
    data = random_data()
    for wrong in (
        {"test": 0},
        {"test": 1.0},
        {"test": "a"},
        {"validation": None},
        {"validation": -0.1},
        {"test": 0.6, "validation": 0.4},
    ):
        with pytest.raises(InvalidParameterError, match="must be shares"):
            data.holdout(**wrong)
    with pytest.raises(InvalidParameterError, match=r"method must be one of.*per_user"):
        data.holdout(method="luck")
    with pytest.raises(InvalidParameterError, match=r"n=0 must be.* 1"):
        data.holdout(method="leave_last_n", n=0)
    with pytest.raises(InvalidParameterError, match=r"n=1\.5 must be.* 1"):
        data.holdout(method="leave_last_n", n=1.5)
    with pytest.raises(InvalidParameterError, match=r"seed='a' must be.* 0"):
        data.holdout(seed="a")


def test_describe_has_a_line_per_part():
    split = random_data().holdout(method="by_user")
    lines = split.describe().splitlines()
    assert [line.split()[0] for line in lines] == ["train", "validation", "test", "history"]
    assert "of 8 users" in lines[2]


def test_values_keep_their_type():
    data = Interactions.from_sparse(sparse.csr_array(np.ones((4, 20), dtype=np.float32)))
    split = data.holdout()
    assert isinstance(split, Split)
    assert split.train_validation.matrix.dtype == np.float32


@pytest.mark.parametrize("method", METHODS)
def test_parts_of_a_split_are_matched_by_id(method):
    """Parts written as pairs in another order and read again are the parts they were."""
    split = random_data().holdout(method=method)
    rng = np.random.default_rng(5)

    def read_again(part: Interactions) -> Interactions:
        pairs = part.matrix.tocoo()
        order = rng.permutation(part.nnz)
        return Interactions.from_pairs(
            part.user_ids[pairs.row[order]],
            part.item_ids[pairs.col[order]],
            pairs.data[order],
            timestamps=part.timestamps[order],
        )

    history = None if split.history is None else read_again(split.history)
    again = Split(split.train, read_again(split.validation), read_again(split.test), history)
    assert again.validation == split.validation
    assert again.test == split.test
    assert again.history == split.history
    assert again.train_validation == split.train_validation


def test_users_and_items_that_train_lacks_are_refused():
    train = Interactions.from_pairs(["a", "b"], ["x", "y"])
    with pytest.raises(InvalidDataError, match=r"item id.* of test .*'z'"):
        Split(train, train, Interactions.from_pairs(["a"], ["z"]))
    with pytest.raises(InvalidDataError, match=r"user id.* of validation .*'c'"):
        Split(train, Interactions.from_pairs(["c"], ["x"]), train)


@pytest.mark.parametrize("unit", ["D", "h", "s", "us", "ns"])
def test_a_split_with_dates_of_any_unit_is_written_and_read(tmp_path, unit):
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-01-21")).astype(f"M8[{unit}]")
    plays = Interactions.from_pairs(np.arange(20) % 4, np.arange(20) % 5, timestamps=days)
    split = plays.holdout(method="leave_last_n", n=1)
    split.write(tmp_path)
    paths = [tmp_path / f"{name}.parquet" for name in ("train", "validation", "test")]
    assert Split.read(*paths).test == split.test.align_items(Split.read(*paths).test.item_ids)
    assert plays.to_polars()["timestamp"].dtype.is_temporal()

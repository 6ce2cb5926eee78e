"""`Interactions`: building, refusing, selecting, looking up."""

from __future__ import annotations

import copy
import datetime as dt
import pickle
import uuid
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError

IDS = {
    "whole numbers": [7, -3, 10**12],
    "text": ["b", "a", "ü ,;\n"],
    "dates": [dt.date(2020, 1, 2), dt.date(1999, 12, 31), dt.date(2030, 5, 5)],
    "times": [dt.datetime(2020, 1, 2, 3, 4, 5), dt.datetime(2021, 1, 1), dt.datetime(1970, 1, 1)],
    "floats": [0.5, -1.25, 3.0],
    "uuids": [uuid.UUID(int=k) for k in (5, 3, 9)],
    "mixed": [1, "1", b"1"],
    "bytes": [b"x", b"y", b""],
    "datetime64": np.array(["2020-01-02", "2019-01-01", "2021-01-01"], dtype="datetime64[ns]"),
    "booleans and more": np.array([3, 1, 2], dtype=np.uint8),
}


def plays() -> Interactions:
    return Interactions.from_pairs(
        ["ann", "ann", "bob", "cat", "cat", "cat"],
        [10, 20, 20, 30, 10, 40],
        [3.0, 1.0, 2.0, 5.0, 4.0, 1.0],
        timestamps=[6, 5, 4, 3, 2, 1],
    )


class TestBuilding:
    def test_ids_are_in_order_of_first_appearance(self):
        data = Interactions.from_pairs(["z", "a", "z", "m"], [9, 1, 1, 5])
        assert data.user_ids.tolist() == ["z", "a", "m"]
        assert data.item_ids.tolist() == [9, 1, 5]
        assert data.matrix.toarray().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]

    @pytest.mark.parametrize("ids", IDS.values(), ids=IDS.keys())
    def test_ids_of_any_type_come_back_as_they_were(self, ids):
        data = Interactions.from_pairs(ids, ids)
        for kept in (data.user_ids, data.item_ids):
            same = kept.tolist() == list(ids) if kept.dtype == object else (kept == ids).all()
            assert same
        assert data.user_index(data.user_ids).tolist() == [0, 1, 2]
        assert data.row(data.user_ids[1]).toarray().tolist() == [[0, 1, 0]]

    def test_dates_become_datetime64_and_text_stays_str(self):
        assert Interactions.from_pairs(IDS["dates"], IDS["dates"]).user_ids.dtype == "datetime64[D]"
        text = Interactions.from_pairs(np.array(["a", "b"]), ["x", "y"]).user_ids
        assert text.dtype == object
        assert all(type(each) is str for each in text)

    def test_a_list_of_numbers_and_text_is_not_turned_into_text(self):
        assert Interactions.from_pairs([1, "1"], ["x", "x"]).user_ids.tolist() == [1, "1"]

    def test_without_values_every_interaction_counts_one(self):
        assert Interactions.from_pairs([1, 2], [1, 1]).matrix.data.tolist() == [1.0, 1.0]

    @pytest.mark.parametrize(("policy", "value"), [("sum", 9.0), ("max", 5.0), ("last", 1.0)])
    def test_repeated_pairs_are_merged_by_the_policy(self, policy, value):
        data = Interactions.from_pairs([1, 2, 1, 1], [7, 7, 7, 7], [3, 8, 5, 1], duplicates=policy)
        assert data.matrix.toarray().tolist() == [[value], [8.0]]

    def test_last_means_the_latest_where_there_are_timestamps(self):
        data = Interactions.from_pairs(
            [1, 1, 1], [7, 7, 7], [3, 5, 1], timestamps=[10, 30, 20], duplicates="last"
        )
        assert data.matrix.data.tolist() == [5.0]
        assert data.timestamps.tolist() == [30]

    def test_a_merged_entry_keeps_the_latest_timestamp(self):
        data = Interactions.from_pairs([1, 1, 2], [7, 7, 7], [3, 5, 1], timestamps=[30, 10, 5])
        assert data.matrix.data.tolist() == [8.0, 1.0]
        assert data.timestamps.tolist() == [30, 5]

    def test_duplicates_error_names_the_first_repeated_pair(self):
        with pytest.raises(InvalidDataError, match=r"'b' and item 4 .*row 3"):
            Interactions.from_pairs(
                ["a", "b", "a", "b", "a"],
                [4, 4, 5, 4, 4],
                timestamps=[5, 4, 3, 2, 1],
                duplicates="error",
            )

    def test_an_unknown_policy_is_refused(self):
        with pytest.raises(InvalidParameterError, match="duplicates must be one of"):
            Interactions.from_pairs([1], [1], duplicates="mean")

    def test_a_row_of_value_zero_counts_as_if_it_were_not_there(self):
        data = Interactions.from_pairs([9, 1, 2], [5, 6, 6], [0, 2, 3], timestamps=[1, 2, 3])
        assert data.user_ids.tolist() == [1, 2]
        assert data.item_ids.tolist() == [6]
        assert data.timestamps.tolist() == [2, 3]

    def test_sparse_input_of_every_format_gives_the_same_data(self):
        dense = np.array([[0.0, 2.0], [3.0, 0.0]])
        expected = Interactions.from_sparse(sparse.csr_array(dense))
        for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
            assert Interactions.from_sparse(sparse.csr_array(dense).asformat(form)) == expected
            assert Interactions.from_sparse(sparse.csr_matrix(dense).asformat(form)) == expected

    def test_sparse_input_is_canonical_afterwards_and_itself_untouched(self):
        raw = sparse.csr_array(
            (np.array([1.0, 2.0, 0.0, 4.0]), np.array([1, 0, 1, 1]), np.array([0, 2, 4])),
            shape=(2, 2),
        )
        data = Interactions.from_sparse(raw)
        assert data.matrix.indices.tolist() == [0, 1, 1]
        assert data.matrix.data.tolist() == [2.0, 1.0, 4.0]
        assert raw.data.tolist() == [1.0, 2.0, 0.0, 4.0]
        raw.data[0] = 99.0
        assert data.matrix.data.tolist() == [2.0, 1.0, 4.0]

    @pytest.mark.parametrize(
        ("policy", "value"), [("sum", 7.0), ("max", 4.0), ("last", 1.0), ("error", None)]
    )
    @pytest.mark.parametrize("form", ["coo", "csr", "csc"])
    def test_entries_stored_twice_follow_the_policy_too(self, form, policy, value):
        stored = np.array([2.0, 4.0, 1.0, 3.0, 0.0])
        if form == "coo":
            matrix = sparse.coo_array((stored, ([1, 1, 1, 0, 1], [0, 0, 0, 1, 0])), shape=(2, 2))
        elif form == "csr":
            matrix = sparse.csr_array((stored[[3, 0, 1, 2, 4]], [1, 0, 0, 0, 0], [0, 1, 5]))
        else:
            matrix = sparse.csc_array((stored[[0, 1, 2, 4, 3]], [1, 1, 1, 1, 0], [0, 4, 5]))
        for build in (Interactions.read, Interactions.from_sparse):
            if value is None:
                with pytest.raises(InvalidDataError, match=r"user 1 and item 0 .* 2 rows"):
                    build(matrix, duplicates=policy)
            else:
                merged = build(matrix, duplicates=policy).matrix
                assert merged.toarray().tolist() == [[0.0, 3.0], [value, 0.0]]
        assert matrix.nnz == 5

    def test_a_negative_entry_does_not_hide_behind_its_double(self):
        matrix = sparse.coo_array(([5.0, -2.0], ([0, 0], [0, 0])), shape=(1, 1))
        with pytest.raises(InvalidDataError, match=r"-2.0 of user 'a' and item 7"):
            Interactions.from_sparse(matrix, ["a"], [7])

    @pytest.mark.parametrize(
        ("given_type", "kept"),
        [
            (np.float32, np.float32),
            (np.float64, np.float64),
            (np.int8, np.float64),
            (bool, np.float64),
        ],
    )
    def test_sparse_floats_keep_their_type(self, given_type, kept):
        matrix = sparse.csr_array(np.eye(3).astype(given_type))
        assert Interactions.from_sparse(matrix).matrix.dtype == kept

    def test_nothing_can_be_written_to(self):
        data = plays()
        for array in (
            data.matrix.data,
            data.matrix.indices,
            data.matrix.indptr,
            data.user_ids,
            data.item_ids,
            data.timestamps,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]
        with pytest.raises(FrozenInstanceError):
            data.matrix = None

    def test_the_callers_arrays_stay_writeable(self):
        matrix, ids = sparse.csr_array(np.eye(2)), np.array([1, 2])
        Interactions(matrix, ids, ids)
        matrix.data[0] = 5.0
        ids[0] = 7
        assert matrix.data[0] == 5.0

    def test_nothing_the_caller_does_later_changes_the_data(self):
        matrix, ids, times = sparse.csr_array(np.eye(2)), np.array([1, 2]), np.array([5, 6])
        data = Interactions(matrix, ids, ids, timestamps=times)
        before = data.fingerprint()
        matrix.data[0], matrix.indices[0], ids[0], times[0] = 9.0, 1, 7, 8
        matrix.indptr[1] = 0
        assert data.fingerprint() == before
        assert data.timestamps.tolist() == [5, 6]

    def test_read_only_arrays_are_kept_without_a_copy(self):
        first = plays()
        again = Interactions(first.matrix, first.user_ids, first.item_ids)
        assert np.shares_memory(again.matrix.data, first.matrix.data)
        assert np.shares_memory(again.item_ids, first.item_ids)

    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, copy.copy, lambda data: pickle.loads(pickle.dumps(data))]
    )
    def test_a_copy_or_a_pickle_is_equal_and_as_frozen(self, duplicate):
        data = plays().with_names({10: "ten"})
        again = duplicate(data)
        assert again == data
        assert again.item_index([40]).tolist() == [3]
        matrix = again.matrix
        for array in (
            *(matrix.data, matrix.indices, matrix.indptr),
            *(again.user_ids, again.item_ids, again.item_names, again.timestamps),
        ):
            assert not array.flags.writeable


class TestRefusing:
    @pytest.mark.parametrize(
        ("value", "rule"), [(-1.0, "is negative"), (np.nan, "is NaN"), (np.inf, "is infinite")]
    )
    def test_a_bad_value_is_named_with_its_user_and_item(self, value, rule):
        with pytest.raises(InvalidDataError, match=rf"user 'b' and item 5 {rule}"):
            Interactions.from_pairs(["a", "b"], [4, 5], [1.0, value])
        matrix = sparse.csr_array(np.array([[1.0, 0.0], [0.0, value]]))
        with pytest.raises(InvalidDataError, match=rf"user 'b' and item 5 {rule}"):
            Interactions.from_sparse(matrix, ["a", "b"], [4, 5])

    @pytest.mark.parametrize(
        "missing", [None, float("nan"), np.datetime64("NaT", "s")], ids=["None", "NaN", "NaT"]
    )
    def test_a_missing_id_is_refused_with_its_position(self, missing):
        column = np.array([missing] * 2) if isinstance(missing, np.datetime64) else ["a", missing]
        place = 0 if isinstance(missing, np.datetime64) else 1
        with pytest.raises(InvalidDataError, match=f"user id number {place} .* is missing"):
            Interactions.from_pairs(column, [1, 2])

    def test_a_missing_item_is_an_item(self):
        with pytest.raises(InvalidDataError, match=r"every interaction needs an item"):
            Interactions.from_pairs([1], [None])

    @pytest.mark.parametrize("alone", [3, "ann", None, np.int64(3)])
    def test_a_single_id_is_not_a_column(self, alone):
        complaint = r"user ids must be one flat column; got the single value (3|'ann'|None)\. Put"
        with pytest.raises(InvalidDataError, match=complaint):
            plays().select_users(alone)
        with pytest.raises(InvalidDataError, match=complaint):
            Interactions.from_pairs(alone, [1])
        with pytest.raises(InvalidDataError, match=r"timestamps .*not 0-d"):
            Interactions.from_pairs([1], [1], timestamps=3)

    def test_masked_ids_are_missing(self):
        masked = np.ma.MaskedArray([1, 2], mask=[False, True]).astype(float)
        with pytest.raises(InvalidDataError, match=r"item id number 1 .* is missing"):
            Interactions.from_pairs([1, 2], masked)

    def test_columns_of_different_length_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"equally long; got \{'users': 2, 'items': 3"):
            Interactions.from_pairs([1, 2], [1, 2, 3], None)

    def test_values_that_are_not_numbers_are_refused(self):
        with pytest.raises(InvalidDataError, match="values must be numbers"):
            Interactions.from_pairs([1], [1], ["many"])
        with pytest.raises(InvalidDataError, match="one flat column"):
            Interactions.from_pairs([1], [1], [[1.0]])

    def test_timestamps_must_be_there_and_be_orderable(self):
        with pytest.raises(InvalidDataError, match=r"timestamp of row 1 .* is missing"):
            Interactions.from_pairs([1, 2], [1, 1], timestamps=[1.0, np.nan])
        with pytest.raises(InvalidDataError, match="cannot be ordered"):
            Interactions.from_pairs([1, 2], [1, 1], timestamps=["noon", "one"])

    def test_data_without_any_interaction_is_refused(self):
        with pytest.raises(InvalidDataError, match="no interaction: no value above 0"):
            Interactions.from_pairs([1], [1], [0.0])
        with pytest.raises(InvalidDataError, match="no interaction: no value above 0"):
            Interactions.from_pairs([], [])
        with pytest.raises(InvalidDataError, match=r"no interaction.*2 users x 3"):
            Interactions.from_sparse(sparse.csr_array((2, 3)))
        with pytest.raises(InvalidDataError, match="0 users x 3 items"):
            Interactions.from_sparse(sparse.csr_array((0, 3)))

    def test_a_transposed_matrix_is_refused_with_a_hint(self):
        with pytest.raises(InvalidDataError, match=r"Rows are users.*transpose"):
            Interactions.from_sparse(sparse.csr_array(np.ones((2, 3))), [1, 2, 3], [1, 2])

    def test_ids_that_repeat_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"item id 'x' .* position 1"):
            Interactions.from_sparse(sparse.csr_array(np.ones((1, 2))), [1], ["x", "x"])
        with pytest.raises(InvalidDataError, match=r"user id 4 .* position 2"):
            Interactions.from_sparse(sparse.csr_array(np.ones((3, 1))), [4, 5, 4], [1])

    def test_dense_complex_and_one_dimensional_input_is_refused(self):
        with pytest.raises(InvalidDataError, match=r"got ndarray"):
            Interactions.from_sparse(np.ones((2, 2)))
        with pytest.raises(InvalidDataError, match="values of type complex128"):
            Interactions.from_sparse(sparse.csr_array(np.ones((2, 2), dtype=complex)))
        with pytest.raises(InvalidDataError, match=r"1 dimension\(s\)"):
            Interactions.from_sparse(sparse.coo_array(np.ones(3)))

    def test_ids_that_are_not_scalars_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"user ids .*flat"):
            Interactions.from_pairs([[1, 2], [3, 4]], [1, 2])
        with pytest.raises(InvalidDataError, match=r"item ids .* not scalars"):
            Interactions.from_pairs([1], np.zeros(1, dtype=[("a", int)]))
        nested = np.empty(1, dtype=object)
        nested[0] = []
        with pytest.raises(InvalidDataError, match="user ids must be hashable"):
            Interactions.from_pairs(nested, [1])

    def test_names_and_timestamps_must_be_as_many_as_what_they_describe(self):
        matrix = sparse.csr_array(np.eye(2))
        with pytest.raises(InvalidDataError, match=r"item_names has shape \(1,\).* 2 items"):
            Interactions.from_sparse(matrix, item_names=["one"])
        with pytest.raises(InvalidDataError, match=r"timestamps has shape \(3,\).* 2 interactions"):
            Interactions(matrix, [0, 1], [0, 1], timestamps=[1, 2, 3])

    def test_timestamps_need_a_canonical_matrix(self):
        raw = sparse.csr_array(
            (np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2)
        )
        with pytest.raises(InvalidDataError, match=r"Use Interactions.from_pairs"):
            Interactions(raw, [0], [0, 1], timestamps=[1, 2])


class TestSelecting:
    def test_filter_once_keeps_users_then_items_of_those_users(self):
        # user 3 has one item only: without them, item "y" has one user left and goes too
        data = Interactions.from_pairs([1, 1, 2, 2, 3], ["x", "y", "x", "z", "y"])
        kept = data.filter(min_items_per_user=2, min_users_per_item=2)
        assert kept.user_ids.tolist() == [1, 2]
        assert kept.item_ids.tolist() == ["x"]

    def test_filter_order_matters(self):
        data = Interactions.from_pairs([1, 1, 2, 2, 3], ["x", "y", "x", "z", "y"])
        kept = data.filter(min_items_per_user=2, min_users_per_item=2, order="items_first")
        assert kept.user_ids.tolist() == [1]
        assert kept.item_ids.tolist() == ["x", "y"]

    def test_filter_until_stable_leaves_nobody_below_the_minimum(self):
        rng = np.random.default_rng(0)
        data = Interactions.from_sparse(sparse.csr_array((rng.random((60, 40)) < 0.1) * 1.0))
        once = data.filter(3, 3)
        stable = data.filter(3, 3, until_stable=True)
        assert np.diff(once.matrix.indptr).min() < 3
        assert np.diff(stable.matrix.indptr).min() >= 3
        assert stable.popularity("count").min() >= 3

    def test_filter_that_keeps_nobody_is_refused(self):
        with pytest.raises(InvalidDataError, match="no interaction survives min_users_per_item=9"):
            plays().filter(min_users_per_item=9)

    def test_filter_arguments_are_checked(self):
        with pytest.raises(InvalidParameterError, match="min_items_per_user=-1 must be a whole n"):
            plays().filter(min_items_per_user=-1)
        for wrong in ("a", 2.5, None, True):
            with pytest.raises(
                InvalidParameterError,
                match=rf"min_users_per_item={wrong!r} must be",
            ):
                plays().filter(min_users_per_item=wrong)
        with pytest.raises(InvalidParameterError, match="order must be one of"):
            plays().filter(order="both")

    def test_binarize_and_normalize_rows(self):
        data = plays()
        assert set(data.binarize().matrix.data) == {1.0}
        assert data.normalize_rows().matrix.toarray().tolist()[0] == [0.75, 0.25, 0, 0]
        sums = data.normalize_rows().matrix.sum(axis=1)
        assert np.allclose(sums, 1.0)
        assert data.normalize_rows().timestamps.tolist() == data.timestamps.tolist()

    def test_normalize_rows_survives_values_near_the_largest_float(self):
        data = Interactions.from_pairs([1, 1, 2, 2], [1, 2, 1, 2], [1e308, 1e308, 5e-324, 5e-324])
        assert data.normalize_rows().matrix.data.tolist() == [0.5, 0.5, 0.5, 0.5]

    def test_normalize_rows_is_the_plain_quotient_bit_for_bit(self):
        values = np.random.default_rng(0).lognormal(size=(20, 30)) * 1e3
        for kind in (np.float64, np.float32):
            matrix = sparse.csr_array(values.astype(kind))
            shares = Interactions.from_sparse(matrix).normalize_rows().matrix
            sums = np.asarray(matrix.sum(axis=1))[:, None]
            assert np.array_equal(shares.toarray(), matrix.toarray() / sums)
            assert shares.dtype == kind

    def test_sample_items_is_the_documented_draw_in_its_order(self):
        data = plays()
        drawn = np.random.default_rng(3).choice(4, 2, replace=False)
        sample = data.sample_items(2, seed=3)
        assert sample.item_ids.tolist() == data.item_ids[drawn].tolist()
        assert np.array_equal(sample.matrix.toarray(), data.matrix.toarray()[:, drawn])

    def test_sample_items_keeps_users_with_nothing_left(self):
        data = Interactions.from_sparse(sparse.csr_array(np.eye(3)))
        sample = data.sample_items(1, seed=0)
        assert sample.shape == (3, 1)
        assert sample.nnz == 1

    def test_sample_items_needs_a_possible_number(self):
        with pytest.raises(InvalidParameterError, match=r"n=5 must be .* 4"):
            plays().sample_items(5, seed=0)
        with pytest.raises(InvalidParameterError, match=r"n=2\.0 must be.* 1"):
            plays().sample_items(2.0, seed=0)
        with pytest.raises(InvalidParameterError, match=r"seed='a' must be.* 0"):
            plays().sample_items(2, seed="a")

    def test_select_keeps_what_was_asked_for_in_that_order(self):
        data = plays().select_users(["cat", "ann"]).select_items([10, 30])
        assert data.matrix.toarray().tolist() == [[4.0, 5.0], [3.0, 0.0]]
        assert data.timestamps.tolist() == [2, 3, 6]

    def test_align_items_reorders_extends_and_drops(self):
        data = plays().with_names({10: "ten", 40: "forty"})
        aligned = data.align_items([40, 99, 10, 20], unknown="drop")
        assert aligned.item_ids.tolist() == [40, 99, 10, 20]
        assert aligned.matrix.toarray().tolist() == [[0, 0, 3, 1], [0, 0, 0, 2], [1, 0, 4, 0]]
        assert aligned.item_names.tolist() == ["forty", "99", "ten", "20"]
        assert aligned.timestamps.tolist() == [6, 5, 4, 1, 2]
        assert aligned.user_ids.tolist() == data.user_ids.tolist()

    @pytest.mark.parametrize(
        ("mine", "asked", "column"),
        [
            (np.array([2.0**53]), np.array([2**53, 2**53 + 1, 2**53 + 2]), 0),
            (np.array([2**53 + 1]), np.array([2.0**53, 2.0**53 + 2]), None),
            (np.array([2**63 + 1], np.uint64), np.array([2.0**63]), None),
            (np.array([2**62 + 1]), np.array([2**62, 2**62 + 1], np.uint64), 1),
        ],
    )
    def test_ids_of_two_number_types_match_only_where_they_are_equal(self, mine, asked, column):
        aligned = Interactions.from_pairs([1], mine).align_items(asked, unknown="drop")
        assert aligned.matrix.indices.tolist() == ([] if column is None else [column])

    def test_align_items_refuses_items_the_vocabulary_lacks(self):
        with pytest.raises(
            UnknownIdError,
            match=r"2 item id.* 30, 40.*unknown='drop'",
        ):
            plays().align_items([10, 20])
        with pytest.raises(InvalidParameterError, match="unknown must be one of"):
            plays().align_items([10, 20], unknown="ignore")

    @given(
        dense=hnp.arrays(
            float,
            st.tuples(st.integers(1, 6), st.integers(1, 6)),
            elements=st.sampled_from([0.0, 0.0, 1.0, 2.5]),
        ).filter(np.any),
        data=st.data(),
    )
    def test_every_selection_equals_indexing_the_dense_matrix(self, dense, data):
        table = Interactions.from_pairs(
            *np.nonzero(dense), dense[np.nonzero(dense)], timestamps=np.flatnonzero(dense)
        )
        whole = np.zeros_like(dense)
        users, items = table.user_ids, table.item_ids
        whole[np.ix_(users, items)] = table.matrix.toarray()
        assert np.array_equal(whole, dense)
        order = data.draw(st.permutations(list(range(table.n_items))))
        moved = table.align_items(items[order])
        assert np.array_equal(moved.matrix.toarray(), dense[np.ix_(users, items[order])])
        # a timestamp is the flat position of its entry: it tells whether it moved along
        row = np.repeat(users, np.diff(moved.matrix.indptr))
        flat = row * dense.shape[1] + moved.item_ids[moved.matrix.indices]
        assert np.array_equal(moved.timestamps, flat)


class TestLookingUp:
    def test_index_finds_ids_in_any_order_with_repeats(self):
        data = plays()
        assert data.user_index(["cat", "ann", "cat"]).tolist() == [2, 0, 2]
        assert data.item_index([40, 10]).tolist() == [3, 0]

    def test_unknown_ids_are_named(self):
        with pytest.raises(UnknownIdError, match=r"'zoe', 'yan'.*like 'ann'"):
            plays().user_index(["ann", "zoe", "yan"])
        with pytest.raises(UnknownIdError, match=r"'10'.*10, 20, 30 \(int64\)"):
            plays().item_index(["10"])

    @pytest.mark.parametrize("nothing", [None, float("nan"), np.datetime64("NaT", "s")])
    def test_a_missing_id_is_an_unknown_one(self, nothing):
        with pytest.raises(UnknownIdError, match=r"item id\(s\): (None|nan|NaT)\. The 4"):
            plays().item_index([10, nothing] if nothing is None else [nothing])
        with pytest.raises(UnknownIdError, match=r"user id\(s\): (None|nan|NaT)\. The 3"):
            plays().row(nothing)

    def test_whole_numbers_beyond_64_bits_stay_distinct(self):
        data = Interactions.from_pairs([2**63, 2**63 + 1, 5], [1, 1, 1])
        assert data.user_ids.tolist() == [2**63, 2**63 + 1, 5]
        assert data.user_index([5, 2**63 + 1]).tolist() == [2, 1]

    def test_a_date_is_not_found_among_numbers(self):
        with pytest.raises(UnknownIdError, match="2020-01-01"):
            plays().item_index(np.array(["2020-01-01"], dtype="datetime64[D]"))

    def test_row_is_the_users_row(self):
        assert plays().row("bob").toarray().tolist() == [[0, 2, 0, 0]]


class TestReading:
    def test_counts_and_density(self):
        data = plays()
        assert (data.n_users, data.n_items, data.nnz, data.shape) == (3, 4, 6, (3, 4))
        assert data.density == 0.5
        assert repr(data) == "Interactions(3 users x 4 items, 6 interactions, density 50.000%)"

    def test_popularity_kinds(self):
        data = plays()
        assert data.popularity("norm").tolist() == [5.0, np.sqrt(5.0), 5.0, 1.0]
        assert data.popularity().tolist() == data.popularity("count").tolist() == [2, 2, 1, 1]
        assert data.popularity("sum").tolist() == [7, 3, 5, 1]
        with pytest.raises(InvalidParameterError, match="kind must be one of"):
            data.popularity("likes")

    @pytest.mark.parametrize("exponent", [-1060, -660, 0, 660, 1020])
    def test_popularity_is_scaled_exactly_with_the_data(self, exponent):
        """3, 4 and a factor of 2**k: the norm is 5·2**k, whatever its square is."""
        values = [3 * 2.0**exponent, 4 * 2.0**exponent, 3.0, 4.0]
        data = Interactions.from_pairs([1, 2, 1, 2], ["x", "x", "y", "y"], values)
        assert data.popularity("norm").tolist() == [5 * 2.0**exponent, 5.0]

    def test_describe_counts_by_hand(self):
        summary = plays().describe()
        assert summary.items_per_user == (1, 2.0, 3)
        assert summary.users_per_item == (1, 1.5, 2)
        assert sum(summary.popularity_deciles) == pytest.approx(1.0)
        assert len(summary.popularity_deciles) == 10
        assert "items per user   1 / 2 / 3" in str(summary)
        assert "also has         timestamps" in str(summary)

    def test_deciles_are_shares_of_tenths_most_popular_first(self):
        users = np.concatenate([np.arange(k) for k in range(1, 21)])
        items = np.repeat(np.arange(20), np.arange(1, 21))
        deciles = Interactions.from_pairs(users, items).describe().popularity_deciles
        assert deciles == pytest.approx([(39 - 4 * k) / 210 for k in range(10)])

    def test_equal_content_is_equal_and_has_one_fingerprint(self):
        one, other = plays(), plays()
        assert one == other
        assert one.fingerprint() == other.fingerprint()
        assert len(one.fingerprint()) == 64

    @pytest.mark.parametrize(
        "change",
        [
            lambda data: data.binarize(),
            lambda data: data.select_users(["bob", "ann", "cat"]),
            lambda data: data.with_names({10: "ten"}),
            lambda data: Interactions(data.matrix, data.user_ids, data.item_ids),
            lambda data: Interactions(data.matrix, [1, 2, 3], data.item_ids, None, data.timestamps),
            lambda data: data.keep_entries(np.arange(data.nnz) > 0),
        ],
    )
    def test_other_content_is_not_equal(self, change):
        assert change(plays()) != plays()

    def test_number_and_its_text_have_different_fingerprints(self):
        number = Interactions.from_pairs([1, 2], [1, 2])
        text = Interactions.from_pairs(["1", "2"], [1, 2])
        assert number.fingerprint() != text.fingerprint()

    def test_it_is_not_equal_to_other_things_and_not_hashable(self):
        assert plays() != 3
        with pytest.raises(TypeError, match="unhashable"):
            hash(plays())


def test_large_integers_among_floats_do_not_merge():
    data = Interactions.from_pairs([2**53, 2**53 + 1, 0.5], ["x", "x", "x"])
    assert data.user_ids.tolist() == [2**53, 2**53 + 1, 0.5]
    assert data.shape == (3, 1)


class TestNames:
    def test_a_mapping_names_items_and_the_rest_keep_their_id(self):
        assert plays().with_names({20: "twenty"}).item_names.tolist() == [
            "10",
            "twenty",
            "30",
            "40",
        ]

    def test_names_that_fit_no_item_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"none .*\['20'\].*\[10, 20"):
            plays().with_names({"20": "twenty"})

    @pytest.mark.parametrize("nothing", [None, float("nan")])
    def test_names_that_are_all_missing_are_refused(self, nothing):
        data = Interactions.from_pairs([1], ["hit"])
        with pytest.raises(InvalidDataError, match=r"names .*all missing"):
            data.with_names({"hit": nothing})
        named = plays().with_names({10: nothing, 20: "twenty"})
        assert named.item_names.tolist() == ["10", "twenty", "30", "40"]

    def test_names_from_something_else_are_refused(self):
        with pytest.raises(InvalidDataError, match="read from int"):
            plays().with_names(3)

    def test_names_follow_their_items(self):
        named = plays().with_names({10: "ten", 30: "thirty"})
        assert named.select_items([30, 10]).item_names.tolist() == ["thirty", "ten"]
        assert named.filter(min_users_per_item=2).item_names.tolist() == ["ten", "20"]

"""Numbers of a text file: parsed as numbers if they are plain, and encoded by a hash table."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.data import Interactions
from equipoise.data.readers import text as text_files
from equipoise.data.readers.delimited import is_plain
from equipoise.data.readers.ids import ColumnVocabulary, TextVocabulary

more_examples = settings(max_examples=2 * settings().max_examples)
ODD = ["+3", "-3", "03", "-0", "00", '"5"', " 5", "5 ", "1e3", "9" * 19, "9" * 20, "x", "1_0", "0"]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(("column", "line"), [(0, 0), (1, 60), (0, 119)])
def test_an_odd_id_anywhere_makes_all_ids_of_its_column_text(
    tmp_path, monkeypatch, odd, column, line
):
    rows = [[str(7 * (i % 11)), str(i % 13), f"{i % 5 + 1}.5"] for i in range(120)]
    rows[line][column] = odd
    path = tmp_path / "table.csv"
    path.write_text("user,item,value\n" + "".join(",".join(row) + "\n" for row in rows))
    monkeypatch.setattr(text_files, "CHUNK_BYTES", 400)
    found = Interactions.read(path)
    cell = odd.strip(' "')
    plain = re.fullmatch("0|-?[1-9][0-9]{0,18}", cell) and int(cell) < 2**63
    rows[line][column] = cell
    for k, ids in enumerate((found.user_ids, found.item_ids)):
        expected = list(dict.fromkeys(row[k] for row in rows))
        as_text = k == column and not plain
        assert ids.tolist() == (expected if as_text else [int(each) for each in expected])
    assert found.matrix.sum() == sum(float(row[2]) for row in rows)


@more_examples
@given(st.text(alphabet='012+- ",\n.x', max_size=40), st.integers(2, 12))
def test_plain_is_what_the_expression_says_wherever_the_windows_end(text, window):
    odd = re.search(r'(?:^|[,\n])(?:[+\- "]|0[0-9])', text)
    # the last byte, and a sign after the last delimiter, have no field behind them
    ends_oddly = re.search(r'(?:^|[,\n])[+\- "]$', text)
    if ends_oddly is None:
        assert is_plain(text.encode(), ",", window) == (odd is None)


@st.composite
def batches_of_ids(draw):
    spread = draw(st.sampled_from([10, 1000, 10**6, 2**40]))
    ids = st.integers(-spread, spread)
    return draw(st.lists(st.lists(ids, max_size=30), min_size=1, max_size=6))


@more_examples
@given(batches_of_ids(), st.sampled_from([ColumnVocabulary, TextVocabulary]))
def test_codes_count_ids_by_first_appearance_however_far_apart(batches, kind):
    vocabulary, known = kind("user"), {}
    for batch in batches:
        expected = [known.setdefault(value, len(known)) for value in batch]
        column = pl.Series(batch, dtype=pl.Int64)
        given_as = column.cast(pl.String) if kind is TextVocabulary else column
        assert vocabulary.encode(given_as).tolist() == expected
    assert vocabulary.ids().tolist() == list(known)


@more_examples
@given(
    st.lists(st.lists(st.text("aé0", max_size=20), max_size=30), min_size=1, max_size=6),
    st.sampled_from([1, 7, 2**40]),
)
def test_text_gets_the_same_codes_whether_hashes_collide_or_not(batches, n_hashes):
    vocabulary, known = ColumnVocabulary("user", lambda ids: ids.hash() % n_hashes), {}
    for batch in batches:
        expected = [known.setdefault(value, len(known)) for value in batch]
        assert vocabulary.encode(pl.Series(batch, dtype=pl.String)).tolist() == expected
    assert vocabulary.ids().tolist() == list(known)


def test_codes_of_many_ids_of_text_count_first_appearances():
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, 3000 * k, 5000).astype(str) for k in range(1, 5)]
    vocabulary, known = ColumnVocabulary("user"), {}
    for batch in batches:
        expected = [known.setdefault(value, len(known)) for value in batch.tolist()]
        assert vocabulary.encode(pl.Series(batch.tolist())).tolist() == expected


def test_numbers_turn_into_text_when_text_comes_later():
    vocabulary = TextVocabulary("user")
    assert vocabulary.encode(pl.Series([7, 8])).tolist() == [0, 1]
    assert vocabulary.encode(pl.Series(["08", "8"])).tolist() == [2, 1]
    assert vocabulary.encode(pl.Series([7, 9])).tolist() == [0, 3]
    assert vocabulary.ids().tolist() == ["7", "8", "08", "9"]


def test_repeated_pairs_are_summed_in_the_order_they_came():
    big, small = 2.0**53, 1.0
    found = Interactions.from_pairs(["u"] * 3, ["i"] * 3, [big, small, small])
    assert found.matrix.data.tolist() == [np.float64(big) + small + small]

"""CSV, TSV, MovieLens, Last.fm and LightGCN files: what is found, what is refused and where."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.data.readers import delimited
from equipoise.data.readers import text as text_files
from equipoise.exceptions import InvalidDataError, InvalidParameterError


@pytest.fixture
def write(tmp_path):
    def _write(text: str | bytes, name: str = "table.csv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


EXPECTED = [[4.0, 0.0], [2.0, 1.0]]


class TestColumns:
    @pytest.mark.parametrize(
        "header",
        [
            "user,item,value",
            "userId,movieId,rating",
            "userID,artistID,weight",
            "User_ID,Track,plays",
            "customer,product,quantity",
            "u,i,count",
            "USER ID,ASIN,Stars",
        ],
    )
    def test_columns_are_found_by_their_usual_names(self, write, header):
        data = Interactions.read(write(f"{header}\n1,5,4\n2,5,2\n2,6,1\n"))
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.user_ids.tolist() == [1, 2]

    def test_columns_are_found_in_any_order_among_others(self, write):
        path = write("note,rating,timestamp,item_id,user_id\nx,4,9,5,1\ny,2,8,5,2\nz,1,7,6,2\n")
        data = Interactions.read(path)
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.timestamps.tolist() == [9, 8, 7]

    def test_named_columns_win_over_guesses(self, write):
        path = write("user,who,item,what,n\n9,1,9,5,4\n9,2,9,5,2\n9,2,9,6,1\n")
        data = Interactions.read(path, user="who", item="what")
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_a_year_among_the_names_leaves_the_header_one(self, write):
        path = write("user,item,2019\n1,5,4\n2,5,2\n2,6,1\n")
        with pytest.raises(InvalidDataError, match=r"'2019'.*value="):
            Interactions.read(path)
        data = Interactions.read(path, value="2019")
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.user_ids.tolist() == [1, 2]

    def test_one_known_name_next_to_a_number_is_an_interaction(self, write):
        data = Interactions.read(write("user,x,3\nann,y,1\n"))
        assert data.user_ids.tolist() == ["user", "ann"]

    @pytest.mark.parametrize("position", ["1" * 5000, 2, -1], ids=["text", "number", "negative"])
    def test_positions_outside_the_table_are_refused(self, write, position):
        with pytest.raises(InvalidDataError, match=r"user=.* is not one of its columns"):
            Interactions.read(write("user,item\n1,5\n"), user=position)

    @pytest.mark.parametrize("position", [2, "2"])
    def test_a_position_names_a_column_too(self, write, position):
        data = Interactions.read(write("1,x,5,4\n2,x,5,2\n2,x,6,1\n"), item=position, value=3)
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_without_header_columns_go_by_position(self, write):
        data = Interactions.read(write("1,5,4,100\n2,5,2,200\n2,6,1,300\n"))
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.timestamps.tolist() == [100, 200, 300]

    def test_a_word_above_numbers_is_a_header_even_if_unknown(self, write):
        path = write("alpha,beta\n1,5\n2,6\n")
        with pytest.raises(InvalidDataError, match=r"the user.*alpha, beta.*--user"):
            Interactions.read(path)
        assert Interactions.read(path, user="alpha", item="beta").shape == (2, 2)

    def test_one_error_lists_all_columns_that_are_missing(self, write):
        path = write("who,what,n\nann,x,3\nbob,y,1\n")
        with pytest.raises(
            InvalidDataError,
            match=r"user.*item.*who, what, n.*--user and --item",
        ):
            Interactions.read(path)
        assert Interactions.read(path, user="who", item="what").matrix.data.tolist() == [3, 1]

    def test_words_above_decimal_commas_are_a_header(self, write):
        table = write("who;what;times\nann;x;1,5\nbob;y;2,5\n")
        with pytest.raises(InvalidDataError, match="columns are: who, what, times"):
            Interactions.read(table)

    def test_text_ids_without_header_are_all_data(self, write):
        assert Interactions.read(write("ann,apple\nbob,pear\n")).shape == (2, 2)

    def test_without_value_column_every_row_counts_one(self, write):
        data = Interactions.read(write("user,item\n1,5\n1,5\n2,5\n"))
        assert data.matrix.toarray().tolist() == [[2.0], [1.0]]

    def test_an_empty_name_means_there_is_no_such_column(self, write):
        path = write("user,item,rating,time\n1,5,4,noon\n2,5,-2,later\n")
        data = Interactions.read(path, value="", timestamp="")
        assert data.matrix.data.tolist() == [1.0, 1.0]
        assert data.timestamps is None

    def test_a_missing_column_lists_those_there_are(self, write):
        path = write("user,thing,rating\n1,5,4\n")
        with pytest.raises(
            InvalidDataError,
            match=r"no column .*item.*user, thing, rating.*--item",
        ):
            Interactions.read(path)
        with pytest.raises(InvalidDataError, match=r"value='nope' is not .*columns.*--value"):
            Interactions.read(path, item="thing", value="nope")
        with pytest.raises(InvalidDataError, match=r"item=7 .*columns.*position from 0"):
            Interactions.read(path, item=7)

    def test_two_columns_that_could_both_be_the_item_are_refused(self, write):
        path = write("user,artist_id,track_id\n1,5,4\n")
        with pytest.raises(InvalidDataError, match=r"several columns .*item: artist_id, tr"):
            Interactions.read(path)
        assert Interactions.read(path, item="track_id").item_ids.tolist() == [4]

    def test_one_column_cannot_play_two_roles(self, write):
        with pytest.raises(InvalidDataError, match="'user' cannot be both"):
            Interactions.read(write("user,item\n1,5\n"), item="user", user="user")

    def test_a_header_with_a_name_twice_is_refused(self, write):
        with pytest.raises(InvalidDataError, match=r"header .*'item'.* more than once"):
            Interactions.read(write("user,item,item\n1,5,6\n"))

    def test_numbers_that_may_be_the_value_are_not_passed_over(self, write):
        path = write("UserID,ISBN,Book-Rating\n1,5,4\n2,5,2\n2,6,1\n")
        with pytest.raises(
            InvalidDataError,
            match=r"table.csv: no column .*value='Book-Rating' \(--value\)",
        ):
            Interactions.read(path)
        assert Interactions.read(path, value="Book-Rating").matrix.toarray().tolist() == EXPECTED
        assert Interactions.read(path, value="").matrix.data.tolist() == [1.0, 1.0, 1.0]

    def test_numbers_without_header_are_named_by_position(self, write):
        path = write("1,x,5,4\n2,x,5,2\n2,x,6,1\n")
        with pytest.raises(InvalidDataError, match=r"numbers in 3\. .* value=3 \(--value\)"):
            Interactions.read(path, item=2)

    @pytest.mark.parametrize(
        ("header", "cells"),
        [
            ("user,item,genre_id", "7"),
            ("user,item,genreId", "7"),
            ("user,item,", "7"),
            ("user,item,Unnamed: 0", "7"),
            ("user,item,time", "7"),
            ("user,item,note", "word"),
        ],
    )
    def test_other_ids_times_row_numbers_and_words_are_not_values(self, write, header, cells):
        data = Interactions.read(write(f"{header}\n1,5,{cells}\n2,5,{cells}\n"))
        assert data.matrix.data.tolist() == [1.0, 1.0]

    def test_a_few_words_do_not_hide_a_column_of_numbers(self, write):
        with pytest.raises(InvalidDataError, match=r"numbers in 'liked'.*--value"):
            Interactions.read(write("user,item,liked\n1,5,1\n2,5,NA\n3,5,2\n4,5,\n"))


GERMAN = "kunde;artikel;menge;datum\n1;5;3,5;31.12.2019\n1;6;0,5;01.02.2020\n2;5;2;02.01.2020\n"
GERMAN_COLUMNS = {"user": "kunde", "item": "artikel", "value": "menge", "timestamp": "datum"}


class TestFormsOfOtherCountries:
    @pytest.mark.parametrize("memory", [None, "1GB"])
    def test_decimal_commas_and_day_first_dates(self, write, memory):
        table = write(GERMAN)
        how = {"decimal": ",", "date_format": "%d.%m.%Y", "memory": memory}
        data = Interactions.read(table, **GERMAN_COLUMNS, **how).collect()
        assert data.matrix.toarray().tolist() == [[3.5, 0.5], [2.0, 0.0]]
        expected = ["2019-12-31", "2020-02-01", "2020-01-02"]
        assert data.timestamps.astype("datetime64[D]").astype(str).tolist() == expected

    def test_dates_of_digits_are_dates_if_a_format_is_given(self, write):
        table = write("user,item,timestamp\n1,5,20200131\n1,6,20191231\n")
        data = Interactions.read(table, date_format="%Y%m%d")
        days = data.timestamps.astype("datetime64[D]").astype(str)
        assert days.tolist() == ["2020-01-31", "2019-12-31"]

    def test_without_a_header_the_comma_is_not_the_delimiter(self, write):
        data = Interactions.read(write("ann;x;1,5\nann;y;2,5\nbob;y;0,25\n"), decimal=",")
        assert data.matrix.toarray().tolist() == [[1.5, 2.5], [0.0, 0.25]]

    def test_errors_name_the_option_that_helps(self, write):
        table = write(GERMAN)
        with pytest.raises(InvalidDataError, match=r"line 2.*'3,5'.*--decimal"):
            Interactions.read(table, **GERMAN_COLUMNS)
        with pytest.raises(InvalidDataError, match=r"'31.12.2019'.*--date-format"):
            Interactions.read(table, **GERMAN_COLUMNS, decimal=",")
        with pytest.raises(InvalidDataError, match=r"line 2.*does not have the format"):
            Interactions.read(table, **GERMAN_COLUMNS, decimal=",", date_format="%d/%m/%Y")
        with pytest.raises(InvalidParameterError, match="decimal"):
            Interactions.read(table, decimal="comma")


class TestNamesInTheData:
    def test_a_column_names_the_items_the_most_frequent_name_wins(self, write):
        table = write("user,item,title\n1,7,Siete\n2,7,Seven\n3,7,Seven\n1,8,Eight\n")
        data = Interactions.read(table, names="title")
        assert dict(zip(data.item_ids.tolist(), data.item_names, strict=True)) == {
            7: "Seven",
            8: "Eight",
        }

    def test_text_that_is_neither_a_file_nor_a_column_is_refused(self, write):
        with pytest.raises(InvalidDataError, match=r"no file titles.*--names.*user, item"):
            Interactions.read(write("user,item\n1,7\n"), names="titles")


class TestPositionsSettleTheHeader:
    @pytest.mark.parametrize("columns", [(0, 1, 2), ("0", "1", "2")])
    def test_a_first_line_of_positions_is_data(self, write, columns):
        user, item, value = columns
        table = write("0 0 1\n0 1 2\n1 0 3\n")
        data = Interactions.read(table, user=user, item=item, value=value)
        assert data.matrix.toarray().tolist() == [[1.0, 2.0], [3.0, 0.0]]

    def test_columns_make_text_of_whole_numbers_a_table(self, write):
        text = "0 0 1\n1 1 2\n2 0 3\n"
        with pytest.raises(InvalidDataError, match="LightGCN"):
            Interactions.read(write(text, "plays.txt"))
        data = Interactions.read(write(text, "plays.txt"), user=0, item=1, value=2)
        assert data.matrix.toarray().tolist() == [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]

    def test_numbers_that_are_not_positions_name_columns(self, write):
        data = Interactions.read(write("1998,1999\n1,7\n2,7\n"), user="1998", item="1999")
        assert data.user_ids.tolist() == [1, 2]


class TestForms:
    @pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " ", "::"])
    def test_the_delimiter_is_detected_from_the_first_lines(self, write, delimiter):
        rows = ["1,5,4", "2,5,2", "2,6,1"]
        text = "\n".join(row.replace(",", delimiter) for row in rows)
        data = Interactions.read(write(text, "table.csv"))
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_a_named_delimiter_is_used(self, write):
        data = Interactions.read(write("1~5~4\n2~5~2\n2~6~1\n"), delimiter="~")
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_no_delimiter_is_refused(self, write):
        with pytest.raises(InvalidDataError, match=r"no delimiter found in '17'.*--delimiter"):
            Interactions.read(write("17\n18\n"))

    def test_windows_lines_byte_order_mark_and_blank_lines(self, write):
        path = write(b"\xef\xbb\xbf\r\nuser,item,value\r\n1,5,4\r\n\r\n2,5,2\r\n2,6,1\r\n\r\n")
        data = Interactions.read(path)
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_quoted_fields_may_hold_delimiters_quotes_and_newlines(self, write):
        path = write('user,item,value\n"a,b","say ""hi""",4\n"c\nd","say ""hi""",2\n"c\nd",x,1\n')
        data = Interactions.read(path)
        assert data.user_ids.tolist() == ["a,b", "c\nd"]
        assert data.item_ids.tolist() == ['say "hi"', "x"]
        assert data.matrix.toarray().tolist() == EXPECTED

    @pytest.mark.parametrize("size", [7, 11, 16, 64])
    def test_chunks_of_any_size_give_the_same_table(self, write, monkeypatch, size):
        path = write(
            'user,item,value\n"a\n\n,b",x,4\nc,"x",2\n\nc,"""y""",1\nlong-name-of-a-user,x,3\n'
        )
        whole = Interactions.read(path)
        monkeypatch.setattr(text_files, "CHUNK_BYTES", size)
        assert Interactions.read(path) == whole
        assert whole.user_ids.tolist() == ["a\n\n,b", "c", "long-name-of-a-user"]

    @pytest.mark.parametrize("delimiter", ["§", "→", "::", "§§", ", "])
    def test_a_delimiter_of_several_bytes(self, write, delimiter):
        text = "user,item,value\nann,x,4\n\nbob,x,2\nbob,é,1\n".replace(",", delimiter)
        for rows in (text, text.partition("\n")[2]):  # with a header and without
            data = Interactions.read(write(rows), delimiter=delimiter)
            assert data.matrix.toarray().tolist() == EXPECTED
            assert data.item_ids.tolist() == ["x", "é"]

    def test_a_delimiter_that_is_not_text_is_refused(self, write):
        with pytest.raises(InvalidParameterError, match=r"delimiter is not UTF-8"):
            Interactions.read(write("user,item\n1,5\n"), delimiter="\udcff")

    def test_numbers_with_other_spellings_stay_text(self, write):
        assert Interactions.read(write("007,1\n7,2\n")).user_ids.tolist() == ["007", "7"]
        assert Interactions.read(write("0,1\n-7,2\n")).user_ids.tolist() == [0, -7]
        huge = "9223372036854775808"
        assert Interactions.read(write(f"{huge},1\n7,2\n")).user_ids.tolist() == [huge, "7"]
        huge = "123456789012345678901234567890"
        assert Interactions.read(write(f"{huge},1\n7,2\n")).user_ids.tolist() == [huge, "7"]

    def test_whole_numbers_up_to_the_range_of_int64_are_numbers(self, write):
        ends = [2**63 - 1, -(2**63), 1234567890123456789]
        ids = Interactions.read(write("".join(f"{end},1\n" for end in ends))).user_ids
        assert ids.dtype == np.int64
        assert ids.tolist() == ends

    def test_ids_turn_to_text_for_all_when_a_late_one_is_not_a_number(self, write, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 8)
        data = Interactions.read(write("1,5\n2,5\n1,6\nx,5\n1,7\n", "ids.csv"))
        assert data.user_ids.tolist() == ["1", "2", "x"]
        assert data.item_ids.tolist() == [5, 6, 7]
        assert data.matrix.toarray().tolist() == [[1, 1, 1], [1, 0, 0], [1, 0, 0]]

    @pytest.mark.parametrize("size", [8, 1 << 20])
    def test_spaces_around_unquoted_fields_do_not_count(self, write, monkeypatch, size):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", size)
        path = write("user , item, value\n 1, a b , 4 \r\n2 ,a b,2\n 2,  c,1  ")
        data = Interactions.read(path)
        assert data.user_ids.tolist() == [1, 2]
        assert data.item_ids.tolist() == ["a b", "c"]
        assert data.matrix.toarray().tolist() == EXPECTED

    @pytest.mark.parametrize("size", [8, 1 << 20])
    def test_spaces_inside_quotes_count(self, write, monkeypatch, size):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", size)
        path = write('user, "item",value\n1, " a, ""b"" " ,4\n2 ," a, ""b"" ",2\n2, "c\n ",1\n')
        data = Interactions.read(path)
        assert data.user_ids.tolist() == [1, 2]
        assert data.item_ids.tolist() == [' a, "b" ', "c\n "]
        assert data.matrix.toarray().tolist() == EXPECTED

    def test_names_have_no_outer_spaces_either(self, write):
        data = Interactions.read(write("1, 5, 4\n2, 5, 2\n2, 6, 1\n"))
        names = write('item_id, title\n5 , Five\n6, " Six"\n', "names.csv")
        assert data.with_names(names).item_names.tolist() == ["Five", " Six"]

    def test_dates_as_timestamps(self, write):
        path = write("user,item,date\n1,5,2020-03-01\n2,5,2020-01-01T10:00:00\n")
        times = Interactions.read(path).timestamps
        assert times.tolist() == np.array(["2020-03-01", "2020-01-01T10"], "M8[us]").tolist()

    def test_a_folder_and_a_glob_of_csv_files_are_one_table(self, write, tmp_path):
        write("user,item,value\n1,5,4\n", "parts/b.csv")
        write("value,user,item\n2,2,5\n1,2,6\n", "parts/c.csv")
        write("not a table", "parts/readme.md")
        for source in (tmp_path / "parts", str(tmp_path / "parts" / "*.csv")):
            assert Interactions.read(source).matrix.toarray().tolist() == EXPECTED

    def test_zero_rows_are_left_out(self, write):
        data = Interactions.read(write("user,item,value\n1,5,4\n3,7,0\n2,5,2\n2,6,1\n"))
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.user_ids.tolist() == [1, 2]


class TestPublishedFormats:
    def test_movielens_ratings_and_latin1_titles(self, write, tmp_path):
        write("1::5::4::978300760\n2::5::2::978300761\n2::6::1::978300762\n", "ml/ratings.dat")
        write(
            '5::Misérables, Les (1995)::Drama\n6::It\'s "so"::X\n'.encode("latin-1"),
            "ml/movies.dat",
        )
        data = Interactions.read(tmp_path / "ml")
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.timestamps.tolist() == [978300760, 978300761, 978300762]
        assert data.item_names.tolist() == ["Misérables, Les (1995)", 'It\'s "so"']
        assert Interactions.read(tmp_path / "ml" / "ratings.dat").item_names is None
        assert Interactions.read(tmp_path / "ml" / "ratings.dat", format="movielens").nnz == 3

    def test_lastfm_files_with_quotes_in_names(self, write, tmp_path):
        write("userID\tartistID\tweight\n1\t5\t4\n2\t5\t2\n2\t6\t1\n", "fm/user_artists.dat")
        write('id\tname\turl\n5\t"Quote\tu\n6\tPlain\tv\n', "fm/artists.dat")
        data = Interactions.read(tmp_path / "fm")
        assert data.matrix.toarray().tolist() == EXPECTED
        assert data.item_names.tolist() == ['"Quote', "Plain"]
        assert Interactions.read(tmp_path / "fm" / "user_artists.dat").nnz == 3

    def test_lightgcn_lines(self, write):
        data = Interactions.read(write("0 5 7 9\n1 5\n2\n3  9 \n", "train.txt"))
        assert data.user_ids.tolist() == [0, 1, 3]
        assert data.item_ids.tolist() == [5, 7, 9]
        assert data.matrix.toarray().tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 1]]

    def test_lightgcn_lines_are_counted_with_blank_ones(self, write):
        path = write("\n\n0 5 7 9\n\n1 x\n", "train.txt")
        with pytest.raises(InvalidDataError, match="line 5: 'x'"):
            Interactions.read(path, format="lightgcn")

    def test_lightgcn_in_chunks(self, write, monkeypatch):
        path = write("\n".join(f"{u} {u % 7} {u % 5 + 10}" for u in range(50)), "train.txt")
        whole = Interactions.read(path, format="lightgcn")
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 13)
        assert Interactions.read(path, format="lightgcn") == whole
        assert whole.nnz == 100

    def test_lines_that_could_be_lightgcn_or_a_table_are_refused(self, write):
        path = write("0 5 7\n1 5 6\n", "train.txt")
        with pytest.raises(InvalidDataError, match=r"could be LightGCN .* format='lightgcn' or"):
            Interactions.read(path)
        assert Interactions.read(path, format="lightgcn").nnz == 4
        assert Interactions.read(path, format="csv").nnz == 2

    def test_lightgcn_refuses_words_with_their_line(self, write):
        with pytest.raises(InvalidDataError, match=r"line 2: 'x' .*LightGCN"):
            Interactions.read(write("0 5 7\n1 x\n", "train.txt"), format="lightgcn")

    def test_names_from_csv_and_parquet_files(self, write, tmp_path):
        data = Interactions.read(write("1,5,4\n2,5,2\n2,6,1\n"))
        csv = write('item_id,year,title\n6,1999,"Six, the"\n5,1998,Five\n', "names.csv")
        assert data.with_names(csv).item_names.tolist() == ["Five", "Six, the"]
        pl.DataFrame({"id": [5, 6], "name": ["Five", "Six"]}).write_parquet(tmp_path / "n.parquet")
        named = Interactions.read(tmp_path / "table.csv", names=tmp_path / "n.parquet")
        assert named.item_names.tolist() == ["Five", "Six"]
        with pytest.raises(InvalidDataError, match=r"column of ids .*item_id, year"):
            data.with_names(write("item_id,year\n6,1999\n", "bad.csv"))


class TestRefusing:
    @pytest.mark.parametrize(
        ("rows", "complaint"),
        [
            ("1,5,4\n2,5,many\n", r"line 3, column 'rating' \(value\): 'many' is not a number"),
            ("1,5,4\n2,5,\n", r"line 3, column 'rating' \(value\): the value is missing"),
            ("1,5,4\n2,5,-2\n", r"line 3, column 'rating' \(value\): the value -2.0 is negative"),
            ("1,5,4\n2,5,NaN\n", r"line 3, .* the value nan is NaN"),
            ("1,5,4\n\n2,5,inf\n", r"line 4, .* the value inf is infinite"),
            ("1,5,4\n,5,2\n", r"line 3, column 'user' \(user\): the id is missing"),
            ("1,5,4\n2\n", r"line 3, column 'item' \(item\): the id is missing"),
            ("1,5,4\n,,\n", r"line 3, column 'user' \(user\): the id is missing"),
            ('"a\nb",5,4\n2,5,x\n', r"line 4, .*'x' is not a number"),
            ("1,5,4\n2,5,4,9\n", r"line 3: 4 fields where the table has 3 columns"),
        ],
    )
    def test_a_bad_row_is_named_by_its_line(self, write, rows, complaint):
        with pytest.raises(InvalidDataError, match=complaint):
            Interactions.read(write("user,item,rating\n" + rows))

    def test_the_line_is_right_in_a_later_chunk_and_after_blank_lines(self, write, monkeypatch):
        monkeypatch.setattr(text_files, "CHUNK_BYTES", 20)
        rows = "1,5,4\n\n" * 10 + "2,5,bad\n" + "1,5,4\n" * 10
        with pytest.raises(InvalidDataError, match=r"line 22, .*'bad' is not a number"):
            Interactions.read(write("user,item,rating\n" + rows))

    @pytest.mark.parametrize("blank", ["\n", "\r\n", "  \n"])
    @pytest.mark.parametrize("row", ["1,5,4\n", '"1","5",4\n'])
    def test_blank_lines_take_no_work_per_line(self, write, monkeypatch, blank, row):
        n_lines = 5000

        def few(text, *arguments, **options):
            for number, record in enumerate(slow(text, *arguments, **options)):
                assert number < 10, "blank lines are read one by one"
                yield record

        slow = delimited.records
        monkeypatch.setattr(delimited, "records", few)
        path = write("user,item,rating\n" + row + blank * n_lines + row)
        assert Interactions.read(path).matrix.toarray().tolist() == [[8.0]]

    @pytest.mark.parametrize("blank", ["\n", "\r\n", "  \n", "\n  \n"])
    @pytest.mark.parametrize("row", ["1,5,4\n", '"1","5",4\n', '"1\n\n","5",4\n', "1, 5,4\n"])
    def test_the_line_is_right_after_blank_lines_of_every_kind(self, write, blank, row):
        text = "user,item,rating\n" + blank + row + blank * 3 + row + blank
        line = text.count("\n") + 1
        with pytest.raises(InvalidDataError, match=rf"line {line}, .*'bad' is not a number"):
            Interactions.read(write(text + "2,5,bad\n" + row))

    def test_a_field_of_spaces_is_missing(self, write):
        with pytest.raises(InvalidDataError, match=r"line 3, column 'item' .*missing"):
            Interactions.read(write("user,item,rating\n1, 5, 4\n2,  , 3\n"))

    def test_a_column_without_header_is_named_by_its_position(self, write):
        with pytest.raises(InvalidDataError, match=r"line 2, column 2.*'x' is not a num"):
            Interactions.read(write("1,5,4\n2,5,x\n"))

    def test_lines_that_end_in_carriage_returns_are_refused(self, write):
        path = write("user,item\r1,5\r2,6\r")
        with pytest.raises(InvalidDataError, match=r"table.csv: .*carriage returns"):
            Interactions.read(path)
        with pytest.raises(InvalidDataError, match=r"table.csv: .*carriage returns"):
            Interactions.from_pairs([1], [5]).with_names(path)
        with pytest.raises(InvalidDataError, match=r"table.csv: .*cannot be split"):
            Interactions.read(write("user,item\r1,5\r2,6\n"))

    def test_a_repeated_pair_is_refused_with_ids_and_file(self, write):
        with pytest.raises(
            InvalidDataError,
            match=r"table.csv: user 'b' and item 5 .*row 2",
        ):
            Interactions.read(
                write("user,item,value\na,5,1\na,6,0\nb,5,1\nb,5,1\n"), duplicates="error"
            )

    def test_broken_files_of_names_are_refused(self, write):
        data = Interactions.from_pairs([1], [5])
        with pytest.raises(InvalidDataError, match=r"n.parquet cannot be read"):
            data.with_names(write(b"PAR1 and no more", "n.parquet"))
        with pytest.raises(InvalidDataError, match=r"n.csv needs a column of ids"):
            data.with_names(write('"x::X"\ny', "n.csv"))

    def test_a_timestamp_that_is_none_is_refused(self, write):
        with pytest.raises(InvalidDataError, match=r"line 3, column 'time' .*'noon'"):
            Interactions.read(write("user,item,time\n1,5,10\n2,5,noon\n3,5,11\n4,5,12\n5,5,13\n"))

    def test_numbers_and_dates_do_not_mix_as_timestamps(self, write, tmp_path):
        write("user,item,time\n1,5,10\n", "p/a.csv")
        write("user,item,time\n1,6,2020-01-01\n", "p/b.csv")
        with pytest.raises(InvalidDataError, match=r"numbers .*dates"):
            Interactions.read(tmp_path / "p")

    def test_parts_with_other_columns_are_refused(self, write, tmp_path):
        write("user,item,value\n1,5,10\n", "p/a.csv")
        write("user,item\n1,6\n", "p/b.csv")
        with pytest.raises(InvalidDataError, match=r"b.csv .*\['item', 'user'\], ear"):
            Interactions.read(tmp_path / "p")

    def test_an_open_quote_is_refused(self, write):
        with pytest.raises(InvalidDataError, match="a quote may be open"):
            Interactions.read(write('user,item\n1,"5\n2,6\n'))

    def test_text_in_another_encoding_is_refused_with_its_line(self, write):
        with pytest.raises(InvalidDataError, match=r"line 3: byte 0xe9 is not UTF-8.*iconv"):
            Interactions.read(write("user,item\n1,a\n2,é\n".encode("latin-1")))
        with pytest.raises(InvalidDataError, match="is UTF-16 text"):
            Interactions.read(write("user,item\n1,5\n".encode("utf-16")))

    def test_empty_files_are_refused(self, write):
        with pytest.raises(InvalidDataError, match="is empty"):
            Interactions.read(write(""))
        with pytest.raises(InvalidDataError, match="is empty"):
            Interactions.read(write("\n \n"))
        with pytest.raises(InvalidDataError, match="has no interactions"):
            Interactions.read(write("user,item\n"))
        with pytest.raises(InvalidDataError, match="has no interactions"):
            Interactions.read(write("user,item,value\n1,2,0\n"))

    def test_missing_files_globs_and_folders_are_refused(self, tmp_path):
        with pytest.raises(InvalidDataError, match=r"there is no file .*nope.csv"):
            Interactions.read(tmp_path / "nope.csv")
        with pytest.raises(InvalidDataError, match=r"no file matches .*\*.csv"):
            Interactions.read(tmp_path / "*.csv")
        (tmp_path / "readme.md").write_text("hello")
        with pytest.raises(InvalidDataError, match=r"no Parquet or CSV.* readme.md"):
            Interactions.read(tmp_path)

    def test_formats_that_are_not_read_are_refused(self, write, tmp_path):
        with pytest.raises(InvalidDataError, match="is a zip archive"):
            Interactions.read(write(b"PK\x03\x04 and so on", "table.xlsx"))
        with pytest.raises(InvalidDataError, match="unknown format"):
            Interactions.read(write(b"\x00\x01\x02\x03 and so on", "table.bin"))
        with pytest.raises(InvalidParameterError, match=r"format='excel'.*csv"):
            Interactions.read(tmp_path, format="excel")
        with pytest.raises(InvalidDataError, match="cannot read from int"):
            Interactions.read(17)
        with pytest.raises(InvalidDataError, match="https:// addresses are not read"):
            Interactions.read("https://example.org/ratings.csv")

    def test_files_of_two_kinds_do_not_mix(self, write, tmp_path):
        write("user,item\n1,5\n", "m/a.csv")
        pl.DataFrame({"user": [1], "item": [5]}).write_parquet(tmp_path / "m" / "b.parquet")
        with pytest.raises(InvalidDataError, match=r"a.csv .*b.parquet"):
            Interactions.read(tmp_path / "m" / "*")

    def test_a_query_is_for_databases_only(self, write):
        with pytest.raises(InvalidDataError, match="query= is for databases"):
            Interactions.read(write("user,item\n1,5\n"), query="SELECT 1")

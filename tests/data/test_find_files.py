"""From what the caller names to files: what is not a file, and folders of two kinds."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError

ROWS = "user,item\n1,5\n2,6\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(ROWS)
    return tmp_path


class TestNoFile:
    NO_FILE = r"is a pipe or a device"

    def test_a_pipe_is_refused_and_not_waited_for(self, folder):
        os.mkfifo(folder / "fifo.csv")
        (folder / "link.csv").symlink_to("fifo.csv")
        for name in ("fifo.csv", "link.csv"):
            with pytest.raises(InvalidDataError, match=rf"{name} {self.NO_FILE}"):
                Interactions.read(folder / name)

    def test_a_pipe_of_the_shell_is_refused(self):
        receiver, sender = os.pipe()
        os.write(sender, ROWS.encode())
        os.close(sender)
        try:
            with pytest.raises(InvalidDataError, match=rf"/dev/fd/{receiver} {self.NO_FILE}"):
                Interactions.read(f"/dev/fd/{receiver}")
        finally:
            os.close(receiver)

    def test_a_device_is_refused(self):
        with pytest.raises(InvalidDataError, match=rf"/dev/zero {self.NO_FILE}"):
            Interactions.read("/dev/zero")
        with pytest.raises(InvalidDataError, match=rf"/dev/zero {self.NO_FILE}"):
            Interactions.from_pairs([1], [2]).with_names("/dev/zero")

    @pytest.mark.usefixtures("folder")
    def test_a_file_behind_a_link_or_a_descriptor_is_one(self):
        expected = Interactions.read("p.csv")
        Path("link.csv").symlink_to("p.csv")
        assert Interactions.read("link.csv") == expected
        with Path("p.csv").open() as file:
            assert Interactions.read(f"/dev/fd/{file.fileno()}") == expected

    @pytest.mark.usefixtures("folder")
    def test_an_empty_name_is_not_the_current_folder(self):
        with pytest.raises(InvalidDataError, match=r"path .*is empty"):
            Interactions.read("")
        with pytest.raises(InvalidDataError, match=r"path .*is empty"):
            Interactions.read("p.csv", names="")
        assert Interactions.read(".").nnz == 2

    @pytest.mark.parametrize(
        "name", ["a" * 5000, "a\0b", "a\0/*.csv", "a" * 5000 + "/b", "p.csv/x"]
    )
    @pytest.mark.usefixtures("folder")
    def test_names_that_no_system_allows_are_not_files(self, name):
        with pytest.raises(InvalidDataError, match=r"there is no file (a|p\.csv/x)"):
            Interactions.read(name)

    def test_the_home_of_nobody_is_refused(self):
        with pytest.raises(InvalidDataError, match=r"~nobody-here/p.csv cannot be found"):
            Interactions.read("~nobody-here/p.csv")


class TestFolders:
    def test_parquet_next_to_csv_is_refused(self, folder):
        pl.DataFrame({"user": [7], "item": [8]}).write_parquet("a.parquet")
        with pytest.raises(InvalidDataError, match=r"a.parquet.*p.csv.*format="):
            Interactions.read(folder)
        assert Interactions.read(folder, format="csv").user_ids.tolist() == [1, 2]
        assert Interactions.read(folder, format="parquet").user_ids.tolist() == [7]

    def test_endings_in_capitals_belong_to_it(self, folder):
        (folder / "P2.CSV.GZ").write_bytes(gzip.compress(b"user,item\n3,5\n"))
        (folder / "Q.Tsv").write_bytes(b"user\titem\n4\t5\n")
        assert sorted(Interactions.read(folder).user_ids.tolist()) == [1, 2, 3, 4]

    def test_a_folder_that_cannot_be_listed_is_refused(self, folder, monkeypatch):
        def denied(self):
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "iterdir", denied)
        with pytest.raises(InvalidDataError, match=r"cannot be read \(Permission denied\)"):
            Interactions.read(folder)

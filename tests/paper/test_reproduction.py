"""`run` and the command: files, missing data and extras, exit codes."""

from __future__ import annotations

import json
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise.cli.app import run as run_command
from equipoise.data.catalog import DatasetNotFoundError
from equipoise.exceptions import InvalidParameterError
from equipoise.paper import claims, reproduction
from equipoise.paper.report import Reproduction, render_html
from equipoise.paper.reproduction import plan, run
from equipoise.paper.verdicts import CLAIMS, Claim, Finding, Verdict
from tests.recorded_progress import Recorded

pytest.importorskip("matplotlib")

KEPT = Finding(Claim("kept", "it <holds>", "§1", 78, "by hand"), 77.7, Verdict.REPRODUCED)
LOST = Finding(Claim("gone", "it held", "§2", True, "by hand"), False, Verdict.NOT_REPRODUCED)


@pytest.fixture
def no_data():
    def load(name):
        raise DatasetNotFoundError(f"{name} is not on this machine. Run: equipoise datasets get")

    return load


@pytest.fixture
def invoke(capsys):
    def call(*arguments):
        code = run_command(["reproduce", *map(str, arguments)])
        said = capsys.readouterr()
        return SimpleNamespace(exit_code=code, stdout=said.out, output=said.out + said.err)

    return call


DOCS = Path(__file__).parents[2] / "docs" / "reproduction.md"


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(InvalidParameterError, match=r"'fig9'.*fig8"):
        run(["fig9"], tmp_path)


def test_all_is_everything_and_figure_5_is_part_of_the_theory():
    everything = plan(["all"])
    assert everything[0] == "theory"
    assert set(everything) == set(reproduction.TARGETS) - {"all", "fig5"}


def test_a_missing_data_set_is_one_line_and_the_rest_is_made(tmp_path, no_data):
    found = run(["fig2", "tables"], tmp_path, load=no_data)
    assert [line.partition(":")[0] for line in found.missing] == ["fig2", "tables"]
    assert all("Run: equipoise datasets get" in line for line in found.missing)
    assert [table.name for table in found.tables] == ["table1", "table2", "table3"]
    assert (tmp_path / "tables" / "table2.md").read_text().startswith("## Table 2")
    assert "Run: equipoise datasets get" in (tmp_path / "index.html").read_text()


def test_equal_inputs_give_equal_bytes(tmp_path, load_small):
    for name in ("one", "other"):
        run(["fig8", "tables"], tmp_path / name, quick=True, load=load_small)
    one, other = files(tmp_path / "one"), files(tmp_path / "other")
    assert one == other
    assert {"index.html", "claims.json", "figures/fig8.svg", "tables/table4.csv"} <= set(one)


def test_a_second_run_uses_the_cache_and_writes_the_same_files(tmp_path, load_small):
    seen = Recorded()
    run(["fig4"], tmp_path, quick=True, load=load_small)
    before = files(tmp_path)
    run(["fig4"], tmp_path, quick=True, load=load_small, progress=seen)
    assert files(tmp_path) == before
    assert any("cache" in note for note in seen.notes())
    assert not any("fitting" in note for note in seen.notes())


def test_figures_are_in_the_order_of_the_paper(tmp_path, load_small):
    found = run(["fig8", "fig5", "fig4"], tmp_path, quick=True, load=load_small)
    assert [saved.figure.name for saved in found.figures] == ["fig4", "fig5", "fig8"]


def test_progress_names_the_parts(tmp_path, load_small):
    seen = Recorded()
    run(["fig8", "tables"], tmp_path, quick=True, load=load_small, progress=seen)
    assert seen.first["notes"] == ["fig8", "tables"]
    assert seen.first["done"] == seen.first["total"] == 2
    assert {"MovieLens", "Evaluating"} <= {one["name"] for one in seen.tasks}
    assert seen.is_over


def test_the_json_holds_findings_settings_versions_and_data(tmp_path, load_small):
    run(["claims"], tmp_path, quick=True, load=load_small)
    found = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert found["summary"]["claims"] == len(found["findings"])
    ids = [one["claim"]["id"] for one in found["findings"]]
    assert ids == [name for name in CLAIMS if "Figure 7" not in CLAIMS[name].where]
    assert set(found["data"]) == {"lastfm-2k", "ml-1m"}
    assert found["settings"]["quick"] is True
    assert "numpy" in found["versions"]
    assert len(found["headlines"]) == 3


def test_the_page_asks_for_nothing_and_escapes_everything(tmp_path, load_small):
    found = run(["fig4", "tables"], tmp_path, quick=True, load=load_small)
    found.findings += [KEPT, LOST]
    page = render_html(found)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<script" not in page
    assert "it &lt;holds&gt;" in page


def test_the_page_shows_lost_claims():
    found = Reproduction(findings=[KEPT, LOST], headlines=["5 < 6"])
    assert "1 are reproduced" in found.headline()
    assert "1 LOST" in found.headline()
    page = render_html(found)
    assert "(LOST)" in page
    assert "5 &lt; 6" in page


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (Reproduction(findings=[KEPT]), 0),
        (Reproduction(findings=[KEPT, LOST]), 1),
        (Reproduction(findings=[KEPT], missing=["fig2: no data. Run: this"]), 2),
        (Reproduction(findings=[LOST], missing=["fig2: no data. Run: this"]), 1),
    ],
)
def test_the_exit_code_shows_lost_and_missing_parts(monkeypatch, invoke, tmp_path, found, code):
    monkeypatch.setattr(reproduction, "run", lambda *_a, **_k: found)
    result = invoke("claims", "--out", tmp_path)
    assert result.exit_code == code
    assert "it <holds>" in result.output or found.findings == [LOST]


@pytest.fixture
def without_extras(monkeypatch):
    for package in ("matplotlib", "cvxpy", "implicit"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("without_extras")
def test_without_extras_the_last_lines_and_the_exit_code_name_what_is_left_out(invoke, tmp_path):
    result = invoke("theory", "--quick", "--out", tmp_path)
    assert result.exit_code == 2
    theorem_2, figures = result.output.strip().splitlines()[-2:]
    assert "Theorem 2" in theorem_2
    assert "equipoise[sdp]" in theorem_2
    assert "fig5" in figures
    assert "equipoise[plot]" in figures
    assert (tmp_path / "figures" / "fig5.csv").is_file()


@pytest.mark.usefixtures("without_extras")
def test_without_extras_all_names_every_figure_and_the_skipped_claims(tmp_path, load_small):
    found = run(["all"], tmp_path, quick=True, load=load_small)
    text = " ".join(found.missing)
    assert all(f"fig{number}" in text for number in range(1, 9))
    assert all(f"equipoise[{extra}]" in text for extra in ("plot", "sdp", "als"))


@pytest.mark.usefixtures("without_extras")
def test_claims_alone_do_not_ask_for_figures(tmp_path, load_small):
    found = run(["claims"], tmp_path, quick=True, load=load_small)
    assert not any("plot" in line for line in found.missing)


def test_the_command_prints_json(monkeypatch, invoke, tmp_path):
    monkeypatch.setattr(reproduction, "run", lambda *_a, **_k: Reproduction(findings=[KEPT, LOST]))
    result = invoke("--json", "--out", tmp_path)
    printed = json.loads(result.stdout)
    assert printed["summary"]["lost"] == ["gone"]
    assert printed["report"].endswith("index.html")


@pytest.mark.slow
def test_the_theory_needs_neither_data_nor_network(monkeypatch, invoke, tmp_path):
    def refuse(*_a, **_k):
        raise AssertionError("the network was asked for")

    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    result = invoke("theory", "--quick", "--out", tmp_path / "out")
    assert result.exit_code == 0
    assert (tmp_path / "out/figures/fig5.svg").is_file()
    assert (tmp_path / "out/theory/theorem-1.csv").is_file()
    partial = invoke("fig2", "--quick", "--out", tmp_path / "out")
    assert partial.exit_code == 2
    assert "equipoise datasets get lastfm-2k" in " ".join(partial.output.split())


@pytest.mark.slow
@pytest.mark.data
def test_the_whole_paper_has_the_expected_verdicts(monkeypatch, invoke, tmp_path, data_dir):
    monkeypatch.setenv("EQUIPOISE_DATA", str(data_dir))
    assert invoke("all", "--quick", "--out", tmp_path).exit_code == 0
    found = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    unexpected = [
        one["claim"]["id"]
        for one in found["findings"]
        if one["verdict"] != one["claim"]["expected"]
    ]
    assert unexpected == []
    assert found["missing"] == []
    assert {f"fig{i}" for i in range(1, 9)} <= set(found["figures"])
    rows = (tmp_path / "claims.md").read_text(encoding="utf-8").splitlines()
    on_data = [line for line in rows if "LastFM" in line or "MovieLens" in line]
    assert len(on_data) > 40
    documented = DOCS.read_text(encoding="utf-8").splitlines()
    shown = [line.replace("\\", "").rpartition(" | ")[0] + " |" for line in on_data]
    assert [line for line in shown if line not in documented] == []
    before = files(tmp_path)

    honest = claims.judge_all

    def changed(m):
        values = {p: v * (1.1 if p.model == "PCA" else 1) for p, v in m.lastfm.values.items()}
        m.lastfm = replace(m.lastfm, values=values)
        return honest(m)

    monkeypatch.setattr(claims, "judge_all", changed)
    result = invoke("claims", "--quick", "--json", "--out", tmp_path)
    assert result.exit_code == 1
    assert "spec-lastfm" in json.loads(result.stdout)["summary"]["lost"]
    monkeypatch.setattr(claims, "judge_all", honest)
    assert invoke("all", "--quick", "--out", tmp_path).exit_code == 0
    assert files(tmp_path) == before

"""`run` and the command: what is written, what is said when data are missing, which exit code."""

from __future__ import annotations

import json
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from equipoise.cli import reproduce as command
from equipoise.data.catalog import DatasetNotFoundError
from equipoise.exceptions import InvalidParameterError
from equipoise.paper import baselines, claims, reproduction
from equipoise.paper.page import headline, render
from equipoise.paper.report import Reproduction
from equipoise.paper.reproduction import run
from equipoise.paper.verdicts import Claim, Finding, Verdict
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
def without_theory(monkeypatch):
    monkeypatch.setattr(reproduction, "run_theory", lambda *_a, **_k: ())
    monkeypatch.setattr(baselines, "available", lambda: False)


@pytest.fixture
def invoke():
    app = typer.Typer()
    app.command()(command.reproduce)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


DOCS = Path(__file__).parents[2] / "docs" / "reproduction.md"


def files(folder):
    found = (path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(
        InvalidParameterError, match=r"nothing to reproduce is called 'fig9'\. Use: "
    ):
        run(["fig9"], tmp_path)


def test_all_is_everything_and_figure_5_comes_with_the_theory():
    everything = reproduction._parts(["all"])
    assert everything[0] == "theory"
    assert everything[-1] == "claims"
    assert set(everything) == set(reproduction.TARGETS) - {"all", "fig5"}
    assert reproduction._parts(["fig5"]) == ["fig5"]
    assert reproduction._parts(["claims"]) == ["theory", "claims"]


def test_a_missing_data_set_is_one_line_and_the_rest_is_done(tmp_path, no_data):
    found = run(["fig2", "tables"], tmp_path, load=no_data)
    assert [line.partition(":")[0] for line in found.missing] == ["fig2", "tables"]
    assert all("Run: equipoise datasets get" in line for line in found.missing)
    assert [table.name for table in found.tables] == ["table1", "table2", "table3"]
    assert (tmp_path / "tables" / "table2.md").read_text().startswith("### Table 2")
    assert "Run: equipoise datasets get" in (tmp_path / "index.html").read_text()


@pytest.mark.usefixtures("without_theory")
def test_equal_inputs_give_equal_bytes(tmp_path, load_small):
    for name in ("one", "other"):
        run(["fig8", "tables", "claims"], tmp_path / name, quick=True, load=load_small)
    one, other = files(tmp_path / "one"), files(tmp_path / "other")
    assert one == other
    assert {"index.html", "claims.json", "figures/fig8.svg", "tables/table4.csv"} <= set(one)


@pytest.mark.usefixtures("without_theory")
def test_a_second_run_goes_on_from_the_first(tmp_path, load_small, monkeypatch):
    first = run(["fig4"], tmp_path, quick=True, load=load_small)
    before = files(tmp_path)
    monkeypatch.setattr("equipoise.evaluation.runner.fitted", None)  # no fit is needed
    second = run(["fig4"], tmp_path, quick=True, load=load_small)
    assert [hung.drawn for hung in first.figures] == [True]
    assert [hung.drawn for hung in second.figures] == [False]
    assert files(tmp_path) == before


@pytest.mark.usefixtures("without_theory")
def test_figures_come_in_the_order_of_the_paper(tmp_path, load_small):
    found = run(["fig8", "fig5", "fig4"], tmp_path, quick=True, load=load_small)
    assert [hung.figure.name for hung in found.figures] == ["fig4", "fig5", "fig8"]


@pytest.mark.usefixtures("without_theory")
def test_progress_names_what_is_done(tmp_path, load_small):
    seen = Recorded()
    run(["fig8", "tables"], tmp_path, quick=True, load=load_small, progress=seen)
    assert seen.first["notes"] == ["fig8", "tables"]
    assert seen.first["done"] == seen.first["total"] == 2
    assert {"MovieLens", "Evaluating"} <= {one["name"] for one in seen.tasks}
    assert seen.is_over


@pytest.mark.usefixtures("without_theory")
def test_without_implicit_figure_7_says_so(tmp_path, load_small):
    found = run(["fig7"], tmp_path, quick=True, load=load_small)
    assert found.missing == [baselines.MISSING]


def test_weighted_mf_is_measured_once_and_judged(tmp_path, small_data, laboratory):
    pytest.importorskip("implicit")
    curves = baselines.measure_weighted_mf(small_data, tmp_path, quick=True)
    assert sorted(curves["recall@20"]) == [16, 32, 64]
    seen = Recorded()
    again = baselines.measure_weighted_mf(small_data, tmp_path, quick=True, progress=seen)
    assert (again, seen.tasks) == (curves, [])
    planted = {metric: {4: 0.9, 8: 0.1} for metric in curves}
    [on_par, falls] = baselines.judge_weighted_mf(
        [laboratory.evaluation("lastfm")], {"lastfm": planted}
    )
    assert on_par.verdict is Verdict.NOT_REPRODUCED
    assert falls.verdict is Verdict.REPRODUCED


@pytest.mark.usefixtures("without_theory")
def test_the_json_holds_findings_settings_versions_and_data(tmp_path, load_small):
    run(["claims"], tmp_path, quick=True, load=load_small)
    found = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert found["summary"]["claims"] == len(found["findings"]) == len(claims.checks())
    assert set(found["data"]) == {"lastfm-2k", "ml-1m"}
    assert found["settings"]["quick"] is True
    assert "numpy" in found["versions"]
    assert len(found["headlines"]) == 3


@pytest.mark.usefixtures("without_theory")
def test_the_page_asks_for_nothing_and_escapes_everything(tmp_path, load_small):
    found = run(["fig4", "tables"], tmp_path, quick=True, load=load_small)
    found.findings += [KEPT, LOST]
    page = render(found)
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<script" not in page
    assert "it &lt;holds&gt;" in page


def test_the_page_says_what_was_lost():
    found = Reproduction(findings=[KEPT, LOST], headlines=["5 < 6"])
    assert headline(found) == (
        "Of 2 claims 1 are reproduced, 0 by the published code's definition only, 1 are not; 1 LOST"
    )
    page = render(found)
    assert "LOST: it used to be" in page
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
def test_the_exit_code_tells_whether_something_was_lost(monkeypatch, invoke, tmp_path, found, code):
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
    assert {"fig5.svg", "theorem-1.svg"} <= {p.name for p in (tmp_path / "out/figures").iterdir()}
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
    told = (tmp_path / "claims.md").read_text(encoding="utf-8").splitlines()
    on_data = [line for line in told if "LastFM" in line or "MovieLens" in line]
    assert len(on_data) > 40
    documented = DOCS.read_text(encoding="utf-8").splitlines()
    assert [line for line in on_data if line not in documented] == []
    before = files(tmp_path)

    honest = claims.judge

    def spoilt(measurements):
        values = {
            p: v * (1.1 if p.model == "PCA" else 1) for p, v in measurements.lastfm.values.items()
        }
        return honest(replace(measurements, lastfm=replace(measurements.lastfm, values=values)))

    monkeypatch.setattr(claims, "judge", spoilt)
    result = invoke("claims", "--quick", "--json", "--out", tmp_path)
    assert result.exit_code == 1
    assert "spec-lastfm" in json.loads(result.stdout)["summary"]["lost"]
    monkeypatch.setattr(claims, "judge", honest)
    assert invoke("all", "--quick", "--out", tmp_path).exit_code == 0
    assert files(tmp_path) == before

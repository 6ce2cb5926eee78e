"""Two audits compared, thresholds, the manifest and its verification."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import equipoise as eq
from equipoise.audit import to_json
from equipoise.audit.dossier import compare, halves, manifest, two_models
from equipoise.audit.dossier.thresholds import Threshold, read_thresholds
from equipoise.cli.app import run
from equipoise.data import Interactions
from equipoise.data.split import cut_by_time
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.intervals import Interval

QUICK = ["--rank", "4", "--depth", "quick", "--budget", "0"]


def quick(data, **options):
    return eq.audit(data, rank=4, depth="quick", budget=0, **options)


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=150, n_items=60, seed=3)


@pytest.fixture(scope="module")
def report(plays):
    return json.loads(to_json(quick(plays)))


@pytest.fixture(scope="module")
def table(plays, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "plays.csv"
    plays.to_polars().write_csv(path)
    return path


@pytest.fixture(scope="module")
def saved(table):
    """A JSON report of the command, signed."""
    out = table.with_name("report.json")
    options = ["--fail-if", "recall < 0.99", "--auditor", "A. Person", "--out", str(out)]
    assert run(["--quiet", "audit", str(table), *QUICK, *options]) == 1
    return out


@pytest.mark.medium
def test_an_audit_without_the_number_of_a_limit_keeps_its_report(table, tmp_path, capsys):
    out = tmp_path / "report.json"
    limit = ["--fail-if", "foo < 1", "--out", str(out)]
    assert run(["--quiet", "audit", str(table), *QUICK, *limit]) == 2
    assert "no number 'foo'" in capsys.readouterr().err
    assert json.loads(out.read_text())["settings"]["depth"] == "quick"


def test_a_report_with_another_ending_is_refused_before_the_work(table, tmp_path, capsys):
    assert run(["audit", str(table), "--out", str(tmp_path / "report.pdf")]) == 2
    assert "the ending sets the format" in capsys.readouterr().err


@pytest.mark.medium
def test_a_report_does_not_differ_from_itself(report):
    found = compare.compare(report, report)
    assert not found.is_news
    assert len(found.numbers) > 20
    assert found.n_items == 60
    assert found.overlap.mean == 1
    assert "No change beyond noise" in found.to_markdown()


@pytest.mark.medium
def test_findings_paths_and_contents_are_compared(plays, report, tmp_path):
    found = quick(plays)
    path = found.save(tmp_path / "report.json")
    assert eq.audit.compare(found, path).to_json() == compare.compare(report, report).to_json()


@pytest.mark.medium
def test_a_change_of_many_errors_is_stated_and_one_of_few_is_not(report):
    number = compare.numbers(report)["recall"]
    for errors, stated in ((8, True), (1, False)):
        other = copy.deepcopy(report)
        model = other["models"][0]
        at = model["sizes"].index(model["size"])
        model["means"]["recall"]["all"][at] += errors * np.sqrt(2) * number.error
        (change,) = [c for c in compare.compare(report, other).numbers if c.name == "recall"]
        assert change.stated is stated
        assert change.difference.mean == pytest.approx(errors * np.sqrt(2) * number.error)


@pytest.mark.medium
def test_an_item_that_is_lost_is_named(report):
    before, after = copy.deepcopy(report), copy.deepcopy(report)
    key = report["subject"]
    before["items"][5]["models"][key]["item_error"] = 0.1
    after["items"][5]["models"][key]["item_error"] = 0.95
    found = compare.compare(before, after)
    assert [change.item for change in found.items["newly lost"]] == [report["items"][5]["id"]]
    back = compare.compare(after, before)
    assert [change.item for change in back.items["no longer lost"]] == [report["items"][5]["id"]]
    page = found.to_html()
    assert str(report["items"][5]["id"]) in page
    assert json.loads(found.to_json())["is_news"]


def test_other_lengths_of_lists_are_not_compared(report):
    other = copy.deepcopy(report)
    other["settings"]["k"] = 5
    with pytest.raises(InvalidDataError, match="cannot be compared"):
        compare.compare(report, other)


def resample(plays, seed):
    """As many users, drawn with replacement."""
    rows = np.random.default_rng(seed).integers(0, plays.n_users, plays.n_users)
    ids = [f"user-{place}" for place in range(plays.n_users)]
    return Interactions.from_sparse(plays.matrix[rows], user_ids=ids, item_ids=plays.item_ids)


def with_noise(data, n):
    found = json.loads(to_json(quick(data)))
    return {**found, "manifest": {"noise": halves.noise(data, quick, n)}}


@pytest.mark.slow
def test_resamples_of_the_same_data_show_no_change_and_a_planted_hit_does():
    plays = listening(n_users=300, n_items=60, seed=3)
    reports = [with_noise(resample(plays, seed), 4) for seed in range(21)]
    pairs = itertools.pairwise(reports)
    news = [compare.compare(before, after).is_news for before, after in pairs]
    assert sum(news) <= 1
    planted = plays.matrix.toarray()
    planted[np.random.default_rng(5).random(plays.n_users) < 0.6, 30] = 3 * planted.max()
    hit = Interactions.from_sparse(csr_array(planted), item_ids=plays.item_ids)
    found = compare.compare(reports[0], with_noise(hit, 4))
    assert plays.item_ids[30] in {change.item for change in found.items["newly memorized"]}


@pytest.mark.medium
def test_halves_give_an_error_for_every_number(plays):
    noise = halves.noise(plays, quick, 1)
    assert noise["halvings"] == 1
    assert len(set(noise["numbers"]) & set(compare.numbers(json.loads(to_json(quick(plays)))))) > 20
    assert all(value >= 0 for value in noise["numbers"].values())
    assert len(noise["items"]) == 60


@pytest.mark.medium
def test_two_models_on_one_table(plays):
    old = eq.VanillaPCA(n_components=3).fit(plays)
    same = two_models.compare_models(plays, {"old": old, "new": old})
    assert not same.is_news
    assert same.overlap.mean == 1
    new = eq.VanillaPCA(n_components=5).fit(plays)
    found = two_models.compare_models(plays, {"old": old, "new": new})
    assert found.components["components kept, lost, gained"] == "3, 0, 2"
    cosines = [float(each) for each in found.components["cosines of the principal angles"]]
    assert cosines == pytest.approx([1, 1, 1], abs=1e-3)
    lists = [model.recommend(plays, k=20).ids.tolist() for model in (old, new)]
    shares = [len(set(one) & set(other)) / 20 for one, other in zip(*lists, strict=True)]
    assert found.overlap.mean == pytest.approx(np.mean(shares))
    assert found.overlap.low < found.overlap.mean < found.overlap.high


@pytest.mark.parametrize(
    ("text", "failed"),
    [("x < 0.5", True), ("x < 0.5 on high", False), ("x >= 0.3 on low", True), ("x > 0.4", False)],
)
def test_thresholds_compare_the_chosen_bound(text, failed):
    numbers = {"x": Interval(0.4, 0.3, 0.6)}
    assert Threshold.parse(text).check(numbers)["failed"] is failed


def test_thresholds_that_cannot_be_checked_are_refused(tmp_path):
    for text in ("x", "x < y", "x < 0.1 on top"):
        with pytest.raises(InvalidParameterError):
            Threshold.parse(text)
    with pytest.raises(InvalidParameterError, match=r"no number 'recal'.*recall"):
        Threshold.parse("recal < 1").check({"recall": Interval(0.1, 0.0, 0.2)})
    path = tmp_path / "limits.toml"
    path.write_text('bound = "low"\nfail_if = ["a < 1", {condition = "b > 2", bound = "high"}]\n')
    assert [(each.name, each.bound) for each in read_thresholds(path)] == [
        ("a", "low"),
        ("b", "high"),
    ]
    path.write_text("limits = 3\n")
    with pytest.raises(InvalidParameterError, match="fail_if"):
        read_thresholds(path)


@pytest.mark.medium
def test_the_report_of_the_command_has_a_manifest(saved, table, plays):
    content = json.loads(saved.read_text())["manifest"]
    assert content["data"]["data"]["fingerprint"] == Interactions.read(table).fingerprint()
    assert content["data"]["data"]["interactions"] == plays.nnz
    assert content["command"] == "equipoise audit DATA " + " ".join(QUICK)
    assert content["seed"] == 0
    assert "numpy" in content["versions"]
    assert any("legal" in each for each in content["limits"])
    (threshold,) = content["thresholds"]
    assert threshold["condition"] == "recall < 0.99"
    assert threshold["failed"]


@pytest.mark.medium
def test_the_sign_off_is_next_to_the_report_and_holds_its_hash(saved):
    signed = json.loads(manifest.signature_of(saved).read_text())
    assert signed["auditor"] == "A. Person"
    assert signed["sha256"] == hashlib.sha256(saved.read_bytes()).hexdigest()


@pytest.mark.medium
def test_verify_accepts_an_untouched_report(saved, table, capsys):
    assert run(["--quiet", "verify", str(saved), str(table)]) == 0
    said = capsys.readouterr()
    assert "A. Person" in said.out
    assert "are the same" in said.out
    assert said.err == ""


@pytest.mark.medium
def test_verify_reports_other_data_before_the_numbers(saved, table, tmp_path, capsys):
    *rows, _ = table.read_text().splitlines()
    other = tmp_path / table.name
    other.write_text("\n".join(rows) + "\n")
    assert run(["--quiet", "verify", str(saved), str(other)]) == 1
    assert "not the data of the report" in capsys.readouterr().out


@pytest.mark.medium
def test_verify_names_the_first_number_of_an_edited_report(saved, table, tmp_path, capsys):
    content = json.loads(saved.read_text())
    content["contest"][0]["test"]["mean"] += 0.001
    content["models"][0]["means"]["recall"]["all"][0] = 0.9
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(content))
    assert run(["--quiet", "verify", str(edited), str(table), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["different"] == 2
    assert facts["first"]["path"] == "contest/0/test/mean"
    # a change after the sign-off is found without computing anything
    manifest.signature_of(edited).write_text(manifest.signature_of(saved).read_text())
    assert run(["--quiet", "verify", str(edited), str(table)]) == 2
    assert "changed after" in capsys.readouterr().err


def test_a_tolerance_accepts_last_digits():
    assert list(manifest.differences({"a": 1.0}, {"a": 1.0 + 1e-6}, tolerance=1e-5)) == []
    (found,) = manifest.differences({"a": [1, {"b": None}]}, {"a": [1, {"b": 2}]})
    assert found.path == "a/1/b"
    assert list(manifest.differences({"command": "x", "source": 1}, {"command": "y"})) == []


def test_compare_writes_every_format(saved, tmp_path, capsys):
    for name in ("c.html", "c.md", "c.json"):
        assert run(["compare", str(saved), str(saved), "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 500
    said = capsys.readouterr()
    assert "--repeat" in said.err
    assert "No change beyond noise" in said.out
    assert "##" not in said.out, "tables for the terminal, not Markdown"
    assert run(["compare", str(saved), str(saved), "--out", str(tmp_path / "c.pdf")]) == 2
    (tmp_path / "other.json").write_text("{}")
    assert run(["compare", str(saved), str(tmp_path / "other.json")]) == 2
    assert "not the JSON report" in capsys.readouterr().err


def test_a_cut_by_time_holds_out_what_came_after():
    days = np.array("2024-01-01", "datetime64[D]") + np.arange(40)
    users, items = np.repeat(np.arange(4), 10), np.tile(np.arange(10), 4)
    for times in (days.astype("datetime64[s]"), days.astype("datetime64[s]").astype(int)):
        plays = Interactions.from_pairs(users, items, timestamps=times)
        split = cut_by_time(plays, "2024-02-01")
        assert split.test.nnz == 9
        assert cut_by_time(plays, 0.25).test.nnz == 10
        assert split.train.timestamps.max() < split.test.timestamps.min()
        with pytest.raises(InvalidDataError, match="before and some after"):
            cut_by_time(plays, "2030-01-01")
        with pytest.raises(InvalidParameterError, match="date"):
            cut_by_time(plays, "soon")


def test_a_metric_at_two_cut_offs_is_not_compared(report):
    before, after = copy.deepcopy(report), copy.deepcopy(report)
    before["settings"]["metrics"], after["settings"]["metrics"] = {"epc": "epc@3"}, {"epc": "epc@9"}
    with pytest.raises(InvalidDataError, match=r"epc@3 before and epc@9 after"):
        compare.compare(before, after)

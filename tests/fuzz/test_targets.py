"""Every fuzz target, with a few hundred inputs each and a fixed seed, and its corpus."""

from __future__ import annotations

import pytest

pytest.importorskip("pandas")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.target import Finding, Mismatch, Target, campaign, judge
from fuzz.targets import CORPUS, NAMES, corpus, target

# `make fuzz` tries thousands. polars may abort on damaged Parquet files, which ends the
# process: that target is tried here only with intact files of odd types.
INPUTS = {
    "text": 250, "lightgcn": 200, "interactions": 500, "model": 200, "factors": 250,
    "commands": 100, "containers": 250,
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("name", INPUTS)
def test_no_input_causes_a_traceback_a_hang_or_a_wrong_matrix(name, tmp_path):
    tally = campaign(target(name), INPUTS[name], seed=1, folder=tmp_path)
    assert list(tally.findings) == []
    assert tally.inputs == INPUTS[name]
    assert tally.accepted > 0, "no input was accepted: the oracle was not used"
    assert tally.refused > 0 or name == "commands"


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus_has_no_findings(name, tmp_path):
    kept = corpus(name)
    assert kept, f"{CORPUS / name} is empty"
    for content in kept:
        assert judge(target(name), content, tmp_path) in ("accepted", "refused")


def test_the_corpora_stay_small():
    for name in NAMES:
        assert sum(len(content) for content in corpus(name)) < 64_000


@pytest.mark.parametrize("name", INPUTS)
@settings(max_examples=30, derandomize=True, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(data=st.data())
def test_inputs_drawn_by_hypothesis_are_read_correctly_or_refused(name, tmp_path, data):
    """Any bytes, and known inputs with a part replaced."""
    start = data.draw(st.just(b"") | st.sampled_from(list(target(name).seeds())))
    place = data.draw(st.integers(0, len(start)))
    replaced = data.draw(st.integers(0, 8))
    content = start[:place] + data.draw(st.binary(max_size=40)) + start[place + replaced :]
    assert judge(target(name), content, tmp_path) in ("accepted", "refused")


@given(st.binary(min_size=24, max_size=24))
def test_parquet_tables_of_odd_types_are_read_correctly_or_refused(tmp_path_factory, chosen):
    parquet = pytest.importorskip("fuzz.targets.parquet")
    content = parquet.packed(parquet.table(chosen))
    verdict = judge(parquet.TARGET, content, tmp_path_factory.mktemp("parquet"))
    assert verdict in ("accepted", "refused")


def fake(call) -> Target:
    return Target("fake", call, lambda: [b"seed"], text=True)


def test_an_error_that_is_not_of_the_package_is_a_finding(tmp_path):
    def call(*_):
        raise ZeroDivisionError("oh")

    found = judge(fake(call), b"x", tmp_path)
    assert isinstance(found, Finding)
    assert (found.kind, found.content) == ("traceback", b"x")
    assert "ZeroDivisionError" in found.summary


def test_a_wrong_result_is_a_finding(tmp_path):
    def call(*_):
        raise Mismatch("2 is not 3")

    assert judge(fake(call), b"x", tmp_path).kind == "wrong"


def test_a_hang_is_a_finding(tmp_path, monkeypatch):
    monkeypatch.setattr("fuzz.target.HANG_SECONDS", 0.05)

    def call(*_):
        while True:
            pass

    assert judge(fake(call), b"x", tmp_path).kind == "hang"


def test_memory_beyond_the_bound_is_a_finding(tmp_path, monkeypatch):
    heights = iter([100.0, 900.0, 900.0])
    monkeypatch.setattr("fuzz.target.peak_mb", lambda: next(heights))
    assert judge(fake(lambda *_: None), b"x", tmp_path).kind == "memory"


def test_equal_seeds_try_equal_inputs(tmp_path):
    runs = []
    for _ in range(2):
        tried: list[bytes] = []
        campaign(fake(lambda content, _, tried=tried: tried.append(content)), 50, 7, tmp_path)
        runs.append(tried)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 25

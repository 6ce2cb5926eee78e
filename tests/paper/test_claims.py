"""Claims: the rules of verdicts on hand-made numbers, and the verdicts on the paper's data."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest

from equipoise.paper.claims import headlines, judge_all, judge_weighted_mf
from equipoise.paper.measurements import ExperimentRunner, Point
from equipoise.paper.protocol import ITEM_WEIGHTED, NORMALIZED, PCA
from equipoise.paper.verdicts import CLAIMS, Claim, Finding, Outcome, Verdict, judge

PUBLISHED = {
    "halve-top": 78,
    "halve-bottom": 455,
    "spec-lastfm": -24.3,
    "spec-movielens": -52.1,
    "auc-lastfm": 6.2,
    "auc-low-lastfm": 6.1,
    "prec-movielens": 11.7,
    "prec-low-movielens": 23.1,
    "recall-movielens": 16.0,
    "recall-lastfm": 51.7,
    "gamma-movielens": -1.0,
    "peaks": True,
}
# what an exact dense solver gives, measured apart from this package
EXACT = {
    "halve-top": 77.743,
    "halve-bottom": 455.458,
    "spec-lastfm": -24.3,
    "spec-movielens": -52.1,
    "auc-lastfm": 6.2,
    "auc-low-lastfm": 6.1,
    "prec-movielens": 11.7,
    "prec-low-movielens": 23.1,
    "recall-movielens": 16.1,
    "recall-lastfm": 28.8,
    "gamma-movielens": -1.0,
}
USER_METRICS = {  # recall, precision, ndcg, mrr at r = 32
    ("lastfm", PCA): (0.2074, 0.0715, 0.1744, 0.4155),
    ("lastfm", NORMALIZED): (0.2674, 0.0847, 0.2046, 0.4427),
    ("lastfm", ITEM_WEIGHTED): (0.2670, 0.0867, 0.2183, 0.5041),
    ("movielens", PCA): (0.3471, 0.1587, 0.3052, 0.8087),
    ("movielens", NORMALIZED): (0.3053, 0.1337, 0.2536, 0.6492),
    ("movielens", ITEM_WEIGHTED): (0.4031, 0.1812, 0.3599, 0.9552),
}
CLAIM = Claim("speed", "how fast", "§1", 10.0, "with a watch", bound=0.5)
ON_DATA = [c for c in CLAIMS.values() if c.dataset != "theory" and "Figure 7" not in c.where]


def changed(runner, **measured):
    """The same measurements, but for some of them."""
    other = copy(runner)
    for name, value in measured.items():
        setattr(other, name, value)
    return other


def by_id(findings):
    return {finding.claim.id: finding for finding in findings}


def test_every_published_number_is_among_the_claims():
    assert {name: CLAIMS[name].published for name in PUBLISHED} == PUBLISHED


def test_every_claim_has_a_place_and_a_method():
    assert len(CLAIMS) == 79
    for claim in CLAIMS.values():
        assert claim.where
        assert claim.how
        assert "<" not in claim.how.replace(" < ", "")  # the bound is filled in
        assert claim.dataset in ("lastfm", "movielens", "both", "theory")


def test_a_claim_that_holds_by_the_text_is_reproduced():
    found = judge(CLAIM, 9.9, 3.0)
    assert (found.verdict, found.measured) == (Verdict.REPRODUCED, 9.9)


def test_a_claim_that_holds_by_the_code_only_shows_both_numbers():
    found = judge(CLAIM, Outcome(3.5, False), Outcome(10.0, True), "see the code")
    assert (found.verdict, found.measured) == (Verdict.BY_CODE_ONLY, 10.0)
    assert found.note == "by the text: 3.5; by the code: 10; see the code"


def test_a_claim_that_holds_by_neither_shows_the_number_of_the_text():
    found = judge(CLAIM, 3.0, 4.0)
    assert (found.verdict, found.measured) == (Verdict.NOT_REPRODUCED, 3.0)


@pytest.mark.parametrize(("measured", "holds"), [(10.5, True), (9.5, True), (10.51, False)])
def test_a_number_must_be_within_its_bound(measured, holds):
    assert (judge(CLAIM, measured).verdict is Verdict.REPRODUCED) is holds


@pytest.mark.parametrize("expected", list(Verdict))
@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_a_reproduced_claim_can_be_lost(expected, verdict):
    finding = Finding(replace(CLAIM, expected=expected), 1.0, verdict)
    assert finding.lost is (expected is not Verdict.NOT_REPRODUCED and verdict is not expected)


def test_every_claim_on_data_is_judged_once(runner):
    found = [finding.claim.id for finding in judge_all(runner)]
    assert sorted(found) == sorted(claim.id for claim in ON_DATA)


def test_orders_follow_the_measurements(runner):
    values = dict(runner.lastfm.values)
    for rank in runner.lastfm.user_ranks:
        for model, value in ((PCA, 0.1), (NORMALIZED, 0.2), (ITEM_WEIGHTED, 0.3)):
            values[Point("recall@20", model, rank)] = value
    planted = changed(runner, lastfm=replace(runner.lastfm, values=values))
    found = by_id(judge_all(planted))
    assert found["peak-recall-lastfm"].measured == "0.3000 against 0.2000 of Normalized PCA"
    assert found["peak-recall-lastfm"].verdict is Verdict.REPRODUCED
    assert found["recall-lastfm"].measured == pytest.approx(200.0)
    assert found["decline-users-lastfm"].verdict is Verdict.NOT_REPRODUCED  # the curves are flat


def test_the_sweep_must_rise_to_its_best_gamma_and_then_fall(runner):
    hill = {gamma: 1 - (gamma + 1) ** 2 for gamma in runner.sweep["recall@20"]}
    bumpy = hill | {-0.3: 0.0}
    for sweep, verdict in ((hill, Verdict.REPRODUCED), (bumpy, Verdict.NOT_REPRODUCED)):
        planted = changed(runner, sweep={"recall@20": sweep, "recall@10": sweep})
        found = by_id(judge_all(planted))
        assert found["gamma-shape"].verdict is verdict
        assert found["gamma-movielens"].measured == -1.0


def test_weighted_mf_is_compared_by_its_peaks(runner):
    planted = {"recall@20": {4: 0.9, 8: 0.1}}
    on_par, falls = judge_weighted_mf(runner.lastfm, planted)
    assert on_par.verdict is Verdict.NOT_REPRODUCED
    assert falls.verdict is Verdict.REPRODUCED


@pytest.fixture(scope="module")
def measurements(data_dir, tmp_path_factory):
    assert data_dir.is_dir()
    return ExperimentRunner(tmp_path_factory.mktemp("cache"), quick=True)


@pytest.mark.slow
@pytest.mark.data
class TestOnThePapersData:
    def test_every_claim_has_the_verdict_that_it_had_at_release(self, measurements):
        found = {f.claim.id: f.verdict for f in judge_all(measurements)}
        assert found == {claim.id: claim.expected for claim in ON_DATA}

    def test_measured_numbers_are_those_of_an_exact_solver(self, measurements):
        found = {finding.claim.id: finding.measured for finding in judge_all(measurements)}
        for name, exact in EXACT.items():
            digits = len(str(exact).partition(".")[2])
            assert round(found[name], digits) == pytest.approx(exact, abs=1e-9), name

    @pytest.mark.parametrize(("dataset", "model"), USER_METRICS)
    def test_user_metrics_at_rank_32(self, measurements, dataset, model):
        evaluation = getattr(measurements, dataset)
        names = ("recall@20", "precision@20", "ndcg@20", "mrr@20:lightgcn")
        found = tuple(round(evaluation.value(name, model, 32), 4) for name in names)
        assert found == USER_METRICS[dataset, model]

    def test_the_bottom_tenth_needs_758_components(self, measurements):
        assert measurements.pca.mean_components("bottom") == pytest.approx(758.348, abs=1e-3)

    def test_groups_are_cut_as_published(self, measurements):
        sizes = [list(e.group_sizes["interactions"].values()) for e in measurements.evaluations]
        assert sizes == [[7, 893, 629], [14, 580, 606]]

    def test_the_headlines_contain_the_three_differences(self, measurements):
        bottom, groups, recall = headlines(measurements)
        assert "need 758" in bottom
        assert "629 artists of LastFM and 606 films" in groups
        assert "rises by 28.8 %, not 51.7 %" in recall

    def test_a_changed_measurement_loses_the_claim(self, measurements):
        components = np.maximum(measurements.pca.components_to_half_error, 100.0)
        pca = replace(measurements.pca, components_to_half_error=components)
        lost = [f.claim.id for f in judge_all(changed(measurements, pca=pca)) if f.lost]
        assert "halve-top" in lost
        assert not any(finding.lost for finding in judge_all(measurements))

"""Claims: the logic of verdicts on numbers made by hand, the verdicts themselves on the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from equipoise.paper.claims import checks, headlines, judge
from equipoise.paper.judging import Check, Outcome, number_check
from equipoise.paper.measurements import Laboratory, Point
from equipoise.paper.protocol import ITEM_WEIGHTED, NORMALIZED, PCA
from equipoise.paper.verdicts import Claim, Finding, Verdict

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
CLAIM = Claim("speed", "how fast", "§1", 10.0, "with a watch")


def outcome(value, holds):
    return lambda _measurements: Outcome(value, holds)


def test_every_published_number_is_among_the_claims():
    claims = {check.claim.id: check.claim.published for check in checks()}
    assert {name: claims[name] for name in PUBLISHED} == PUBLISHED


def test_claims_have_names_of_their_own():
    names = [check.claim.id for check in checks()]
    assert len(names) == len(set(names)) > 50


def test_a_claim_says_where_it_stands_and_how_it_is_measured():
    for check in checks():
        assert check.claim.where
        assert check.claim.how
        assert check.claim.dataset in ("lastfm", "movielens", "both")


def test_a_claim_that_holds_as_the_text_says_is_reproduced():
    found = Check(CLAIM, outcome(9.9, True), outcome(3.0, False)).judge(None)
    assert (found.verdict, found.measured) == (Verdict.REPRODUCED, 9.9)


def test_a_claim_that_holds_by_the_code_alone_says_so_and_shows_both():
    found = Check(CLAIM, outcome(3.5, False), outcome(10.0, True)).judge(None)
    assert (found.verdict, found.measured) == (Verdict.BY_CODE_ONLY, 10.0)
    assert found.note == "by the text: 3.5; by the code: 10"


def test_a_claim_that_holds_by_neither_shows_what_the_text_gives():
    found = Check(CLAIM, outcome(3.0, False), outcome(4.0, False)).judge(None)
    assert (found.verdict, found.measured) == (Verdict.NOT_REPRODUCED, 3.0)


@pytest.mark.parametrize(("measured", "holds"), [(10.5, True), (9.5, True), (10.51, False)])
def test_a_number_must_come_within_its_tolerance(measured, holds):
    check = number_check(CLAIM, 0.5, lambda _: measured)
    assert (check.judge(None).verdict is Verdict.REPRODUCED) is holds
    assert check.claim.how == "with a watch; must agree within ±0.5"


@pytest.mark.parametrize("expected", list(Verdict))
@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_what_was_reproduced_can_be_lost(expected, verdict):
    finding = Finding(replace(CLAIM, expected=expected), 1.0, verdict)
    assert finding.lost is (expected is not Verdict.NOT_REPRODUCED and verdict is not expected)


def test_every_claim_can_be_judged_on_any_data(laboratory):
    findings = judge(laboratory.measurements())
    assert len(findings) == len(checks())
    assert findings[0].measured >= 1  # it takes a component at least to halve an error


def test_orders_are_read_off_the_measurements(laboratory):
    measurements = laboratory.measurements()
    values = dict(measurements.lastfm.values)
    for rank in measurements.lastfm.user_ranks:
        for model, value in ((PCA, 0.1), (NORMALIZED, 0.2), (ITEM_WEIGHTED, 0.3)):
            values[Point("recall@20", model, rank)] = value
    planted = replace(measurements, lastfm=replace(measurements.lastfm, values=values))
    found = {finding.claim.id: finding for finding in judge(planted)}
    assert found["peak-recall-lastfm"].measured == "0.3000 against 0.2000 of Normalized PCA"
    assert found["peak-recall-lastfm"].verdict is Verdict.REPRODUCED
    assert found["recall-lastfm"].measured == pytest.approx(200.0)
    assert found["decline-users-lastfm"].verdict is Verdict.NOT_REPRODUCED  # the curves are flat


def test_the_sweep_must_rise_to_its_best_gamma_and_fall_from_there(laboratory):
    measurements = laboratory.measurements()
    hill = {gamma: 1 - (gamma + 1) ** 2 for gamma in measurements.sweep["recall@20"]}
    bumpy = hill | {-0.3: 0.0}
    for sweep, verdict in ((hill, Verdict.REPRODUCED), (bumpy, Verdict.NOT_REPRODUCED)):
        planted = replace(measurements, sweep={"recall@20": sweep, "recall@10": sweep})
        found = {finding.claim.id: finding for finding in judge(planted)}
        assert found["gamma-shape"].verdict is verdict
        assert found["gamma-movielens"].measured == -1.0


@pytest.fixture(scope="module")
def measurements(data_dir, tmp_path_factory):
    assert data_dir.is_dir()
    return Laboratory(tmp_path_factory.mktemp("cache"), quick=True).measurements()


@pytest.mark.slow
@pytest.mark.data
class TestOnThePapersData:
    def test_every_claim_has_the_verdict_that_it_had_at_release(self, measurements):
        found = {f.claim.id: f.verdict for f in judge(measurements)}
        assert found == {check.claim.id: check.claim.expected for check in checks()}

    def test_measured_numbers_are_those_of_an_exact_solver(self, measurements):
        found = {finding.claim.id: finding.measured for finding in judge(measurements)}
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
        assert measurements.teaser.mean_halving("bottom") == pytest.approx(758.348, abs=1e-3)

    def test_groups_are_cut_as_published(self, measurements):
        sizes = [list(e.group_sizes["mass"].values()) for e in measurements.evaluations]
        assert sizes == [[7, 893, 629], [14, 580, 606]]

    def test_the_three_findings_are_told_plainly(self, measurements):
        bottom, groups, recall = headlines(measurements)
        assert "mean over the other 90 %" in bottom
        assert "need 758" in bottom
        assert "cut by mass, not by number of items" in groups
        assert "rises by 28.8 %, not 51.7 %" in recall

    def test_spoiling_a_measurement_loses_the_claim(self, measurements):
        halving = np.where(measurements.teaser.halving < 100, 100.0, measurements.teaser.halving)
        spoilt = replace(measurements, teaser=replace(measurements.teaser, halving=halving))
        lost = [finding.claim.id for finding in judge(spoilt) if finding.lost]
        assert "halve-top" in lost
        assert not any(finding.lost for finding in judge(measurements))

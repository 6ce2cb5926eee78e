"""A short soak: every answer checked, and nothing that grows with the number of cycles."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

from tests import oracle
from tests.soak import operations
from tests.soak.run import Record, Sample, soak, summary, table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts in /proc")


@pytest.mark.slow
def test_forty_cycles_are_right_and_leave_nothing_behind():
    record = soak(
        lambda so_far: so_far.cycles < 40,
        # none is large: compiling loops would be most of the memory that a short run adds
        begin=partial(operations.begin, large_every=10**9),
        operations=partial(operations.operations, audit_every=10),
    )
    assert record.wrong == []
    assert record.calls["fit"] + record.calls["fit, float32"] == 40
    assert record.calls["audit"] + record.calls["audit, float32"] == 4
    settled = record.samples[20:]
    # threads of other tests live in this process too; one left behind a cycle would be twenty
    assert settled[-1].files - settled[0].files < len(settled) / 4
    assert settled[-1].threads - settled[0].threads < len(settled) / 4
    # an audit's page is 2 MB and X some 0.5: what is kept of every cycle would be seen
    assert np.median([s.megabytes for s in settled[-5:]]) - settled[0].megabytes < 40


def test_a_wrong_result_is_recorded():
    def first_item_only(cycle: operations.Cycle) -> float:
        ids, given = cycle.model.recommend(cycle.data, k=20)
        lists = operations.ItemNumbers(cycle.data).of(ids)
        lists[:, 1:] = lists[:, ::-1][:, 1:]
        return oracle.list_error(lists, given, cycle.dense, cycle.dense > 0)

    work = [("fit", operations.fit), ("recommend", first_item_only)]
    (wrong,) = soak(lambda so_far: so_far.cycles < 1, operations=lambda _: work).wrong
    assert "cycle 0, recommend: off by" in wrong


def test_a_leak_is_seen_in_the_slope_whatever_the_noise():
    noise = np.random.default_rng(0).exponential(20.0, 600)
    record = Record(cycles=600)
    for minute, extra in enumerate(noise):
        record.samples.append(Sample(minute / 10, 300.0 + extra + 0.5 * minute, 9, 1))
    found = summary(record)
    assert found["rss_slope_mb_per_hour"] == pytest.approx(300, rel=0.05)
    assert "+3" in table(found)

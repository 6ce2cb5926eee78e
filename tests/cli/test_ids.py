"""What people type is matched to the ids that there are, in their type."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.cli import ids
from equipoise.exceptions import UnknownIdError


@pytest.mark.parametrize(
    ("known", "text", "expected"),
    [
        (np.array([5, 7, 12]), "7", 7),
        (np.array([5, 7, 12]), " +7 ", 7),
        (np.array([0.5, 2.0]), "2", 2.0),
        (np.array([True, False]), "false", False),
        (np.array(["2020-01-02"], "M8[D]"), "2020-01-02", np.datetime64("2020-01-02")),
        (np.array([2**70, "x"], dtype=object), str(2**70), 2**70),
        (np.array(["1_0", "10"], dtype=object), "1_0", "1_0"),
    ],
)
def test_text_is_matched_to_the_type_of_the_ids(known, text, expected):
    assert ids.matched([text], known, "item") == [expected]


@pytest.mark.parametrize(
    ("known", "text", "message"),
    [
        (np.array([5, 7, 12]), "8", "unknown item '8'.*5, 7, 12"),
        (np.array([5, 7]), str(2**70), "unknown item"),
        (np.array([0.5, 2.0]), "nan", "unknown item 'nan'"),
        (np.array(["2020-01-02"], "M8[D]"), "2020-01-03", "2020-01-02"),
        (np.array(["2020-01-02"], "M8[D]"), "today", "unknown item"),
        (np.array([True]), "maybe", "unknown item 'maybe'"),
        (np.array(["Björk", "Beck"], dtype=object), "björk", "mean 'Björk'"),
        (np.array(["Bjork", "Beck"], dtype=object), "Bjrk", "mean 'Bjork'"),
        (np.array(["Beck"], dtype=object), "x" * 10_000, "x…'. The 1 items"),
    ],
)
def test_unknown_ids_are_refused_with_similar_ones(known, text, message):
    with pytest.raises(UnknownIdError, match=message):
        ids.matched([text], known, "item")

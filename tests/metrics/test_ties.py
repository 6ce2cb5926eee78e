"""The rule that decides ties: its definition, and the same result compiled and not."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.metrics import ties
from equipoise.metrics.kernels import settle as compiled

# Few draws hit both sides of a rounding boundary.
more_examples = settings(max_examples=3 * settings().max_examples)
DTYPES = (np.float32, np.float64)


def exact(value: float, bits: int) -> float:
    """Round to so many bits by integers."""
    mantissa, exponent = np.frexp(np.float64(value))
    return float(np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits))


@pytest.mark.parametrize("dtype", DTYPES)
@more_examples
@given(value=st.floats(-(2.0**100), 2.0**100, width=32))
def test_settling_rounds_to_the_bits_that_count(dtype, value):
    if 0 < abs(value) < 1e-30:
        return
    bits = ties.significant_bits(dtype)
    factor = ties.splitter(bits, dtype)
    scores = np.array([value, value * 1.1], dtype)
    expected = [exact(score, bits) for score in scores]
    # exactly between two neighbors either is right
    np.testing.assert_allclose(
        ties.settled(scores, 0, factor), expected, rtol=2.0 ** (1 - bits), atol=0
    )
    assert [float(compiled(s, dtype(0), factor)) for s in scores] == [
        float(s) for s in ties.settled(scores, dtype(0), factor)
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@more_examples
@given(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.floats(0, 2.0**20, width=32),
)
def test_settling_never_reverses_an_order(dtype, first, second, limit):
    low, high = sorted((dtype(first), dtype(second)))
    factor = ties.splitter(ties.significant_bits(dtype), dtype)
    assert compiled(low, dtype(limit), factor) <= compiled(high, dtype(limit), factor)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_too_large_to_be_scaled_stay_as_they_are(dtype):
    largest = np.finfo(dtype).max
    scores = np.array([np.inf, -np.inf, largest, -largest], dtype)
    factor = ties.splitter(ties.significant_bits(dtype), dtype)
    np.testing.assert_array_equal(ties.settled(scores, dtype(0), factor), scores)
    assert [compiled(s, dtype(0), factor) for s in scores] == scores.tolist()


def test_row_norms_are_those_of_numpy_with_empty_rows_and_large_values():
    dense = np.array([[0, 0, 0], [3, 0, 4], [0, 0, 0], [1, 2, 2], [0, 0, 0]]) * 1e200
    expected = [0, 5e200, 0, 3e200, 0]
    np.testing.assert_allclose(ties.row_norms(sp.csr_array(dense)), expected)
    assert ties.row_norms(sp.csr_array((0, 3))).shape == (0,)

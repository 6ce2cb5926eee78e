from __future__ import annotations

import numpy as np
import pytest

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import (
    ItemGroups,
    mean_by_group,
    orthonormal_basis,
    self_reconstruction,
    specialization,
)


@pytest.fixture
def factors():
    return np.random.default_rng(0).normal(size=(12, 5))


@pytest.fixture
def U(factors):
    return np.linalg.qr(factors)[0]


def dense_projection(columns):
    return columns @ np.linalg.pinv(columns)


def test_orthonormal_factors_come_back_untouched(U):
    assert orthonormal_basis(U) is U


def test_general_factors_keep_the_space_of_every_prefix(factors):
    Q = orthonormal_basis(factors)
    for r in range(1, 6):
        np.testing.assert_allclose(
            Q[:, :r] @ Q[:, :r].T, dense_projection(factors[:, :r]), atol=1e-12
        )


def test_each_column_of_the_basis_points_the_way_of_its_factor(factors):
    assert (np.sum(orthonormal_basis(factors) * factors, axis=0) > 0).all()


def test_float32_factors_count_as_orthonormal(U):
    single = U.astype(np.float32)
    np.testing.assert_array_equal(orthonormal_basis(single), single.astype(np.float64))


def test_the_diagonal_at_each_rank_is_that_of_the_dense_projection(factors):
    diagonal = self_reconstruction(factors)
    assert diagonal.shape == (6, 12)
    for r in range(6):
        expected = np.diag(dense_projection(factors[:, :r])) if r else np.zeros(12)
        np.testing.assert_allclose(diagonal[r], expected, atol=1e-12)


def test_the_diagonal_sums_to_the_rank(U):
    np.testing.assert_allclose(self_reconstruction(U).sum(axis=1), np.arange(6))


def test_ranks_come_in_the_order_asked_for(U):
    every = self_reconstruction(U)
    np.testing.assert_array_equal(self_reconstruction(U, [5, 0, 2]), every[[5, 0, 2]])


def test_a_spectrum_weighs_the_components(U):
    f = np.array([1.0, 0.5, 0.25, 0.0, 2.0])
    expected = np.diag(U @ np.diag(f) @ U.T)
    np.testing.assert_allclose(self_reconstruction(U, [5], component_weights=f)[0], expected)


def test_permuting_items_permutes_the_diagonal(U):
    order = np.random.default_rng(1).permutation(12)
    np.testing.assert_allclose(self_reconstruction(U[order]), self_reconstruction(U)[:, order])


def test_specialization_is_the_mean_at_or_above_the_90th_percentile():
    diagonal = np.random.default_rng(2).random(1529)
    expected = diagonal[diagonal >= np.percentile(diagonal, 90)].mean()
    assert specialization(diagonal) == pytest.approx(expected)


def test_specialization_of_a_constant_diagonal_is_that_constant():
    assert specialization(np.full(7, 0.25)) == 0.25


def test_specialization_of_several_ranks_equals_each_alone(U):
    diagonal = self_reconstruction(U)
    expected = [specialization(row, share=0.3) for row in diagonal]
    np.testing.assert_allclose(specialization(diagonal, share=0.3), expected)


def test_means_by_group_give_a_curve_per_group(U):
    groups = ItemGroups(("a", "b"), [0] * 4 + [1] * 8)
    diagonal = self_reconstruction(U)
    result = mean_by_group(diagonal, groups)
    np.testing.assert_allclose(result.by_group["a"], diagonal[:, :4].mean(axis=1))
    np.testing.assert_allclose(result.overall, diagonal.mean(axis=1))
    np.testing.assert_allclose(
        result.difference, np.abs(result.by_group["a"] - result.by_group["b"])
    )
    assert np.isnan(result.ratio[0])
    assert result.metric == "mean"


def test_dependent_columns_are_refused(factors):
    twice = np.column_stack([factors[:, 0], factors[:, 1], 2 * factors[:, 0]])
    with pytest.raises(InvalidDataError, match=r"linearly dependent columns \(first: column 2\)"):
        orthonormal_basis(twice)
    with pytest.raises(InvalidDataError, match="linearly dependent"):
        orthonormal_basis(np.zeros((3, 1)))


def test_factors_that_lie_on_their_side_are_refused(factors):
    with pytest.raises(InvalidDataError, match=r"12 columns for 5 items.*transpose"):
        self_reconstruction(factors.T)


def test_nan_and_flat_factors_are_refused(factors):
    factors[3, 2] = np.nan
    with pytest.raises(InvalidDataError, match="item_factors has NaN"):
        self_reconstruction(factors)
    with pytest.raises(InvalidDataError, match=r"matrix, got shape \(3,\)"):
        self_reconstruction([1.0, 0.0, 0.0])


@pytest.mark.parametrize("ranks", [[6], [-1]])
def test_ranks_beyond_the_components_are_refused(U, ranks):
    with pytest.raises(InvalidParameterError, match="between 0 and 5"):
        self_reconstruction(U, ranks)


@pytest.mark.parametrize("ranks", [[], [1.5], 3, "2"])
def test_ranks_that_are_not_a_list_of_numbers_are_refused(U, ranks):
    with pytest.raises(InvalidParameterError, match="list of whole numbers"):
        self_reconstruction(U, ranks)


def test_weights_of_the_wrong_length_or_for_general_factors_is_refused(U, factors):
    with pytest.raises(InvalidParameterError, match="component_weights must be 5 finite numbers"):
        self_reconstruction(U, component_weights=[1.0])
    with pytest.raises(InvalidDataError, match="component_weights need orthonormal item_factors"):
        self_reconstruction(factors, component_weights=np.ones(5))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_a_share_outside_zero_and_one_is_refused(share):
    with pytest.raises(InvalidParameterError, match="share must lie strictly between"):
        specialization([0.1, 0.2], share=share)


@pytest.mark.parametrize("diagonal", [[], [0.1, np.nan], np.zeros((2, 2, 2))])
def test_a_diagonal_that_is_none_is_refused(diagonal):
    with pytest.raises(InvalidDataError, match="diagonal must be finite"):
        specialization(diagonal)


def test_groups_of_another_catalog_are_refused(U):
    with pytest.raises(InvalidDataError, match="each of the 3 grouped items"):
        mean_by_group(self_reconstruction(U), ItemGroups(("a",), [0, 0, 0]))

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import components_to_reach, item_error


@pytest.fixture
def X():
    rng = np.random.default_rng(3)
    return sp.random_array((40, 15), density=0.3, random_state=rng, format="csr")


@pytest.fixture
def U():
    return np.linalg.qr(np.random.default_rng(4).normal(size=(15, 6)))[0]


def by_hand(X, P):
    dense = X.toarray()
    return np.square(dense - dense @ P).sum(axis=0) / np.square(dense).sum(axis=0)


def test_any_orthonormal_factors_give_the_error_of_the_dense_residual(X, U):
    errors = item_error(X, U)
    for r in range(7):
        np.testing.assert_allclose(errors[r], by_hand(X, U[:, :r] @ U[:, :r].T), atol=1e-12)


def test_general_factors_give_the_error_of_their_column_space(X):
    V = np.random.default_rng(5).normal(size=(15, 4))
    np.testing.assert_allclose(
        item_error(X, V, ranks=[4])[0], by_hand(X, V @ np.linalg.pinv(V)), atol=1e-12
    )


def test_a_spectrum_gives_the_error_of_the_graded_matrix(X, U):
    f = np.linspace(1, 0.2, 6)
    errors = item_error(X, U, ranks=[2, 6], component_weights=f)
    for row, r in enumerate((2, 6)):
        P = U[:, :r] @ np.diag(f[:r]) @ U[:, :r].T
        np.testing.assert_allclose(errors[row], by_hand(X, P), atol=1e-12)


def test_more_columns_than_one_block_make_no_difference():
    X = sp.random_array((90, 80), density=0.2, random_state=np.random.default_rng(6), format="csr")
    U = np.linalg.qr(np.random.default_rng(7).normal(size=(80, 80)))[0]
    errors = item_error(X, U)
    np.testing.assert_allclose(errors[70], by_hand(X, U[:, :70] @ U[:, :70].T), atol=1e-10)
    np.testing.assert_allclose(errors[80], 0, atol=1e-10)


def test_principal_components_lower_the_total_by_their_squared_singular_values(X):
    _, sigma, Vt = np.linalg.svd(X.toarray(), full_matrices=False)
    norms = np.square(X.toarray()).sum(axis=0)
    total = item_error(X, Vt.T) @ norms
    np.testing.assert_allclose(-np.diff(total), np.square(sigma), atol=1e-10)


def test_errors_of_single_precision_data_stay_close(X, U):
    np.testing.assert_allclose(item_error(X.astype(np.float32), U), item_error(X, U), atol=1e-5)


def test_an_untouched_item_has_no_error():
    errors = item_error([[1.0, 0.0], [2.0, 0.0]], np.eye(2))
    np.testing.assert_array_equal(np.isnan(errors), [[False, True]] * 3)


def test_no_error_is_negative():
    X = sp.csr_array(np.outer(np.arange(1, 30.0), [0.1, 0.2, 0.3]))
    assert (item_error(X, np.linalg.svd(X.toarray())[2].T) >= 0).all()


def test_disjoint_items_wait_for_their_own_component():
    X = np.diag([3.0, 2.0, 1.0])
    np.testing.assert_array_equal(components_to_reach(item_error(X, np.eye(3))), [1, 2, 3])


def test_components_to_half_error_count_an_error_of_exactly_one_half():
    assert components_to_reach([[1.0], [0.5]]).tolist() == [1]
    assert components_to_reach([[1.0], [0.5]], share=0.499).tolist() != [1]


def test_the_first_rank_counts_even_if_the_error_rises_again():
    assert components_to_reach([[1.0], [0.4], [0.7], [0.3]]).tolist() == [1]


def test_rows_may_stand_for_other_ranks():
    assert components_to_reach([[1.0], [0.8], [0.2]], ranks=[0, 16, 64]).tolist() == [64]


def test_an_item_that_never_gets_there_takes_the_value_asked_for():
    errors = [[1.0, 1.0, np.nan], [0.9, 0.1, np.nan]]
    np.testing.assert_array_equal(components_to_reach(errors), [np.nan, 1, np.nan])
    np.testing.assert_array_equal(components_to_reach(errors, unreached=2), [2, 1, np.nan])


def test_factors_of_another_catalog_are_refused(X):
    with pytest.raises(InvalidDataError, match="15 items, item_factors has 14"):
        item_error(X, np.eye(14))


def test_negative_and_nan_entries_are_refused(U):
    with pytest.raises(InvalidDataError, match="smallest entry is -2"):
        item_error(np.full((2, 15), -2.0), U)
    with pytest.raises(InvalidDataError, match="X has NaN"):
        item_error(np.full((2, 15), np.nan), U)
    with pytest.raises(InvalidDataError, match="X has NaN"):
        item_error(np.full((2, 15), np.inf), U)


def test_what_is_not_a_matrix_is_refused(U):
    with pytest.raises(InvalidDataError, match="users × items matrix"):
        item_error([1.0, 2.0], U)
    with pytest.raises(InvalidDataError, match="got dtype complex128"):
        item_error(np.ones((2, 15), dtype=complex), U)


def test_bad_arguments_of_components_to_reach_are_refused():
    with pytest.raises(InvalidDataError, match="errors must be of shape"):
        components_to_reach([1.0, 0.5])
    with pytest.raises(InvalidDataError, match="2 ascending numbers"):
        components_to_reach([[1.0], [0.5]], ranks=[1, 1])
    with pytest.raises(InvalidParameterError, match="share"):
        components_to_reach([[1.0]], share=1.5)

"""What representations tell about groups, against definitions and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from equipoise import HiddenGroupsPCA
from equipoise.exceptions import InvalidDataError
from equipoise.metrics import covariance_gap, linear_separability, mean_gap, mmd


@pytest.fixture
def groups():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 90)
    return rng.standard_normal((90, 4)) * (1 + labels[:, None]) + 2 * labels[:, None], labels


def test_mmd_equals_the_mean_kernels_of_scikit_learn(groups):
    Y, labels = groups
    X, Z = Y[labels == 0], Y[labels == 2]
    gamma = 1 / (2 * 1.5**2)
    expected = (
        rbf_kernel(X, X, gamma).mean()
        + rbf_kernel(Z, Z, gamma).mean()
        - 2 * rbf_kernel(X, Z, gamma).mean()
    )
    two = labels != 1
    assert mmd(Y[two], labels[two], width=1.5).value == pytest.approx(expected, abs=1e-12)
    assert mmd(Y, labels, width=1.5).value >= expected - 1e-12


def test_groups_drawn_alike_differ_less_than_groups_that_are_apart(groups):
    Y, labels = groups
    shuffled = np.random.default_rng(0).permutation(labels)
    for metric in (mean_gap, covariance_gap, mmd, linear_separability):
        assert metric(Y, shuffled).value < metric(Y, labels).value / 2


@pytest.mark.medium
def test_large_groups_are_sampled_with_a_seed():
    Y = np.random.default_rng(1).standard_normal((12_000, 2))
    labels = np.arange(12_000) % 2
    found = mmd(Y, labels, width=1.0, seed=4)
    assert found.n == 10_000
    assert found.value == mmd(Y, labels, width=1.0, seed=4).value
    assert abs(found.value) < 1e-3


def test_hidden_groups_have_equal_means_and_the_stated_covariance_gap(groups):
    X = np.abs(groups[0])
    labels = groups[1]
    model = HiddenGroupsPCA(2, groups=labels).fit(X)
    Y = model.transform(X)
    assert mean_gap(Y, labels).value < 1e-10
    assert covariance_gap(Y, labels).value == pytest.approx(model.covariance_gap_, rel=1e-6)
    assert linear_separability(Y, labels).value <= 1e-12


@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        ([[1.0], [2.0]], ["a"], "one row per label"),
        ([[1.0], [2.0]], ["a", "a"], "at least two"),
        ([[1.0], [np.nan]], ["a", "b"], "finite"),
    ],
)
def test_bad_input_is_refused(rows, labels, words):
    with pytest.raises(InvalidDataError, match=words):
        mean_gap(rows, labels)

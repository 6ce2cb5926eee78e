"""How far two models are from each other."""

from __future__ import annotations

import numpy as np


def largest_angle(one: np.ndarray, other: np.ndarray) -> float:
    """The largest angle between the row spaces, by its sine: accurate where it is small."""
    rest = other.T - one.T @ (one @ other.T)
    return float(np.arcsin(min(1.0, np.linalg.norm(rest, 2))))


def assert_same_model(model, reference, *, objective: float = 1e-8, angle: float = 1e-5) -> None:
    """The issue's measure: objective within 1e-8, subspaces within 1e-5."""
    ours, theirs = model.certificate_.objective, reference.certificate_.objective
    assert abs(ours - theirs) <= objective * abs(theirs)
    assert largest_angle(reference.components_, model.components_) <= angle
    np.testing.assert_allclose(model.eigenvalues_, reference.eigenvalues_, rtol=1e-7)
    np.testing.assert_allclose(model.item_norms_, reference.item_norms_, rtol=1e-12)
    np.testing.assert_array_equal(model.item_ids_, reference.item_ids_)
    assert model.certificate_.max_residual <= model.tol

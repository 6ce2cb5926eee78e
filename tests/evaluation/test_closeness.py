"""The check that validation and test items are equally close to the training items."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from equipoise.data import Interactions, Split, holdout, synthetic
from equipoise.evaluation import tune, validation_shift
from equipoise.evaluation.closeness import affinities


def test_affinity_is_the_mean_cosine_to_the_users_items():
    rng = np.random.default_rng(1)
    X = (rng.random((30, 12)) < 0.3).astype(float)
    train = Interactions.from_sparse(sp.csr_array(X))
    users, items = rng.integers(0, 30, 40), rng.integers(0, 12, 40)
    norms = np.linalg.norm(X, axis=0)
    cosines = (X.T @ X) / np.outer(norms, norms)
    pairs = zip(users, items, strict=True)
    expected = [cosines[X[u] > 0, j].mean() if X[u].any() else 0 for u, j in pairs]
    found = affinities(train, train.matrix[users], items)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def two_tastes() -> Split:
    """Users of one taste each; validation items are of that taste, test items of the other."""
    rng = np.random.default_rng(2)
    taste = np.arange(200) % 2
    own = taste[:, None] == np.arange(40) % 2
    train = own & (rng.random((200, 40)) < 0.4)
    train[:, 0] = train[:, 1] = True  # all tastes are connected
    validation = own & ~train & (rng.random((200, 40)) < 0.3)
    test = ~own & ~train & (rng.random((200, 40)) < 0.1)
    parts = (
        Interactions.from_sparse(sp.csr_array(x.astype(float))) for x in (train, validation, test)
    )
    return Split(*parts)


def test_test_items_that_are_further_away_are_detected():
    shift = validation_shift(two_tastes())
    assert shift.differs
    assert shift.validation.affinity > shift.test.affinity
    assert "differ" in str(shift)


def test_parts_drawn_alike_are_alike():
    shift = validation_shift(holdout(synthetic.scale(400, 80, 6000)))
    assert not shift.differs
    assert 0 <= shift.test.unconnected < 1


def test_data_on_disk_have_the_same_shift(tmp_path):
    data = synthetic.scale(400, 80, 6000)
    path = tmp_path / "plays.parquet"
    data.to_polars().write_parquet(path)
    whole = holdout(Interactions.read(path))
    blocks = holdout(Interactions.read(path, memory="1MB"))
    assert len(blocks.train.rows) > 1
    for one, other in zip(validation_shift(whole), validation_shift(blocks), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_no_shift_for_held_out_users(world):
    assert validation_shift(holdout(world, method="by_user")) is None


def test_tune_reports_the_shift(split):
    tuning = tune(split, "pca", grid={"n_components": [4]})
    assert tuning.shift == validation_shift(split)
    assert tuning.to_dict()["shift"]["differs"] is False

"""What the models with components promise beyond the contract of all."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import equipoise
from equipoise.models.pca.projection import ProjectionModel
from tests.contract.variants import build, named


@pytest.mark.parametrize("name", named("item-weighted", "pca", "normalized"))
class TestProjections:
    def model(self, name: str) -> ProjectionModel:
        model = build(name)
        assert isinstance(model, ProjectionModel)
        return model

    def test_the_certificate_is_saved_too(self, name, plays, tmp_path):
        model = self.model(name).fit(plays)
        loaded = equipoise.load(model.save(tmp_path / "model.eqp"))
        assert loaded.certificate_ == model.certificate_

    def test_float32_data_give_float32_components_near_the_float64_ones(self, name, X):
        single, double = self.model(name).fit(X.astype(np.float32)), self.model(name).fit(X)
        assert single.components_.dtype == np.float32
        assert single.transform(X.astype(np.float32)).dtype == np.float32
        np.testing.assert_allclose(single.components_, double.components_, atol=1e-3)

    def test_scores_equal_the_dense_reconstruction(self, name, X):
        model = self.model(name).fit(X)
        U = model.components_.T
        expected = model.preprocess(sp.csr_array(X)).toarray() @ (
            (U * model.filter_factors()) @ U.T
        )
        ids, scores = model.recommend(X, k=14, filter_already_liked_items=False)
        np.testing.assert_allclose(scores, np.take_along_axis(expected, ids, axis=1), atol=1e-10)

    def test_contributions_alone_sum_to_the_score(self, name, plays):
        model = self.model(name).fit(plays)
        user = plays.select_users(["user-5"])
        ids, scores = model.recommend(user, k=3)
        for item, score in zip(ids[0], scores[0], strict=True):
            whole = model.explain(user, item, k=None)
            assert whole.contributions.sum() == pytest.approx(score, abs=1e-10)

    def test_every_other_item_has_a_cosine(self, name, X):
        ids, scores = self.model(name).fit(X).similar_items(5, k=13)
        assert set(ids) == set(range(14)) - {5}
        assert np.all(np.abs(scores) <= 1 + 1e-9)

    def test_equal_items_are_each_others_nearest(self, name, X):
        X[:, 3] = X[:, 8]
        model = self.model(name).fit(X)
        assert model.similar_items(3, k=1).ids[0] == 8
        assert model.similar_items(3, k=1).scores[0] == pytest.approx(1.0)

"""Serving: known rows, rows folded in, explanations, without PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.models.peers.lightgcn import LightGCN
from equipoise.models.peers.lightgcn_training import normalized
from tests.models.lightgcn.cases import R, dense_adjacency, mean_of_powers, quick, trained_again


class TestServing:
    def test_scores_of_known_rows_equal_a_hand_computation(self):
        model = LightGCN(2, max_epochs=3, validation=0, random_state=5).fit(R)
        E = mean_of_powers(dense_adjacency(R), 3) @ trained_again(model, R).current()
        np.testing.assert_allclose(model._scores(sp.csr_array(R)), E[:4] @ E[4:].T, atol=1e-7)

    def passed(self, model, X) -> np.ndarray:
        return (X / np.sqrt(X.sum(axis=1, keepdims=True))) @ model.item_messages_

    def test_items_pass_on_their_layers_below_the_last(self, X, fitted):
        B = normalized(sp.csr_array(X)).toarray()
        own = fitted.user_factors(sp.csr_array(X)) - self.passed(fitted, X)
        V0, V1, V2 = self.item_layers(fitted, B, 4 * own)
        expected = (V0 + V1 + V2) / (4 * np.sqrt(X.sum(axis=0))[:, None])
        np.testing.assert_allclose(fitted.item_messages_, expected, rtol=1e-5, atol=1e-7)

    def item_layers(self, model, B, U0) -> list[np.ndarray]:
        """Solve for the items' layer 0 whose mean over three layers is what the model keeps."""
        S = B.T @ B
        right = 4 * model.item_factors_ - B.T @ U0 - S @ (B.T @ U0)
        V0 = np.linalg.solve(np.eye(len(S)) + S, right)  # 4v = V0 + BᵀU0 + S V0 + S BᵀU0
        return [V0, B.T @ U0, S @ V0]

    def test_known_row_is_served_what_its_user_learned_and_any_other_is_folded_in(self, X, fitted):
        own = fitted.user_factors(sp.csr_array(X)) - self.passed(fitted, X)
        assert np.all(np.linalg.norm(own, axis=1) > 1e-4)
        changed = X.copy()
        changed[:, 0] = 0  # everybody had item 0: no row is as it was
        np.testing.assert_allclose(
            fitted.user_factors(sp.csr_array(changed)),
            self.passed(fitted, changed) @ fitted.fold_in_,
            atol=1e-12,
        )

    def test_fold_in_is_the_least_squares_guess_of_what_users_learned(self, X, fitted):
        F = self.passed(fitted, X)
        own = fitted.user_factors(sp.csr_array(X)) - F
        # ridge regression as ordinary least squares on stacked rows, by SVD
        ridge = np.sqrt(1e-3 * (F**2).sum() / F.shape[1])
        stacked = np.vstack([F, ridge * np.eye(F.shape[1])])
        targets = np.vstack([own, np.zeros((F.shape[1], F.shape[1]))])
        M = np.linalg.lstsq(stacked, targets, rcond=None)[0]
        np.testing.assert_allclose(fitted.fold_in_, np.eye(F.shape[1]) + M, rtol=1e-6, atol=1e-8)

    def test_users_of_the_very_same_row_share_the_mean_of_what_they_learned(self, X):
        twins = X.copy()
        twins[1] = twins[0]
        model = quick(validation=0, max_epochs=3).fit(twins)
        assert len(model.row_hashes_) == len(np.unique(twins, axis=0)) == 59
        run = trained_again(model, twins)
        final = run.propagate(run.weights).numpy()
        served = model.user_factors(sp.csr_array(twins[:1]))[0]
        np.testing.assert_allclose(served, final[:2].mean(axis=0), atol=1e-6)

    def test_user_without_items_is_scored_zero(self, X):
        model = quick(max_epochs=2).fit(np.vstack([X, np.zeros(30)]))
        assert not model._scores(sp.csr_array((1, 30))).any()

    def test_values_are_taken_as_0_or_1(self, X, fitted):
        counts = X * np.random.default_rng(0).integers(1, 9, X.shape)
        np.testing.assert_array_equal(quick().fit(counts).item_factors_, fitted.item_factors_)
        np.testing.assert_array_equal(fitted.recommend(counts).scores, fitted.recommend(X).scores)

    def test_explanation_lists_what_items_pass_on_and_the_rest_is_the_users_own(self, X, fitted):
        known = fitted.explain(X[4], 7, k=None)
        own = fitted.user_factors(sp.csr_array(X[4:5])) - self.passed(fitted, X[4:5])
        assert known.rest == pytest.approx(float(own[0] @ fitted.item_factors_[7]), abs=1e-9)
        assert known.score == pytest.approx(known.contributions.sum() + known.rest)
        new_user = X[4].copy()
        new_user[0] = 0
        folded = fitted.explain(new_user, 7, k=None)
        assert folded.rest == pytest.approx(0, abs=1e-12)

    def test_checkerboard_top_one_is_the_one_item_left_out(self):
        X = (np.add.outer(np.arange(24), np.arange(24)) % 2 == 0).astype(float)
        np.fill_diagonal(X, 0)
        model = LightGCN(2, random_state=0).fit(X)
        np.testing.assert_array_equal(model.recommend(X, k=1).ids[:, 0], np.arange(24))

    def test_item_that_nobody_touched_is_similar_to_none(self, X):
        alone = X.copy()
        alone[:, 6] = 0
        model = quick(max_epochs=2).fit(alone)
        np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
        assert 6 not in model.similar_items(3, k=29).ids

    def test_loaded_model_recommends_the_same_without_torch(self, X, fitted, tmp_path):
        path = fitted.save(tmp_path / "model.eqp")
        np.save(tmp_path / "X.npy", X)
        code = (
            "import sys, json\n"
            "class Absent:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.partition('.')[0] in ('torch', 'torch_geometric'):\n"
            "            raise ModuleNotFoundError(name)\n"
            "sys.meta_path.insert(0, Absent())\n"
            "import numpy as np; from equipoise.models.peers.lightgcn import LightGCN\n"
            f"model = LightGCN.load({str(path)!r}); X = np.load({str(tmp_path / 'X.npy')!r})\n"
            "X[0, 0] = 0  # one row folded in\n"
            "print(json.dumps([model.recommend(X, k=5).ids.tolist(), model.best_epoch_]))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        rows = X.copy()
        rows[0, 0] = 0
        ids, best_epoch = json.loads(run.stdout)
        np.testing.assert_array_equal(ids, fitted.recommend(rows, k=5).ids)
        assert best_epoch == fitted.best_epoch_

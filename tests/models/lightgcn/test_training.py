"""Training against hand computations: loss, gradients, early stopping, seeds, progress."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import SolverError
from equipoise.models.peers import lightgcn_training as training
from equipoise.models.peers.lightgcn_training import Task, Trainer
from tests.models.lightgcn.cases import (
    SETTINGS,
    R,
    dense_adjacency,
    mean_of_powers,
    quick,
    torch,
    trainer,
)
from tests.recorded_progress import Recorded


class TestTraining:
    triples = (np.array([0, 2, 1]), np.array([1, 3, 2]), np.array([3, 1, 0]))

    def test_loss_equals_a_hand_computation(self):
        ours = trainer()
        E0 = ours.current().astype(float)
        E = mean_of_powers(dense_adjacency(R), 3) @ E0
        total = 0.0
        for u, i, j in zip(*self.triples, strict=True):
            margin = E[u] @ E[4 + i] - E[u] @ E[4 + j]
            penalty = sum(E0[node] @ E0[node] for node in (u, 4 + i, 4 + j))
            total += np.log1p(np.exp(-margin)) + 0.01 * penalty
        loss = ours.loss(ours.propagate(ours.weights), *self.triples)
        assert loss.item() == pytest.approx(total / 3, rel=1e-6)

    def test_loss_equals_the_models_own(self):
        ours = trainer()
        u, i, j = (torch.from_numpy(nodes) for nodes in self.triples)
        final = ours.model.get_embedding(ours.adjacency)
        nodes = torch.cat([u, i + 4, j + 4])
        ranks = ((final[u] * final[4 + other]).sum(1) for other in (i, j))
        expected = ours.model.recommendation_loss(*ranks, nodes, lambda_reg=0.01)
        assert ours.loss(final, *self.triples).item() == pytest.approx(expected.item(), rel=1e-6)

    def test_step_equals_adam_on_gradients_by_automatic_differentiation(self):
        ours, theirs = trainer(), trainer()
        for _ in range(3):
            ours.step(*self.triples)
            loss = theirs.loss(theirs.model.get_embedding(theirs.adjacency), *self.triples)
            theirs.optimizer.zero_grad()
            loss.backward()
            theirs.optimizer.step()
        np.testing.assert_allclose(ours.current(), theirs.current(), atol=1e-6)

    def test_loss_falls(self, fitted):
        assert fitted.loss_curve_[-1] < fitted.loss_curve_[0] < 1
        assert len(fitted.loss_curve_) == len(fitted.validation_curve_) == fitted.n_epochs_

    def test_early_stopping_restores_the_best_epoch(self, X, monkeypatch):
        scores = iter([0.1, 0.4, 0.3, 0.4, 0.2])  # equal is not better: epoch 2 it is
        monkeypatch.setattr(training.Trainer, "ndcg", lambda _: next(scores))
        stopped = quick(patience=3).fit(X)
        assert (stopped.best_epoch_, stopped.n_epochs_) == (2, 5)
        np.testing.assert_array_equal(stopped.validation_curve_, [0.1, 0.4, 0.3, 0.4, 0.2])
        first_two = iter([0.1, 0.4])
        monkeypatch.setattr(training.Trainer, "ndcg", lambda _: next(first_two))
        short = quick(max_epochs=2).fit(X)
        np.testing.assert_array_equal(stopped.item_factors_, short.item_factors_)
        np.testing.assert_array_equal(stopped.user_embeddings_, short.user_embeddings_)

    def test_refit_trains_on_everything_for_the_best_number_of_epochs(self, X, fitted):
        progress = Recorded()
        refitted = quick(refit=True).fit(X, progress=progress)
        best = fitted.best_epoch_
        epochs = [int(note.split()[1]) for note in progress.notes()]
        assert epochs == [*range(1, 13), *range(1, best + 1)]
        whole = quick(validation=0, max_epochs=best).fit(X)
        np.testing.assert_array_equal(refitted.item_factors_, whole.item_factors_)
        np.testing.assert_array_equal(refitted.validation_curve_, fitted.validation_curve_)
        assert not np.allclose(refitted.item_factors_, fitted.item_factors_)

    def test_validation_ndcg_is_that_of_the_lists_without_training_items(self):
        held_out = sp.csr_array(np.array([[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]))
        ours = Trainer(
            Task(sp.csr_array(R), held_out),
            SETTINGS,
            np.random.default_rng(0),
        )
        E = mean_of_powers(dense_adjacency(R), 3) @ ours.current()
        scores = np.where(R > 0, -np.inf, E[:4] @ E[4:].T)
        places = [int((scores[u] > scores[u, i]).sum()) for u, i in ((0, 2), (1, 3), (2, 1))]
        assert ours.ndcg() == pytest.approx(np.mean(1 / np.log2(2 + np.array(places))))

    def test_without_validation_the_last_epoch_is_kept(self, X):
        model = quick(validation=0, max_epochs=3).fit(X)
        assert (model.n_epochs_, model.best_epoch_) == (3, 3)
        assert np.isnan(model.validation_curve_).all()

    def test_many_users_are_judged_by_an_even_sample(self, monkeypatch):
        monkeypatch.setattr(training, "VALIDATION_USERS", 4)
        held_out = sp.csr_array(np.arange(10)[:, None] > 0)
        np.testing.assert_array_equal(training.validation_users(held_out), [1, 4, 7])

    def test_divergence_is_refused(self, X):
        with pytest.raises(SolverError, match=r"training diverged. Lower learning_rate=1e\+30"):
            quick(learning_rate=1e30).fit(X)

    def test_divergence_in_the_last_step_of_an_epoch_is_refused_too(self, X, monkeypatch):
        def spoil(run: Trainer) -> float:
            run.weights.data[0, 0] = float("inf")
            return 0.5  # the loss before the step that spoiled it

        monkeypatch.setattr(training.Trainer, "run_epoch", spoil)
        with pytest.raises(SolverError, match=r"epoch 1: training diverged"):
            quick().fit(X)

    def test_same_seed_same_bits_and_another_seed_others(self, X, fitted):
        again, other = quick().fit(X), quick(random_state=1).fit(X)
        np.testing.assert_array_equal(again.item_factors_, fitted.item_factors_)
        np.testing.assert_array_equal(again.user_embeddings_, fitted.user_embeddings_)
        assert not np.allclose(other.item_factors_, fitted.item_factors_)

    def test_fitting_leaves_the_state_of_torch_alone(self, X):
        before = torch.random.get_rng_state()
        quick(max_epochs=1).fit(X)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert not torch.are_deterministic_algorithms_enabled()

    @pytest.mark.parametrize(("size", "steps"), [(None, 1), (3, 3), (8, 1)])
    def test_every_edge_is_in_one_batch_of_the_size(self, size, steps, monkeypatch):
        sizes = []
        monkeypatch.setattr(Trainer, "step", lambda _, users, *__: sizes.append(len(users)) or 0.0)
        trainer(batch_size=size).run_epoch()
        assert (len(sizes), sum(sizes)) == (steps, int(R.sum()))

    def test_callers_hear_of_every_epoch(self, X):
        progress = Recorded()
        model = quick(max_epochs=3).fit(X, progress=progress)
        for n, note in enumerate(progress.notes()):
            assert note.startswith(f"epoch {n + 1} of at most 3, loss {model.loss_curve_[n]:.4f}")
        assert len(progress.notes()) == 3

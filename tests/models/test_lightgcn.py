"""LightGCN against hand computations: propagation, loss, gradients, early stopping, serving."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import (
    ArtefactError,
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    SolverError,
)
from equipoise.models.lightgcn import Epoch, LightGCN, training
from equipoise.models.lightgcn.graph import Pairs, adjacency, hold_out, keep, normalized
from equipoise.models.lightgcn.training import Recipe, Task, Trainer, initial_state

torch = pytest.importorskip("torch", reason="torch is not installed: LightGCN was NOT tested")
geometric = pytest.importorskip(
    "torch_geometric", reason="torch_geometric is not installed: LightGCN was NOT tested"
)

# users 0-3, items 0-3: eight edges, degrees from 1 to 3 on either side
R = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]], dtype=float)
RECIPE = Recipe(
    n_components=2,
    n_layers=3,
    learning_rate=0.05,
    regularization=0.01,
    batch_size=4,
    max_epochs=5,
    patience=5,
    device="cpu",
)


def dense_adjacency(R: np.ndarray) -> np.ndarray:
    """D^−½ A D^−½, straight from the definition."""
    A = np.block([[np.zeros((len(R), len(R))), R], [R.T, np.zeros((R.shape[1], R.shape[1]))]])
    degrees = A.sum(axis=1)
    roots = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0)
    return roots[:, None] * A * roots


def mean_of_powers(A: np.ndarray, n_layers: int) -> np.ndarray:
    powers = [np.linalg.matrix_power(A, k) for k in range(n_layers + 1)]
    return sum(powers) / (n_layers + 1)


def trainer(seed: int = 0, **changes) -> Trainer:
    recipe = Recipe(**(RECIPE.__dict__ | changes))
    task = Task(sp.csr_array(R), None)
    return Trainer(task, recipe, initial_state(task, recipe, np.random.default_rng(seed)))


def taste(n_users: int = 60, n_items: int = 30, seed: int = 3) -> np.ndarray:
    """Two groups of users who mostly keep to their own half of the items."""
    rng = np.random.default_rng(seed)
    own = np.add.outer(np.arange(n_users), np.arange(n_items)) % 2 == 0
    X = (rng.random((n_users, n_items)) < np.where(own, 0.5, 0.05)).astype(float)
    X[:, 0] = 1
    return X


def quick(**changes) -> LightGCN:
    settings = {
        "n_components": 4,
        "max_epochs": 12,
        "learning_rate": 0.05,
        "random_state": 0,
        "refit": False,
    }
    return LightGCN(**(settings | changes))


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    return taste()


@pytest.fixture(scope="module")
def fitted(X) -> LightGCN:
    return quick().fit(X)


class TestGraph:
    @pytest.mark.parametrize("n_layers", [1, 2, 3])
    def test_propagation_equals_powers_of_the_dense_adjacency(self, n_layers):
        ours = trainer(n_layers=n_layers)
        expected = mean_of_powers(dense_adjacency(R), n_layers) @ ours.current()
        np.testing.assert_allclose(ours.propagate(ours.weights).numpy(), expected, atol=1e-6)

    def test_propagation_equals_the_model_with_its_own_normalisation(self):
        ours = trainer()
        theirs = geometric.nn.LightGCN(8, 2, 3)  # normalize=True: degrees by PyTorch Geometric
        theirs.embedding.weight.data.copy_(ours.weights)
        edges = torch.from_numpy(np.array(np.nonzero(dense_adjacency(R))))
        np.testing.assert_allclose(
            ours.propagate(ours.weights).numpy(),
            theirs.get_embedding(edges).detach().numpy(),
            atol=1e-6,
        )

    def test_node_without_edges_keeps_its_own_layer_alone(self):
        X = sp.csr_array(np.pad(R, ((0, 1), (0, 1))))
        whole = adjacency(normalized(X)).toarray()
        assert not whole[4].any()
        assert not whole[9].any()
        np.testing.assert_allclose(whole, whole.T)

    def test_hold_out_takes_the_floor_of_each_users_share(self, X):
        rows = sp.csr_array(X)
        hidden = hold_out(rows, 0.3, np.random.default_rng(0))
        parts = keep(rows, hidden), keep(rows, ~hidden)
        np.testing.assert_array_equal(np.diff(parts[0].indptr), np.floor(0.3 * X.sum(axis=1)))
        np.testing.assert_array_equal((parts[0] + parts[1]).toarray(), X)

    def test_negatives_are_uniform_over_the_items_the_user_has_not_touched(self):
        pairs = Pairs(sp.csr_array(R))
        drawn = pairs.negatives(np.repeat(np.int64(0), 8000), np.random.default_rng(0))
        shares = np.bincount(drawn, minlength=4) / 8000
        # four standard errors of a fair coin
        np.testing.assert_allclose(shares, [0, 0, 0.5, 0.5], atol=4 * 0.5 / np.sqrt(8000))

    def test_user_of_every_item_is_left_out_and_all_of_them_are_refused(self):
        X = np.array([[1, 1, 1], [1, 0, 0]])
        np.testing.assert_array_equal(Pairs(sp.csr_array(X)).users, [1])
        with pytest.raises(InvalidDataError, match="every user with interactions touched every"):
            LightGCN(2).fit(np.ones((3, 3)))


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
        heard: list[Epoch] = []
        refitted = quick(refit=True).fit(X, on_epoch=heard.append)
        best = fitted.best_epoch_
        assert [epoch.number for epoch in heard] == [*range(1, 13), *range(1, best + 1)]
        whole = quick(validation=0, max_epochs=best).fit(X)
        np.testing.assert_array_equal(refitted.item_factors_, whole.item_factors_)
        np.testing.assert_array_equal(refitted.validation_curve_, fitted.validation_curve_)
        assert not np.allclose(refitted.item_factors_, fitted.item_factors_)

    def test_validation_ndcg_is_that_of_the_lists_without_training_items(self):
        held_out = sp.csr_array(np.array([[0, 0, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]))
        ours = Trainer(
            Task(sp.csr_array(R), held_out),
            RECIPE,
            initial_state(Task(sp.csr_array(R), held_out), RECIPE, np.random.default_rng(0)),
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
        np.testing.assert_array_equal(training.judged_users(held_out), [1, 4, 7])

    def test_divergence_is_refused(self, X):
        with pytest.raises(SolverError, match=r"training diverged. Lower learning_rate=1e\+30"):
            quick(learning_rate=1e30).fit(X)

    def test_divergence_in_the_last_step_of_an_epoch_is_refused_too(self, X, monkeypatch):
        def spoil(run: Trainer) -> float:
            run.weights.data[0, 0] = float("inf")
            return 0.5  # the loss before the step that spoiled it

        monkeypatch.setattr(training.Trainer, "run_epoch", spoil)
        with pytest.raises(SolverError, match=r"loss was 0\.5 in epoch 1: training diverged"):
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

    def test_batches_are_an_eighth_of_the_edges_within_bounds(self):
        def batch(nnz: int, **settings) -> int:
            graph = sp.csr_array(np.ones((1, nnz)))
            return LightGCN(**settings)._recipe(Task(graph, None), 1).batch_size

        assert [batch(8), batch(8000), batch(10**6)] == [256, 1000, 32_768]
        assert batch(8000, batch_size=7) == 7

    def test_callers_hear_of_every_epoch(self, X):
        heard: list[Epoch] = []
        model = quick(max_epochs=3).fit(X, on_epoch=heard.append)
        assert [epoch.number for epoch in heard] == [1, 2, 3]
        np.testing.assert_array_equal([epoch.loss for epoch in heard], model.loss_curve_)

    def test_nothing_is_printed_where_stderr_is_no_terminal(self, X, capfd):
        quick(max_epochs=2, verbose=True).fit(X)
        assert capfd.readouterr() == ("", "")

    def test_asked_for_the_bar_shows_loss_and_ndcg(self, X, capfd, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes stderr for a terminal
        monkeypatch.setenv("COLUMNS", "120")
        quick(max_epochs=2, verbose=True).fit(X)
        printed = capfd.readouterr()
        assert printed.out == ""
        assert "loss 0." in printed.err
        assert "NDCG@20 0." in printed.err


class Interrupted(Exception):  # noqa: N818
    pass


class TestCheckpoint:
    def interrupt(self, at: int, epoch: Epoch) -> None:
        if epoch.number == at:
            raise Interrupted

    def test_interrupted_training_goes_on_to_the_same_bits(self, X, tmp_path, fitted):
        path, heard = tmp_path / "run.npz", []
        with pytest.raises(Interrupted):
            quick().fit(X, checkpoint=path, on_epoch=partial(self.interrupt, 11))
        resumed = quick().fit(X, checkpoint=path, on_epoch=heard.append)
        assert heard[0].number == 11
        np.testing.assert_array_equal(resumed.item_factors_, fitted.item_factors_)
        np.testing.assert_array_equal(resumed.loss_curve_, fitted.loss_curve_)
        assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]

    def test_interrupted_refit_goes_on_to_the_same_bits(self, X, tmp_path, monkeypatch):
        def rising(run: Trainer) -> float:  # the last epoch is the best
            steps = float(run.optimizer.state[run.weights]["step"])
            return steps if run.task.held_out is not None else float("nan")

        monkeypatch.setattr(training.Trainer, "ndcg", rising)
        settings, path = {"refit": True, "max_epochs": 13}, tmp_path / "run.npz"
        straight, heard = quick(**settings).fit(X, checkpoint=path), []
        resumed = quick(**settings).fit(X, checkpoint=path, on_epoch=heard.append)
        assert [epoch.number for epoch in heard] == [11, 12, 13, 11, 12, 13]
        assert {file.name for file in tmp_path.iterdir()} == {"run.npz", "run.npz.refit"}
        np.testing.assert_array_equal(resumed.item_factors_, straight.item_factors_)

    def test_longer_training_may_go_on_from_a_shorter_one(self, X, tmp_path, fitted):
        quick(max_epochs=10).fit(X, checkpoint=tmp_path / "run.npz")
        longer = quick().fit(X, checkpoint=tmp_path / "run.npz")
        np.testing.assert_array_equal(longer.item_factors_, fitted.item_factors_)

    def test_checkpoint_of_another_training_is_refused(self, X, tmp_path):
        path = tmp_path / "run.npz"
        quick(max_epochs=10).fit(X, checkpoint=path)
        for other in (quick(regularization=0.5), quick(random_state=1)):
            with pytest.raises(InvalidParameterError, match="belongs to another training"):
                other.fit(X, checkpoint=path)
        with pytest.raises(InvalidParameterError, match="belongs to another training"):
            quick().fit(1 - X, checkpoint=path)

    def test_damaged_checkpoint_is_refused(self, X, tmp_path):
        path = tmp_path / "run.npz"
        quick(max_epochs=10).fit(X, checkpoint=path)
        path.write_bytes(path.read_bytes()[:2000])
        with pytest.raises(ArtefactError, match="or a damaged one"):
            quick().fit(X, checkpoint=path)


class TestServing:
    def test_scores_of_known_rows_equal_a_hand_computation(self):
        model = LightGCN(2, max_epochs=3, validation=0, random_state=5).fit(R)
        # the same training, seen through the trainer: layer 0 after three epochs
        recipe = model._recipe(Task(sp.csr_array(R), None), 3)
        task, rng = Task(sp.csr_array(R), None), np.random.default_rng(5)
        hold_out(task.train, 0, rng)
        run = Trainer(task, recipe, initial_state(task, recipe, rng))
        for _ in range(3):
            run.run_epoch()
        E = mean_of_powers(dense_adjacency(R), 3) @ run.current()
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
        assert len(model.row_digests_) == len(np.unique(twins, axis=0)) == 59
        rng, task = np.random.default_rng(0), Task(sp.csr_array(twins), None)
        hold_out(task.train, 0, rng)
        recipe = model._recipe(task, 3)
        run = Trainer(task, recipe, initial_state(task, recipe, rng))
        for _ in range(3):
            run.run_epoch()
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
        known = fitted.explain(X[4], 7, N=None)
        own = fitted.user_factors(sp.csr_array(X[4:5])) - self.passed(fitted, X[4:5])
        assert known.rest == pytest.approx(float(own[0] @ fitted.item_factors_[7]), abs=1e-9)
        assert known.score == pytest.approx(known.contributions.sum() + known.rest)
        stranger = X[4].copy()
        stranger[0] = 0
        folded = fitted.explain(stranger, 7, N=None)
        assert folded.rest == pytest.approx(0, abs=1e-12)

    def test_checkerboard_top_one_is_the_one_item_left_out(self):
        X = (np.add.outer(np.arange(24), np.arange(24)) % 2 == 0).astype(float)
        np.fill_diagonal(X, 0)
        model = LightGCN(2, random_state=0).fit(X)
        np.testing.assert_array_equal(model.recommend(X, N=1).ids[:, 0], np.arange(24))

    def test_item_that_nobody_touched_is_similar_to_none(self, X):
        alone = X.copy()
        alone[:, 6] = 0
        model = quick(max_epochs=2).fit(alone)
        np.testing.assert_array_equal(model.similar_items(6, N=2).ids, [-1, -1])
        assert 6 not in model.similar_items(3, N=29).ids

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
            "import numpy as np; from equipoise.models.lightgcn import LightGCN\n"
            f"model = LightGCN.load({str(path)!r}); X = np.load({str(tmp_path / 'X.npy')!r})\n"
            "X[0, 0] = 0  # one row folded in\n"
            "print(json.dumps([model.recommend(X, N=5).ids.tolist(), model.best_epoch_]))"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        rows = X.copy()
        rows[0, 0] = 0
        ids, best_epoch = json.loads(run.stdout)
        np.testing.assert_array_equal(ids, fitted.recommend(rows, N=5).ids)
        assert best_epoch == fitted.best_epoch_

    def test_equal_models_are_saved_as_equal_bytes(self, X, tmp_path):
        paths = [quick(max_epochs=2).fit(X).save(tmp_path / f"{i}.eqp") for i in range(2)]
        assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("module", ["torch", "torch_geometric"])
def test_missing_extra_is_named_with_the_command_that_installs_it(X, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[lightgcn\]"'):
        quick().fit(X)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_components", 0),
        ("n_components", 2.5),
        ("n_layers", 0),
        ("learning_rate", 0),
        ("regularization", -1),
        ("batch_size", 0),
        ("max_epochs", 0),
        ("patience", 0),
        ("validation", 1.0),
        ("refit", "yes"),
        ("device", "tpu"),
        ("verbose", "yes"),
    ],
)
def test_bad_parameters_are_refused_by_name(X, parameter, value):
    with pytest.raises(InvalidParameterError, match=f"'{parameter}' parameter of LightGCN"):
        quick(**{parameter: value}).fit(X)


def test_more_components_than_items_are_refused(X):
    with pytest.raises(InvalidParameterError, match="n_components=31 must be at most the number"):
        quick(n_components=31).fit(X)

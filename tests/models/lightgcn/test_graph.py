"""The graph: propagation against dense powers, the hold-out, negatives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidDataError
from equipoise.models.peers.lightgcn import LightGCN, hold_out
from equipoise.models.peers.lightgcn_training import Pairs, adjacency, normalized
from tests.models.lightgcn.cases import (
    R,
    dense_adjacency,
    geometric,
    mean_of_powers,
    torch,
    trainer,
)


class TestGraph:
    @pytest.mark.parametrize("n_layers", [1, 2, 3])
    def test_propagation_equals_powers_of_the_dense_adjacency(self, n_layers):
        ours = trainer(n_layers=n_layers)
        expected = mean_of_powers(dense_adjacency(R), n_layers) @ ours.current()
        np.testing.assert_allclose(ours.propagate(ours.weights).numpy(), expected, atol=1e-6)

    def test_propagation_equals_the_model_with_its_own_normalization(self):
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
        taken = np.add.reduceat(hidden, rows.indptr[:-1])
        np.testing.assert_array_equal(taken, np.floor(0.3 * X.sum(axis=1)))

    def test_negatives_are_uniform_over_the_items_the_user_has_not_touched(self):
        pairs = Pairs(sp.csr_array(R))
        drawn = pairs.negatives(np.repeat(np.int64(0), 8000), np.random.default_rng(0))
        shares = np.bincount(drawn, minlength=4) / 8000
        # four standard errors of a fair coin
        np.testing.assert_allclose(shares, [0, 0, 0.5, 0.5], atol=4 * 0.5 / np.sqrt(8000))

    def test_user_of_every_item_is_left_out_and_all_of_them_are_refused(self):
        X = np.array([[1, 1, 1], [1, 0, 0]])
        np.testing.assert_array_equal(Pairs(sp.csr_array(X)).users, [1])
        with pytest.raises(InvalidDataError, match="has every item"):
            LightGCN(2).fit(np.ones((3, 3)))

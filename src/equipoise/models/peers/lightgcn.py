"""LightGCN (He et al. 2020): PyTorch Geometric trains it, NumPy alone serves it.

Users and items are nodes; each interaction is an edge. With R the 0/1 matrix and D_u, D_i the
degrees, one layer of LightGCN is the product with

    Ã = [[0, B], [Bᵀ, 0]],    B = D_u^−½ R D_i^−½.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import require_extra
from equipoise.models.estimator import clone
from equipoise.models.parameters import Count, NonNegative, Positive, RandomState, interval
from equipoise.models.peers.base import FactorModel
from equipoise.models.peers.baselines import hash_rows
from equipoise.models.peers.lightgcn_training import Task, Trained, normalized, train
from equipoise.models.user_rows import invert, transform_rows
from equipoise.progress import task as reported_task

# Relative to the mean eigenvalue: avoids a division by zero along directions without data.
_RIDGE = 1e-3


@dataclass(eq=False, repr=False)
class LightGCN(FactorModel):
    """Embeddings of users and items, smoothed over the graph of their interactions.

    Layer 0 is learned. Each further layer sums a node's neighbors, scaled by both degrees. A node's
    final embedding is the mean of its layers, and a score is the inner product:

        u⁽ᵏ⁺¹⁾ = Σ_{i ∈ u} v_i⁽ᵏ⁾ / √(d_u d_i),   u = (u⁽⁰⁾ + … + u⁽ᴷ⁾)/(K + 1),    ŷ_ui = ⟨u, v_i⟩

    where

    - i ∈ u are the items of user u, d_u how many there are, d_i how many users item i has;
    - K is `n_layers`; items are computed alike, from their users.

    Layer 0 minimizes the BPR loss, the mean over interactions (u, i), each with an item j drawn
    uniformly from those that u does not have, of

        −ln σ(ŷ_ui − ŷ_uj) + λ (‖u⁽⁰⁾‖² + ‖v_i⁽⁰⁾‖² + ‖v_j⁽⁰⁾‖²).

    The model and its layers are PyTorch Geometric's; Adam trains it. Needs
    ``pip install "equipoise[lightgcn]"`` to fit, and NumPy alone to load and to recommend.

    Parameters
    ----------
    n_components : int, default 64
        Length of an embedding: the rank.
    n_layers : int, default 3
        K.
    learning_rate : float, default 0.01
        Of Adam.
    regularization : float, default 1e-3
        λ. The authors' code halves the penalty, so its weight decay is 2λ.
    batch_size : int, optional
        Interactions per step; memory grows with it. By default an eighth of all, at least 256
        and at most 32,768: every step propagates the whole graph, so few large steps cost far
        less than many small ones.
    max_epochs : int, default 1000
        Passes over the interactions, at most.
    patience : int, default 30
        Training stops after this many epochs without a better NDCG@20 on the inner hold-out, and
        keeps the best epoch.
    validation : float, default 0.1
        Share of each user's items held out inside `fit` for early stopping; 0 trains for
        `max_epochs` and keeps the last epoch.
    refit : bool, default True
        Whether to train again on all interactions, for the number of epochs that early stopping
        found. Otherwise its embeddings, learned without the held-out items, are propagated over
        the graph of all interactions.
    device : {"auto", "cpu", "cuda"}
        "auto" uses a GPU if there is one.
    random_state : int, RandomState or None
        Seeds the hold-out, the first embeddings, the order and the negatives. None is a fixed
        seed. Same seed, same bits (on the same machine with the same number of threads).

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_components)
        Final embeddings of the items.
    item_messages_ : ndarray of shape (n_items, n_components)
        What each item contributes to a user who has it.
    fold_in_ : ndarray of shape (n_components, n_components)
        I + M, which maps f to the embedding of an unknown user.
    user_embeddings_, row_hashes_ : ndarray
        u⁽⁰⁾ / (K + 1) of each distinct row of the training data, and hashes to find it by.
    loss_curve_, validation_curve_ : ndarray of shape (n_epochs_,)
        Loss and NDCG@20 after each epoch until training stopped.
    n_epochs_, best_epoch_ : int
        Epochs until then, and the best of them.

    Notes
    -----
    *Values.* The graph is unweighted: values count as 0 or 1.

    *Users.* A row with exactly the items of a training user gets that user's embedding (the mean,
    if several users have the same row). Any other row is folded in: its layers 1 to K follow from
    its items, f = d^−½ Σ_i `item_messages_`_i. Its layer 0, which only training could learn, is
    estimated by the linear map M that fits the training users best,
    min_M Σ_u ‖u⁽⁰⁾/(K + 1) − f_u M‖² with a slight ridge. The loss of accuracy on the paper's
    MovieLens matrix is in ``benchmarks/results/lightgcn-movielens.md``, rank by rank.

    *Explanations.* The contributions of the user's items are listed item by item: for a folded-in
    row they are the whole score. For a known user, the learned layer 0 is part of `rest`.

    References
    ----------
    He, Deng, Wang, Li, Zhang and Wang, *LightGCN: Simplifying and Powering Graph Convolution
    Network for Recommendation*, SIGIR 2020. Rendle et al., *BPR: Bayesian Personalized Ranking
    from Implicit Feedback*, UAI 2009.
    """

    n_components: Count = 64
    _: KW_ONLY
    n_layers: Count = 3
    learning_rate: Positive = 0.01
    regularization: NonNegative = 1e-3
    batch_size: Count | None = None
    max_epochs: Count = 1000
    patience: Count = 30
    validation: Annotated[float, interval("[0, 1)")] = 0.1
    refit: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    random_state: RandomState = None

    def _fit(self, data: Interactions) -> None:
        """Train with early stopping, and again on all interactions if `refit`."""
        for module in ("torch", "torch_geometric"):
            require_extra(module, "lightgcn", "Fitting LightGCN")
        user_items = data.require_matrix(type(self).__name__)
        found = self._train(user_items, self.validation, self.max_epochs)
        self.loss_curve_, self.validation_curve_ = np.array(found.epochs).T
        self.n_epochs_, self.best_epoch_ = len(found.epochs), found.best
        weights = found.weights
        if self.refit and not np.isnan(self.validation_curve_[-1]):  # NaN: nothing was held out
            weights = self._train(user_items, 0.0, found.best).weights
        self._learn(user_items, weights)

    def _train(self, user_items: sp.csr_array, validation: float, max_epochs: int) -> Trained:
        """Run one training from the seed, without a share of each user's items."""
        rng = self._generator()
        hidden, data = hold_out(user_items, validation, rng), Interactions.wrap(user_items)
        task = Task(user_items)
        if hidden.any():
            task = Task(data.keep_entries(~hidden).matrix, data.keep_entries(hidden).matrix)
        settings = clone(self).set_params(max_epochs=max_epochs)
        # with early stopping the number of epochs is unknown
        total = None if validation else max_epochs
        with reported_task(self._progress, "Training", total) as training:
            return train(task, settings, rng, training)

    def _learn(self, user_items: sp.csr_array, weights: NDArray[Any]) -> None:
        """Compute what serving needs from layer 0 and the graph of all interactions."""
        self._propagate_items(normalized(user_items), weights)
        own = weights[: user_items.shape[0]] / np.float32(self.n_layers + 1)
        filled = np.flatnonzero(np.diff(user_items.indptr))
        rows = hash_rows(transform_rows(user_items, "binary"))[filled]
        self.row_hashes_, group, times = np.unique(rows, return_inverse=True, return_counts=True)
        sums = np.zeros((len(times), own.shape[1]))
        np.add.at(sums, group, own[filled])
        self.user_embeddings_ = (sums / times[:, None]).astype(own.dtype)
        # the linear map M from what items contribute to what users learned
        passed = user_shares(user_items) @ self.item_messages_
        gram, identity = passed.T @ passed, np.eye(own.shape[1])
        ridge = _RIDGE * np.trace(gram) / len(gram)
        self.fold_in_ = identity + np.linalg.solve(gram + ridge * identity, passed.T @ own)

    def _propagate_items(self, B: sp.csr_array, weights: NDArray[Any]) -> None:
        """Propagate layer 0 of users, then items, and keep the layers of the items.

        The factors of an item are (v⁽⁰⁾ + … + v⁽ᴷ⁾) / (K + 1), its messages
        d^−½ (v⁽⁰⁾ + … + v⁽ᴷ⁻¹⁾) / (K + 1): what it contributes to each of its users, before the
        user's own d^−½.
        """
        n_users, n_items = B.shape
        users, items = weights[:n_users], weights[n_users:].astype(np.float64)
        passed = np.zeros_like(items)
        for _ in range(self.n_layers):
            passed += items
            users, items = B @ items, B.T @ users
        own = invert(np.sqrt(np.bincount(B.indices, minlength=n_items)))[:, None]
        self.item_factors_ = (passed + items) / (self.n_layers + 1)
        self.item_messages_ = own * passed / (self.n_layers + 1)

    def user_factors(self, user_items: sp.csr_array) -> NDArray[np.float64]:
        """Return the final embeddings of users: as learned for known rows, else folded in."""
        passed, place = user_shares(user_items) @ self.item_messages_, self._places(user_items)
        learned, folded_in = passed + self.user_embeddings_[place], passed @ self.fold_in_
        return np.where(place[:, None] >= 0, learned, folded_in)

    def _places(self, user_items: sp.csr_array) -> NDArray[np.intp]:
        """Return which row of the training data each row is; −1 for none."""
        known, wanted = self.row_hashes_, hash_rows(transform_rows(user_items, "binary"))
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[at] == wanted, at, -1)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine of final embeddings; items without users have none that mean anything."""
        touched: NDArray[np.bool_] = np.any(self.item_messages_, axis=1)
        similarities = super()._similarities(item)
        return np.where(touched & touched[item], similarities, -np.inf)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        shares, direction = user_shares(user_items), self.item_factors_[item]
        if self._places(user_items)[0] < 0:
            direction = self.fold_in_ @ direction
        return shares.data * (self.item_messages_[shares.indices] @ direction)


def user_shares(user_items: sp.csr_array) -> sp.csr_array:
    """Return the rows with the value d_u^−½ at each of their items."""
    return transform_rows(user_items.astype(np.float64, copy=False), "binary", 0.5)


def hold_out(user_items: sp.csr_array, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark ⌊share · k⌋ of the k entries of every user, drawn at random.

    Examples
    --------
    >>> marked = hold_out(sp.csr_array(np.ones((1, 10))), 0.2, np.random.default_rng(0))
    >>> int(marked.sum())
    2
    """
    counts = np.diff(user_items.indptr)
    users = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((rng.random(user_items.nnz), users))
    place = np.empty(user_items.nnz, dtype=np.int64)
    place[order] = np.arange(user_items.nnz) - np.repeat(user_items.indptr[:-1], counts)
    return place < np.floor(share * counts)[users]

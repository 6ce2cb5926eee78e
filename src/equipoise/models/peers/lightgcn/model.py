"""LightGCN as an estimator: PyTorch Geometric trains it, NumPy alone serves it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import require_extra
from equipoise.models.estimator import clone
from equipoise.models.parameters import (
    Count,
    NonNegative,
    Positive,
    RandomState,
    estimator,
    interval,
)
from equipoise.models.peers.base import FactorModel
from equipoise.models.peers.lightgcn.graph import (
    KnownRows,
    hold_out,
    keep,
    linear_map,
    normalized,
    propagate_items,
    user_shares,
)
from equipoise.models.peers.lightgcn.training import (
    Epoch,
    Task,
    Trained,
    best_epoch,
    train,
)
from equipoise.progress import task as reported_task


@estimator
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
    validation: Annotated[float, interval(Real, 0, 1, closed="left")] = 0.1
    refit: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    random_state: RandomState = None

    def _fit(self, data: Interactions) -> None:
        """Train with early stopping, and again on all interactions if `refit`."""
        for module in ("torch", "torch_geometric"):
            require_extra(module, "lightgcn", "Fitting LightGCN")
        user_items = data.require_matrix(type(self).__name__)
        weights, epochs = self._train(user_items, self.validation, self.max_epochs)
        if self.refit and epochs[-1].ndcg == epochs[-1].ndcg:  # NaN: nothing was held out
            weights = self._train(user_items, 0.0, best_epoch(epochs)).weights
        self._learn(user_items, weights)
        self.loss_curve_ = np.array([epoch.loss for epoch in epochs])
        self.validation_curve_ = np.array([epoch.ndcg for epoch in epochs])
        self.n_epochs_, self.best_epoch_ = len(epochs), best_epoch(epochs)

    def user_factors(self, user_items: sp.csr_array) -> NDArray[np.float64]:
        """Return the final embeddings of users: as learned for known rows, else folded in."""
        passed = self._passed(user_items)
        place = self._places(user_items)
        known = place >= 0
        factors = np.empty_like(passed)
        factors[known] = passed[known] + self.user_embeddings_[place[known]]
        factors[~known] = passed[~known] @ self.fold_in_
        return factors

    def _train(self, user_items: sp.csr_array, validation: float, max_epochs: int) -> Trained:
        """Run one training from the seed."""
        rng = self._generator()
        task = _divide(user_items, validation, rng)
        settings = clone(self).set_params(max_epochs=max_epochs)
        # with early stopping the number of epochs is unknown
        total = None if validation else max_epochs
        with reported_task(self._progress, "Training", total) as training:

            def after(epoch: Epoch) -> None:
                training.note(f"epoch {epoch.number} of at most {max_epochs}, {epoch}")
                training.advance()

            return train(task, settings, rng, after)

    def _learn(self, user_items: sp.csr_array, weights: NDArray[Any]) -> None:
        """Compute what serving needs from layer 0 and the graph of all interactions."""
        items = propagate_items(normalized(user_items), weights, self.n_layers)
        own = weights[: user_items.shape[0]] / np.float32(self.n_layers + 1)
        known = KnownRows.of(user_items, own)
        self.item_factors_, self.item_messages_ = items.mean, items.messages
        self.row_hashes_, self.user_embeddings_ = known
        self.fold_in_ = np.eye(own.shape[1]) + linear_map(self._passed(user_items), own)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine of final embeddings; items without users have none that mean anything."""
        touched: NDArray[np.bool_] = np.any(self.item_messages_, axis=1)
        similarities = super()._similarities(item)
        return np.where(touched & touched[item], similarities, -np.inf)

    def _passed(self, user_items: sp.csr_array) -> NDArray[np.float64]:
        """Return f: the contribution of the items of each row to its user."""
        return user_shares(user_items) @ self.item_messages_

    def _places(self, user_items: sp.csr_array) -> NDArray[np.intp]:
        """Return which known row each row is; −1 for none."""
        return KnownRows(self.row_hashes_, self.user_embeddings_).find(user_items)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        shares, direction = user_shares(user_items), self.item_factors_[item]
        if self._places(user_items)[0] < 0:
            direction = self.fold_in_ @ direction
        return shares.data * (self.item_messages_[shares.indices] @ direction)


def _divide(user_items: sp.csr_array, share: float, rng: np.random.Generator) -> Task:
    """Hold out a share of each user's items, if there are enough of them."""
    hidden = hold_out(user_items, share, rng)
    if not hidden.any():
        return Task(user_items, None)
    return Task(keep(user_items, ~hidden), keep(user_items, hidden))

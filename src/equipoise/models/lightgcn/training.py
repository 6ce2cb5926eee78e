"""Training: PyTorch Geometric's LightGCN, BPR on sampled pairs, early stopping.

PyTorch is imported by who calls `train`, and handed in: this module can be imported without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import SolverError, require_extra
from equipoise.metrics.ranking import ndcg_at_k
from equipoise.models.lightgcn.graph import Pairs, adjacency, normalized
from equipoise.models.ranking import rank_items

Floats = NDArray[np.floating[Any]]
# PyTorch is an extra, and type checking must not need it.
Tensor = Any

K = 20
# Enough users to tell epochs apart (a standard error of NDCG around 0.003), and few enough that
# scoring them takes a small part of an epoch on large data.
VALIDATION_USERS = 10_000


@dataclass(frozen=True)
class Recipe:
    """How to train; the estimator's parameters."""

    n_components: int
    n_layers: int
    learning_rate: float
    regularization: float
    batch_size: int
    max_epochs: int
    patience: int
    device: str


class Epoch(NamedTuple):
    """One pass over the training edges.

    Attributes
    ----------
    number : int
        From 1.
    loss : float
        Mean of BPR loss and regularization over the batches.
    ndcg : float
        NDCG@20 on the inner hold-out; NaN without one.
    best : bool
        Whether no epoch before was as good.

    Examples
    --------
    >>> print(Epoch(number=3, loss=0.51234, ndcg=0.2, best=True))
    loss 0.5123, NDCG@20 0.2000
    >>> print(Epoch(number=3, loss=0.5, ndcg=float("nan"), best=True))
    loss 0.5000
    """

    number: int
    loss: float
    ndcg: float
    best: bool

    def __str__(self) -> str:
        judged = self.ndcg == self.ndcg
        return f"loss {self.loss:.4f}" + (f", NDCG@20 {self.ndcg:.4f}" if judged else "")


@dataclass
class State:
    """All that the next epoch depends on, so that training can stop here and go on later."""

    weights: Floats
    moments: tuple[Floats, Floats]
    best_weights: Floats
    epochs: list[Epoch]
    generator: Mapping[str, Any]


class Trained(NamedTuple):
    """Layer 0 at the best epoch, and the epochs that led to it and beyond."""

    weights: Floats
    epochs: list[Epoch]


class Task(NamedTuple):
    """What to learn from, and what to be judged by."""

    train: sp.csr_array
    held_out: sp.csr_array | None


def initial_state(task: Task, recipe: Recipe, rng: np.random.Generator) -> State:
    """Layer 0 drawn as PyTorch Geometric draws it: uniform, by Glorot and Bengio's bound."""
    n_nodes, rank = sum(task.train.shape), recipe.n_components
    bound = np.sqrt(6 / (n_nodes + rank))
    weights = rng.uniform(-bound, bound, (n_nodes, rank)).astype(np.float32)
    moments = (np.zeros_like(weights), np.zeros_like(weights))
    return State(weights, moments, weights.copy(), [], dict(rng.bit_generator.state))


class Trainer:
    """PyTorch Geometric's model with its optimizer, one epoch at a time.

    Parameters
    ----------
    task : Task
        The graph to train on.
    recipe : Recipe
        How.
    state : State
        Where to begin.
    """

    def __init__(self, task: Task, recipe: Recipe, state: State) -> None:
        self.torch: Any = require_extra("torch", "lightgcn", "LightGCN")
        self.task, self.recipe = task, recipe
        self.pairs = Pairs(task.train)
        self.device = _device(self.torch, recipe.device)
        self.adjacency = sparse_tensor(self.torch, adjacency(normalized(task.train)), self.device)
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = state.generator
        self.model = build_model(self.torch, sum(task.train.shape), recipe).to(self.device)
        self.weights = self.model.embedding.weight
        self.optimizer = self.torch.optim.Adam([self.weights], lr=recipe.learning_rate)
        self._resume(state)

    def run_epoch(self) -> float:
        """Learn from every edge once, in random order; return the mean loss."""
        order = self.rng.permutation(len(self.pairs))
        total = 0.0
        for start in range(0, len(order), self.recipe.batch_size):
            chosen = order[start : start + self.recipe.batch_size]
            users, liked = self.pairs.users[chosen], self.pairs.items[chosen]
            others = self.pairs.negatives(users, self.rng)
            total += self.step(users, liked, others) * len(chosen)
        return total / len(order)

    def step(self, users: NDArray[Any], liked: NDArray[Any], others: NDArray[Any]) -> float:
        """One step of Adam on a batch of triples; return its loss."""
        final = self.propagate(self.weights).requires_grad_()
        loss = self.loss(final, users, liked, others)
        self.optimizer.zero_grad()
        loss.backward()
        # Propagation is linear and symmetric, so what it does to embeddings it does to gradients.
        # PyTorch's own backward would transpose the graph at every layer of every step.
        with self.torch.no_grad():
            self.weights.grad.add_(self.propagate(final.grad))
        self.optimizer.step()
        return float(loss.detach())

    def loss(
        self, final: Tensor, users: NDArray[Any], liked: NDArray[Any], others: NDArray[Any]
    ) -> Tensor:
        """BPR: mean of −ln σ(ŷ_ui − ŷ_uj) + λ(‖u‖² + ‖i‖² + ‖j‖²) of layer 0 over the triples."""
        n_users = self.task.train.shape[0]
        u, i, j = (
            self.torch.from_numpy(nodes).to(self.device)
            for nodes in (users, liked + n_users, others + n_users)
        )
        vectors = final.index_select(0, u)
        positive = (vectors * final.index_select(0, i)).sum(1)
        negative = (vectors * final.index_select(0, j)).sum(1)
        bpr = self.model.recommendation_loss(positive, negative, lambda_reg=0.0)
        times = self.torch.bincount(self.torch.cat([u, i, j]), minlength=len(final))
        penalty = self.weights.square().sum(1) @ times.to(final.dtype) / len(users)
        return bpr + self.recipe.regularization * penalty

    def propagate(self, x: Tensor) -> Tensor:
        """α (x + Ãx + … + Ãᴷx), by the model's own layers."""
        with self.torch.no_grad():
            total = x * self.model.alpha[0]
            for layer, share in zip(self.model.convs, self.model.alpha[1:], strict=True):
                x = layer(x, self.adjacency)
                total.add_(x * share)
        return total

    def ndcg(self) -> float:
        """NDCG@20 on the inner hold-out; NaN without one."""
        if self.task.held_out is None:
            return float("nan")
        final = self.propagate(self.weights).cpu().numpy()
        n_users, n_items = self.task.train.shape
        users = judged_users(self.task.held_out)
        vectors, items = final[users], final[n_users:].T
        ranking = rank_items(
            lambda rows: vectors[rows] @ items,
            len(users),
            n_items,
            K,
            seen=self.task.train[users],
            excluded=None,
        )
        return float(ndcg_at_k(ranking.ids, self.task.held_out[users], K).value)

    def state(self, best_weights: Floats, epochs: list[Epoch]) -> State:
        """Copy what the next epoch depends on."""
        kept = self.optimizer.state[self.weights]
        moments = tuple(kept[name].cpu().numpy().copy() for name in ("exp_avg", "exp_avg_sq"))
        return State(
            self.current(),
            (moments[0], moments[1]),
            best_weights,
            epochs,
            self.rng.bit_generator.state,
        )

    def current(self) -> Floats:
        """A copy of layer 0 as it is now."""
        copied: Floats = self.weights.detach().cpu().numpy().copy()
        return copied

    def is_finite(self) -> bool:
        """Whether layer 0 holds numbers alone."""
        return bool(self.torch.isfinite(self.weights).all())

    def _resume(self, state: State) -> None:
        with self.torch.no_grad():
            self.weights.copy_(self.torch.from_numpy(state.weights))
        if not state.epochs:
            return
        batches = -(-len(self.pairs) // self.recipe.batch_size)
        self.optimizer.state[self.weights] = {
            "step": self.torch.tensor(float(len(state.epochs) * batches)),
            "exp_avg": self.torch.from_numpy(state.moments[0].copy()).to(self.device),
            "exp_avg_sq": self.torch.from_numpy(state.moments[1].copy()).to(self.device),
        }


def train(
    task: Task,
    recipe: Recipe,
    state: State,
    after: Callable[[Epoch, Callable[[], State]], None],
) -> Trained:
    """Run epochs until `patience` of them brought nothing better, or `max_epochs` are over.

    Parameters
    ----------
    task, recipe, state
        What, how, from where.
    after : callable
        Gets each epoch, and a function that makes the state to save.
    """
    trainer = Trainer(task, recipe, state)
    epochs, best_weights = list(state.epochs), state.best_weights
    with reproducible(trainer.torch):
        while not finished(epochs, recipe):
            epochs.append(_next_epoch(trainer, epochs))
            if epochs[-1].best:
                best_weights = trainer.current()
            after(epochs[-1], partial(trainer.state, best_weights, epochs))
    return Trained(best_weights, epochs)


def _next_epoch(trainer: Trainer, before: list[Epoch]) -> Epoch:
    number, loss = len(before) + 1, trainer.run_epoch()
    if not (np.isfinite(loss) and trainer.is_finite()):
        raise SolverError(
            f"LightGCN's loss was {loss} in epoch {number}: training diverged. "
            f"Lower learning_rate={trainer.recipe.learning_rate}."
        )
    ndcg = trainer.ndcg()
    # without a hold-out NDCG is NaN, below nothing: the latest epoch is the best
    return Epoch(number, loss, ndcg, not ndcg <= max((e.ndcg for e in before), default=-1.0))


def best_epoch(epochs: list[Epoch]) -> int:
    """Number of the epoch whose weights are kept; 0 before the first."""
    return max((epoch.number for epoch in epochs if epoch.best), default=0)


def finished(epochs: list[Epoch], recipe: Recipe) -> bool:
    """Whether training is over."""
    waited = len(epochs) - best_epoch(epochs)
    return len(epochs) >= recipe.max_epochs or waited >= recipe.patience


def judged_users(held_out: sp.csr_array) -> NDArray[np.intp]:
    """Users with held-out items, evenly spread over the rows if there are very many."""
    users = np.flatnonzero(np.diff(held_out.indptr))
    step = -(-len(users) // VALIDATION_USERS)
    return users[:: max(1, step)]


def build_model(torch: Any, n_nodes: int, recipe: Recipe) -> Any:
    """PyTorch Geometric's LightGCN; the graph it is given is normalised already."""
    nn = require_extra("torch_geometric.nn", "lightgcn", "LightGCN")
    with torch.random.fork_rng(devices=[]):  # it draws weights, which are replaced, off our seed
        return nn.LightGCN(n_nodes, recipe.n_components, recipe.n_layers, normalize=False)


def sparse_tensor(torch: Any, matrix: sp.csr_array, device: Any) -> Tensor:
    """A torch CSR tensor of 32-bit floats."""
    with warnings.catch_warnings():  # CSR has been "in beta state" since 2021
        warnings.filterwarnings("ignore", message=".*(beta|invariant).*")
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            matrix.shape,
            check_invariants=False,
        ).to(device)


@contextmanager
def reproducible(torch: Any) -> Iterator[None]:
    """Ask for deterministic kernels, and leave PyTorch as it was."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


def _device(torch: Any, wanted: str) -> Any:
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(wanted)

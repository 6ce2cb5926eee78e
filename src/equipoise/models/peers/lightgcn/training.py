"""Training: PyTorch Geometric's LightGCN, BPR on sampled pairs, early stopping.

PyTorch is imported when a `Trainer` is created: this module can be imported without it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import SolverError, require_extra
from equipoise.metrics.ranking import ndcg_at_k
from equipoise.models.peers.lightgcn.graph import Pairs, adjacency, normalized
from equipoise.models.ranking import rank_items

if TYPE_CHECKING:
    from equipoise.models.peers.lightgcn.model import LightGCN

Floats = NDArray[np.floating[Any]]
# PyTorch is an extra: type checking must work without it.
Tensor = Any

K = 20
# Enough users to compare epochs (the standard error of NDCG is about 0.003), and few enough that
# scoring them takes a small part of an epoch on large data.
VALIDATION_USERS = 10_000

_STEPS, _SMALLEST_BATCH, _LARGEST_BATCH = 8, 256, 32_768


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


class Trained(NamedTuple):
    """Layer 0 at the best epoch, and all epochs."""

    weights: Floats
    epochs: list[Epoch]


class Task(NamedTuple):
    """Training data, and held-out items for early stopping."""

    train: sp.csr_array
    held_out: sp.csr_array | None


def initial_weights(task: Task, settings: LightGCN, rng: np.random.Generator) -> Floats:
    """Layer 0 drawn as PyTorch Geometric draws it: uniform, by Glorot and Bengio's bound."""
    shape = sum(task.train.shape), settings.n_components
    bound = np.sqrt(6 / sum(shape))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


class Trainer:
    """PyTorch Geometric's model with its optimizer, one epoch at a time.

    Parameters
    ----------
    task : Task
        The graph to train on.
    settings : LightGCN
        The model whose parameters are used.
    rng : numpy.random.Generator
        Draws layer 0, the order of the edges and the negatives.
    """

    def __init__(self, task: Task, settings: LightGCN, rng: np.random.Generator) -> None:
        self.torch: Any = require_extra("torch", "lightgcn", "LightGCN")
        self.task, self.settings = task, settings
        self.pairs = Pairs(task.train)
        self.device = _device(self.torch, settings.device)
        self.adjacency = sparse_tensor(self.torch, adjacency(normalized(task.train)), self.device)
        self.rng = rng
        self.model = build_model(self.torch, sum(task.train.shape), settings).to(self.device)
        self.weights = self.model.embedding.weight
        self.optimizer = self.torch.optim.Adam([self.weights], lr=settings.learning_rate)
        with self.torch.no_grad():
            drawn = self.torch.from_numpy(initial_weights(task, settings, rng))
            self.weights.copy_(drawn)

    def run_epoch(self) -> float:
        """Learn from every edge once, in random order; return the mean loss."""
        order = self.rng.permutation(len(self.pairs))
        step = self.settings.batch_size or default_batch_size(self.task.train.nnz)
        total = 0.0
        for start in range(0, len(order), step):
            chosen = order[start : start + step]
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
        # Propagation is linear and symmetric, so gradients propagate like embeddings. PyTorch's own
        # backward pass would transpose the graph at every layer of every step.
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
        return bpr + self.settings.regularization * penalty

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
        users = validation_users(self.task.held_out)
        vectors, items = final[users], final[n_users:].T
        ranking = rank_items(
            lambda rows: vectors[rows] @ items,
            len(users),
            n_items,
            K,
            seen=self.task.train[users],
        )
        return float(ndcg_at_k(ranking.ids, self.task.held_out[users], K).value)

    def current(self) -> Floats:
        """Return a copy of the current layer 0."""
        return self.weights.detach().cpu().numpy().copy()

    def is_finite(self) -> bool:
        """Whether layer 0 has only finite numbers."""
        return bool(self.torch.isfinite(self.weights).all())


def default_batch_size(n_edges: int) -> int:
    """Return an eighth of the edges, within bounds.

    Examples
    --------
    >>> [default_batch_size(n) for n in (8, 8000, 10**6)]
    [256, 1000, 32768]
    """
    return min(max(-(-n_edges // _STEPS), _SMALLEST_BATCH), _LARGEST_BATCH)


def train(
    task: Task,
    settings: LightGCN,
    rng: np.random.Generator,
    after: Callable[[Epoch], None],
) -> Trained:
    """Run epochs until `patience` of them brought no improvement, or `max_epochs` are over.

    Parameters
    ----------
    task, settings, rng
        As for `Trainer`.
    after : callable
        Called with each epoch.
    """
    trainer = Trainer(task, settings, rng)
    epochs: list[Epoch] = []
    best_weights = trainer.current()
    with reproducible(trainer.torch):
        while not finished(epochs, settings):
            epochs.append(_next_epoch(trainer, epochs))
            if epochs[-1].best:
                best_weights = trainer.current()
            after(epochs[-1])
    return Trained(best_weights, epochs)


def _next_epoch(trainer: Trainer, before: list[Epoch]) -> Epoch:
    number, loss = len(before) + 1, trainer.run_epoch()
    if not (np.isfinite(loss) and trainer.is_finite()):
        raise SolverError(
            f"LightGCN's loss was {loss} in epoch {number}: training diverged. "
            f"Lower learning_rate={trainer.settings.learning_rate}."
        )
    ndcg = trainer.ndcg()
    # without a hold-out NDCG is NaN, which is not <= anything: the last epoch is the best
    return Epoch(number, loss, ndcg, not ndcg <= max((e.ndcg for e in before), default=-1.0))


def best_epoch(epochs: list[Epoch]) -> int:
    """Number of the epoch whose weights are kept; 0 before the first."""
    return max((epoch.number for epoch in epochs if epoch.best), default=0)


def finished(epochs: list[Epoch], settings: LightGCN) -> bool:
    """Whether training is over."""
    waited = len(epochs) - best_epoch(epochs)
    return len(epochs) >= settings.max_epochs or waited >= settings.patience


def validation_users(held_out: sp.csr_array) -> NDArray[np.intp]:
    """Return the users with held-out items; an evenly spaced sample if there are many."""
    users = np.flatnonzero(np.diff(held_out.indptr))
    step = -(-len(users) // VALIDATION_USERS)
    return users[:: max(1, step)]


def build_model(torch: Any, n_nodes: int, settings: LightGCN) -> Any:
    """Return PyTorch Geometric's LightGCN; it receives a graph that is already normalized."""
    nn = require_extra("torch_geometric.nn", "lightgcn", "LightGCN")
    with torch.random.fork_rng(devices=[]):  # it draws weights, which are replaced
        size, layers = int(settings.n_components), int(settings.n_layers)
        return nn.LightGCN(n_nodes, size, layers, normalize=False)


def sparse_tensor(torch: Any, matrix: sp.csr_array, device: Any) -> Tensor:
    """Return a torch CSR tensor of 32-bit floats."""
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
    """Use deterministic kernels, and restore the setting of PyTorch afterwards."""
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

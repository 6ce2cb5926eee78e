"""Training of LightGCN: PyTorch Geometric's model, BPR on sampled pairs, early stopping."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError, SolverError, require_extra
from equipoise.metrics.ranking import ndcg_at_k
from equipoise.models.ranking import rank_items
from equipoise.models.user_rows import normalize_degrees, transform_rows
from equipoise.progress import Progress

if TYPE_CHECKING:
    from equipoise.models.peers.lightgcn import LightGCN

Integers = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]
# PyTorch is an extra: type checking must work without it.
Tensor = Any

K = 20
# Enough users to compare epochs (the standard error of NDCG is about 0.003), and few enough that
# scoring them takes a small part of an epoch on large data.
VALIDATION_USERS = 10_000

_STEPS, _SMALLEST_BATCH, _LARGEST_BATCH = 8, 256, 32_768


class Trained(NamedTuple):
    """Layer 0 at the best epoch, its number, and of all epochs the loss and NDCG@20, or NaN."""

    weights: Floats
    best: int
    epochs: list[tuple[float, float]]


class Task(NamedTuple):
    """Training data, and held-out items for early stopping."""

    train: sp.csr_array
    held_out: sp.csr_array | None = None


def normalized(user_items: sp.csr_array) -> sp.csr_array:
    """B = D_u^−½ R D_i^−½ of the 0/1 matrix R; every stored entry is an edge."""
    return normalize_degrees(transform_rows(user_items.astype(np.float64, copy=False), "binary"))


def adjacency(B: sp.csr_array) -> sp.csr_array:
    """Ã over users, then items."""
    whole = sp.csr_array(sp.block_array([[None, B], [B.T, None]], format="csr"))
    whole.sort_indices()
    return whole


class Pairs:
    """Training edges, and negative items for them.

    Parameters
    ----------
    user_items : csr_array
        In canonical form. Users with every item have no negative item: their edges are omitted.
    """

    def __init__(self, user_items: sp.csr_array) -> None:
        n_users, self.n_items = user_items.shape
        counts = np.diff(user_items.indptr)
        every = np.repeat(np.arange(n_users, dtype=np.int64), counts)
        usable = (counts < self.n_items)[every]
        self.users: Integers = every[usable]
        self.items: Integers = user_items.indices[usable].astype(np.int64)
        # ascending, as rows and columns are: searched by bisection
        self._edges: Integers = self.users * self.n_items + self.items
        if len(self.users) == 0:
            raise InvalidDataError(
                "LightGCN compares an item of each user with one that the user does not have, and "
                "every user with interactions has every item. Pass data with items left to "
                "recommend."
            )

    def __len__(self) -> int:
        return len(self.users)

    def negatives(self, users: Integers, rng: np.random.Generator) -> Integers:
        """Draw one item per user, uniformly among those that the user does not have."""
        drawn, again = np.empty(len(users), np.int64), np.arange(len(users))
        while len(again):
            drawn[again] = rng.integers(self.n_items, size=len(again))
            wanted = users[again] * self.n_items + drawn[again]
            at = np.minimum(np.searchsorted(self._edges, wanted), len(self._edges) - 1)
            again = again[self._edges[at] == wanted]
        return drawn


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
        torch: Any = require_extra("torch", "lightgcn", "LightGCN")
        nn = require_extra("torch_geometric.nn", "lightgcn", "LightGCN")
        self.torch, self.task, self.settings, self.rng = torch, task, settings, rng
        self.pairs = Pairs(task.train)
        auto = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(auto if settings.device == "auto" else settings.device)
        whole = adjacency(normalized(task.train))
        self.adjacency = sparse_tensor(torch, whole).to(self.device)
        shape = int(whole.shape[0]), int(settings.n_components)
        with torch.random.fork_rng(devices=[]):  # it draws weights, which are replaced
            model = nn.LightGCN(*shape, int(settings.n_layers), normalize=False)
        self.model = model.to(self.device)
        self.weights = self.model.embedding.weight
        self.optimizer = torch.optim.Adam([self.weights], lr=settings.learning_rate)
        # layer 0 as PyTorch Geometric draws it: uniform, by Glorot and Bengio's bound
        bound = np.sqrt(6 / sum(shape))
        drawn = rng.uniform(-bound, bound, shape).astype(np.float32)
        with torch.no_grad():
            self.weights.copy_(torch.from_numpy(drawn))

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
        seen = self.task.train[users]
        ranking = rank_items(lambda at: vectors[at] @ items, len(users), n_items, K, seen=seen)
        return float(ndcg_at_k(ranking.ids, self.task.held_out[users], K).value)

    def current(self) -> Floats:
        """Return a copy of the current layer 0."""
        return self.weights.detach().cpu().numpy().copy()


def default_batch_size(n_edges: int) -> int:
    """Return an eighth of the edges, within bounds.

    Examples
    --------
    >>> [default_batch_size(n) for n in (8, 8000, 10**6)]
    [256, 1000, 32768]
    """
    return min(max(-(-n_edges // _STEPS), _SMALLEST_BATCH), _LARGEST_BATCH)


def train(task: Task, settings: LightGCN, rng: np.random.Generator, progress: Progress) -> Trained:
    """Run epochs until `patience` of them brought no improvement, or `max_epochs` are over.

    Parameters
    ----------
    task, settings, rng
        As for `Trainer`.
    progress : Progress
        Advances by one per epoch.
    """
    trainer = Trainer(task, settings, rng)
    epochs: list[tuple[float, float]] = []
    best, highest, weights = 0, -1.0, trainer.current()
    with reproducible(trainer.torch):
        while len(epochs) < settings.max_epochs and len(epochs) - best < settings.patience:
            number = len(epochs) + 1
            loss = trainer.run_epoch()
            if not (np.isfinite(loss) and np.isfinite(trainer.current()).all()):
                raise SolverError(
                    f"LightGCN's loss was {loss} in epoch {number}: training diverged. "
                    f"Lower learning_rate={settings.learning_rate}."
                )
            ndcg = trainer.ndcg()
            epochs.append((loss, ndcg))
            # without a hold-out NDCG is NaN, which is not <= anything: the last epoch is the best
            if not ndcg <= highest:
                best, highest, weights = number, ndcg, trainer.current()
            judged = "" if np.isnan(ndcg) else f", NDCG@20 {ndcg:.4f}"
            limit = settings.max_epochs
            progress.note(f"epoch {number} of at most {limit}, loss {loss:.4f}{judged}")
            progress.advance()
    return Trained(weights, best, epochs)


def validation_users(held_out: sp.csr_array) -> NDArray[np.intp]:
    """Return the users with held-out items; an evenly spaced sample if there are many."""
    users = np.flatnonzero(np.diff(held_out.indptr))
    step = -(-len(users) // VALIDATION_USERS)
    return users[:: max(1, step)]


def sparse_tensor(torch: Any, matrix: sp.csr_array) -> Tensor:
    """Return a torch CSR tensor of 32-bit floats."""
    indices = [part.astype(np.int64) for part in (matrix.indptr, matrix.indices)]
    parts = [*indices, matrix.data.astype(np.float32)]
    with warnings.catch_warnings():  # CSR has been "in beta state" since 2021
        warnings.filterwarnings("ignore", message=".*(beta|invariant).*")
        return torch.sparse_csr_tensor(
            *map(torch.from_numpy, parts), matrix.shape, check_invariants=False
        )


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

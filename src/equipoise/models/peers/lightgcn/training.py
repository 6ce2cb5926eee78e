"""Training: PyTorch Geometric's LightGCN, BPR on sampled pairs, early stopping, checkpoints.

PyTorch is imported when a `Trainer` is created: this module can be imported without it.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.array_files import ArrayArchive, refuse_damage
from equipoise.exceptions import (
    ArtifactError,
    InvalidParameterError,
    SolverError,
    require_extra,
)
from equipoise.files import write_whole
from equipoise.metrics.ranking import ndcg_at_k
from equipoise.models.peers.lightgcn.graph import Pairs, adjacency, normalized
from equipoise.models.ranking import rank_items

Floats = NDArray[np.floating[Any]]
# PyTorch is an extra: type checking must work without it.
Tensor = Any

K = 20
# Enough users to compare epochs (the standard error of NDCG is about 0.003), and few enough that
# scoring them takes a small part of an epoch on large data.
VALIDATION_USERS = 10_000


@dataclass(frozen=True)
class Settings:
    """The parameters of one training."""

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
    """Everything that the next epoch depends on: training can resume from it."""

    weights: Floats
    moments: tuple[Floats, Floats]
    best_weights: Floats
    epochs: list[Epoch]
    generator: Mapping[str, Any]


class Trained(NamedTuple):
    """Layer 0 at the best epoch, and all epochs."""

    weights: Floats
    epochs: list[Epoch]


class Task(NamedTuple):
    """Training data, and held-out items for early stopping."""

    train: sp.csr_array
    held_out: sp.csr_array | None


def initial_state(task: Task, settings: Settings, rng: np.random.Generator) -> State:
    """Layer 0 drawn as PyTorch Geometric draws it: uniform, by Glorot and Bengio's bound."""
    n_nodes, rank = sum(task.train.shape), settings.n_components
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
    settings : Settings
        The parameters.
    state : State
        Where to start.
    """

    def __init__(self, task: Task, settings: Settings, state: State) -> None:
        self.torch: Any = require_extra("torch", "lightgcn", "LightGCN")
        self.task, self.settings = task, settings
        self.pairs = Pairs(task.train)
        self.device = _device(self.torch, settings.device)
        self.adjacency = sparse_tensor(self.torch, adjacency(normalized(task.train)), self.device)
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = state.generator
        self.model = build_model(self.torch, sum(task.train.shape), settings).to(self.device)
        self.weights = self.model.embedding.weight
        self.optimizer = self.torch.optim.Adam([self.weights], lr=settings.learning_rate)
        self._resume(state)

    def run_epoch(self) -> float:
        """Learn from every edge once, in random order; return the mean loss."""
        order = self.rng.permutation(len(self.pairs))
        total = 0.0
        for start in range(0, len(order), self.settings.batch_size):
            chosen = order[start : start + self.settings.batch_size]
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
            excluded=None,
        )
        return float(ndcg_at_k(ranking.ids, self.task.held_out[users], K).value)

    def state(self, best_weights: Floats, epochs: list[Epoch]) -> State:
        """Return a copy of everything that the next epoch depends on."""
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
        """Return a copy of the current layer 0."""
        copied: Floats = self.weights.detach().cpu().numpy().copy()
        return copied

    def is_finite(self) -> bool:
        """Whether layer 0 has only finite numbers."""
        return bool(self.torch.isfinite(self.weights).all())

    def _resume(self, state: State) -> None:
        with self.torch.no_grad():
            self.weights.copy_(self.torch.from_numpy(state.weights))
        if not state.epochs:
            return
        batches = -(-len(self.pairs) // self.settings.batch_size)
        self.optimizer.state[self.weights] = {
            "step": self.torch.tensor(float(len(state.epochs) * batches)),
            "exp_avg": self.torch.from_numpy(state.moments[0].copy()).to(self.device),
            "exp_avg_sq": self.torch.from_numpy(state.moments[1].copy()).to(self.device),
        }


class Checkpoint:
    """A file to resume an interrupted training from: an .npz archive, no pickle.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    task, settings, state
        The training that it belongs to, at its start.
    """

    def __init__(self, path: Path, task: Task, settings: Settings, state: State) -> None:
        self.path = path
        self.identity = _identity(task, settings, state)

    def load(self) -> State | None:
        """Return the state that was saved last, or None if there is no file.

        Raises
        ------
        InvalidParameterError
            If the file belongs to other data, parameters or another seed.
        ArtifactError
            If it is damaged.
        """
        if not self.path.exists():
            return None
        advice = "Delete it to train from the start, or choose another file."
        with (
            refuse_damage(self.path, "a LightGCN checkpoint", advice, ArtifactError),
            ArrayArchive(self.path) as stored,
        ):
            facts = json.loads(stored.array("facts").item())
            moments = stored.array("first_moment"), stored.array("second_moment")
            state = State(
                stored.array("weights"),
                moments,
                stored.array("best_weights"),
                [Epoch(*epoch) for epoch in facts["epochs"]],
                facts["generator"],
            )
        if facts["identity"] != self.identity:
            raise InvalidParameterError(
                f"{self.path} belongs to another training: other data, parameters or seed. {advice}"
            )
        return state

    def save(self, state: State) -> None:
        """Replace the saved state."""
        facts = json.dumps(
            {"identity": self.identity, "epochs": state.epochs, "generator": state.generator}
        )

        def fill(file: IO[bytes]) -> None:
            np.savez(
                file,
                facts=np.array(facts),
                weights=state.weights,
                first_moment=state.moments[0],
                second_moment=state.moments[1],
                best_weights=state.best_weights,
            )

        write_whole(self.path, fill)


# How long to train, and where, may change between two runs of the same training
_FREE_SETTINGS = ("max_epochs", "patience", "device")


def _identity(task: Task, settings: Settings, state: State) -> str:
    """Hash the settings, the seed and the data of a training."""
    fixed = {k: v for k, v in asdict(settings).items() if k not in _FREE_SETTINGS}
    text = json.dumps([fixed, state.generator, task.train.shape], sort_keys=True, default=int)
    digest = hashlib.sha256(text.encode())
    for part in (task.train, task.held_out):
        if part is not None:
            digest.update(part.indptr.astype("<i8").data)
            digest.update(part.indices.astype("<i8").data)
    return digest.hexdigest()


def train(
    task: Task,
    settings: Settings,
    state: State,
    after: Callable[[Epoch, Callable[[], State]], None],
) -> Trained:
    """Run epochs until `patience` of them brought no improvement, or `max_epochs` are over.

    Parameters
    ----------
    task, settings, state
        The data, the parameters, and where to start.
    after : callable
        Called with each epoch, and a function that returns the state to save.
    """
    trainer = Trainer(task, settings, state)
    epochs, best_weights = list(state.epochs), state.best_weights
    with reproducible(trainer.torch):
        while not finished(epochs, settings):
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
            f"Lower learning_rate={trainer.settings.learning_rate}."
        )
    ndcg = trainer.ndcg()
    # without a hold-out NDCG is NaN, which is not <= anything: the last epoch is the best
    return Epoch(number, loss, ndcg, not ndcg <= max((e.ndcg for e in before), default=-1.0))


def best_epoch(epochs: list[Epoch]) -> int:
    """Number of the epoch whose weights are kept; 0 before the first."""
    return max((epoch.number for epoch in epochs if epoch.best), default=0)


def finished(epochs: list[Epoch], settings: Settings) -> bool:
    """Whether training is over."""
    waited = len(epochs) - best_epoch(epochs)
    return len(epochs) >= settings.max_epochs or waited >= settings.patience


def validation_users(held_out: sp.csr_array) -> NDArray[np.intp]:
    """Return the users with held-out items; an evenly spaced sample if there are many."""
    users = np.flatnonzero(np.diff(held_out.indptr))
    step = -(-len(users) // VALIDATION_USERS)
    return users[:: max(1, step)]


def build_model(torch: Any, n_nodes: int, settings: Settings) -> Any:
    """Return PyTorch Geometric's LightGCN; it receives a graph that is already normalized."""
    nn = require_extra("torch_geometric.nn", "lightgcn", "LightGCN")
    with torch.random.fork_rng(devices=[]):  # it draws weights, which are replaced
        return nn.LightGCN(n_nodes, settings.n_components, settings.n_layers, normalize=False)


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

"""Training that was interrupted goes on where it was: one file, whole or not at all, no pickle."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from equipoise.exceptions import ArtefactError, InvalidParameterError
from equipoise.files import write_whole
from equipoise.models.lightgcn.training import Epoch, Recipe, State, Task

# Raised when what is stored, or what it means, changes.
_FORMAT = 1
# How long to train may change between two runs; all else makes it another training.
_FREE = ("max_epochs", "patience", "device")
_DAMAGE = (zipfile.BadZipFile, OSError, EOFError, ValueError, KeyError, TypeError)


class Checkpoint:
    """The file of one training.

    Parameters
    ----------
    path : Path
        Where it is, or will be.
    task, recipe, state
        The training it belongs to, from its very beginning: data, settings, seed.
    """

    def __init__(self, path: Path, task: Task, recipe: Recipe, state: State) -> None:
        self.path = path
        self.identity = _identity(task, recipe, state)

    def load(self) -> State | None:
        """Return the state that was saved last, or None if there is none.

        Raises
        ------
        InvalidParameterError
            If the file belongs to other data, settings or another seed.
        ArtefactError
            If it is damaged.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                facts = json.loads(str(stored["facts"]))
                arrays = {name: stored[name] for name in stored.files}
            identity, epochs = facts["identity"], [Epoch(*epoch) for epoch in facts["epochs"]]
            state = State(
                arrays["weights"],
                (arrays["first_moment"], arrays["second_moment"]),
                arrays["best_weights"],
                epochs,
                facts["generator"],
            )
        except _DAMAGE as error:
            message = (
                f"{self.path} is no checkpoint of LightGCN, or a damaged one ({error}). "
                "Delete it to train from the beginning, or name another file."
            )
            raise ArtefactError(message) from error
        if identity != self.identity:
            raise InvalidParameterError(
                f"{self.path} belongs to another training: other data, other parameters or "
                "another seed. Delete it to train from the beginning, or name another file."
            )
        return state

    def save(self, state: State) -> None:
        """Replace what was saved before."""
        facts = {
            "identity": self.identity,
            "epochs": state.epochs,
            "generator": state.generator,
        }

        def fill(file: IO[bytes]) -> None:
            np.savez(
                file,
                facts=np.array(json.dumps(facts)),
                weights=state.weights,
                first_moment=state.moments[0],
                second_moment=state.moments[1],
                best_weights=state.best_weights,
            )

        write_whole(self.path, fill)


def _identity(task: Task, recipe: Recipe, state: State) -> str:
    settings: dict[str, Any] = {k: v for k, v in asdict(recipe).items() if k not in _FREE}
    settings |= {"format": _FORMAT, "generator": state.generator, "shape": list(task.train.shape)}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=int).encode())
    parts = [task.train] if task.held_out is None else [task.train, task.held_out]
    for part in parts:
        digest.update(part.indptr.astype("<i8").data)
        digest.update(part.indices.astype("<i8").data)
    return digest.hexdigest()

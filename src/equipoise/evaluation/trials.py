"""What a search returns: its trials, the frontier, the choice and its score on test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from equipoise.evaluation.cache import number_or_none
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.results import Results, write_table
from equipoise.models import ItemWeightedPCA
from equipoise.models.item_weighted_pca import SpectralFilter
from equipoise.models.preference import ValueTransform


@dataclass(frozen=True)
class Trial:
    """One setting and what it scored on validation.

    Attributes
    ----------
    value_transform, user_scaling, gamma, rank, spectral_filter, filter_strength
        As in `ItemWeightedPCA`; the rank is its n_components.
    scores : mapping of str to float
        The objective, the limited metrics and those of the trade-off.
    """

    value_transform: ValueTransform | None
    user_scaling: float
    gamma: float
    rank: int
    spectral_filter: SpectralFilter
    filter_strength: float
    scores: Mapping[str, float]

    def parameters(self) -> dict[str, Any]:
        """Arguments of `ItemWeightedPCA`."""
        return {
            "n_components": self.rank,
            "gamma": self.gamma,
            "spectral_filter": self.spectral_filter,
            "filter_strength": self.filter_strength,
            "user_scaling": self.user_scaling,
            "value_transform": self.value_transform,
        }

    def model(self) -> ItemWeightedPCA:
        """The unfitted model."""
        return ItemWeightedPCA(**self.parameters())

    def row(self) -> dict[str, Any]:
        """One row of a table: parameters, then scores."""
        scores = {name: number_or_none(value) for name, value in self.scores.items()}
        return {**self.parameters(), **scores}


@dataclass(frozen=True)
class Tuning:
    """What `tune` returns.

    Attributes
    ----------
    trials : tuple of Trial
        Every setting that was tried.
    choice : Trial
        The best that keeps the limits.
    frontier : tuple of Trial
        Those that no other beats in all targets at once, best objective first.
    goal : Goal
        What was asked for.
    test : Results or None
        The choice, refitted on train + validation, on the test part; None without a test part
        and after an interruption.
    complete : bool
        False after an interruption: the choice is the best of what was tried until then.
    """

    trials: tuple[Trial, ...]
    choice: Trial
    frontier: tuple[Trial, ...]
    goal: Goal
    test: Results | None
    complete: bool = True

    def model(self) -> ItemWeightedPCA:
        """The chosen model, unfitted: ``tuning.model().fit(interactions)``."""
        return self.choice.model()

    def constructor(self) -> str:
        """The choice as a line of Python: what differs from the defaults."""
        default = ItemWeightedPCA().get_params(deep=False)
        given = {k: v for k, v in self.choice.parameters().items() if v != default[k]}
        return f"ItemWeightedPCA({', '.join(f'{k}={v!r}' for k, v in given.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the trials that are not on the frontier, as JSON wants it."""
        return {
            "complete": self.complete,
            "maximize": ("-" if self.goal.sign < 0 else "") + self.goal.target.label,
            "subject_to": [str(limit) for limit in self.goal.limits],
            "n_trials": len(self.trials),
            "choice": self.choice.row(),
            "frontier": [trial.row() for trial in self.frontier],
            "test": None if self.test is None else self.test.to_dicts(),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text; equal results give equal text."""
        return json.dumps(self.to_dict(), indent=1)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write every trial with a header; nan is empty."""
        rows = [trial.row() for trial in self.trials]
        write_table(path, list(rows[0]), rows)

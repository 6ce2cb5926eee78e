"""What a search returns: its trials, the frontier, the choice and its score on test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from sklearn.base import clone

from equipoise.evaluation.cache import number_or_none
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.results import Results, write_table
from equipoise.models import Recommender


@dataclass(frozen=True)
class Trial:
    """One setting of a model and what it scored on validation.

    Attributes
    ----------
    settings : mapping of str to value
        The parameters that were searched, with the values of this trial.
    scores : mapping of str to float
        The objective, the limited metrics and those of the trade-off.
    base : Recommender
        The unfitted model that the settings belong to.
    """

    settings: Mapping[str, Any]
    scores: Mapping[str, float]
    base: Recommender = field(compare=False, repr=False)

    @property
    def rank(self) -> int | None:
        """Number of components; None for a model without."""
        own = self.base.get_params(deep=False).get("n_components")
        rank: int | None = self.settings.get("n_components", own)
        return rank

    def parameters(self) -> dict[str, Any]:
        """Return the settings as arguments of the model."""
        return dict(self.settings)

    def model(self) -> Recommender:
        """The unfitted model."""
        made: Recommender = clone(self.base).set_params(**self.settings)
        return made

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

    def model(self) -> Recommender:
        """The chosen model, unfitted: ``tuning.model().fit(interactions)``."""
        return self.choice.model()

    def constructor(self) -> str:
        """The choice as a line of Python: what differs from the defaults."""
        model = self.model()
        default = type(model)().get_params(deep=False)
        values = {**self.choice.settings, **model.get_params(deep=False)}
        given = [
            f"{name}={value!r}"
            for name, value in values.items()
            if repr(value) != repr(default[name])
        ]
        return f"{type(model).__name__}({', '.join(given)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the trials that are not on the frontier, as JSON wants it."""
        return {
            "complete": self.complete,
            "model": type(self.choice.base).__name__,
            "maximize": ("-" if self.goal.sign < 0 else "") + self.goal.target.label,
            "subject_to": [str(limit) for limit in self.goal.limits],
            "n_trials": len(self.trials),
            "choice": self.choice.row(),
            "frontier": [trial.row() for trial in self.frontier],
            "test": None if self.test is None else self.test.to_dicts(),
        }

    def to_json(self) -> str:
        """Return `to_dict` as text; equal results give equal text."""
        return json.dumps(self.to_dict(), indent=1, default=str)

    def write_csv(self, path: str | PathLike[str]) -> None:
        """Write every trial with a header; nan is empty."""
        rows = [trial.row() for trial in self.trials]
        write_table(path, list(rows[0]), rows)

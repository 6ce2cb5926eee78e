"""What has to be fitted: models × gammas, each once at its largest rank where ranks are nested."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from equipoise.data.interactions import Interactions
from equipoise.evaluation.cost import Effort, Measured
from equipoise.exceptions import InvalidParameterError
from equipoise.models import ItemWeightedPCA, Recommender
from equipoise.models.projection import ProjectionModel
from equipoise.models.registry import RANKS, ModelEntry, find_models
from equipoise.progress import Progress

Model = Recommender | NDArray[Any]
Models = Mapping[str, Model] | Sequence[Recommender | str] | Recommender | str

# A prefix may end between two close eigenvalues, where components converge last: on MovieLens at
# rank 32 a residual of 1e-6 still moves the fourth digit of recall.
_TOLERANCE = 1e-8


class Job(NamedTuple):
    """One fit, and the ranks to read off it.

    Attributes
    ----------
    name : str
        What the table calls the model.
    model : Recommender or ndarray
        Unfitted, with the largest rank; or lists that somebody else's model recommended.
    gamma : float or None
        γ, where the model has one.
    ranks : tuple of int
        In rising order; empty for models without ranks.
    """

    name: str
    model: Model
    gamma: float | None
    ranks: tuple[int, ...]

    def settings(self) -> dict[str, Any] | None:
        """What identifies the fit in a cache; None where nothing safe does."""
        if not isinstance(self.model, Recommender):
            digest = hashlib.sha256(np.ascontiguousarray(self.model).tobytes()).hexdigest()
            return {"lists": digest, "ranks": list(self.ranks)}
        parameters = {k: _plain(v) for k, v in self.model.get_params(deep=False).items()}
        if any(value is _UNSAFE for value in parameters.values()):
            return None
        return {
            "model": type(self.model).__name__,
            "parameters": parameters,
            "ranks": list(self.ranks),
        }


_UNSAFE = object()


def _plain(value: Any) -> Any:
    """A parameter as JSON, or _UNSAFE: a function's name does not say what it computes."""
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, np.generic):
        value = value.item()
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return _UNSAFE
    return value


def default_models() -> dict[str, Model]:
    """The paper's three."""
    return models_by_key(["pca", "normalized", "item-weighted"])


def models_by_key(keys: Iterable[str]) -> dict[str, Model]:
    """Models by their names on the command line, with their titles in the registry.

    Examples
    --------
    >>> {title: type(model).__name__ for title, model in models_by_key(["pca", "ease"]).items()}
    {'PCA': 'VanillaPCA', 'EASE': 'EASE'}
    """
    return {entry.title: _made(entry) for entry in find_models(keys)}


def _made(entry: ModelEntry) -> Recommender:
    nested = issubclass(entry.load_class(), ProjectionModel)
    return entry.make(tol=_TOLERANCE) if nested else entry.make()


def default_ranks(n_items: int, ranks: Sequence[int] = RANKS) -> tuple[int, ...]:
    """Those of the usual ranks that the number of items allows; where it allows none, itself.

    Examples
    --------
    >>> default_ranks(1529)
    (4, 8, 16, 32, 64, 128)
    >>> default_ranks(3)
    (3,)
    """
    return tuple(rank for rank in ranks if rank <= n_items) or (n_items,)


def plan(
    models: Models | None,
    ranks: Sequence[int] | None,
    gammas: Sequence[float] | None,
    n_items: int,
) -> list[Job]:
    """List every fit; models of one name that differ in γ alone follow each other."""
    rising = checked_ranks(default_ranks(n_items) if ranks is None else ranks, n_items)
    return [
        job for name, model in _named(models).items() for job in _jobs(name, model, rising, gammas)
    ]


def _jobs(
    name: str, model: Model, ranks: tuple[int, ...], gammas: Sequence[float] | None
) -> Iterator[Job]:
    if not isinstance(model, ProjectionModel):
        yield from _jobs_rank_by_rank(name, model, ranks)
        return
    # Under an error budget rank r is a problem of its own: no prefix of a larger one solves it.
    nested = getattr(model, "error_budget", None) is None
    for fitted_ranks in [ranks] if nested else [(r,) for r in ranks]:
        base = clone(model).set_params(n_components=max(fitted_ranks))
        if not isinstance(model, ItemWeightedPCA) or model.item_weights is not None:
            yield Job(name, base, None, fitted_ranks)
            continue
        for gamma in [model.gamma] if gammas is None else gammas:
            weighted = clone(base).set_params(gamma=float(gamma))
            yield Job(name, weighted, float(gamma), fitted_ranks)


def _jobs_rank_by_rank(name: str, model: Model, ranks: tuple[int, ...]) -> Iterator[Job]:
    """Models whose rank r is no prefix of a larger one; those without a rank are fitted once."""
    if isinstance(model, Recommender) and has_rank(model):
        for rank in ranks:
            yield Job(name, clone(model).set_params(n_components=rank), None, (rank,))
    else:
        yield Job(name, model, None, ())


def has_rank(model: Recommender) -> bool:
    """Whether the user sets a number of components."""
    return "n_components" in model.get_params(deep=False)


def _named(models: Models | None) -> dict[str, Model]:
    if models is None:
        return default_models()
    if isinstance(models, Mapping):
        named = dict(models)
    else:
        named = _listed([models] if isinstance(models, Recommender | str) else list(models))
    for name, model in named.items():
        if not isinstance(model, Recommender | np.ndarray):
            raise InvalidParameterError(
                f"model {name!r} must be an equipoise model, or an array of recommended lists "
                f"(users × k item columns, best first), got {type(model).__name__}."
            )
    if not named:
        raise InvalidParameterError("models is empty. Pass at least one, or leave it out.")
    return named


def _listed(models: Sequence[Recommender | str]) -> dict[str, Model]:
    named: dict[str, Model] = {}
    for model in models:
        new = models_by_key([model]) if isinstance(model, str) else {type(model).__name__: model}
        if set(new) & set(named):
            raise InvalidParameterError(
                "two of the models are of one class, so that the table could not tell them "
                'apart. Name them: models={"one": …, "other": …}.'
            )
        named |= new
    return named


def checked_ranks(ranks: Sequence[int], n_items: int) -> tuple[int, ...]:
    """Ranks in rising order, each once; refuses those that the data cannot have."""
    rising = tuple(sorted({int(r) for r in ranks}))
    if not rising or rising[0] < 1 or rising[-1] > n_items:
        raise InvalidParameterError(
            f"ranks must be whole numbers from 1 to {n_items}, the number of items, "
            f"got {list(ranks)}."
        )
    return rising


def fitted(
    jobs: Sequence[Job], X: Interactions, progress: Progress
) -> Iterator[tuple[Recommender, Effort]]:
    """Fit jobs of one model one after the other; those that differ in γ share what they can.

    The time of fits that share their work is told in equal parts, the memory as a whole.
    """
    first = jobs[0].model
    if isinstance(first, ItemWeightedPCA) and len(jobs) > 1:
        gammas = [job.gamma for job in jobs if job.gamma is not None]
        with Measured() as measured:
            path = first.fit_path(X.matrix, gammas, progress=progress)
        seconds, peak = measured.effort
        yield from ((model, Effort(seconds / len(path), peak)) for model in path)
        return
    for job in jobs:
        with Measured() as measured:
            model = clone(job.model).fit(X.matrix, progress=progress)
        yield model, measured.effort

"""The search space: what has to be fitted, and what is free once it is."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.evaluation.jobs import checked_ranks, default_ranks
from equipoise.exceptions import InvalidParameterError
from equipoise.models import ItemWeightedPCA
from equipoise.models.item_weighted_pca import SPECTRAL_FILTERS, SpectralFilter
from equipoise.models.preference import VALUE_TRANSFORMS, ValueTransform
from equipoise.models.registry import MODELS

# Positions in the transforms, scalings and gammas of a grid: what one fit is made with.
Place = tuple[int, ...]


class Filter(NamedTuple):
    """A spectral filter and its strength."""

    kind: SpectralFilter = "hard"
    strength: float = 0.0

    def strengths(self, model: ItemWeightedPCA) -> NDArray[Any]:
        """f(λ) of a fitted model under this filter."""
        graded = copy.copy(model).set_params(
            spectral_filter=self.kind, filter_strength=self.strength
        )
        return np.asarray(graded.strengths())


# Around the paper's choice (γ = -1, hard).
DEFAULT_GAMMAS: tuple[float, ...] = MODELS["item-weighted"].search["gamma"]
DEFAULT_SCALINGS: tuple[float, ...] = MODELS["item-weighted"].search["user_scaling"]
DEFAULT_FILTERS = (
    Filter("hard"),
    Filter("power", 1 / 8),
    Filter("power", 1 / 4),
    Filter("power", 3 / 8),
    Filter("power", 1 / 2),
    Filter("ridge", 0.01),
    Filter("ridge", 0.03),
    Filter("ridge", 0.1),
)


@dataclass(frozen=True)
class Grid:
    """Every combination to try.

    One fit serves all `ranks` and all `filters`; fits along `gammas` share the Gram matrix;
    `scalings` and `transforms` change the data and begin anew.
    """

    gammas: tuple[float, ...]
    ranks: tuple[int, ...]
    filters: tuple[Filter, ...]
    scalings: tuple[float, ...]
    transforms: tuple[ValueTransform | None, ...]

    @classmethod
    def of(
        cls,
        train: sp.csr_array,
        gammas: Sequence[float] | None,
        ranks: Sequence[int] | None,
        filters: Sequence[Filter | tuple[SpectralFilter, float]] | None,
        scalings: Sequence[float] | None,
        transforms: Sequence[ValueTransform | None] | None,
    ) -> Self:
        """Fill in the defaults for this data, and check what was given."""
        n_items = train.shape[1]
        if ranks is None:
            ranks = default_ranks(n_items)
        if transforms is None:
            transforms = default_transforms(train)
        grid = cls(
            tuple(sorted(map(float, DEFAULT_GAMMAS if gammas is None else gammas), reverse=True)),
            tuple(sorted({int(r) for r in ranks})),
            tuple(_filter(one) for one in (DEFAULT_FILTERS if filters is None else filters)),
            tuple(sorted(map(float, DEFAULT_SCALINGS if scalings is None else scalings))),
            tuple(transforms),
        )
        grid._check(n_items)
        return grid

    def _check(self, n_items: int) -> None:
        for name in ("gammas", "ranks", "filters", "scalings", "transforms"):
            if not getattr(self, name):
                raise InvalidParameterError(f"the search has no {name}: give at least one.")
        checked_ranks(self.ranks, n_items)
        for transform in self.transforms:
            if transform is not None and transform not in VALUE_TRANSFORMS:
                raise InvalidParameterError(
                    f"value transforms are None and {list(VALUE_TRANSFORMS)}, got {transform!r}."
                )

    @property
    def places(self) -> list[Place]:
        """Every fit, by its positions in `transforms`, `scalings` and `gammas`."""
        lengths = (len(self.transforms), len(self.scalings), len(self.gammas))
        return list(product(*map(range, lengths)))

    def parameters(self, place: Place) -> list[dict[str, Any]]:
        """Arguments of `ItemWeightedPCA` for every filter and rank that one fit serves."""
        t, a, g = place
        return [
            {
                "n_components": rank,
                "gamma": self.gammas[g],
                "spectral_filter": one.kind,
                "filter_strength": one.strength,
                "user_scaling": self.scalings[a],
                "value_transform": self.transforms[t],
            }
            for one, rank in product(self.filters, self.ranks)
        ]


def default_transforms(train: sp.csr_array) -> tuple[ValueTransform | None, ...]:
    """Every value transform on data with different values; none where all are equal.

    Examples
    --------
    >>> default_transforms(sp.csr_array([[1.0, 1.0]])), default_transforms(sp.csr_array([[1.0, 3]]))
    ((None,), (None, 'binary', 'log1p', 'one_plus'))
    """
    values = train.data
    if len(values) == 0 or values.min() == values.max():
        return (None,)
    return (None, *VALUE_TRANSFORMS)


def _filter(given: Filter | tuple[SpectralFilter, float]) -> Filter:
    made = Filter(*given) if not isinstance(given, str) else Filter(given)
    if made.kind not in SPECTRAL_FILTERS or not made.strength >= 0:
        raise InvalidParameterError(
            f"a filter is a pair of one of {list(SPECTRAL_FILTERS)} and a strength of at least 0, "
            f"got {given!r}."
        )
    return made

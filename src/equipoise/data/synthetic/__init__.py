"""Synthetic data: the demo, matrices of the paper's theorems, data of any size for benchmarks."""

from __future__ import annotations

from equipoise.data.synthetic.benchmark import scale
from equipoise.data.synthetic.demo import listening
from equipoise.data.synthetic.theory import (
    ExclusiveTastes,
    PlantedSpectrum,
    bernoulli,
    exclusive_tastes,
    item_regular_blocks,
    planted_spectrum,
    popular_and_rare,
)

__all__ = [
    "ExclusiveTastes",
    "PlantedSpectrum",
    "bernoulli",
    "exclusive_tastes",
    "item_regular_blocks",
    "listening",
    "planted_spectrum",
    "popular_and_rare",
    "scale",
]

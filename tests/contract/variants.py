"""Every model of the registry, small enough to be fitted a thousand times."""

from __future__ import annotations

from typing import Any

import pytest

from equipoise.models import Recommender
from equipoise.models.registry import MODELS

# What to test: a name, the model's key in the registry, and parameters that suit 14 items.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "item-weighted": ("item-weighted", {"n_components": 3}),
    "item-weighted, graded": (
        "item-weighted",
        {
            "n_components": 3,
            "gamma": -1.5,
            "spectral_filter": "power",
            "filter_strength": 0.4,
            "user_scaling": 0.5,
            "value_transform": "log1p",
        },
    ),
    "item-weighted, ridge": (
        "item-weighted",
        {
            "n_components": 3,
            "spectral_filter": "ridge",
            "filter_strength": 0.1,
            "value_transform": "binary",
        },
    ),
    "item-weighted, budget": ("item-weighted", {"n_components": 3, "error_budget": 0.05}),
    "item-weighted, callable": (
        "item-weighted",
        {"n_components": 3, "item_weights": lambda p: 1 / (1 + p)},
    ),
    "local-global": ("local-global", {"n_components": 3}),
    "local-global, few neighbors": (
        "local-global",
        {
            "n_components": 3,
            "gamma": -1.4,
            "user_scaling": 0.5,
            "ridge": 0.03,
            "local_weight": 0.8,
            "popularity_discount": 0.2,
            "n_neighbors": 4,
            "value_transform": "log1p",
        },
    ),
    "local-global, callable": (
        "local-global",
        {"n_components": 3, "item_weights": lambda p: 1 / (1 + p)},
    ),
    "pca": ("pca", {"n_components": 3}),
    "normalized": ("normalized", {"n_components": 3}),
    "max-min": ("max-min", {"n_components": 3, "groups": 3}),
    "max-min, Nash, graded": (
        "max-min",
        {
            "n_components": 3,
            "groups": 3,
            "welfare": "nash",
            "spectral_filter": "power",
            "filter_strength": 0.4,
            "user_scaling": 0.5,
            "value_transform": "log1p",
        },
    ),
    "max-min, budget": ("max-min", {"n_components": 3, "groups": 3, "error_budget": 0.05}),
    "max-min, floors": ("max-min", {"n_components": 3, "groups": 2, "floors": 0.05}),
    "fair-pca": ("fair-pca", {"n_components": 3, "groups": 3}),
    "fair-pca, map": (
        "fair-pca",
        {"n_components": 3, "groups": 4, "balance": "share", "fractional": "map"},
    ),
    "fair-pca, disparity": ("fair-pca", {"n_components": 3, "groups": 2, "max_disparity": 5.0}),
    "fair-pca, budget": ("fair-pca", {"n_components": 3, "groups": 3, "error_budget": 0.05}),
    "hidden-groups": ("hidden-groups", {"n_components": 3}),
    "hidden-groups, covariance": ("hidden-groups", {"n_components": 3, "covariance": 20.0}),
    "covariance-regularized": (
        "covariance-regularized",
        {"n_components": 3, "max_covariance": 0.5},
    ),
    "long-tail": ("long-tail", {"n_components": 3}),
    "weighted-mf": ("weighted-mf", {"n_components": 3}),
    "lightgcn": ("lightgcn", {"n_components": 3, "max_epochs": 5}),
    "ease": ("ease", {"regularization": 1.0}),
    "ease, 0/1": ("ease", {"regularization": 1.0, "value_transform": "binary"}),
    "gfcf": ("gfcf", {"n_components": 3}),
    "gfcf, one plus": ("gfcf", {"n_components": 3, "value_transform": "one_plus"}),
    "item-knn": ("item-knn", {"n_neighbors": 13}),
    "item-knn, few neighbors": (
        "item-knn",
        {"n_neighbors": 3, "shrinkage": 1.0, "value_transform": "log1p"},
    ),
    "popularity": ("popularity", {}),
    "random": ("random", {"random_state": 3}),
    "ips-mf": ("ips-mf", {"n_components": 3}),
    "popularity-mf": ("popularity-mf", {"n_components": 3}),
    "trace-norm": ("trace-norm", {"penalty": 0.1}),
    "trace-norm, log": ("trace-norm", {"penalty": 0.1, "value_transform": "log1p"}),
}
# These do not look at what a user did.
BASELINES = {"popularity", "random"}


def named(*keys: str) -> list[Any]:
    """Variants of some models, loudly skipped where an extra is missing; of all by default."""
    return [
        pytest.param(name, marks=_marks(name, key))  # `make quick` runs one variant of a model
        for name, (key, _) in VARIANTS.items()
        if not keys or key in keys
    ]


def _marks(name: str, key: str) -> list[pytest.MarkDecorator]:
    reason = f"{name} was NOT tested: {MODELS[key].install_command}"
    skipped = pytest.mark.skipif(not MODELS[key].installed, reason=reason)
    extra = [pytest.mark.torch] * (key == "lightgcn") + [pytest.mark.medium] * (", " in name)
    return [skipped, *extra]


def build(name: str, **changes: Any) -> Recommender:
    """A fresh model; changes apply where it has such a parameter."""
    key, parameters = VARIANTS[name]
    model = MODELS[key].make(**parameters)
    known = model.get_params(deep=False)
    return model.set_params(**{k: v for k, v in changes.items() if k in known})

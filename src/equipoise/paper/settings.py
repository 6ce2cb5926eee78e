"""What a reader needs to get the same numbers: settings and versions."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from equipoise import __version__
from equipoise.data.split import PAPER_SEED
from equipoise.paper.protocol import DATASETS, GAMMAS, USER_METRICS, item_ranks, user_ranks

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib", "cvxpy", "implicit")


def settings(*, quick: bool) -> dict[str, Any]:
    """How everything was measured, as plain values."""
    return {
        "quick": quick,
        "split": f"of each user's items a fifth is test, a tenth validation; seed {PAPER_SEED}",
        "fit": "train + validation, float64, eigenvector residuals below 1e-8",
        "in-sample ranks": {
            data.title: list(item_ranks(data.n_items, quick=quick)) for data in DATASETS.values()
        },
        "out-of-sample ranks": {
            data.title: list(user_ranks(data.n_items)) for data in DATASETS.values()
        },
        "out-of-sample metrics": list(USER_METRICS),
        "users without test items": "count 0",
        "popularity groups": "by mass at 10 % and 90 % (published code); tenths of the items by "
        "norm (text) where both are shown",
        "gammas": list(GAMMAS),
    }


def versions() -> dict[str, str]:
    """Of this package, of Python, and of what the numbers and pictures depend on."""
    found = {"equipoise": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found

"""What workers run in the fault tests; a module, so that they can import it."""

from __future__ import annotations

import time

import numpy as np


class SlowModel:
    """A model that takes its time over every block."""

    def __init__(self, model, seconds: float) -> None:
        self.model, self.seconds = model, seconds
        self.item_ids_, self.n_features_in_ = model.item_ids_, model.n_features_in_

    def recommend(self, user_items, N=10, **options):
        time.sleep(self.seconds)
        return self.model.recommend(user_items, N, **options)


def slowly(X, seconds: float, prepare=None):
    """Take some time over a block before it is multiplied."""
    time.sleep(seconds)
    return X if prepare is None else prepare(X)


def hog(_block) -> int:
    """Take more and more memory, as a block too large would."""
    held = []
    for _ in range(80):
        held.append(np.ones(4_000_000))  # 32 MB
        time.sleep(0.02)
    return len(held)


def out_of_memory(_block) -> None:
    raise MemoryError


def not_allowed(_block) -> None:
    raise PermissionError("not yours")

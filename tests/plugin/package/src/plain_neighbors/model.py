"""Scores X B, where B counts the users that two items share."""

from typing import ClassVar

import numpy as np

from equipoise.models import ItemItem, Recommender


class PlainNeighbors(Recommender):
    """Items with common users are similar; `power` reduces the weight of popular items."""

    about: ClassVar = {
        "title": "Plain neighbors",
        "paper": "Nobody 2026",
        "computation": "closed form",
        "search": {"power": (0.0, 0.5, 1.0)},
    }

    def __init__(self, power=0.5):
        self.power = power

    def _fit(self, data):
        gram = data.binarize().dense_gram()
        shared = gram.C * gram.scale
        counts = np.maximum(shared.diagonal(), 1.0) ** self.power
        np.fill_diagonal(shared, 0.0)
        self.shared_users_ = shared / counts[:, None] / counts

    def _scores(self, user_items):
        return user_items @ self.shared_users_

    def item_item(self):
        return ItemItem(self.shared_users_, lambda rows: rows)

    def _similarities(self, item):
        return np.where(self.shared_users_[item] > 0, self.shared_users_[item], -np.inf)

"""The contract test finds the faults that it is for."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise import EASE
from equipoise.models import Recommender
from equipoise.testing import check_recommender


class MostPlayed(Recommender):
    """The smallest model: two methods."""

    def __init__(self, power=1.0):
        self.power = power

    def _fit(self, data):
        self.plays_ = data.popularity("sum") ** self.power

    def _scores(self, user_items):
        return np.tile(self.plays_, (user_items.shape[0], 1))


class ComputesInItsConstructor(MostPlayed):
    def __init__(self, power=1.0):
        self.power = power
        self.cache_ = {}


class DependsOnTheBatch(MostPlayed):
    def _scores(self, user_items):
        return super()._scores(user_items) * user_items.shape[0]


class IsRandom(MostPlayed):
    def _fit(self, data):
        self.plays_ = np.random.default_rng().random(data.n_items)


class ScoresWithNaN(MostPlayed):
    def _scores(self, user_items):
        scores = super()._scores(user_items)
        scores[user_items.sum(axis=1) == 0] = np.nan
        return scores


class ExplainsAnotherScore(MostPlayed):
    def explain(self, user_items, item, k=10):
        return super().explain(user_items, item, k)._replace(rest=1e9)


class RecommendsSeenItems(MostPlayed):
    def recommend(self, user_items, k=10, **options):
        return super().recommend(user_items, k, **options | {"filter_already_liked_items": False})


def test_two_methods_make_a_model():
    check_recommender(MostPlayed(power=0.5))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ComputesInItsConstructor, "check_parameters.*cache_"),
        (DependsOnTheBatch, "check_scores.*other users"),
        (IsRandom, "check_same_results.*second fit"),
        (ScoresWithNaN, "check_scores.*without items"),
        (ExplainsAnotherScore, "check_explanations"),
        (RecommendsSeenItems, "check_lists.*agree"),
    ],
)
def test_each_fault_is_found_and_named(fault, words):
    with pytest.raises(AssertionError, match=words):
        check_recommender(fault())


def test_the_model_passed_in_stays_unfitted():
    model = EASE()
    check_recommender(model)
    assert not hasattr(model, "coefficients_")

"""Planted worlds: each is checked against what was planted, by dense linear algebra."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from equipoise.data import Interactions, synthetic
from equipoise.data.synthetic import benchmark
from equipoise.exceptions import InvalidParameterError


def eigenvectors(M, r):
    return np.linalg.eigh(M)[1][:, ::-1][:, :r]


def weighted(X, gamma):
    """M = ½(DC + CD) with w_j = p_j^γ, dense."""
    C = X.T @ X
    p = np.sqrt(np.diag(C))
    w = np.zeros_like(p)
    w[p > 0] = p[p > 0] ** gamma
    return 0.5 * (w[:, None] * C + C * w)


def specialization(U):
    diagonal = (U**2).sum(axis=1)
    return diagonal[diagonal >= np.quantile(diagonal, 0.9)].mean()


def recall_at_20(X, U, test):
    scores = X @ U @ U.T
    scores[X > 0] = -np.inf
    top = np.argpartition(-scores, 20, axis=1)[:, :20]
    hits = np.take_along_axis(test, top, axis=1).sum(axis=1)
    tested = test.sum(axis=1) > 0
    return (hits[tested] / test[tested].sum(axis=1)).mean()


def components_to_halve_the_error(C, values, U):
    """Error of item j after i components of PCA: C_jj − Σ σ² U_j², by running sums."""
    explained = np.cumsum((U**2 * values)[:, ::-1], axis=1)
    return np.argmax(explained >= 0.5 * np.diag(C)[:, None], axis=1) + 1


class World(NamedTuple):
    X: np.ndarray
    test: np.ndarray
    pca: np.ndarray
    weighted: np.ndarray
    halved_after: np.ndarray


@lru_cache
def solved_world(seed):
    split = synthetic.listening(seed=seed).holdout()
    X = split.train_validation.normalize_rows().matrix.toarray()
    test = split.test.binarize().matrix.toarray()
    C = weighted(X, 0)
    values, U = np.linalg.eigh(C)
    return World(
        X=X,
        test=test,
        pca=U[:, ::-1][:, :32],
        weighted=eigenvectors(weighted(X, -1), 32),
        halved_after=components_to_halve_the_error(C, values, U),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("r", [16, 32])
class TestListeningShowsBothMechanisms:
    @pytest.fixture
    def world(self, seed):
        return solved_world(seed)

    def test_pca_specializes_on_single_hits(self, world, r):
        X, pca = world.X, world.pca
        diagonal = (pca[:, :r] ** 2).sum(axis=1)
        hits = np.sort((X > 0).sum(axis=0))[::-1][:30].min()
        alone = diagonal > 0.9
        assert alone.sum() > r / 2
        assert np.mean((X > 0).sum(axis=0)[alone] >= hits) > 0.8

    def test_item_weighting_specializes_clearly_less(self, world, r):
        pca, weighted_pca = world.pca, world.weighted
        assert specialization(weighted_pca[:, :r]) < 0.8 * specialization(pca[:, :r])

    def test_item_weighting_finds_clearly_more_of_the_hidden_items(self, world, r):
        X, test, pca, weighted_pca = world[:4]
        assert recall_at_20(X, weighted_pca[:, :r], test) > 1.2 * recall_at_20(X, pca[:, :r], test)

    def test_niche_items_need_many_more_components_of_pca_than_hits(self, world, r):
        popular_first = np.argsort(-(world.X > 0).sum(axis=0))
        hits, niche = popular_first[:20], popular_first[300:]
        assert np.median(world.halved_after[hits]) < 2 * r
        assert np.median(world.halved_after[niche]) > 6 * r


class TestListening:
    def test_same_seed_same_table_other_seed_another(self):
        one = synthetic.listening(100, 60, seed=3)
        assert one == synthetic.listening(100, 60, seed=3)
        assert one != synthetic.listening(100, 60, seed=4)

    def test_popularity_and_play_counts_have_heavy_tails(self):
        data = synthetic.listening()
        assert data.shape == (2000, 600)
        summary = data.describe()
        assert summary.popularity_deciles[0] > 0.3
        assert summary.items_per_user.min >= 8
        plays = data.matrix.data
        assert plays.max() > 50 * np.median(plays)
        assert np.all(plays == np.round(plays))

    def test_names_are_unique_and_carry_the_genre(self):
        names = synthetic.listening(10, 2500, seed=0).item_names.tolist()
        assert len(set(names)) == 2500
        assert all(name.endswith(")") and " (" in name for name in names)
        genres = {name.split(" (")[1] for name in names}
        assert len(genres) == 13

    def test_a_world_too_small_is_refused(self):
        with pytest.raises(InvalidParameterError, match="at least 1 user and 60 items"):
            synthetic.listening(10, 59)


class TestPlantedSpectrum:
    def test_svd_finds_what_was_planted(self):
        planted = synthetic.planted_spectrum(50, 30, [5.0, 9.0, 2.0, 0.5], seed=4)
        X = planted.interactions.matrix.toarray()
        assert np.allclose(np.linalg.svd(X, compute_uv=False)[:5], [9, 5, 2, 0.5, 0], atol=1e-12)
        U = planted.right_vectors
        assert np.allclose(U.T @ U, np.eye(4))
        assert np.allclose(X.T @ X @ U, U * np.array([81, 25, 4, 0.25]))

    @pytest.mark.parametrize("values", [[], [1.0, 0.0], [[1.0]]])
    def test_only_positive_numbers_can_be_planted(self, values):
        with pytest.raises(InvalidParameterError, match="flat list of positive numbers"):
            synthetic.planted_spectrum(5, 5, values)

    def test_rank_is_at_most_the_smaller_side(self):
        with pytest.raises(InvalidParameterError, match="3 singular values need"):
            synthetic.planted_spectrum(2, 5, [3, 2, 1])


class TestTheorems:
    def test_instances_weighting_with_minus_two_is_normalized_pca(self):
        data = synthetic.item_regular_blocks([30, 20, 25], [8, 6, 7], [12, 4, 7], seed=1)
        assert data.popularity("count").tolist() == [12] * 8 + [4] * 6 + [7] * 7
        X = data.matrix.toarray()
        assert not X[:30, 8:].any()
        assert not X[30:50, 14:].any()
        normalized = X / np.linalg.norm(X, axis=0)
        assert np.allclose(weighted(X, -2), normalized.T @ normalized)

    def test_blocks_are_checked(self):
        with pytest.raises(InvalidParameterError, match="one entry per block"):
            synthetic.item_regular_blocks([3], [2, 2], [1])
        with pytest.raises(InvalidParameterError, match=r"popularity 4 must be .* 3"):
            synthetic.item_regular_blocks([3], [2], [4])

    def test_baseline_pca_popular_normalized_unpopular_weighted_half_and_half(self):
        r = 4
        world = synthetic.exclusive_tastes(rank=r, beta=2)
        X = world.interactions.matrix.toarray()
        counts = world.interactions.popularity("count")
        assert set(counts[: world.n_popular]) == {world.users_per_popular_item}
        assert set(counts[world.n_popular :]) == {world.users_per_unpopular_item}
        popular_share = {
            gamma: (eigenvectors(weighted(X, gamma), r)[: world.n_popular] ** 2).sum()
            for gamma in (0, -2)
        }
        assert popular_share == pytest.approx({0: r, -2: 0}, abs=1e-9)
        values = np.sort(np.linalg.eigvalsh(weighted(X, -1)))[::-1][: 2 * r]
        assert np.allclose(values[::2], values[1::2])
        assert np.allclose(values[0] / values[::2], 2.0 ** np.arange(r))

    def test_baseline_needs_a_large_gap(self):
        with pytest.raises(InvalidParameterError, match=r"ratio=8 must exceed .* = 8"):
            synthetic.exclusive_tastes(rank=4, beta=2, ratio=8)
        with pytest.raises(InvalidParameterError, match="beta 2 or more"):
            synthetic.exclusive_tastes(beta=1)

    def test_unfair_pca_tends_to_the_identity_on_popular_items(self):
        def distance(n):
            X = synthetic.popular_and_rare(n, 5, 10, seed=0).matrix.toarray()
            U = eigenvectors(X.T @ X, 5)
            return np.linalg.norm(U @ U.T - np.diag([1.0] * 5 + [0.0] * 10))

        assert distance(20_000) < 0.1 * distance(200)
        rare = synthetic.popular_and_rare(100, 5, 10, users_per_rare_item=3)
        assert set(rare.popularity("count")[5:]) == {3}
        with pytest.raises(InvalidParameterError, match="users_per_rare_item=9 must be from 1 to"):
            synthetic.popular_and_rare(8, 2, 2, users_per_rare_item=9)


class TestScale:
    def test_counts_are_exact_and_seeded(self):
        data = synthetic.scale(3000, 500, 60_000, seed=2)
        assert data.shape == (3000, 500)
        assert data.nnz == 60_000
        assert data.matrix.dtype == np.float32
        assert data.matrix.data.min() >= 1
        assert data == synthetic.scale(3000, 500, 60_000, seed=2)
        assert data != synthetic.scale(3000, 500, 60_000, seed=3)

    def test_parts_are_users_of_one_world_and_add_up(self):
        parts = list(benchmark.scale_in_parts(3000, 500, 60_001, 4, seed=2))
        assert [part.nnz for part in parts] == [15_000, 15_000, 15_000, 15_001]
        assert np.concatenate([part.user_ids for part in parts]).tolist() == list(range(3000))
        popular = [part.popularity("count") for part in parts]
        assert np.corrcoef(popular).min() > 0.9

    @pytest.mark.medium
    def test_many_blocks_of_users_give_valid_data(self):
        data = synthetic.scale(20_000, 2000, 2_200_000)  # more than one block of draws
        assert data.nnz == 2_200_000
        assert np.diff(data.matrix.indptr)[-100:].sum() > 0

    def test_popularity_is_heavy_tailed_and_the_spectrum_decays_slowly(self):
        data = synthetic.scale(2000, 500, 50_000).binarize()
        assert data.describe().popularity_deciles[0] > 0.3
        sigma = np.linalg.svd(data.matrix.toarray(), compute_uv=False)
        assert sigma[0] > 2 * sigma[1]
        # planted interests stand out of the noise, which ends where the spectrum gets flat
        assert sigma[1] > 2 * sigma[30]
        assert sigma[30] < 1.5 * sigma[60]

    @pytest.mark.parametrize("nnz", [0, 26])
    def test_impossible_counts_are_refused(self, nnz):
        with pytest.raises(InvalidParameterError, match=f"nnz={nnz} must be .* quarter"):
            synthetic.scale(10, 10, nnz)


def test_every_world_is_interactions():
    for world in (
        synthetic.listening(20, 60),
        synthetic.item_regular_blocks([3], [2], [1]),
        synthetic.scale(50, 40, 100),
    ):
        assert isinstance(world, Interactions)
